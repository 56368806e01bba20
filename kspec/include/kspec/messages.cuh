// Messages between the warps of a block, or of a cluster of blocks (compute capability 9.0): what
// each of them has, made one.
#pragma once

#include "kspec/copy_async.cuh"
#include "kspec/shuffle.cuh"

namespace kspec {

// What COUNT lanes, a power of two, have, made one for each of them: the same for all, since they are
// joined in pairs.
template <int COUNT, class T, class Join>
__device__ inline T join_lanes(T mine, const Join& join) {
#pragma unroll
  for (int step = 1; step < COUNT; step <<= 1) mine = join(mine, shuffle_xor(mine, step));
  return mine;
}

__device__ inline void meet_in_cluster() {
#ifdef KSPEC_COPIES_IN_BULK
  asm volatile("barrier.cluster.arrive.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
#endif
}

// Of WARPS warps in each of BLOCKS blocks, in shared memory, with PLACES that are used in turn: one
// is free again once another has been used. A barrier of the cluster would wait until everything
// that was stored before has arrived in memory; a message counts itself when it arrives.
template <int WARPS, int BLOCKS, int PLACES> struct Messages {
  enum { COUNT = WARPS * BLOCKS, EACH = COUNT > 32 ? COUNT / 32 : 1 };
  unsigned long long of_warp[PLACES][COUNT];
  Arrival arrival[PLACES];

  __device__ inline void open() {
    if (BLOCKS == 1) return;
    if (threadIdx.x == 0) {
      for (int k = 0; k < PLACES; ++k) arrival[k].init();
    }
    meet_in_cluster();  // a block that does not run yet must not be written to
  }
  // What all warps have; `mine` is that of each lane of a warp, `odd` whether the place was used an
  // odd number of times before.
  template <class T, class Join>
  __device__ inline T join(int place, int odd, const T& mine, const Join& two) {
    static_assert(sizeof(T) <= sizeof(of_warp[0][0]), "a message is a word");
    typedef typename Word<(sizeof(T) > 4 ? 8 : 4)>::type Bits;
    Bits* words = reinterpret_cast<Bits*>(of_warp[place]);
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    Bits word{};
    memcpy(&word, &mine, sizeof(T));
    if constexpr (BLOCKS == 1) {
      if (lane == 0) words[warp] = word;
      __syncthreads();
    } else {
      if (threadIdx.x == 0) arrival[place].expect(sizeof(word) * COUNT);
      if (lane < BLOCKS)
        arrival[place].send(&words[blockIdx.x % BLOCKS * WARPS + warp], word, lane);
      arrival[place].wait_in_cluster(odd);
    }
    T found[EACH];
#pragma unroll
    for (int k = 0; k < EACH; ++k) memcpy(&found[k], &words[(lane + 32 * k) % COUNT], sizeof(T));
#pragma unroll
    for (int k = 1; k < EACH; ++k) found[0] = two(found[0], found[k]);
    return join_lanes<(COUNT < 32 ? COUNT : 32)>(found[0], two);
  }
};

}  // namespace kspec
