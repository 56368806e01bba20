// Arithmetic on the two halves or four bytes of a word (CUDA's SIMD intrinsics), and dot products.
#pragma once

namespace kspec_host {

// Apply `compute` to each part of two words; T says how wide a part is, and whether it is signed.
template <class T, class F>
static inline unsigned by_part(unsigned a, unsigned b, F compute) {
  enum { BITS = 8 * sizeof(T), MASK = (1 << BITS) - 1 };
  unsigned result = 0;
  for (int shift = 0; shift < 32; shift += BITS)
    result |= ((unsigned)compute((int)(T)(a >> shift), (int)(T)(b >> shift)) & MASK) << shift;
  return result;
}

template <class T> static inline int saturate_part(int x) {
  constexpr int top = 1 << (8 * sizeof(T) - 1), low = (T)-1 < 0 ? -top : 0;
  return x < low ? low : x > low + 2 * top - 1 ? low + 2 * top - 1 : x;
}

}  // namespace kspec_host

#define KSPEC_PARTS(NAME, T, EXPRESSION)                                                     \
  static inline unsigned int NAME(unsigned int x, unsigned int y) {                          \
    typedef T Part;                                                                          \
    return kspec_host::by_part<Part>(x, y, [](int a, int b) -> int { return EXPRESSION; });  \
  }
// The sum of the absolute differences.
#define KSPEC_SUM(NAME, T)                                                          \
  static inline unsigned int NAME(unsigned int x, unsigned int y) {                 \
    unsigned int sum = 0;                                                           \
    for (int shift = 0; shift < 32; shift += 8 * sizeof(T)) {                       \
      int a = (T)(x >> shift), b = (T)(y >> shift);                                 \
      sum += a > b ? a - b : b - a;                                                 \
    }                                                                               \
    return sum;                                                                     \
  }
#define KSPEC_COMPARE(NAME, SUFFIX, T, OP)                 \
  KSPEC_PARTS(__vcmp##NAME##SUFFIX, T, a OP b ? -1 : 0)    \
  KSPEC_PARTS(__vset##NAME##SUFFIX, T, a OP b)
#define KSPEC_SIMD(N, SIGNED, UNSIGNED)                                        \
  KSPEC_PARTS(__vadd##N, UNSIGNED, a + b)                                      \
  KSPEC_PARTS(__vsub##N, UNSIGNED, a - b)                                      \
  KSPEC_PARTS(__vaddss##N, SIGNED, kspec_host::saturate_part<SIGNED>(a + b))   \
  KSPEC_PARTS(__vaddus##N, UNSIGNED, kspec_host::saturate_part<UNSIGNED>(a + b)) \
  KSPEC_PARTS(__vsubss##N, SIGNED, kspec_host::saturate_part<SIGNED>(a - b))   \
  KSPEC_PARTS(__vsubus##N, UNSIGNED, kspec_host::saturate_part<UNSIGNED>(a - b)) \
  KSPEC_PARTS(__vmaxs##N, SIGNED, a > b ? a : b)                               \
  KSPEC_PARTS(__vmaxu##N, UNSIGNED, a > b ? a : b)                             \
  KSPEC_PARTS(__vmins##N, SIGNED, a < b ? a : b)                               \
  KSPEC_PARTS(__vminu##N, UNSIGNED, a < b ? a : b)                             \
  KSPEC_PARTS(__vabsdiffs##N, SIGNED, a > b ? a - b : b - a)                   \
  KSPEC_PARTS(__vabsdiffu##N, UNSIGNED, a > b ? a - b : b - a)                 \
  KSPEC_SUM(__vsads##N, SIGNED)                                                \
  KSPEC_SUM(__vsadu##N, UNSIGNED)                                              \
  KSPEC_PARTS(__vavgs##N, SIGNED, (a + b + (a + b >= 0)) >> 1)                 \
  KSPEC_PARTS(__vavgu##N, UNSIGNED, (a + b + 1) >> 1)                          \
  KSPEC_PARTS(__vhaddu##N, UNSIGNED, (a + b) >> 1)                             \
  KSPEC_COMPARE(eq, N, UNSIGNED, ==)                                           \
  KSPEC_COMPARE(ne, N, UNSIGNED, !=)                                           \
  KSPEC_COMPARE(gts, N, SIGNED, >)                                             \
  KSPEC_COMPARE(ges, N, SIGNED, >=)                                            \
  KSPEC_COMPARE(lts, N, SIGNED, <)                                             \
  KSPEC_COMPARE(les, N, SIGNED, <=)                                            \
  KSPEC_COMPARE(gtu, N, UNSIGNED, >)                                           \
  KSPEC_COMPARE(geu, N, UNSIGNED, >=)                                          \
  KSPEC_COMPARE(ltu, N, UNSIGNED, <)                                           \
  KSPEC_COMPARE(leu, N, UNSIGNED, <=)                                          \
  static inline unsigned int __vneg##N(unsigned int x) { return __vsub##N(0, x); } \
  static inline unsigned int __vnegss##N(unsigned int x) { return __vsubss##N(0, x); } \
  static inline unsigned int __vabs##N(unsigned int x) { return __vmaxs##N(x, __vneg##N(x)); } \
  static inline unsigned int __vabsss##N(unsigned int x) { return __vmaxs##N(x, __vnegss##N(x)); }
KSPEC_SIMD(2, short, unsigned short)
KSPEC_SIMD(4, signed char, unsigned char)
#undef KSPEC_SIMD
#undef KSPEC_COMPARE
#undef KSPEC_SUM
#undef KSPEC_PARTS

#define KSPEC_DOT(WORD, HALF, BYTE)                                                          \
  static inline WORD __dp4a(WORD a, WORD b, WORD c) {                                        \
    for (int i = 0; i < 32; i += 8) c += (WORD)(BYTE)(a >> i) * (WORD)(BYTE)(b >> i);        \
    return c;                                                                                \
  }                                                                                          \
  static inline WORD __dp2a_lo(WORD a, WORD b, WORD c) {                                     \
    return c + (WORD)(HALF)a * (WORD)(BYTE)b + (WORD)(HALF)(a >> 16) * (WORD)(BYTE)(b >> 8); \
  }                                                                                          \
  static inline WORD __dp2a_hi(WORD a, WORD b, WORD c) { return __dp2a_lo(a, b >> 16, c); }
KSPEC_DOT(int, short, signed char)
KSPEC_DOT(unsigned int, unsigned short, unsigned char)
#undef KSPEC_DOT
