// Reductions by key with few keys and a known operation of numbers: each thread has accumulators of
// all keys in shared memory, side by side with those of other threads. So there are neither atomic
// operations nor bank conflicts, whatever the keys are. Threads take elements in a fixed order.
#pragma once

#include "kspec/by_key_cells.cuh"

namespace kspec {

template <int AXES, class Acc, class... Inputs> struct MinBlocks<KeyBins<AXES>, Acc, Inputs...> {
  enum { value = 1 };
};

// The accumulators of one thread.
template <class Op> struct Bins {
  typedef typename Op::_Acc Acc;
  typedef AtomicJoin<Acc, Op::_JOINS> Atomic;

  Acc* values;           // [slot][thread]
  unsigned int* counts;  // likewise

  __device__ inline Bins(unsigned char* memory, int slots)
      : values(reinterpret_cast<Acc*>(memory)),
        counts(reinterpret_cast<unsigned int*>(values + (ptrdiff_t)slots * blockDim.x)) {}
  __device__ static inline int at(int slot, int thread) { return slot * blockDim.x + thread; }

  __device__ inline void clear(int slots) const {
    for (int slot = 0; slot < slots; ++slot) {
      values[at(slot, threadIdx.x)] = Atomic::neutral();
      if constexpr (Op::_COUNTED) counts[at(slot, threadIdx.x)] = 0;
    }
  }
  __device__ inline void add(const Op& op, int slot, const Acc& value) const {
    Acc& own = values[at(slot, threadIdx.x)];
    own = op._reduce(own, value);
    if constexpr (Op::_COUNTED) ++counts[at(slot, threadIdx.x)];
  }
  // What all threads have of a key, in the order of their numbers. A warp comes here; its first lane
  // gets it.
  __device__ inline Total<Acc> total(const Op& op, int slot) const {
    const int lane = threadIdx.x % 32, side = blockDim.x;
    Total<Acc> sum;
    sum.value = Atomic::neutral();
    for (int k = lane; k < side; k += 32) {
      sum.value = op._reduce(sum.value, values[at(slot, k)]);
      if constexpr (Op::_COUNTED) sum.count += counts[at(slot, k)];
    }
#pragma unroll
    for (int by = 16; by > 0; by /= 2) {
      const Total<Acc> other = shuffle_down(sum, by);
      sum.value = op._reduce(sum.value, other.value);
      sum.count += other.count;
    }
    if constexpr (!Op::_COUNTED) sum.count = 1;
    return sum;
  }
};

template <class Op, int AXES, int I, int O>
__device__ inline void bin_tile(const Op& op, const KeyPlan<AXES, I, O>& plan, ptrdiff_t tile,
                                unsigned char* memory) {
  typedef typename Op::_Acc Acc;
  typedef Total<Acc> Part;
  enum { N = sizeof(Acc) > 4 ? 8 : 16 };  // elements of a thread that are in flight
  const int slots = (int)plan.slots();
  const Bins<Op> bins(memory, slots);
  bins.clear(slots);
  each_element<N>(op, plan, tile,
                  [&](ptrdiff_t slot, const Acc& value) { bins.add(op, (int)slot, value); });
  __syncthreads();
  Part* parts = static_cast<Part*>(plan.cells) + tile * slots;
  for (int slot = threadIdx.x / 32; slot < slots; slot += blockDim.x / 32) {
    const Part part = bins.total(op, slot);
    if (threadIdx.x % 32 == 0) parts[slot] = part;
  }
}

template <class Op, int AXES, int I, int O, class... Inputs>
__device__ inline void reduce(const Op& op, const Reduction<KeyBins<AXES>, I, O>& plan,
                              const Inputs&...) {
  if constexpr (AtomicJoin<typename Op::_Acc, Op::_JOINS>::value) {
    extern __shared__ __align__(16) unsigned char bins[];
    const ptrdiff_t slots = plan.slots();
    in_phases(plan.progress, 2, [&](int phase) { return phase ? (slots + 31) / 32 : plan.tiles; },
              [&](int phase, ptrdiff_t tile) {
                if (phase)
                  post_few(op, plan, tile, bins);
                else
                  bin_tile(op, plan, tile, bins);
              });
  }
}

}  // namespace kspec
