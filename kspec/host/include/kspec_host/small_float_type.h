// One 16-bit floating type with CUDA's operators and intrinsics. Included once per type, with
//   KSPEC_SMALL, KSPEC_SMALL2  names of the scalar and of its pair: __half, __half2
//   KSPEC_SMALL_RAW            name of the aggregate CUDA initializes it from: __half_raw
//   KSPEC_SMALL_FORMAT         kspec_host::HalfFormat
//   KSPEC_SMALL_NAME(a, b)     pastes a, the type's word in CUDA's function names, b: a##half##b
// All arithmetic is that of float followed by one rounding, which is exact for + - * / and sqrt
// (float has more than twice the bits).

struct KSPEC_SMALL_RAW {
  unsigned short x;
};

struct __attribute__((aligned(2))) KSPEC_SMALL {
  unsigned short __x;  // this name is read by libcu++

  KSPEC_SMALL() = default;
  constexpr KSPEC_SMALL(KSPEC_SMALL_RAW raw) : __x(raw.x) {}
  KSPEC_SMALL(float x) : __x(KSPEC_SMALL_FORMAT::encode(x)) {}
  KSPEC_SMALL(double x) : KSPEC_SMALL(kspec_host::round_to_odd(x)) {}
  KSPEC_SMALL(bool x) : KSPEC_SMALL((float)x) {}
  KSPEC_SMALL(short x) : KSPEC_SMALL((float)x) {}
  KSPEC_SMALL(unsigned short x) : KSPEC_SMALL((float)x) {}
  KSPEC_SMALL(int x) : KSPEC_SMALL((double)x) {}
  KSPEC_SMALL(unsigned int x) : KSPEC_SMALL((double)x) {}
  KSPEC_SMALL(long x) : KSPEC_SMALL((double)x) {}
  KSPEC_SMALL(unsigned long x) : KSPEC_SMALL((double)x) {}
  KSPEC_SMALL(long long x) : KSPEC_SMALL((double)x) {}
  KSPEC_SMALL(unsigned long long x) : KSPEC_SMALL((double)x) {}

  operator float() const { return KSPEC_SMALL_FORMAT::decode(__x); }
  explicit operator double() const { return (float)*this; }
  explicit operator bool() const { return (__x & 0x7fff) != 0; }
  explicit operator signed char() const { return (signed char)(float)*this; }
  explicit operator unsigned char() const { return (unsigned char)(float)*this; }
  explicit operator short() const { return (short)(float)*this; }
  explicit operator unsigned short() const { return (unsigned short)(float)*this; }
  explicit operator int() const { return (int)(float)*this; }
  explicit operator unsigned int() const { return (unsigned int)(float)*this; }
  explicit operator long() const { return (long)(float)*this; }
  explicit operator unsigned long() const { return (unsigned long)(float)*this; }
  explicit operator long long() const { return (long long)(float)*this; }
  explicit operator unsigned long long() const { return (unsigned long long)(float)*this; }
  operator KSPEC_SMALL_RAW() const { return {__x}; }

  KSPEC_SMALL operator+() const { return *this; }
  KSPEC_SMALL operator-() const { return KSPEC_SMALL_RAW{(unsigned short)(__x ^ 0x8000)}; }
  KSPEC_SMALL& operator+=(KSPEC_SMALL o) { return *this = (float)*this + (float)o; }
  KSPEC_SMALL& operator-=(KSPEC_SMALL o) { return *this = (float)*this - (float)o; }
  KSPEC_SMALL& operator*=(KSPEC_SMALL o) { return *this = (float)*this * (float)o; }
  KSPEC_SMALL& operator/=(KSPEC_SMALL o) { return *this = (float)*this / (float)o; }
  KSPEC_SMALL& operator++() { return *this = (float)*this + 1.0f; }
  KSPEC_SMALL& operator--() { return *this = (float)*this - 1.0f; }
  KSPEC_SMALL operator++(int) {
    KSPEC_SMALL old = *this;
    ++*this;
    return old;
  }
  KSPEC_SMALL operator--(int) {
    KSPEC_SMALL old = *this;
    --*this;
    return old;
  }
};

struct __attribute__((aligned(4))) KSPEC_SMALL2 {
  KSPEC_SMALL x, y;
  KSPEC_SMALL2() = default;
  KSPEC_SMALL2(KSPEC_SMALL a, KSPEC_SMALL b) : x(a), y(b) {}
};

// Operators, and the intrinsics that are another spelling of them.
#define KSPEC_OPERATOR(OP, ASSIGN, INTRINSIC, PAIR_INTRINSIC)                             \
  static inline KSPEC_SMALL operator OP(KSPEC_SMALL a, KSPEC_SMALL b) { return a ASSIGN b; } \
  static inline KSPEC_SMALL INTRINSIC(KSPEC_SMALL a, KSPEC_SMALL b) { return a ASSIGN b; }   \
  static inline KSPEC_SMALL2 operator OP(KSPEC_SMALL2 a, KSPEC_SMALL2 b) {                \
    return KSPEC_SMALL2(a.x OP b.x, a.y OP b.y);                                          \
  }                                                                                       \
  static inline KSPEC_SMALL2& operator ASSIGN(KSPEC_SMALL2& a, KSPEC_SMALL2 b) {          \
    return a = a OP b;                                                                    \
  }                                                                                       \
  static inline KSPEC_SMALL2 PAIR_INTRINSIC(KSPEC_SMALL2 a, KSPEC_SMALL2 b) { return a OP b; }
KSPEC_OPERATOR(+, +=, __hadd, __hadd2)
KSPEC_OPERATOR(-, -=, __hsub, __hsub2)
KSPEC_OPERATOR(*, *=, __hmul, __hmul2)
KSPEC_OPERATOR(/, /=, __hdiv, __h2div)
#undef KSPEC_OPERATOR
// What a GPU compiler does not fuse into one multiply-add; nothing is fused here.
#define KSPEC_UNFUSED(INTRINSIC, PAIR_INTRINSIC)                                              \
  static inline KSPEC_SMALL INTRINSIC##_rn(KSPEC_SMALL a, KSPEC_SMALL b) {                    \
    return INTRINSIC(a, b);                                                                   \
  }                                                                                           \
  static inline KSPEC_SMALL2 PAIR_INTRINSIC##_rn(KSPEC_SMALL2 a, KSPEC_SMALL2 b) {            \
    return PAIR_INTRINSIC(a, b);                                                              \
  }
KSPEC_UNFUSED(__hadd, __hadd2)
KSPEC_UNFUSED(__hsub, __hsub2)
KSPEC_UNFUSED(__hmul, __hmul2)
#undef KSPEC_UNFUSED
#define KSPEC_COMPARISON(OP, INTRINSIC)                          \
  static inline bool operator OP(KSPEC_SMALL a, KSPEC_SMALL b) { \
    return (float)a OP(float) b;                                 \
  }                                                              \
  static inline bool INTRINSIC(KSPEC_SMALL a, KSPEC_SMALL b) { return (float)a OP(float) b; }
KSPEC_COMPARISON(==, __heq)
KSPEC_COMPARISON(!=, __hne)
KSPEC_COMPARISON(<, __hlt)
KSPEC_COMPARISON(<=, __hle)
KSPEC_COMPARISON(>, __hgt)
KSPEC_COMPARISON(>=, __hge)
#undef KSPEC_COMPARISON

static inline KSPEC_SMALL __hneg(KSPEC_SMALL a) { return -a; }
static inline KSPEC_SMALL __habs(KSPEC_SMALL a) {
  return KSPEC_SMALL_RAW{(unsigned short)(a.__x & 0x7fff)};
}
// The product of two 16-bit floats is exact in double; one rounding follows the sum.
static inline KSPEC_SMALL __hfma(KSPEC_SMALL a, KSPEC_SMALL b, KSPEC_SMALL c) {
  return KSPEC_SMALL((double)a * (double)b + (double)c);
}
static inline KSPEC_SMALL2 __hfma2(KSPEC_SMALL2 a, KSPEC_SMALL2 b, KSPEC_SMALL2 c) {
  return KSPEC_SMALL2(__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y));
}
static inline KSPEC_SMALL2 __hneg2(KSPEC_SMALL2 a) { return KSPEC_SMALL2(-a.x, -a.y); }
static inline KSPEC_SMALL2 __habs2(KSPEC_SMALL2 a) {
  return KSPEC_SMALL2(__habs(a.x), __habs(a.y));
}
static inline bool __hisnan(KSPEC_SMALL a) { return __builtin_isnan((float)a); }
static inline int __hisinf(KSPEC_SMALL a) { return __builtin_isinf_sign((float)a); }
static inline KSPEC_SMALL __hmax(KSPEC_SMALL a, KSPEC_SMALL b) { return fmaxf(a, b); }
static inline KSPEC_SMALL __hmin(KSPEC_SMALL a, KSPEC_SMALL b) { return fminf(a, b); }

#define KSPEC_FUNCTION(NAME, EXPRESSION)         \
  static inline KSPEC_SMALL NAME(KSPEC_SMALL a) { \
    float x = a;                                 \
    return EXPRESSION;                           \
  }
KSPEC_FUNCTION(hsqrt, sqrtf(x))
KSPEC_FUNCTION(hrsqrt, 1.0f / sqrtf(x))
KSPEC_FUNCTION(hrcp, 1.0f / x)
KSPEC_FUNCTION(hexp, expf(x))
KSPEC_FUNCTION(hexp2, exp2f(x))
KSPEC_FUNCTION(hexp10, exp10f(x))
KSPEC_FUNCTION(hlog, logf(x))
KSPEC_FUNCTION(hlog2, log2f(x))
KSPEC_FUNCTION(hlog10, log10f(x))
KSPEC_FUNCTION(hsin, sinf(x))
KSPEC_FUNCTION(hcos, cosf(x))
KSPEC_FUNCTION(htanh, tanhf(x))
KSPEC_FUNCTION(hfloor, floorf(x))
KSPEC_FUNCTION(hceil, ceilf(x))
KSPEC_FUNCTION(htrunc, truncf(x))
KSPEC_FUNCTION(hrint, rintf(x))
#undef KSPEC_FUNCTION

KSPEC_SHUFFLES(KSPEC_SMALL)
KSPEC_SHUFFLES(KSPEC_SMALL2)
template <> struct kspec_host::IsLoadable<KSPEC_SMALL> { enum { value = true }; };
template <> struct kspec_host::IsLoadable<KSPEC_SMALL2> { enum { value = true }; };

// Conversions by name.
static inline KSPEC_SMALL KSPEC_SMALL_NAME(__float2, )(float x) { return x; }
static inline KSPEC_SMALL KSPEC_SMALL_NAME(__float2, _rn)(float x) { return x; }
static inline KSPEC_SMALL KSPEC_SMALL_NAME(__double2, )(double x) { return x; }
static inline float KSPEC_SMALL_NAME(__, 2float)(KSPEC_SMALL a) { return a; }
static inline KSPEC_SMALL KSPEC_SMALL_NAME(__int2, _rn)(int x) { return x; }
static inline KSPEC_SMALL KSPEC_SMALL_NAME(__uint2, _rn)(unsigned int x) { return x; }
static inline KSPEC_SMALL KSPEC_SMALL_NAME(__ll2, _rn)(long long x) { return x; }
static inline int KSPEC_SMALL_NAME(__, 2int_rn)(KSPEC_SMALL a) { return __float2int_rn(a); }
static inline int KSPEC_SMALL_NAME(__, 2int_rz)(KSPEC_SMALL a) { return __float2int_rz(a); }
static inline unsigned short KSPEC_SMALL_NAME(__, _as_ushort)(KSPEC_SMALL a) { return a.__x; }
static inline short KSPEC_SMALL_NAME(__, _as_short)(KSPEC_SMALL a) { return (short)a.__x; }
static inline KSPEC_SMALL KSPEC_SMALL_NAME(__ushort_as_, )(unsigned short bits) {
  return KSPEC_SMALL_RAW{bits};
}
static inline KSPEC_SMALL KSPEC_SMALL_NAME(__short_as_, )(short bits) {
  return KSPEC_SMALL_RAW{(unsigned short)bits};
}
static inline KSPEC_SMALL KSPEC_SMALL_NAME(__low2, )(KSPEC_SMALL2 a) { return a.x; }
static inline KSPEC_SMALL KSPEC_SMALL_NAME(__high2, )(KSPEC_SMALL2 a) { return a.y; }
static inline float __low2float(KSPEC_SMALL2 a) { return a.x; }
static inline float __high2float(KSPEC_SMALL2 a) { return a.y; }

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
#undef KSPEC_SMALL_FORMAT
#undef KSPEC_SMALL_NAME
