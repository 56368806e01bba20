// What a thread of a GPU has of an operand of a kernel with windows, at the packs of its tile, and
// how it reads what is around them.
#pragma once

#include "kspec/elements.cuh"
#include "kspec/neighbours.cuh"
#include "kspec/slots.cuh"

namespace kspec {

#ifndef KSPEC_CHUNKED

// The elements next to a pack may be outside of their row.
template <class Source, int V> struct RowEnds {
  enum { IN_PACKS = false };
  typedef typename Source::type T;
  int before, behind;  // where they are, from the pack's first element
  bool no_before, no_behind;

  __device__ inline RowEnds(const Source& window, const ptrdiff_t* index) {
    const int first = (int)(index[0] + window.first[0]), extent = (int)window.extents[0];
    const bool is_constant = window.boundary() == CONSTANT;
    before = fold(first - 1, extent, window.boundary()) - first;
    behind = fold(first + V, extent, window.boundary()) - first;
    no_before = is_constant && before != -1;
    no_behind = is_constant && behind != V;
  }
  template <class, class Near, int A>
  __device__ inline static T read(const Near& near, const RowEnds* ends,
                                  const ptrdiff_t (&offsets)[A]) {
    const ptrdiff_t row = near.row_of(offsets), column = near.step(offsets, 0);
    if (column >= 0 && column < V) return near.load(row, column);
    const ptrdiff_t place = column < 0 ? ends->before : ends->behind;
    const T value = near.load_single(row + place * (ptrdiff_t)sizeof(T));
    return (column < 0 ? ends->no_before : ends->no_behind) ? near.window().value : value;
  }
};

// Elements may be outside along any axis, of which each has more elements than a read goes far.
struct Folded {
  template <class Source> __device__ inline Folded(const Source&, const ptrdiff_t*) {}

  template <class T, class Near, int A>
  __device__ inline static T read(const Near& near, const Folded*, const ptrdiff_t (&offsets)[A]) {
    const auto& window = near.window();
    ptrdiff_t row = 0;
    int column = 0;
    bool missing = false;
#pragma unroll
    for (int k = 0; k < A; ++k) {
      const int own = (int)near.own(k), place = own + (int)near.step(offsets, k);
      const int found = fold(place, (int)window.extents[k], window.boundary());
      missing = missing | (window.boundary() == CONSTANT && found != place);
      if (k == 0) column = found - own;
      else row += (found - own) * near.stride(A - 1 - k);
    }
    // A fold is an element in any case.
    const ptrdiff_t step = near.step(offsets, 0);
    const ptrdiff_t distance = row + column * near.stride(A - 1);
    const bool in_pack = step >= 0 && step < Near::pack;
    const T value = in_pack ? near.load(row, step) : near.load_single(distance);
    return missing ? window.value : value;
  }
};

// What `Around` is where rows have their windows in the array, but for their ends.
struct InRows {};
template <class Around, class Source, int V> struct AroundOf { typedef Around type; };
template <class Source, int V> struct AroundOf<InRows, Source, V> {
  typedef RowEnds<Source, V> type;
};

// Where V elements of an operand are that follow each other in memory, `row` rows and `plane` planes
// from the thread's first element.
template <int V, class Where> struct WindowAccessor {
  ptrdiff_t offset;  // of the thread's first element
  const ptrdiff_t* strides;
  const ptrdiff_t* index;
  int row, plane;
  ptrdiff_t distance;  // from there

  template <class T> __device__ inline void load(const T* data, Pack<T, V>& pack) const {
    pack.load(element(data, Bytes{offset + distance}));
  }
  template <class T> __device__ inline void store(T* data, const T (&value)[V]) const {
    write_pack(element(data, Bytes{offset + distance}), value);
  }
  template <class T> __device__ inline void store(T* data, const Pack<T, V>& pack) const {
    write_pack(element(data, Bytes{offset + distance}), pack);
  }
};

// A windowed operand loads what the operation reads.
template <class T, int A, int B, int V, class Where>
struct Operand<Window<T, A, B>, V, WindowAccessor<V, Where>> {
  typedef Window<T, A, B> Source;
  typedef typename AroundOf<Where, Source, V>::type Around;

  const Source& argument;
  const WindowAccessor<V, Where> accessor;
  const Around around;

  __device__ inline Operand(const Source& argument, const WindowAccessor<V, Where>& accessor)
      : argument(argument), accessor(accessor), around(argument, accessor.index) {}
  __device__ inline void load() {}
  __device__ inline Neighbours<Source, Around, V> item(int j) const {
    // Along axes that the window lacks, its elements are other ones.
    ptrdiff_t offset = accessor.offset;
    if (A < 2) offset += accessor.row * accessor.strides[1];
    if (A < 3) offset += accessor.plane * accessor.strides[2];
    return Neighbours<Source, Around, V>(argument, accessor.strides, offset, accessor.index,
                                         &around, j, A < 2 ? 0 : accessor.row,
                                         A < 3 ? 0 : accessor.plane);
  }
  __device__ inline void store() {}
};

// Where each operand has the element with some `index`.
template <int W, int OUTER, int N>
__device__ inline void find_first(const Elements<Windows<W, OUTER>, N>& loop,
                                  const Offsets<OUTER, N>& outer, const ptrdiff_t* index,
                                  ptrdiff_t (&first)[N]) {
#pragma unroll
  for (int k = 0; k < N; ++k) {
    first[k] = outer.offset[k];
#pragma unroll
    for (int axis = 0; axis < W; ++axis) first[k] += index[axis] * loop.strides[k][axis];
  }
}

template <class Arg, int V, class Where>
__device__ inline Operand<Arg, V, WindowAccessor<V, Where>> operand_at(
    const Arg& argument, const WindowAccessor<V, Where>& accessor) {
  return {argument, accessor};
}

// Where operand k has the pack `row` rows and `plane` planes from the thread's first element, at
// `first`.
template <class Where, int V, int W, int OUTER, int N>
__device__ inline WindowAccessor<V, Where> accessor_of(const Elements<Windows<W, OUTER>, N>& loop,
                                                       const ptrdiff_t (&first)[N],
                                                       const ptrdiff_t* index, int k, int row,
                                                       int plane) {
  const ptrdiff_t* strides = loop.strides[k];
  const ptrdiff_t distance = (W > 1 ? row * strides[W > 1] : 0) +
                             (W > 2 ? plane * strides[W > 2 ? 2 : 0] : 0);
  return {first[k], strides, index, row, plane, distance};
}

#endif

}  // namespace kspec
