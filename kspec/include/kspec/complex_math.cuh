// Transcendental functions of complex numbers; included by kspec/complex.cuh.
#pragma once

namespace kspec {

// z * i and z / i without arithmetic: sines are hyperbolic sines turned by 90 degrees.
template <class Real> __device__ inline complex<Real> times_i(const complex<Real>& z) {
  return complex<Real>(-z.imag(), z.real());
}
template <class Real> __device__ inline complex<Real> over_i(const complex<Real>& z) {
  return complex<Real>(z.imag(), -z.real());
}

template <class Real> __device__ inline Real half_pi() { return Real(1.5707963267948966); }

// left * left + right * right + first + second without the error of cancellation: the products'
// rounding errors and those of the sums are added at the end (Dekker, Knuth).
template <class Real>
__device__ inline Real sum_of_squares(Real first, Real left, Real right) {
  Real left_square = left * left, left_error = fma(left, left, -left_square);
  Real right_square = right * right, right_error = fma(right, right, -right_square);
  Real sum = first + left_square, back = sum - first;
  Real error = (first - (sum - back)) + (left_square - back);
  Real total = sum + right_square;
  back = total - sum;
  error += (sum - (total - back)) + (right_square - back);
  return total + (error + (left_error + right_error));
}

// exp(exponent) * factor where exp alone would overflow.
template <class Real> __device__ inline Real scaled_exp(Real exponent, Real factor) {
  if (exponent < Limits<Real>::overflow_exp) return exp(exponent) * factor;
  Real root = exp(exponent * Real(0.5));
  return root * factor * root;
}

template <class Real> __device__ inline complex<Real> integer_power(complex<Real> z, int count) {
  complex<Real> result(Real(1));
  for (int rest = count < 0 ? -count : count; rest; rest >>= 1) {
    if (rest & 1) result = product(result, z);
    if (rest > 1) z = product(z, z);
  }
  return count < 0 ? quotient(complex<Real>(Real(1)), result) : result;
}

}  // namespace kspec

template <class Real> __device__ inline complex<Real> exp(const complex<Real>& z) {
  Real x = z.real(), y = z.imag();
  if (y == 0) return complex<Real>(exp(x), y);
  if (x == 0 && isfinite(y)) return complex<Real>(cos(y), sin(y));
  if (!isfinite(y)) {
    if (isinf(x))
      return x < 0 ? complex<Real>(Real(0), copysign(Real(0), y)) : complex<Real>(x, y - y);
    return complex<Real>(y - y, y - y);
  }
  if (isinf(x) && x < 0)
    return complex<Real>(copysign(Real(0), cos(y)), copysign(Real(0), sin(y)));
  return complex<Real>(kspec::scaled_exp(x, cos(y)), kspec::scaled_exp(x, sin(y)));
}

template <class Real> __device__ inline complex<Real> log(const complex<Real>& z) {
  Real large = fabs(z.real()), small = fabs(z.imag()), angle = arg(z);
  if (large < small) {
    Real swapped = large;
    large = small;
    small = swapped;
  }
  if (large > Real(0.5) && large < Real(2) && small < Real(2))
    return complex<Real>(log1p(kspec::sum_of_squares(Real(-1), large, small)) * Real(0.5), angle);
  if (large > kspec::Limits<Real>::huge && isfinite(large)) {
    Real size = hypot(large * Real(0.5), small * Real(0.5));
    return complex<Real>(log(size) + Real(0.69314718055994530942), angle);
  }
  return complex<Real>(log(hypot(large, small)), angle);
}

template <class Real> __device__ inline complex<Real> log10(const complex<Real>& z) {
  complex<Real> result = log(z);
  const Real scale = Real(0.43429448190325182765);
  return complex<Real>(result.real() * scale, result.imag() * scale);
}

template <class Real> __device__ inline complex<Real> log2(const complex<Real>& z) {
  complex<Real> result = log(z);
  const Real scale = Real(1.4426950408889634074);
  return complex<Real>(result.real() * scale, result.imag() * scale);
}

// |1 + z|^2 - 1 = 2x + x^2 + y^2
template <class Real> __device__ inline complex<Real> log1p(const complex<Real>& z) {
  Real x = z.real(), y = z.imag();
  if (!(fabs(x) < Real(1e6) && fabs(y) < Real(1e6)))
    return log(complex<Real>(Real(1) + x, y));
  Real excess = kspec::sum_of_squares(x + x, x, y);
  if (excess < Real(-0.5)) return log(complex<Real>(Real(1) + x, y));  // the sum is exact here
  return complex<Real>(log1p(excess) * Real(0.5), atan2(y, Real(1) + x));
}

template <class Real> __device__ inline complex<Real> expm1(const complex<Real>& z) {
  Real half = sin(z.imag() * Real(0.5));
  return complex<Real>(expm1(z.real()) * cos(z.imag()) - Real(2) * half * half,
                       z.imag() == 0 ? z.imag() : exp(z.real()) * sin(z.imag()));
}

template <class Real> __device__ inline complex<Real> sqrt(const complex<Real>& z) {
  Real x = z.real(), y = z.imag();
  if (x == 0 && y == 0) return complex<Real>(Real(0), y);
  if (isinf(y)) return complex<Real>(fabs(y), y);
  if (isnan(x)) return complex<Real>(x, x);
  if (isinf(x)) {
    Real rest = isnan(y) ? y : copysign(Real(0), y);
    return x > 0 ? complex<Real>(x, rest)
                 : complex<Real>(fabs(y - y), copysign(x, isnan(y) ? Real(1) : y));
  }
  // Keep x + |z| from overflowing, and from losing the bits of subnormal numbers.
  Real scale = Real(1);
  if (fabs(x) > kspec::Limits<Real>::huge || fabs(y) > kspec::Limits<Real>::huge)
    x *= Real(0.25), y *= Real(0.25), scale = Real(2);
  else if (fabs(x) < kspec::Limits<Real>::tiny && fabs(y) < kspec::Limits<Real>::tiny)
    x *= Real(1ll << 54), y *= Real(1ll << 54), scale = Real(1) / Real(1 << 27);
  Real root = sqrt((fabs(x) + hypot(x, y)) * Real(0.5));
  Real other = y / (root + root);
  return x >= 0 ? complex<Real>(root * scale, other * scale)
                : complex<Real>(fabs(other) * scale, copysign(root, y) * scale);
}

// Powers as NumPy computes them: small integers by multiplication, everything else by exp and log.
template <class Real, class Other, class Result = kspec::Promote<Real, Other>>
__device__ inline complex<Result> pow(const complex<Real>& base, const complex<Other>& exponent) {
  complex<Result> z(base), w(exponent);
  if (w.real() == 0 && w.imag() == 0) return complex<Result>(Result(1));
  if (z.real() == 0 && z.imag() == 0) {
    if (w.real() > 0) return complex<Result>(Result(0));
    Result undefined = Result(0) / Result(0);
    return complex<Result>(undefined, undefined);
  }
  if (w.imag() == 0 && fabs(w.real()) < 100 && w.real() == floor(w.real()))
    return kspec::integer_power(z, (int)w.real());
  return exp(kspec::product(w, log(z)));
}
template <class Real, class Other, class Result = kspec::Promote<Real, Other>>
__device__ inline complex<Result> pow(const complex<Real>& base, Other exponent) {
  return pow(complex<Result>(base), complex<Result>((Result)exponent));
}
template <class Real, class Other, class Result = kspec::Promote<Real, Other>>
__device__ inline complex<Result> pow(Other base, const complex<Real>& exponent) {
  return pow(complex<Result>((Result)base), complex<Result>(exponent));
}

template <class Real> __device__ inline complex<Real> sinh(const complex<Real>& z) {
  Real x = z.real(), y = z.imag();
  if (y == 0) return complex<Real>(sinh(x), y);
  if (x == 0) return complex<Real>(x, sin(y));
  if (!isfinite(y)) return complex<Real>(isinf(x) ? x : y - y, y - y);
  if (fabs(x) < kspec::Limits<Real>::overflow_exp)
    return complex<Real>(sinh(x) * cos(y), cosh(x) * sin(y));
  return complex<Real>(kspec::scaled_exp(fabs(x), copysign(Real(0.5), x) * cos(y)),
                       kspec::scaled_exp(fabs(x), Real(0.5) * sin(y)));
}

template <class Real> __device__ inline complex<Real> cosh(const complex<Real>& z) {
  Real x = z.real(), y = z.imag();
  if (y == 0) return complex<Real>(cosh(x), isnan(x) ? y : copysign(Real(0), x) * y);
  if (x == 0) return complex<Real>(cos(y), isfinite(y) ? x * sin(y) : x);
  if (!isfinite(y)) return complex<Real>(isinf(x) ? fabs(x) : y - y, y - y);
  if (fabs(x) < kspec::Limits<Real>::overflow_exp)
    return complex<Real>(cosh(x) * cos(y), sinh(x) * sin(y));
  return complex<Real>(kspec::scaled_exp(fabs(x), Real(0.5) * cos(y)),
                       kspec::scaled_exp(fabs(x), copysign(Real(0.5), x) * sin(y)));
}

template <class Real> __device__ inline complex<Real> tanh(const complex<Real>& z) {
  Real x = z.real(), y = z.imag();
  if (isnan(x)) return complex<Real>(x, y == 0 ? y : x * y);
  if (isinf(x))
    return complex<Real>(copysign(Real(1), x),
                         copysign(Real(0), isfinite(y) ? sin(y) * cos(y) : y));
  if (!isfinite(y)) return complex<Real>(x == 0 ? x : y - y, y - y);
  if (fabs(x) >= kspec::Limits<Real>::saturated_tanh) {
    Real decay = exp(-fabs(x));
    return complex<Real>(copysign(Real(1), x), Real(4) * sin(y) * cos(y) * decay * decay);
  }
  Real tangent = tan(y), steep = Real(1) + tangent * tangent;
  Real sine = sinh(x), cosine = sqrt(Real(1) + sine * sine);
  if (isinf(tangent)) return complex<Real>(cosine / sine, Real(1) / tangent);
  Real scale = Real(1) + steep * sine * sine;
  return complex<Real>(steep * cosine * sine / scale, tangent / scale);
}

template <class Real> __device__ inline complex<Real> sin(const complex<Real>& z) {
  return kspec::over_i(sinh(kspec::times_i(z)));
}
template <class Real> __device__ inline complex<Real> cos(const complex<Real>& z) {
  return cosh(kspec::times_i(z));
}
template <class Real> __device__ inline complex<Real> tan(const complex<Real>& z) {
  return kspec::over_i(tanh(kspec::times_i(z)));
}

template <class Real> __device__ inline complex<Real> acos(const complex<Real>& z) {
  if (isinf(z))
    return complex<Real>(atan2(fabs(z.imag()), z.real()),
                         isnan(z.imag()) ? fabs(z.real()) : -copysign(Real(1) / Real(0), z.imag()));
  if (z.real() == 0 && isnan(z.imag())) return complex<Real>(kspec::half_pi<Real>(), z.imag());
  complex<Real> below = sqrt(complex<Real>(Real(1) - z.real(), -z.imag()));
  complex<Real> above = sqrt(complex<Real>(Real(1) + z.real(), z.imag()));
  return complex<Real>(Real(2) * atan2(below.real(), above.real()),
                       asinh(above.real() * below.imag() - above.imag() * below.real()));
}

template <class Real> __device__ inline complex<Real> asin(const complex<Real>& z) {
  if (isinf(z))
    return complex<Real>(atan2(z.real(), fabs(z.imag())),
                         isnan(z.imag()) ? fabs(z.real()) : copysign(Real(1) / Real(0), z.imag()));
  if (z.real() == 0 && isnan(z.imag())) return z;
  complex<Real> below = sqrt(complex<Real>(Real(1) - z.real(), -z.imag()));
  complex<Real> above = sqrt(complex<Real>(Real(1) + z.real(), z.imag()));
  return complex<Real>(atan2(z.real(), below.real() * above.real() - below.imag() * above.imag()),
                       asinh(below.real() * above.imag() - below.imag() * above.real()));
}

template <class Real> __device__ inline complex<Real> asinh(const complex<Real>& z) {
  return kspec::over_i(asin(kspec::times_i(z)));
}

template <class Real> __device__ inline complex<Real> acosh(const complex<Real>& z) {
  if (isinf(z)) return complex<Real>(Real(1) / Real(0), arg(z));
  if (z.real() == 0 && isnan(z.imag())) return complex<Real>(z.imag(), kspec::half_pi<Real>());
  complex<Real> below = sqrt(complex<Real>(z.real() - Real(1), z.imag()));
  complex<Real> above = sqrt(complex<Real>(z.real() + Real(1), z.imag()));
  return complex<Real>(asinh(below.real() * above.real() + below.imag() * above.imag()),
                       Real(2) * atan2(below.imag(), above.real()));
}

template <class Real> __device__ inline complex<Real> atanh(const complex<Real>& z) {
  Real x = z.real(), y = z.imag();
  if (isnan(x) || isnan(y)) {
    if (isinf(x)) return complex<Real>(copysign(Real(0), x), y);
    if (isinf(y)) return complex<Real>(copysign(Real(0), x), copysign(kspec::half_pi<Real>(), y));
    return complex<Real>(x == 0 ? x : x + y, x + y);
  }
  const Real limit = kspec::Limits<Real>::huge;
  if (fabs(x) > limit || fabs(y) > limit) {
    Real part = Real(0);  // x / (x^2 + y^2) without overflow
    if (!isinf(x) && !isinf(y))
      part = fabs(x) > fabs(y) ? Real(1) / (x + y * (y / x)) : (x / y) / (y + x * (x / y));
    return complex<Real>(copysign(part, x), copysign(kspec::half_pi<Real>(), y));
  }
  Real near = Real(1) - fabs(x), squares = near * near + y * y;
  Real size = squares > kspec::Limits<Real>::tiny * kspec::Limits<Real>::tiny
                  ? log1p(Real(4) * fabs(x) / squares) * Real(0.25)
                  : (Real(0.69314718055994530942) - log(hypot(near, y))) * Real(0.5);
  Real angle = atan2(y + y, near * (Real(1) + fabs(x)) - y * y) * Real(0.5);
  return complex<Real>(copysign(size, x), angle);
}

template <class Real> __device__ inline complex<Real> atan(const complex<Real>& z) {
  return kspec::over_i(atanh(kspec::times_i(z)));
}
