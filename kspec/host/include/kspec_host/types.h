// Vector types with CUDA's alignments, and dim3.
#pragma once

#define KSPEC_VECTOR(T, NAME)                                                             \
  struct NAME##1 { T x; };                                                                \
  struct __attribute__((aligned(2 * sizeof(T)))) NAME##2 { T x, y; };                     \
  struct NAME##3 { T x, y, z; };                                                          \
  struct __attribute__((aligned(sizeof(T) < 4 ? 4 * sizeof(T) : 16))) NAME##4 { T x, y, z, w; }; \
  static inline NAME##1 make_##NAME##1(T x) { return {x}; }                               \
  static inline NAME##2 make_##NAME##2(T x, T y) { return {x, y}; }                       \
  static inline NAME##3 make_##NAME##3(T x, T y, T z) { return {x, y, z}; }               \
  static inline NAME##4 make_##NAME##4(T x, T y, T z, T w) { return {x, y, z, w}; }

KSPEC_VECTOR(signed char, char)
KSPEC_VECTOR(unsigned char, uchar)
KSPEC_VECTOR(short, short)
KSPEC_VECTOR(unsigned short, ushort)
KSPEC_VECTOR(int, int)
KSPEC_VECTOR(unsigned int, uint)
KSPEC_VECTOR(long, long)
KSPEC_VECTOR(unsigned long, ulong)
KSPEC_VECTOR(long long, longlong)
KSPEC_VECTOR(unsigned long long, ulonglong)
KSPEC_VECTOR(float, float)
KSPEC_VECTOR(double, double)
#undef KSPEC_VECTOR

struct dim3 {
  unsigned int x, y, z;
  constexpr dim3(unsigned int a = 1, unsigned int b = 1, unsigned int c = 1) : x(a), y(b), z(c) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
  constexpr operator uint3() const { return {x, y, z}; }
};

// Handles; texture.h says what they are.
typedef unsigned long long cudaTextureObject_t;
typedef unsigned long long cudaSurfaceObject_t;
