// What a thread of a reduction has in registers: a Batch of packs, one of each input, and the
// Partial result of what it has folded so far.
#pragma once

#include "kspec/slots.cuh"

namespace kspec {

// A total that may be of nothing yet: there is no value to start from but the first element.
template <class Acc> struct Partial {
  Acc value;
  bool some;

  template <class Op> __device__ inline void add(const Op& op, const Acc& other) {
    value = some ? op._reduce(value, other) : other;
    some = true;
  }
};

// Where an aligned pack of an input is; an input that does not move has one element.
struct AlignedPlace {
  enum { anywhere = 0 };
  ptrdiff_t offset;
  bool moving, aligned, apart;

  template <class T, int V> __device__ inline void load(const T* data, Pack<T, V>& pack) const {
    const T* first = element(data, Bytes{offset});
    if (moving)
      pack.load(first);
    else
      pack.fill(*first);
  }
};

// Where a pack of an input is, aligned or not; `apart`: to be read element by element.
struct AnyPlace {
  enum { anywhere = 1 };
  ptrdiff_t offset;
  bool moving, aligned, apart;

  template <class T, int V> __device__ inline void load(const T* data, Pack<T, V>& pack) const {
    const T* first = element(data, Bytes{offset});
    if (!moving)
      pack.fill(*first);
    else if (aligned)
      pack.load(first);
    else if (apart)
      pack.load_each(first);
    else
      pack.load_unaligned(first);
  }
};

template <int K, class Input, int V> struct Held { Slot<Input, V> slot; };

template <int V, class K, class... Inputs> struct Batch;
template <int V, int... K, class... Inputs>
struct Batch<V, Numbers<K...>, Inputs...> : Held<K, Inputs, V>... {
  // `place(k)` is where input k has its pack.
  template <class Place> __device__ inline void load(const Place& place, const Inputs&... inputs) {
    (Held<K, Inputs, V>::slot.load(inputs, place(K)), ...);
  }
  // The j-th elements, mapped: number `at` along the reduced axes.
  template <class Op>
  __device__ inline typename Op::_Acc map(const Op& op, int j, ptrdiff_t at, ptrdiff_t output) const {
    return op._value(Held<K, Inputs, V>::slot.item(j)..., at, output);
  }
  template <class Op>
  __device__ inline typename Op::_Acc fold(const Op& op, ptrdiff_t at, ptrdiff_t output) const {
    typename Op::_Acc total = map(op, 0, at, output);
#pragma unroll
    for (int j = 1; j < V; ++j) total = op._reduce(total, map(op, j, at + j, output));
    return total;
  }
};

// Offsets of the inputs at element `i` of the reduced axes; a single axis needs no division.
template <int INPUTS>
__device__ inline void offsets_along(const Axes<8, INPUTS>& axes, ptrdiff_t i,
                                     ptrdiff_t (&offset)[INPUTS]) {
  if (axes.ndim == 1) {
#pragma unroll
    for (int k = 0; k < INPUTS; ++k) offset[k] = i * axes.strides[k][0];
  } else {
    const Offsets<8, INPUTS> at(axes, (unsigned int)i, Narrow());
#pragma unroll
    for (int k = 0; k < INPUTS; ++k) offset[k] = at.offset[k];
  }
}

}  // namespace kspec
