// Segments of a single column, in tiles of elements that follow each other: however long segments
// are, each block has as many elements as the others.
#pragma once

#include "kspec/line_tile.cuh"
#include "kspec/segments.cuh"

namespace kspec {

// Reduce the segments whose ends are in a tile; PACKED as for kspec::scan_tile.
template <int V, bool PACKED, class Op, int AXES, int I, int O, class... Inputs>
__device__ inline void segment_tile(const Op& op, const SegmentPlan<AXES, I, O>& plan,
                                    typename Op::_Acc* made, unsigned int* bits,
                                    const Inputs&... inputs) {
  typedef TileValues<Op, V> Values;
  typedef typename Values::Tile Tile;
  const Ticket tile = take_tile(plan);
  const ptrdiff_t first = tile.number * Tile::SIZE - plan.shift;
  const Offsets<AXES, I + O> row(plan.rows, 0);
  TilePacks<Tile, V, typename UpTo<I>::type, Inputs...> packs;
  // In flight while the bounds are looked for.
  if constexpr (PACKED) packs.load(plan.steps, first, plan.length, inputs...);
  const SegmentEnds<SegmentPlan<AXES, I, O>, Tile::SIZE> ends(plan, tile.number, first, bits);
  const ptrdiff_t begin = plan.bound(0), end = plan.bound(plan.segments);
  const int low = item_of(ends.low < begin ? begin : ends.low, first, Tile::SIZE);
  const int high = item_of(ends.high < end ? ends.high : end, first, Tile::SIZE);
  __syncthreads();
  Values values;
  values.begins = 0;
#pragma unroll
  for (int r = 0; r < Tile::ROUNDS; ++r) {
    const int item = Tile::item(r);
    values.begins |= (bits[item / 32] >> item % 32 & Values::ALL) << r * V;
    const auto map = [&](int j) {
      const ptrdiff_t n = first + item + j;
      const Place at = Op::_INDEXED ? plan.locate(n) : Place{0, 0};
      if constexpr (PACKED)
        values.value[r][j] = packs.batch[r].map(op, j, at.column, at.row);
      else
        values.value[r][j] = op._map(InRow<AXES, I + O>{row, plan.steps, n}, at.column, at.row);
    };
    if (high - low == Tile::SIZE) {
#pragma unroll
      for (int j = 0; j < V; ++j) map(j);
    } else {
      const unsigned int exists = bits_within<V>(item, low, high);
      values.begins |= (exists ^ Values::ALL) << r * V;
#pragma unroll
      for (int j = 0; j < V; ++j)
        if (exists >> j & 1) map(j);
    }
  }
  values.scan(op, plan, tile, false);
#pragma unroll
  for (int r = 0; r < Tile::ROUNDS; ++r)
#pragma unroll
    for (int j = 0; j < V; ++j) made[Tile::item(r) + j] = values.value[r][j];
  __syncthreads();
  ends.each(threadIdx.x, Tile::THREADS, [&](ptrdiff_t segment, ptrdiff_t last) {
    const ptrdiff_t count = last - plan.bound(segment);
    counted(op, count)._post(count > 0 ? op._initial(made[(int)(last - 1 - first)]) : op._identity(),
                             InRow<AXES, I + O>{row, plan.steps, segment}, segment);
  });
}

template <class Op, int AXES, int I, int O, class... Inputs>
__device__ inline void reduce(const Op& op, const Reduction<SegmentLines<AXES>, I, O>& plan,
                              const Inputs&... inputs) {
  typedef typename Op::_Acc Acc;
  enum { V = TilePack<Acc, PackSize<Inputs...>::value>::V };
  enum { PACKED = LineTile<Acc, V>::SIZE, SINGLE = LineTile<Acc, 1>::SIZE };
  enum { SIZE = (int)PACKED > (int)SINGLE ? (int)PACKED : (int)SINGLE };
  __shared__ __align__(16) unsigned char memory[SIZE * sizeof(Acc)];
  __shared__ unsigned int bits[(SIZE + 31) / 32];
  Acc* made = reinterpret_cast<Acc*>(memory);
  if constexpr (V > 1) {
    if (plan.packed) {
      segment_tile<V, true>(op, plan, made, bits, inputs...);
      return;
    }
  }
  segment_tile<1, false>(op, plan, made, bits, inputs...);
}

}  // namespace kspec
