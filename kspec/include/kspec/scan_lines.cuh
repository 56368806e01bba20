// Scans of rows whose elements are taken in tiles, one after the other.
#pragma once

#include "kspec/scan_runs.cuh"

namespace kspec {

// The tile of operands of which PACK elements fill an access.
template <class Acc, int PACK>
using ScanTile = typename Choose<(sizeof(Acc) > RUN_ABOVE), RunTile<Acc, PACK>,
                                 LineTile<Acc, TilePack<Acc, PACK>::V>>::type;

// The elements of a tile from number `first` on, of which those from `low` to `high` exist, in packs of V:
// `PACKED` if element number n of each operand is number n in memory.
template <int V, bool PACKED, class Op, class Plan, class Items> struct TileScan {
  typedef TileValues<Op, V, Items> Values;
  typedef typename Values::Tile Tile;

  const Op& op;
  const Plan& plan;
  const RowsOfTile<Plan>& rows;
  const ptrdiff_t first;
  const int low, high;
  const Values values;

  // Map them, and scan those of each warp; return what these make.
  template <int AXES, int I, int O, class... Inputs>
  __device__ inline Carry<typename Op::_Acc> map(const ScanPlan<AXES, I, O>&,
                                                 const Inputs&... inputs) const {
    TilePacks<Tile, V, typename UpTo<I>::type, Inputs...> packs;
    if constexpr (PACKED) packs.load(plan.steps, first, low, high, inputs...);
    values.own.begins = 0;
    values.own.exists = ~0u;
    const bool whole = high - low == Tile::SIZE;
    if (!whole) values.own.exists = 0;
#pragma unroll
    for (int r = 0; r < Tile::ROUNDS; ++r) {
      const int item = Tile::item(r);
      values.own.begins |= rows.template begins<V>(item) << r * V;
      if (!whole) values.own.exists |= bits_within<V>(item, low, high) << r * V;
      Place at = rows[item];
#pragma unroll
      for (int j = 0; j < V; ++j, at = rows.after(at)) {
        // Packs have values in any case.
        if ((!PACKED || Op::_INDEXED) && !exists(r, j)) continue;
        if constexpr (PACKED) {
          values.value(r, j) = packs.batch[r].map(op, j, place_in(plan, at.column), at.row);
        } else {
          const Offsets<AXES, I + O> row(plan.rows, at.row);
          const ptrdiff_t place = place_in(plan, at.column);
          values.value(r, j) = op._map(InRow<AXES, I + O>{row, plan.steps, place}, place, at.row);
        }
      }
    }
    values.own.begins |= ~values.own.exists & (1u << (Tile::ROUNDS * V - 1) << 1) - 1u;
    return values.scan(op);
  }
  // Write the outputs, given what is before the elements of the warp.
  template <int AXES, int I, int O, class... Outputs>
  __device__ inline void post(const ScanPlan<AXES, I, O>&, const Carry<typename Op::_Acc>& before,
                              const Outputs&... outputs) const {
    values.finish(op, before, plan.exclusive);
    const auto post = [&](int r, int j, const Place& at, const auto& value, const auto& place) {
      const bool nothing = plan.exclusive && values.own.begins >> (r * V + j) & 1;
      counted(op, at.column + !plan.exclusive)
          ._post(nothing ? op._identity() : op._initial(value), place, at.row);
    };
    if constexpr (PACKED) {
#pragma unroll
      for (int r = 0; r < Tile::ROUNDS; ++r) {
        const int item = Tile::item(r);
        OutputPack<V, typename UpTo<O>::type, Outputs...> pack;
        Place at = rows[item];
#pragma unroll
        for (int j = 0; j < V; ++j, at = rows.after(at))
          if (exists(r, j)) post(r, j, at, values.value(r, j), InPack<decltype(pack), I>{pack, j});
        if (high - low == Tile::SIZE)
          pack.store(outputs..., first + item);
        else
          pack.store(outputs..., first + item, values.own.exists >> r * V);
      }
    } else {
#pragma unroll 1
      for (int r = 0; r < Tile::ROUNDS; ++r) {
        if (!exists(r, 0)) continue;
        typename Op::_Acc value = values.value(0, 0);
#pragma unroll
        for (int k = 1; k < Tile::ROUNDS; ++k)
          if (k == r) value = values.value(k, 0);
        const Place at = rows[Tile::item(r)];
        const Offsets<AXES, I + O> row(plan.rows, at.row);
        post(r, 0, at, value, InRow<AXES, I + O>{row, plan.steps, place_in(plan, at.column)});
      }
    }
  }

 private:
  __device__ inline bool exists(int round, int j) const {
    return values.own.exists >> (round * V + j) & 1;
  }
};

// Scan a tile of packs of V, or, where there are none, of single elements.
template <int V, class Op, int AXES, int I, int O, class Outputs, class... Inputs>
__device__ inline void scan_tile(const Op& op, const Reduction<ScanLines<AXES>, I, O>& plan,
                                 const Outputs& with_outputs, const Inputs&... inputs) {
  typedef typename Op::_Acc Acc;
  typedef Reduction<ScanLines<AXES>, I, O> Plan;
  typedef LineTile<Acc, V> Packed;
  typedef LineTile<Acc, 1> Single;
  enum { ROUNDS = Packed::ROUNDS, SINGLES = Single::ROUNDS };
  typedef TileItems<Acc, (ROUNDS * V > SINGLES ? ROUNDS * V : SINGLES),
                    (ROUNDS > SINGLES ? ROUNDS : SINGLES)>
      Items;
  const bool packed = V > 1 && plan.packed;
  const int size = packed ? Packed::SIZE : Single::SIZE;
  const Ticket tile = take_tile(plan);
  const ptrdiff_t first = tile.number * size - plan.shift;
  const int low = item_of(0, first, size), high = item_of(plan.outputs * plan.length, first, size);
  const RowsOfTile<Plan> rows(plan, first, size);
  Items items;
  const TileScan<V, true, Op, Plan, Items> packs{op, plan, rows, first, low, high, {items}};
  const TileScan<1, false, Op, Plan, Items> singles{op, plan, rows, first, low, high, {items}};
  Carry<Acc> own;
  if constexpr (V > 1)
    own = packed ? packs.map(plan, inputs...) : singles.map(plan, inputs...);
  else
    own = singles.map(plan, inputs...);
  const Carry<Acc> before = before_warp<Packed::WARPS>(op, plan, tile, own);
  with_outputs([&](const auto&... outputs) {
    if constexpr (V > 1) {
      if (packed) {
        packs.post(plan, before, outputs...);
        return;
      }
    }
    singles.post(plan, before, outputs...);
  });
}

template <class Op, int AXES, int I, int O, class... Inputs>
__device__ inline void reduce(const Op& op, const Reduction<ScanLines<AXES>, I, O>& plan,
                              const Inputs&... inputs) {
  typedef typename Op::_Acc Acc;
  op._outputs([&](const auto&... outputs) {
    enum { PACK = PackSize<Inputs..., Bare<decltype(outputs)>...>::value };
    enum { V = ScanTile<Acc, PACK>::V };
    if constexpr (sizeof(Acc) > RUN_ABOVE)
      scan_runs<V>(op, plan, inputs...);
    else
      scan_tile<V>(op, plan, [&](const auto& use) { use(outputs...); }, inputs...);
  });
}

}  // namespace kspec
