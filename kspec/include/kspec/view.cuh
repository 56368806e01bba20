// Arrays as jitted kernels get them: address, size, shape and strides by value. Element access is
// C++'s, without checks of bounds. kspec/runtime/raw/view_kernel.py packs the same structure.
#pragma once

#include "kspec/truth.cuh"

namespace kspec {

// FLAT: elements follow each other in C order. Index: the type that offsets have.
template <class T, int NDIM, bool FLAT, class Index> struct View {
  enum { ndim = NDIM, room = NDIM > 0 ? NDIM : 1 };

  T* data;
  long long size;
  long long shape[room];
  long long strides[room];  // in bytes

  template <class... Indices> __device__ inline T& operator()(Indices... indices) const {
    static_assert(sizeof...(Indices) == NDIM, "one index for each axis");
    return *step<0>(data, Index(0), indices...);
  }

  // Without one of the axes.
  template <int AXIS, class Number>
  __device__ inline View<T, NDIM - 1, FLAT && AXIS == 0, Index> row(Number number) const {
    View<T, NDIM - 1, FLAT && AXIS == 0, Index> part;
    part.data = moved((ptrdiff_t)number * strides[AXIS]);
    part.size = 1;
#pragma unroll
    for (int axis = 0; axis < NDIM - 1; ++axis) {
      part.shape[axis] = shape[axis + (axis >= AXIS)];
      part.strides[axis] = strides[axis + (axis >= AXIS)];
      part.size *= part.shape[axis];
    }
    return part;
  }

  // Elements start:stop:step of an axis, with Python's rules for what is negative or too large.
  template <int AXIS>
  __device__ inline View<T, NDIM, false, Index> slice(long long start, long long stop,
                                                      long long step) const {
    const long long extent = shape[AXIS], low = step < 0 ? -1 : 0;
    const long long high = step < 0 ? extent - 1 : extent;
    start = bounded(start < 0 ? start + extent : start, low, high);
    stop = bounded(stop < 0 ? stop + extent : stop, low, high);
    const long long apart = step < 0 ? start - stop : stop - start, by = step < 0 ? -step : step;
    View<T, NDIM, false, Index> part;
    part.data = moved(start * strides[AXIS]);
    part.size = 1;
#pragma unroll
    for (int axis = 0; axis < NDIM; ++axis) {
      part.shape[axis] = axis == AXIS ? (apart > 0 ? (apart + by - 1) / by : 0) : shape[axis];
      part.strides[axis] = axis == AXIS ? strides[axis] * step : strides[axis];
      part.size *= part.shape[axis];
    }
    return part;
  }
  // The same for step 1 along the first axis, where contiguous arrays stay so.
  __device__ inline View span(long long start, long long stop) const {
    const View<T, NDIM, false, Index> part = slice<0>(start, stop, 1);
    View whole = *this;
    whole.data = part.data;
    whole.size = part.size;
    whole.shape[0] = part.shape[0];
    return whole;
  }

 private:
  static __device__ inline long long bounded(long long value, long long low, long long high) {
    return value < low ? low : value > high ? high : value;
  }
  __device__ inline T* moved(ptrdiff_t bytes) const {
    return reinterpret_cast<T*>(reinterpret_cast<char*>(data) + bytes);
  }
  template <int AXIS> __device__ inline T* step(T*, Index offset) const {
    return FLAT ? data + offset : moved(offset);
  }
  template <int AXIS, class First, class... Rest>
  __device__ inline T* step(T* from, Index offset, First first, Rest... rest) const {
    if constexpr (FLAT)
      return step<AXIS + 1>(from, (AXIS ? offset * (Index)shape[AXIS] : Index(0)) + (Index)first,
                            rest...);
    else
      return step<AXIS + 1>(from, offset + (Index)first * (Index)strides[AXIS], rest...);
  }
};

// All elements of a C-ordered array of some extents.
template <class Whole, class T, class... Extents>
__device__ inline Whole whole_view(T* data, Extents... extents) {
  const long long shape[] = {extents..., 1};
  Whole view;
  view.data = const_cast<decltype(view.data)>(data);
  view.size = 1;
  view.shape[0] = view.strides[0] = 0;
#pragma unroll
  for (int axis = Whole::ndim - 1; axis >= 0; --axis) {
    view.shape[axis] = shape[axis];
    view.strides[axis] = view.size * (long long)sizeof(T);
    view.size *= shape[axis];
  }
  return view;
}

__device__ inline unsigned int lane_id() {
  return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % warpSize;
}

}  // namespace kspec
