// Segments: one output for the elements from one bound to the next, in their order, so the user's
// operation need not be commutative. kspec/runtime/schedules/segment_schedule.py packs the same
// structures.
#pragma once

#include "kspec/chunked.cuh"
#include "kspec/scan.cuh"
#ifdef KSPEC_HOST
#include "kspec/message.cuh"
#endif

namespace kspec {

// Integers of any size, in an array of the caller's.
struct Integers {
  const char* data;
  ptrdiff_t stride;
  int bytes;
  int is_signed;

  __device__ inline ptrdiff_t at(ptrdiff_t k) const {
    ptrdiff_t value[1];
    read(k, 0, k + 1, value);
    return value[0];
  }
  // Numbers `first`, `first + step` and so on up to N, all of whose loads are in flight at once; those
  // that are not before `end` are anything. Those that an int cannot be are negative ones.
  template <class Value, int N>
  __device__ inline void read(ptrdiff_t first, ptrdiff_t step, ptrdiff_t end,
                              Value (&value)[N]) const {
    const char* const place = data + first * stride;
    const ptrdiff_t jump = step * stride;
    const auto each = [&](const auto& load) {
#pragma unroll
      for (int k = 0; k < N; ++k)
        if (first + k * step < end) value[k] = load(place + k * jump);
    };
    if (bytes == 8) {
      each([&](const char* from) {
        const long long number = *reinterpret_cast<const long long*>(from);
        return (Value)(sizeof(Value) == 8 || (number >> 31) == 0 ? number : -1);
      });
    } else if (bytes == 4) {
      each([&](const char* from) {
        const int word = *reinterpret_cast<const int*>(from);
        return is_signed ? (Value)word : (Value)(unsigned int)word;
      });
    } else {
      each([&](const char* from) {
        const int low = *reinterpret_cast<const unsigned char*>(from);
        const int high = bytes == 2 ? reinterpret_cast<const unsigned char*>(from)[1] << 8 : 0;
        const int unused = 32 - 8 * bytes, word = (low | high) << unused;
        return is_signed ? (Value)(word >> unused) : (Value)((unsigned int)word >> unused);
      });
    }
  }
};

// Segments of `length` elements, in each of `outputs` columns side by side.
template <int AXES, int INPUTS, int OUTPUTS> struct SegmentPlan {
  ptrdiff_t outputs;
  ptrdiff_t length;
  ptrdiff_t segments;
  Integers bounds;     // one more than segments; they do not decrease
  int packed;          // element number n of each input is number n in memory
  int shift;           // elements before the first one, so that packs begin at aligned addresses
  ptrdiff_t chains;    // sets of tiles that follow each other
  ptrdiff_t tiles;     // of a set
  ptrdiff_t groups;    // of tiles, in a set
  ptrdiff_t work;      // of each stretch, if `tiles` counts stretches of tiles
  void* carries;       // what tiles say, or leave
  unsigned long long* tickets;  // zero before the first launch
  ptrdiff_t steps[INPUTS + OUTPUTS];  // bytes from element to element, and from segment to segment
  Axes<AXES, INPUTS + OUTPUTS> rows;  // the columns

  // Where segment number k begins, and number k - 1 ends. Whatever the array says, no element is
  // read that does not exist.
  __device__ inline ptrdiff_t bound(ptrdiff_t k) const { return within(bounds.at(k)); }
  __device__ inline ptrdiff_t within(ptrdiff_t at) const {
    return at < 0 ? 0 : at > length ? length : at;
  }
  // The segment that has an element.
  __device__ inline Place locate(ptrdiff_t n) const {
    ptrdiff_t low = 0, high = segments;
    while (low < high) {
      const ptrdiff_t middle = low + (high - low) / 2;
      if (bound(middle + 1) <= n)
        low = middle + 1;
      else
        high = middle;
    }
    return Place{low, n - bound(low)};
  }
};
template <int AXES, int INPUTS, int OUTPUTS>
struct Reduction<SegmentLines<AXES>, INPUTS, OUTPUTS> : SegmentPlan<AXES, INPUTS, OUTPUTS> {};
template <int AXES, int INPUTS, int OUTPUTS>
struct Reduction<SegmentColumns<AXES>, INPUTS, OUTPUTS> : SegmentPlan<AXES, INPUTS, OUTPUTS> {};

// Shared memory of a multiprocessor holds the tiles of so many blocks, if accumulators are small;
// kspec/runtime/schedules/segment_schedule.py agrees.
template <int AXES, class Acc, class... Inputs> struct MinBlocks<SegmentLines<AXES>, Acc, Inputs...> {
  enum { value = sizeof(Acc) > 8 ? 0 : 3 };
};

#ifdef KSPEC_CHUNKED
[[noreturn]] static __attribute__((noinline, cold)) void fail_bounds(ptrdiff_t segment,
                                                                     ptrdiff_t begin,
                                                                     ptrdiff_t end,
                                                                     ptrdiff_t length) {
  FaultText message;
  message.add("indptr[").add(segment).add("] is ").add(begin);
  message.add(" and indptr[").add(segment + 1).add("] is ").add(end);
  message.add(": bounds must be sorted, from 0 to ").add(length);
  ::kspec_host::kspec_fail("segments", message.text, __FILE__, __LINE__);
}

// One thread reduces some of the segments. It goes in stretches, which keeps rounding errors from
// adding up over all elements.
template <class Op, int AXES, int I, int O>
inline void reduce_segments(const Op& op, const SegmentPlan<AXES, I, O>& plan) {
  typedef InRow<AXES, I + O> At;
  enum { LONGEST = 256 };
  const ptrdiff_t from = plan.segments / gridDim.x * blockIdx.x;
  const ptrdiff_t to =
      blockIdx.x + 1 < gridDim.x ? from + plan.segments / gridDim.x : plan.segments;
  for (ptrdiff_t k = from; k < to; ++k) {
    const ptrdiff_t begin = plan.bounds.at(k), end = plan.bounds.at(k + 1);
    if (begin < 0 || end < begin || plan.length < end) fail_bounds(k, begin, end, plan.length);
    const Op one = counted(op, end - begin);
    for (ptrdiff_t column = 0; column < plan.outputs; ++column) {
      const Offsets<AXES, I + O> row(plan.rows, column);
      typename Op::_Acc total;
      for (ptrdiff_t start = begin, stop; start < end; start = stop) {
        stop = start + LONGEST < end ? start + LONGEST : end;
        typename Op::_Acc sum = op._map(At{row, plan.steps, start}, start - begin, k);
        for (ptrdiff_t n = start + 1; n < stop; ++n)
          sum = op._reduce(sum, op._map(At{row, plan.steps, n}, n - begin, k));
        total = start == begin ? sum : op._reduce(total, sum);
      }
      one._post(begin < end ? op._initial(total) : op._identity(), At{row, plan.steps, k}, k);
    }
  }
}
template <class Op, int AXES, int I, int O, class... Inputs>
inline void reduce(const Op& op, const Reduction<SegmentLines<AXES>, I, O>& plan, const Inputs&...) {
  reduce_segments(op, plan);
}
template <class Op, int AXES, int I, int O, class... Inputs>
inline void reduce(const Op& op, const Reduction<SegmentColumns<AXES>, I, O>& plan,
                   const Inputs&...) {
  reduce_segments(op, plan);
}
#else
// How many segments end at a place of at most `last`, if each is `apart` further on than the one before
// it and its bound say: at least `low`, at most `high`. All threads of a block find it together, for N
// places at once.
template <int THREADS, int N, class Plan>
__device__ inline void count_ended(const Plan& plan, ptrdiff_t apart, const ptrdiff_t (&last)[N],
                                   ptrdiff_t (&low)[N], ptrdiff_t (&high)[N]) {
  static_assert(N == 1 || N == 2, "an arithmetic progression of probes");
  for (;;) {
    ptrdiff_t step[N], probe[N], bound[N];
    bool is_found = true;
#pragma unroll
    for (int k = 0; k < N; ++k) {
      step[k] = (high[k] - low[k] + THREADS - 1) / THREADS;
      probe[k] = low[k] + (threadIdx.x + 1) * step[k] - 1;
      is_found = is_found && low[k] == high[k];
    }
    if (is_found) return;
    plan.bounds.read(probe[0] + 1, probe[N - 1] - probe[0], plan.segments + 1, bound);
#pragma unroll
    for (int k = 0; k < N; ++k) {
      if (low[k] == high[k]) continue;
      const int count = __syncthreads_count(
          probe[k] < high[k] && plan.within(bound[k]) + apart * (probe[k] + 1) <= last[k]);
      low[k] += count * step[k];
      const ptrdiff_t next = low[k] + step[k] - 1;
      if (next < high[k]) high[k] = next;
    }
  }
}
template <int THREADS, class Plan>
__device__ inline ptrdiff_t count_ended(const Plan& plan, ptrdiff_t apart, ptrdiff_t last,
                                        ptrdiff_t low, ptrdiff_t high) {
  const ptrdiff_t lasts[1] = {last};
  ptrdiff_t lows[1] = {low}, highs[1] = {high};
  count_ended<THREADS>(plan, apart, lasts, lows, highs);
  return lows[0];
}
// How many have ended before an element: at most `high`, and probably not many fewer.
template <int THREADS, class Plan>
__device__ inline ptrdiff_t ended_before(const Plan& plan, ptrdiff_t element, ptrdiff_t high) {
  ptrdiff_t low = high, count = high;
  for (ptrdiff_t reach = THREADS; low > 0 && count == low; reach *= THREADS) {
    low = count > reach ? count - reach : 0;
    count = count_ended<THREADS>(plan, 0, element, low, count);
  }
  return count;
}

// The segments whose ends are in a tile, and where in the tile segments begin.
template <class Plan, int SIZE, int THREADS> struct SegmentEnds {
  const Plan& plan;
  ptrdiff_t first;      // element of the tile; it may not exist
  ptrdiff_t low, high;  // elements of the tile
  ptrdiff_t from;       // the first segment that ends behind `low`
  unsigned int* bits;

  __device__ inline SegmentEnds(const Plan& plan, ptrdiff_t number, ptrdiff_t first,
                                unsigned int* bits)
      : plan(plan), first(first), low(first < 0 ? 0 : first), bits(bits) {
    high = first + SIZE < plan.length ? first + SIZE : plan.length;
    for (int k = threadIdx.x; k < (SIZE + 31) / 32; k += THREADS) bits[k] = 0;
    // With elements come segments that end at once.
    from = number ? count_ended<THREADS>(plan, 0, low, 0, plan.segments) : 0;
    __syncthreads();
    if (threadIdx.x == 0 && plan.bound(from) >= low) mark(plan.bound(from));
    each(threadIdx.x, THREADS, [&](ptrdiff_t, ptrdiff_t end) { mark(end); });
  }
  // Call `visit(segment, end)` for every `step`-th of the segments that end here.
  template <class Visit>
  __device__ inline void each(int start, int step, const Visit& visit) const {
    for (ptrdiff_t k = from + start; k < plan.segments; k += step) {
      const ptrdiff_t end = plan.bound(k + 1);
      if (end > high) break;
      // Bounds that are not sorted must not lead out of the tile.
      if (end > low || low == 0) visit(k, end);
    }
  }
  __device__ inline bool begins(ptrdiff_t element) const {
    const int item = (int)(element - first);
    return bits[item / 32] >> item % 32 & 1;
  }

 private:
  __device__ inline void mark(ptrdiff_t element) {
    const int item = (int)(element - first);
    if (element >= low && element < high) atomicOr(&bits[item / 32], 1u << item % 32);
  }
};
#endif

}  // namespace kspec

#ifndef KSPEC_CHUNKED
#include "kspec/segment_columns.cuh"
#include "kspec/segment_lines.cuh"
#endif
