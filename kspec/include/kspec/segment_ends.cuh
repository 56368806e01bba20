// The segments that end in a tile of elements, as threads find them in a copy of the next bounds.
#pragma once

#include "kspec/copy_async.cuh"
#include "kspec/segments.cuh"

namespace kspec {

// The segments that end in a tile, in shared memory.
template <int SIZE, int THREADS> struct EndsOfTile {
  enum { MOST = 4 * THREADS };

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
  enum { FAR = Ends::MOST / THREADS };  // bounds without a copy that are under way

  const Plan& plan;
  Ends& ends;
  int turn;        // of two tiles that follow each other: 0, then 1, and again
  ptrdiff_t from;  // the first one
  int count;       // how many there are
  int near;        // ends of which there are copies

  __device__ inline EndsFinder(const Plan& plan, Ends& ends, ptrdiff_t from)
      : plan(plan), ends(ends), turn(1), from(from), count(0) {}

  // Where bound number k, from the first segment's on, is in the tile.
  __device__ inline int at(int k) const { return ends.items[turn][k]; }
  // Begin to copy the bounds of those that come next. A thread copies what it looks at.
  __device__ inline void load() {
    const ptrdiff_t left = plan.segments - from - count;
    near = count < Ends::MOST * 3 / 4 ? (1 + count * 5 / 4 / THREADS) * THREADS : Ends::MOST;
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
    turn ^= 1;
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
    __syncthreads();
    const int more = sum_of_warp(find_far(first, low, high));
    if (threadIdx.x % 32 == 0 && more) atomicAdd(&ends.found, more);
    __syncthreads();
    count = ends.found;
  }
  // Call `visit(segment, begin, end)` with every THREADS-th of them. The block comes here.
  template <class Visit>
  __device__ inline void each(ptrdiff_t first, int low, int high, const Visit& visit) const {
#pragma unroll 1
    for (int done = 0;; done += Ends::MOST) {
      const int kept = count - done < Ends::MOST ? count - done : Ends::MOST;
#pragma unroll 1
      for (int k = threadIdx.x; k < kept; k += THREADS)
        visit(from + done + k, item()[k], item()[k + 1]);
      if (done + Ends::MOST >= count) return;
      __syncthreads();
      place_far(from + done + Ends::MOST, first, low, high);
      __syncthreads();
    }
  }

 private:
  __device__ inline int* item() const { return ends.items[turn]; }
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
  // Find where the bounds are from number `begin` on.
  __device__ inline void place_far(ptrdiff_t begin, ptrdiff_t first, int low, int high) const {
    ptrdiff_t bound[FAR];
    plan.bounds.read(begin + threadIdx.x, THREADS, plan.segments + 1, bound);
#pragma unroll
    for (int j = 0; j < FAR; ++j)
      item()[threadIdx.x + j * THREADS] = place(plan.within(bound[j]) - first, low, high);
    if (threadIdx.x == 0 && begin + Ends::MOST <= plan.segments)
      item()[Ends::MOST] = place(plan.bound(begin + Ends::MOST) - first, low, high);
  }
  // Those of which there are no copies; return how many are the thread's.
  __device__ inline int find_far(ptrdiff_t first, int low, int high) {
    int found = 0;
#pragma unroll 1
    for (ptrdiff_t k = near + 1 + threadIdx.x; from + k <= plan.segments; k += FAR * THREADS) {
      ptrdiff_t bound[FAR];
      plan.bounds.read(from + k, THREADS, plan.segments + 1, bound);
#pragma unroll
      for (int j = 0; j < FAR; ++j) {
        const ptrdiff_t at = k + j * THREADS;
        if (from + at > plan.segments) return found;
        if (!add(at, plan.within(bound[j]) - first, low, high)) return found;
        ++found;
      }
    }
    return found;
  }
  // Return whether a bound is one of the tile's, or before it.
  __device__ inline bool add(ptrdiff_t k, ptrdiff_t where, int low, int high) {
    const int at = place(where, low, high);
    if (k <= Ends::MOST) item()[k] = at;
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
