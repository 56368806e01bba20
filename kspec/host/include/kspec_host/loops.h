// Blocks as loops over their threads: what compiler/host/loops writes is made of this. A run of
// blocks is asked whether it fits: all that its threads access is known to exist. If so, its loops
// run, which check nothing.
#pragma once

#include "ranges.h"

namespace kspec_host {

// Some blocks in a row of the grid.
struct BlockRun {
  Block* block;
  uint3 blockDim, gridDim;
  unsigned first, last;  // blockIdx.x
  unsigned char* dynamic_shared;
  unsigned long dynamic_bytes;
  uint3* thread;  // threadIdx, as messages see it

  KSPEC_HOST_UNCHECKED explicit BlockRun(Block* block)
      : block(block),
        blockDim{block->block[0], block->block[1], block->block[2]},
        gridDim{block->grid[0], block->grid[1], block->grid[2]},
        first(block->index[0]),
        last(block->last),
        dynamic_shared(block->dynamic_shared),
        dynamic_bytes(block->dynamic_bytes),
        thread(&threadIdx) {}

  // A block begins; it is named in messages.
  KSPEC_HOST_UNCHECKED uint3 begin(unsigned x) const {
    block->index[0] = x;
    return {x, block->index[1], block->index[2]};
  }
  KSPEC_HOST_UNCHECKED void begin_thread(uint3 one) const { *thread = one; }

#define KSPEC_RANGE(NAME, LOW, HIGH)                                  \
  KSPEC_HOST_UNCHECKED Range<unsigned> NAME() const {                 \
    return make_range<unsigned>((long long)(LOW), (long long)(HIGH), true); \
  }
  KSPEC_RANGE(threadIdx_x, 0, (long long)blockDim.x - 1)
  KSPEC_RANGE(threadIdx_y, 0, (long long)blockDim.y - 1)
  KSPEC_RANGE(threadIdx_z, 0, (long long)blockDim.z - 1)
  KSPEC_RANGE(blockIdx_x, first, last)
  KSPEC_RANGE(blockIdx_y, block->index[1], block->index[1])
  KSPEC_RANGE(blockIdx_z, block->index[2], block->index[2])
  KSPEC_RANGE(blockDim_x, blockDim.x, blockDim.x)
  KSPEC_RANGE(blockDim_y, blockDim.y, blockDim.y)
  KSPEC_RANGE(blockDim_z, blockDim.z, blockDim.z)
  KSPEC_RANGE(gridDim_x, gridDim.x, gridDim.x)
  KSPEC_RANGE(gridDim_y, gridDim.y, gridDim.y)
  KSPEC_RANGE(gridDim_z, gridDim.z, gridDim.z)
#undef KSPEC_RANGE
};

// The elements of one array that threads access.
struct Reach {
  long long low = 0, high = -1;
  bool known = true;

  template <class T> KSPEC_HOST_UNCHECKED void take(Range<T> range) {
    known = known && range.known;
    if (high < low) {
      low = range.low, high = range.high;
    } else {
      low = range.low < low ? range.low : low;
      high = range.high > high ? range.high : high;
    }
  }
  KSPEC_HOST_UNCHECKED bool is_below(unsigned long count) const {
    return known && (high < low || (low >= 0 && (unsigned long)high < count));
  }
  template <class T> KSPEC_HOST_UNCHECKED bool is_in_memory(const BlockRun& run, T* array) const {
    const long long most = 1ll << 46;  // more than any memory has: no address wraps around
    if (!known) return false;
    if (high < low) return true;
    if (low < -most || high > most) return false;
    return kspec_runtime->reaches(run.block->worker, (const void*)(array + low),
                                  (unsigned long)(high - low + 1) * sizeof(T));
  }
};

enum Step { STEP_ADDS, STEP_SCALES, STEP_SHIFTS };

// What is found out about a run of blocks.
struct Fit {
  bool known = true, holds = true;

  KSPEC_HOST_UNCHECKED void need(bool condition) { known = known && condition; }
  // A condition that the loops do not test.
  KSPEC_HOST_UNCHECKED void expect(Certainty condition) { holds = holds && condition.always; }
  // A divisor of integers, unless one operand is floating.
  template <class T> KSPEC_HOST_UNCHECKED void divides(Range<T> divisor, bool floating) {
    holds = holds && (floating || (divisor.known && divisor.low > 0));
  }
  template <class T> KSPEC_HOST_UNCHECKED void shifts(Range<T> count) {
    holds = holds && count.known && count.low >= 0 && count.high < 32;
  }
  KSPEC_HOST_UNCHECKED LoopsFit answer(bool reached) const {
    return !known ? LOOPS_NEVER : holds && reached ? LOOPS_FIT : LOOPS_NOT_HERE;
  }
};

// The variable of a loop that counts up: it grows at each turn, and ends without wrapping around.
template <class T, class U, class V>
static inline KSPEC_HOST_UNCHECKED Range<T> counted_up(Range<T> first, Range<U> bound, Range<V> by,
                                                      Step step, bool equal, Fit& fit) {
  long long low = first.low, high = bound.high - (equal ? 0 : 1), after = 0;
  bool known = comparable(first, bound) && by.known && bound.high < 1ll << 62;
  if (known && high < low) return {low, high, true};
  if (step == STEP_ADDS) {
    known = known && by.low >= 1 && !__builtin_add_overflow(high, by.high, &after);
    if (known && first.low == first.high && by.low == by.high)
      high = low + (high - low) / by.low * by.low;  // k = 0; k < n; k += 16
  } else if (step == STEP_SCALES) {
    known = known && low >= 1 && by.low >= 2 && !__builtin_mul_overflow(high, by.high, &after);
  } else {
    known = known && low >= 1 && by.low >= 1 && by.high < 31 && high < 1ll << 31;
    after = known ? high << by.high : 0;
  }
  known = known && can_hold<T>(after) && can_hold<Common<T, U>>(after);
  fit.holds = fit.holds && known;
  return {low, high, known};
}

template <class T, class U, class V>
static inline KSPEC_HOST_UNCHECKED Range<T> counted_down(Range<T> first, Range<U> bound, Range<V> by,
                                                        Step step, bool equal, Fit& fit) {
  long long low = bound.low + (equal ? 0 : 1), high = first.high, after = 0;
  bool known = comparable(first, bound) && by.known && bound.low > -(1ll << 62);
  if (known && high < low) return {low, high, true};
  if (step == STEP_ADDS) {
    known = known && by.low >= 1 && !__builtin_sub_overflow(low, by.high, &after);
    if (known && first.low == first.high && by.low == by.high)
      low = high - (high - low) / by.low * by.low;
  } else {  // division and shifts, of what stays above 0
    known = known && low >= 1 && by.low >= (step == STEP_SCALES ? 2 : 1) && by.high < 31;
  }
  known = known && can_hold<T>(after) && can_hold<Common<T, U>>(after);
  fit.holds = fit.holds && known;
  return {low, high, known};
}

}  // namespace kspec_host
