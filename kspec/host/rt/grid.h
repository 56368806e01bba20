// Cooperative launches: all blocks of the grid exist at once and take turns on one
// operating-system thread, so that they can wait for each other.
//
// A block runs until it is complete, until all its threads wait in grid.sync(), or until all of
// them spin (pause_block() of scheduler.h). When every block waits, all go on.
#pragma once

#include "worker.h"

namespace kspec_host {

// Enough for tests; each waiting thread needs a stack. device.py has the same figure.
enum : unsigned { MAX_COOPERATIVE_BLOCKS = 1024 };

struct GridBlock {
  Worker* worker;
  SharedState shared;  // what a checked launch knows about this block's shared memory
  Clocks* clocks;      // and about the order of its threads
  BlockRecord record;  // what a review knows of them
};

static GridBlock grid_blocks[MAX_COOPERATIVE_BLOCKS];

// The tables of checks are those of the block that runs.
static void swap_checks(GridBlock* one) {
  Check* check = one->worker->job->check;
  if (!check) return;
  SharedState other = check->shared;
  check->shared = one->shared;
  one->shared = other;
  if (check->review) {
    BlockRecord record = check->review->block;
    check->review->block = one->record;
    one->record = record;
  }
  if (!(check->modes & CHECK_RACE) || !one->clocks) return;
  static Clocks spare;  // too large for the stack
  spare = check->race->ordering.clocks;
  check->race->ordering.clocks = *one->clocks;
  *one->clocks = spare;
}

// After grid.sync() everything before is ordered.
static void order_grid(Job* job) {
  if (job->check && job->check->modes & CHECK_RACE) forget_accesses(job->check->race);
}

static bool prepare_grid(Job* job) {
  for (unsigned i = 0; i < job->block_count; i++) {
    GridBlock* one = &grid_blocks[i];
    if (!one->worker) one->worker = (Worker*)calloc(1, sizeof(Worker));
    if (!one->worker) return false;
    one->worker->job = job;
    one->worker->paused = nullptr;
    swap_checks(one);
    bool ready = prepare_worker(one->worker, job);
    swap_checks(one);
    if (!ready) return false;
    bool race = job->check && job->check->modes & CHECK_RACE;
    if (race && !one->clocks) one->clocks = (Clocks*)calloc(1, sizeof(Clocks));
    if (race && !one->clocks) return false;
  }
  return true;
}

static void start_grid_block(GridBlock* one, unsigned long long number) {
  this_worker = one->worker;
  swap_checks(one);
  run_block_number(one->worker, number);
  swap_checks(one);
}

static void resume_grid_block(GridBlock* one) {
  Worker* worker = one->worker;
  void* stack_pointer = worker->paused;
  worker->paused = nullptr;
  this_worker = worker;
  swap_checks(one);
  worker->entry(RESUME_BLOCK, &worker->block);
  enter_block(worker, stack_pointer);
  if (worker->job->check && !worker->paused) end_checked_block(worker);
  swap_checks(one);
}

static void report_missing_blocks(Job* job, unsigned waiting) {
  const Worker *waits = nullptr, *gone = nullptr;
  for (unsigned i = 0; i < job->block_count; i++)
    (grid_blocks[i].worker->paused ? waits : gone) = grid_blocks[i].worker;
  Fault* fault = begin_fault(grid_blocks[0].worker, "barrier-divergence");
  if (!fault) return;
  const unsigned* index = gone->block.index;
  Text text(fault->message, sizeof fault->message);
  text.add("%u of %llu blocks wait in grid.sync(), but others, such as block (%u,%u,%u), have "
           "returned", waiting, job->block_count, index[0], index[1], index[2]);
  set_fault_site(fault, waits->at_barrier[0]->site);
  end_fault(grid_blocks[0].worker);
}

// Let blocks go on that may; false when none is left or all are stuck.
static bool run_round(Job* job) {
  unsigned live = 0, waiting = 0;
  for (unsigned i = 0; i < job->block_count; i++) {
    const Worker* worker = grid_blocks[i].worker;
    live += worker->paused != nullptr;
    waiting += worker->paused && worker->at_grid;
  }
  bool all = waiting == live;
  if (all && live && live < job->block_count) report_missing_blocks(job, waiting);
  if (all) order_grid(job);
  for (unsigned i = 0; i < job->block_count && !has_failed(job); i++) {
    Worker* worker = grid_blocks[i].worker;
    if (worker->paused && (all || !worker->at_grid)) resume_grid_block(&grid_blocks[i]);
  }
  return live && !has_failed(job);
}

// Give the stacks back: there may be many more than an ordinary launch ever needs.
static void release_grid(Job* job) {
  for (unsigned i = 0; i < job->block_count; i++) {
    Worker* worker = grid_blocks[i].worker;
    if (!worker) continue;
    if (worker->paused) abandon_block(worker);
    if (job->bounds && worker->block.module) end_bounds(worker);
    for (unsigned f = 0; f < worker->fiber_count; f++) {
      close_stack(worker->fibers[f]);
      release_slabs(worker->fibers[f]);
      munmap(worker->fibers[f]->stack, STACK_BYTES + page_bytes());
      free(worker->fibers[f]);
    }
    worker->fiber_count = 0;
    worker->idle = nullptr;
    release_record(&grid_blocks[i].record);
    free(grid_blocks[i].clocks);
    grid_blocks[i].clocks = nullptr;
  }
}

// Run all blocks of the job. `caller` stands for this thread where others look for it.
static void run_cooperative(Worker* caller, Job* job) {
  caller->thread_id = pthread_self();
  if (prepare_grid(job)) {
    __atomic_store_n(&caller->running, true, __ATOMIC_RELAXED);
    PlainArithmetic arithmetic;
    stack_t previous;
    use_signal_stack(grid_blocks[0].worker, &previous);
    for (unsigned i = 0; i < job->block_count && !has_failed(job); i++)
      start_grid_block(&grid_blocks[i], block_of_turn(job, i));
    while (run_round(job)) {}
    this_worker = nullptr;
    sigaltstack(&previous, nullptr);
    __atomic_store_n(&caller->running, false, __ATOMIC_RELAXED);
  } else {
    caller->job = job;
    report_no_memory(caller);
  }
  release_grid(job);
}

}  // namespace kspec_host
