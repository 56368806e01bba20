// Reductions of an array that is in several places: ToAggregates<Layout> leaves the accumulator of each
// output in memory, before the post-map; FromAggregates<Layout> reduces such accumulators instead of
// elements; Continued<Layout> is a scan of elements that follow others, of which it has the accumulators;
// Counting<Layout> is one of the first two whose accumulators tell how many elements they have, as each
// key has its own number of them.
// kspec/runtime/kernels/partials.py packs the same structures.
#pragma once

#include "kspec/counted.cuh"
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
template <class Layout, int INPUTS, int OUTPUTS> struct Reduction<Continued<Layout>, INPUTS, OUTPUTS> {
  ptrdiff_t outputs;
  ptrdiff_t length;
  const void* carries;  // of each row, in C order
  ptrdiff_t before;     // elements of a row that come before its first one here
  Reduction<Layout, INPUTS, OUTPUTS> plan;
};

template <class Layout, int INPUTS, int OUTPUTS>
struct Reduction<Counting<Layout>, INPUTS, OUTPUTS> : Reduction<Layout, INPUTS, OUTPUTS> {};

template <class Layout, class Acc>
struct MaxThreads<ToAggregates<Layout>, Acc> : MaxThreads<Layout, Acc> {};
template <class Layout, class Acc>
struct MaxThreads<FromAggregates<Layout>, Acc> : MaxThreads<Layout, Acc> {};
template <class Layout, class Acc>
struct MaxThreads<Continued<Layout>, Acc> : MaxThreads<Layout, Acc> {};
template <class Layout, class Acc>
struct MaxThreads<Counting<Layout>, Acc> : MaxThreads<Layout, Acc> {};
template <class Layout, class Acc, class... Inputs>
struct MinBlocks<ToAggregates<Layout>, Acc, Inputs...> : MinBlocks<Layout, Acc, Inputs...> {};
template <class Layout, class Acc, class... Inputs>
struct MinBlocks<FromAggregates<Layout>, Acc, Inputs...> : MinBlocks<Layout, Acc, Inputs...> {};
template <class Layout, class Acc, class... Inputs>
struct MinBlocks<Continued<Layout>, Acc, Inputs...> : MinBlocks<Layout, Acc, Inputs...> {};

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
// Accumulators of no elements are joined to none.
template <class Op> struct CountingOp : Op {
  typedef Counted<typename Op::_Acc, unsigned long long> _Acc;

  __device__ inline CountingOp(const Op& op) : Op(op) {}
  __device__ inline _Acc _identity() const {
    _Acc nothing;
    nothing.count = 0;
    return nothing;
  }
  __device__ inline _Acc _initial(const _Acc& total) const { return total; }
  __device__ inline _Acc _reduce(const _Acc& a, const _Acc& b) const {
    _Acc both = a;
    both.append(static_cast<const Op&>(*this), b);
    return both;
  }
  template <class At>
  __device__ inline void _post(const _Acc& a, const At& at, ptrdiff_t row) const {
    const Op op = counted(static_cast<const Op&>(*this), (ptrdiff_t)a.count);
    op._post(a.count ? op._initial(a.value) : op._identity(), at, row);
  }
};
// The carry comes in front of what an output has already, which may begin with the identity.
template <class Op> struct ContinueRows : Op {
  typedef typename Op::_Acc _Acc;
  const _Acc* carries;
  ptrdiff_t before;

  __device__ inline ContinueRows(const Op& op, const void* carries, ptrdiff_t before)
      : Op(op), carries(static_cast<const _Acc*>(carries)), before(before) {}
  template <class At>
  __device__ inline void _post(const _Acc& a, const At& at, ptrdiff_t row) const {
    Op op(*this);
    op._in_ind.size_ += before;
    op._post(op._reduce(carries[row], a), at, row);
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
template <class Op, class Layout, int I, int O, class... Inputs>
__device__ inline void reduce(const Op& op, const Reduction<Continued<Layout>, I, O>& plan,
                              const Inputs&... inputs) {
  reduce(ContinueRows<Op>(op, plan.carries, plan.before), plan.plan, inputs...);
}

template <class Op, class Layout, int I, int O, class... Inputs>
__device__ inline void reduce(const Op& op, const Reduction<Counting<Layout>, I, O>& plan,
                              const Inputs&... inputs) {
  reduce(CountingOp<Op>(op), static_cast<const Reduction<Layout, I, O>&>(plan), inputs...);
}

}  // namespace kspec
