// The thread behind `timeout=`: it cancels a launch that takes too long.
//
// It waits in the kernel's own call. Condition variables with a clock need functions of which the C
// library has two versions, and the runtime that zig links would get the old ones, which have none.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>

#include "signals.h"

namespace kspec_host {

struct Watchdog {
  pthread_t thread;
  Job* job;
  int64_t deadline;  // nanoseconds of the monotonic clock
  int finished;      // atomic; the watchdog waits until it is 1
};

static int64_t monotonic_time() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000ll + now.tv_nsec;
}

static void* watchdog_main(void* argument) {
  Watchdog* dog = (Watchdog*)argument;
  int64_t until = dog->deadline;
  while (!__atomic_load_n(&dog->finished, __ATOMIC_ACQUIRE)) {
    int64_t left = until - monotonic_time();
    if (left > 0) {
      timespec wait = {left / 1000000000, left % 1000000000};
      syscall(SYS_futex, &dog->finished, FUTEX_WAIT_PRIVATE, 0, &wait, nullptr, 0);
      continue;
    }
    int none = CANCEL_NONE;
    __atomic_compare_exchange_n(&dog->job->cancel, &none, (int)CANCEL_TIMEOUT, false,
                                __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    signal_workers();
    // A worker outside the module's text ignores the signal: ask again until all have stopped.
    until = monotonic_time() + 5000000;
  }
  return nullptr;
}

static void start_watchdog(Watchdog* dog, Job* job, double seconds) {
  dog->job = job;
  dog->finished = 0;
  dog->deadline = monotonic_time() + (int64_t)(seconds * 1e9);
  sigset_t blocked, previous;
  sigfillset(&blocked);
  pthread_sigmask(SIG_SETMASK, &blocked, &previous);
  if (pthread_create(&dog->thread, nullptr, watchdog_main, dog)) dog->finished = 1;
  pthread_sigmask(SIG_SETMASK, &previous, nullptr);
}

static void stop_watchdog(Watchdog* dog) {
  if (__atomic_exchange_n(&dog->finished, 1, __ATOMIC_RELEASE)) return;  // it never started
  syscall(SYS_futex, &dog->finished, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
  pthread_join(dog->thread, nullptr);
}

}  // namespace kspec_host
