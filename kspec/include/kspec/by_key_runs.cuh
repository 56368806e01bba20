// Reductions to few keys that keep the order of elements, so the user's operation need not be
// commutative, and equal calls give equal bits: each warp has accumulators of its own, and elements
// that follow each other; those of warps, and then of tiles, are joined in their order.
#pragma once

#include "kspec/keyed.cuh"

namespace kspec {

template <class Op> struct OwnCells {
  typedef typename Op::_Acc Acc;
  typedef Counted<Acc, unsigned int> Cell;

  const Op& op;
  Cell* cells;  // of this warp

  // Join elements of all lanes, in their order. All lanes come here.
  __device__ inline void put(ptrdiff_t slot, const Acc& value) const {
    join(slot, value, peers_of(slot));
  }
  // The same of elements whose lanes with the same accumulator are known.
  __device__ inline void join(ptrdiff_t slot, const Acc& value, unsigned int peers) const {
    const Acc total = join_peers(op, peers, value);
    if (is_first(peers)) add(slot, total, __popc(peers));
    __syncwarp();
  }
  template <int N> __device__ inline void put(const KeyedBatch<Op, N>& batch) const {
    if constexpr (Op::_JOINS != OTHER && N > 1) {
      // Known operations may take elements in another order, if it is always the same.
      const ptrdiff_t slot = __shfl_sync(0xffffffffu, (long long)batch.slot[0], 0);
      bool same = slot >= 0;
#pragma unroll
      for (int k = 0; k < N; ++k) same = same && batch.slot[k] == slot;
      if (__all_sync(0xffffffffu, same)) {
        Acc total = batch.value[0];
#pragma unroll
        for (int k = 1; k < N; ++k) total = op._reduce(total, batch.value[k]);
#pragma unroll
        for (int by = 1; by < 32; by *= 2) {
          const Acc other = shuffle_down(total, by);
          if (threadIdx.x % 32 + by < 32) total = op._reduce(total, other);
        }
        if (threadIdx.x % 32 == 0) add(slot, total, 32 * N);
        __syncwarp();
        return;
      }
    }
#pragma unroll
    for (int k = 0; k < N; ++k) put(batch.slot[k], batch.value[k]);
  }

 private:
  __device__ inline void add(ptrdiff_t slot, const Acc& value, unsigned int elements) const {
    cells[slot].append(op, Cell{value, elements});
  }
};

// Take elements that follow each other, N of each lane at once.
template <int N, class Op, int AXES, int I, int O>
__device__ inline void order_some(const Op& op, const KeyPlan<AXES, I, O>& plan,
                                  const OwnCells<Op>& own, ptrdiff_t begin, ptrdiff_t end) {
  for (ptrdiff_t n = begin; n < end; n += 32 * N) {
    KeyedBatch<Op, N> batch;
    batch.load(op, plan, n + threadIdx.x % 32, 32, end);
    own.put(batch);
  }
}
template <class Op, int AXES, int I, int O>
__device__ inline void order_few(const Op& op, const KeyPlan<AXES, I, O>& plan, ptrdiff_t tile,
                                 unsigned char* memory) {
  typedef typename OwnCells<Op>::Cell Cell;
  typedef Total<typename Op::_Acc> Part;
  const int slots = (int)plan.slots(), warp = threadIdx.x / 32, warps = blockDim.x / 32;
  Cell* cells = reinterpret_cast<Cell*>(memory);
  for (int k = threadIdx.x; k < warps * slots; k += blockDim.x) cells[k].count = 0;
  __syncthreads();
  const Stretch stretch(plan, tile);
  const ptrdiff_t total = stretch.end - stretch.begin;
  const ptrdiff_t each = ((total + warps - 1) / warps + 255) / 256 * 256;
  const ptrdiff_t begin = stretch.begin + warp * each;
  const ptrdiff_t end = begin + each < stretch.end ? begin + each : stretch.end;
  const OwnCells<Op> own{op, cells + warp * slots};
  if (plan.outputs == 1)
    order_some<InFlight<typename Op::_Acc>::value>(op, plan, own, begin, end);
  else
    order_some<1>(op, plan, own, begin, end);
  __syncthreads();
  Part* parts = static_cast<Part*>(plan.cells) + tile * slots;
  for (int slot = threadIdx.x; slot < slots; slot += blockDim.x) {
    Part part;
    for (int w = 0; w < warps; ++w) part.append(op, cells[w * slots + slot]);
    parts[slot] = part;
  }
}

template <class Op, int AXES, int I, int O, class... Inputs>
__device__ inline void reduce(const Op& op, const Reduction<KeyRuns<AXES>, I, O>& plan,
                              const Inputs&...) {
  __shared__ __align__(16) unsigned char memory[KEY_SHARED];
  const ptrdiff_t slots = plan.slots();
  in_phases(plan.progress, 2, [&](int phase) { return phase ? (slots + 31) / 32 : plan.tiles; },
            [&](int phase, ptrdiff_t tile) {
              if (phase)
                post_few(op, plan, tile, memory);
              else
                order_few(op, plan, tile, memory);
            });
}

}  // namespace kspec
