// One 16-bit floating type with CUDA's operators and intrinsics. Included once per type, with
//   KSPEC_SMALL, KSPEC_SMALL2  names of the scalar and of its pair: __half, __half2
//   KSPEC_SMALL_RAW, _SMALL2_RAW   names of the aggregates CUDA initializes them from: __half_raw
//   KSPEC_SMALL_FORMAT         kspec_host::HalfFormat
//   KSPEC_SMALL_NAME(a, b)     pastes a, the type's word in CUDA's function names, b: a##half##b
// small_float_functions.h, for the same type, comes next.
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

struct __attribute__((aligned(4))) KSPEC_SMALL2_RAW {
  unsigned short x, y;
};

struct __attribute__((aligned(4))) KSPEC_SMALL2 {
  KSPEC_SMALL x, y;
  KSPEC_SMALL2() = default;
  constexpr KSPEC_SMALL2(KSPEC_SMALL2_RAW raw)
      : x(KSPEC_SMALL_RAW{raw.x}), y(KSPEC_SMALL_RAW{raw.y}) {}
  operator KSPEC_SMALL2_RAW() const { return {x.__x, y.__x}; }
  KSPEC_SMALL2(KSPEC_SMALL a, KSPEC_SMALL b) : x(a), y(b) {}
};
