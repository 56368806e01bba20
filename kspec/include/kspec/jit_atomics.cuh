// Atomic functions of jitted kernels on numbers for which neither CUDA nor kspec/atomics.cuh has
// them: signed 64-bit integers, and floating-point numbers subtracted and exchanged. They are
// templates, so that CUDA's own functions are preferred.
#pragma once

#include "kspec/atomics.cuh"

namespace kspec {

template <class T> __device__ inline unsigned long long* wide_word(T* address) {
  static_assert(sizeof(T) == 8, "an overload of CUDA's is missing");
  return reinterpret_cast<unsigned long long*>(address);
}

}  // namespace kspec

template <class T> __device__ inline T atomicSub(T* address, decltype(T()) value) {
  return atomicAdd(address, T(0) - value);
}
template <class T> __device__ inline T atomicExch(T* address, decltype(T()) value) {
  return kspec::float_bits<T>(
      atomicExch(kspec::wide_word(address), kspec::float_bits<unsigned long long>(value)));
}
template <class T>
__device__ inline T atomicCAS(T* address, decltype(T()) expected, decltype(T()) value) {
  return (T)atomicCAS(kspec::wide_word(address), (unsigned long long)expected,
                      (unsigned long long)value);
}
template <class T> __device__ inline T atomicAnd(T* address, decltype(T()) value) {
  return (T)atomicAnd(kspec::wide_word(address), (unsigned long long)value);
}
template <class T> __device__ inline T atomicOr(T* address, decltype(T()) value) {
  return (T)atomicOr(kspec::wide_word(address), (unsigned long long)value);
}
template <class T> __device__ inline T atomicXor(T* address, decltype(T()) value) {
  return (T)atomicXor(kspec::wide_word(address), (unsigned long long)value);
}
