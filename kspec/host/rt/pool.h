// Helper threads that run blocks beside the thread that launched.
//
// A launch opens its job to the pool, works itself, and closes the job when no block is left; it
// then waits only for helpers that really joined. One that wakes up late finds nothing to do.
#pragma once

#include "worker.h"

namespace kspec_host {

struct Pool {
  pthread_mutex_t mutex;
  pthread_cond_t opened, closed;
  Job* job;  // null: closed
  unsigned long long generation;
  unsigned wanted;  // helpers of the open job
  unsigned active;  // helpers inside it
  unsigned size;    // helpers that exist
};

static Pool pool = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER,
                    nullptr, 0, 0, 0, 0};
static Worker* helper_workers[1024];  // by the number of the helper

static Worker* make_worker() {
  if (registered_count == sizeof registered_workers / sizeof registered_workers[0]) return nullptr;
  Worker* worker = (Worker*)calloc(1, sizeof(Worker));
  if (!worker) return nullptr;
  registered_workers[registered_count] = worker;
  __atomic_store_n(&registered_count, registered_count + 1, __ATOMIC_RELEASE);
  return worker;
}

// Start a thread for kernels; false when the system refuses.
static bool start_thread(void* (*main)(void*), void* argument) {
  // It must leave signals such as SIGINT to the main thread.
  sigset_t blocked, previous;
  sigfillset(&blocked);
  const int kept[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGURG};
  for (int number : kept) sigdelset(&blocked, number);
  pthread_t thread;
  pthread_sigmask(SIG_SETMASK, &blocked, &previous);
  int failed = pthread_create(&thread, nullptr, main, argument);
  pthread_sigmask(SIG_SETMASK, &previous, nullptr);
  if (!failed) pthread_detach(thread);
  return !failed;
}

static void* helper_main(void* argument) {
  Worker* worker = (Worker*)argument;
  unsigned number = worker->number;
  pthread_mutex_lock(&pool.mutex);
  unsigned long long seen = pool.generation - 1;
  for (;;) {
    while (!pool.job || pool.generation == seen) pthread_cond_wait(&pool.opened, &pool.mutex);
    seen = pool.generation;
    if (number >= pool.wanted) continue;
    Job* job = pool.job;
    pool.active++;
    pthread_mutex_unlock(&pool.mutex);
    work(worker, job);
    pthread_mutex_lock(&pool.mutex);
    if (--pool.active == 0) pthread_cond_signal(&pool.closed);
  }
}

// Start helpers until there are `count`; fewer when the system refuses. Mutex held.
static void grow_pool(unsigned count) {
  while (pool.size < count) {
    Worker*& worker = helper_workers[pool.size];
    if (!worker) worker = make_worker();
    if (!worker) return;
    worker->number = pool.size;
    if (!start_thread(helper_main, worker)) return;
    pool.size++;
  }
}

// In a forked process, which has none of them; what they had is for others.
static void forget_helpers() {
  // The parent's threads wait in its copy of these: the second broadcast would wait for them.
  pthread_cond_init(&pool.opened, nullptr);
  pthread_cond_init(&pool.closed, nullptr);
  pool.job = nullptr;
  pool.size = pool.active = 0;
}

static void call_helpers(Job* job) {
  pthread_mutex_lock(&pool.mutex);
  if (pool.size < job->helpers) grow_pool(job->helpers);
  pool.wanted = job->helpers;
  job->helpers = 0;
  pool.job = job;
  pool.generation++;
  pthread_cond_broadcast(&pool.opened);
  pthread_mutex_unlock(&pool.mutex);
}

// Run the job on this thread and up to `helpers` others; returns when it is finished.
static void run_job(Worker* caller, Job* job, unsigned helpers) {
  job->helpers = helpers;
  work(caller, job);
  if (helpers && !job->helpers) {
    pthread_mutex_lock(&pool.mutex);
    pool.job = nullptr;
    while (pool.active) pthread_cond_wait(&pool.closed, &pool.mutex);
    pthread_mutex_unlock(&pool.mutex);
  }
}

}  // namespace kspec_host
