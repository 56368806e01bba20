// Scans of rows whose elements are taken in tiles, one after the other.
#pragma once

#include "kspec/scan_runs.cuh"

namespace kspec {

// The tile of operands of which PACK elements fill an access.
template <class Acc, int PACK>
using ScanTile = typename Choose<(sizeof(Acc) > RUN_ABOVE), RunTile<Acc, PACK>,
                                 LineTile<Acc, TilePack<Acc, PACK>::V>>::type;

// Scan a tile whose packs have V elements: `PACKED` if element number n of each operand is number n
// in memory.
template <int V, bool PACKED, class Op, int AXES, int I, int O, class... Inputs>
__device__ inline void scan_tile(const Op& op, const ScanPlan<AXES, I, O>& plan,
                                 const Inputs&... inputs) {
  typedef TileValues<Op, V> Values;
  typedef typename Values::Tile Tile;
  const Ticket tile = take_tile(plan);
  const ptrdiff_t first = tile.number * Tile::SIZE - plan.shift;
  const ptrdiff_t total = plan.outputs * plan.length;
  TilePacks<Tile, V, typename UpTo<I>::type, Inputs...> packs;
  if constexpr (PACKED) packs.load(plan.steps, first, total, inputs...);
  const RowsOfTile<ScanPlan<AXES, I, O>, Tile::SIZE> rows(plan, first);
  const int low = item_of(0, first, Tile::SIZE), high = item_of(total, first, Tile::SIZE);
  const auto where = [&](const Offsets<AXES, I + O>& row, const Place& at) {
    return InRow<AXES, I + O>{row, plan.steps, place_in(plan, at.column)};
  };
  Values values;
  values.begins = 0;
#pragma unroll
  for (int r = 0; r < Tile::ROUNDS; ++r) {
    const int item = Tile::item(r);
    values.begins |= rows.template begins<V>(item) << r * V;
    Place at = rows[item];
    const auto map = [&](int j) {
      if constexpr (PACKED) {
        values.value[r][j] = packs.batch[r].map(op, j, place_in(plan, at.column), at.row);
      } else {
        const Offsets<AXES, I + O> row(plan.rows, at.row);
        values.value[r][j] = op._map(where(row, at), place_in(plan, at.column), at.row);
      }
    };
    if (high - low == Tile::SIZE) {
#pragma unroll
      for (int j = 0; j < V; ++j, at = rows.after(at)) map(j);
    } else {
      const unsigned int exists = bits_within<V>(item, low, high);
      values.begins |= (exists ^ Values::ALL) << r * V;
#pragma unroll
      for (int j = 0; j < V; ++j, at = rows.after(at))
        if (exists >> j & 1) map(j);
    }
  }
  values.scan(op, plan, tile, plan.exclusive);
  op._outputs([&](const auto&... outputs) {
#pragma unroll
    for (int r = 0; r < Tile::ROUNDS; ++r) {
      const int item = Tile::item(r);
      Place at = rows[item];
      const auto post = [&](int j, const auto& place) {
        const bool nothing = plan.exclusive && values.begins >> (r * V + j) & 1;
        counted(op, at.column + !plan.exclusive)
            ._post(nothing ? op._identity() : op._initial(values.value[r][j]), place, at.row);
      };
      if constexpr (PACKED) {
        OutputPack<V, typename UpTo<O>::type, Bare<decltype(outputs)>...> pack;
        if (high - low == Tile::SIZE) {
#pragma unroll
          for (int j = 0; j < V; ++j, at = rows.after(at)) post(j, InPack<decltype(pack), I>{pack, j});
          pack.store(outputs..., first + item);
        } else {
          const unsigned int exists = bits_within<V>(item, low, high);
#pragma unroll
          for (int j = 0; j < V; ++j, at = rows.after(at))
            if (exists >> j & 1) post(j, InPack<decltype(pack), I>{pack, j});
          pack.store(outputs..., first + item, exists);
        }
      } else if (item >= low && item < high) {
        const Offsets<AXES, I + O> row(plan.rows, at.row);
        post(0, where(row, at));
      }
    }
  });
}

template <class Op, int AXES, int I, int O, class... Inputs>
__device__ inline void reduce(const Op& op, const Reduction<ScanLines<AXES>, I, O>& plan,
                              const Inputs&... inputs) {
  typedef typename Op::_Acc Acc;
  op._outputs([&](const auto&... outputs) {
    enum { PACK = PackSize<Inputs..., Bare<decltype(outputs)>...>::value };
    enum { V = ScanTile<Acc, PACK>::V };
    if constexpr (sizeof(Acc) > RUN_ABOVE) {
      scan_runs<V>(op, plan, inputs...);
    } else {
      if constexpr (V > 1) {
        if (plan.packed) {
          scan_tile<V, true>(op, plan, inputs...);
          return;
        }
      }
      scan_tile<1, false>(op, plan, inputs...);
    }
  });
}

}  // namespace kspec
