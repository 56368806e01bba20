// The scheduler of one block: which CUDA thread runs next on this operating-system thread.
//
// A fiber takes threads of the block one after another and runs each to its end; only a thread
// that waits (barrier, warp operation, yield) keeps its fiber, and another fiber goes on taking
// threads. A kernel without barriers therefore never switches. When nothing can run and no thread
// is left to start, either a collective is complete or the block is stuck, and we can say where.
#pragma once

#include <stdlib.h>
#include <sys/mman.h>

#include "apart.h"
#include "bounds.h"
#include "check.h"
#include "order.h"
#include "report.h"
#include "state.h"
#include "switch.h"
#include "warp.h"

// Every barrier runs this code; g++ compiles the rest of the runtime with -O1, in half of the time.
#pragma GCC push_options
#pragma GCC optimize("O2")

namespace kspec_host {

static void run_fiber(void* argument);

static Fiber* make_fiber(Worker* worker) {
  size_t bytes = STACK_BYTES + page_bytes();
  char* map = map_apart(&stack_realm, bytes, PROT_READ | PROT_WRITE);
  Fiber* fiber = map ? (Fiber*)calloc(1, sizeof(Fiber)) : nullptr;
  if (!fiber) return nullptr;
  // May fail on machines with very many cores (the kernel limits the number of mappings): then
  // stacks have no guard, which is better than no run.
  (void)!mprotect(map, page_bytes(), PROT_NONE);
  fiber->worker = worker;
  fiber->stack = map;
  // Colour the stacks, else the hot frames of all fibers share the same cache sets.
  fiber->top = fiber->stack + bytes - 64 * (worker->fiber_count * 7 % 48) - 64;
  fiber->deepest = fiber->top;
  worker->fibers[worker->fiber_count++] = fiber;
  return fiber;
}

// A fiber ready to take threads, or null when there is no memory for its stack.
static Fiber* get_fiber(Worker* worker) {
  Fiber* fiber = worker->idle;
  if (fiber) {
    worker->idle = fiber->next;
  } else if (!(fiber = make_fiber(worker))) {
    return nullptr;
  }
  if (worker->job->bounds) open_stack(fiber);
  fiber->stack_pointer = prime_stack(fiber->top, run_fiber, fiber);
  fiber->next = nullptr;
  fiber->wait = WAIT_NONE;
  return fiber;
}

// ------------------------------------------------------------------------- barriers

static bool same_barrier(const Fiber* a, const Fiber* b) {
  return a->barrier_kind == b->barrier_kind && a->site.line == b->site.line &&
         !strcmp(a->site.file, b->site.file);
}

static void release_barrier(Worker* worker) {
  int count = 0, total = (int)worker->at_barrier_count;
  for (int i = 0; i < total; i++) count += worker->at_barrier[i]->predicate != 0;
  int kind = worker->at_barrier[0]->barrier_kind;
  int result = kind == BARRIER_COUNT ? count : kind == BARRIER_AND ? count == total : count > 0;
  race_barrier(worker);
  order_released(worker, worker->at_barrier, worker->at_barrier_count);
  for (int i = 0; i < total; i++) {
    worker->at_barrier[i]->result = result;
    push_runnable(worker, worker->at_barrier[i]);
  }
  worker->at_barrier_count = 0;
  worker->suspended = 0;
}

// ------------------------------------------------------------------------- stuck blocks

static const char* const BARRIER_NAMES[] = {"__syncthreads()", "__syncthreads_count()",
                                            "__syncthreads_and()", "__syncthreads_or()",
                                            "grid.sync()"};

static bool waits_like(const Fiber* a, const Fiber* b) {
  if (a->wait != b->wait) return false;
  if (a->wait == WAIT_BARRIER) return same_barrier(a, b);
  const WarpCall *x = a->call, *y = b->call;
  return x->mask == y->mask && x->site.line == y->site.line && !strcmp(x->name, y->name) &&
         !strcmp(x->site.file, y->site.file);
}

static void describe_wait(Text* text, const Fiber* fiber) {
  if (fiber->wait == WAIT_BARRIER) {
    text->add("%s at %s:%d", BARRIER_NAMES[fiber->barrier_kind], fiber->site.file,
              fiber->site.line);
  } else {
    const WarpCall* call = fiber->call;
    text->add("%s (mask 0x%08x) at %s:%d", call->name, call->mask, call->site.file,
              call->site.line);
  }
}

// All waiting fibers in the order of their threads; returns how many.
static unsigned waiting_fibers(Worker* worker, Fiber** by_thread) {
  Fiber* at[MAX_BLOCK_THREADS] = {};
  for (unsigned i = 0; i < worker->at_barrier_count; i++)
    at[worker->at_barrier[i]->thread] = worker->at_barrier[i];
  for (unsigned w = 0; w < worker->warp_count; w++)
    for (Fiber* fiber : worker->warps[w].lane)
      if (fiber) at[fiber->thread] = fiber;
  unsigned count = 0;
  for (unsigned t = 0; t < worker->thread_count; t++)
    if (at[t]) by_thread[count++] = at[t];
  return count;
}

// Who waits where: one line per place.
static void describe_stuck_block(Worker* worker, Text* text) {
  enum { SHOWN_THREADS = 6, SHOWN_PLACES = 12 };
  Fiber* fibers[MAX_BLOCK_THREADS];
  bool done[MAX_BLOCK_THREADS] = {};
  unsigned count = waiting_fibers(worker, fibers), places = 0;
  for (unsigned i = 0; i < count; i++) {
    if (done[i]) continue;
    unsigned alike = 0;
    char list[96];
    Text threads(list, sizeof list);
    for (unsigned j = i; j < count; j++) {
      if (done[j] || !waits_like(fibers[i], fibers[j])) continue;
      done[j] = true;
      if (alike++ < SHOWN_THREADS) threads.add(" %u", fibers[j]->thread);
    }
    if (places++ >= SHOWN_PLACES) continue;
    text->add("\n  %u of %u threads wait in ", alike, worker->thread_count);
    describe_wait(text, fibers[i]);
    text->add(" (threads%s%s)", list, alike > SHOWN_THREADS ? " ..." : "");
  }
  if (count < worker->thread_count)
    text->add("\n  %u of %u threads have returned", worker->thread_count - count,
              worker->thread_count);
}

static void report_divergence(Worker* worker) {
  Fault* fault = begin_fault(worker, "barrier-divergence");
  if (!fault) return;
  Text text(fault->message, sizeof fault->message);
  const unsigned* index = worker->block.index;
  text.add("no thread of block (%u,%u,%u) can make progress:", index[0], index[1], index[2]);
  describe_stuck_block(worker, &text);
  end_fault(worker);
}

// ------------------------------------------------------------------------- choosing

// Complete the warp operations whose missing lanes have all returned.
static bool release_warps(Worker* worker) {
  unsigned in_barrier[MAX_WARPS] = {};
  for (unsigned i = 0; i < worker->at_barrier_count; i++) {
    unsigned thread = worker->at_barrier[i]->thread;
    in_barrier[thread / WARP_SIZE] |= 1u << thread % WARP_SIZE;
  }
  bool released = false;
  for (unsigned w = 0; w < worker->warp_count; w++) {
    Warp* warp = &worker->warps[w];
    unsigned blocked = in_barrier[w];
    for (unsigned lane = 0; lane < WARP_SIZE; lane++)
      if (warp->lane[lane]) blocked |= 1u << lane;
    for (unsigned i = warp->group_count; i-- > 0;) {
      const WarpGroup& group = warp->groups[i];
      unsigned missing = group.mask & existing_lanes(worker, w) & ~group.arrived;
      if (group.kind == WARP_ACTIVE || !(missing & blocked)) {
        complete_group(worker, warp, i);
        released = true;
      }
    }
  }
  return released;
}

static bool release_yielded(Worker* worker) {
  unsigned count = worker->yielded_count;
  for (unsigned i = 0; i < count; i++) push_runnable(worker, worker->yielded[i]);
  worker->suspended -= count;
  worker->yielded_count = 0;
  return count > 0;
}

// Let the other blocks of a cooperative launch run; false when the launch has failed meanwhile.
static bool pause_block(Worker* worker, bool at_grid) {
  worker->at_grid = at_grid;
  Fiber* fiber = worker->current;
  if (worker->job->bounds) hide_frames(fiber);
  kspec_switch(&worker->paused, worker->main_stack_pointer);
  if (worker->job->bounds) show_frames(fiber);
  return !has_failed(worker->job);
}

// Nothing can run and no thread is left to start: decide what may go on. False: give up.
static bool resolve(Worker* worker) {
  if (has_failed(worker->job)) return false;  // another block failed, or the launch was cancelled
  if (release_yielded(worker)) return !worker->block.cooperative || pause_block(worker, false);
  if (release_warps(worker)) return true;
  bool all = worker->at_barrier_count == worker->suspended;
  for (unsigned i = 1; all && i < worker->at_barrier_count; i++)
    all = same_barrier(worker->at_barrier[0], worker->at_barrier[i]);
  if (!all) {
    report_divergence(worker);
    return false;
  }
  bool grid = worker->at_barrier[0]->barrier_kind == BARRIER_GRID;
  if (grid && !pause_block(worker, true)) return false;
  release_barrier(worker);
  return true;
}

// The next fiber to run; null when the block is complete or has failed.
static Fiber* pick_fiber(Worker* worker) {
  for (;;) {
    if (Fiber* fiber = worker->queue_head) {
      worker->queue_head = fiber->next;
      if (!worker->queue_head) worker->queue_tail = nullptr;
      return fiber;
    }
    if (worker->more) {
      if (Fiber* fiber = get_fiber(worker)) return fiber;
      if (begin_fault(worker, "out-of-memory")) {
        snprintf(worker->job->fault.message, sizeof worker->job->fault.message,
                 "no memory for the stacks of %u threads", worker->thread_count);
        end_fault(worker);
      }
    } else if (!worker->suspended) {
      return nullptr;
    } else if (resolve(worker)) {
      continue;
    }
    worker->aborting = true;
    return nullptr;
  }
}

// Give the memory of stacks back, if threads with large local arrays have used much. No block runs.
static void trim_stacks(Worker* worker) {
  size_t used = 0;
  for (unsigned i = 0; i < worker->fiber_count; i++)
    used += (size_t)(worker->fibers[i]->top - worker->fibers[i]->deepest);
  if (used < KEPT_STACK_BYTES) return;
  for (unsigned i = 0; i < worker->fiber_count; i++) {
    Fiber* fiber = worker->fibers[i];
    madvise(fiber->stack + page_bytes(), STACK_BYTES, MADV_DONTNEED);
    fiber->deepest = fiber->top;
  }
}

// Run somebody else. Returns when `fiber` is runnable again and picked.
static void give_way(Worker* worker, Fiber* fiber) {
  char* here = (char*)__builtin_frame_address(0);
  if (here < fiber->deepest) fiber->deepest = here;
  Fiber* next = pick_fiber(worker);
  if (next == fiber) return;
  worker->current = next;
  if (!next) abort_block(worker);
  if (worker->job->bounds) {
    hide_frames(fiber);
    show_frames(next);
  }
  kspec_switch(&fiber->stack_pointer, next->stack_pointer);
}

static void run_fiber(void* argument) {
  Fiber* fiber = (Fiber*)argument;
  Worker* worker = fiber->worker;
  worker->entry(worker->task, &worker->block);
  worker->more = false;
  Fiber* next = pick_fiber(worker);  // before this fiber becomes idle: it still is our stack
  worker->current = next;
  if (next && worker->job->bounds) show_frames(next);
  fiber->next = worker->idle;
  worker->idle = fiber;
  kspec_resume(next ? next->stack_pointer : worker->main_stack_pointer);
}

}  // namespace kspec_host

#pragma GCC pop_options
