// CUPY_FOR(i, n), CuPy's name for a grid-stride loop: each thread takes every (number of threads)-th
// number.
#pragma once

#define CUPY_FOR(i, n)                                                                         \
  for (ptrdiff_t i = (ptrdiff_t)blockIdx.x * blockDim.x + threadIdx.x; i < (n);                \
       i += (ptrdiff_t)blockDim.x * gridDim.x)
