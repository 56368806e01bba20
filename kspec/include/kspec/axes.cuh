// Splitting a flat index into one index per axis, and that into the operands' offsets.
// kspec/runtime/marshal.py packs the same layouts.
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

  // Offset of element `i`: calls `add(axis, index)` for each axis, innermost first.
  // Unrolled, these loops took two thirds of the time a kernel needs to compile, and each kernel
  // has them several times.
  template <class Visitor> __device__ inline void visit(ptrdiff_t i, Visitor& visitor) const {
    if (narrow) {
      unsigned int rest = (unsigned int)i;
#pragma unroll 1
      for (int axis = 0; axis < ndim - 1; ++axis) {
        const unsigned int next = divisors[axis].divide(rest);
        visitor.add(axis, (ptrdiff_t)(rest - next * (unsigned int)extents[axis]));
        rest = next;
      }
      if (ndim > 0) visitor.add(ndim - 1, (ptrdiff_t)rest);
    } else {
      ptrdiff_t rest = i;
#pragma unroll 1
      for (int axis = 0; axis < ndim - 1; ++axis) {
        const ptrdiff_t next = rest / extents[axis];
        visitor.add(axis, rest - next * extents[axis]);
        rest = next;
      }
      if (ndim > 0) visitor.add(ndim - 1, rest);
    }
  }
};

// Byte offsets of all operands at one element.
template <int AXES, int OPERANDS> struct Offsets {
  ptrdiff_t offset[OPERANDS];

  __device__ inline Offsets(const Axes<AXES, OPERANDS>& axes, ptrdiff_t i) {
#pragma unroll
    for (int k = 0; k < OPERANDS; ++k) offset[k] = 0;
    Adder adder{axes, offset};
    axes.visit(i, adder);
  }
  __device__ inline Bytes operator[](int operand) const { return Bytes{offset[operand]}; }

 private:
  struct Adder {
    const Axes<AXES, OPERANDS>& axes;
    ptrdiff_t (&offset)[OPERANDS];

    __device__ inline void add(int axis, ptrdiff_t index) {
#pragma unroll
      for (int k = 0; k < OPERANDS; ++k) offset[k] += index * axes.strides[k][axis];
    }
  };
};

}  // namespace kspec
