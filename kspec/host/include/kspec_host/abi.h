// What a compiled kernel module and the runtime (host/rt) tell each other.
//
// Both sides include this file and nothing else of each other. A module has no link dependency on
// the runtime: it receives the table of services through kspec_bind().
#pragma once

namespace kspec_host {

enum { ABI_VERSION = 9, MAX_BLOCK_THREADS = 1024, WARP_SIZE = 32 };

struct Worker;  // one operating-system thread running blocks; opaque to modules

// Where in the source a collective operation was called.
struct Site {
  const char* file;
  int line;
};

enum BarrierKind { BARRIER_SYNC, BARRIER_COUNT, BARRIER_AND, BARRIER_OR, BARRIER_GRID };

enum WarpKind { WARP_SYNC, WARP_SHUFFLE, WARP_BALLOT, WARP_GATHER, WARP_ACTIVE };

// One lane's part of a warp operation. It lives on that lane's stack while the lane waits; the
// last lane to arrive fills `out` of all of them.
struct WarpCall {
  int kind;
  unsigned mask;   // lanes the caller named; after WARP_GATHER the lanes that took part
  int argument;    // WARP_SHUFFLE: lane to read. WARP_BALLOT: the predicate.
  unsigned size;   // bytes of the value at `in`
  const void* in;
  void* out;       // WARP_GATHER: 32 values
  const char* name;
  Site site;
};

// The CUDA thread that asks for a service, and whether its block has threads not yet started.
struct Caller {
  Worker* worker;
  unsigned thread;  // linear index in the block
  bool more;
};

// What an instrumented access does; a set.
enum AccessKind {
  ACCESS_READ = 1,
  ACCESS_WRITE = 2,
  ACCESS_ATOMIC = 4,
  ACCESS_ACQUIRE = 8,   // with ACCESS_ATOMIC: the memory order
  ACCESS_RELEASE = 16,
  ACCESS_VOLATILE = 32,
  ACCESS_COMPARE = 64,  // with ACCESS_ATOMIC: a compare-and-swap, which may only have read
};

// Where a thread of a reviewed kernel comes: to a basic block, into a function, and out of it; the
// runtime adds the barriers of its block.
enum ReviewStep { STEP_BLOCK, STEP_CALL, STEP_RETURN, STEP_BARRIER };

// Undefined operations that instrumented modules report.
enum UndefinedKind {
  UNDEFINED_INDEX,
  UNDEFINED_SHIFT,
  UNDEFINED_DIVISION,
  UNDEFINED_CONVERSION,
  UNDEFINED_POINTER,
  UNDEFINED_VALUE,
  UNDEFINED_RETURN,
  UNDEFINED_LENGTH,
  UNDEFINED_SUM,
  UNDEFINED_DIFFERENCE,
  UNDEFINED_PRODUCT,
  UNDEFINED_NEGATION,
  UNDEFINED_READ,  // of more than a variable has; the data is where
  UNDEFINED_WRITE,
};

// Where the shadow memory of bounds checks begins (rt/shadow.h); the compiler is told the same. High
// enough for CUDA, which wants the addresses from 8 GiB on, and free in processes of Linux.
#define KSPEC_HOST_SHADOW_OFFSET 0x100000000000
enum : unsigned long { SHADOW_OFFSET = KSPEC_HOST_SHADOW_OFFSET };

// A variable as compilers describe it to their sanitizers.
struct Variable {
  const void* address;
  unsigned long size, room;  // bytes it has, and those up to the next variable
  const char* name;
  const void *file, *has_initialiser, *place, *odr;
};

// What a module with bounds checks says about its memory.
struct ModuleMemory {
  const Variable* variables;
  unsigned long variable_count;
  const void *own_begin, *own_end;  // what the dialect keeps in the module, not for kernels to write
  void* (*context_of_thread)();     // the same of each thread
  unsigned long context_bytes;
  void* map;                        // the runtime's
};

struct Runtime {
  int (*barrier)(Caller, int kind, int predicate, Site);
  void (*warp)(Caller, WarpCall*);
  void (*yield)(Caller);
  void (*fail)(Caller, const char* kind, const char* message, Site);
  void (*print)(Worker*, const char* format, __builtin_va_list, const void* pc);
  unsigned long long (*clock)();
  void* (*allocate)(Worker*, unsigned long size, unsigned long alignment, const void* pc);
  void (*release)(Worker*, unsigned thread, void* memory, const void* pc);
  // Only instrumented modules (sanitize=) call these.
  void (*access)(Worker*, unsigned thread, const void* address, unsigned long size, unsigned kind,
                 const void* pc);
  void (*fence)(Worker*, unsigned thread);
  void (*place)(Worker*, unsigned offset, unsigned size, const char* name);  // a __shared__
  void (*undefined)(Caller, int kind, const void* data, unsigned long first, unsigned long second);
  // Only modules with bounds checks call these.
  void (*bounds)(Worker*, unsigned thread, const void* address, unsigned long size, unsigned kind,
                 const void* pc);
  void (*close_frames)(Worker*, void* frame);  // those above, which are not the kernel's
  // Room for the local arrays of a function, null if there is none; a power of two of it.
  void* (*enter_frame)(Worker*, unsigned long size, unsigned long chunk, const void* stack,
                       const void* pc);
  void (*leave_frame)(void* frame, unsigned long size);
  void (*overrun)(Worker*, unsigned thread, const void* kernel);  // it wrote beside a local array
  bool (*reaches)(Worker*, const void* address, unsigned long size);  // all of it is an argument's
  // Only modules compiled for reviews call these: where a thread comes (a ReviewStep), and which of so
  // many tiles the first thread of a block takes next; all others wait for it.
  void (*arrive)(Worker*, unsigned thread, int step, const void* pc);
  void (*tile)(Worker*, unsigned long long number, unsigned long long count);
};

// Whether blocks may run as loops over their threads (loops.h).
enum LoopsFit {
  LOOPS_FIT,
  LOOPS_NOT_HERE,  // others of the grid may
  LOOPS_NEVER,
};

// One block, as the runtime hands it to a module.
struct Block {
  unsigned grid[3], block[3], index[3];
  unsigned thread;                // answer to WHICH_THREAD
  Worker* worker;
  void** parameters;              // as in cuLaunchKernel
  unsigned char* dynamic_shared;
  unsigned char* static_shared;   // arena of static_capacity bytes
  unsigned static_capacity, static_used;
  unsigned file_shared;           // answer to SHARED_BYTES
  unsigned static_redzone;        // unused bytes before each variable
  const unsigned* order;          // linear indices of the threads as they start; null: 0, 1, ...
  bool cooperative;               // all blocks of the grid exist at once
  unsigned* slots;                // offset of each __shared__ variable in the arena, ~0u: not yet
  ModuleMemory* module;           // null: the module has no bounds checks
  unsigned last;                  // of a run of blocks: index[0] of the last of them
  unsigned long dynamic_bytes;    // at dynamic_shared
  LoopsFit fit;                   // answer to FIT_LOOPS
  bool has_avx2;                  // the processor's instructions on 32 bytes
};

enum EntryCall {
  SHARED_BYTES,  // store what __shared__ variables outside functions take in Block::file_shared
  BEGIN_BLOCK,   // set threadIdx & co up for this block on this operating-system thread
  PLACE_SHARED,  // give those variables their places in this block
  RESUME_BLOCK,  // the same for a block all of whose threads have started
  TAKE_THREADS,  // run CUDA threads until all have been started
  FIT_LOOPS,     // store whether the blocks from index[0] to last may run as loops in Block::fit
  RUN_LOOPS,     // do so
  WHICH_THREAD,  // store the running CUDA thread in Block::thread
};

typedef void (*Entry)(int call, Block* block);

// Exported by every module. Returns the number of its __shared__ variables, ~0u if the versions
// differ.
typedef unsigned (*Bind)(const Runtime* runtime, unsigned version);

}  // namespace kspec_host
