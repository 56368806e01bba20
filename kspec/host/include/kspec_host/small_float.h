// Conversions between float and the two 16-bit formats, rounding to nearest even.
#pragma once

namespace kspec_host {

static inline unsigned float_bits(float x) {
  unsigned bits;
  __builtin_memcpy(&bits, &x, 4);
  return bits;
}
static inline float bits_float(unsigned bits) {
  float x;
  __builtin_memcpy(&x, &bits, 4);
  return x;
}

// IEEE binary16: 1 sign, 5 exponent, 10 fraction bits.
struct HalfFormat {
  static unsigned short encode(float x) {
    unsigned bits = float_bits(x), sign = bits >> 16 & 0x8000u;
    bits &= 0x7fffffffu;
    if (bits > 0x7f800000u) return (unsigned short)(sign | 0x7e00u | (bits >> 13 & 0x3ffu));
    if (bits >= 0x47800000u) return (unsigned short)(sign | 0x7c00u);  // 65536 and more
    if (bits < 0x38800000u) {
      // Below 2^-14: adding 0.5 puts the 2^-24 grid into the lowest fraction bits, rounded.
      return (unsigned short)(sign | (float_bits(bits_float(bits) + 0.5f) - 0x3f000000u));
    }
    bits += 0xc8000fffu + (bits >> 13 & 1u);  // rebias the exponent and round
    return (unsigned short)(sign | bits >> 13);
  }
  static float decode(unsigned short h) {
    unsigned sign = (h & 0x8000u) << 16, exponent = h >> 10 & 31u, fraction = h & 0x3ffu;
    if (exponent == 31) return bits_float(sign | 0x7f800000u | fraction << 13);
    if (exponent == 0) {
      float tiny = (float)fraction * 5.9604644775390625e-8f;  // 2^-24
      return bits_float(sign | float_bits(tiny));
    }
    return bits_float(sign | (exponent + 112) << 23 | fraction << 13);
  }
};

// bfloat16: the upper half of a float.
struct BrainFormat {
  static unsigned short encode(float x) {
    unsigned bits = float_bits(x);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (unsigned short)(bits >> 16 | 64);  // quiet NaN
    return (unsigned short)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
  }
  static float decode(unsigned short b) { return bits_float((unsigned)b << 16); }
};

// double to float by rounding to odd: a second rounding, to 16 bits, is then as good as one.
static inline float round_to_odd(double x) {
  float nearest = (float)x;
  double error = x - (double)nearest;
  unsigned bits = float_bits(nearest);
  if (error != 0 && error == error && !(bits & 1) && (bits & 0x7f800000u) != 0x7f800000u) {
    if (bits & 0x7fffffffu) {
      bits += (error > 0) == (x > 0) ? 1u : ~0u;
    } else {
      bits |= 1u;  // an underflow that is not zero
    }
  }
  return bits_float(bits);
}

}  // namespace kspec_host
