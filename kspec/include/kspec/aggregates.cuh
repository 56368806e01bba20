// Reductions of an array that is in several places: ToAggregates<Layout> leaves the accumulator of each
// output in memory, before the post-map; FromAggregates<Layout> reduces such accumulators instead of
// elements. kspec/runtime/kernels/partial_reduction.py packs the same structures.
#pragma once

#include "kspec/reduce.cuh"

namespace kspec {

// `outputs` and `length` are those of the whole array: the user's expressions see them.
// ToAggregates without outputs is asked how many bytes an accumulator has.
template <class Layout, int INPUTS, int OUTPUTS> struct Reduction<ToAggregates<Layout>, INPUTS, OUTPUTS> {
  ptrdiff_t outputs;
  ptrdiff_t length;
  void* aggregates;  // where the first output would be
  Reduction<Layout, INPUTS, OUTPUTS> plan;
};
template <class Layout, int INPUTS, int OUTPUTS> struct Reduction<FromAggregates<Layout>, INPUTS, OUTPUTS> {
  ptrdiff_t outputs;
  ptrdiff_t length;
  const void* aggregates;  // where the first input would be
  Reduction<Layout, INPUTS, OUTPUTS> plan;
};

template <class Layout> struct MaxThreads<ToAggregates<Layout>> : MaxThreads<Layout> {};
template <class Layout> struct MaxThreads<FromAggregates<Layout>> : MaxThreads<Layout> {};
template <class Layout, class Acc, class... Inputs>
struct MinBlocks<ToAggregates<Layout>, Acc, Inputs...> : MinBlocks<Layout, Acc, Inputs...> {};
template <class Layout, class Acc, class... Inputs>
struct MinBlocks<FromAggregates<Layout>, Acc, Inputs...> : MinBlocks<Layout, Acc, Inputs...> {};

// The identity is combined once: where the outputs are made.
template <class Op, int SLOT> struct WriteAggregates : Op {
  typedef typename Op::_Acc _Acc;
  void* aggregates;

  __device__ inline WriteAggregates(const Op& op, void* to) : Op(op), aggregates(to) {}
  __device__ inline _Acc _initial(const _Acc& total) const { return total; }
  template <class At>
  __device__ inline void _post(const _Acc& a, const At& at, ptrdiff_t) const {
    *element(static_cast<_Acc*>(aggregates), at[SLOT]) = a;
  }
};
template <class Op> struct ReadAggregates : Op {
  typedef typename Op::_Acc _Acc;
  const void* aggregates;

  __device__ inline ReadAggregates(const Op& op, const void* from) : Op(op), aggregates(from) {}
  template <class At>
  __device__ inline _Acc _map(const At& at, ptrdiff_t, ptrdiff_t) const {
    return *element(static_cast<const _Acc*>(aggregates), at[0]);
  }
};

template <class Op, class Layout, int I, int O, class... Inputs>
__device__ inline void reduce(const Op& op, const Reduction<ToAggregates<Layout>, I, O>& plan,
                              const Inputs&... inputs) {
  if (plan.outputs == 0) {
    if (threadIdx.x == 0) *static_cast<long long*>(plan.aggregates) = sizeof(typename Op::_Acc);
    return;
  }
  reduce(WriteAggregates<Op, I>(op, plan.aggregates), plan.plan, inputs...);
}
template <class Op, class Layout, int I, int O, class... Inputs>
__device__ inline void reduce(const Op& op, const Reduction<FromAggregates<Layout>, I, O>& plan,
                              const Inputs&... inputs) {
  reduce(ReadAggregates<Op>(op, plan.aggregates), plan.plan, inputs...);
}

}  // namespace kspec
