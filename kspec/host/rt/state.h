// The data of the runtime: a launch, the worker threads that run it, the fibers of a block.
#pragma once

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "kspec_host/abi.h"

namespace kspec_host {

// Fixed figures. The shared memory limits are those of sm_80 and later.
enum : unsigned {
  // Per CUDA thread that waits: CUDA's 512 KiB of local memory, and room for what compilers add.
  // Untouched pages cost nothing.
  STACK_BYTES = 1024 * 1024,
  SERVICE_STACK_BYTES = 16 * 1024,  // what a service needs of it
  KEPT_STACK_BYTES = 256 * 1024 * 1024,  // of memory that a worker's stacks keep between launches
  STATIC_SHARED_BYTES = 48 * 1024,
  MAX_WARPS = MAX_BLOCK_THREADS / WARP_SIZE,
  MAX_WARP_GROUPS = 32,
};

// Poison of memory nobody has written: NaN in every floating type, -1 in every integer.
enum : unsigned char { POISON = 0xFF };

enum Wait { WAIT_NONE, WAIT_BARRIER, WAIT_WARP, WAIT_YIELD };

// The local arrays of a function that runs.
struct LocalFrame {
  char *begin, *end;
  uintptr_t stack;  // the stack pointer of the function
};

// Memory for them (locals.h).
struct LocalSlab {
  char *begin, *end;
  unsigned frame_count;
  unsigned generation;  // of the shadow that it is closed in, 0: of none
};

// Frames take up to twice their size of it, and leave a quarter unused: the stack is full first.
enum : unsigned { MAX_LOCAL_SLABS = 13 };

// A stack on which CUDA threads run, one after another, until one of them has to wait.
struct Fiber {
  void* stack_pointer;
  Fiber* next;  // in the run queue or in the list of idle fibers
  Worker* worker;
  char* stack;  // lowest address; the first page is a guard
  char* top;
  char* deepest;  // how far down a thread has waited, since the memory was given back
  unsigned thread;  // the CUDA thread that waits here
  int wait;
  WarpCall* call;  // WAIT_WARP: what it wants
  int barrier_kind, predicate, result;
  Site site;
  unsigned generation;  // of the shadow that the stack is open in, 0: it is not
  uintptr_t frames;     // from here on it is closed again: no frames of a kernel's
  LocalSlab slabs[MAX_LOCAL_SLABS];
  unsigned slab;  // the last that has frames
  char returned;  // functions clear it when they return
};

// Lanes of one warp that arrived at the same warp operation.
struct WarpGroup {
  int kind;
  unsigned mask, arrived;
  Site site;
};

struct Warp {
  Fiber* lane[WARP_SIZE];  // waiting lanes
  WarpGroup groups[MAX_WARP_GROUPS];
  unsigned group_count;
};

// Why a launch failed. The first fault wins; Python reads it after the launch.
struct Fault {
  char kind[40];
  char message[4096];
  char file[512];
  int line;                 // 0: unknown
  unsigned long long pc;    // offset in the module's file when in_module, 0: not applicable
  bool in_module;
  bool has_thread;
  unsigned block[3], thread[3];
  unsigned caller_count;
  unsigned long long callers[8];  // calls that lead to pc, innermost first, as offsets like it
};

// Where the running module's code is.
struct ModuleText {
  uintptr_t begin, end, load_address;
  bool holds(uintptr_t pc) const { return pc >= begin && pc < end; }
};

enum Cancel { CANCEL_NONE, CANCEL_TIMEOUT, CANCEL_INTERRUPT };

struct Check;

// Blocks [first, last) in the order of a grid.
struct BlockRange {
  unsigned long long first, last;
};

// Memory that Python names: an array argument.
struct Region {
  uintptr_t begin;
  size_t size;
  const char* name;
  bool read_only;
  bool fresh;  // made for this launch: nothing has been written to it
};

// A __shared__ variable of the running block.
struct SharedVariable {
  unsigned offset, size;
  const char* name;
};

// One launch.
struct Job {
  Block block;  // grid, block and parameters; the rest is each worker's
  Entry entry;
  unsigned long long block_count;
  unsigned long long first_block, last_block;  // and one: of this launch
  unsigned long long chunk;
  unsigned long long next;  // atomic: first block nobody took
  size_t dynamic_bytes;
  unsigned slot_count;
  unsigned long long looped;  // atomic: blocks that ran as loops over their threads
  unsigned helpers;   // to be called once it pays, by the worker that launched
  uint64_t begun;     // when, in nanoseconds
  int failed;  // atomic
  int cancel;  // atomic, a Cancel
  ModuleText text;
  int order;  // an Order (order.h)
  uint64_t seed;
  Check* check;  // null: nothing is checked by a table of its own (check_state.h)
  bool bounds;   // the module asks bounds.h
  const Region* regions;
  unsigned region_count;
  uintptr_t services;  // what modules call, and therefore read
  uintptr_t storage;   // the parameters
  size_t storage_bytes;
  pthread_mutex_t mutex;  // guards fault, printed
  Fault fault;
  char* printed;
  size_t printed_size, printed_capacity;
};

struct Worker {
  Block block;
  Job* job;
  Entry entry;
  EntryCall task;  // what a new fiber does
  bool tries_loops;     // blocks of the launch are asked whether they may run as loops
  unsigned long long looped, refused;  // blocks that did, and answers of one that may not
  bool more;      // threads of the block that have not started
  bool running;   // inside a kernel: faults are the kernel's
  bool recording;  // a fault, with the job's mutex held
  bool aborting;
  unsigned thread_count, suspended;
  Fiber* current;
  Fiber *queue_head, *queue_tail;
  Fiber* idle;
  Fiber* fibers[MAX_BLOCK_THREADS + 1];
  unsigned fiber_count;
  void* main_stack_pointer;
  void* paused;  // where a block of a cooperative launch goes on, null: it does not wait
  bool at_grid;  // it waits in grid.sync()
  Warp warps[MAX_WARPS];
  unsigned warp_count;
  Fiber* at_barrier[MAX_BLOCK_THREADS];
  unsigned at_barrier_count;
  Fiber* yielded[MAX_BLOCK_THREADS];
  unsigned yielded_count;
  char* dynamic_map;
  size_t dynamic_map_bytes, dynamic_bytes;
  char* arena_map;
  size_t arena_bytes;
  unsigned shared_generation;  // of the shadow that shared memory is open in, 0: it is not
  unsigned* slots;
  SharedVariable* places;  // as many as slots
  unsigned place_count;
  unsigned* order;  // where block.order points, kept between launches
  uint64_t random;
  unsigned slot_capacity;
  uintptr_t overflow_at;  // where a service was asked for without a stack to run on
  char* signal_stack;
  pthread_t thread_id;
  unsigned number;  // among the helpers of the pool
};

// The worker of this operating-system thread, null outside a launch.
static thread_local Worker* this_worker;

static inline uint64_t nanoseconds() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

static inline size_t page_bytes() {
  static size_t bytes = 0;
  if (!bytes) bytes = (size_t)sysconf(_SC_PAGESIZE);
  return bytes;
}

static inline size_t round_up(size_t value, size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace kspec_host
