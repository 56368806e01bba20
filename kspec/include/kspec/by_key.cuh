// Reductions by key: one output for all elements with its key, wherever they are.
// kspec/runtime/schedules/key_schedule.py packs the same structures.
#pragma once

#include "kspec/chunked.cuh"
#include "kspec/aggregates.cuh"
#include "kspec/segments.cuh"

namespace kspec {

// Reduce expressions that are known operations of numbers; kspec/spec/forms.py names them.
enum Join { OTHER, SUM, LEAST, LARGEST, ALL_BITS, ANY_BIT, ODD_BITS, PRODUCT, BOTH, EITHER };

// Rows of elements of `outputs` columns, each row with a key; outputs are in `count` rows. An
// accumulator has a number: that of its key times the columns, and its column.
template <int AXES, int INPUTS, int OUTPUTS> struct KeyPlan {
  enum { CAPACITY = AXES, INS = INPUTS, OPERANDS = INPUTS + OUTPUTS };

  ptrdiff_t outputs;   // columns
  ptrdiff_t length;    // rows of elements
  ptrdiff_t count;     // keys are from 0 up to it; rows with others belong to no output
  Integers keys;
  ptrdiff_t tiles;     // of elements
  ptrdiff_t chunk;     // rows that are sorted at once
  int copies;          // of all accumulators, in the shared memory of a block; 0: there is no room
  int held;            // if so, those of the first outputs of which blocks have one, too
  int passes;          // of sorting
  int bits;            // of the keys, by which a pass sorts
  unsigned long long* progress;  // zero before the first launch
  void* cells;         // accumulators; of few keys, those of each tile
  unsigned long long* counts;    // how many elements each one has
  unsigned int* states;          // of each one
  unsigned int* sorting;
  void* edges;         // what runs of equal keys make that cross tiles
  ptrdiff_t steps[INPUTS + OUTPUTS];  // bytes from row to row
  Axes<AXES, INPUTS + OUTPUTS> rows;  // the columns

  __device__ inline ptrdiff_t slots() const { return count * outputs; }
  // The key that rows are moved by: `count` for those of no output, which come last.
  __device__ inline unsigned int kept(ptrdiff_t key) const {
    return (unsigned int)((size_t)key < (size_t)count ? key : count);
  }
};
template <int AXES, int INPUTS, int OUTPUTS>
struct Reduction<KeyCells<AXES>, INPUTS, OUTPUTS> : KeyPlan<AXES, INPUTS, OUTPUTS> {};
template <int AXES, int INPUTS, int OUTPUTS>
struct Reduction<KeyRuns<AXES>, INPUTS, OUTPUTS> : KeyPlan<AXES, INPUTS, OUTPUTS> {};
template <int AXES, int INPUTS, int OUTPUTS>
struct Reduction<KeyGroups<AXES>, INPUTS, OUTPUTS> : KeyPlan<AXES, INPUTS, OUTPUTS> {};
template <int AXES, int INPUTS, int OUTPUTS>
struct Reduction<KeySorted<AXES>, INPUTS, OUTPUTS> : KeyPlan<AXES, INPUTS, OUTPUTS> {};
template <int AXES, int INPUTS, int OUTPUTS>
struct Reduction<KeyBins<AXES>, INPUTS, OUTPUTS> : KeyPlan<AXES, INPUTS, OUTPUTS> {};

// Where the operands of an accumulator are.
template <int AXES, int I, int O> struct KeyPlace {
  ptrdiff_t key;
  Offsets<AXES, I + O> row;
  const ptrdiff_t* steps;

  __device__ inline KeyPlace(const KeyPlan<AXES, I, O>& plan, ptrdiff_t slot)
      : key(plan.outputs == 1 ? slot : slot / plan.outputs),
        row(plan.rows, slot - key * plan.outputs),
        steps(plan.steps) {}
  __device__ inline Bytes operator[](int operand) const {
    return InRow<AXES, I + O>{row, steps, key}[operand];
  }
};

// Write the output of an accumulator that has some elements.
template <class Op, int AXES, int I, int O>
__device__ inline void post_slot(const Op& op, const KeyPlan<AXES, I, O>& plan, ptrdiff_t slot,
                                 const typename Op::_Acc& total, ptrdiff_t elements, bool any) {
  const KeyPlace<AXES, I, O> at(plan, slot);
  counted(op, elements)._post(any ? op._initial(total) : op._identity(), at, at.key);
}

// End a launch of a kernel whose keys must be in range.
__device__ inline void refuse_key(ptrdiff_t row, ptrdiff_t key, ptrdiff_t count) {
#ifdef KSPEC_HOST
  FaultText message;
  message.add("keys[").add(row).add("] is ").add(key);
  message.add(": keys must be from 0 to ").add(count - 1);
  ::kspec_host::kspec_fail("by_key", message.text, __FILE__, __LINE__);
#else
  printf("kspec: by_key: keys[%lld] is %lld: keys must be from 0 to %lld\n", (long long)row,
         (long long)key, (long long)count - 1);
  __trap();
#endif
}

// Leave the accumulator of each key in memory, with how many elements it has.
template <class Op, int SLOT> struct WriteKeys : Op {
  enum { _COUNTED = 1 };
  void* aggregates;

  __device__ inline WriteKeys(const Op& op, void* to) : Op(op), aggregates(to) {}
};
template <class Op, int SLOT, int AXES, int I, int O>
__device__ inline void post_slot(const WriteKeys<Op, SLOT>& op, const KeyPlan<AXES, I, O>& plan,
                                 ptrdiff_t slot, const typename Op::_Acc& total, ptrdiff_t elements,
                                 bool any) {
  typedef Counted<typename Op::_Acc, unsigned long long> Part;
  const KeyPlace<AXES, I, O> at(plan, slot);
  Part& part = *element(static_cast<Part*>(op.aggregates), at[SLOT]);
  part.count = any ? elements : 0;
  if (part.count) part.value = total;
}
template <class Op, int AXES, int I, int O, class... Inputs>
__device__ inline void reduce(const Op& op, const Reduction<ToAggregates<KeyCells<AXES>>, I, O>& plan,
                              const Inputs&... inputs) {
  reduce(WriteKeys<Op, I>(op, plan.aggregates), plan.plan, inputs...);
}
template <class Op, int AXES, int I, int O, class... Inputs>
__device__ inline void reduce(const Op& op, const Reduction<ToAggregates<KeyRuns<AXES>>, I, O>& plan,
                              const Inputs&... inputs) {
  reduce(WriteKeys<Op, I>(op, plan.aggregates), plan.plan, inputs...);
}
template <class Op, int AXES, int I, int O, class... Inputs>
__device__ inline void reduce(const Op& op, const Reduction<ToAggregates<KeyGroups<AXES>>, I, O>& plan,
                              const Inputs&... inputs) {
  reduce(WriteKeys<Op, I>(op, plan.aggregates), plan.plan, inputs...);
}
template <class Op, int AXES, int I, int O, class... Inputs>
__device__ inline void reduce(const Op& op, const Reduction<ToAggregates<KeySorted<AXES>>, I, O>& plan,
                              const Inputs&... inputs) {
  reduce(WriteKeys<Op, I>(op, plan.aggregates), plan.plan, inputs...);
}
template <class Op, int AXES, int I, int O, class... Inputs>
__device__ inline void reduce(const Op& op, const Reduction<ToAggregates<KeyBins<AXES>>, I, O>& plan,
                              const Inputs&... inputs) {
  reduce(WriteKeys<Op, I>(op, plan.aggregates), plan.plan, inputs...);
}

#ifdef KSPEC_CHUNKED
// An accumulator in two parts, which keeps rounding errors from adding up over all elements.
template <class Acc> struct LongSum {
  Acc total, recent;
  ptrdiff_t count;
};

// One thread takes some of the keys, and all elements in their order.
template <class Op, int AXES, int I, int O, class... Inputs>
inline void reduce(const Op& op, const KeyPlan<AXES, I, O>& plan, const Inputs&...) {
  typedef typename Op::_Acc Acc;
  static_assert(sizeof(Acc) <= 192, "the accumulator of a reduction has at most 192 bytes");
  enum { LONGEST = 256 };
  const ptrdiff_t each = plan.count / gridDim.x, from = each * blockIdx.x;
  const ptrdiff_t to = blockIdx.x + 1 < gridDim.x ? from + each : plan.count;
  LongSum<Acc>* cells = static_cast<LongSum<Acc>*>(plan.cells);
  for (ptrdiff_t slot = from * plan.outputs; slot < to * plan.outputs; ++slot)
    cells[slot].count = 0;
  for (ptrdiff_t n = 0; n < plan.length; ++n) {
    const ptrdiff_t key = plan.keys.at(n);
    if (Op::_STRICT && (key < 0 || key >= plan.count)) refuse_key(n, key, plan.count);
    if (key < from || key >= to) continue;
    for (ptrdiff_t column = 0; column < plan.outputs; ++column) {
      const Offsets<AXES, I + O> row(plan.rows, column);
      LongSum<Acc>& cell = cells[key * plan.outputs + column];
      const Acc value = op._map(InRow<AXES, I + O>{row, plan.steps, n}, n, key);
      const ptrdiff_t before = cell.count++;
      if (before && before % LONGEST == 0)
        cell.total = before == LONGEST ? cell.recent : op._reduce(cell.total, cell.recent);
      cell.recent = before % LONGEST ? op._reduce(cell.recent, value) : value;
    }
  }
  for (ptrdiff_t slot = from * plan.outputs; slot < to * plan.outputs; ++slot) {
    const LongSum<Acc>& cell = cells[slot];
    const bool any = cell.count > 0;
    Acc total = any ? cell.recent : op._identity();
    if (cell.count > LONGEST) total = op._reduce(cell.total, total);
    post_slot(op, plan, slot, total, cell.count, any);
  }
}
#endif

}  // namespace kspec

#ifndef KSPEC_CHUNKED
#include "kspec/by_key_bins.cuh"
#include "kspec/by_key_cells.cuh"
#include "kspec/by_key_groups.cuh"
#include "kspec/by_key_runs.cuh"
#include "kspec/by_key_sorted.cuh"
#endif
