// Reductions of any layout: `lanes` threads share each output, a block holds `rows` outputs, and
// `splits` blocks share them when there are few. On a CPU a single thread reduces each chunk.
#pragma once

#include "kspec/chunked.cuh"
#include "kspec/reduce.cuh"

namespace kspec {

// Input offsets: those of the output's first element plus those along the reduced axes.
template <int AXES, int INPUTS, int OUTPUTS> struct InputOffsets {
  const Offsets<AXES, INPUTS + OUTPUTS>& base;
  Offsets<AXES, INPUTS> along;

  __device__ inline Bytes operator[](int operand) const {
    return Bytes{base.offset[operand] + along.offset[operand]};
  }
};

// Reduce `value` over the lanes of each output; lane 0 returns the total. `valid`: lanes that hold
// something, the same for the whole block.
template <class Op, class Acc>
__device__ inline Acc reduce_lanes(const Op& op, Acc value, Acc* shared, int slot, int lane, int lanes,
                                 int rows, ptrdiff_t valid) {
  shared[slot] = value;
  __syncthreads();
  for (int half = lanes / 2; half > 0; half /= 2) {
    if (lane < half && lane + half < valid)
      shared[slot] = op._reduce(shared[slot], shared[slot + half * rows]);
    __syncthreads();
  }
  value = shared[slot];
  __syncthreads();
  return value;
}

#ifdef KSPEC_CHUNKED
// Input offsets `step` elements along the innermost reduced axis from the first of a stretch.
template <int AXES, int INPUTS, int OUTPUTS> struct StretchOffsets {
  const Offsets<AXES, INPUTS + OUTPUTS>& base;
  const Offsets<AXES, INPUTS>& first;
  const Axes<AXES, INPUTS>& reduced;
  ptrdiff_t step;

  Bytes operator[](int operand) const {
    return Bytes{base.offset[operand] + first.offset[operand] +
                 step * reduced.strides[operand][0]};
  }
};

// One thread reduces a whole chunk here (the schedule of the host has one lane). It goes in
// stretches along the innermost axis: only the first element of each costs divisions, and
// reducing a stretch by itself keeps rounding errors from adding up over all elements.
template <class Op, int AXES, int INPUTS, int OUTPUTS>
inline typename Op::_Acc reduce_chunk(const Op& op, const Reduction<Strided<AXES>, INPUTS, OUTPUTS>& plan,
                                    const Offsets<AXES, INPUTS + OUTPUTS>& base, ptrdiff_t output,
                                    ptrdiff_t begin, ptrdiff_t end, int) {
  typedef StretchOffsets<AXES, INPUTS, OUTPUTS> At;
  enum { LONGEST = 256 };
  const ptrdiff_t row = plan.reduced.extents[0];
  typename Op::_Acc total;
  for (ptrdiff_t start = begin, stop; start < end; start = stop) {
    stop = (start / row + 1) * row;
    if (stop > start + LONGEST) stop = start + LONGEST;
    if (stop > end) stop = end;
    const Offsets<AXES, INPUTS> first(plan.reduced, start);
    typename Op::_Acc sum = op._map(At{base, first, plan.reduced, 0}, start, output);
    for (ptrdiff_t j = start + 1; j < stop; ++j)
      sum = op._reduce(sum, op._map(At{base, first, plan.reduced, j - start}, j, output));
    total = start == begin ? sum : op._reduce(total, sum);
  }
  return total;
}
#else
template <class Op, int AXES, int INPUTS, int OUTPUTS>
__device__ inline typename Op::_Acc reduce_chunk(const Op& op,
                                               const Reduction<Strided<AXES>, INPUTS, OUTPUTS>& plan,
                                               const Offsets<AXES, INPUTS + OUTPUTS>& base,
                                               ptrdiff_t output, ptrdiff_t begin, ptrdiff_t end,
                                               int step) {
  typedef InputOffsets<AXES, INPUTS, OUTPUTS> At;
  auto mapped = [&](ptrdiff_t j) {
    return op._map(At{base, Offsets<AXES, INPUTS>(plan.reduced, j)}, j, output);
  };
  typename Op::_Acc total = mapped(begin);
  ptrdiff_t j = begin + step;
  for (; j + 3 * step < end; j += 4 * step) {  // four in flight at once
    typename Op::_Acc next[4];
#pragma unroll
    for (int u = 0; u < 4; ++u) next[u] = mapped(j + u * step);
#pragma unroll
    for (int u = 0; u < 4; ++u) total = op._reduce(total, next[u]);
  }
  for (; j < end; j += step) total = op._reduce(total, mapped(j));
  return total;
}
#endif

template <class Op, int AXES, int INPUTS, int OUTPUTS, class... Inputs>
__device__ inline void reduce(const Op& op, const Reduction<Strided<AXES>, INPUTS, OUTPUTS>& plan,
                              const Inputs&...) {
  typedef typename Op::_Acc Acc;
  static_assert(sizeof(Acc) <= 192, "the accumulator of a reduction has at most 192 bytes");
  __shared__ __align__(16) unsigned char memory[MaxThreads<Strided<AXES>, Acc>::value * sizeof(Acc)];
  Acc* shared = reinterpret_cast<Acc*>(memory);

  const int thread = (int)threadIdx.x;
  const int row = plan.neighbours ? thread % plan.rows : thread / plan.lanes;
  const int lane = plan.neighbours ? thread / plan.rows : thread % plan.lanes;
  const int slot = lane * plan.rows + row;
  const ptrdiff_t output = (ptrdiff_t)blockIdx.x * plan.rows + row;
  const bool live = output < plan.outputs;
  const Offsets<AXES, INPUTS + OUTPUTS> base(plan.kept, live ? output : 0);

  if (plan.length == 0) {  // nothing to reduce: the post-map of the identity
    if (live && lane == 0) op._post(op._identity(), base, output);
    return;
  }
  const ptrdiff_t begin = (ptrdiff_t)blockIdx.y * plan.chunk;
  const ptrdiff_t end = begin + plan.chunk < plan.length ? begin + plan.chunk : plan.length;
  Acc total;
  if (live && begin + lane < end)
    total = reduce_chunk(op, plan, base, output, begin + lane, end, plan.lanes);
  total = reduce_lanes(op, total, shared, slot, lane, plan.lanes, plan.rows, end - begin);
  if (plan.splits == 1) {
    if (live && lane == 0) op._post(op._initial(total), base, output);
    return;
  }

  Acc* partials = reinterpret_cast<Acc*>(plan.partials);
  if (live && lane == 0) partials[output * plan.splits + blockIdx.y] = total;
  if (!is_last_block(&plan.tickets[blockIdx.x], plan.splits)) return;
  if (live && lane < plan.splits) {
    const Acc* mine = partials + output * plan.splits;
    total = mine[lane];
    for (int k = lane + plan.lanes; k < plan.splits; k += plan.lanes)
      total = op._reduce(total, mine[k]);
  }
  total = reduce_lanes(op, total, shared, slot, lane, plan.lanes, plan.rows, plan.splits);
  if (live && lane == 0) op._post(op._initial(total), base, output);
}

}  // namespace kspec
