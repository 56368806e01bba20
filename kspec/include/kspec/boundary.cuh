// Elements outside of an array: what its boundary says to read instead, for windows (windows.cuh)
// and for samples (sample.cuh).
#pragma once

#include "kspec/pack.cuh"

namespace kspec {

// kspec/model/neighbours/windows.py has the same order.
enum Boundary { NEAREST, REFLECT, MIRROR, WRAP, CONSTANT, VALID, ANY = -1 };

__device__ inline ptrdiff_t modulo(ptrdiff_t k, ptrdiff_t n) {
  const ptrdiff_t rest = k % n;
  return rest < 0 ? rest + n : rest;
}

// The index that an index outside of [0, n) stands for; -1: none. Not inlined: 64-bit divisions are
// long, and an operation has many reads.
__device__ __noinline__ inline ptrdiff_t index_outside(ptrdiff_t k, ptrdiff_t n, int boundary) {
  if (boundary == NEAREST) return k < 0 ? 0 : n - 1;
  if (boundary == WRAP) return modulo(k, n);
  if (boundary == REFLECT) {  // d c b a | a b c d | d c b a
    k = modulo(k, 2 * n);
    return k < n ? k : 2 * n - 1 - k;
  }
  if (boundary == MIRROR) {  // d c b | a b c d | c b a
    if (n == 1) return 0;
    k = modulo(k, 2 * n - 2);
    return k < n ? k : 2 * n - 2 - k;
  }
  return -1;
}

// The same along an axis with less than 2^30 elements, for an offset that goes less far than it is
// long. An element outside stands for one that is its index, multiplied by `sign`, away from `before`
// or `behind`. No division, and no branch.
__device__ inline int fold(int k, int extent, int boundary) {
  const int sign = boundary == WRAP ? 1 : boundary == REFLECT || boundary == MIRROR ? -1 : 0;
  const int before = boundary == WRAP ? extent : boundary == REFLECT ? -1 : 0;
  const int behind = boundary == WRAP      ? -extent
                     : boundary == REFLECT ? 2 * extent - 1
                     : boundary == MIRROR  ? 2 * extent - 2
                                           : extent - 1;
  return k < 0 ? before + sign * k : k >= extent ? behind + sign * k : k;
}

// An element that no thread writes to, so that the compiler need not load it twice.
#ifdef KSPEC_HOST
template <class T> inline T read_only(const T* place) { return *place; }
#else
template <class T>
__device__ inline T read_word(const T* place, const typename Word<sizeof(T)>::type*) {
  const auto word = __ldg(reinterpret_cast<const typename Word<sizeof(T)>::type*>(place));
  return reinterpret_cast<const T&>(word);
}
template <class T> __device__ inline T read_word(const T* place, ...) { return *place; }
template <class T> __device__ inline T read_only(const T* place) {
  return read_word(place, nullptr);
}
#endif

}  // namespace kspec
