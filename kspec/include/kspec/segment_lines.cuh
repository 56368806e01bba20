// Segments of a single column, in tiles of elements that follow each other: however long segments
// are, each block has as many elements as the others.
#pragma once

#include "kspec/line_tile.cuh"
#include "kspec/segments.cuh"

namespace kspec {

template <class Op, int AXES, int I, int O, class... Inputs>
__device__ inline void reduce(const Op& op, const Reduction<SegmentLines<AXES>, I, O>& plan,
                              const Inputs&... inputs) {
  typedef typename Op::_Acc Acc;
  typedef LineTile<Acc> Tile;
  enum { V = PackSize<Inputs...>::value };
  __shared__ __align__(16) unsigned char memory[Tile::ROOM * sizeof(Acc)];
  __shared__ unsigned int bits[(Tile::SIZE + 31) / 32];
  const Tile tile{reinterpret_cast<Acc*>(memory)};
  const ptrdiff_t number = take_tile(plan), first = number * Tile::SIZE - plan.shift;
  const Offsets<AXES, I + O> row(plan.rows, 0);
  TilePacks<Acc, V, typename UpTo<I>::type, Inputs...> packs;
  // In flight while the bounds are looked for.
  if (plan.packed) packs.load(plan.steps, first, plan.length, inputs...);
  const SegmentEnds<SegmentPlan<AXES, I, O>, Tile::SIZE> ends(plan, number, first, bits);
  const ptrdiff_t begin = plan.bound(0), end = plan.bound(plan.segments);
  const ptrdiff_t low = ends.low < begin ? begin : ends.low, high = ends.high < end ? ends.high : end;
  const auto place = [&](ptrdiff_t n) { return Op::_INDEXED ? plan.locate(n) : Place{0, 0}; };
  if (plan.packed) {
    packs.put(op, tile, first, low, high, place);
  } else {
#pragma unroll 4
    for (int item = threadIdx.x; item < Tile::SIZE; item += Tile::THREADS) {
      const ptrdiff_t n = first + item;
      if (n < low || n >= high) continue;
      const Place at = place(n);
      tile[item] = op._map(InRow<AXES, I + O>{row, plan.steps, n}, at.column, at.row);
    }
  }
  __syncthreads();
  const ptrdiff_t mine = first + threadIdx.x * Tile::ITEMS;
  unsigned int begins = 0;
#pragma unroll
  for (int j = 0; j < Tile::ITEMS; ++j)
    if (mine + j < low || mine + j >= high || ends.begins(mine + j)) begins |= 1u << j;
  scan_items(op, plan, number, tile, begins, false);
  __syncthreads();
  ends.each(threadIdx.x, Tile::THREADS, [&](ptrdiff_t segment, ptrdiff_t last) {
    const ptrdiff_t count = last - plan.bound(segment);
    counted(op, count)._post(
        count > 0 ? op._initial(tile[(int)(last - 1 - first)]) : op._identity(),
        InRow<AXES, I + O>{row, plan.steps, segment}, segment);
  });
}

}  // namespace kspec
