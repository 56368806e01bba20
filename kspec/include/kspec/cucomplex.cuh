// The names of cuComplex.h for complex<T>, which has operators, too: what a source gets in place of
// that header with translate_cucomplex=True.
#pragma once

#include "kspec/complex.cuh"

typedef complex<float> cuFloatComplex;
typedef complex<double> cuDoubleComplex;
typedef cuFloatComplex cuComplex;

// S is the suffix of the float versions.
#define KSPEC_CUCOMPLEX(C, R, S)                                                           \
  __device__ inline C make_##C(R real, R imag) { return C(real, imag); }                   \
  __device__ inline R cuCreal##S(C z) { return z.real(); }                                 \
  __device__ inline R cuCimag##S(C z) { return z.imag(); }                                 \
  __device__ inline C cuConj##S(C z) { return conj(z); }                                   \
  __device__ inline C cuCadd##S(C z, C w) { return z + w; }                                \
  __device__ inline C cuCsub##S(C z, C w) { return z - w; }                                \
  __device__ inline C cuCmul##S(C z, C w) { return z * w; }                                \
  __device__ inline C cuCdiv##S(C z, C w) { return z / w; }                                \
  __device__ inline C cuCfma##S(C z, C w, C v) { return z * w + v; }                       \
  __device__ inline R cuCabs##S(C z) { return abs(z); }
KSPEC_CUCOMPLEX(cuFloatComplex, float, f)
KSPEC_CUCOMPLEX(cuDoubleComplex, double, )
#undef KSPEC_CUCOMPLEX

__device__ inline cuComplex make_cuComplex(float real, float imag) { return cuComplex(real, imag); }
__device__ inline cuDoubleComplex cuComplexFloatToDouble(cuFloatComplex z) { return z; }
__device__ inline cuFloatComplex cuComplexDoubleToFloat(cuDoubleComplex z) { return z; }
