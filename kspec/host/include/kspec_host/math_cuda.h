// Mathematical functions that CUDA adds to C's, the fast intrinsics, and min/max.
#pragma once

// glibc's <math.h> declares functions with these very names.
#if KSPEC_HOST_STD
#define __sinf kspec_host_sinf
#define __cosf kspec_host_cosf
#define __tanf kspec_host_tanf
#define __tanhf kspec_host_tanhf
#define __expf kspec_host_expf
#define __exp10f kspec_host_exp10f
#define __logf kspec_host_logf
#define __log2f kspec_host_log2f
#define __log10f kspec_host_log10f
#define __powf kspec_host_powf
#define __sincosf kspec_host_sincosf
#endif

// Define NAME and NAMEf from one expression in double; float rounds once.
#define KSPEC_FUNCTION(NAME, EXPRESSION)                                        \
  static inline double NAME(double x) { return EXPRESSION; }                    \
  static inline float NAME##f(float value) { return (float)NAME((double)value); } \
  static inline float NAME(float value) { return NAME##f(value); }

namespace kspec_host {

// sin(pi x), exact at integers and half integers: the argument is reduced before the multiply.
static inline double sine_of_pi(double x) {
  double r = x - 2.0 * floor(x * 0.5), sign = 1.0;  // [0, 2)
  if (r >= 1.0) r -= 1.0, sign = -1.0;
  if (r > 0.5) r = 1.0 - r;
  return r == 0.0 ? sign * 0.0 : sign * sin(3.14159265358979323846 * r);
}

static inline double cosine_of_pi(double x) {
  double r = fabs(x);
  r -= 2.0 * floor(r * 0.5);       // [0, 2), even in x
  if (r > 1.0) r = 2.0 - r;        // [0, 1]
  return r <= 0.25 ? cos(3.14159265358979323846 * r) : sin(3.14159265358979323846 * (0.5 - r));
}

// Inverse error function: Giles' approximation (2012), then Newton steps on erf or erfc.
static inline double inverse_erf(double x) {
  if (!(x > -1.0 && x < 1.0)) {
    if (x == 1.0) return __builtin_inf();
    return x == -1.0 ? -__builtin_inf() : __builtin_nan("");
  }
  double w = -log((1.0 - x) * (1.0 + x)), y;
  if (w < 5.0) {
    w -= 2.5;
    y = 1.50140941 + w * (0.246640727 + w * (-0.00417768164 + w * (-0.00125372503 +
        w * (0.00021858087 + w * (-4.39150654e-06 + w * (-3.5233877e-06 +
        w * (3.43273939e-07 + w * 2.81022636e-08)))))));
  } else {
    w = sqrt(w) - 3.0;
    y = 2.83297682 + w * (1.00167406 + w * (0.00943887047 + w * (-0.0076224613 +
        w * (0.00573950773 + w * (-0.00367342844 + w * (0.00134934322 +
        w * (0.000100950558 + w * -0.000200214257)))))));
  }
  y *= x;
  for (int i = 0; i < 2; i++) {
    // erfc keeps the digits that erf loses near 1.
    double error = x > 0.5 ? (1.0 - x) - erfc(y) : x < -0.5 ? erfc(-y) - (1.0 + x) : erf(y) - x;
    y -= error / (1.12837916709551257390 * exp(-y * y));
  }
  return y;
}

// Inverse of erfc, also for arguments so small that 1 - x is 1.
static inline double inverse_erfc(double x) {
  if (x > 0.0625 && x < 2.0) return x < 1.9375 ? inverse_erf(1.0 - x) : -inverse_erfc(2.0 - x);
  if (!(x > 0.0 && x < 2.0)) {
    if (x == 0.0) return __builtin_inf();
    return x == 2.0 ? -__builtin_inf() : __builtin_nan("");
  }
  double w = sqrt(-log(x)), y = w;  // leading term; Newton on log(erfc) converges from here
  for (int i = 0; i < 8; i++) {
    double value = erfc(y);
    if (value == 0.0) {
      y *= 0.98;
      continue;
    }
    double slope = -1.12837916709551257390 * exp(-y * y) / value;
    y -= (log(value) - log(x)) / slope;
  }
  return y;
}

static inline double scaled_erfc(double x) {
  if (x < 25.0) return exp(x * x) * erfc(x);
  double t = 1.0 / (2.0 * x * x);  // asymptotic series
  return 0.56418958354775628695 / x * (1.0 - t * (1.0 - 3.0 * t * (1.0 - 5.0 * t)));
}

// Modified Bessel functions of the first kind by their power series, order 0 or 1; for large
// arguments by the asymptotic expansion (Abramowitz & Stegun 9.6.10 and 9.7.1).
static inline double modified_bessel(int order, double x) {
  double size = fabs(x), sign = order && x < 0 ? -1.0 : 1.0;
  double mu = 4.0 * order, term = 1.0, sum = 1.0;
  if (size > 30.0) {
    for (int k = 1; k < 30; k++) {
      term *= -(mu - (2.0 * k - 1) * (2.0 * k - 1)) / (k * 8.0 * size);
      sum += term;
    }
    return sign * exp(size) / sqrt(6.28318530717958647692 * size) * sum;
  }
  double quarter = size * size / 4.0;
  for (int k = 1; k < 200 && term > sum * 1e-18; k++) {
    term *= quarter / ((double)k * (k + order));
    sum += term;
  }
  return sign * sum * (order ? size / 2.0 : 1.0);
}

}  // namespace kspec_host

static inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
static inline double rsqrt(double x) { return 1.0 / sqrt(x); }
static inline float rsqrt(float x) { return rsqrtf(x); }
KSPEC_FUNCTION(rcbrt, 1.0 / cbrt(x))
KSPEC_FUNCTION(sinpi, kspec_host::sine_of_pi(x))
KSPEC_FUNCTION(cospi, kspec_host::cosine_of_pi(x))
KSPEC_FUNCTION(erfinv, kspec_host::inverse_erf(x))
KSPEC_FUNCTION(erfcinv, kspec_host::inverse_erfc(x))
KSPEC_FUNCTION(erfcx, kspec_host::scaled_erfc(x))
KSPEC_FUNCTION(normcdf, 0.5 * erfc(-x * 0.70710678118654752440))
KSPEC_FUNCTION(normcdfinv, -1.41421356237309504880 * kspec_host::inverse_erfc(2.0 * x))
KSPEC_FUNCTION(cyl_bessel_i0, kspec_host::modified_bessel(0, x))
KSPEC_FUNCTION(cyl_bessel_i1, kspec_host::modified_bessel(1, x))
#undef KSPEC_FUNCTION

static inline void sincospi(double x, double* s, double* c) { *s = sinpi(x), *c = cospi(x); }
static inline void sincospif(float x, float* s, float* c) { *s = sinpif(x), *c = cospif(x); }
static inline void sincospi(float x, float* s, float* c) { sincospif(x, s, c); }
static inline double rhypot(double x, double y) { return 1.0 / hypot(x, y); }
static inline float rhypotf(float x, float y) { return 1.0f / hypotf(x, y); }
static inline double norm3d(double a, double b, double c) { return sqrt(a * a + b * b + c * c); }
static inline float norm3df(float a, float b, float c) { return (float)norm3d(a, b, c); }
static inline double rnorm3d(double a, double b, double c) { return 1.0 / norm3d(a, b, c); }
static inline float rnorm3df(float a, float b, float c) { return (float)rnorm3d(a, b, c); }
static inline double norm4d(double a, double b, double c, double d) {
  return sqrt(a * a + b * b + c * c + d * d);
}
static inline float norm4df(float a, float b, float c, float d) {
  return (float)norm4d(a, b, c, d);
}
static inline double rnorm4d(double a, double b, double c, double d) {
  return 1.0 / norm4d(a, b, c, d);
}
static inline float rnorm4df(float a, float b, float c, float d) {
  return (float)rnorm4d(a, b, c, d);
}
static inline double norm(int count, const double* x) {
  double sum = 0;
  for (int i = 0; i < count; i++) sum += x[i] * x[i];
  return sqrt(sum);
}
static inline float normf(int count, const float* x) {
  double sum = 0;
  for (int i = 0; i < count; i++) sum += (double)x[i] * x[i];
  return (float)sqrt(sum);
}
static inline double rnorm(int count, const double* x) { return 1.0 / norm(count, x); }
static inline float rnormf(int count, const float* x) { return 1.0f / normf(count, x); }
static inline float fdividef(float x, float y) { return x / y; }

// Fast intrinsics are as exact as the functions they approximate.
static inline float __sinf(float x) { return sinf(x); }
static inline float __cosf(float x) { return cosf(x); }
static inline float __tanf(float x) { return tanf(x); }
static inline float __tanhf(float x) { return tanhf(x); }
static inline void __sincosf(float x, float* s, float* c) { *s = sinf(x), *c = cosf(x); }
static inline float __expf(float x) { return expf(x); }
static inline float __exp10f(float x) { return exp10f(x); }
static inline float __logf(float x) { return logf(x); }
static inline float __log2f(float x) { return log2f(x); }
static inline float __log10f(float x) { return log10f(x); }
static inline float __powf(float x, float y) { return powf(x, y); }
static inline float __fdividef(float x, float y) { return x / y; }
static inline float __saturatef(float x) { return x >= 1.0f ? 1.0f : x > 0.0f ? x : 0.0f; }
static inline float __frsqrt_rn(float x) { return (float)(1.0 / sqrt((double)x)); }

// CUDA's overloads of min and max, mixed signs included, and no others: min(size_t, int) is
// ambiguous there as well. Inlined into functions that are not instrumented, too.
#define KSPEC_SMALL static inline __attribute__((always_inline))
#define KSPEC_MIN_MAX(T)                                         \
  KSPEC_SMALL T min(T a, T b) { return b < a ? b : a; }        \
  KSPEC_SMALL T max(T a, T b) { return a < b ? b : a; }
KSPEC_MIN_MAX(int)
KSPEC_MIN_MAX(unsigned int)
KSPEC_MIN_MAX(long)
KSPEC_MIN_MAX(unsigned long)
KSPEC_MIN_MAX(long long)
KSPEC_MIN_MAX(unsigned long long)
#undef KSPEC_MIN_MAX
KSPEC_SMALL float min(float a, float b) { return fminf(a, b); }
KSPEC_SMALL float max(float a, float b) { return fmaxf(a, b); }
KSPEC_SMALL double min(double a, double b) { return fmin(a, b); }
KSPEC_SMALL double max(double a, double b) { return fmax(a, b); }
#define KSPEC_MIN_MAX(A, B, R)                                          \
  KSPEC_SMALL R min(A a, B b) { return min((R)a, (R)b); }             \
  KSPEC_SMALL R min(B a, A b) { return min((R)a, (R)b); }             \
  KSPEC_SMALL R max(A a, B b) { return max((R)a, (R)b); }             \
  KSPEC_SMALL R max(B a, A b) { return max((R)a, (R)b); }
KSPEC_MIN_MAX(int, unsigned int, unsigned int)
KSPEC_MIN_MAX(long, unsigned long, unsigned long)
KSPEC_MIN_MAX(long long, unsigned long long, unsigned long long)
KSPEC_MIN_MAX(float, double, double)
#undef KSPEC_MIN_MAX
#undef KSPEC_SMALL
static inline unsigned int umin(unsigned int a, unsigned int b) { return min(a, b); }
static inline unsigned int umax(unsigned int a, unsigned int b) { return max(a, b); }
static inline long long llmin(long long a, long long b) { return min(a, b); }
static inline long long llmax(long long a, long long b) { return max(a, b); }
static inline unsigned long long ullmin(unsigned long long a, unsigned long long b) {
  return min(a, b);
}
static inline unsigned long long ullmax(unsigned long long a, unsigned long long b) {
  return max(a, b);
}
