// NumPy's ufuncs where C++'s operators and CUDA's functions have other results, or none.
//
// Arguments have the dtypes of a loop of NumPy's, which for all but comparisons, ldexp and clip
// means one type; results have the loop's output type. Floats of 8 and 16 bits compute in float
// and round once. Only the types that occur need their headers, in any order.
#pragma once

#include "kspec/floor_divide.cuh"

class float16;
class bfloat16;
template <class Real> class complex;
namespace kspec {
template <class Format> class Float8;
namespace ufunc {

template <class Number> constexpr bool is_integer = true;  // bool among them
template <> constexpr bool is_integer<float> = false;
template <> constexpr bool is_integer<double> = false;
template <> constexpr bool is_integer<float16> = false;
template <> constexpr bool is_integer<bfloat16> = false;
template <class Real> constexpr bool is_integer<complex<Real>> = false;
template <class Format> constexpr bool is_integer<Float8<Format>> = false;

template <class Integer> constexpr bool is_signed = Integer(-1) < Integer(0);
template <> constexpr bool is_signed<bool> = false;

// The type that a number computes in.
template <class Number> struct Working { typedef Number type; };
template <> struct Working<float16> { typedef float type; };
template <> struct Working<bfloat16> { typedef float type; };
template <class Format> struct Working<Float8<Format>> { typedef float type; };
template <class Number> using Work = typename Working<Number>::type;

// Signed overflow is undefined, and compilers use that: x + 1 > x is true for them. Unsigned
// numbers wrap, and what is cut off at the end needs no bits in between.
typedef unsigned long long Wrapping;

template <class Number> __device__ inline Number add(Number left, Number right) {
  if constexpr (is_integer<Number>) return (Number)((Wrapping)left + (Wrapping)right);
  else return left + right;
}
template <class Number> __device__ inline Number subtract(Number left, Number right) {
  if constexpr (is_integer<Number>) return (Number)((Wrapping)left - (Wrapping)right);
  else return left - right;
}
template <class Number> __device__ inline Number multiply(Number left, Number right) {
  if constexpr (is_integer<Number>) return (Number)((Wrapping)left * (Wrapping)right);
  else return left * right;
}
template <class Number> __device__ inline Number negative(Number value) {
  if constexpr (is_integer<Number>) return (Number)(0 - (Wrapping)value);
  else return -value;
}
template <class Number> __device__ inline Number square(Number value) {
  return multiply(value, value);
}

template <class Number> __device__ inline bool is_nan(Number value) {
  return value != value;
}

// Division.

template <class Number> __device__ inline Number floor_divide(Number left, Number right) {
  return (Number)::_floor_divide((Work<Number>)left, (Work<Number>)right);
}

template <class Number> __device__ inline Number fmod(Number left, Number right) {
  if constexpr (is_integer<Number>) {
    if (right == 0) return 0;
    if (is_signed<Number> && right == Number(-1)) return 0;  // INT_MIN % -1 stops a CPU
    return (Number)(left % right);
  } else {
    return ::fmod((Work<Number>)left, (Work<Number>)right);
  }
}

// Has the sign of the divisor.
template <class Number> __device__ inline Number remainder(Number left, Number right) {
  Work<Number> rest = fmod(left, right), divisor = right;
  if constexpr (!is_integer<Number>) {
    if (rest == 0) return copysign(rest, divisor);
  }
  return rest != 0 && (rest < 0) != (divisor < 0) && divisor != 0 ? (Number)(rest + divisor)
                                                                  : (Number)rest;
}

template <class Number> __device__ inline Number reciprocal(Number value) {
  if constexpr (is_integer<Number>) return value == 0 ? Number(0) : (Number)(1 / value);
  else return Work<Number>(1) / (Work<Number>)value;
}
template <class Real> __device__ inline complex<Real> reciprocal(complex<Real> value) {
  Real real = value.real(), imag = value.imag();
  if (fabs(imag) <= fabs(real)) {
    Real ratio = imag / real, scale = real + imag * ratio;
    return complex<Real>(1 / scale, -ratio / scale);
  }
  Real ratio = real / imag, scale = real * ratio + imag;
  return complex<Real>(ratio / scale, -1 / scale);
}

// Powers and logarithms.

// NumPy raises for a negative exponent of an integer; here the power is cut off towards zero.
template <class Number> __device__ inline Number power(Number base, Number exponent) {
  if constexpr (is_integer<Number>) {
    if (exponent < Number(0)) {
      bool odd = exponent & 1;
      return base == 1 || (base == Number(-1) && !odd) ? 1 : base == Number(-1) ? base : 0;
    }
    Wrapping result = 1, factor = (Wrapping)base;
    for (Wrapping rest = (Wrapping)exponent; rest; rest >>= 1, factor *= factor)
      if (rest & 1) result *= factor;
    return (Number)result;
  } else {
    return pow((Work<Number>)base, (Work<Number>)exponent);
  }
}

template <class Real> __device__ inline complex<Real> exp2(complex<Real> value) {
  const Real scale = Real(0.69314718055994530942);
  return exp(complex<Real>(value.real() * scale, value.imag() * scale));
}
template <class Number> __device__ inline Number exp2(Number value) {
  return ::exp2((Work<Number>)value);
}

template <class Number> __device__ inline Number logaddexp(Number left, Number right) {
  typedef Work<Number> Real;
  Real x = left, y = right, apart = x - y;
  if (x == y) return x + Real(0.69314718055994530942);  // infinities too
  return (apart > 0 ? x : y) + log1p(exp(-fabs(apart)));
}
template <class Number> __device__ inline Number logaddexp2(Number left, Number right) {
  typedef Work<Number> Real;
  Real x = left, y = right, apart = x - y;
  if (x == y) return x + Real(1);
  return (apart > 0 ? x : y) + Real(1.4426950408889634074) * log1p(::exp2(-fabs(apart)));
}

template <class Number> __device__ inline Number degrees(Number value) {
  typedef Work<Number> Real;
  return (Real)value * (Real(180) / Real(3.14159265358979323846));
}
template <class Number> __device__ inline Number radians(Number value) {
  typedef Work<Number> Real;
  return (Real)value * (Real(3.14159265358979323846) / Real(180));
}

// x log y and its kin, which are 0 where x is, and the logistic function with its inverse: SciPy's.

template <class Number> __device__ inline Number xlogy(Number value, Number of) {
  Work<Number> x = value, y = of;
  return x == 0 && !is_nan(y) ? Work<Number>(0) : x * log(y);
}
template <class Number> __device__ inline Number xlog1py(Number value, Number of) {
  Work<Number> x = value, y = of;
  return x == 0 && !is_nan(y) ? Work<Number>(0) : x * log1p(y);
}
template <class Number> __device__ inline Number entr(Number value) {
  Work<Number> x = value;
  return x == 0 ? x : x < 0 ? -1 / Work<Number>(0) : -x * log(x);
}
template <class Number> __device__ inline Number expit(Number value) {
  return 1 / (1 + exp(-(Work<Number>)value));
}
template <class Number> __device__ inline Number logit(Number value) {
  Work<Number> x = value;
  return log(x / (1 - x));
}

// Sign and rounding.

template <class Number> __device__ inline Number absolute(Number value) {
  if constexpr (is_integer<Number>) return value < Number(0) ? negative(value) : value;
  else return fabs((Work<Number>)value);
}
template <class Real> __device__ inline Real absolute(complex<Real> value) {
  return hypot(value.real(), value.imag());
}

template <class Number> __device__ inline Number sign(Number value) {
  Work<Number> x = value;
  if constexpr (is_integer<Number>) return (Number)((x > Number(0)) - (x < Number(0)));
  else return is_nan(x) ? x : (Work<Number>)((x > 0) - (x < 0));
}
template <class Real> __device__ inline complex<Real> sign(complex<Real> value) {
  Real real = value.real(), imag = value.imag(), size = hypot(real, imag);
  if (size == 0) return complex<Real>(Real(0));
  if (size - size == 0) return complex<Real>(real / size, imag / size);
  bool along = real - real != 0, across = imag - imag != 0;
  if (is_nan(size) || (along && across)) return complex<Real>(real - real, imag - imag);
  return along ? complex<Real>(sign(real)) : complex<Real>(Real(0), sign(imag));
}

template <class Number> __device__ inline Number heaviside(Number value, Number at_zero) {
  Work<Number> x = value;
  if (x == 0) return at_zero;
  return is_nan(x) ? x : Work<Number>(x > 0);
}

template <class Number> __device__ inline Number floor(Number value) {
  if constexpr (is_integer<Number>) return value;
  else return ::floor((Work<Number>)value);
}
template <class Number> __device__ inline Number ceil(Number value) {
  if constexpr (is_integer<Number>) return value;
  else return ::ceil((Work<Number>)value);
}
template <class Number> __device__ inline Number trunc(Number value) {
  if constexpr (is_integer<Number>) return value;
  else return ::trunc((Work<Number>)value);
}

// Comparisons. Complex numbers are ordered by their real, then by their imaginary parts. A signed
// and an unsigned integer compare by value.

template <class Real> __device__ inline bool before(complex<Real> left, complex<Real> right) {
  return left.real() == right.real() ? left.imag() < right.imag() : left.real() < right.real();
}
template <class Real> __device__ inline bool less(complex<Real> left, complex<Real> right) {
  return before(left, right) && !is_nan(left.imag()) && !is_nan(right.imag());
}
template <class Left, class Right> __device__ inline bool less(Left left, Right right) {
  if constexpr (is_integer<Left> && is_integer<Right>) {
    if (is_signed<Left> && !is_signed<Right> && left < Left(0)) return true;
    if (is_signed<Right> && !is_signed<Left> && right < Right(0)) return false;
  }
  return left < right;  // where only one is signed, it becomes unsigned
}
template <class Real> __device__ inline bool less_equal(complex<Real> left, complex<Real> right) {
  if (left.real() == right.real()) return left.imag() <= right.imag();
  return less(left, right);
}
template <class Left, class Right> __device__ inline bool less_equal(Left left, Right right) {
  if constexpr (is_integer<Left> && is_integer<Right>) return !less(right, left);
  else return left <= right;
}
template <class Left, class Right> __device__ inline bool greater(Left left, Right right) {
  return less(right, left);
}
template <class Left, class Right> __device__ inline bool greater_equal(Left left, Right right) {
  return less_equal(right, left);
}
template <class Left, class Right> __device__ inline bool equal(Left left, Right right) {
  if constexpr (is_integer<Left> && is_integer<Right>)
    return !less(left, right) && !less(right, left);
  else return left == right;
}

template <class Number> __device__ inline bool truth(Number value) {
  return value != Number(0);
}

// The larger, or NaN if there is one.
template <class Real> __device__ inline Real larger(Real left, Real right) {
  return is_nan(left) || left >= right ? left : right;
}
template <class Real> __device__ inline Real smaller(Real left, Real right) {
  return is_nan(left) || left <= right ? left : right;
}
#if !defined(KSPEC_HOST) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
__device__ inline float larger(float left, float right) {
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(left), "f"(right));
  return result;
}
__device__ inline float smaller(float left, float right) {
  float result;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(left), "f"(right));
  return result;
}
#endif

template <class Real> __device__ inline bool is_nan(complex<Real> value) {
  return is_nan(value.real()) || is_nan(value.imag());
}

template <class Number> __device__ inline Number maximum(Number left, Number right) {
  return larger((Work<Number>)left, (Work<Number>)right);
}
template <class Number> __device__ inline Number minimum(Number left, Number right) {
  return smaller((Work<Number>)left, (Work<Number>)right);
}
template <class Real>
__device__ inline complex<Real> maximum(complex<Real> left, complex<Real> right) {
  return is_nan(left) || less_equal(right, left) ? left : right;
}
template <class Real>
__device__ inline complex<Real> minimum(complex<Real> left, complex<Real> right) {
  return is_nan(left) || less_equal(left, right) ? left : right;
}

// The larger of two numbers: NaN gives way.
template <class Number> __device__ inline Number fmax(Number left, Number right) {
  if constexpr (is_integer<Number>) return left < right ? right : left;
  else return ::fmax((Work<Number>)left, (Work<Number>)right);
}
template <class Number> __device__ inline Number fmin(Number left, Number right) {
  if constexpr (is_integer<Number>) return right < left ? right : left;
  else return ::fmin((Work<Number>)left, (Work<Number>)right);
}
template <class Real> __device__ inline complex<Real> fmax(complex<Real> left, complex<Real> right) {
  return is_nan(right) || less_equal(right, left) ? left : right;
}
template <class Real> __device__ inline complex<Real> fmin(complex<Real> left, complex<Real> right) {
  return is_nan(right) || less_equal(left, right) ? left : right;
}

template <class Number> __device__ inline Number clip(Number value, Number low, Number high) {
  return minimum(maximum(value, low), high);
}
// NaN is kept, but in the imaginary part of a bound only where the real parts are equal.
template <class Real>
__device__ inline complex<Real> clip(complex<Real> value, complex<Real> low, complex<Real> high) {
  complex<Real> raised = is_nan(value) || before(low, value) ? value : low;
  return is_nan(raised) || before(raised, high) ? raised : high;
}

// Classes of numbers. An infinity minus itself is NaN.

template <class Number> __device__ inline bool isfinite(Number value) {
  if constexpr (is_integer<Number>) return true;
  else return (Work<Number>)value - (Work<Number>)value == 0;
}
template <class Number> __device__ inline bool isnan(Number value) {
  if constexpr (is_integer<Number>) return false;
  else return is_nan((Work<Number>)value);
}
template <class Real> __device__ inline bool isfinite(complex<Real> value) {
  return isfinite(value.real()) && isfinite(value.imag());
}
template <class Real> __device__ inline bool isnan(complex<Real> value) { return is_nan(value); }
template <class Number> __device__ inline bool isinf(Number value) {
  return !isfinite(value) && !isnan(value);
}
template <class Real> __device__ inline bool isinf(complex<Real> value) {
  return isinf(value.real()) || isinf(value.imag());
}
template <class Number> __device__ inline bool isposinf(Number value) {
  return isinf(value) && value > Number(0);
}
template <class Number> __device__ inline bool isneginf(Number value) {
  return isinf(value) && value < Number(0);
}

template <class Number>
__device__ inline Number nan_to_num(Number value, Number nan, Number positive, Number negative) {
  if (isfinite(value)) return value;
  return isnan(value) ? nan : isposinf(value) ? positive : negative;
}
template <class Real>
__device__ inline complex<Real> nan_to_num(complex<Real> value, Real nan, Real positive,
                                           Real negative) {
  return complex<Real>(nan_to_num(value.real(), nan, positive, negative),
                       nan_to_num(value.imag(), nan, positive, negative));
}

// Parts of numbers.

// The distance to the next number away from zero, less than 0 below it; of float16 upwards.
template <class Number> constexpr bool spaces_upwards = false;
template <> constexpr bool spaces_upwards<float16> = true;
template <class Number> __device__ inline Number spacing(Number value) {
  typedef Work<Number> Real;
  Real x = value, infinity = Real(1) / Real(0);
  if (!isfinite(x)) return x - x;
  return (Real)nextafter(value, Number(x < 0 && !spaces_upwards<Number> ? -infinity : infinity)) - x;
}

// Of 8-bit floats, with the sign of zero; NaN where there is no next number.
template <class Format> __device__ inline Float8<Format> spacing(Float8<Format> value) {
  const unsigned bits = value.to_bits();
  const float x = value, next = Float8<Format>::from_bits((unsigned char)(bits + 1)), zero = 0;
  return bits % 128 == 127 ? zero / zero : next - x;
}

template <class Number, class Integer>
__device__ inline Number ldexp(Number value, Integer exponent) {
  const Integer most = 5000;  // more than any number has
  Integer bounded = exponent > most ? most : exponent < -most ? -most : exponent;
  return ::ldexp((Work<Number>)value, (int)bounded);
}
template <class Number> __device__ inline Number frexp_fraction(Number value) {
  int exponent;
  return isfinite(value) ? frexp((Work<Number>)value, &exponent) : (Work<Number>)value;
}
template <class Number> __device__ inline int frexp_exponent(Number value) {
  int exponent = 0;
  if (isfinite(value)) frexp((Work<Number>)value, &exponent);
  return exponent;
}
template <class Number> __device__ inline Number modf_fraction(Number value) {
  Work<Number> x = value, rest = isinf(value) ? Work<Number>(0) : x - ::trunc(x);
  return copysign(rest, x);
}

template <class Number> __device__ inline Number conjugate(Number value) { return value; }
template <class Real> __device__ inline complex<Real> conjugate(complex<Real> value) {
  return complex<Real>(value.real(), -value.imag());
}
template <class Number> __device__ inline Number real(Number value) { return value; }
template <class Real> __device__ inline Real real(complex<Real> value) { return value.real(); }
template <class Number> __device__ inline Number imag(Number) { return Number(0); }
template <class Real> __device__ inline Real imag(complex<Real> value) { return value.imag(); }
template <class Number> __device__ inline Number angle(Number value) {
  return atan2(Work<Number>(0), (Work<Number>)value);
}
template <class Real> __device__ inline Real angle(complex<Real> value) {
  return atan2(value.imag(), value.real());
}

// Bits and divisors of integers.

template <class Integer> __device__ inline Integer invert(Integer value) {
  return (Integer)~value;
}
__device__ inline bool invert(bool value) { return !value; }

// By as many bits as there are, or more, or less than none: nothing is left but the sign.
template <class Integer> __device__ inline Integer left_shift(Integer value, Integer bits) {
  return (Wrapping)bits < 8 * sizeof(Integer) ? (Integer)((Wrapping)value << bits) : Integer(0);
}
template <class Integer> __device__ inline Integer right_shift(Integer value, Integer bits) {
  if ((Wrapping)bits < 8 * sizeof(Integer)) return (Integer)(value >> bits);
  return value < Integer(0) ? Integer(-1) : Integer(0);
}

template <class Integer> __device__ inline Wrapping magnitude(Integer value) {
  return value < Integer(0) ? 0 - (Wrapping)value : (Wrapping)value;
}
template <class Integer> __device__ inline unsigned char bitwise_count(Integer value) {
  return (unsigned char)(sizeof(Integer) > 4 ? __popcll(magnitude(value))
                                             : __popc((unsigned)magnitude(value)));
}
template <class Integer> __device__ inline Integer gcd(Integer left, Integer right) {
  Wrapping large = magnitude(left), small = magnitude(right);
  while (small) {
    Wrapping rest = sizeof(Integer) > 4 ? large % small : (unsigned)large % (unsigned)small;
    large = small;
    small = rest;
  }
  return (Integer)large;
}
template <class Integer> __device__ inline Integer lcm(Integer left, Integer right) {
  Wrapping divisor = magnitude(gcd(left, right));
  return divisor ? (Integer)(magnitude(left) / divisor * magnitude(right)) : Integer(0);
}

}  // namespace ufunc
}  // namespace kspec
