// The loop of an elementwise kernel. Elements<Layout, OPERANDS> says which elements there are and
// where each operand has them. An operation on values is called for each of them:
//
//   kspec::for_each(elements, [&](ptrdiff_t i, const float x, float& y) { y = x; }, _arg_x, _arg_y);
//
// One that works on memory by itself stands in a plain loop (layouts Flat and Strided):
//
//   KSPEC_ELEMENTS(i, elements) { const auto at = KSPEC_AT(i, elements); ... }
//
// Indexer is what the operation sees as `_ind`. kspec/runtime/schedules/elementwise_schedule.py packs the same
// structures.
#pragma once

#include "kspec/chunked.cuh"
#include "kspec/axes.cuh"
#include "kspec/layout.cuh"
#include "kspec/operand.cuh"

namespace kspec {

template <class Layout, int OPERANDS> struct Elements;

// The element number is the position.
template <int OPERANDS> struct Elements<Flat, OPERANDS> {
  enum { room = 1 };
  ptrdiff_t size_;
  unsigned long long moving;   // bit k: operand k has an array of elements, not a single one
  unsigned long long aligned;  // bit k: its packs are aligned, once `head` elements are done
  int head, tail;              // elements before the first pack, and after the last

  __device__ inline ptrdiff_t size() const { return size_; }
  __device__ inline bool moves(int k) const { return moving >> k & 1; }
  __device__ inline bool packed() const {  // whether all of them are arrays of aligned packs
    return (moving & aligned) == ~0ull >> (64 - OPERANDS);
  }
  __device__ inline int ndim() const { return 1; }

  struct At {
    const Elements& elements;
    ptrdiff_t i;
    __device__ inline Nth operator[](int k) const { return Nth{elements.moves(k) ? i : 0}; }
  };
  __device__ inline At at(ptrdiff_t i) const { return At{*this, i}; }
  template <class Visitor> __device__ inline void visit(ptrdiff_t i, Visitor& visitor) const {
    visitor.add(0, i);
  }
};

template <int AXES, int OPERANDS> struct Elements<Strided<AXES>, OPERANDS> {
  enum { room = AXES };
  ptrdiff_t size_;
  Axes<AXES, OPERANDS> axes;

  __device__ inline ptrdiff_t size() const { return size_; }
  __device__ inline int ndim() const { return axes.ndim; }
  __device__ inline Offsets<AXES, OPERANDS> at(ptrdiff_t i) const {
    return Offsets<AXES, OPERANDS>(axes, i);
  }
  template <class Visitor> __device__ inline void visit(ptrdiff_t i, Visitor& visitor) const {
    axes.visit(i, visitor);
  }
};

// Rows in the grid's y and z; 2^lanes threads side by side in a row, the rest of a block in others.
// A thread takes `turns` packs of its row.
template <int OPERANDS> struct Elements<Rows, OPERANDS> : Elements<Strided<8>, OPERANDS> {
  Axes<8, OPERANDS> outer;  // all but the innermost axis
  int lanes;
  unsigned int packs, rows;  // packs of a row
  int turns;
};

// Fewer than 2^31 elements.
template <int OPERANDS> struct Elements<Packs, OPERANDS> : Elements<Strided<8>, OPERANDS> {
  unsigned long long flat;     // bit k: operand k is contiguous in the order of the loop
  unsigned long long aligned;  // bit k: its packs are aligned
};

// Axis 0 is the one the output runs along, axis 1 another that some operand runs along.
template <int OPERANDS> struct Elements<Tiles, OPERANDS> {
  enum { room = 1 };
  ptrdiff_t size_;
  ptrdiff_t extents[2];
  ptrdiff_t strides[OPERANDS][2];
  unsigned int tiles[2];  // along each of them
  Divisor divisors[2];
  unsigned long long turned;   // whether packs along them are not aligned, or not whole
  Axes<8, OPERANDS> outer;

  __device__ inline ptrdiff_t size() const { return size_; }
};

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

#ifdef KSPEC_CHUNKED
#include "kspec/elements_host.cuh"
#else
#include "kspec/elements_cuda.cuh"
#endif

namespace kspec {

// Call op(i, x, y, ...) for all elements a thread is given; it takes inputs by value and what it
// writes by reference, which may be a copy in a register until the thread is done.
template <class Layout, int N, class Op, class... Args>
__device__ inline void for_each(const Elements<Layout, N>& elements, const Op& op,
                                const Args&... args) {
  each(elements, op, typename UpTo<N>::type(), args...);
}

}  // namespace kspec
