// Tiles of elements that follow each other, of which a block has one. The elements wait in shared
// memory, so that neighbouring threads read neighbours and each thread has some in their order.
#pragma once

#include "kspec/batch.cuh"
#include "kspec/carry.cuh"
#include "kspec/scan.cuh"

namespace kspec {

// The mapped elements of a tile; kspec/runtime/schedules/scan_schedule.py agrees.
template <class Acc> struct LineTile {
  enum {
    THREADS = sizeof(Acc) > 96 ? 128 : 256,
    ITEMS = sizeof(Acc) > 32 ? 1 : sizeof(Acc) > 4 ? 64 / sizeof(Acc) : 16,  // of a thread
    SIZE = THREADS * ITEMS,
    // Items between gaps, with which threads that are ITEMS apart use different banks.
    EVERY = ITEMS > 1 ? 128 / sizeof(Acc) : SIZE,
    ROOM = SIZE + SIZE / EVERY
  };
  Acc* memory;

  __device__ inline Acc& operator[](int item) const { return memory[item + item / EVERY]; }
};

// A pack of which some elements do not exist: these have the value of the nearest one.
struct ClampedAccessor {
  ptrdiff_t first, last, step;

  template <class T, int V> __device__ inline void load(const T* data, Pack<T, V>& pack) const {
    pack.load_each([&](int j) {
      const ptrdiff_t n = first + j < 0 ? 0 : first + j > last ? last : first + j;
      return *element(data, Bytes{n * step});
    });
  }
};

// The packs of a tile that a thread loads: all are in flight at once. Element number n of `total` is
// number n in memory; `first` is that of the tile's first element, which may not exist.
template <class Acc, int V, class K, class... Inputs> struct TilePacks {
  typedef LineTile<Acc> Tile;
  enum { ROUNDS = (Tile::ITEMS + V - 1) / V };

  Batch<V, K, Inputs...> batch[ROUNDS];

  __device__ inline void load(const ptrdiff_t* steps, ptrdiff_t first, ptrdiff_t total,
                              const Inputs&... inputs) {
#pragma unroll
    for (int r = 0; r < ROUNDS; ++r) {
      const ptrdiff_t n = first + item(r);
      if (Tile::ITEMS % V != 0 && item(r) >= Tile::SIZE) continue;
      if (n >= 0 && n + V <= total)
        batch[r].load([&](int k) { return AlignedAccessor{n * steps[k], steps[k] != 0}; },
                      inputs...);
      else if (n + V > 0 && n < total)
        batch[r].load([&](int k) { return ClampedAccessor{n, total - 1, steps[k]}; }, inputs...);
    }
  }
  // Map those from `low` to `high`; `place(n)` is where in its row an element is.
  template <class Op, class F>
  __device__ inline void put(const Op& op, const Tile& tile, ptrdiff_t first, ptrdiff_t low,
                             ptrdiff_t high, const F& place) const {
#pragma unroll
    for (int r = 0; r < ROUNDS; ++r) {
      if (Tile::ITEMS % V != 0 && item(r) >= Tile::SIZE) continue;
#pragma unroll
      for (int j = 0; j < V; ++j) {
        const ptrdiff_t n = first + item(r) + j;
        if (n < low || n >= high) continue;
        const Place at = place(n);
        tile[item(r) + j] = batch[r].map(op, j, at.column, at.row);
      }
    }
  }

 private:
  __device__ static inline int item(int r) {
    return (r * Tile::THREADS + (int)threadIdx.x) * V;
  }
};

// What the thread's items before it make, up to the beginning of its row, given what its own make.
// `number` is that of the tile in its chain.
template <class Op, class Plan>
__device__ inline Carry<typename Op::_Acc> join_tile(const Op& op, const Plan& plan, ptrdiff_t number,
                                                     Carry<typename Op::_Acc> own) {
  typedef typename Op::_Acc Acc;
  enum { WARPS = LineTile<Acc>::THREADS / 32 };
  __shared__ __align__(16) unsigned char memory[(WARPS + 1) * sizeof(Carry<Acc>)];
  Carry<Acc>* shared = reinterpret_cast<Carry<Acc>*>(memory);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll 1
  for (int by = 1; by < 32; by *= 2) {
    const Carry<Acc> other = shuffle_up(own, by);
    if (lane >= by) own.follow(op, other);
  }
  if (lane == 31) shared[warp] = own;
  Carry<Acc> mine = shuffle_up(own, 1);
  if (lane == 0) mine.state = NOTHING;
  __syncthreads();
  Carry<Acc> before;
  before.state = NOTHING;
  const int warps = warp ? warp : WARPS;  // the first warp speaks for the tile
#pragma unroll 1
  for (int w = 0; w < warps; ++w) {
    Carry<Acc> next = shared[w];
    next.follow(op, before);
    before = next;
  }
  if (plan.tiles > 1) {
    if (warp == 0) {
      const LookBack<Acc> chain(plan, 0, 1);
      const auto fold = [&](ptrdiff_t entry, int count) {
        Carry<Acc> some;
        some.state = NOTHING;
        if (lane < count) some = chain.read(entry + lane, 0);
#pragma unroll 1
        for (int by = 1; by < 32; by *= 2) {
          Carry<Acc> later = shuffle_down(some, by);
          if (lane + by < 32) {
            later.follow(op, some);
            some = later;
          }
        }
        return shuffle_from(some, 0);
      };
      before = chain.exchange(op, number, 0, lane == 0, before, fold);
      if (lane == 0) shared[WARPS] = before;
      chain.leave(number);
    }
    __syncthreads();
    if (warp) before.follow(op, shared[WARPS]);
  } else if (warp == 0) {
    before.state = NOTHING;
  }
  mine.follow(op, before);
  return mine;
}

// Make each item what it and those before it in its row make, or, if `exclusive`, what those before
// it do: at the beginning of a row that is anything. `begins` has a bit for each of the thread's items
// with which a row begins, or which does not exist.
template <class Op, class Plan>
__device__ inline void scan_items(const Op& op, const Plan& plan, ptrdiff_t number,
                                  const LineTile<typename Op::_Acc>& tile, unsigned int begins,
                                  bool exclusive) {
  typedef typename Op::_Acc Acc;
  enum { ITEMS = LineTile<Acc>::ITEMS };
  const int mine = threadIdx.x * ITEMS;
  Acc value[ITEMS];
#pragma unroll
  for (int j = 0; j < ITEMS; ++j) value[j] = tile[mine + j];
  Carry<Acc> own;
  own.value = value[0];
  own.state = begins ? BEGUN : OPEN;
#pragma unroll
  for (int j = 1; j < ITEMS; ++j)
    own.value = begins >> j & 1 ? value[j] : op._reduce(own.value, value[j]);
  Acc before = join_tile(op, plan, number, own).value;
#pragma unroll
  for (int j = 0; j < ITEMS; ++j) {
    const Acc next = begins >> j & 1 ? value[j] : op._reduce(before, value[j]);
    tile[mine + j] = exclusive ? before : next;
    before = next;
  }
}

}  // namespace kspec
