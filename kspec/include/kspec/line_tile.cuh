// Tiles of elements that follow each other, of which a block has one. Each warp has a stretch, and
// takes it in rounds: in one round the lanes' packs are side by side, so that neighbouring threads
// read neighbours. Elements stay in registers.
#pragma once

#include "kspec/batch.cuh"
#include "kspec/carry.cuh"
#include "kspec/scan.cuh"

namespace kspec {

// The elements of a tile whose packs have PACK; kspec/runtime/schedules/scan_schedule.py agrees.
template <class Acc, int PACK> struct LineTile {
  enum {
    V = PACK,
    THREADS = 256,
    WARPS = THREADS / 32,
    FITTING = sizeof(Acc) > 4 ? 96 / sizeof(Acc) : 24,  // for a thread
    ITEMS = V > 1 || FITTING < 8 ? FITTING : 8,  // single elements take far more code
    ROUNDS = ITEMS > V ? ITEMS / V : 1,
    SIZE = THREADS * ROUNDS * V
  };

  // The first one of the thread's pack in a round.
  __device__ static inline int item(int round) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    return ((warp * ROUNDS + round) * 32 + lane) * V;
  }
};

// Elements of a pack: how many of them a tile has registers for.
template <class Acc, int PACK> struct TilePack {
  enum { V = PACK * (int)sizeof(Acc) <= 128 ? PACK : 1 };
};

// A bit for each of the V elements from number `item` of a tile on that is among [low, high).
template <int V> __device__ inline unsigned int bits_within(int item, int low, int high) {
  enum { ALL = (1u << (V - 1) << 1) - 1u };
  unsigned int bits = ALL;
  if (item < low) bits = low - item < V ? bits & ALL << (low - item) : 0;
  if (item + V > high) bits = high > item ? bits & ALL >> (item + V - high) : 0;
  return bits;
}
// How far from the first one on an element of a tile is, if at most `size`, and not before it.
__device__ inline int item_of(ptrdiff_t element, ptrdiff_t first, int size) {
  return element <= first ? 0 : element - first < size ? (int)(element - first) : size;
}

// A pack of which some elements do not exist: these have the value of the nearest one. `first` is that
// of a tile, of which the elements from `low` to `last` exist.
struct ClampedAccessor {
  ptrdiff_t first;
  int item, low, last;
  bool moving;

  template <class T, int V> __device__ inline void load(const T* data, Pack<T, V>& pack) const {
    pack.load_each([&](int j) {
      const int at = item + j < low ? low : item + j > last ? last : item + j;
      return data[moving ? first + at : 0];
    });
  }
};

// A pack of the elements from number `first` on; an input that does not move has one element.
struct NeighbourAccessor {
  ptrdiff_t first;
  bool moving;

  template <class T, int V> __device__ inline void load(const T* data, Pack<T, V>& pack) const {
    if (moving)
      pack.load(data + first);
    else
      pack.fill(*data);
  }
};

// The packs of a tile that a thread loads: all are in flight at once. Element number n is number n in
// memory; `first` is that of the tile's first one, of which those from `low` to `high` exist.
template <class Tile, int V, class K, class... Inputs> struct TilePacks {
  Batch<V, K, Inputs...> batch[Tile::ROUNDS];

  __device__ inline void load(const ptrdiff_t* steps, ptrdiff_t first, int low, int high,
                              const Inputs&... inputs) {
    if (high - low == Tile::SIZE) {
      const ptrdiff_t own = first + Tile::item(0);
#pragma unroll
      for (int r = 0; r < Tile::ROUNDS; ++r)
        batch[r].load([&](int k) { return NeighbourAccessor{own + r * 32 * V, steps[k] != 0}; },
                      inputs...);
      return;
    }
#pragma unroll
    for (int r = 0; r < Tile::ROUNDS; ++r)
      batch[r].load(
          [&](int k) {
            return ClampedAccessor{first, Tile::item(r), low, high - 1, steps[k] != 0};
          },
          inputs...);
  }
};

// What the carries of all lanes make.
template <class Op, class Acc> __device__ inline Carry<Acc> fold(const Op& op, Carry<Acc> some) {
#pragma unroll 1
  for (int by = 1; by < 32; by *= 2) {
    Carry<Acc> later = shuffle_down(some, by);
    if ((int)(threadIdx.x % 32) + by < 32) {
      later.follow(op, some);
      some = later;
    }
  }
  return shuffle_from(some, 0);
}

// What is before the warp's elements, given what its own make.
template <int WARPS, class Op, class Plan, class Acc>
__device__ inline Carry<Acc> before_warp(const Op& op, const Plan& plan, const Ticket& tile,
                                         const Carry<Acc>& own) {
  __shared__ __align__(16) unsigned char memory[(WARPS + 1) * sizeof(Carry<Acc>)];
  Carry<Acc>* shared = reinterpret_cast<Carry<Acc>*>(memory);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  if (lane == 0) shared[warp] = own;
  __syncthreads();
  // What the warps before this one have; the first warp speaks for the tile, and wants them all.
  Carry<Acc> before = up_to_lane<WARPS>(op, shared[lane % WARPS]);
  before = shuffle_from(before, warp ? warp - 1 : WARPS - 1);
  if (plan.tiles > 1) {
    if (warp == 0) {
      const LookBack<Acc, 32, 1> look_back(plan, 0, tile.launch);
      before = look_back.exchange(op, tile.number, lane, 0, lane == 0, before,
                                  [&](const Carry<Acc>& some) { return fold(op, some); });
      if (lane == 0) shared[WARPS] = before;
    }
    __syncthreads();
    if (warp) before.follow(op, shared[WARPS]);
  } else if (warp == 0) {
    before.state = NOTHING;
  }
  return before;
}

// What a thread has of a tile, whose packs may have one element, or more.
template <class Acc, int ITEMS, int ROUNDS> struct TileItems {
  Acc value[ITEMS];
  unsigned int exists, begins;  // bits for elements; those that do not exist are said to begin rows
  Acc total[ROUNDS];            // of what the lanes up to this one make
  unsigned int begun[ROUNDS];   // a bit for each lane in which a row begins
};

// The elements of a tile that a thread has, in packs of V.
template <class Op, int V, class Items> struct TileValues {
  typedef typename Op::_Acc Acc;
  typedef LineTile<Acc, V> Tile;
  enum { ROUNDS = Tile::ROUNDS, ALL = (1u << (V - 1) << 1) - 1u };

  Items& own;

  __device__ inline Acc& value(int round, int j) const { return own.value[round * V + j]; }
  __device__ inline unsigned int begins_in(int round) const { return own.begins >> round * V & ALL; }
  __device__ inline bool begin() const { return V == 1 || __any_sync(0xffffffffu, own.begins != 0); }

  // Make each element what it and those before it in its pack and its row make; return what the warp's
  // elements make.
  __device__ inline Carry<Acc> scan(const Op& op) const {
    if (begin())
      scan_warp<true>(op);
    else
      scan_warp<(V == 1)>(op);
    Carry<Acc> whole;
    whole.state = NOTHING;
#pragma unroll
    for (int r = 0; r < ROUNDS; ++r) whole = after(op, whole, r);
    return whole;
  }
  // Given what is before the warp's elements, make each what it and those before it in its row make, or,
  // if `exclusive`, what those before it do: at the beginning of a row that is anything.
  __device__ inline void finish(const Op& op, const Carry<Acc>& before, bool exclusive) const {
    if (begin())
      follow<true>(op, before, exclusive);
    else
      follow<(V == 1)>(op, before, exclusive);
  }

 private:
  // Scan what each lane has, and the lanes of each round. If no row BEGINs among the warp's elements
  // there is half as much to do.
  template <bool BEGIN> __device__ inline void scan_warp(const Op& op) const {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int r = 0; r < ROUNDS; ++r) {
#pragma unroll
      for (int j = 1; j < V; ++j)
        if (!BEGIN || !(own.begins >> (r * V + j) & 1))
          value(r, j) = op._reduce(value(r, j - 1), value(r, j));
      own.total[r] = value(r, V - 1);
      own.begun[r] = BEGIN ? __ballot_sync(0xffffffffu, begins_in(r) != 0) : 0;
    }
#pragma unroll 1
    for (int by = 1; by < 32; by *= 2) {
#pragma unroll
      for (int r = 0; r < ROUNDS; ++r) {
        const Acc other = shuffle_up(own.total[r], by);
        // No row begins in the `by` lanes that end here.
        const bool open = !BEGIN || own.begun[r] << (31 - lane) >> (32 - by) == 0;
        if (lane >= by && open) own.total[r] = op._reduce(other, own.total[r]);
      }
    }
  }
  // Put what is before the warp's elements in front of each of them.
  template <bool BEGIN>
  __device__ inline void follow(const Op& op, Carry<Acc> before, bool exclusive) const {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int r = 0; r < ROUNDS; ++r) {
      Carry<Acc> mine;
      mine.value = shuffle_up(own.total[r], 1);
      mine.state = lane == 0                                  ? NOTHING
                   : BEGIN && own.begun[r] & ((1u << lane) - 1u) ? BEGUN
                                                               : OPEN;
      mine.follow(op, before);
      before = after(op, before, r);
#pragma unroll
      for (int j = 0; j < V; ++j)
        if (!BEGIN || !(own.begins >> r * V & (2u << j) - 1u))
          value(r, j) = op._reduce(mine.value, value(r, j));
      if (exclusive) {
#pragma unroll
        for (int j = V - 1; j > 0; --j) value(r, j) = value(r, j - 1);
        value(r, 0) = mine.value;
      }
    }
  }
  // What is there after a round, given what there was before it.
  __device__ inline Carry<Acc> after(const Op& op, const Carry<Acc>& before, int round) const {
    Carry<Acc> whole;
    whole.value = shuffle_from(own.total[round], 31);
    whole.state = own.begun[round] ? BEGUN : OPEN;
    whole.follow(op, before);
    return whole;
  }
};

}  // namespace kspec
