// Scans of rows with accumulators that are too large to keep one for each element. A thread has a run
// of elements that follow each other, and maps each of them twice: for what the run makes, and, with
// what is before the run, for the outputs.
#pragma once

#include "kspec/line_tile.cuh"
#include "kspec/output_pack.cuh"
#include "kspec/tile_rows.cuh"

namespace kspec {

// Bytes of an accumulator, above which runs are taken.
enum { RUN_ABOVE = 32 };

// The elements of a tile whose packs have PACK; kspec/runtime/schedules/scan_schedule.py agrees.
template <class Acc, int PACK> struct RunTile {
  enum {
    V = PACK,
    THREADS = sizeof(Acc) > 96 ? 128 : 256,
    WARPS = THREADS / 32,
    ITEMS = 16,  // of a thread
    SIZE = THREADS * ITEMS
  };
};

// Scan a tile. Warps in which all elements exist, and no row begins, take packs of V if element number
// n of each operand is number n in memory.
template <int V, class Op, int AXES, int I, int O, class... Inputs>
__device__ inline void scan_runs(const Op& op, const ScanPlan<AXES, I, O>& plan,
                                 const Inputs&... inputs) {
  typedef typename Op::_Acc Acc;
  typedef RunTile<Acc, V> Tile;
  const Ticket tile = take_tile(plan);
  const ptrdiff_t first = tile.number * Tile::SIZE - plan.shift;
  const RowsOfTile<ScanPlan<AXES, I, O>> rows(plan, first, Tile::SIZE);
  const int low = item_of(0, first, Tile::SIZE);
  const int high = item_of(plan.outputs * plan.length, first, Tile::SIZE);
  const int item = (int)threadIdx.x * Tile::ITEMS;
  const unsigned int exists = bits_within<Tile::ITEMS>(item, low, high);
  const unsigned int begins = rows.template begins<Tile::ITEMS>(item);
  const bool plain =
      plan.packed && __all_sync(0xffffffffu, exists == (1u << Tile::ITEMS) - 1u && begins == 0);

  // Go through the elements of a run: `use(n, place, begins, value, operands)`. Loops are rolled, for
  // operations on large accumulators are long.
  const auto each = [&](const auto& use) {
    Place at = rows[item];
    ptrdiff_t row = at.row;
    Offsets<AXES, I + O> offsets(plan.rows, row);
#pragma unroll 1
    for (int n = 0; n < Tile::ITEMS; ++n, at = rows.after(at)) {
      if (!(exists >> n & 1)) continue;
      if (at.row != row) offsets = Offsets<AXES, I + O>(plan.rows, row = at.row);
      const InRow<AXES, I + O> operands{offsets, plan.steps, place_in(plan, at.column)};
      use(n, at, begins >> n & 1, op._map(operands, place_in(plan, at.column), row), operands);
    }
  };
  // The same of a plain run, pack by pack: `use(n, place, value, operands)`, then `done(n)`.
  const auto each_packed = [&](auto& pack, const auto& use, const auto& done) {
    Place at = rows[item];
#pragma unroll 1
    for (int n = 0; n < Tile::ITEMS; n += V) {
      Batch<V, typename UpTo<I>::type, Inputs...> batch;
      batch.load(
          [&](int k) { return NeighbourAccessor{first + item + n, plan.steps[k] != 0}; }, inputs...);
#pragma unroll
      for (int j = 0; j < V; ++j, ++at.column)
        use(n + j, at, batch.map(op, j, place_in(plan, at.column), at.row),
            InPack<Bare<decltype(pack)>, I>{pack, j});
      done(n);
    }
  };

  Carry<Acc> own;
  own.state = NOTHING;
  if (plain) {
    struct {} none;
    each_packed(
        none,
        [&](int n, const Place&, const Acc& value, const auto&) {
          own.value = n ? op._reduce(own.value, value) : value;
        },
        [](int) {});
    own.state = OPEN;
  } else {
    each([&](int, const Place&, bool begins, const Acc& value, const auto&) {
      own.value = begins || own.state == NOTHING ? value : op._reduce(own.value, value);
      own.state = begins || own.state == BEGUN ? BEGUN : OPEN;
    });
  }
  own = up_to_lane<32>(op, own);
  Carry<Acc> before = shuffle_up(own, 1);
  if (threadIdx.x % 32 == 0) before.state = NOTHING;
  before.follow(op, before_warp<Tile::WARPS>(op, plan, tile, shuffle_from(own, 31)));

  Acc total = before.value;
  const auto post = [&](const Place& at, bool begins, const Acc& value, const auto& operands) {
    const Acc next = begins ? value : op._reduce(total, value);
    counted(op, at.column + !plan.exclusive)
        ._post(!plan.exclusive ? op._initial(next)
               : begins        ? op._identity()
                               : op._initial(total),
               operands, at.row);
    total = next;
  };
  if (plain)
    op._outputs([&](const auto&... outputs) {
      OutputPack<V, typename UpTo<O>::type, Bare<decltype(outputs)>...> pack;
      each_packed(
          pack,
          [&](int, const Place& at, const Acc& value, const auto& operands) {
            post(at, false, value, operands);
          },
          [&](int n) { pack.store(outputs..., first + item + n); });
    });
  else
    each([&](int, const Place& at, bool begins, const Acc& value, const auto& operands) {
      post(at, begins, value, operands);
    });
}

}  // namespace kspec
