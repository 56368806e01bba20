// What a thread of a reduction has in registers: a Batch of packs, one of each input, and the
// Partial result of what it has added so far.
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
struct AlignedAccessor {
  ptrdiff_t offset;
  bool moving;

  template <class T, int V> __device__ inline void load(const T* data, Pack<T, V>& pack) const {
    const T* first = element(data, Bytes{offset});
    if (moving)
      pack.load(first);
    else
      pack.fill(*first);
  }
};

template <int K, class Input, int V> struct Own { Slot<Input, V> slot; };

template <int V, class K, class... Inputs> struct Batch;
template <int V, int... K, class... Inputs>
struct Batch<V, Numbers<K...>, Inputs...> : Own<K, Inputs, V>... {
  // `accessor(k)` is where input k has its pack.
  template <class Accessor>
  __device__ inline void load(const Accessor& accessor, const Inputs&... inputs) {
    (Own<K, Inputs, V>::slot.load(inputs, accessor(K)), ...);
  }
  // The same of inputs that are all arrays of packs.
  template <class Accessor>
  __device__ inline void load_packed(const Accessor& accessor, const Inputs&... inputs) {
    (Own<K, Inputs, V>::slot.load_packed(inputs, accessor(K)), ...);
  }
  // Copy the inputs that `which` has a bit for.
  __device__ inline void take(const Batch& other, unsigned long long which) {
    ((which >> K & 1 ? void(Own<K, Inputs, V>::slot = other.Own<K, Inputs, V>::slot) : void()), ...);
  }
  // The j-th elements, mapped: number `at` along the reduced axes.
  template <class Op>
  __device__ inline typename Op::_Acc map(const Op& op, int j, ptrdiff_t at, ptrdiff_t output) const {
    return op._value(Own<K, Inputs, V>::slot.item(j)..., at, output);
  }
  template <class Op>
  __device__ inline typename Op::_Acc reduce(const Op& op, ptrdiff_t at, ptrdiff_t output) const {
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
