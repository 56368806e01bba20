// cuComplex.h for the host device: complex numbers as pairs, with CUDA's names and scaling.
#pragma once

typedef float2 cuFloatComplex;
typedef double2 cuDoubleComplex;
typedef cuFloatComplex cuComplex;

// One set of functions; S is the suffix of the float versions.
#define KSPEC_COMPLEX(C, R, S, MAKE)                                                              \
  static inline C MAKE(R x, R y) { return {x, y}; }                                               \
  static inline R cuCreal##S(C z) { return z.x; }                                                 \
  static inline R cuCimag##S(C z) { return z.y; }                                                 \
  static inline C cuConj##S(C z) { return {z.x, -z.y}; }                                          \
  static inline C cuCadd##S(C a, C b) { return {a.x + b.x, a.y + b.y}; }                          \
  static inline C cuCsub##S(C a, C b) { return {a.x - b.x, a.y - b.y}; }                          \
  static inline C cuCmul##S(C a, C b) {                                                           \
    return {a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x};                                        \
  }                                                                                               \
  static inline C cuCfma##S(C a, C b, C c) { return cuCadd##S(cuCmul##S(a, b), c); }              \
  static inline R cuCabs##S(C z) { return hypot(z.x, z.y); }                                      \
  /* Scaled, so that the squares neither overflow nor underflow. */                               \
  static inline C cuCdiv##S(C a, C b) {                                                           \
    R scale = R(1) / (fabs(b.x) + fabs(b.y)), x = a.x * scale, y = a.y * scale;                   \
    R u = b.x * scale, v = b.y * scale, inverse = R(1) / (u * u + v * v);                         \
    return {(x * u + y * v) * inverse, (y * u - x * v) * inverse};                                \
  }
KSPEC_COMPLEX(cuFloatComplex, float, f, make_cuFloatComplex)
KSPEC_COMPLEX(cuDoubleComplex, double, , make_cuDoubleComplex)
#undef KSPEC_COMPLEX

static inline cuComplex make_cuComplex(float x, float y) { return {x, y}; }
static inline cuDoubleComplex cuComplexFloatToDouble(cuFloatComplex z) { return {z.x, z.y}; }
static inline cuFloatComplex cuComplexDoubleToFloat(cuDoubleComplex z) {
  return {(float)z.x, (float)z.y};
}
