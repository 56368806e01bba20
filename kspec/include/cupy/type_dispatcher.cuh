// dtype_dispatcher(id, f, arguments...) calls `f` for the type of one of CuPy's dtype numbers. A
// number that is none calls nothing: a kernel cannot throw.
#pragma once

#include "cupy/complex.cuh"
#include "kspec/half.cuh"

#define CUPY_TYPE_INT8 0
#define CUPY_TYPE_UINT8 1
#define CUPY_TYPE_INT16 2
#define CUPY_TYPE_UINT16 3
#define CUPY_TYPE_INT32 4
#define CUPY_TYPE_UINT32 5
#define CUPY_TYPE_INT64 6
#define CUPY_TYPE_UINT64 7
#define CUPY_TYPE_FLOAT16 8
#define CUPY_TYPE_FLOAT32 9
#define CUPY_TYPE_FLOAT64 10
#define CUPY_TYPE_COMPLEX64 11
#define CUPY_TYPE_COMPLEX128 12
#define CUPY_TYPE_BOOL 13

template <class Function, class... Arguments>
__device__ inline void dtype_dispatcher(int number, Function f, Arguments&&... arguments) {
#define KSPEC_DTYPE(NUMBER, TYPE)                                      \
  case NUMBER:                                                         \
    f.template operator()<TYPE>(static_cast<Arguments&&>(arguments)...); \
    break;
  switch (number) {
    KSPEC_DTYPE(CUPY_TYPE_INT8, signed char)
    KSPEC_DTYPE(CUPY_TYPE_UINT8, unsigned char)
    KSPEC_DTYPE(CUPY_TYPE_INT16, short)
    KSPEC_DTYPE(CUPY_TYPE_UINT16, unsigned short)
    KSPEC_DTYPE(CUPY_TYPE_INT32, int)
    KSPEC_DTYPE(CUPY_TYPE_UINT32, unsigned int)
    KSPEC_DTYPE(CUPY_TYPE_INT64, long long)
    KSPEC_DTYPE(CUPY_TYPE_UINT64, unsigned long long)
    KSPEC_DTYPE(CUPY_TYPE_FLOAT16, float16)
    KSPEC_DTYPE(CUPY_TYPE_FLOAT32, float)
    KSPEC_DTYPE(CUPY_TYPE_FLOAT64, double)
    KSPEC_DTYPE(CUPY_TYPE_COMPLEX64, complex<float>)
    KSPEC_DTYPE(CUPY_TYPE_COMPLEX128, complex<double>)
    KSPEC_DTYPE(CUPY_TYPE_BOOL, bool)
  }
#undef KSPEC_DTYPE
}
