// A thread that runs whole launches, while the thread that launched waits for them.
//
// A launch runs on the caller's thread, which can then do nothing else: not even run the handlers of
// signals that Python has. Where they are to run, the caller waits here instead, and looks after
// them whenever it wakes up.
#pragma once

#include <errno.h>
#include <semaphore.h>

#include "grid.h"
#include "pool.h"
#include "watchdog.h"

namespace kspec_host {

static void run_blocks(Worker* worker, Job* job, unsigned threads) {
  if (job->block.cooperative) {
    run_cooperative(worker, job);
  } else {
    run_job(worker, job, threads - 1);
  }
}

struct Runner {
  pthread_mutex_t mutex;
  pthread_cond_t asked;
  sem_t finished;
  Worker* worker;
  Job* job;  // what is to be run, null: nothing
  unsigned threads;
  bool exists;
};

static Runner runner = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, {}, nullptr, nullptr, 0,
                        false};

static void* runner_main(void*) {
  pthread_mutex_lock(&runner.mutex);
  for (;;) {
    while (!runner.job) pthread_cond_wait(&runner.asked, &runner.mutex);
    Job* job = runner.job;
    unsigned threads = runner.threads;
    runner.job = nullptr;
    pthread_mutex_unlock(&runner.mutex);
    run_blocks(runner.worker, job, threads);
    sem_post(&runner.finished);
    pthread_mutex_lock(&runner.mutex);
  }
}

// Let the thread run a job; false when the system refuses one.
static bool run_apart(Job* job, unsigned threads) {
  if (!runner.worker) runner.worker = make_worker();
  if (!runner.worker) return false;
  if (!runner.exists) {
    sem_init(&runner.finished, 0, 0);
    runner.exists = start_thread(runner_main, nullptr);
    if (!runner.exists) return false;
  }
  pthread_mutex_lock(&runner.mutex);
  runner.job = job;
  runner.threads = threads;
  pthread_cond_signal(&runner.asked);
  pthread_mutex_unlock(&runner.mutex);
  return true;
}

static timespec time_after(clockid_t clock, long nanoseconds) {
  timespec time;
  clock_gettime(clock, &time);
  time.tv_nsec += nanoseconds % 1000000000;
  time.tv_sec += nanoseconds / 1000000000 + time.tv_nsec / 1000000000;
  time.tv_nsec %= 1000000000;
  return time;
}

// Wait for the job; false after a signal, or after a moment: another thread may have had the signal.
static bool wait_for_runner(long nanoseconds) {
  timespec until = time_after(CLOCK_REALTIME, nanoseconds);
  return sem_timedwait(&runner.finished, &until) == 0;
}

// Stop the job, and wait for its end.
static void cancel_runner(Job* job) {
  int none = CANCEL_NONE;
  __atomic_compare_exchange_n(&job->cancel, &none, (int)CANCEL_INTERRUPT, false, __ATOMIC_RELAXED,
                              __ATOMIC_RELAXED);
  // A worker outside the module's text ignores the signal: ask again until all have stopped.
  do signal_workers();
  while (!wait_for_runner(5000000));
}

// In a forked process, which has no such thread.
static void forget_runner() {
  pthread_mutex_init(&runner.mutex, nullptr);
  pthread_cond_init(&runner.asked, nullptr);
  runner.job = nullptr;
  runner.exists = false;
}

}  // namespace kspec_host
