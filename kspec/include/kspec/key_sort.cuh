// Stable sorting of rows by key, some rows at a time, in phases of one launch: from the lowest bits of
// the keys to the highest, each time by counting (D. E. Knuth, "The Art of Computer Programming",
// volume 3, 5.2.5; see also D. Merrill and A. Grimshaw, "High performance and scalable radix sorting",
// 2011). A thread has some of its rows in hand, all of whose loads are in flight at once.
#pragma once

#include "kspec/keyed.cuh"

namespace kspec {

// Values of a digit, at most, and rows of a tile; key_schedule.py agrees.
enum { DIGITS = 1024, SORTED = 4096 };

// The sum of a number of the lanes up to this one.
__device__ inline unsigned int up_to(unsigned int sum) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int by = 1; by < 32; by *= 2) {
    const unsigned int other = __shfl_up_sync(0xffffffffu, sum, by);
    if (lane >= by) sum += other;
  }
  return sum;
}

// How much is before each of a thread's numbers, of those of a block. The block comes here; `of_warps` is
// in shared memory.
template <int N>
__device__ inline void scan_block(const unsigned int (&number)[N], unsigned int (&before)[N],
                                  unsigned int* of_warps) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  unsigned int sum = 0;
#pragma unroll
  for (int k = 0; k < N; ++k) sum += number[k];
  const unsigned int up = up_to(sum);
  if (lane == 31) of_warps[warp] = up;
  __syncthreads();
  sum = up - sum;
  for (int w = 0; w < warp; ++w) sum += of_warps[w];
#pragma unroll
  for (int k = 0; k < N; ++k) {
    before[k] = sum;
    sum += number[k];
  }
}

// The lanes with the same number below LIMIT, a power of two, of those where there is one. Fewer steps
// than __match_any_sync takes for numbers that differ.
template <int LIMIT> __device__ inline unsigned int peers_by_bits(unsigned int number, bool exists) {
  unsigned int peers = __ballot_sync(0xffffffffu, exists);
#pragma unroll
  for (int bit = 1; bit < LIMIT; bit *= 2) {
    // All bits are this one: the compiler would ask for it twice.
    const int bits = (int)(number * (0x80000000u / bit)) >> 31;
    peers &= ~(__ballot_sync(0xffffffffu, bits) ^ bits);
  }
  return exists ? peers : 0;
}

template <class Acc> struct KeyThreads { enum { value = sizeof(Acc) > 64 ? 128 : 256 }; };

// Whether rows travel with what they make, instead of their number: if it has as many bytes.
template <class Acc, class Plan> __device__ inline bool carries_values(const Plan& plan) {
  return sizeof(Acc) == 4 && plan.outputs == 1;
}

// The rows from number `first` on.
template <class Op, class Plan> struct KeySort {
  typedef typename Op::_Acc Acc;
  enum {
    THREADS = KeyThreads<Acc>::value,
    WARPS = THREADS / 32,
    ROWS = SORTED / THREADS,  // of a thread: a warp has some that follow each other
    BATCH = 4,                // of these, at once
    EACH = DIGITS / THREADS
  };
  // In shared memory: of each digit the place of the tile's first row, and how many rows of it are in
  // earlier warps; of each row how many of its digit are before it in its warp.
  struct Places {
    unsigned int first[DIGITS];
    unsigned short earlier[WARPS][DIGITS], rank[ROWS][THREADS];
    unsigned int of_warps[WARPS];
  };
  static_assert(sizeof(Places) <= KEY_SHARED, "places of digits fit into shared memory");

  const Op& op;
  const Plan& plan;
  ptrdiff_t first;
  int rows;
  int digits;
  int tiles;
  int stride;            // of counts, from digit to digit
  unsigned int* counts;  // [digit][tile] rows, then how many are in the tiles before
  unsigned int* totals;  // [digit]

  __device__ inline KeySort(const Op& op, const Plan& plan, ptrdiff_t chunk)
      : op(op), plan(plan), first(chunk * plan.chunk), digits(1 << plan.bits) {
    const ptrdiff_t left = plan.length - first;
    rows = (int)(left < plan.chunk ? left : plan.chunk);
    tiles = (int)((plan.chunk + SORTED - 1) / SORTED);
    stride = (tiles + 3) / 4 * 4;
    counts = plan.sorting + 4 * plan.chunk;
    totals = counts + (ptrdiff_t)digits * stride;
  }
  // Keys, and the numbers of their rows, or what these make, before a pass. Keys of no output are
  // `count`: they come last.
  __device__ inline unsigned int* keys(int pass) const { return plan.sorting + pass % 2 * plan.chunk; }
  __device__ inline unsigned int* numbers(int pass) const {
    return plan.sorting + (2 + pass % 2) * plan.chunk;
  }

  // Count the rows of a tile by their digits. Before the first pass they are read.
  __device__ inline void count(int pass, int tile, unsigned int* shared) const {
    for (int k = threadIdx.x; k < digits; k += THREADS) shared[k] = 0;
    __syncthreads();
    if (pass) {
      each_batch(tile, [&](int, int row) {
        unsigned int key[BATCH];
        load(keys(pass), row, key);
#pragma unroll
        for (int k = 0; k < BATCH; ++k)
          if (row + k * 32 < rows) atomicAdd(shared + digit(pass, key[k]), 1u);
      });
    } else {
      prepare(tile, [&](unsigned int key) { atomicAdd(shared + digit(0, key), 1u); });
    }
    __syncthreads();
    for (int k = threadIdx.x; k < digits; k += THREADS)
      counts[(ptrdiff_t)k * stride + tile] = shared[k];
  }
  // How many rows of a digit are in the tiles before each one, of as many digits as a block has warps.
  __device__ inline void place(int group) const {
    const int lane = threadIdx.x % 32, which = group * WARPS + threadIdx.x / 32;
    if (which >= digits) return;
    unsigned int* const own = counts + (ptrdiff_t)which * stride;
    unsigned int before = 0;
#pragma unroll 1
    for (int from = 4 * lane; from - 4 * lane < tiles; from += 128) {
      unsigned int four[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) four[j] = from + j < tiles ? own[from + j] : 0;
      const unsigned int mine = four[0] + four[1] + four[2] + four[3], sum = up_to(mine);
      unsigned int place = before + sum - mine;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const unsigned int rows_of_tile = four[j];
        four[j] = place;
        place += rows_of_tile;
      }
      if (from < tiles) store_pack<4>(own + from, four);
      before += __shfl_sync(0xffffffffu, sum, 31);
    }
    if (lane == 0) totals[which] = before;
  }
  // Move the rows of a tile to their places.
  __device__ inline void scatter(int pass, int tile, unsigned char* memory) const {
    Places& places = *reinterpret_cast<Places*>(memory);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    unsigned short* const mine = places.earlier[warp];
    for (int k = lane; k < digits; k += 32) mine[k] = 0;
    find_places(places, tile);  // the block waits there
    each_batch(tile, [&](int number, int row) {
      unsigned int key[BATCH];
      load(keys(pass), row, key);
#pragma unroll
      for (int k = 0; k < BATCH; ++k) {
        const bool exists = row + k * 32 < rows;
        const unsigned int value = exists ? digit(pass, key[k]) : 0;
        const unsigned int peers = peers_by_bits<DIGITS>(value, exists), start = mine[value];
        const unsigned int before = __popc(peers & ((1u << lane) - 1u));
        places.rank[number + k][threadIdx.x] = (unsigned short)(start + before);
        __syncwarp();
        if (is_first(peers)) mine[value] = (unsigned short)(start + __popc(peers));
        __syncwarp();
      }
    });
    __syncthreads();
    for (int k = threadIdx.x; k < digits; k += THREADS) {
      unsigned int before = 0;
#pragma unroll
      for (int w = 0; w < WARPS; ++w) {
        const unsigned int rows_of_warp = places.earlier[w][k];
        places.earlier[w][k] = (unsigned short)before;
        before += rows_of_warp;
      }
    }
    __syncthreads();
    each_batch(tile, [&](int number, int row) {
      unsigned int key[BATCH], payload[BATCH];
      load(keys(pass), row, key);
      load(numbers(pass), row, payload);
#pragma unroll
      for (int k = 0; k < BATCH; ++k) {
        if (row + k * 32 >= rows) continue;
        const unsigned int value = digit(pass, key[k]);
        const unsigned int to = places.first[value] + mine[value] + places.rank[number + k][threadIdx.x];
        keys(pass + 1)[to] = key[k];
        numbers(pass + 1)[to] = payload[k];
      }
    });
  }

 private:
  // The thread's first row of a tile; others are 32 rows apart.
  __device__ static inline int begin(int tile) {
    return tile * SORTED + (int)threadIdx.x / 32 * (32 * ROWS) + (int)threadIdx.x % 32;
  }
  __device__ inline unsigned int digit(int pass, unsigned int key) const {
    return key >> plan.bits * pass & (digits - 1);
  }
  // Call `work(number, row)` for every batch of the thread's rows of a tile, with the number of the first
  // one among these. All threads of a warp come to each.
  template <class Work> __device__ static inline void each_batch(int tile, const Work& work) {
#pragma unroll 1
    for (int k = 0; k < ROWS; k += BATCH) work(k, begin(tile) + k * 32);
  }
  __device__ inline void load(const unsigned int* data, int row, unsigned int (&value)[BATCH]) const {
#pragma unroll
    for (int k = 0; k < BATCH; ++k)
      if (row + k * 32 < rows) value[k] = data[row + k * 32];
  }
  // Read the rows of a tile, and call `visit(key)` with each.
  template <class Visit> __device__ inline void prepare(int tile, const Visit& visit) const {
    enum { N = InFlight<Acc>::value < ROWS ? InFlight<Acc>::value : ROWS };
#pragma unroll 1
    for (int row = begin(tile), end = row + 32 * ROWS; row < end && row < rows; row += 32 * N) {
      ptrdiff_t key[N];
      unsigned int payload[N];
      bool carried = false;
      if constexpr (sizeof(Acc) == sizeof(*payload)) {
        carried = carries_values<Acc>(plan);
        if (carried) {
          KeyedBatch<Op, N> batch;
          batch.load(op, plan, first + row, 32, first + rows);
#pragma unroll
          for (int k = 0; k < N; ++k) {
            key[k] = batch.slot[k];
            memcpy(payload + k, batch.value + k, sizeof(Acc));
          }
        }
      }
      if (!carried) {
        plan.keys.read(first + row, 32, first + rows, key);
#pragma unroll
        for (int k = 0; k < N; ++k) payload[k] = row + k * 32;
      }
#pragma unroll
      for (int k = 0; k < N; ++k) {
        const int at = row + k * 32;
        if (at >= rows) continue;
        const unsigned int own = plan.kept(key[k]);
        if constexpr (Op::_STRICT)
          if (own == plan.count) refuse_key(first + at, plan.keys.at(first + at), plan.count);
        keys(0)[at] = own;
        numbers(0)[at] = payload[k];
        visit(own);
      }
    }
  }
  // Of each digit the place of the tile's first row. The block comes here.
  __device__ inline void find_places(Places& places, int tile) const {
    const int own = threadIdx.x * EACH;
    unsigned int total[EACH], earlier[EACH], before[EACH];
#pragma unroll
    for (int k = 0; k < EACH; ++k) {
      const bool exists = own + k < digits;
      total[k] = exists ? totals[own + k] : 0;
      earlier[k] = exists ? counts[(ptrdiff_t)(own + k) * stride + tile] : 0;
    }
    scan_block(total, before, places.of_warps);
#pragma unroll
    for (int k = 0; k < EACH; ++k)
      if (own + k < digits) places.first[own + k] = before[k] + earlier[k];
  }
};

}  // namespace kspec
