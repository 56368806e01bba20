// complex<float> and complex<double>, with the functions CuPy's kernels have.
//
// Plain C++17: no CUDA header, so compiling stays at a few milliseconds. Infinities, NaN and
// signed zeros follow C99 Annex G; division is Smith's, as in NumPy. Formulas of the inverse
// functions: W. Kahan, "Branch cuts for complex elementary functions" (1987).
#pragma once

template <class Real> class complex;

namespace kspec {

// The type of an operation between a complex number's parts and something else: double if either
// is, otherwise that of the complex number. No member for what does not convert to Real.
template <class Value> __device__ Value value_of();  // never called, only asked for its type
template <class Real, class Other, class = decltype(Real(value_of<Other>()))> struct Promoted {
  typedef Real type;
};
template <> struct Promoted<float, double> { typedef double type; };
template <class Real, class Other> using Promote = typename Promoted<Real, Other>::type;

template <class Real> struct Limits;
template <> struct Limits<float> {
  static constexpr float overflow_exp = 88.0f, saturated_tanh = 11.0f, huge = 1e18f, tiny = 1e-18f;
  static constexpr float largest = 3.40282347e+38f;
};
template <> struct Limits<double> {
  static constexpr double overflow_exp = 709.0, saturated_tanh = 22.0, huge = 1e150, tiny = 1e-150;
  static constexpr double largest = 1.7976931348623157e+308;
};

}  // namespace kspec

template <class Real> class alignas(2 * sizeof(Real)) complex {
  Real real_, imag_;

 public:
  typedef Real value_type;

  complex() = default;
  __device__ inline complex(Real real, Real imag = Real(0)) : real_(real), imag_(imag) {}
  template <class Other>
  __device__ inline complex(const complex<Other>& other)
      : real_((Real)other.real()), imag_((Real)other.imag()) {}

  __device__ inline Real real() const { return real_; }
  __device__ inline Real imag() const { return imag_; }
  __device__ inline void real(Real value) { real_ = value; }
  __device__ inline void imag(Real value) { imag_ = value; }

  template <class Other, class = kspec::Promote<Real, Other>>
  __device__ inline complex& operator=(Other value) {
    return *this = complex((Real)value);
  }
  template <class Other> __device__ inline complex& operator+=(Other other) {
    return *this = complex(*this + other);
  }
  template <class Other> __device__ inline complex& operator-=(Other other) {
    return *this = complex(*this - other);
  }
  template <class Other> __device__ inline complex& operator*=(Other other) {
    return *this = complex(*this * other);
  }
  template <class Other> __device__ inline complex& operator/=(Other other) {
    return *this = complex(*this / other);
  }
};

// Parts.
template <class Real> __device__ inline Real real(const complex<Real>& z) { return z.real(); }
template <class Real> __device__ inline Real imag(const complex<Real>& z) { return z.imag(); }
template <class Real> __device__ inline Real abs(const complex<Real>& z) {
  return hypot(z.real(), z.imag());
}
template <class Real> __device__ inline Real arg(const complex<Real>& z) {
  return atan2(z.imag(), z.real());
}
template <class Real> __device__ inline Real norm(const complex<Real>& z) {
  return z.real() * z.real() + z.imag() * z.imag();
}
template <class Real> __device__ inline complex<Real> conj(const complex<Real>& z) {
  return complex<Real>(z.real(), -z.imag());
}
template <class Real> __device__ inline complex<Real> polar(Real size, Real angle = Real(0)) {
  return complex<Real>(size * cos(angle), size * sin(angle));
}

// Arithmetic.
template <class Real> __device__ inline complex<Real> operator+(const complex<Real>& z) {
  return z;
}
template <class Real> __device__ inline complex<Real> operator-(const complex<Real>& z) {
  return complex<Real>(-z.real(), -z.imag());
}

namespace kspec {

template <class Real>
__device__ inline complex<Real> product(const complex<Real>& z, const complex<Real>& w) {
  return complex<Real>(z.real() * w.real() - z.imag() * w.imag(),
                       z.real() * w.imag() + z.imag() * w.real());
}

// Smith's algorithm: no overflow of |w|^2.
template <class Real>
__device__ inline complex<Real> quotient(const complex<Real>& z, const complex<Real>& w) {
  Real size_real = fabs(w.real()), size_imag = fabs(w.imag());
  if (size_real >= size_imag) {
    if (size_real == 0 && size_imag == 0)
      return complex<Real>(z.real() / size_real, z.imag() / size_real);
    Real ratio = w.imag() / w.real(), scale = Real(1) / (w.real() + w.imag() * ratio);
    return complex<Real>((z.real() + z.imag() * ratio) * scale,
                         (z.imag() - z.real() * ratio) * scale);
  }
  Real ratio = w.real() / w.imag(), scale = Real(1) / (w.imag() + w.real() * ratio);
  return complex<Real>((z.real() * ratio + z.imag()) * scale,
                       (z.imag() * ratio - z.real()) * scale);
}

}  // namespace kspec

// Each operator for two complex numbers, complex and scalar, scalar and complex.
#define KSPEC_COMPLEX_OPERATOR(OPERATOR, BOTH, LEFT, RIGHT)                               \
  template <class Real, class Other, class Result = kspec::Promote<Real, Other>>          \
  __device__ inline complex<Result> operator OPERATOR(const complex<Real>& left,          \
                                                      const complex<Other>& right) {      \
    complex<Result> z(left), w(right);                                                    \
    return BOTH;                                                                          \
  }                                                                                       \
  template <class Real, class Other, class Result = kspec::Promote<Real, Other>>          \
  __device__ inline complex<Result> operator OPERATOR(const complex<Real>& left,          \
                                                      Other right) {                      \
    complex<Result> z(left);                                                              \
    Result w = (Result)right;                                                             \
    return RIGHT;                                                                         \
  }                                                                                       \
  template <class Real, class Other, class Result = kspec::Promote<Real, Other>>          \
  __device__ inline complex<Result> operator OPERATOR(Other left,                         \
                                                      const complex<Real>& right) {       \
    Result z = (Result)left;                                                              \
    complex<Result> w(right);                                                             \
    return LEFT;                                                                          \
  }
KSPEC_COMPLEX_OPERATOR(+, complex<Result>(z.real() + w.real(), z.imag() + w.imag()),
                       complex<Result>(z + w.real(), w.imag()),
                       complex<Result>(z.real() + w, z.imag()))
KSPEC_COMPLEX_OPERATOR(-, complex<Result>(z.real() - w.real(), z.imag() - w.imag()),
                       complex<Result>(z - w.real(), -w.imag()),
                       complex<Result>(z.real() - w, z.imag()))
KSPEC_COMPLEX_OPERATOR(*, kspec::product(z, w), complex<Result>(z * w.real(), z * w.imag()),
                       complex<Result>(z.real() * w, z.imag() * w))
KSPEC_COMPLEX_OPERATOR(/, kspec::quotient(z, w), kspec::quotient(complex<Result>(z), w),
                       complex<Result>(z.real() / w, z.imag() / w))
#undef KSPEC_COMPLEX_OPERATOR

template <class Real, class Other, class Result = kspec::Promote<Real, Other>>
__device__ inline bool operator==(const complex<Real>& z, const complex<Other>& w) {
  return z.real() == w.real() && z.imag() == w.imag();
}
template <class Real, class Other, class Result = kspec::Promote<Real, Other>>
__device__ inline bool operator==(const complex<Real>& z, Other w) {
  return z.real() == (Result)w && z.imag() == 0;
}
template <class Real, class Other, class Result = kspec::Promote<Real, Other>>
__device__ inline bool operator==(Other z, const complex<Real>& w) {
  return w == z;
}
template <class Real, class Other, class Result = kspec::Promote<Real, Other>>
__device__ inline bool operator!=(const complex<Real>& z, const complex<Other>& w) {
  return !(z == w);
}
template <class Real, class Other, class Result = kspec::Promote<Real, Other>>
__device__ inline bool operator!=(const complex<Real>& z, Other w) {
  return !(z == w);
}
template <class Real, class Other, class Result = kspec::Promote<Real, Other>>
__device__ inline bool operator!=(Other z, const complex<Real>& w) {
  return !(w == z);
}
// By real, then imaginary part, as NumPy and CuPy order them; STRICT decides where real parts differ.
#define KSPEC_COMPLEX_ORDER(OPERATOR, STRICT)                                             \
  template <class Real, class Other, class Result = kspec::Promote<Real, Other>>          \
  __device__ inline bool operator OPERATOR(const complex<Real>& z, const complex<Other>& w) { \
    return z.real() == w.real() ? z.imag() OPERATOR w.imag() : z.real() STRICT w.real();  \
  }                                                                                       \
  template <class Real, class Other, class Result = kspec::Promote<Real, Other>>          \
  __device__ inline bool operator OPERATOR(const complex<Real>& z, Other w) {             \
    return z OPERATOR complex<Result>((Result)w);                                         \
  }                                                                                       \
  template <class Real, class Other, class Result = kspec::Promote<Real, Other>>          \
  __device__ inline bool operator OPERATOR(Other z, const complex<Real>& w) {             \
    return complex<Result>((Result)z) OPERATOR w;                                         \
  }
KSPEC_COMPLEX_ORDER(<, <)
KSPEC_COMPLEX_ORDER(>, >)
KSPEC_COMPLEX_ORDER(<=, <)
KSPEC_COMPLEX_ORDER(>=, >)
#undef KSPEC_COMPLEX_ORDER

// Classification, rounding, order.
template <class Real> __device__ inline bool isnan(const complex<Real>& z) {
  return isnan(z.real()) || isnan(z.imag());
}
template <class Real> __device__ inline bool isinf(const complex<Real>& z) {
  return isinf(z.real()) || isinf(z.imag());
}
template <class Real> __device__ inline bool isfinite(const complex<Real>& z) {
  return isfinite(z.real()) && isfinite(z.imag());
}
template <class Real> __device__ inline complex<Real> rint(const complex<Real>& z) {
  return complex<Real>(rint(z.real()), rint(z.imag()));
}
// By real, then imaginary part; NaN gives way to a number.
template <class Real>
__device__ inline complex<Real> min(const complex<Real>& z, const complex<Real>& w) {
  if (isnan(z)) return w;
  bool first = z.real() == w.real() ? z.imag() <= w.imag() : z.real() < w.real();
  return isnan(w) || first ? z : w;
}
template <class Real>
__device__ inline complex<Real> max(const complex<Real>& z, const complex<Real>& w) {
  if (isnan(z)) return w;
  bool first = z.real() == w.real() ? z.imag() >= w.imag() : z.real() > w.real();
  return isnan(w) || first ? z : w;
}

#include "kspec/complex_math.cuh"
