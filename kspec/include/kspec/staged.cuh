// Inputs of a tile in shared memory: copies that go on while threads work, and packs that they read.
#pragma once

#include "kspec/batch.cuh"
#include "kspec/copy_async.cuh"

namespace kspec {

template <class... Args> struct Sizes {
  enum { COUNT = sizeof...(Args) };

  // Bytes of an element of operand k, or 0.
  __device__ static constexpr int of(int k) {
    int size = 0, at = 0;
    ((size = at++ == k ? (int)sizeof(typename Args::type) : size), ...);
    return size;
  }
};
// Where a tile has its inputs in shared memory, in bytes for each of its elements.
template <class In> __device__ constexpr int place_of_input(int k) {
  int bytes = 0;
  for (int i = 0; i < k; ++i) bytes += In::of(i);
  return bytes;
}

// Begin to copy the packs of an input that a thread copies: number p of PACKS is at element `item(p)` of
// a tile, whose first one is number `first` of `total`. It is `whole` if all its elements exist; an
// input that does not move has one for all.
template <int V, int PACKS, class Input, class Item>
__device__ inline void stage_input(const Input& input, bool moving, ptrdiff_t first, ptrdiff_t total,
                                   bool whole, unsigned char* slot, const Item& item) {
  typedef typename Stored<typename Input::type>::type T;
  T* const to = reinterpret_cast<T*>(slot);
  if (!input.data || !moving) {
    const T one = input.data ? *input.data : static_cast<T>(input.value);
    T value[V];
#pragma unroll
    for (int j = 0; j < V; ++j) value[j] = one;
    for (int p = 0; p < PACKS; ++p) store_pack<V>(to + item(p), value);
    return;
  }
  const int own = item(0);
  const T* const from = input.data + (first + own);
  if (whole) {
#pragma unroll
    for (int p = 0; p < PACKS; ++p)
      copy_async<sizeof(T) * V>(to + item(p), from + (item(p) - own));
    return;
  }
#pragma unroll 1
  for (int p = 0; p < PACKS; ++p) {
    const int at = item(p);
    for (int j = 0; j < V; ++j)
      if (first + at + j >= 0 && first + at + j < total) to[at + j] = from[at + j - own];
  }
}
struct StagedAccessor {
  const unsigned char* place;

  template <class T> __device__ inline const T* first(const T*) const {
    return reinterpret_cast<const T*>(place);
  }
};

}  // namespace kspec
