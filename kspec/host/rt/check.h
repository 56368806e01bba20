// The checking modes: where the accesses of an instrumented module arrive.
#pragma once

#include "check_fresh.h"
#include "check_memory.h"
#include "check_race.h"
#include "check_shared.h"
#include "check_state.h"
#include "review.h"

namespace kspec_host {

// One checked launch at a time, so its tables are kept for the next.
static Check launch_check;

static void begin_check(Job* job, unsigned modes, const Region* regions, unsigned region_count) {
  Check* check = &launch_check;
  job->check = check;
  check->modes = modes;
  check->review = nullptr;
  collect_intervals(check, regions, region_count);
  collect_fresh(check, regions, region_count);
}

// What the dialect itself touches in an instrumented module.
static bool prepare_check(Worker* worker, Job* job) {
  Check* check = job->check;
  worker->entry(BEGIN_BLOCK, &worker->block);  // creates the module's thread-local variables
  collect_module(check, (const void*)job->entry);
  add_interval(check, (uintptr_t)worker, sizeof *worker, INTERVAL_OURS, nullptr, 0);
  add_interval(check, (uintptr_t)worker->slots, worker->slot_capacity * sizeof(unsigned),
               INTERVAL_OURS, nullptr, 0);
  sort_intervals(check);
  if (check->modes & CHECK_RACE && !begin_race(check)) return false;
  if (check->modes & CHECK_REVIEW && !check->review && !begin_review(check, job)) return false;
  return prepare_shared_state(&check->shared, worker->block.static_capacity, worker->dynamic_bytes);
}

static void begin_checked_block(Worker* worker) {
  reset_shared_state(worker);
  race_begin_block(worker);
  begin_reviewed_block(worker);
}

static void end_checked_block(Worker* worker) { end_reviewed_block(worker); }

static void end_check(Job* job) {
  if (!job->check) return;
  release_fresh(job->check);
  end_race(job->check);
  if (job->check->review) release_record(&job->check->review->block);
}

// Whether [address, address + size) is in a range; a sum of addresses may wrap around.
static inline bool is_within(uintptr_t address, size_t size, uintptr_t begin, size_t bytes) {
  return address - begin < bytes && size <= bytes - (address - begin);
}

static inline bool on_own_stack(const Worker* worker, uintptr_t address, size_t size) {
  return is_within(address, size, (uintptr_t)worker->current->stack, STACK_BYTES + page_bytes());
}

static void service_access(Worker* worker, unsigned thread, const void* pointer,
                           unsigned long size, unsigned kind, const void* pc) {
  if (!worker->running) return;
  uintptr_t address = (uintptr_t)pointer;
  Check* check = worker->job->check;
  if (!check || on_own_stack(worker, address, size)) return;
  require_stack(worker, pc);
  if (is_within(address, size, check->quiet_begin, check->quiet_size)) return;
  if (has_failed(worker->job)) abort_block(worker);  // cancelled: we may never be in the module
  require_alignment(worker, thread, address, size, kind, pc);
  bool shared = check_shared(worker, thread, address, size, kind, pc);
  Space space = shared ? SPACE_SHARED : SPACE_GLOBAL;
  if (!shared) {
    const Interval* interval = find_interval(check, address, size, kind & ACCESS_WRITE);
    if (interval && interval->kind == INTERVAL_OURS) return;
    // Whatever else is looked for: no kernel reaches memory that is not its own.
    if (!interval && !in_heap(address, size))
      fail_array(worker, thread, address, size, kind, pc);
    if (interval && interval->kind == INTERVAL_MODULE) space = SPACE_MODULE;
    check_fresh(worker, thread, address, size, kind, pc);
  }
  if (check->modes & CHECK_RACE) check_race(worker, thread, address, size, kind, pc, shared);
  if (check->review) record_access(worker, thread, address, size, kind, pc, space);
}

}  // namespace kspec_host
