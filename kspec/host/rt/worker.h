// A worker: one operating-system thread that runs blocks, with the memory it keeps between them.
#pragma once

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <fenv.h>

#include "apart.h"
#include "bounds.h"
#include "check.h"
#include "order.h"
#include "scheduler.h"
#include "signals.h"

namespace kspec_host {

static void release_fibers(Worker* worker) {
  worker->idle = nullptr;
  for (unsigned i = 0; i < worker->fiber_count; i++) {
    worker->fibers[i]->next = worker->idle;
    worker->idle = worker->fibers[i];
  }
}

static void reset_block(Worker* worker) {
  worker->more = true;
  worker->aborting = false;
  worker->suspended = 0;
  worker->overflow_at = 0;
  worker->queue_head = worker->queue_tail = nullptr;
  worker->at_barrier_count = worker->yielded_count = 0;
  // Shared memory holds nothing between blocks: a kernel that relies on it must be found out.
  memset(worker->slots, 0xFF, worker->job->slot_count * sizeof(unsigned));
  if (worker->dynamic_bytes) memset(worker->block.dynamic_shared, POISON, worker->dynamic_bytes);
  if (worker->job->check) begin_checked_block(worker);
  if (worker->job->bounds) begin_bounded_block(worker);
}

// Forget the threads of a block that can not go on.
static void abandon_block(Worker* worker) {
  release_fibers(worker);
  // Their shadow is as the interrupted functions left it.
  for (unsigned i = 0; i < worker->fiber_count; i++) close_stack(worker->fibers[i]);
  for (unsigned i = 0; i < worker->warp_count; i++) {
    memset(worker->warps[i].lane, 0, sizeof worker->warps[i].lane);
    worker->warps[i].group_count = 0;
  }
}

// Run a block from where it is until it is complete, has failed, or pauses.
static void enter_block(Worker* worker, void* stack_pointer) {
  __atomic_store_n(&worker->running, true, __ATOMIC_RELAXED);
  kspec_switch(&worker->main_stack_pointer, stack_pointer);
  __atomic_store_n(&worker->running, false, __ATOMIC_RELAXED);
  if (worker->aborting) abandon_block(worker);
}

static void run_block(Worker* worker) {
  reset_block(worker);
  order_threads(worker);
  worker->entry(BEGIN_BLOCK, &worker->block);
  worker->entry(PLACE_SHARED, &worker->block);
  Fiber* fiber = get_fiber(worker);
  if (!fiber) {
    if (begin_fault(worker, "out-of-memory")) end_fault(worker);
    return;
  }
  worker->current = fiber;
  enter_block(worker, fiber->stack_pointer);
  if (worker->job->check && !worker->paused) end_checked_block(worker);
}

static void place_block(Worker* worker, unsigned long long number) {
  const unsigned width = worker->block.grid[0], height = worker->block.grid[1];
  worker->block.index[0] = (unsigned)(number % width);
  worker->block.index[1] = (unsigned)(number / width % height);
  worker->block.index[2] = (unsigned)(number / width / height);
}

static void run_block_number(Worker* worker, unsigned long long number) {
  place_block(worker, number);
  run_block(worker);
}

// ------------------------------------------------------------------------- helpers

static void call_helpers(Job* job);  // pool.h

enum : uint64_t {  // nanoseconds
  WORTH_HELP = 150000,  // three times what it takes until a helper works
  WORTH_A_GUESS = 10000,
};

// How many blocks to take next. Those that run as loops wait for no others: they get help only if
// the launch will take long, and until that can be guessed they are taken few at a time.
static unsigned long long next_chunk(Job* job) {
  if (!job->helpers) return job->chunk;
  unsigned long long done = job->next - job->first_block;  // helpers have not begun to take any
  if (!done) job->begun = nanoseconds();
  uint64_t spent = nanoseconds() - job->begun;
  if (spent < WORTH_A_GUESS) return (job->chunk + 7) / 8;
  double left = (double)(job->last_block - job->next);
  if ((double)spent * left > (double)WORTH_HELP * (double)done) call_helpers(job);
  return job->chunk;
}

// ------------------------------------------------------------------------- loops

enum : unsigned long long { MAX_REFUSED = 64 };  // answers, where they outweigh the blocks that fit

// Whether blocks may run as loops over their threads: `count` from the one that is placed on.
static bool fits_loops(Worker* worker, unsigned long long count) {
  worker->block.last = worker->block.index[0] + (unsigned)(count - 1);
  worker->entry(FIT_LOOPS, &worker->block);
  if (worker->block.fit == LOOPS_NEVER) worker->tries_loops = false;
  return worker->block.fit == LOOPS_FIT;
}

// On a stack of a kernel's, so that the launch can be cancelled.
static bool enter_loops(Worker* worker) {
  worker->more = worker->aborting = false;
  worker->suspended = 0;
  worker->overflow_at = 0;
  worker->queue_head = worker->queue_tail = nullptr;
  Fiber* fiber = get_fiber(worker);
  if (!fiber) return false;
  worker->current = fiber;
  worker->task = RUN_LOOPS;
  open_frames(worker);
  enter_block(worker, fiber->stack_pointer);
  worker->task = TAKE_THREADS;
  return true;
}

// Run blocks as loops as far as they fit, others thread by thread. Returns the first that has not
// run: no more of them are worth asking.
static unsigned long long run_loops(Worker* worker, unsigned long long first,
                                    unsigned long long last) {
  while (first < last && worker->tries_loops && !has_failed(worker->job)) {
    place_block(worker, first);
    unsigned long long count = worker->block.grid[0] - worker->block.index[0];  // of its row
    if (count > last - first) count = last - first;
    while (!fits_loops(worker, count) && count > 1 && worker->tries_loops) count /= 2;
    if (!worker->tries_loops) break;
    if (worker->block.fit != LOOPS_FIT || !enter_loops(worker)) {
      if (++worker->refused > MAX_REFUSED + worker->looped) worker->tries_loops = false;
      if (worker->job->helpers && last < worker->job->last_block) call_helpers(worker->job);
      run_block_number(worker, first);
    } else {
      worker->looped += count;
    }
    first += count;
  }
  return first;
}

// Dynamic shared memory of exactly the size asked for, ending at a guard page.
static bool prepare_dynamic_shared(Worker* worker, size_t bytes) {
  if (worker->dynamic_map && worker->dynamic_bytes == bytes) return true;
  close_shared(worker);
  if (worker->dynamic_map) munmap(worker->dynamic_map, worker->dynamic_map_bytes);
  size_t body = round_up(bytes, 16), pages = round_up(body, page_bytes());
  worker->dynamic_map_bytes = pages + page_bytes();
  worker->dynamic_map =
      map_apart(&shared_realm, worker->dynamic_map_bytes, PROT_READ | PROT_WRITE);
  if (!worker->dynamic_map) return false;
  (void)!mprotect(worker->dynamic_map + pages, page_bytes(), PROT_NONE);
  worker->dynamic_bytes = bytes;
  worker->block.dynamic_shared = (unsigned char*)worker->dynamic_map + pages - body;
  return true;
}

// Memory of the static __shared__ variables. A checked launch gets room between them.
static bool prepare_arena(Worker* worker, unsigned slot_count, unsigned redzone) {
  size_t capacity = STATIC_SHARED_BYTES + worker->block.file_shared + redzone * slot_count;
  size_t bytes = round_up(capacity, page_bytes());
  if (worker->arena_bytes < bytes || (!redzone && worker->arena_bytes != bytes)) {
    close_shared(worker);
    if (worker->arena_map) munmap(worker->arena_map, worker->arena_bytes + page_bytes());
    worker->arena_map =
        map_apart(&shared_realm, bytes + page_bytes(), PROT_READ | PROT_WRITE);
    worker->arena_bytes = worker->arena_map ? bytes : 0;
    if (!worker->arena_map) return false;
    (void)!mprotect(worker->arena_map + bytes, page_bytes(), PROT_NONE);
  }
  if (worker->slot_capacity < slot_count || !worker->slots) {
    unsigned capacity = slot_count + 16;
    unsigned* slots = (unsigned*)realloc(worker->slots, capacity * sizeof(unsigned));
    if (!slots) return false;
    worker->slots = slots;
    SharedVariable* places =
        (SharedVariable*)realloc(worker->places, capacity * sizeof(SharedVariable));
    if (!places) return false;
    worker->places = places;
    worker->slot_capacity = capacity;
  }
  worker->block.static_shared = (unsigned char*)worker->arena_map;
  worker->block.static_capacity = (unsigned)capacity;
  worker->block.static_redzone = redzone;
  worker->block.slots = worker->slots;
  return true;
}

// Whether processor and system have AVX2. (The compilers' own function needs a library.)
static bool has_avx2() {
#if defined(__x86_64__)
  static int known = -1;
  if (known < 0) {
    unsigned a, b, c, d, low = 0, high;
    bool has = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_OSXSAVE) && (c & bit_AVX);
    if (has) asm("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    has = has && (low & 6) == 6 && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_AVX2);
    known = has;
  }
  return known > 0;
#else
  return false;
#endif
}

// Make the worker ready for a launch; false when memory is short.
static bool prepare_worker(Worker* worker, Job* job) {
  worker->job = job;
  worker->entry = job->entry;
  memcpy(worker->block.grid, job->block.grid, sizeof job->block.grid);
  memcpy(worker->block.block, job->block.block, sizeof job->block.block);
  worker->block.parameters = job->block.parameters;
  worker->block.cooperative = job->block.cooperative;
  worker->block.worker = worker;
  worker->block.module = nullptr;  // the last may have been unloaded
  worker->block.dynamic_bytes = job->dynamic_bytes;
  worker->block.has_avx2 = has_avx2();
  worker->tries_loops = job->bounds && job->order == ORDER_FORWARD;
  worker->looped = worker->refused = 0;
  worker->task = TAKE_THREADS;
  const unsigned* shape = job->block.block;
  worker->thread_count = shape[0] * shape[1] * shape[2];
  worker->warp_count = (worker->thread_count + WARP_SIZE - 1) / WARP_SIZE;
  worker->thread_id = pthread_self();
  if (!worker->signal_stack) worker->signal_stack = (char*)malloc(SIGNAL_STACK_BYTES);
  worker->entry(SHARED_BYTES, &worker->block);
  unsigned redzone = job->check || job->bounds ? SHARED_REDZONE : 0u;
  return worker->signal_stack && prepare_dynamic_shared(worker, job->dynamic_bytes) &&
         prepare_arena(worker, job->slot_count, redzone) && prepare_order(worker, job) &&
         (!job->check || prepare_check(worker, job)) && (!job->bounds || prepare_bounds(worker));
}

static void take_blocks(Worker* worker, Job* job) {
  while (!has_failed(job)) {
    unsigned long long chunk = next_chunk(job);
    unsigned long long first = __atomic_fetch_add(&job->next, chunk, __ATOMIC_RELAXED);
    if (first >= job->last_block) return;
    unsigned long long last = first + chunk;
    if (last > job->last_block) last = job->last_block;
    if (worker->tries_loops) first = run_loops(worker, first, last);
    if (first < last && job->helpers) call_helpers(job);
    for (unsigned long long turn = first; turn < last && !has_failed(job); turn++)
      run_block_number(worker, block_of_turn(job, turn));
  }
}

static void report_no_memory(Worker* worker) {
  if (Fault* fault = begin_fault(worker, "out-of-memory")) {
    snprintf(fault->message, sizeof fault->message, "no memory for shared memory");
    end_fault(worker);
  }
}

// The handlers need a stack of their own: that of a fiber may be what overflowed.
static void use_signal_stack(Worker* worker, stack_t* previous) {
  stack_t own;
  memset(&own, 0, sizeof own);
  own.ss_sp = worker->signal_stack;
  own.ss_size = SIGNAL_STACK_BYTES;
  sigaltstack(&own, previous);
}

// Kernels begin with the rounding of CUDA, to nearest, and leave their thread as it was: a caller
// may have set another mode, a kernel too, and the library that made this thread as well.
struct PlainArithmetic {
  fenv_t before;
  PlainArithmetic() {
    fegetenv(&before);
    fesetenv(FE_DFL_ENV);
  }
  ~PlainArithmetic() { fesetenv(&before); }
};

// Run blocks of the job until none is left or one has failed.
static void work(Worker* worker, Job* job) {
  if (!prepare_worker(worker, job)) {
    report_no_memory(worker);
    return;
  }
  PlainArithmetic arithmetic;
  stack_t previous;
  use_signal_stack(worker, &previous);
  this_worker = worker;
  take_blocks(worker, job);
  trim_stacks(worker);
  this_worker = nullptr;
  if (job->bounds) end_bounds(worker);
  __atomic_fetch_add(&job->looped, worker->looped, __ATOMIC_RELAXED);
  sigaltstack(&previous, nullptr);
}

}  // namespace kspec_host
