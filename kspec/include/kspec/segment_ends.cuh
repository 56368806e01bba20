// The segments that end in a tile of elements, as threads find them in a copy of the next bounds.
#pragma once

#include "kspec/copy_async.cuh"
#include "kspec/segments.cuh"

namespace kspec {

// The segments that end in a tile, in shared memory.
template <int SIZE, int THREADS> struct EndsOfTile {
  enum { MOST = (THREADS > 128 ? 4 : 2) * THREADS };

  long long copies[MOST + 1];  // of bounds, as they are
  int items[2][MOST + 1];      // where each is in the tile, or -1, or SIZE + 1; one tile's, and the next
  unsigned int bits[SIZE / 32 + 2];  // a bit for each element at a bound
  int found;                         // segments that end in the tile, of those with copies

  __device__ inline void clear() {
    for (int k = threadIdx.x; k < SIZE / 32 + 2; k += THREADS) bits[k] = 0;
    if (threadIdx.x == 0) found = 0;
  }
};

// A thread's part in finding them. Bounds that are not sorted lead to wrong ones, but not out of the
// tile.
template <class Plan, int SIZE, int THREADS> struct EndsFinder {
  typedef EndsOfTile<SIZE, THREADS> Ends;

  const Plan& plan;
  Ends& ends;
  int* item;
  ptrdiff_t from;   // the first one
  ptrdiff_t count;  // how many there are
  int near;         // ends of which there are copies

  __device__ inline EndsFinder(const Plan& plan, Ends& ends, ptrdiff_t from)
      : plan(plan), ends(ends), item(ends.items[0]), from(from), count(0) {}

  // Begin to copy the bounds of those that come next. A thread copies what it looks at.
  __device__ inline void load() {
    const ptrdiff_t left = plan.segments - from - count;
    near = count < Ends::MOST * 3 / 4 ? (1 + (int)count * 5 / 4 / THREADS) * THREADS : Ends::MOST;
    if (near > left) near = (int)left;
    with_bytes([&](auto own) {
      typedef decltype(own) Own;
      const char* const data = plan.bounds.data + (from + count) * plan.bounds.stride;
      Own* const to = reinterpret_cast<Own*>(ends.copies);
      if (threadIdx.x == 0) copy_async<sizeof(Own)>(to, data);
#pragma unroll 1
      for (int k = 1 + threadIdx.x; k <= near; k += THREADS)
        copy_async<sizeof(Own)>(to + k, data + k * plan.bounds.stride);
    });
    commit_copies();
  }
  // Find those that end at `high` of a tile or before it, whose elements are counted from number
  // `first` on. The block comes here, and waits for all copies.
  __device__ inline void find(ptrdiff_t first, int low, int high) {
    wait_for_copies(0);
    item = ends.items[item == ends.items[0]];
    from += count;
    with_bytes([&](auto own) {
      typedef decltype(own) Own;
      const Own* const copies = reinterpret_cast<const Own*>(ends.copies);
      if (threadIdx.x == 0) add(0, value_of(copies[0]) - first, low, high);
      int found = 0;
#pragma unroll 1
      for (int k = 1 + threadIdx.x; k <= near; k += THREADS) {
        if (!add(k, value_of(copies[k]) - first, low, high)) break;
        ++found;
      }
      found = sum_of_warp(found);
      if (threadIdx.x % 32 == 0 && found) atomicAdd(&ends.found, found);
    });
    __syncthreads();
    count = ends.found;
    if (count < near || from + near == plan.segments) return;
    for (int found = THREADS; found == THREADS; count += found) {
      const ptrdiff_t k = count + 1 + threadIdx.x;
      const bool exists = from + k <= plan.segments;
      found = __syncthreads_count(exists && add(k, plan.bound(from + k) - first, low, high));
    }
  }
  // Call `visit(segment, begin, end)` with every THREADS-th of them.
  template <class Visit>
  __device__ inline void each(ptrdiff_t first, int low, int high, const Visit& visit) const {
    const int kept = count < Ends::MOST ? (int)count : Ends::MOST;
#pragma unroll 1
    for (int k = threadIdx.x; k < kept; k += THREADS) visit(from + k, item[k], item[k + 1]);
#pragma unroll 1
    for (ptrdiff_t k = Ends::MOST + threadIdx.x; k < count; k += THREADS)
      visit(from + k, place(plan.bound(from + k) - first, low, high),
            place(plan.bound(from + k + 1) - first, low, high));
  }

 private:
  // Call `visit` with a number of the type that bounds have in memory.
  template <class Visit> __device__ inline void with_bytes(const Visit& visit) const {
    switch (plan.bounds.bytes) {
      case 8: visit(0ll); break;
      case 4: visit(0); break;
      case 2: visit((short)0); break;
      default: visit((signed char)0);
    }
  }
  template <class Own> __device__ inline ptrdiff_t value_of(Own bound) const {
    const unsigned long long mask = ~0ull >> (64 - 8 * sizeof(Own));
    return plan.within(plan.bounds.is_signed ? (ptrdiff_t)bound : (ptrdiff_t)(bound & mask));
  }
  __device__ static inline int place(ptrdiff_t at, int low, int high) {
    return at < low ? -1 : at > high ? SIZE + 1 : (int)at;
  }
  // Return whether a bound is one of the tile's, or before it.
  __device__ inline bool add(ptrdiff_t k, ptrdiff_t where, int low, int high) {
    const int at = place(where, low, high);
    if (k <= Ends::MOST) item[k] = at;
    if (at >= low && at < high) atomicOr(&ends.bits[at / 32], 1u << at % 32);
    return at <= high;
  }
  __device__ static inline int sum_of_warp(int own) {
#pragma unroll
    for (int by = 16; by > 0; by /= 2) own += __shfl_xor_sync(0xffffffffu, own, by);
    return own;
  }
};

}  // namespace kspec
