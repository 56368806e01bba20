#pragma once

namespace kspec {

// From here on the compiler does not know where a number comes from. Otherwise it keeps what several
// ways through the code have in common in registers, of which these need all.
__device__ inline void make_opaque(ptrdiff_t& number) {
#ifdef __CUDA_ARCH__
  asm volatile("" : "+l"(number));
#endif
}
template <int W> __device__ inline void make_opaque(ptrdiff_t (&index)[W]) {
#pragma unroll
  for (int k = 0; k < W; ++k) make_opaque(index[k]);
}

// A value as it is rounded. Of two products that are added the compiler may leave either unrounded,
// and does not choose the same one in all copies of some code.
template <class T> __device__ inline T rounded(T value) { return value; }
__device__ inline float rounded(float value) {
#ifdef __CUDA_ARCH__
  asm("" : "+f"(value));
#endif
  return value;
}
__device__ inline double rounded(double value) {
#ifdef __CUDA_ARCH__
  asm("" : "+d"(value));
#endif
  return value;
}

}  // namespace kspec
