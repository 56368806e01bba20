// What CUDA has for the 16-bit floating type of small_float_type.h and its pairs, by the same macros.
// A function of pairs is that of numbers for each of the two.

namespace kspec_host {

static inline KSPEC_SMALL not_a_number(KSPEC_SMALL) { return KSPEC_SMALL_RAW{0x7fff}; }
static inline bool is_nan(KSPEC_SMALL a) { return __builtin_isnan((float)a); }
// Into [0, 1]; NaN becomes 0.
static inline KSPEC_SMALL saturated(KSPEC_SMALL a) {
  float x = a;
  return x >= 1.0f ? 1.0f : x > 0.0f ? x : 0.0f;
}
static inline KSPEC_SMALL not_negative(KSPEC_SMALL a) {
  return is_nan(a) ? not_a_number(a) : (float)a > 0.0f ? a : KSPEC_SMALL(0.0f);
}
// -0 is less than +0.
static inline KSPEC_SMALL larger(KSPEC_SMALL a, KSPEC_SMALL b) {
  float x = a, y = b;
  return x > y || (x == y && !(a.__x & 0x8000)) ? a : b;
}
static inline KSPEC_SMALL smaller(KSPEC_SMALL a, KSPEC_SMALL b) {
  float x = a, y = b;
  return x < y || (x == y && a.__x & 0x8000) ? a : b;
}

}  // namespace kspec_host

#define KSPEC_BOTH(NAME, PAIR_NAME, ...)                                                         \
  static inline KSPEC_SMALL NAME(KSPEC_SMALL a, KSPEC_SMALL b) { return __VA_ARGS__; }           \
  static inline KSPEC_SMALL2 PAIR_NAME(KSPEC_SMALL2 a, KSPEC_SMALL2 b) {                         \
    return KSPEC_SMALL2(NAME(a.x, b.x), NAME(a.y, b.y));                                         \
  }
// Operators, and the intrinsics that are another spelling of them. _rn: what a GPU's compiler does
// not fuse into one multiply-add; nothing is fused here.
#define KSPEC_OPERATOR(OP, ASSIGN)                                                           \
  static inline KSPEC_SMALL operator OP(KSPEC_SMALL a, KSPEC_SMALL b) { return a ASSIGN b; } \
  static inline KSPEC_SMALL2 operator OP(KSPEC_SMALL2 a, KSPEC_SMALL2 b) {                   \
    return KSPEC_SMALL2(a.x OP b.x, a.y OP b.y);                                             \
  }                                                                                          \
  static inline KSPEC_SMALL2& operator ASSIGN(KSPEC_SMALL2& a, KSPEC_SMALL2 b) {             \
    return a = a OP b;                                                                       \
  }
#define KSPEC_ARITHMETIC(NAME, OP)                                                           \
  KSPEC_OPERATOR(OP, OP##=)                                                                  \
  KSPEC_BOTH(__h##NAME, __h##NAME##2, a OP b)                                                \
  KSPEC_BOTH(__h##NAME##_rn, __h##NAME##2_rn, a OP b)                                        \
  KSPEC_BOTH(__h##NAME##_sat, __h##NAME##2_sat, kspec_host::saturated(a OP b))
KSPEC_ARITHMETIC(add, +)
KSPEC_ARITHMETIC(sub, -)
KSPEC_ARITHMETIC(mul, *)
KSPEC_OPERATOR(/, /=)
KSPEC_BOTH(__hdiv, __h2div, a / b)
#undef KSPEC_ARITHMETIC
#undef KSPEC_OPERATOR
static inline KSPEC_SMALL2 operator+(KSPEC_SMALL2 a) { return a; }
static inline KSPEC_SMALL2 operator-(KSPEC_SMALL2 a) { return KSPEC_SMALL2(-a.x, -a.y); }
static inline KSPEC_SMALL2& operator++(KSPEC_SMALL2& a) { return ++a.x, ++a.y, a; }
static inline KSPEC_SMALL2& operator--(KSPEC_SMALL2& a) { return --a.x, --a.y, a; }
static inline KSPEC_SMALL2 operator++(KSPEC_SMALL2& a, int) {
  return KSPEC_SMALL2(a.x++, a.y++);
}
static inline KSPEC_SMALL2 operator--(KSPEC_SMALL2& a, int) {
  return KSPEC_SMALL2(a.x--, a.y--);
}

// Of numbers; of pairs as 1 and 0, as a mask, and whether it holds for both. NaN makes ordered ones
// false, unordered ones (u) true. The operators are ordered, but != is not.
#define KSPEC_COMPARED(NAME, CONDITION)                                                          \
  static inline bool __h##NAME(KSPEC_SMALL a, KSPEC_SMALL b) {                                   \
    float x = a, y = b;                                                                          \
    return CONDITION;                                                                            \
  }                                                                                              \
  static inline KSPEC_SMALL2 __h##NAME##2(KSPEC_SMALL2 a, KSPEC_SMALL2 b) {                      \
    return KSPEC_SMALL2(__h##NAME(a.x, b.x), __h##NAME(a.y, b.y));                               \
  }                                                                                              \
  static inline unsigned int __h##NAME##2_mask(KSPEC_SMALL2 a, KSPEC_SMALL2 b) {                 \
    return (__h##NAME(a.x, b.x) ? 0xffffu : 0) | (__h##NAME(a.y, b.y) ? 0xffff0000u : 0);        \
  }                                                                                              \
  static inline bool __hb##NAME##2(KSPEC_SMALL2 a, KSPEC_SMALL2 b) {                             \
    return __h##NAME(a.x, b.x) && __h##NAME(a.y, b.y);                                           \
  }
#define KSPEC_COMPARISON(NAME, OP, NEGATED, OPERATOR_NAME)                                       \
  KSPEC_COMPARED(NAME, x OP y && x == x && y == y)                                               \
  KSPEC_COMPARED(NAME##u, !(x NEGATED y) || x != x || y != y)                                    \
  static inline bool operator OP(KSPEC_SMALL a, KSPEC_SMALL b) { return (float)a OP(float) b; }  \
  static inline bool operator OP(KSPEC_SMALL2 a, KSPEC_SMALL2 b) {                               \
    return __hb##OPERATOR_NAME##2(a, b);                                                         \
  }
KSPEC_COMPARISON(eq, ==, !=, eq)
KSPEC_COMPARISON(ne, !=, ==, neu)
KSPEC_COMPARISON(lt, <, >=, lt)
KSPEC_COMPARISON(le, <=, >, le)
KSPEC_COMPARISON(gt, >, <=, gt)
KSPEC_COMPARISON(ge, >=, <, ge)
#undef KSPEC_COMPARISON
#undef KSPEC_COMPARED

KSPEC_BOTH(__hmax, __hmax2,
           kspec_host::is_nan(a) ? kspec_host::is_nan(b) ? kspec_host::not_a_number(a) : b
           : kspec_host::is_nan(b) ? a : kspec_host::larger(a, b))
KSPEC_BOTH(__hmin, __hmin2,
           kspec_host::is_nan(a) ? kspec_host::is_nan(b) ? kspec_host::not_a_number(a) : b
           : kspec_host::is_nan(b) ? a : kspec_host::smaller(a, b))
KSPEC_BOTH(__hmax_nan, __hmax2_nan,
           kspec_host::is_nan(a) || kspec_host::is_nan(b) ? kspec_host::not_a_number(a)
                                                          : kspec_host::larger(a, b))
KSPEC_BOTH(__hmin_nan, __hmin2_nan,
           kspec_host::is_nan(a) || kspec_host::is_nan(b) ? kspec_host::not_a_number(a)
                                                          : kspec_host::smaller(a, b))
#undef KSPEC_BOTH

// The product of two 16-bit floats is exact in double; one rounding follows the sum.
#define KSPEC_FUSED(SUFFIX, CHANGE)                                                              \
  static inline KSPEC_SMALL __hfma##SUFFIX(KSPEC_SMALL a, KSPEC_SMALL b, KSPEC_SMALL c) {        \
    return CHANGE(KSPEC_SMALL((double)a * (double)b + (double)c));                               \
  }                                                                                              \
  static inline KSPEC_SMALL2 __hfma2##SUFFIX(KSPEC_SMALL2 a, KSPEC_SMALL2 b, KSPEC_SMALL2 c) {   \
    return KSPEC_SMALL2(__hfma##SUFFIX(a.x, b.x, c.x), __hfma##SUFFIX(a.y, b.y, c.y));           \
  }
KSPEC_FUSED(, )
KSPEC_FUSED(_sat, kspec_host::saturated)
KSPEC_FUSED(_relu, kspec_host::not_negative)
#undef KSPEC_FUSED
// a * b + c of complex numbers.
static inline KSPEC_SMALL2 __hcmadd(KSPEC_SMALL2 a, KSPEC_SMALL2 b, KSPEC_SMALL2 c) {
  return KSPEC_SMALL2(__hfma(-a.y, b.y, __hfma(a.x, b.x, c.x)),
                      __hfma(a.y, b.x, __hfma(a.x, b.y, c.y)));
}

static inline KSPEC_SMALL __hneg(KSPEC_SMALL a) { return -a; }
static inline KSPEC_SMALL __habs(KSPEC_SMALL a) {
  return KSPEC_SMALL_RAW{(unsigned short)(a.__x & 0x7fff)};
}
static inline KSPEC_SMALL2 __hneg2(KSPEC_SMALL2 a) { return -a; }
static inline KSPEC_SMALL2 __habs2(KSPEC_SMALL2 a) {
  return KSPEC_SMALL2(__habs(a.x), __habs(a.y));
}
static inline bool __hisnan(KSPEC_SMALL a) { return kspec_host::is_nan(a); }
static inline KSPEC_SMALL2 __hisnan2(KSPEC_SMALL2 a) {
  return KSPEC_SMALL2(__hisnan(a.x), __hisnan(a.y));
}
static inline int __hisinf(KSPEC_SMALL a) { return __builtin_isinf_sign((float)a); }

#define KSPEC_FUNCTION(NAME, EXPRESSION)              \
  static inline KSPEC_SMALL h##NAME(KSPEC_SMALL a) {  \
    float x = a;                                      \
    return EXPRESSION;                                \
  }                                                   \
  static inline KSPEC_SMALL2 h2##NAME(KSPEC_SMALL2 a) { \
    return KSPEC_SMALL2(h##NAME(a.x), h##NAME(a.y));  \
  }
KSPEC_FUNCTION(sqrt, sqrtf(x))
KSPEC_FUNCTION(rsqrt, 1.0f / sqrtf(x))
KSPEC_FUNCTION(rcp, 1.0f / x)
KSPEC_FUNCTION(exp, expf(x))
KSPEC_FUNCTION(exp2, exp2f(x))
KSPEC_FUNCTION(exp10, exp10f(x))
KSPEC_FUNCTION(log, logf(x))
KSPEC_FUNCTION(log2, log2f(x))
KSPEC_FUNCTION(log10, log10f(x))
KSPEC_FUNCTION(sin, sinf(x))
KSPEC_FUNCTION(cos, cosf(x))
KSPEC_FUNCTION(tanh, tanhf(x))
KSPEC_FUNCTION(tanh_approx, tanhf(x))
KSPEC_FUNCTION(floor, floorf(x))
KSPEC_FUNCTION(ceil, ceilf(x))
KSPEC_FUNCTION(trunc, truncf(x))
KSPEC_FUNCTION(rint, rintf(x))
#undef KSPEC_FUNCTION

KSPEC_SHUFFLES(KSPEC_SMALL)
KSPEC_SHUFFLES(KSPEC_SMALL2)
template <> struct kspec_host::IsLoadable<KSPEC_SMALL> { enum { value = true }; };
template <> struct kspec_host::IsLoadable<KSPEC_SMALL2> { enum { value = true }; };

// Conversions by name.
namespace kspec_host {

// The next number above or below.
static inline KSPEC_SMALL next(KSPEC_SMALL a, bool up) {
  bool negative = a.__x & 0x8000;
  if (!(a.__x & 0x7fff)) return KSPEC_SMALL_RAW{(unsigned short)(up ? 1 : 0x8001)};
  return KSPEC_SMALL_RAW{(unsigned short)(a.__x + (up == negative ? -1 : 1))};
}
template <class T> static inline KSPEC_SMALL round_up(KSPEC_SMALL a, T x) {
  return (long double)(float)a < (long double)x ? next(a, true) : a;
}
template <class T> static inline KSPEC_SMALL round_down(KSPEC_SMALL a, T x) {
  return (long double)(float)a > (long double)x ? next(a, false) : a;
}

}  // namespace kspec_host

#define KSPEC_FROM(FROM, T)                                                                      \
  static inline KSPEC_SMALL KSPEC_SMALL_NAME(__##FROM##2, _rn)(T x) { return x; }                \
  static inline KSPEC_SMALL KSPEC_SMALL_NAME(__##FROM##2, _ru)(T x) {                            \
    return kspec_host::round_up(KSPEC_SMALL(x), x);                                              \
  }                                                                                              \
  static inline KSPEC_SMALL KSPEC_SMALL_NAME(__##FROM##2, _rd)(T x) {                            \
    return kspec_host::round_down(KSPEC_SMALL(x), x);                                            \
  }                                                                                              \
  static inline KSPEC_SMALL KSPEC_SMALL_NAME(__##FROM##2, _rz)(T x) {                            \
    return x < 0 ? kspec_host::round_up(KSPEC_SMALL(x), x)                                       \
                 : kspec_host::round_down(KSPEC_SMALL(x), x);                                    \
  }
#define KSPEC_TO(TO, T, MODE, ROUND)                                                             \
  static inline T KSPEC_SMALL_NAME(__, 2##TO##_##MODE)(KSPEC_SMALL a) {                          \
    constexpr T low = (T)-1 < 0 ? (T)(1ull << (8 * sizeof(T) - 1)) : (T)0;                       \
    return kspec_host::saturate<T>(ROUND((float)a), low, (T)~low);                               \
  }
#define KSPEC_CONVERTED(NAME, T)    \
  KSPEC_FROM(NAME, T)               \
  KSPEC_TO(NAME, T, rn, rintf)      \
  KSPEC_TO(NAME, T, rd, floorf)     \
  KSPEC_TO(NAME, T, ru, ceilf)      \
  KSPEC_TO(NAME, T, rz, truncf)
KSPEC_FROM(float, float)
KSPEC_CONVERTED(short, short)
KSPEC_CONVERTED(ushort, unsigned short)
KSPEC_CONVERTED(int, int)
KSPEC_CONVERTED(uint, unsigned int)
KSPEC_CONVERTED(ll, long long)
KSPEC_CONVERTED(ull, unsigned long long)
KSPEC_TO(char, signed char, rz, truncf)
KSPEC_TO(uchar, unsigned char, rz, truncf)
#undef KSPEC_CONVERTED
#undef KSPEC_TO
#undef KSPEC_FROM
static inline KSPEC_SMALL KSPEC_SMALL_NAME(__float2, )(float x) { return x; }
static inline KSPEC_SMALL KSPEC_SMALL_NAME(__double2, )(double x) { return x; }
static inline float KSPEC_SMALL_NAME(__, 2float)(KSPEC_SMALL a) { return a; }
static inline unsigned short KSPEC_SMALL_NAME(__, _as_ushort)(KSPEC_SMALL a) { return a.__x; }
static inline short KSPEC_SMALL_NAME(__, _as_short)(KSPEC_SMALL a) { return (short)a.__x; }
static inline KSPEC_SMALL KSPEC_SMALL_NAME(__ushort_as_, )(unsigned short bits) {
  return KSPEC_SMALL_RAW{bits};
}
static inline KSPEC_SMALL KSPEC_SMALL_NAME(__short_as_, )(short bits) {
  return KSPEC_SMALL_RAW{(unsigned short)bits};
}

static inline float __low2float(KSPEC_SMALL2 a) { return a.x; }
static inline float __high2float(KSPEC_SMALL2 a) { return a.y; }
static inline KSPEC_SMALL KSPEC_SMALL_NAME(__low2, )(KSPEC_SMALL2 a) { return a.x; }
static inline KSPEC_SMALL KSPEC_SMALL_NAME(__high2, )(KSPEC_SMALL2 a) { return a.y; }
#define KSPEC_PAIR(BEFORE, AFTER, PARAMETERS, LOW, HIGH)                              \
  static inline KSPEC_SMALL2 KSPEC_SMALL_NAME(BEFORE, AFTER) PARAMETERS {             \
    return KSPEC_SMALL2(LOW, HIGH);                                                   \
  }
KSPEC_PAIR(make_, 2, (KSPEC_SMALL a, KSPEC_SMALL b), a, b)
KSPEC_PAIR(__halves2, 2, (KSPEC_SMALL a, KSPEC_SMALL b), a, b)
KSPEC_PAIR(__low2, 2, (KSPEC_SMALL2 a), a.x, a.x)
KSPEC_PAIR(__high2, 2, (KSPEC_SMALL2 a), a.y, a.y)
KSPEC_PAIR(__lows2, 2, (KSPEC_SMALL2 a, KSPEC_SMALL2 b), a.x, b.x)
KSPEC_PAIR(__highs2, 2, (KSPEC_SMALL2 a, KSPEC_SMALL2 b), a.y, b.y)
KSPEC_PAIR(__float2, 2_rn, (float a), a, a)
KSPEC_PAIR(__floats2, 2_rn, (float a, float b), a, b)
KSPEC_PAIR(__float22, 2_rn, (float2 a), a.x, a.y)
#undef KSPEC_PAIR
static inline KSPEC_SMALL2 __lowhigh2highlow(KSPEC_SMALL2 a) { return KSPEC_SMALL2(a.y, a.x); }
static inline float2 KSPEC_SMALL_NAME(__, 22float2)(KSPEC_SMALL2 a) {
  return make_float2(a.x, a.y);
}

static inline KSPEC_SMALL atomicAdd(KSPEC_SMALL* address, KSPEC_SMALL value) {
  return kspec_host::update(address, [value](KSPEC_SMALL old) -> KSPEC_SMALL { return old + value; });
}
static inline KSPEC_SMALL2 atomicAdd(KSPEC_SMALL2* address, KSPEC_SMALL2 value) {
  return kspec_host::update(address,
                            [value](KSPEC_SMALL2 old) -> KSPEC_SMALL2 { return old + value; });
}

#undef KSPEC_SMALL
#undef KSPEC_SMALL2
#undef KSPEC_SMALL_RAW
#undef KSPEC_SMALL2_RAW
#undef KSPEC_SMALL_FORMAT
#undef KSPEC_SMALL_NAME
