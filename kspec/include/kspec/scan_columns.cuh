// Scans along an axis whose neighbours in memory are far apart: a warp takes 32 rows that lie side by
// side, a thread some elements of one row, and a block 32 rows in a tile of elements. If there are
// enough rows for all multiprocessors, a block goes through all tiles of its rows; otherwise its tile
// is high, for each has to hear from those before it.
#pragma once

#include "kspec/carry.cuh"
#include "kspec/scan.cuh"

namespace kspec {

// Tiles of rows side by side, MOST elements of a thread. kspec/runtime/schedules/scan_schedule.py has
// the same.
template <class Acc, int MOST = 16> struct ColumnTile {
  enum {
    SIDE = 32,
    WARPS = 8,
    ITEMS = sizeof(Acc) > 16 ? 4 : sizeof(Acc) > 4 ? MOST / 2 : MOST,  // of a thread
    SIZE = WARPS * ITEMS,                                              // of a row
    WALKS = sizeof(Acc) <= 96  // a block may have all tiles: there is shared memory for it
  };
};
// Where a block has all tiles, and where it has one.
template <class Acc> struct WalkedTile : ColumnTile<Acc, 12> {};
template <class Acc> struct HighTile : ColumnTile<Acc> {
  enum {
    WORDS = sizeof(Acc) <= 4    ? 1
            : sizeof(Acc) <= 8  ? 2
            : sizeof(Acc) <= 16 ? 4
            : sizeof(Acc) <= 32 ? 8
                                : 16,
    ITEMS = WORDS > 1 ? 64 / WORDS : 80,
    SIZE = ColumnTile<Acc>::WARPS * ITEMS
  };
};

// The warps of a block, which have items of the same rows.
template <class Op> struct ColumnWarps {
  typedef typename Op::_Acc Acc;
  typedef ColumnTile<Acc> Tile;
  enum { OTHERS = Tile::WARPS - 1 };  // the last warp keeps its own, and speaks for the tile
  // In a block that has all tiles, also what is before the next one, of two that follow each other.
  enum { SLOTS = OTHERS, WALKED_SLOTS = OTHERS + 2 };

  const Op& op;
  Carry<Acc>* const shared;  // the lane's

  // `memory` is for so many times SIDE carries.
  __device__ inline ColumnWarps(const Op& op, unsigned char* memory)
      : op(op), shared(reinterpret_cast<Carry<Acc>*>(memory) + threadIdx.x % 32) {}

  // What the first `count` warps have, in their order.
  __device__ inline Carry<Acc> join(const Carry<Acc>& mine, int count) const {
    const int warp = threadIdx.x / 32;
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
  }
  // What the items before the thread's make, in all tiles; `own` is what its own make.
  template <class Plan>
  __device__ inline Carry<Acc> before(const Plan& plan, ptrdiff_t number, ptrdiff_t chain,
                                      unsigned int launch, const Carry<Acc>& own) const {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    Carry<Acc> mine = join(own, warp);
    if (plan.tiles == 1) return mine;

    const LookBack<Acc, OTHERS, Tile::SIDE> look_back(plan, chain, launch);
    Carry<Acc> whole = own;
    whole.follow(op, mine);
    mine.follow(op, look_back.exchange(op, number, warp, lane, warp == OTHERS, whole,
                                       [&](const Carry<Acc>& some) { return join(some, OTHERS); }));
    return mine;
  }
  // The same in a block that has had all tiles before number `number`.
  __device__ inline Carry<Acc> after(ptrdiff_t number, const Carry<Acc>& own) const {
    const int warp = threadIdx.x / 32, parity = (int)(number & 1);
    Carry<Acc> mine = join(own, warp);
    if (number) mine.follow(op, shared[(OTHERS + 1 - parity) * Tile::SIDE]);
    if (warp == OTHERS) {
      Carry<Acc> whole = own;
      whole.follow(op, mine);
      shared[(OTHERS + parity) * Tile::SIDE] = whole;
    }
    return mine;
  }
};

// Where the operands of a thread's items are, the steps from one to the next once and for all: to find
// each from the plan would take more instructions than the rest of a scan, and loads would wait for them.
template <int OPERANDS> struct ItemsOfRow {
  ptrdiff_t offset[OPERANDS], step[OPERANDS];  // in bytes; of the first item

  template <int AXES, class Plan>
  __device__ inline ItemsOfRow(const Plan& plan, const Offsets<AXES, OPERANDS>& row, ptrdiff_t first) {
    const ptrdiff_t place = place_in(plan, first);
#pragma unroll
    for (int k = 0; k < OPERANDS; ++k) {
      offset[k] = row.offset[k] + place * plan.steps[k];
      step[k] = plan.reversed ? -plan.steps[k] : plan.steps[k];
    }
  }
  __device__ inline void move(int items) {
#pragma unroll
    for (int k = 0; k < OPERANDS; ++k) offset[k] += items * step[k];
  }

  struct Item {
    const ItemsOfRow& items;
    const int number;

    __device__ inline Bytes operator[](int operand) const {
      return Bytes{items.offset[operand] + number * items.step[operand]};
    }
  };
  __device__ inline Item operator[](int number) const { return Item{*this, number}; }
};

// Scan tiles of rows that lie side by side. WALKS: a block has all tiles of its rows.
template <bool WALKS, class Op, int AXES, int I, int O>
__device__ inline void scan_beside(const Op& op, const ScanPlan<AXES, I, O>& plan) {
  typedef typename Op::_Acc Acc;
  typedef typename Choose<WALKS, WalkedTile<Acc>, HighTile<Acc>>::type Tile;
  enum { SLOTS = WALKS ? ColumnWarps<Op>::WALKED_SLOTS : ColumnWarps<Op>::SLOTS };
  __shared__ __align__(16) unsigned char memory[SLOTS * Tile::SIDE * sizeof(Carry<Acc>)];
  const ColumnWarps<Op> warps(op, memory);
  const Ticket tile = WALKS ? Ticket{(ptrdiff_t)blockIdx.x, 0} : take_tile(plan);
  ptrdiff_t number = WALKS ? 0 : tile.number / plan.chains;
  const ptrdiff_t chain = tile.number - number * plan.chains;
  // Threads beyond the last row do as it does, and write nothing.
  const ptrdiff_t wanted = chain * Tile::SIDE + threadIdx.x % 32;
  const ptrdiff_t row = wanted < plan.outputs ? wanted : plan.outputs - 1;
  ptrdiff_t first = number * Tile::SIZE + threadIdx.x / 32 * Tile::ITEMS;
  ItemsOfRow<I + O> items(plan, Offsets<AXES, I + O>(plan.rows, row), first);
  const bool exclusive = plan.exclusive;
  do {
    const int count = plan.length - first < Tile::ITEMS ? (int)(plan.length - first) : Tile::ITEMS;
    // Call `visit(exists)`, where `exists(j)` says whether there is an item: in most tiles all exist,
    // and tests would stand between their accesses.
    const auto with_items = [&](const auto& visit) {
      if (count == Tile::ITEMS)
        visit([](int) { return true; });
      else
        visit([&](int j) { return j < count; });
    };
    Acc value[Tile::ITEMS];
    Carry<Acc> own;
    with_items([&](const auto& exists) {
#pragma unroll
      for (int j = 0; j < Tile::ITEMS; ++j)
        if (exists(j)) value[j] = op._map(items[j], place_in(plan, first + j), row);
      own.value = value[0];
#pragma unroll
      for (int j = 1; j < Tile::ITEMS; ++j)
        if (exists(j)) own.value = op._reduce(own.value, value[j]);
    });
    own.state = first == 0 || count < Tile::ITEMS ? BEGUN : OPEN;
    const Carry<Acc> before = WALKS ? warps.after(number, own)
                                    : warps.before(plan, number, chain, tile.launch, own);
    const auto post = [&](const auto& exists) {
      Acc total = before.value;
#pragma unroll
      for (int j = 0; j < Tile::ITEMS; ++j) {
        if (!exists(j)) continue;
        const bool begins = j == 0 && first == 0;
        const Acc next = begins ? value[j] : op._reduce(total, value[j]);
        counted(op, first + j + !exclusive)
            ._post(!exclusive ? op._initial(next)
                   : begins   ? op._identity()
                              : op._initial(total),
                   items[j], row);
        total = next;
      }
    };
    if (wanted < plan.outputs) with_items(post);
    first += Tile::SIZE;
    items.move(Tile::SIZE);
  } while (WALKS && ++number < plan.tiles);
}
template <class Op, int AXES, int I, int O, class... Inputs>
__device__ inline void reduce(const Op& op, const Reduction<ScanColumns<AXES>, I, O>& plan,
                              const Inputs&...) {
  scan_beside<false>(op, plan);
}
template <class Op, int AXES, int I, int O, class... Inputs>
__device__ inline void reduce(const Op& op, const Reduction<ScanWalks<AXES>, I, O>& plan,
                              const Inputs&...) {
  if constexpr (ColumnTile<typename Op::_Acc>::WALKS) scan_beside<true>(op, plan);
}

}  // namespace kspec
