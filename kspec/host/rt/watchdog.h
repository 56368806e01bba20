// The thread behind `timeout=`: it cancels a launch that takes too long.
#pragma once

#include <errno.h>
#include <time.h>

#include "signals.h"

namespace kspec_host {

struct Watchdog {
  pthread_t thread;
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  Job* job;
  timespec deadline;
  bool finished;
};

static timespec time_after(clockid_t clock, long nanoseconds) {
  timespec time;
  clock_gettime(clock, &time);
  time.tv_nsec += nanoseconds % 1000000000;
  time.tv_sec += nanoseconds / 1000000000 + time.tv_nsec / 1000000000;
  time.tv_nsec %= 1000000000;
  return time;
}

static void* watchdog_main(void* argument) {
  Watchdog* dog = (Watchdog*)argument;
  pthread_mutex_lock(&dog->mutex);
  timespec until = dog->deadline;
  while (!dog->finished) {
    if (pthread_cond_timedwait(&dog->changed, &dog->mutex, &until) != ETIMEDOUT) continue;
    int none = CANCEL_NONE;
    __atomic_compare_exchange_n(&dog->job->cancel, &none, (int)CANCEL_TIMEOUT, false,
                                __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    signal_workers();
    // A worker outside the module's text ignores the signal: ask again until all have stopped.
    until = time_after(CLOCK_MONOTONIC, 5000000);
  }
  pthread_mutex_unlock(&dog->mutex);
  return nullptr;
}

static void start_watchdog(Watchdog* dog, Job* job, double seconds) {
  pthread_mutex_init(&dog->mutex, nullptr);
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&dog->changed, &attributes);
  dog->job = job;
  dog->finished = false;
  dog->deadline = time_after(CLOCK_MONOTONIC, (long)(seconds * 1e9));
  sigset_t blocked, previous;
  sigfillset(&blocked);
  pthread_sigmask(SIG_SETMASK, &blocked, &previous);
  if (pthread_create(&dog->thread, nullptr, watchdog_main, dog)) dog->finished = true;
  pthread_sigmask(SIG_SETMASK, &previous, nullptr);
}

static void stop_watchdog(Watchdog* dog) {
  pthread_mutex_lock(&dog->mutex);
  bool started = !dog->finished;
  dog->finished = true;
  pthread_cond_signal(&dog->changed);
  pthread_mutex_unlock(&dog->mutex);
  if (started) pthread_join(dog->thread, nullptr);
}

}  // namespace kspec_host
