// Sliding windows: one output for each window, of its elements in their order, so the user's operation
// need not be commutative. kspec/runtime/schedules/rolling_schedule.py packs the same structures.
#pragma once

#include "kspec/chunked.cuh"
#include "kspec/boundary.cuh"
#include "kspec/scan.cuh"

namespace kspec {

// One axis along which windows slide.
template <int INPUTS> struct SlidingAxis {
  ptrdiff_t axis;             // number in the axes of the outputs
  ptrdiff_t size;             // elements of a window
  ptrdiff_t step;             // from window to window
  ptrdiff_t before;           // elements in front of the one that a window is at
  ptrdiff_t extent;           // of the inputs
  ptrdiff_t strides[INPUTS];  // of the inputs in bytes
};

// Windows of `length` elements along W axes, one for each of `outputs`.
template <int AXES, int W, int INPUTS, int OUTPUTS>
struct Reduction<Rolling<AXES, W>, INPUTS, OUTPUTS> {
  ptrdiff_t outputs;
  ptrdiff_t length;
  int boundary;
  int tile;  // windows of a block along the innermost axis; 0: each thread has one of all
  ptrdiff_t tiles;  // blocks along that axis
  SlidingAxis<INPUTS> sliding[W];       // innermost first
  Axes<AXES, INPUTS + OUTPUTS> places;  // of the outputs, and of the elements that windows are at
};

// Where the operands of an output are, and its index along each axis of the windows.
template <class Plan, int W, int OPERANDS> struct WindowPlace {
  const Plan& plan;
  ptrdiff_t offset[OPERANDS];
  ptrdiff_t index[W];

  __device__ inline WindowPlace(const Plan& plan, ptrdiff_t output) : plan(plan) {
#pragma unroll
    for (int k = 0; k < OPERANDS; ++k) offset[k] = 0;
#pragma unroll
    for (int w = 0; w < W; ++w) index[w] = 0;
    plan.places.visit(output, *this);
  }
  __device__ inline void add(int axis, ptrdiff_t at) {
#pragma unroll
    for (int k = 0; k < OPERANDS; ++k) offset[k] += at * plan.places.strides[k][axis];
#pragma unroll
    for (int w = 0; w < W; ++w)
      if (axis == plan.sliding[w].axis) index[w] = at * plan.sliding[w].step;
  }
  __device__ inline Bytes operator[](int operand) const { return Bytes{offset[operand]}; }
};

// Operands that are at these offsets.
template <int OPERANDS> struct At {
  ptrdiff_t offset[OPERANDS];
  __device__ inline Bytes operator[](int operand) const { return Bytes{offset[operand]}; }
};

// The elements of a window along axes W - 1 to 0, from those of axis 0 that lie at `offset`.
template <class Op, class Place, int W, int I> struct Slide {
  typedef typename Op::_Acc Acc;
  const Op& op;
  const Place& place;
  ptrdiff_t output;
  Acc total;
  ptrdiff_t count;   // elements of the window that there are
  ptrdiff_t number;  // of an element in the window

  template <int AXIS> __device__ inline void along(const At<I>& base) {
    const SlidingAxis<I>& axis = place.plan.sliding[AXIS];
    const ptrdiff_t at = place.index[AXIS], first = at - axis.before;
    for (ptrdiff_t k = first; k < first + axis.size; ++k) {
      const bool inside = 0 <= k && k < axis.extent;
      const ptrdiff_t from = inside ? k : index_outside(k, axis.extent, place.plan.boundary);
      if (from < 0) {
        skip<AXIS>();
        continue;
      }
      At<I> here;
#pragma unroll
      for (int i = 0; i < I; ++i) here.offset[i] = base.offset[i] + (from - at) * axis.strides[i];
      if constexpr (AXIS > 0) {
        along<AXIS - 1>(here);
      } else {
        const Acc value = op._map(here, number++, output);
        total = count++ ? op._reduce(total, value) : value;
      }
    }
  }
  template <int AXIS> __device__ inline void skip() {
    ptrdiff_t elements = 1;
#pragma unroll
    for (int w = 0; w < AXIS; ++w) elements *= place.plan.sliding[w].size;
    number += elements;
  }
};

// The elements of a block of neighbouring windows; kspec/runtime/schedules/rolling_schedule.py
// agrees.
template <class Acc> struct RollingTile {
  enum {
    THREADS = 256,  // at most
    CHUNK = sizeof(Acc) > 16 || (sizeof(Acc) > 4 && sizeof(Acc) <= 8) ? 3 : 5,
    CHUNKS = sizeof(Acc) > 8 ? 1 : 3,  // of a thread
    ITEMS = CHUNK * CHUNKS,  // odd, so that those of neighbouring threads have other banks
    FITS = sizeof(Acc) <= 32,
    SIZE = THREADS * ITEMS
  };
};

// One window, element by element.
template <class Op, int AXES, int W, int I, int O>
__device__ inline void roll(const Op& op, const Reduction<Rolling<AXES, W>, I, O>& plan,
                            ptrdiff_t output) {
  typedef WindowPlace<Reduction<Rolling<AXES, W>, I, O>, W, I + O> Place;
  typedef Slide<Op, Place, W, I> Window;
  const Place place(plan, output);
  At<I> base;
#pragma unroll
  for (int i = 0; i < I; ++i) base.offset[i] = place.offset[i];
  Window window{op, place, output, typename Op::_Acc(), 0, 0};
  window.template along<W - 1>(base);
  counted(op, window.count)._post(op._initial(window.total), place, output);
}

template <class Op, int AXES, int W, int I, int O, class... Inputs>
__device__ inline void reduce(const Op& op, const Reduction<Rolling<AXES, W>, I, O>& plan,
                              const Inputs&...) {
#ifdef KSPEC_CHUNKED
  const ptrdiff_t each = plan.outputs / gridDim.x, begin = each * blockIdx.x;
  const ptrdiff_t end = blockIdx.x + 1 < gridDim.x ? begin + each : plan.outputs;
  for (ptrdiff_t output = begin; output < end; ++output) roll(op, plan, output);
#else
  if constexpr (W == 1 && !Op::_INDEXED && RollingTile<typename Op::_Acc>::FITS) {
    if (plan.tile) {
      roll_tile(op, plan);
      return;
    }
  }
  const ptrdiff_t output = (ptrdiff_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (output < plan.outputs) roll(op, plan, output);
#endif
}

}  // namespace kspec

#ifndef KSPEC_CHUNKED
#include "kspec/rolling_tile.cuh"
#endif
