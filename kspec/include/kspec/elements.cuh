// The loop of an elementwise kernel: Elements<AXES, OPERANDS> says where element i of each
// operand is; Indexer is what the user's fragments see as `_ind`.
//
//   KSPEC_ELEMENTS(i, elements) { const auto at = KSPEC_AT(i, elements); ... }
#pragma once

#include "kspec/axes.cuh"
#include "kspec/loop.cuh"
#include "kspec/operand.cuh"

#ifdef KSPEC_HOST
// A thread walks its chunk in runs along the innermost axis, so that only a run's first element
// costs divisions.
#define KSPEC_ELEMENTS(i, elements)                                                            \
  for (auto kspec_run = kspec::first_run(elements); kspec_run.more(); kspec_run.next())        \
    for (ptrdiff_t i = kspec_run.begin; i < kspec_run.end; ++i)
#define KSPEC_AT(i, elements) kspec_run.at(i)
#else
#define KSPEC_ELEMENTS(i, elements) KSPEC_FOR(i, (elements).size())
#define KSPEC_AT(i, elements) (elements).at(i)
#endif

namespace kspec {

template <int AXES, int OPERANDS> struct Elements {
  enum { room = AXES };
  ptrdiff_t size_;
  Axes<AXES, OPERANDS> axes_;

  __device__ inline ptrdiff_t size() const { return size_; }
  __device__ inline int ndim() const { return axes_.ndim; }
  __device__ inline ptrdiff_t inner_extent() const { return axes_.extents[0]; }
  __device__ inline ptrdiff_t inner_stride(int operand) const { return axes_.strides[operand][0]; }
  __device__ inline Offsets<AXES, OPERANDS> at(ptrdiff_t i) const {
    return Offsets<AXES, OPERANDS>(axes_, i);
  }
  template <class Visitor> __device__ inline void visit(ptrdiff_t i, Visitor& visitor) const {
    axes_.visit(i, visitor);
  }
};

// All operands contiguous and alike: the element number is the position.
struct FlatOffsets {
  ptrdiff_t index;
  __device__ inline Flat operator[](int) const { return Flat{index}; }
};

template <int OPERANDS> struct Elements<0, OPERANDS> {
  enum { room = 1 };
  ptrdiff_t size_;

  __device__ inline ptrdiff_t size() const { return size_; }
  __device__ inline int ndim() const { return 1; }
  __device__ inline ptrdiff_t inner_extent() const { return size_; }
  __device__ inline FlatOffsets at(ptrdiff_t i) const { return FlatOffsets{i}; }
  template <class Visitor> __device__ inline void visit(ptrdiff_t i, Visitor& visitor) const {
    visitor.add(0, i);
  }
};

#ifdef KSPEC_HOST
// The position of an element `step` after the first of a run.
template <int AXES, int OPERANDS> struct RunOffsets {
  const Elements<AXES, OPERANDS>& elements;
  const Offsets<AXES, OPERANDS>& first;
  ptrdiff_t step;

  Bytes operator[](int operand) const {
    return Bytes{first.offset[operand] + step * elements.inner_stride(operand)};
  }
};
template <int AXES, int OPERANDS>
inline RunOffsets<AXES, OPERANDS> run_offsets(const Elements<AXES, OPERANDS>& elements,
                                              const Offsets<AXES, OPERANDS>& first, ptrdiff_t step,
                                              ptrdiff_t) {
  return RunOffsets<AXES, OPERANDS>{elements, first, step};
}
template <int OPERANDS>
inline FlatOffsets run_offsets(const Elements<0, OPERANDS>&, const FlatOffsets&, ptrdiff_t,
                               ptrdiff_t i) {
  return FlatOffsets{i};
}
template <class Loop> struct Run;
template <class Loop> inline Run<Loop> first_run(const Loop& elements) {
  return Run<Loop>(elements, chunk_begin(elements.size()), chunk_end(elements.size()));
}

// Neighbouring elements [begin, end) of one thread's chunk, which ends at `stop`.
template <class Loop> struct Run {
  const Loop& elements;
  ptrdiff_t begin, end, stop;
  decltype(elements.at(0)) first;

  Run(const Loop& elements, ptrdiff_t begin, ptrdiff_t stop)
      : elements(elements), begin(begin), end(begin), stop(stop), first(elements.at(begin)) {
    reach();
  }
  bool more() const { return begin < stop; }
  void next() {
    begin = end;
    if (!more()) return;
    first = elements.at(begin);
    reach();
  }
  auto at(ptrdiff_t i) const { return run_offsets(elements, first, i - begin, i); }

 private:
  void reach() {
    const ptrdiff_t row_end = (begin / elements.inner_extent() + 1) * elements.inner_extent();
    end = row_end < stop ? row_end : stop;
  }
};
#endif

// `_ind`: the size of the loop, and the multi-index of the current element over the loop's axes,
// outermost first; null where there are none. The index is split only when `get` is called.
template <class Loop> class Indexer {
 public:
  const int ndim;

  __device__ inline explicit Indexer(const Loop& loop) : ndim(loop.ndim()), loop_(loop), i_(0) {}
  __device__ inline ptrdiff_t size() const { return loop_.size(); }
  __device__ inline void set(ptrdiff_t i) { i_ = i; }
  __device__ inline const ptrdiff_t* get() {
    loop_.visit(i_, *this);
    return ndim ? index_ : nullptr;
  }
  __device__ inline void add(int axis, ptrdiff_t index) { index_[ndim - 1 - axis] = index; }

 private:
  const Loop& loop_;
  ptrdiff_t i_;
  ptrdiff_t index_[Loop::room];
};

}  // namespace kspec
