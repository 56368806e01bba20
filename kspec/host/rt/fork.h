// A fork of the process, which copies one thread only, and locks and launches of all.
//
// The child must not wait for a launch of a thread that it does not have, nor the fork for a launch
// that may take long. So what is locked for moments is locked across the fork, and right; of a
// launch that runs, the child forgets everything.
#pragma once

#include "runner.h"

namespace kspec_host {

// One launch at a time: it owns the signal handlers and the helper threads.
static pthread_mutex_t launch_mutex = PTHREAD_MUTEX_INITIALIZER;
static Worker* launching_worker;

// What is locked across a fork, in the order in which one is taken while another is held.
static pthread_mutex_t* const BRIEF_LOCKS[] = {&runner.mutex, &pool.mutex,    &handlers_mutex, &module_mutex,
                                               &heap_mutex,   &buffers_mutex, &realm_mutex,    &shadow.mutex};

static bool idle_at_fork;  // no launch ran

static void before_fork() {
  for (pthread_mutex_t* mutex : BRIEF_LOCKS) pthread_mutex_lock(mutex);
  idle_at_fork = pthread_mutex_trylock(&launch_mutex) == 0;
}

static void unlock_after_fork() {
  if (idle_at_fork) pthread_mutex_unlock(&launch_mutex);
  for (pthread_mutex_t* mutex : BRIEF_LOCKS) pthread_mutex_unlock(mutex);
}

// What a launch changes without a lock is as its threads left it, in the middle of anything. Its
// memory is lost: a launch's, once for each fork.
static void forget_launch() {
  pthread_mutex_init(&launch_mutex, nullptr);
  restore_all();
  launching_worker = runner.worker = nullptr;
  registered_count = 0;
  memset(helper_workers, 0, sizeof helper_workers);
  memset(grid_blocks, 0, sizeof grid_blocks);
  launch_check = {};
  open_spans = wanted_spans = {};
  opened_module = nullptr;
  if (shadow.reserved) close_shadow();
}

static void after_fork_in_child() {
  if (!idle_at_fork) forget_launch();
  forget_helpers();
  forget_runner();
  unlock_after_fork();
}

}  // namespace kspec_host
