// The loop of an elementwise kernel: Elements<AXES, OPERANDS> says where element i of each
// operand is; Indexer is what the user's fragments see as `_ind`.
#pragma once

#include "kspec/axes.cuh"
#include "kspec/loop.cuh"
#include "kspec/operand.cuh"

namespace kspec {

template <int AXES, int OPERANDS> struct Elements {
  enum { room = AXES };
  ptrdiff_t size_;
  Axes<AXES, OPERANDS> axes_;

  __device__ inline ptrdiff_t size() const { return size_; }
  __device__ inline int ndim() const { return axes_.ndim; }
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
  __device__ inline FlatOffsets at(ptrdiff_t i) const { return FlatOffsets{i}; }
  template <class Visitor> __device__ inline void visit(ptrdiff_t i, Visitor& visitor) const {
    visitor.add(0, i);
  }
};

// `_ind`: the size of the loop, and the multi-index of the current element over the collapsed
// axes, outermost first. The index is split only when `get` is called.
template <class Loop> class Indexer {
 public:
  const int ndim;

  __device__ inline explicit Indexer(const Loop& loop) : ndim(loop.ndim()), loop_(loop), i_(0) {}
  __device__ inline ptrdiff_t size() const { return loop_.size(); }
  __device__ inline void set(ptrdiff_t i) { i_ = i; }
  __device__ inline const ptrdiff_t* get() {
    loop_.visit(i_, *this);
    return index_;
  }
  __device__ inline void add(int axis, ptrdiff_t index) { index_[ndim - 1 - axis] = index; }

 private:
  const Loop& loop_;
  ptrdiff_t i_;
  ptrdiff_t index_[Loop::room];
};

}  // namespace kspec
