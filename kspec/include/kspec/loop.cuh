// KSPEC_FOR(i, n): the loop over elements that every generated kernel uses.
#pragma once

#ifdef KSPEC_HOST
// One contiguous chunk for each CUDA thread: a CPU core wants neighbouring elements, and a
// strided walk by simulated threads would touch every cache line many times.
#define KSPEC_FOR(i, n)                                                                        \
  for (ptrdiff_t i = kspec::chunk_begin(n), kspec_end_##i = kspec::chunk_end(n); i < kspec_end_##i; ++i)
#else
// Grid stride: neighbouring threads take neighbouring elements, so accesses coalesce.
#define KSPEC_FOR(i, n)                                                                        \
  for (ptrdiff_t i = (ptrdiff_t)blockIdx.x * blockDim.x + threadIdx.x; i < (n);                \
       i += (ptrdiff_t)blockDim.x * gridDim.x)
#endif

namespace kspec {

// Thread k of m takes [chunk(k), chunk(k + 1)); the first n % m chunks have one element more.
__device__ inline ptrdiff_t chunk_start(ptrdiff_t n, ptrdiff_t k, ptrdiff_t m) {
  const ptrdiff_t rest = n % m;
  return n / m * k + (k < rest ? k : rest);
}
__device__ inline ptrdiff_t chunk_begin(ptrdiff_t n) {
  return chunk_start(n, (ptrdiff_t)blockIdx.x * blockDim.x + threadIdx.x,
                     (ptrdiff_t)gridDim.x * blockDim.x);
}
__device__ inline ptrdiff_t chunk_end(ptrdiff_t n) {
  return chunk_start(n, (ptrdiff_t)blockIdx.x * blockDim.x + threadIdx.x + 1,
                     (ptrdiff_t)gridDim.x * blockDim.x);
}

}  // namespace kspec

// CuPy's name for a grid-stride loop: each thread takes every (number of threads)-th number.
#define CUPY_FOR(i, n)                                                                         \
  for (ptrdiff_t i = (ptrdiff_t)blockIdx.x * blockDim.x + threadIdx.x; i < (n);                \
       i += (ptrdiff_t)blockDim.x * gridDim.x)
