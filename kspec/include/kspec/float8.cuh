// The 8-bit floats of ml_dtypes: 8 bits in memory, float in arithmetic, as float16.
//
// Conversions round to nearest even and are, bit for bit, those of ml_dtypes: a format without
// infinity turns what is too large into NaN. Integer code, the same on every architecture.
#pragma once

#include "kspec/half.cuh"

namespace kspec {

// What stands for values beyond the largest one.
enum Float8Top {
  FLOAT8_INFINITY,  // as IEEE 754: infinity, then NaN, with the largest exponent
  FLOAT8_NAN,       // "fn": NaN has all bits set, there is no infinity
  FLOAT8_UNSIGNED   // "fnuz": the only NaN is the pattern of -0, which there is not
};

template <int FRACTION, int BIAS, Float8Top TOP> struct Float8Format {
  enum {
    infinity = TOP == FLOAT8_INFINITY ? 0x80 - (1 << FRACTION) : 0x100,  // 0x100: none
    quiet = TOP == FLOAT8_INFINITY ? infinity + (1 << (FRACTION - 1))
                                   : TOP == FLOAT8_NAN ? 0x7f : 0x80,
    largest = TOP == FLOAT8_INFINITY ? infinity - 1 : TOP == FLOAT8_NAN ? 0x7e : 0x7f,
    has_negative_zero = TOP != FLOAT8_UNSIGNED
  };

  __device__ static inline bool isnan(unsigned bits) {
    if (TOP == FLOAT8_UNSIGNED) return bits == quiet;
    return (bits & 0x7f) > (TOP == FLOAT8_INFINITY ? (unsigned)infinity : (unsigned)largest);
  }

  __device__ static inline unsigned char narrow(float value) {
    const unsigned bits = same_bits<unsigned>(value), size = bits & 0x7fffffffu;
    const unsigned sign = bits >> 24 & 0x80u;
    if (size > 0x7f800000u) return (unsigned char)(sign | quiet);
    // The least normal number has exponent 1 - BIAS: below, the units stay those of that exponent.
    const int exponent = (int)(size >> 23), lost = 23 - FRACTION, least = 128 - BIAS;
    unsigned code;
    if (exponent >= least) {
      code = (size + ((1u << (lost - 1)) - 1) + (size >> lost & 1u)) >> lost;
      code -= (unsigned)(127 - BIAS) << FRACTION;
    } else {
      const int shift = lost + least - exponent;
      const unsigned fraction = (size & 0x7fffffu) | 0x800000u;
      code = shift > 24 ? 0 : (fraction + ((1u << (shift - 1)) - 1) + (fraction >> shift & 1u)) >> shift;
    }
    if (code > largest) code = TOP == FLOAT8_INFINITY ? infinity : quiet;
    if (code == 0 && !has_negative_zero) return 0;
    return (unsigned char)(sign | code);
  }

  __device__ static inline float widen(unsigned bits) {
    const unsigned sign = (bits & 0x80u) << 24, size = bits & 0x7fu;
    if (isnan(bits)) return same_bits<float>((TOP == FLOAT8_UNSIGNED ? 0x80000000u : sign) | 0x7fc00000u);
    if (size == infinity) return same_bits<float>(sign | 0x7f800000u);
    if (size >> FRACTION)
      return same_bits<float>(sign | ((size << (23 - FRACTION)) + ((unsigned)(127 - BIAS) << 23)));
    // Units of the least exponent; the product is exact.
    const float value =
        (float)size * same_bits<float>((unsigned)(128 - BIAS - FRACTION) << 23);
    return sign ? -value : value;
  }
};

template <class FORMAT> class Float8 {
  unsigned char bits_;

 public:
  Float8() = default;
  __device__ inline Float8(float value) : bits_(FORMAT::narrow(value)) {}
  __device__ inline explicit Float8(bool value) : Float8(value ? 1.0f : 0.0f) {}
  __device__ inline explicit Float8(double value) : Float8(round_to_odd(value)) {}
  __device__ inline explicit Float8(int value) : Float8((double)value) {}
  __device__ inline explicit Float8(unsigned value) : Float8((double)value) {}
  __device__ inline explicit Float8(long value) : Float8((long long)value) {}
  __device__ inline explicit Float8(unsigned long value) : Float8((unsigned long long)value) {}
  __device__ inline explicit Float8(long long value) : Float8(round_to_odd(value)) {}
  __device__ inline explicit Float8(unsigned long long value) : Float8(round_to_odd(value)) {}

  __device__ inline operator float() const { return FORMAT::widen(bits_); }
  __device__ static inline Float8 from_bits(unsigned char bits) {
    Float8 value;
    value.bits_ = bits;
    return value;
  }
  __device__ inline unsigned char to_bits() const { return bits_; }

  template <class Value> __device__ inline Float8& operator=(Value value) {
    bits_ = Float8(value).bits_;
    return *this;
  }
  template <class Value> __device__ inline Float8& operator+=(Value value) {
    return *this = (float)*this + value;
  }
  template <class Value> __device__ inline Float8& operator-=(Value value) {
    return *this = (float)*this - value;
  }
  template <class Value> __device__ inline Float8& operator*=(Value value) {
    return *this = (float)*this * value;
  }
  template <class Value> __device__ inline Float8& operator/=(Value value) {
    return *this = (float)*this / value;
  }

  __device__ inline bool iszero() const {
    return (bits_ & 0x7f) == 0 && (FORMAT::has_negative_zero || bits_ == 0);
  }
  __device__ inline bool isnan() const { return FORMAT::isnan(bits_); }
  __device__ inline bool isinf() const { return (bits_ & 0x7f) == FORMAT::infinity; }
  __device__ inline bool isfinite() const { return !isnan() && !isinf(); }
  __device__ inline bool signbit() const { return (bits_ & 0x80) != 0; }
};

template <class FORMAT> struct Accumulator<Float8<FORMAT>> { typedef float type; };
template <class FORMAT> struct IsHalf<Float8<FORMAT>> { enum { value = 1 }; };

}  // namespace kspec

typedef kspec::Float8<kspec::Float8Format<3, 7, kspec::FLOAT8_NAN>> float8_e4m3fn;
typedef kspec::Float8<kspec::Float8Format<2, 15, kspec::FLOAT8_INFINITY>> float8_e5m2;
typedef kspec::Float8<kspec::Float8Format<3, 8, kspec::FLOAT8_UNSIGNED>> float8_e4m3fnuz;
typedef kspec::Float8<kspec::Float8Format<2, 16, kspec::FLOAT8_UNSIGNED>> float8_e5m2fnuz;
typedef kspec::Float8<kspec::Float8Format<3, 11, kspec::FLOAT8_UNSIGNED>> float8_e4m3b11fnuz;

static_assert(sizeof(float8_e4m3fn) == 1 && alignof(float8_e4m3fn) == 1, "8 bits");

template <class Format> __device__ inline bool iszero(kspec::Float8<Format> value) {
  return value.iszero();
}
template <class Format> __device__ inline bool isnan(kspec::Float8<Format> value) {
  return value.isnan();
}
template <class Format> __device__ inline bool isinf(kspec::Float8<Format> value) {
  return value.isinf();
}
template <class Format> __device__ inline bool isfinite(kspec::Float8<Format> value) {
  return value.isfinite();
}
template <class Format> __device__ inline bool signbit(kspec::Float8<Format> value) {
  return value.signbit();
}
// The sign goes through float: a format without -0 has none of its own for zero and NaN.
template <class Format>
__device__ inline kspec::Float8<Format> copysign(kspec::Float8<Format> size,
                                                 kspec::Float8<Format> sign) {
  return kspec::Float8<Format>(copysignf((float)size, (float)sign));
}
template <class Format>
__device__ inline kspec::Float8<Format> nextafter(kspec::Float8<Format> from,
                                                  kspec::Float8<Format> towards) {
  typedef kspec::Float8<Format> Number;
  if (from.isnan() || towards.isnan()) return Number::from_bits(Format::quiet);
  if ((float)from == (float)towards) return towards;
  if (from.iszero()) return Number::from_bits(towards.signbit() ? 0x81 : 1);
  const bool outwards = ((float)from < (float)towards) != from.signbit();
  const unsigned char next = (unsigned char)(from.to_bits() + (outwards ? 1 : -1));
  // Stepping from -least to zero must not arrive at the NaN of a format without -0.
  return Number::from_bits(!Format::has_negative_zero && next == 0x80 && !outwards ? 0 : next);
}

// NaN gives way to a number, as in CUDA's own min and max.
#define KSPEC_FLOAT8_SELECT(NAME, BETTER)                                                   \
  template <class Format>                                                                   \
  __device__ inline kspec::Float8<Format> NAME(kspec::Float8<Format> left,                  \
                                               kspec::Float8<Format> right) {               \
    return (float)left BETTER(float) right || right.isnan() ? left : right;                 \
  }
KSPEC_FLOAT8_SELECT(fmin, <)
KSPEC_FLOAT8_SELECT(fmax, >)
KSPEC_FLOAT8_SELECT(min, <)
KSPEC_FLOAT8_SELECT(max, >)
#undef KSPEC_FLOAT8_SELECT
