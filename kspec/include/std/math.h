// CUDA's own functions, without libcu++, which takes twenty times as long. What C++ has beside
// them: arguments that are integers, or of two types, count as double.
#pragma once

#include <kspec_macros.h>

#ifndef HUGE_VAL
#define HUGE_VALF INFINITY
#define HUGE_VAL __builtin_bit_cast(double, 0x7ff0000000000000LL)
#endif
#ifndef M_PI
#define M_E 2.7182818284590452354
#define M_LOG2E 1.4426950408889634074
#define M_LOG10E 0.43429448190325182765
#define M_LN2 0.69314718055994530942
#define M_LN10 2.30258509299404568402
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_PI_4 0.78539816339744830962
#define M_1_PI 0.31830988618379067154
#define M_2_PI 0.63661977236758134308
#define M_2_SQRTPI 1.12837916709551257390
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.70710678118654752440
#endif

namespace kspec {

// Result is double for the types that are an arithmetic argument, and missing for all others.
template <class Type> struct Arithmetic {};
template <class Type> struct Integer {};
#define KSPEC_ARITHMETIC(TYPE) \
  template <> struct Arithmetic<TYPE> { typedef double Result; };
#define KSPEC_INTEGER(TYPE) \
  KSPEC_ARITHMETIC(TYPE)    \
  template <> struct Integer<TYPE> { typedef double Result; };
KSPEC_ARITHMETIC(float)
KSPEC_ARITHMETIC(double)
KSPEC_INTEGER(bool)
KSPEC_INTEGER(char)
KSPEC_INTEGER(signed char)
KSPEC_INTEGER(unsigned char)
KSPEC_INTEGER(short)
KSPEC_INTEGER(unsigned short)
KSPEC_INTEGER(int)
KSPEC_INTEGER(unsigned)
KSPEC_INTEGER(long)
KSPEC_INTEGER(unsigned long)
KSPEC_INTEGER(long long)
KSPEC_INTEGER(unsigned long long)
#undef KSPEC_INTEGER
#undef KSPEC_ARITHMETIC

template <class Left, class Right, class = typename Arithmetic<Left>::Result>
using Both = typename Arithmetic<Right>::Result;

}  // namespace kspec

#define KSPEC_OF_ONE(RESULT, NAME)                                                             \
  template <class Type, class = typename kspec::Integer<Type>::Result>                         \
  __device__ inline RESULT NAME(Type x) {                                                      \
    return ::NAME((double)x);                                                                  \
  }
#define KSPEC_OF_TWO(NAME)                                                                     \
  template <class Left, class Right>                                                           \
  __device__ inline kspec::Both<Left, Right> NAME(Left x, Right y) {                           \
    return ::NAME((double)x, (double)y);                                                       \
  }
#define KSPEC_REAL(NAME) KSPEC_OF_ONE(double, NAME)
KSPEC_REAL(acos)
KSPEC_REAL(asin)
KSPEC_REAL(atan)
KSPEC_REAL(cos)
KSPEC_REAL(sin)
KSPEC_REAL(tan)
KSPEC_REAL(acosh)
KSPEC_REAL(asinh)
KSPEC_REAL(atanh)
KSPEC_REAL(cosh)
KSPEC_REAL(sinh)
KSPEC_REAL(tanh)
KSPEC_REAL(exp)
KSPEC_REAL(exp2)
KSPEC_REAL(expm1)
KSPEC_REAL(log)
KSPEC_REAL(log10)
KSPEC_REAL(log1p)
KSPEC_REAL(log2)
KSPEC_REAL(logb)
KSPEC_REAL(cbrt)
KSPEC_REAL(sqrt)
KSPEC_REAL(erf)
KSPEC_REAL(erfc)
KSPEC_REAL(lgamma)
KSPEC_REAL(tgamma)
KSPEC_REAL(ceil)
KSPEC_REAL(floor)
KSPEC_REAL(trunc)
KSPEC_REAL(round)
KSPEC_REAL(nearbyint)
KSPEC_REAL(rint)
KSPEC_REAL(fabs)
KSPEC_OF_TWO(atan2)
KSPEC_OF_TWO(fmod)
KSPEC_OF_TWO(hypot)
KSPEC_OF_TWO(pow)
KSPEC_OF_TWO(remainder)
KSPEC_OF_TWO(copysign)
KSPEC_OF_TWO(nextafter)
KSPEC_OF_TWO(fdim)
KSPEC_OF_TWO(fmax)
KSPEC_OF_TWO(fmin)
KSPEC_OF_ONE(bool, isfinite)
KSPEC_OF_ONE(bool, isinf)
KSPEC_OF_ONE(bool, isnan)
KSPEC_OF_ONE(bool, signbit)
#undef KSPEC_REAL
#undef KSPEC_OF_ONE
#undef KSPEC_OF_TWO
