// Block barriers, memory fences, and waiting for other kernels.
#pragma once

static inline void __syncthreads(KSPEC_HOST_SITE) {
  kspec_host::wait_at_barrier(kspec_host::BARRIER_SYNC, 0, KSPEC_HOST_HERE);
}
static inline int __syncthreads_count(int predicate, KSPEC_HOST_SITE) {
  return kspec_host::wait_at_barrier(kspec_host::BARRIER_COUNT, predicate, KSPEC_HOST_HERE);
}
static inline int __syncthreads_and(int predicate, KSPEC_HOST_SITE) {
  return kspec_host::wait_at_barrier(kspec_host::BARRIER_AND, predicate, KSPEC_HOST_HERE);
}
static inline int __syncthreads_or(int predicate, KSPEC_HOST_SITE) {
  return kspec_host::wait_at_barrier(kspec_host::BARRIER_OR, predicate, KSPEC_HOST_HERE);
}

// All threads of a block meet at each of these: the number makes no difference.
static inline void __barrier_sync(unsigned int number, KSPEC_HOST_SITE) {
  if (number > 15) kspec_host::fail("trap", "there are barriers 0 to 15", KSPEC_HOST_HERE);
  kspec_host::wait_at_barrier(kspec_host::BARRIER_SYNC, 0, KSPEC_HOST_HERE);
}

static inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
static inline void __threadfence_block() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
static inline void __threadfence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

// Kernels run one after the other: there is nothing to wait for.
static inline void cudaGridDependencySynchronize() {}
static inline void cudaTriggerProgrammaticLaunchCompletion() {}

static inline void __nanosleep(unsigned int) { kspec_host::yield(); }
