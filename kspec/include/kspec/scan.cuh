// Scans: each output is what the elements up to it make, in their order, so the user's operation need
// not be commutative. kspec/runtime/schedules/scan_schedule.py packs the same structures.
#pragma once

#include "kspec/chunked.cuh"
#include "kspec/reduce.cuh"

namespace kspec {

// Rows of `length` elements, each scanned by itself.
template <int AXES, int INPUTS, int OUTPUTS> struct ScanPlan {
  ptrdiff_t outputs;   // rows
  ptrdiff_t length;    // elements of each
  int exclusive;       // an output does not have its own element
  int reversed;        // rows begin at the end of their axis
  int packed;          // all operands: element number n of the launch is number n in memory
  int shift;           // elements before the first one, so that packs begin at aligned addresses
  int narrow;          // fewer than 2^31 elements, these included
  int chains;          // sets of tiles that follow each other
  Divisor by_length;
  ptrdiff_t tiles;     // of a set
  ptrdiff_t groups;    // of tiles, in a set
  void* carries;
  unsigned long long* tickets;  // zero before the first launch
  ptrdiff_t steps[INPUTS + OUTPUTS];  // bytes along a row
  Axes<AXES, INPUTS + OUTPUTS> rows;
};
template <int AXES, int INPUTS, int OUTPUTS>
struct Reduction<ScanLines<AXES>, INPUTS, OUTPUTS> : ScanPlan<AXES, INPUTS, OUTPUTS> {};
template <int AXES, int INPUTS, int OUTPUTS>
struct Reduction<ScanColumns<AXES>, INPUTS, OUTPUTS> : ScanPlan<AXES, INPUTS, OUTPUTS> {};
template <int AXES, int INPUTS, int OUTPUTS>
struct Reduction<ScanWalks<AXES>, INPUTS, OUTPUTS> : ScanPlan<AXES, INPUTS, OUTPUTS> {};
template <int AXES, int INPUTS, int OUTPUTS>
struct Reduction<ScanWaves<AXES>, INPUTS, OUTPUTS> : ScanPlan<AXES, INPUTS, OUTPUTS> {};

// Blocks of small accumulators are to wait for each other beside blocks that load.
template <int AXES, class Acc, class... Inputs> struct MinBlocks<ScanLines<AXES>, Acc, Inputs...> {
  enum { value = sizeof(Acc) <= 8 ? 4 : 0 };
};

// A row, or a segment, and the place of an element in it.
struct Place {
  ptrdiff_t row, column;
};

// Where the operands of the element of a row are that is number `place` along the axis.
template <int AXES, int OPERANDS> struct InRow {
  const Offsets<AXES, OPERANDS>& row;
  const ptrdiff_t* steps;
  ptrdiff_t place;

  __device__ inline Bytes operator[](int operand) const {
    return Bytes{row.offset[operand] + place * steps[operand]};
  }
};

// Number along the axis of the element that comes after `column` others.
template <class Plan> __device__ inline ptrdiff_t place_in(const Plan& plan, ptrdiff_t column) {
  return plan.reversed ? plan.length - 1 - column : column;
}

#ifdef KSPEC_CHUNKED
// One thread scans some of the rows.
template <class Op, int AXES, int I, int O>
inline void scan_rows(const Op& op, const ScanPlan<AXES, I, O>& plan) {
  typedef InRow<AXES, I + O> At;
  const ptrdiff_t begin = plan.outputs / gridDim.x * blockIdx.x;
  const ptrdiff_t end = blockIdx.x + 1 < gridDim.x ? begin + plan.outputs / gridDim.x : plan.outputs;
  for (ptrdiff_t number = begin; number < end; ++number) {
    const Offsets<AXES, I + O> row(plan.rows, number);
    typename Op::_Acc total;
    if (plan.exclusive) total = op._identity();
    for (ptrdiff_t column = 0; column < plan.length; ++column) {
      const ptrdiff_t place = place_in(plan, column);
      const At at{row, plan.steps, place};
      // Read before it is written: the output may be the input.
      const typename Op::_Acc value = op._map(at, place, number);
      if (plan.exclusive) {
        counted(op, column)._post(total, at, number);
        total = op._reduce(total, value);
      } else {
        total = column ? op._reduce(total, value) : op._initial(value);
        counted(op, column + 1)._post(total, at, number);
      }
    }
  }
}
template <class Op, int AXES, int I, int O, class... Inputs>
inline void reduce(const Op& op, const Reduction<ScanLines<AXES>, I, O>& plan, const Inputs&...) {
  scan_rows(op, plan);
}
template <class Op, int AXES, int I, int O, class... Inputs>
inline void reduce(const Op& op, const Reduction<ScanColumns<AXES>, I, O>& plan, const Inputs&...) {
  scan_rows(op, plan);
}
template <class Op, int AXES, int I, int O, class... Inputs>
inline void reduce(const Op& op, const Reduction<ScanWalks<AXES>, I, O>& plan, const Inputs&...) {
  scan_rows(op, plan);
}
template <class Op, int AXES, int I, int O, class... Inputs>
inline void reduce(const Op& op, const Reduction<ScanWaves<AXES>, I, O>& plan, const Inputs&...) {
  scan_rows(op, plan);
}
#endif

}  // namespace kspec

#ifndef KSPEC_CHUNKED
#include "kspec/scan_columns.cuh"
#include "kspec/scan_lines.cuh"
#include "kspec/scan_waves.cuh"
#endif
