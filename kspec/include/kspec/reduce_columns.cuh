// Reductions of neighbouring outputs: a thread folds a pack of columns, `across` packs of a block
// lie side by side, and the block's threads below each other take different rows.
#pragma once

#include "kspec/batch.cuh"
#include "kspec/reduce.cuh"

namespace kspec {

// Fold rows first, first + step, ... below `end` into a pack of totals: UNROLL of them are in flight
// at once. `some`: there is something in the totals.
template <class Place, int UNROLL, class Op, int I, int O, int V, int... K, class... Inputs>
__device__ inline void add_rows(const Op& op, const Reduction<Columns, I, O>& plan,
                                const ptrdiff_t (&base)[I], ptrdiff_t first, ptrdiff_t step,
                                ptrdiff_t end, ptrdiff_t output, bool apart,
                                typename Op::_Acc (&total)[V], bool& some, Numbers<K...>,
                                const Inputs&... inputs) {
  Batch<V, Numbers<K...>, Inputs...> rows[UNROLL];
  const auto load = [&](int u, ptrdiff_t row) {
    ptrdiff_t along[I];
    offsets_along(plan.reduced, row, along);
    rows[u].load(
        [&](int k) {
          return Place{base[k] + along[k], plan.kept.strides[k][0] != 0,
                       (plan.aligned >> k & 1) != 0, apart};
        },
        inputs...);
  };
  for (; first < end; first += UNROLL * step) {
#pragma unroll
    for (int u = 0; u < UNROLL; ++u)
      if (first + u * step < end) load(u, first + u * step);
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
      const ptrdiff_t row = first + u * step;
      if (row < end) {
#pragma unroll
        for (int j = 0; j < V; ++j) {
          const typename Op::_Acc mapped = rows[u].map(op, j, row, output + j);
          total[j] = u > 0 || some ? op._reduce(total[j], mapped) : mapped;
        }
      }
    }
    some = true;
  }
}

template <class Op, int I, int O, int... K, class... Inputs>
__device__ inline void reduce_columns(const Op& op, const Reduction<Columns, I, O>& plan,
                                      Numbers<K...> numbers, const Inputs&... inputs) {
  typedef typename Op::_Acc Acc;
  enum { V = PackSize<Inputs...>::value };
  __shared__ __align__(16) unsigned char memory[MostThreads<Columns>::value * sizeof(Acc)];
  Acc* shared = reinterpret_cast<Acc*>(memory);
  const int down = blockDim.x / plan.across;
  const int x = threadIdx.x % plan.across, y = threadIdx.x / plan.across;
  const ptrdiff_t batch = blockIdx.x / plan.tiles, tile = blockIdx.x % plan.tiles;
  const ptrdiff_t wanted = (tile * plan.across + x) * V;
  const bool live = y < down && wanted < plan.columns;
  // The last pack begins early enough to be whole; what it shares with the one before is left out.
  const ptrdiff_t column = wanted + V <= plan.columns ? wanted : plan.columns - V;
  const int skip = live ? (int)(wanted - column) : 0;
  const ptrdiff_t output = batch * plan.columns + (live ? column : 0);

  Acc total[V];
  if (live) {
    ptrdiff_t base[I];
    const Offsets<8, I + O> at(plan.kept, (unsigned int)output, Narrow());
#pragma unroll
    for (int k = 0; k < I; ++k) base[k] = at.offset[k];
    const ptrdiff_t first = (ptrdiff_t)blockIdx.y * down + y, step = (ptrdiff_t)down * plan.splits;
    bool some = false;
    if (plan.abreast) {
      add_rows<AlignedPlace, 4>(op, plan, base, first, step, plan.length, output, false, total, some,
                                numbers, inputs...);
    } else {
      // At the ends of the outmost rows, the blocks around a pack may hold what is not the array's. To
      // ask in the loop over the others would cost them up to a fifth of their speed.
      const bool two = plan.outmost == 2, edge = column < V || column + 2 * V > plan.columns;
      add_rows<AnyPlace, 2>(op, plan, base, first + 1, step, two ? plan.length - 1 : 0, output, false,
                            total, some, numbers, inputs...);
      for (ptrdiff_t number = first; number < plan.outmost; number += step) {
        const ptrdiff_t row = two && number ? plan.length - 1 : number;
        add_rows<AnyPlace, 1>(op, plan, base, row, 1, row + 1, output, edge, total, some, numbers,
                              inputs...);
      }
    }
  }

  // Join the threads below each other, of which the first `count` have something.
  const auto join = [&](int count) {
    if (count <= 1) return;
#pragma unroll 1
    for (int j = 0; j < V; ++j) {
      __syncthreads();
      if (y < count) {
#pragma unroll
        for (int one = 0; one < V; ++one)
          if (one == j) shared[threadIdx.x] = total[one];
      }
      for (int rest = count; rest > 1;) {
        const int half = (rest + 1) / 2;
        __syncthreads();
        if (y < rest - half)
          shared[threadIdx.x] =
              op._reduce(shared[threadIdx.x], shared[threadIdx.x + half * plan.across]);
        rest = half;
      }
      __syncthreads();
      if (y == 0) {
#pragma unroll
        for (int one = 0; one < V; ++one)
          if (one == j) total[one] = shared[threadIdx.x];
      }
    }
  };
  // Neighbouring threads write neighbouring outputs.
  const auto finish = [&]() {
    const ptrdiff_t start = tile * plan.across * V;
    __syncthreads();
    if (live && y == 0) {
#pragma unroll
      for (int j = 0; j < V; ++j)
        if (j >= skip) shared[column - start + j] = total[j];
    }
    __syncthreads();
    const ptrdiff_t left = plan.columns - start;
    for (int c = threadIdx.x; c < plan.across * V && c < left; c += blockDim.x) {
      const ptrdiff_t number = batch * plan.columns + start + c;
      op._post(op._initial(shared[c]), Offsets<8, I + O>(plan.kept, (unsigned int)number, Narrow()),
               number);
    }
  };

  const ptrdiff_t inner = plan.length - plan.outmost;  // rows
  const ptrdiff_t rows = (inner > plan.outmost ? inner : plan.outmost) - (ptrdiff_t)blockIdx.y * down;
  join(rows < down ? (int)rows : down);
  if (plan.splits == 1) {
    finish();
    return;
  }
  const int width = plan.across * V;
  Acc* partials =
      reinterpret_cast<Acc*>(plan.partials) + (ptrdiff_t)blockIdx.x * plan.splits * width + x * V;
  if (live && y == 0) {
#pragma unroll
    for (int j = 0; j < V; ++j) partials[(ptrdiff_t)blockIdx.y * width + j] = total[j];
  }
  if (!is_last_block(plan)) return;
  if (live && y < plan.splits) {
    for (int split = y; split < plan.splits; split += down) {
#pragma unroll
      for (int j = 0; j < V; ++j) {
        const Acc part = partials[(ptrdiff_t)split * width + j];
        total[j] = split == y ? part : op._reduce(total[j], part);
      }
    }
  }
  join(plan.splits < down ? plan.splits : down);
  finish();
}

template <class Op, int I, int O, class... Inputs>
__device__ inline void reduce(const Op& op, const Reduction<Columns, I, O>& plan,
                              const Inputs&... inputs) {
  reduce_columns(op, plan, typename UpTo<I>::type(), inputs...);
}

}  // namespace kspec
