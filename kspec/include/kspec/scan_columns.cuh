// Scans along an axis whose neighbours in memory are far apart: a warp takes 32 rows that lie side by
// side, a thread some elements of one row, and a block 32 rows in a tile of elements.
#pragma once

#include "kspec/carry.cuh"
#include "kspec/scan.cuh"

namespace kspec {

// kspec/runtime/schedules/scan_schedule.py agrees.
template <class Acc> struct ColumnTile {
  enum {
    SIDE = 32,
    WARPS = 8,
    ITEMS = sizeof(Acc) > 16 ? 4 : sizeof(Acc) > 4 ? 8 : 16,  // of a thread
    SIZE = WARPS * ITEMS                                      // of a row
  };
};

// What the thread's items before it make, in all tiles; `own` is what its own make.
template <class Op, class Plan>
__device__ inline Carry<typename Op::_Acc> join_columns(const Op& op, const Plan& plan,
                                                        ptrdiff_t number, ptrdiff_t chain,
                                                        unsigned int launch,
                                                        const Carry<typename Op::_Acc>& own) {
  typedef typename Op::_Acc Acc;
  typedef ColumnTile<Acc> Tile;
  enum { OTHERS = Tile::WARPS - 1 };  // the last warp keeps its own, and speaks for the tile
  __shared__ __align__(16) unsigned char memory[OTHERS * Tile::SIDE * sizeof(Carry<Acc>)];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  Carry<Acc>* shared = reinterpret_cast<Carry<Acc>*>(memory) + lane;
  // What the first `count` warps have, in their order.
  const auto join = [&](const Carry<Acc>& mine, int count) {
    __syncthreads();
    if (warp < OTHERS) shared[warp * Tile::SIDE] = mine;
    __syncthreads();
    Carry<Acc> all;
    all.state = NOTHING;
#pragma unroll 1
    for (int w = 0; w < count; ++w) {
      Carry<Acc> next = shared[w * Tile::SIDE];
      next.follow(op, all);
      all = next;
    }
    return all;
  };
  Carry<Acc> mine = join(own, warp);
  if (plan.tiles == 1) return mine;

  const LookBack<Acc, OTHERS, Tile::SIDE> look_back(plan, chain, launch);
  Carry<Acc> whole = own;
  whole.follow(op, mine);
  mine.follow(op, look_back.exchange(op, number, warp, lane, warp == OTHERS, whole,
                                     [&](const Carry<Acc>& some) { return join(some, OTHERS); }));
  return mine;
}

template <class Op, int AXES, int I, int O, class... Inputs>
__device__ inline void reduce(const Op& op, const Reduction<ScanColumns<AXES>, I, O>& plan,
                              const Inputs&...) {
  typedef typename Op::_Acc Acc;
  typedef ColumnTile<Acc> Tile;
  const Ticket tile = take_tile(plan);
  const ptrdiff_t number = tile.number / plan.chains, chain = tile.number - number * plan.chains;
  // Threads beyond the last row do as it does, and write nothing.
  const ptrdiff_t wanted = chain * Tile::SIDE + threadIdx.x % 32;
  const ptrdiff_t row = wanted < plan.outputs ? wanted : plan.outputs - 1;
  const ptrdiff_t first = number * Tile::SIZE + threadIdx.x / 32 * Tile::ITEMS;
  const int count = plan.length - first < Tile::ITEMS ? (int)(plan.length - first) : Tile::ITEMS;
  const Offsets<AXES, I + O> offsets(plan.rows, row);
  const auto where = [&](ptrdiff_t column) {
    return InRow<AXES, I + O>{offsets, plan.steps, place_in(plan, column)};
  };
  Acc value[Tile::ITEMS];
#pragma unroll
  for (int j = 0; j < Tile::ITEMS; ++j)
    if (j < count)
      value[j] = op._map(where(first + j), place_in(plan, first + j), row);
  Carry<Acc> own;
  own.value = value[0];
  own.state = first == 0 || count < Tile::ITEMS ? BEGUN : OPEN;
#pragma unroll
  for (int j = 1; j < Tile::ITEMS; ++j)
    if (j < count) own.value = op._reduce(own.value, value[j]);
  const Carry<Acc> before = join_columns(op, plan, number, chain, tile.launch, own);
  Acc total = before.value;
#pragma unroll
  for (int j = 0; j < Tile::ITEMS; ++j) {
    if (j >= count) continue;
    const bool begins = first + j == 0;
    const Acc next = begins ? value[j] : op._reduce(total, value[j]);
    if (wanted < plan.outputs)
      counted(op, first + j + !plan.exclusive)
          ._post(!plan.exclusive ? op._initial(next) : begins ? op._identity() : op._initial(total),
                 where(first + j), row);
    total = next;
  }
}

}  // namespace kspec
