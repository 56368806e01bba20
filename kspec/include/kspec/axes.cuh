// Splitting a flat index into one index per axis, and that into the operands' offsets.
// kspec/runtime/schedules/marshal.py packs the same layouts.
#pragma once

#include "kspec/operand.cuh"

namespace kspec {

// Division by a number that is fixed for the launch: q = (hi(n * magic) + n) >> shift, exact for
// n < 2^31 (Granlund and Montgomery, "Division by invariant integers using multiplication").
struct Divisor {
  unsigned int magic, shift;

  __device__ inline unsigned int divide(unsigned int n) const {
    return (__umulhi(n, magic) + n) >> shift;
  }
};

// Axes of a loop, innermost first, with the byte strides of each operand along them.
template <int AXES, int OPERANDS> struct Axes {
  int ndim;
  int narrow;  // fewer than 2^31 elements: 32-bit division
  ptrdiff_t extents[AXES];
  Divisor divisors[AXES];
  ptrdiff_t strides[OPERANDS][AXES];

  // Calls `visitor.add(axis, index)` for each axis of element `i`, innermost first.
  // Unrolled, these loops took two thirds of the time a kernel needs to compile, and each kernel
  // has them several times.
  template <class Visitor> __device__ inline void visit(ptrdiff_t i, Visitor& visitor) const {
    if (ndim == 1)
      visitor.add(0, i);
    else if (narrow)
      visit_narrow((unsigned int)i, visitor);
    else
      visit_wide(i, visitor);
  }
  template <class Visitor>
  __device__ inline void visit_narrow(unsigned int rest, Visitor& visitor) const {
#pragma unroll 1
    for (int axis = 0; axis < ndim - 1; ++axis) {
      const unsigned int next = divisors[axis].divide(rest);
      visitor.add(axis, (ptrdiff_t)(rest - next * (unsigned int)extents[axis]));
      rest = next;
    }
    if (ndim > 0) visitor.add(ndim - 1, (ptrdiff_t)rest);
  }
  template <class Visitor> __device__ inline void visit_wide(ptrdiff_t rest, Visitor& visitor) const {
#pragma unroll 1
    for (int axis = 0; axis < ndim - 1; ++axis) {
      const ptrdiff_t next = rest / extents[axis];
      visitor.add(axis, rest - next * extents[axis]);
      rest = next;
    }
    if (ndim > 0) visitor.add(ndim - 1, rest);
  }

  // Byte offset of one operand at element `i` of fewer than 2^31.
  __device__ inline ptrdiff_t offset(int operand, unsigned int i) const {
    OneOffset sum{strides[operand], 0};
    visit_narrow(i, sum);
    return sum.offset;
  }

 private:
  struct OneOffset {
    const ptrdiff_t* steps;
    ptrdiff_t offset;
    __device__ inline void add(int axis, ptrdiff_t index) { offset += index * steps[axis]; }
  };
};

struct Narrow {};   // the caller knows that there are fewer than 2^31 elements
struct OneAxis {};  // the same, along one axis: no constant is at an index, which would be slow

// Byte offsets of all operands at one element, and its index along the innermost axis.
template <int AXES, int OPERANDS> struct Offsets {
  ptrdiff_t offset[OPERANDS];
  ptrdiff_t inner;

  __device__ inline Offsets(const Axes<AXES, OPERANDS>& axes, ptrdiff_t i) {
    Adder adder = start(axes);
    axes.visit(i, adder);
  }
  __device__ inline Offsets(const Axes<AXES, OPERANDS>& axes, unsigned int i, Narrow) {
    Adder adder = start(axes);
    axes.visit_narrow(i, adder);
  }
  __device__ inline Offsets(const Axes<AXES, OPERANDS>& axes, unsigned int i, OneAxis) {
    start(axes).add(0, (ptrdiff_t)i);
  }
  __device__ inline Bytes operator[](int operand) const { return Bytes{offset[operand]}; }

 private:
  struct Adder {
    const Axes<AXES, OPERANDS>& axes;
    Offsets& at;

    __device__ inline void add(int axis, ptrdiff_t index) {
      if (axis == 0) at.inner = index;
#pragma unroll
      for (int k = 0; k < OPERANDS; ++k) at.offset[k] += index * axes.strides[k][axis];
    }
  };
  __device__ inline Adder start(const Axes<AXES, OPERANDS>& axes) {
    inner = 0;
#pragma unroll
    for (int k = 0; k < OPERANDS; ++k) offset[k] = 0;
    return Adder{axes, *this};
  }
};

}  // namespace kspec
