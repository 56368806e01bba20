// C's mathematical functions for float and double, without <math.h>, and like NVRTC without its
// macros (INFINITY, M_PI): include <math_constants.h> or a standard header for those.
//
// With KSPEC_HOST_STD the standard headers declare all of this. Results are those of the C library
// of this machine; CUDA documents an error of 1 to 2 ulp for most functions, so they differ.
#pragma once

#if defined(__linux__)
#define KSPEC_NOEXCEPT noexcept(true)
#else
#define KSPEC_NOEXCEPT
#endif

#define KSPEC_UNARY_FUNCTIONS(X)                                                           \
  X(sin) X(cos) X(tan) X(asin) X(acos) X(atan) X(sinh) X(cosh) X(tanh) X(asinh) X(acosh)   \
  X(atanh) X(exp) X(exp2) X(expm1) X(log) X(log2) X(log10) X(log1p) X(sqrt) X(cbrt)        \
  X(ceil) X(floor) X(trunc) X(round) X(rint) X(nearbyint) X(erf) X(erfc) X(tgamma)         \
  X(lgamma) X(fabs) X(logb)
#define KSPEC_BINARY_FUNCTIONS(X)                                                          \
  X(pow) X(atan2) X(fmod) X(remainder) X(hypot) X(fmin) X(fmax) X(fdim) X(copysign)        \
  X(nextafter)

#if !KSPEC_HOST_STD

extern "C" {
#define KSPEC_DECLARE(NAME) \
  double NAME(double) KSPEC_NOEXCEPT; \
  float NAME##f(float) KSPEC_NOEXCEPT;
KSPEC_UNARY_FUNCTIONS(KSPEC_DECLARE)
KSPEC_DECLARE(j0)
KSPEC_DECLARE(j1)
KSPEC_DECLARE(y0)
KSPEC_DECLARE(y1)
#undef KSPEC_DECLARE
#define KSPEC_DECLARE(NAME) \
  double NAME(double, double) KSPEC_NOEXCEPT; \
  float NAME##f(float, float) KSPEC_NOEXCEPT;
KSPEC_BINARY_FUNCTIONS(KSPEC_DECLARE)
#undef KSPEC_DECLARE
double fma(double, double, double) KSPEC_NOEXCEPT;
float fmaf(float, float, float) KSPEC_NOEXCEPT;
double ldexp(double, int) KSPEC_NOEXCEPT;
float ldexpf(float, int) KSPEC_NOEXCEPT;
double frexp(double, int*) KSPEC_NOEXCEPT;
float frexpf(float, int*) KSPEC_NOEXCEPT;
double modf(double, double*) KSPEC_NOEXCEPT;
float modff(float, float*) KSPEC_NOEXCEPT;
double remquo(double, double, int*) KSPEC_NOEXCEPT;
float remquof(float, float, int*) KSPEC_NOEXCEPT;
double jn(int, double) KSPEC_NOEXCEPT;
float jnf(int, float) KSPEC_NOEXCEPT;
double yn(int, double) KSPEC_NOEXCEPT;
float ynf(int, float) KSPEC_NOEXCEPT;
double scalbn(double, int) KSPEC_NOEXCEPT;
float scalbnf(float, int) KSPEC_NOEXCEPT;
double scalbln(double, long) KSPEC_NOEXCEPT;
float scalblnf(float, long) KSPEC_NOEXCEPT;
int ilogb(double) KSPEC_NOEXCEPT;
int ilogbf(float) KSPEC_NOEXCEPT;
long lrint(double) KSPEC_NOEXCEPT;
long lrintf(float) KSPEC_NOEXCEPT;
long lround(double) KSPEC_NOEXCEPT;
long lroundf(float) KSPEC_NOEXCEPT;
long long llrint(double) KSPEC_NOEXCEPT;
long long llrintf(float) KSPEC_NOEXCEPT;
long long llround(double) KSPEC_NOEXCEPT;
long long llroundf(float) KSPEC_NOEXCEPT;
int abs(int) KSPEC_NOEXCEPT;
long labs(long) KSPEC_NOEXCEPT;
long long llabs(long long) KSPEC_NOEXCEPT;
void* memcpy(void*, const void*, size_t) KSPEC_NOEXCEPT;
void* memmove(void*, const void*, size_t) KSPEC_NOEXCEPT;
void* memset(void*, int, size_t) KSPEC_NOEXCEPT;
void* malloc(size_t) KSPEC_NOEXCEPT;
void free(void*) KSPEC_NOEXCEPT;
}

// One overload for float beside C's for double, and no others: as for NVRTC, sqrt(2) is ambiguous.
#define KSPEC_OVERLOAD(NAME) \
  static inline float NAME(float x) { return NAME##f(x); }
KSPEC_UNARY_FUNCTIONS(KSPEC_OVERLOAD)
#undef KSPEC_OVERLOAD
#define KSPEC_OVERLOAD(NAME) \
  static inline float NAME(float x, float y) { return NAME##f(x, y); }
KSPEC_BINARY_FUNCTIONS(KSPEC_OVERLOAD)
#undef KSPEC_OVERLOAD

static inline float fma(float a, float b, float c) { return fmaf(a, b, c); }
static inline float ldexp(float x, int n) { return ldexpf(x, n); }
static inline float frexp(float x, int* n) { return frexpf(x, n); }
static inline float modf(float x, float* whole) { return modff(x, whole); }
static inline float remquo(float x, float y, int* n) { return remquof(x, y, n); }
static inline float scalbn(float x, int n) { return scalbnf(x, n); }
static inline float scalbln(float x, long n) { return scalblnf(x, n); }
static inline int ilogb(float x) { return ilogbf(x); }
static inline long lrint(float x) { return lrintf(x); }
static inline long lround(float x) { return lroundf(x); }
static inline long long llrint(float x) { return llrintf(x); }
static inline long long llround(float x) { return llroundf(x); }
static inline float abs(float x) { return fabsf(x); }
static inline double abs(double x) { return fabs(x); }
static inline long abs(long x) { return labs(x); }
static inline long long abs(long long x) { return llabs(x); }

#define KSPEC_CLASSIFY(NAME, BUILTIN)                          \
  static inline bool NAME(float x) { return BUILTIN(x) != 0; } \
  static inline bool NAME(double x) { return BUILTIN(x) != 0; }
KSPEC_CLASSIFY(isnan, __builtin_isnan)
KSPEC_CLASSIFY(isinf, __builtin_isinf_sign)
KSPEC_CLASSIFY(isfinite, __builtin_isfinite)
KSPEC_CLASSIFY(signbit, __builtin_signbit)
#undef KSPEC_CLASSIFY

static inline float nanf(const char*) { return __builtin_nanf(""); }
static inline double nan(const char*) { return __builtin_nan(""); }
static inline void sincos(double x, double* s, double* c) { *s = sin(x), *c = cos(x); }
static inline void sincosf(float x, float* s, float* c) { *s = sinf(x), *c = cosf(x); }
static inline double exp10(double x) { return pow(10.0, x); }
static inline float exp10f(float x) { return powf(10.0f, x); }

#elif !defined(__GLIBC__)  // headers without the GNU extensions

static inline void sincos(double x, double* s, double* c) { *s = sin(x), *c = cos(x); }
static inline void sincosf(float x, float* s, float* c) { *s = sinf(x), *c = cosf(x); }
static inline double exp10(double x) { return pow(10.0, x); }
static inline float exp10f(float x) { return powf(10.0f, x); }

#endif

static inline void sincos(float x, float* s, float* c) { sincosf(x, s, c); }
static inline float exp10(float x) { return exp10f(x); }

#undef KSPEC_NOEXCEPT
#undef KSPEC_UNARY_FUNCTIONS
#undef KSPEC_BINARY_FUNCTIONS
