// Copies from global to shared memory that go on while the thread works, where the device has them.
#pragma once

#include "kspec/pack.cuh"

namespace kspec {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define KSPEC_COPIES_ASYNC
#endif
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define KSPEC_COPIES_IN_BULK
#endif

__device__ inline unsigned int shared_address(const void* place) {
#ifdef KSPEC_COPIES_ASYNC
  return (unsigned int)__cvta_generic_to_shared(place);
#else
  return 0;
#endif
}

// Begin to copy so many bytes, from and to addresses that are multiples of their number.
template <int BYTES> __device__ inline void copy_async(void* to, const void* from) {
#ifdef KSPEC_COPIES_ASYNC
  if constexpr (BYTES == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
                 ::"r"(shared_address(to)), "l"(from) : "memory");
    return;
  } else if constexpr (BYTES == 8 || BYTES == 4) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;"
                 ::"r"(shared_address(to)), "l"(from), "n"(BYTES) : "memory");
    return;
  }
#endif
  typedef typename Word<BYTES>::type Access;
  *static_cast<Access*>(to) = *static_cast<const Access*>(from);
}
// The copies since the last call, or since the beginning, are a group.
__device__ inline void commit_copies() {
#ifdef KSPEC_COPIES_ASYNC
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
// Wait until no more than the last `pending` groups of this thread are under way.
__device__ inline void wait_for_copies(int pending) {
#ifdef KSPEC_COPIES_ASYNC
  if (pending >= 4)
    asm volatile("cp.async.wait_group 4;" ::: "memory");
  else if (pending == 3)
    asm volatile("cp.async.wait_group 3;" ::: "memory");
  else if (pending == 2)
    asm volatile("cp.async.wait_group 2;" ::: "memory");
  else if (pending == 1)
    asm volatile("cp.async.wait_group 1;" ::: "memory");
  else
    asm volatile("cp.async.wait_group 0;" ::: "memory");
#endif
}

// Copies of whole stretches, which one thread begins: addresses and bytes are multiples of 16.
enum {
#ifdef KSPEC_COPIES_IN_BULK
  HAS_BULK = 1
#else
  HAS_BULK = 0
#endif
};

// Begin to bring a stretch into the L2 cache.
__device__ inline void prefetch(const void* from, int bytes) {
#ifdef KSPEC_COPIES_IN_BULK
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes) : "memory");
#endif
}

// The same for the 32 bytes at an address.
__device__ inline void prefetch_sector(const void* from) {
#ifdef __CUDA_ARCH__
  asm volatile("prefetch.global.L2 [%0];" ::"l"(from));
#endif
}

// In shared memory, for a stretch that is loaded again and again: an arrival for each time.
struct Arrival {
  unsigned long long barrier;

  __device__ inline void init() {
#ifdef KSPEC_COPIES_IN_BULK
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&barrier)));
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
  }
  // Arrive, as soon as so many bytes have, too.
  __device__ inline void expect(int bytes) {
#ifdef KSPEC_COPIES_IN_BULK
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 ::"r"(shared_address(&barrier)), "r"(bytes) : "memory");
#endif
  }
  __device__ inline void load(void* to, const void* from, int bytes) {
#ifdef KSPEC_COPIES_IN_BULK
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
        ::"r"(shared_address(to)), "l"(from), "r"(bytes), "r"(shared_address(&barrier)) : "memory");
#endif
  }
  // Wait for the arrival whose number is odd, or even.
  __device__ inline void wait(int odd) {
#ifdef KSPEC_COPIES_IN_BULK
    unsigned int done = 0;
    while (!done)
      asm volatile(
          "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;"
          " selp.u32 %0, 1, 0, p; }"
          : "=r"(done) : "r"(shared_address(&barrier)), "r"(odd) : "memory");
#endif
  }

  // A word of 4 or 8 bytes for a block of the cluster: to the same place in its shared memory as
  // here, where the arrival at the same place counts its bytes.
  template <class T> __device__ inline void send(T* place, const T& word, unsigned int block) {
#ifdef KSPEC_COPIES_IN_BULK
    unsigned int there, counter;
    asm("mapa.shared::cluster.u32 %0, %1, %2;"
        : "=r"(there) : "r"(shared_address(place)), "r"(block));
    asm("mapa.shared::cluster.u32 %0, %1, %2;"
        : "=r"(counter) : "r"(shared_address(&barrier)), "r"(block));
    if constexpr (sizeof(T) == 8) {
      unsigned long long bits;
      memcpy(&bits, &word, 8);
      asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b64 [%0], %1, [%2];"
                   ::"r"(there), "l"(bits), "r"(counter) : "memory");
    } else {
      unsigned int bits;
      memcpy(&bits, &word, 4);
      asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];"
                   ::"r"(there), "r"(bits), "r"(counter) : "memory");
    }
#endif
  }
  // The same as `wait`, for what other blocks have sent.
  __device__ inline void wait_in_cluster(int odd) {
#ifdef KSPEC_COPIES_IN_BULK
    unsigned int done = 0;
    while (!done)
      asm volatile(
          "{ .reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;"
          " selp.u32 %0, 1, 0, p; }"
          : "=r"(done) : "r"(shared_address(&barrier)), "r"(odd) : "memory");
#endif
  }
};
__device__ inline void store_bulk(void* to, const void* from, int bytes) {
#ifdef KSPEC_COPIES_IN_BULK
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
               ::"l"(to), "r"(shared_address(from)), "r"(bytes) : "memory");
#endif
}
// What threads have written to shared memory is seen by copies that begin later.
__device__ inline void fence_bulk() {
#ifdef KSPEC_COPIES_IN_BULK
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}
// End a group of stores.
__device__ inline void commit_bulk() {
#ifdef KSPEC_COPIES_IN_BULK
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
#endif
}
// Wait until stores have read what they write.
__device__ inline void wait_for_bulk() {
#ifdef KSPEC_COPIES_IN_BULK
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
#endif
}
// Wait until they have written it.
__device__ inline void finish_bulk() {
#ifdef KSPEC_COPIES_IN_BULK
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
#endif
}

}  // namespace kspec
