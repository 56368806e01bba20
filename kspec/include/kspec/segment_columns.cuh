// Segments of several columns side by side: a warp takes 32 columns, a thread some elements of one.
#pragma once

#include "kspec/scan_columns.cuh"
#include "kspec/segments.cuh"

namespace kspec {

template <class Op, int AXES, int I, int O, class... Inputs>
__device__ inline void reduce(const Op& op, const Reduction<SegmentColumns<AXES>, I, O>& plan,
                              const Inputs&...) {
  typedef typename Op::_Acc Acc;
  typedef ColumnTile<Acc> Tile;
  __shared__ unsigned int bits[(Tile::SIZE + 31) / 32];
  __shared__ ptrdiff_t ending[Tile::SIZE];  // the segment whose last element it is, or -1
  const Ticket tile = take_tile(plan);
  const ptrdiff_t number = tile.number / plan.chains, chain = tile.number - number * plan.chains;
  const ptrdiff_t first = number * Tile::SIZE;
  for (int item = threadIdx.x; item < Tile::SIZE; item += blockDim.x) ending[item] = -1;
  const SegmentEnds<SegmentPlan<AXES, I, O>, Tile::SIZE, 32 * Tile::WARPS> ends(plan, number, first,
                                                                               bits);
  ends.each(threadIdx.x, blockDim.x, [&](ptrdiff_t segment, ptrdiff_t last) {
    if (plan.bound(segment) < last) ending[last - 1 - first] = segment;
  });
  const ptrdiff_t begin = plan.bound(0), end = plan.bound(plan.segments);
  const ptrdiff_t low = ends.low < begin ? begin : ends.low, high = ends.high < end ? ends.high : end;
  // Threads beyond the last column do as it does, and write nothing.
  const ptrdiff_t wanted = chain * Tile::SIDE + threadIdx.x % 32;
  const bool writes = wanted < plan.outputs;
  const Offsets<AXES, I + O> row(plan.rows, writes ? wanted : plan.outputs - 1);
  const auto where = [&](ptrdiff_t step) { return InRow<AXES, I + O>{row, plan.steps, step}; };
  const int warp = threadIdx.x / 32;
  const ptrdiff_t mine = first + warp * Tile::ITEMS;
  Acc value[Tile::ITEMS];
#pragma unroll
  for (int j = 0; j < Tile::ITEMS; ++j) {
    const ptrdiff_t n = mine + j;
    if (n < low || n >= high) continue;
    const Place at = Op::_INDEXED ? plan.locate(n) : Place{0, 0};
    value[j] = op._map(where(n), at.column, at.row);
  }
  __syncthreads();
  unsigned int begins = 0;
#pragma unroll
  for (int j = 0; j < Tile::ITEMS; ++j)
    if (mine + j < low || mine + j >= high || ends.begins(mine + j)) begins |= 1u << j;
  Carry<Acc> own;
  own.value = value[0];
  own.state = begins ? BEGUN : OPEN;
#pragma unroll
  for (int j = 1; j < Tile::ITEMS; ++j)
    own.value = begins >> j & 1 ? value[j] : op._reduce(own.value, value[j]);
  __shared__ __align__(16) unsigned char
      memory[ColumnWarps<Op>::SLOTS * Tile::SIDE * sizeof(Carry<Acc>)];
  const ColumnWarps<Op> warps(op, memory);
  Acc total = warps.before(plan, number, chain, tile.launch, own).value;
#pragma unroll
  for (int j = 0; j < Tile::ITEMS; ++j) {
    total = begins >> j & 1 ? value[j] : op._reduce(total, value[j]);
    const ptrdiff_t segment = ending[warp * Tile::ITEMS + j];
    if (segment >= 0 && writes)
      counted(op, mine + j + 1 - plan.bound(segment))
          ._post(op._initial(total), where(segment), segment);
  }
  ends.each(warp, Tile::WARPS, [&](ptrdiff_t segment, ptrdiff_t last) {
    if (plan.bound(segment) >= last && writes)
      counted(op, 0)._post(op._identity(), where(segment), segment);
  });
}

}  // namespace kspec
