// Conversions to integers with a stated rounding. They saturate; a plain cast out of range is
// undefined on the host. NaN becomes 0 only from float to 32 bits, else the highest bit alone
// (PTX ISA, cvt).
#pragma once

namespace kspec_host {

template <class I, class F> static inline I saturate(F x, I low, I high) {
  if (x != x) return sizeof(F) == 4 && sizeof(I) <= 4 ? 0 : (I)1 << (8 * sizeof(I) - 1);
  return x <= (F)low ? low : x >= (F)high ? high : (I)x;
}

}  // namespace kspec_host

#define KSPEC_TO_INTEGER(FROM, F, TO, T, LOW, HIGH)                                              \
  static inline T __##FROM##2##TO##_rn(F x) { return kspec_host::saturate<T>(rint(x), LOW, HIGH); } \
  static inline T __##FROM##2##TO##_rd(F x) { return kspec_host::saturate<T>(floor(x), LOW, HIGH); } \
  static inline T __##FROM##2##TO##_ru(F x) { return kspec_host::saturate<T>(ceil(x), LOW, HIGH); } \
  static inline T __##FROM##2##TO##_rz(F x) { return kspec_host::saturate<T>(trunc(x), LOW, HIGH); }
#define KSPEC_TO_INTEGERS(FROM, F)                                                             \
  KSPEC_TO_INTEGER(FROM, F, int, int, -2147483647 - 1, 2147483647)                             \
  KSPEC_TO_INTEGER(FROM, F, uint, unsigned int, 0u, 4294967295u)                               \
  KSPEC_TO_INTEGER(FROM, F, ll, long long, -9223372036854775807LL - 1, 9223372036854775807LL)  \
  KSPEC_TO_INTEGER(FROM, F, ull, unsigned long long, 0ull, 18446744073709551615ull)
KSPEC_TO_INTEGERS(float, float)
KSPEC_TO_INTEGERS(double, double)
#undef KSPEC_TO_INTEGER
#undef KSPEC_TO_INTEGERS

static inline double __int2double_rn(int x) { return (double)x; }
static inline double __uint2double_rn(unsigned int x) { return (double)x; }
