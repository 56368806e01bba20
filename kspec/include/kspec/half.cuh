// float16 and bfloat16: 16 bits in memory, float in arithmetic.
//
// Both convert to float by themselves, so `x * y + 1` is computed in float and rounded once, when
// it is stored. Names here are long on purpose: a user's -DA=3 must not break them. Operands come
// by value: a reference to a class's static constant would read memory that no class defines.
#pragma once

#include "kspec/accumulator.cuh"
#include "kspec/atomics.cuh"

namespace kspec {

template <class To, class From> __device__ inline To same_bits(From value) {
  static_assert(sizeof(To) == sizeof(From), "same size");
  union Both {
    From from;
    To to;
    __device__ Both() {}
  } both;
  both.from = value;
  return both.to;
}

// Round to odd: truncate, and set the last bit if anything was lost. Rounding the result again,
// to at most 22 bits, is then the same as rounding the double once.
__device__ inline float round_to_odd(double value) {
  float near = (float)value;
  double back = (double)near;
  if (back == value || value != value) return near;
  unsigned bits = same_bits<unsigned>(near);
  if ((back < 0 ? -back : back) > (value < 0 ? -value : value)) bits -= 1;
  return same_bits<float>(bits | 1u);
}

// An integer beyond 2^53 loses bits when it becomes a double; round to odd there too.
__device__ inline float round_to_odd(unsigned long long value) {
  if (value >> 53) return round_to_odd((double)(value >> 11 | ((value & 2047u) != 0)) * 2048.0);
  return round_to_odd((double)value);
}
__device__ inline float round_to_odd(long long value) {
  unsigned long long size = value < 0 ? 0ull - (unsigned long long)value : (unsigned long long)value;
  return value < 0 ? -round_to_odd(size) : round_to_odd(size);
}

struct Float16Format {
  enum { infinity = 0x7c00, quiet = 0x7e00 };

  __device__ static inline unsigned short narrow(float value) {
#ifndef KSPEC_HOST
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
#else
    unsigned bits = same_bits<unsigned>(value), sign = bits >> 16 & 0x8000u;
    bits &= 0x7fffffffu;
    if (bits > 0x7f800000u) return (unsigned short)(sign | quiet | (bits >> 13 & 0x1ffu));
    if (bits >= 0x477ff000u) return (unsigned short)(sign | infinity);  // 65520 and more
    if (bits < 0x38800000u) {
      // Below 2^-14: adding 0.5 leaves units of 2^-24 in the last bits, rounded to even.
      float shifted = same_bits<float>(bits) + 0.5f;
      return (unsigned short)(sign | (same_bits<unsigned>(shifted) - 0x3f000000u));
    }
    return (unsigned short)(sign | (bits - 0x38000000u + 0xfffu + (bits >> 13 & 1u)) >> 13);
#endif
  }

  __device__ static inline float widen(unsigned short half) {
#ifndef KSPEC_HOST
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(half));
    return value;
#else
    unsigned sign = (half & 0x8000u) << 16, rest = half & 0x7fffu;
    if (rest > infinity) return same_bits<float>(sign | 0x7fc00000u | (rest & 0x3ffu) << 13);
    if (rest == infinity) return same_bits<float>(sign | 0x7f800000u);
    if (rest >= 0x400u) return same_bits<float>(sign | ((rest << 13) + 0x38000000u));
    float value = (float)rest * 5.9604644775390625e-08f;  // units of 2^-24
    return sign ? -value : value;
#endif
  }
};

struct Bfloat16Format {
  enum { infinity = 0x7f80, quiet = 0x7fc0 };

  __device__ static inline unsigned short narrow(float value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800 && !defined(KSPEC_HOST)
    unsigned short result;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result) : "f"(value));
    return result;
#else
    unsigned bits = same_bits<unsigned>(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (unsigned short)(bits >> 16 | 0x40u);
    return (unsigned short)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
#endif
  }

  __device__ static inline float widen(unsigned short bits) {
    return same_bits<float>((unsigned)bits << 16);
  }
};

// CUDA's own types of 16 bits, where their header is there: cupy/float16.cuh.
template <class Type> struct NativeHalf {};

// What the two formats share. SELF is the class itself, FORMAT one of the structs above.
#define KSPEC_HALF_CLASS(SELF, FORMAT)                                                           \
  class SELF {                                                                                   \
    unsigned short bits_;                                                                        \
                                                                                                 \
   public:                                                                                       \
    static constexpr unsigned short nan = FORMAT::quiet;                                         \
                                                                                                 \
    SELF() = default;                                                                            \
    __device__ inline SELF(float value) : bits_(FORMAT::narrow(value)) {}                        \
    __device__ inline explicit SELF(bool value) : SELF(value ? 1.0f : 0.0f) {}                   \
    __device__ inline explicit SELF(double value) : SELF(kspec::round_to_odd(value)) {}          \
    __device__ inline explicit SELF(int value) : SELF((double)value) {}                          \
    __device__ inline explicit SELF(unsigned value) : SELF((double)value) {}                     \
    __device__ inline explicit SELF(long value) : SELF((long long)value) {}                      \
    __device__ inline explicit SELF(unsigned long value) : SELF((unsigned long long)value) {}    \
    __device__ inline explicit SELF(long long value) : SELF(kspec::round_to_odd(value)) {}       \
    __device__ inline explicit SELF(unsigned long long value)                                    \
        : SELF(kspec::round_to_odd(value)) {}                                                    \
    template <class Native, class = typename kspec::NativeHalf<Native>::type>                    \
    __device__ inline explicit SELF(Native value) : SELF((float)value) {}                        \
                                                                                                 \
    __device__ inline operator float() const { return FORMAT::widen(bits_); }                    \
    __device__ static inline SELF from_bits(unsigned short bits) {                               \
      SELF value;                                                                                \
      value.bits_ = bits;                                                                        \
      return value;                                                                              \
    }                                                                                            \
    __device__ inline unsigned short to_bits() const { return bits_; }                           \
                                                                                                 \
    template <class Value> __device__ inline SELF& operator=(Value value) {                      \
      bits_ = SELF(value).bits_;                                                                 \
      return *this;                                                                              \
    }                                                                                            \
    template <class Value> __device__ inline SELF& operator+=(Value value) {                     \
      return *this = (float)*this + value;                                                       \
    }                                                                                            \
    template <class Value> __device__ inline SELF& operator-=(Value value) {                     \
      return *this = (float)*this - value;                                                       \
    }                                                                                            \
    template <class Value> __device__ inline SELF& operator*=(Value value) {                     \
      return *this = (float)*this * value;                                                       \
    }                                                                                            \
    template <class Value> __device__ inline SELF& operator/=(Value value) {                     \
      return *this = (float)*this / value;                                                       \
    }                                                                                            \
                                                                                                 \
    __device__ inline bool iszero() const { return (bits_ & 0x7fff) == 0; }                      \
    __device__ inline bool isnan() const { return (bits_ & 0x7fff) > FORMAT::infinity; }         \
    __device__ inline bool isinf() const { return (bits_ & 0x7fff) == FORMAT::infinity; }        \
    __device__ inline bool isfinite() const { return (bits_ & 0x7fff) < FORMAT::infinity; }      \
    __device__ inline bool signbit() const { return (bits_ & 0x8000) != 0; }                     \
  };                                                                                             \
  static_assert(sizeof(SELF) == 2 && alignof(SELF) == 2, "16 bits");                             \
                                                                                                 \
  __device__ inline bool iszero(SELF value) { return value.iszero(); }                           \
  __device__ inline bool isnan(SELF value) { return value.isnan(); }                             \
  __device__ inline bool isinf(SELF value) { return value.isinf(); }                             \
  __device__ inline bool isfinite(SELF value) { return value.isfinite(); }                       \
  __device__ inline bool signbit(SELF value) { return value.signbit(); }                         \
  __device__ inline SELF copysign(SELF size, SELF sign) {                                        \
    return SELF::from_bits((unsigned short)((size.to_bits() & 0x7fff) | (sign.to_bits() & 0x8000))); \
  }                                                                                              \
  __device__ inline SELF nextafter(SELF from, SELF towards) {                                    \
    if (from.isnan() || towards.isnan()) return SELF::from_bits(FORMAT::quiet);                  \
    if ((float)from == (float)towards) return towards;                                           \
    if (from.iszero()) return SELF::from_bits((unsigned short)(towards.signbit() ? 0x8001 : 1)); \
    bool outwards = ((float)from < (float)towards) != from.signbit();                            \
    return SELF::from_bits((unsigned short)(from.to_bits() + (outwards ? 1 : -1)));              \
  }                                                                                              \
  /* NaN gives way to a number, as in CUDA's own min and max. */                                 \
  KSPEC_HALF_SELECT(SELF, fmin, <)                                                               \
  KSPEC_HALF_SELECT(SELF, fmax, >)                                                               \
  KSPEC_HALF_SELECT(SELF, min, <)                                                                \
  KSPEC_HALF_SELECT(SELF, max, >)

#define KSPEC_HALF_SELECT(SELF, NAME, BETTER)                                                    \
  __device__ inline SELF NAME(SELF left, SELF right) {                                           \
    return (float)left BETTER(float) right || right.isnan() ? left : right;                      \
  }

}  // namespace kspec

KSPEC_HALF_CLASS(float16, kspec::Float16Format)
KSPEC_HALF_CLASS(bfloat16, kspec::Bfloat16Format)

#undef KSPEC_HALF_CLASS
#undef KSPEC_HALF_SELECT

namespace kspec {

// Sums need more bits than their terms.
template <> struct Accumulator<float16> { typedef float type; };
template <> struct Accumulator<bfloat16> { typedef float type; };

template <class Number> struct IsHalf { enum { value = 0 }; };
template <> struct IsHalf<float16> { enum { value = 1 }; };
template <> struct IsHalf<bfloat16> { enum { value = 1 }; };

// The result of min and max of a half and another number: at least float. Both types are deduced,
// so that max(1.0f, 2) never considers turning the 2 into a half.
template <class Left, class Right, bool = IsHalf<Left>::value != IsHalf<Right>::value>
struct Mixed {};
template <class Left, class Right> struct Mixed<Left, Right, true> {
  __device__ static Left left();
  __device__ static Right right();
  typedef decltype(1.0f * left() + right()) type;
};

}  // namespace kspec

#define KSPEC_MIXED_SELECT(NAME, BETTER)                                                           \
  template <class Left, class Right, class Result = typename kspec::Mixed<Left, Right>::type>      \
  __device__ inline Result NAME(Left left, Right right) {                                          \
    Result first = left, second = right;                                                           \
    return first BETTER second || second != second ? first : second;                               \
  }
KSPEC_MIXED_SELECT(fmin, <)
KSPEC_MIXED_SELECT(fmax, >)
KSPEC_MIXED_SELECT(min, <)
KSPEC_MIXED_SELECT(max, >)
#undef KSPEC_MIXED_SELECT

// GPUs have instructions for it, which round as the sum of two halves in float is rounded.
__device__ inline float16 atomicAdd(float16* address, float16 value) {
#if defined(__CUDA_ARCH__) && !defined(KSPEC_HOST)
  unsigned short old;
  asm volatile("atom.add.noftz.f16 %0, [%1], %2;"
               : "=h"(old)
               : "l"(address), "h"(value.to_bits())
               : "memory");
  return float16::from_bits(old);
#else
  return kspec::atomic_update(address,
                              [=](float16 old) { return float16((float)old + (float)value); });
#endif
}
__device__ inline bfloat16 atomicAdd(bfloat16* address, bfloat16 value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900 && !defined(KSPEC_HOST)
  unsigned short old;
  asm volatile("atom.add.noftz.bf16 %0, [%1], %2;"
               : "=h"(old)
               : "l"(address), "h"(value.to_bits())
               : "memory");
  return bfloat16::from_bits(old);
#else
  return kspec::atomic_update(address,
                              [=](bfloat16 old) { return bfloat16((float)old + (float)value); });
#endif
}
