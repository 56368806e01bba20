// Reductions by key with few keys and a known operation of numbers: each thread has accumulators of
// all keys in shared memory, side by side with those of other threads. So there are neither atomic
// operations nor bank conflicts, whatever the keys are. Threads take elements in a fixed order.
#pragma once

#include "kspec/by_key_cells.cuh"

namespace kspec {

template <int AXES, class Acc, class... Inputs> struct MinBlocks<KeyBins<AXES>, Acc, Inputs...> {
  enum { value = 1 };
};

// The accumulators of one thread: of each slot, and one for elements that belong to none, which saves
// to ask.
template <class Op> struct Bins {
  typedef typename Op::_Acc Acc;
  typedef AtomicJoin<Acc, Op::_JOINS> Atomic;

  Acc* values;           // [slot][thread]
  unsigned int* counts;  // likewise

  __device__ inline Bins(unsigned char* memory, int slots)
      : values(reinterpret_cast<Acc*>(memory)),
        counts(reinterpret_cast<unsigned int*>(values + (ptrdiff_t)(slots + 1) * blockDim.x)) {}
  __device__ static inline int at(int slot, int thread) { return slot * blockDim.x + thread; }

  __device__ inline void clear(int slots) const {
    for (int slot = 0; slot <= slots; ++slot) {
      values[at(slot, threadIdx.x)] = Atomic::neutral();
      if constexpr (Op::_COUNTED) counts[at(slot, threadIdx.x)] = 0;
    }
  }
  __device__ inline void add(const Op& op, int slot, const Acc& value) const {
    Acc& own = values[at(slot, threadIdx.x)];
    own = op._reduce(own, value);
    if constexpr (Op::_COUNTED) ++counts[at(slot, threadIdx.x)];
  }
  // What all threads have of a key. Lanes ask for different keys, and begin with different threads, so
  // that there are no bank conflicts.
  __device__ inline Total<Acc> total(const Op& op, int slot) const {
    const int side = blockDim.x;
    Total<Acc> sum;
    sum.value = Atomic::neutral();
    int thread = threadIdx.x % 32;
#pragma unroll 8
    for (int k = 0; k < side; ++k) {
      sum.value = op._reduce(sum.value, values[at(slot, thread)]);
      if constexpr (Op::_COUNTED) sum.count += counts[at(slot, thread)];
      thread = thread + 1 < side ? thread + 1 : 0;
    }
    if constexpr (!Op::_COUNTED) sum.count = 1;
    return sum;
  }
};

// Elements of a thread that are in flight while it adds those before them: of one column, and all of
// them exist.
template <class Op, int N> struct BinBatch {
  typename Op::_Acc value[N];
  int key[N];

  // Those from number `first` on, every `step`-th.
  template <int AXES, int I, int O>
  __device__ inline void load(const Op& op, const KeyPlan<AXES, I, O>& plan, ptrdiff_t first,
                              int step) {
    plan.keys.read(first, step, first + (ptrdiff_t)N * step, key);
    AtRow<I> at(plan.steps, first, step);
#pragma unroll
    for (int k = 0; k < N; ++k, ++at)
      value[k] = op._map(at, first + k * (ptrdiff_t)step, (ptrdiff_t)key[k]);
  }
  // Keys that are not there are negative, or at least as many as there are.
  __device__ inline void add_to(const Bins<Op>& bins, const Op& op, unsigned int count) const {
#pragma unroll
    for (int k = 0; k < N; ++k) bins.add(op, min((unsigned int)key[k], count), value[k]);
  }
};

template <class Op, int AXES, int I, int O>
__device__ inline void bin_tile(const Op& op, const KeyPlan<AXES, I, O>& plan, ptrdiff_t tile,
                                unsigned char* memory) {
  typedef typename Op::_Acc Acc;
  typedef Total<Acc> Part;
  const int slots = (int)plan.slots();
  const Bins<Op> bins(memory, slots);
  bins.clear(slots);
  Stretch stretch(plan, tile);
  // A map that looks at the key is not asked about others, and those are not refused one by one.
  if constexpr (!Op::_INDEXED && !Op::_STRICT) {
    enum { N = sizeof(Acc) > 4 ? 16 : 32 };
    const int step = blockDim.x;
    const ptrdiff_t batches = (stretch.end - stretch.begin) / ((ptrdiff_t)step * N);
    const auto load = [&](BinBatch<Op, N>& batch, ptrdiff_t b) {
      if (b < batches)
        batch.load(op, plan, stretch.begin + b * N * step + threadIdx.x, step);
    };
    BinBatch<Op, N> even, odd;
    load(even, 0);
#pragma unroll 1
    for (ptrdiff_t b = 0; b < batches; b += 2) {
      load(odd, b + 1);
      even.add_to(bins, op, (unsigned int)slots);
      load(even, b + 2);
      if (b + 1 < batches) odd.add_to(bins, op, (unsigned int)slots);
    }
    stretch.begin += batches * N * step;
#pragma unroll 1
    for (; stretch.begin + 8 * step <= stretch.end; stretch.begin += 8 * step) {
      BinBatch<Op, 8> some;
      some.load(op, plan, stretch.begin + threadIdx.x, step);
      some.add_to(bins, op, (unsigned int)slots);
    }
  }
  each_element<1>(op, plan, stretch,
                  [&](ptrdiff_t slot, const Acc& value) { bins.add(op, (int)slot, value); });
  __syncthreads();
  Part* parts = static_cast<Part*>(plan.cells) + tile * slots;
  for (int slot = threadIdx.x; slot < slots; slot += blockDim.x) parts[slot] = bins.total(op, slot);
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
