// The services a module calls while a kernel runs (the table of abi.h).
#pragma once

#include <stdlib.h>

#include "bounds.h"
#include "check.h"
#include "check_undefined.h"
#include "printing.h"
#include "scheduler.h"

// As in scheduler.h.
#pragma GCC push_options
#pragma GCC optimize("O2")

namespace kspec_host {

static void suspend(Caller caller, Fiber* fiber, int wait) {
  fiber->thread = caller.thread % caller.worker->thread_count;
  fiber->wait = wait;
  caller.worker->more = caller.more;
  caller.worker->suspended++;
  give_way(caller.worker, fiber);
}

static int service_barrier(Caller caller, int kind, int predicate, Site site) {
  Worker* worker = caller.worker;
  Fiber* fiber = worker->current;
  if (kind == BARRIER_GRID && !worker->block.cooperative)
    fail_thread(worker, caller.thread, site, "grid-sync",
                "grid.sync() needs a cooperative launch: enable_cooperative_groups=True, "
                "or cooperative = true in its spec");
  fiber->barrier_kind = kind;
  fiber->predicate = predicate;
  fiber->site = site;
  worker->at_barrier[worker->at_barrier_count++] = fiber;
  record_barrier(worker, caller.thread % worker->thread_count);
  suspend(caller, fiber, WAIT_BARRIER);
  return fiber->result;
}

static void service_warp(Caller caller, WarpCall* call) {
  Worker* worker = caller.worker;
  Fiber* fiber = worker->current;
  worker->more = caller.more;
  arrive_at_warp(worker, fiber, caller.thread, call);
  give_way(worker, fiber);
}

// A thread that spins on an atomic lets the others of its block run.
static void service_yield(Caller caller) {
  Worker* worker = caller.worker;
  if (has_failed(worker->job)) abort_block(worker);
  worker->yielded[worker->yielded_count++] = worker->current;
  suspend(caller, worker->current, WAIT_YIELD);
}

static void service_fail(Caller caller, const char* kind, const char* message, Site site) {
  fail_thread(caller.worker, caller.thread, site, kind, "%s", message);
}

static void service_print(Worker* worker, const char* format, va_list arguments, const void* pc) {
  require_stack(worker, pc);
  char line[4096];  // CUDA's own printf is limited too
  int wanted = vsnprintf(line, sizeof line, format, arguments);
  if (wanted <= 0) return;
  size_t size = (size_t)wanted < sizeof line ? (size_t)wanted : sizeof line - 1;
  Job* job = worker->job;
  pthread_mutex_lock(&job->mutex);
  add_printed(job, line, size);
  pthread_mutex_unlock(&job->mutex);
}

static void* service_allocate(Worker* worker, unsigned long size, unsigned long alignment,
                              const void* pc) {
  require_stack(worker, pc);
  void* memory = allocate_heap_block(size, alignment);
  // Whoever had it before is done with it.
  if (memory && worker->job->check) forget_range(worker, (uintptr_t)memory, size);
  return memory;
}

static void service_release(Worker* worker, unsigned thread, void* memory, const void* pc) {
  require_stack(worker, pc);
  ReleaseOutcome outcome = release_heap_block(memory);
  if (outcome == RELEASED) return;
  if (Fault* fault = begin_access_fault(worker, thread, pc, "illegal-address")) {
    snprintf(fault->message, sizeof fault->message, "free() of address 0x%zx, which %s",
             (size_t)memory,
             outcome == RELEASED_BEFORE ? "was freed before" : "malloc() did not return");
    end_fault(worker);
  }
  abort_block(worker);
}

static unsigned long long service_clock() { return nanoseconds(); }

static const Runtime SERVICES = {service_barrier, service_warp,   service_yield, service_fail,
                                 service_print,   service_clock,  service_allocate,
                                 service_release, service_access, service_fence,
                                 service_place,   service_undefined, service_bounds,
                                 service_close_frames, service_enter_frame, service_leave_frame, service_overrun,
                                 service_reaches, service_arrive, service_tile};

}  // namespace kspec_host

#pragma GCC pop_options
