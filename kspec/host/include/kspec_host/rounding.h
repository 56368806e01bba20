// Arithmetic with a stated rounding: to nearest (_rn), to zero (_rz), up (_ru), down (_rd).
//
// Contraction to fma is off everywhere (-ffp-contract=off), so the plain operators are _rn. The
// others switch the processor's rounding mode around one operation, whose operands and result are
// volatile so that the compiler neither folds nor moves it.
#pragma once

extern "C" int fegetround() noexcept(true);
extern "C" int fesetround(int) noexcept(true);

namespace kspec_host {

#if defined(__x86_64__)
enum { ROUND_rn = 0, ROUND_rd = 0x400, ROUND_ru = 0x800, ROUND_rz = 0xc00 };
#else
enum { ROUND_rn = 0, ROUND_rd = 0x800000, ROUND_ru = 0x400000, ROUND_rz = 0xc00000 };
#endif

// The rounding mode while it lives.
struct RoundingMode {
  int before;
  RoundingMode(int mode) : before(fegetround()) { fesetround(mode); }
  ~RoundingMode() { fesetround(before); }
};

}  // namespace kspec_host

// COPIES declare volatile x, y, z with the operands: gcc drops the volatile of parameters.
#define KSPEC_DIRECTED(NAME, MODE, T, PARAMETERS, COPIES, EXPRESSION)  \
  static inline T NAME##_##MODE PARAMETERS {                           \
    kspec_host::RoundingMode mode(kspec_host::ROUND_##MODE);           \
    COPIES;                                                            \
    volatile T result = EXPRESSION;                                    \
    return result;                                                     \
  }
#define KSPEC_ROUNDED(NAME, T, PARAMETERS, PLAIN, COPIES, EXPRESSION)  \
  static inline T NAME##_rn PARAMETERS { return PLAIN; }               \
  KSPEC_DIRECTED(NAME, rz, T, PARAMETERS, COPIES, EXPRESSION)          \
  KSPEC_DIRECTED(NAME, ru, T, PARAMETERS, COPIES, EXPRESSION)          \
  KSPEC_DIRECTED(NAME, rd, T, PARAMETERS, COPIES, EXPRESSION)
#define KSPEC_UNARY(NAME, T, FROM, FUNCTION) \
  KSPEC_ROUNDED(NAME, T, (FROM a), FUNCTION(a), volatile FROM x = a, FUNCTION(x))
#define KSPEC_BINARY(NAME, T, OP) \
  KSPEC_ROUNDED(NAME, T, (T a, T b), a OP b, volatile T x = a; volatile T y = b, x OP y)
#define KSPEC_TERNARY(NAME, T, FUNCTION)                       \
  KSPEC_ROUNDED(NAME, T, (T a, T b, T c), FUNCTION(a, b, c),   \
                volatile T x = a; volatile T y = b; volatile T z = c, FUNCTION(x, y, z))
KSPEC_BINARY(__fadd, float, +)
KSPEC_BINARY(__fsub, float, -)
KSPEC_BINARY(__fmul, float, *)
KSPEC_BINARY(__fdiv, float, /)
KSPEC_BINARY(__dadd, double, +)
KSPEC_BINARY(__dsub, double, -)
KSPEC_BINARY(__dmul, double, *)
KSPEC_BINARY(__ddiv, double, /)
KSPEC_UNARY(__frcp, float, float, 1.0f /)
KSPEC_UNARY(__drcp, double, double, 1.0 /)
KSPEC_UNARY(__fsqrt, float, float, sqrtf)
KSPEC_UNARY(__dsqrt, double, double, sqrt)
KSPEC_TERNARY(__fmaf, float, fmaf)
KSPEC_TERNARY(__fma, double, fma)
KSPEC_UNARY(__int2float, float, int, (float))
KSPEC_UNARY(__uint2float, float, unsigned int, (float))
KSPEC_UNARY(__ll2float, float, long long, (float))
KSPEC_UNARY(__ull2float, float, unsigned long long, (float))
KSPEC_UNARY(__ll2double, double, long long, (double))
KSPEC_UNARY(__ull2double, double, unsigned long long, (double))
KSPEC_UNARY(__double2float, float, double, (float))
#undef KSPEC_TERNARY
#undef KSPEC_UNARY
#undef KSPEC_BINARY
#undef KSPEC_ROUNDED
#undef KSPEC_DIRECTED
