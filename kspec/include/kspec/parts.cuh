// Reductions of an array that is in several places: ToParts<Layout> leaves the accumulator of each
// output in memory, before the post-map; OfParts<Layout> folds such accumulators instead of
// elements. kspec/runtime/kernels/partial_reduction.py packs the same structures.
#pragma once

#include "kspec/reduce.cuh"

namespace kspec {

// `outputs` and `length` are those of the whole array: the user's expressions see them.
// ToParts without outputs is asked how many bytes an accumulator has.
template <class Layout, int INPUTS, int OUTPUTS> struct Reduction<ToParts<Layout>, INPUTS, OUTPUTS> {
  ptrdiff_t outputs;
  ptrdiff_t length;
  void* parts;  // where the first output would be
  Reduction<Layout, INPUTS, OUTPUTS> plan;
};
template <class Layout, int INPUTS, int OUTPUTS> struct Reduction<OfParts<Layout>, INPUTS, OUTPUTS> {
  ptrdiff_t outputs;
  ptrdiff_t length;
  const void* parts;  // where the first input would be
  Reduction<Layout, INPUTS, OUTPUTS> plan;
};

template <class Layout> struct MostThreads<ToParts<Layout>> : MostThreads<Layout> {};
template <class Layout> struct MostThreads<OfParts<Layout>> : MostThreads<Layout> {};
template <class Layout, class Acc, class... Inputs>
struct FewestBlocks<ToParts<Layout>, Acc, Inputs...> : FewestBlocks<Layout, Acc, Inputs...> {};
template <class Layout, class Acc, class... Inputs>
struct FewestBlocks<OfParts<Layout>, Acc, Inputs...> : FewestBlocks<Layout, Acc, Inputs...> {};

// The identity is folded in once: by who makes the outputs.
template <class Op, int SLOT> struct WritesParts : Op {
  typedef typename Op::_Acc _Acc;
  void* parts;

  __device__ inline WritesParts(const Op& op, void* to) : Op(op), parts(to) {}
  __device__ inline _Acc _initial(const _Acc& total) const { return total; }
  template <class At>
  __device__ inline void _post(const _Acc& a, const At& at, ptrdiff_t) const {
    *element(static_cast<_Acc*>(parts), at[SLOT]) = a;
  }
};
template <class Op> struct ReadsParts : Op {
  typedef typename Op::_Acc _Acc;
  const void* parts;

  __device__ inline ReadsParts(const Op& op, const void* from) : Op(op), parts(from) {}
  template <class At>
  __device__ inline _Acc _map(const At& at, ptrdiff_t, ptrdiff_t) const {
    return *element(static_cast<const _Acc*>(parts), at[0]);
  }
};

template <class Op, class Layout, int I, int O, class... Inputs>
__device__ inline void reduce(const Op& op, const Reduction<ToParts<Layout>, I, O>& plan,
                              const Inputs&... inputs) {
  if (plan.outputs == 0) {
    if (threadIdx.x == 0) *static_cast<long long*>(plan.parts) = sizeof(typename Op::_Acc);
    return;
  }
  reduce(WritesParts<Op, I>(op, plan.parts), plan.plan, inputs...);
}
template <class Op, class Layout, int I, int O, class... Inputs>
__device__ inline void reduce(const Op& op, const Reduction<OfParts<Layout>, I, O>& plan,
                              const Inputs&... inputs) {
  reduce(ReadsParts<Op>(op, plan.parts), plan.plan, inputs...);
}

}  // namespace kspec
