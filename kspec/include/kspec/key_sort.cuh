// Stable sorting of rows by key, some rows at a time, in phases of one launch: from the lowest eight
// bits of the keys to the highest, each time by counting (D. E. Knuth, "The Art of Computer
// Programming", volume 3, 5.2.5; see also D. Merrill and A. Grimshaw, "High performance and scalable
// radix sorting", 2011).
#pragma once

#include "kspec/keyed.cuh"

namespace kspec {

enum { DIGITS = 256, SORTED = 4096 };  // values of a digit, and rows of a tile; key_schedule.py agrees

// The rows from number `first` on.
template <class Plan> struct KeySort {
  const Plan& plan;
  ptrdiff_t first;
  int rows;
  int tiles;
  unsigned int* counts;  // [digit][tile] rows, then the place of the first of them
  unsigned int* totals;  // [digit]

  __device__ inline KeySort(const Plan& plan, ptrdiff_t chunk) : plan(plan), first(chunk * plan.chunk) {
    const ptrdiff_t left = plan.length - first;
    rows = (int)(left < plan.chunk ? left : plan.chunk);
    tiles = (int)((plan.chunk + SORTED - 1) / SORTED);
    counts = plan.sorting + 4 * plan.chunk;
    totals = counts + (ptrdiff_t)DIGITS * tiles;
  }
  // Keys, and the numbers of their rows, after a pass.
  __device__ inline unsigned int* keys(int pass) const { return plan.sorting + pass % 2 * plan.chunk; }
  __device__ inline unsigned int* numbers(int pass) const {
    return plan.sorting + (2 + pass % 2) * plan.chunk;
  }
  // The key of a row before a pass. Keys of no output are `count`: they come last.
  __device__ inline unsigned int key(int pass, int row) const {
    if (pass) return keys(pass - 1)[row];
    const ptrdiff_t key = plan.keys.at(first + row);
    return (unsigned int)(key < 0 || key >= plan.count ? plan.count : key);
  }
  __device__ inline unsigned int number(int pass, int row) const {
    return pass ? numbers(pass - 1)[row] : (unsigned int)row;
  }
  __device__ static inline unsigned int digit(int pass, unsigned int key) {
    return key >> 8 * pass & (DIGITS - 1);
  }

  // Refuse keys of no output among the rows of a tile.
  __device__ inline void check(int tile) const {
    const int end = (tile + 1) * SORTED < rows ? (tile + 1) * SORTED : rows;
    for (int row = tile * SORTED + threadIdx.x; row < end; row += blockDim.x)
      if (key(0, row) == (unsigned int)plan.count)
        refuse_key(first + row, plan.keys.at(first + row), plan.count);
  }
  // Count the rows of a tile by their digits.
  __device__ inline void count(int pass, int tile, unsigned int* shared) const {
    for (int k = threadIdx.x; k < DIGITS; k += blockDim.x) shared[k] = 0;
    __syncthreads();
    const int end = (tile + 1) * SORTED < rows ? (tile + 1) * SORTED : rows;
    for (int row = tile * SORTED + threadIdx.x; row < end; row += blockDim.x)
      atomicAdd(shared + digit(pass, key(pass, row)), 1u);
    __syncthreads();
    for (int k = threadIdx.x; k < DIGITS; k += blockDim.x)
      counts[(ptrdiff_t)k * tiles + tile] = shared[k];
  }
  // How many rows of a digit are in the tiles before each one, of as many digits as a block has warps.
  __device__ inline void place(int group) const {
    const int lane = threadIdx.x % 32, which = group * (blockDim.x / 32) + threadIdx.x / 32;
    unsigned int* own = counts + (ptrdiff_t)which * tiles;
    unsigned int before = 0;
    for (int from = 0; from < tiles; from += 32) {
      const unsigned int mine = from + lane < tiles ? own[from + lane] : 0;
      unsigned int sum = mine;
#pragma unroll
      for (int by = 1; by < 32; by *= 2) {
        const unsigned int other = __shfl_up_sync(0xffffffffu, sum, by);
        if (lane >= by) sum += other;
      }
      if (from + lane < tiles) own[from + lane] = before + sum - mine;
      before += __shfl_sync(0xffffffffu, sum, 31);
    }
    if (lane == 0) totals[which] = before;
  }
  // Move the rows of a tile to their places. A warp has some that follow each other.
  __device__ inline void scatter(int pass, int tile, unsigned int* shared) const {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    unsigned int* places = shared;                          // of the tile's first row of a digit
    unsigned int* mine = shared + DIGITS * (1 + warp);      // of the warp's next one
    const int each = SORTED / warps, from = tile * SORTED + warp * each;
    for (int k = lane; k < DIGITS; k += 32) mine[k] = 0;
    __syncwarp();
    for (int row = from + lane; row < from + each && row < rows; row += 32)
      atomicAdd(mine + digit(pass, key(pass, row)), 1u);
    if (warp == 0) {
      unsigned int before = 0;
      for (int k = lane; k < DIGITS; k += 32) {
        unsigned int sum = totals[k];
        const unsigned int total = sum;
#pragma unroll
        for (int by = 1; by < 32; by *= 2) {
          const unsigned int other = __shfl_up_sync(0xffffffffu, sum, by);
          if (lane >= by) sum += other;
        }
        places[k] = before + sum - total + counts[(ptrdiff_t)k * tiles + tile];
        before += __shfl_sync(0xffffffffu, sum, 31);
      }
    }
    __syncthreads();
    for (int k = threadIdx.x; k < DIGITS; k += blockDim.x) {
      unsigned int place = places[k];
      for (int w = 0; w < warps; ++w) {
        unsigned int& own = shared[DIGITS * (1 + w) + k];
        const unsigned int rows_of_warp = own;
        own = place;
        place += rows_of_warp;
      }
    }
    __syncthreads();
    for (int k = from; k < from + each; k += 32) {
      const int row = k + lane;
      const bool exists = row < rows;
      const unsigned int own = exists ? key(pass, row) : 0, value = digit(pass, own);
      const unsigned int peers = peers_of(exists ? (ptrdiff_t)value : -1);
      const unsigned int before = __popc(peers & ((1u << lane) - 1u));
      const unsigned int to = exists ? mine[value] + before : 0;
      __syncwarp();
      if (is_first(peers)) mine[value] += __popc(peers);
      __syncwarp();
      if (!exists) continue;
      keys(pass)[to] = own;
      numbers(pass)[to] = number(pass, row);
    }
  }
};

}  // namespace kspec
