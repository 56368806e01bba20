// The thread behind `timeout=`: it cancels a launch that takes too long.
#pragma once

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

static void* watchdog_main(void* argument) {
  Watchdog* dog = (Watchdog*)argument;
  pthread_mutex_lock(&dog->mutex);
  timespec until = dog->deadline;
  while (!dog->finished) {
    if (pthread_cond_timedwait(&dog->changed, &dog->mutex, &until) == 0) continue;
    int none = CANCEL_NONE;
    __atomic_compare_exchange_n(&dog->job->cancel, &none, (int)CANCEL_TIMEOUT, false,
                                __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    signal_workers();
    // A worker outside the module's text ignores the signal: ask again until all have stopped.
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 5000000;
    if (until.tv_nsec >= 1000000000) {
      until.tv_nsec -= 1000000000;
      until.tv_sec++;
    }
  }
  pthread_mutex_unlock(&dog->mutex);
  return nullptr;
}

static void start_watchdog(Watchdog* dog, Job* job, double seconds) {
  pthread_mutex_init(&dog->mutex, nullptr);
  pthread_cond_init(&dog->changed, nullptr);
  dog->job = job;
  dog->finished = false;
  clock_gettime(CLOCK_REALTIME, &dog->deadline);
  dog->deadline.tv_sec += (time_t)seconds;
  dog->deadline.tv_nsec += (long)((seconds - (double)(time_t)seconds) * 1e9);
  if (dog->deadline.tv_nsec >= 1000000000) {
    dog->deadline.tv_nsec -= 1000000000;
    dog->deadline.tv_sec++;
  }
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
