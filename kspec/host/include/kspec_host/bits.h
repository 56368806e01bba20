// Cached loads and stores, integer intrinsics, and reinterpretation of bits.
#pragma once

namespace kspec_host {

// What __ldg() and its relatives take: CUDA has overloads for exactly these.
template <class T> struct IsLoadable { enum { value = false }; };
#define KSPEC_LOADABLE(T) template <> struct IsLoadable<T> { enum { value = true }; };
#define KSPEC_LOADABLE_VECTORS(T) KSPEC_LOADABLE(T##2) KSPEC_LOADABLE(T##4)
KSPEC_LOADABLE(char)
KSPEC_LOADABLE(signed char)
KSPEC_LOADABLE(unsigned char)
KSPEC_LOADABLE(short)
KSPEC_LOADABLE(unsigned short)
KSPEC_LOADABLE(int)
KSPEC_LOADABLE(unsigned int)
KSPEC_LOADABLE(long)
KSPEC_LOADABLE(unsigned long)
KSPEC_LOADABLE(long long)
KSPEC_LOADABLE(unsigned long long)
KSPEC_LOADABLE(float)
KSPEC_LOADABLE(double)
KSPEC_LOADABLE_VECTORS(char)
KSPEC_LOADABLE_VECTORS(uchar)
KSPEC_LOADABLE_VECTORS(short)
KSPEC_LOADABLE_VECTORS(ushort)
KSPEC_LOADABLE_VECTORS(int)
KSPEC_LOADABLE_VECTORS(uint)
KSPEC_LOADABLE_VECTORS(float)
KSPEC_LOADABLE(longlong2)
KSPEC_LOADABLE(ulonglong2)
KSPEC_LOADABLE(double2)
#undef KSPEC_LOADABLE_VECTORS
#undef KSPEC_LOADABLE
template <class T> using IfLoadable = typename EnableIf<IsLoadable<T>::value>::type;

}  // namespace kspec_host

#define KSPEC_LOAD(NAME)                                  \
  template <class T, class = kspec_host::IfLoadable<T>>   \
  static inline T NAME(const T* address) {                \
    return *address;                                      \
  }
KSPEC_LOAD(__ldg)
KSPEC_LOAD(__ldcg)
KSPEC_LOAD(__ldca)
KSPEC_LOAD(__ldcs)
KSPEC_LOAD(__ldlu)
KSPEC_LOAD(__ldcv)
#undef KSPEC_LOAD
#define KSPEC_STORE(NAME)                                 \
  template <class T, class = kspec_host::IfLoadable<T>>   \
  static inline void NAME(T* address, kspec_host::NotDeduced<T> value) { *address = value; }
KSPEC_STORE(__stwb)
KSPEC_STORE(__stcg)
KSPEC_STORE(__stcs)
KSPEC_STORE(__stwt)
#undef KSPEC_STORE

static inline int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
static inline int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
static inline int __popc(unsigned int x) { return __builtin_popcount(x); }
static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline int __ffsll(long long x) { return __builtin_ffsll(x); }

static inline unsigned int __brev(unsigned int x) {
  unsigned int result = 0;
  for (int i = 0; i < 32; i++) result |= (x >> i & 1u) << (31 - i);
  return result;
}
static inline unsigned long long __brevll(unsigned long long x) {
  return (unsigned long long)__brev((unsigned)x) << 32 | __brev((unsigned)(x >> 32));
}
// The place of a set bit, counted from one: at it, or the offset-th from it upwards or downwards.
static inline unsigned int __fns(unsigned int mask, unsigned int base, int offset) {
  int left = offset > 0 ? offset - 1 : offset < 0 ? -(offset + 1) : 0, step = offset < 0 ? -1 : 1;
  for (unsigned int i = base; i < 32; i += step) {
    if (mask >> i & 1 && left-- == 0) return i;
    if (offset == 0) break;
  }
  return 0xffffffffu;
}
static inline unsigned int __byte_perm(unsigned int low, unsigned int high, unsigned int selector) {
  unsigned long long bytes = (unsigned long long)high << 32 | low;
  unsigned int result = 0;
  for (int i = 0; i < 4; i++) {
    // The fourth bit of a selector, which PTX has replicate the sign, is not looked at.
    unsigned int pick = selector >> (4 * i) & 7, byte = bytes >> (8 * pick) & 255;
    result |= byte << (8 * i);
  }
  return result;
}
static inline unsigned int __funnelshift_l(unsigned int low, unsigned int high, unsigned int n) {
  return (unsigned)((((unsigned long long)high << 32 | low) << (n & 31)) >> 32);
}
static inline unsigned int __funnelshift_r(unsigned int low, unsigned int high, unsigned int n) {
  return (unsigned)(((unsigned long long)high << 32 | low) >> (n & 31));
}
static inline unsigned int __funnelshift_lc(unsigned int low, unsigned int high, unsigned int n) {
  return n >= 32 ? low : __funnelshift_l(low, high, n);
}
static inline unsigned int __funnelshift_rc(unsigned int low, unsigned int high, unsigned int n) {
  return n >= 32 ? high : __funnelshift_r(low, high, n);
}

static inline int __mulhi(int a, int b) { return (int)((long long)a * b >> 32); }
static inline unsigned int __umulhi(unsigned int a, unsigned int b) {
  return (unsigned)((unsigned long long)a * b >> 32);
}
static inline long long __mul64hi(long long a, long long b) {
  return (long long)((__int128)a * b >> 64);
}
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return (unsigned long long)((unsigned __int128)a * b >> 64);
}
static inline int __mul24(int a, int b) { return (a << 8 >> 8) * (b << 8 >> 8); }
static inline unsigned int __umul24(unsigned int a, unsigned int b) {
  return (a & 0xffffffu) * (b & 0xffffffu);
}
static inline unsigned int __sad(int a, int b, unsigned int c) {
  return c + (a > b ? (unsigned)a - (unsigned)b : (unsigned)b - (unsigned)a);
}
static inline unsigned int __usad(unsigned int a, unsigned int b, unsigned int c) {
  return c + (a > b ? a - b : b - a);
}
static inline int __hadd(int a, int b) { return (int)(((long long)a + b) >> 1); }
static inline int __rhadd(int a, int b) { return (int)(((long long)a + b + 1) >> 1); }
static inline unsigned int __uhadd(unsigned int a, unsigned int b) {
  return (unsigned)(((unsigned long long)a + b) >> 1);
}
static inline unsigned int __urhadd(unsigned int a, unsigned int b) {
  return (unsigned)(((unsigned long long)a + b + 1) >> 1);
}

#define KSPEC_REINTERPRET(NAME, FROM, TO)              \
  static inline TO NAME(FROM value) {                  \
    TO result;                                         \
    __builtin_memcpy(&result, &value, sizeof result);  \
    return result;                                     \
  }
KSPEC_REINTERPRET(__int_as_float, int, float)
KSPEC_REINTERPRET(__float_as_int, float, int)
KSPEC_REINTERPRET(__uint_as_float, unsigned int, float)
KSPEC_REINTERPRET(__float_as_uint, float, unsigned int)
KSPEC_REINTERPRET(__longlong_as_double, long long, double)
KSPEC_REINTERPRET(__double_as_longlong, double, long long)
#undef KSPEC_REINTERPRET
static inline int __double2hiint(double x) { return (int)(__double_as_longlong(x) >> 32); }
static inline int __double2loint(double x) { return (int)__double_as_longlong(x); }
static inline double __hiloint2double(int high, int low) {
  return __longlong_as_double((long long)high << 32 | (unsigned)low);
}
static inline unsigned int __isShared(const void* address) {
  const kspec_host::Block* block = kspec_context.block;
  size_t static_offset = (const unsigned char*)address - block->static_shared;
  size_t dynamic_offset = (const unsigned char*)address - block->dynamic_shared;
  return static_offset < block->static_used || dynamic_offset < block->dynamic_bytes;
}
static inline size_t __cvta_generic_to_shared(const void* address) { return (size_t)address; }
static inline size_t __cvta_generic_to_global(const void* address) { return (size_t)address; }
