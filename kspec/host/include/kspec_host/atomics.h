// Atomic functions: exactly CUDA's overloads, because templates would accept what a GPU refuses.
// Relaxed like CUDA's, except exchange and compare-and-swap: locks are built from those.
#pragma once

namespace kspec_host {

template <int Bytes> struct Bits;
template <> struct Bits<1> { typedef unsigned char type; };
template <> struct Bits<2> { typedef unsigned short type; };
template <> struct Bits<4> { typedef unsigned int type; };
template <> struct Bits<8> { typedef unsigned long long type; };

// A GPU traps at an address that is not a multiple of the size; the CPU does not. Modules whose
// accesses are all looked at (check_access.h) need no look here.
#if KSPEC_HOST_CHECK_BOUNDS
static void misaligned_atomic(const volatile void* address, unsigned long size);
template <class T> static inline T* aligned(T* address) {
  if (__builtin_expect((unsigned long)address % sizeof(T) != 0, 0))
    misaligned_atomic(address, sizeof(T));
  return address;
}
#else
template <class T> static inline T* aligned(T* address) { return address; }
#endif

#if KSPEC_HOST_REVIEW
// One operation of a GPU: what it begins with is no load of its own.
template <class T> static KSPEC_HOST_UNCHECKED __attribute__((noinline)) T first_look(T* address) {
  return __atomic_load_n(address, __ATOMIC_RELAXED);
}
#else
template <class T> static inline T first_look(T* address) {
  return __atomic_load_n(address, __ATOMIC_RELAXED);
}
#endif

// Read, compute, compare-and-swap until nobody came between; returns the old value.
template <class T, class F> static inline T update(T* address, F compute) {
  typedef typename Bits<sizeof(T)>::type Word;
  Word* word = (Word*)aligned(address);
  Word old_word = first_look(word);
  for (;;) {
    T old_value, new_value;
    Word new_word;
    __builtin_memcpy((void*)&old_value, &old_word, sizeof(Word));
    new_value = compute(old_value);
    __builtin_memcpy(&new_word, (const void*)&new_value, sizeof(Word));
    if (__atomic_compare_exchange_n(word, &old_word, new_word, true, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED))
      return old_value;
  }
}

}  // namespace kspec_host

// Each function also exists with the narrower and wider scopes CUDA has.
#define KSPEC_SCOPES(NAME, T)                                                       \
  static inline T NAME##_block(T* address, T value) { return NAME(address, value); } \
  static inline T NAME##_system(T* address, T value) { return NAME(address, value); }
#define KSPEC_ATOMIC(NAME, T, BUILTIN)                                  \
  static inline T NAME(T* address, T value) {                          \
    return __atomic_fetch_##BUILTIN(kspec_host::aligned(address), value, __ATOMIC_RELAXED); \
  }                                                                     \
  KSPEC_SCOPES(NAME, T)
#define KSPEC_ATOMIC_UPDATE(NAME, T, EXPRESSION)                                          \
  static inline T NAME(T* address, T value) {                                            \
    return kspec_host::update(address, [value](T old) -> T { return EXPRESSION; });       \
  }                                                                                       \
  KSPEC_SCOPES(NAME, T)
#define KSPEC_ATOMIC_EXCHANGE(T)                                     \
  static inline T atomicExch(T* address, T value) {                  \
    T old;                                                           \
    kspec_host::count_spin();                                        \
    __atomic_exchange(kspec_host::aligned(address), &value, &old, __ATOMIC_SEQ_CST); \
    return old;                                                      \
  }                                                                  \
  KSPEC_SCOPES(atomicExch, T)
#define KSPEC_ATOMIC_CAS(T)                                                              \
  static inline T atomicCAS(T* address, T expected, T value) {                           \
    kspec_host::count_spin();                                                            \
    __atomic_compare_exchange_n(kspec_host::aligned(address), &expected, value, false,   \
                                __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                     \
    return expected;                                                                     \
  }                                                                                      \
  static inline T atomicCAS_block(T* address, T expected, T value) {                     \
    return atomicCAS(address, expected, value);                                          \
  }                                                                                      \
  static inline T atomicCAS_system(T* address, T expected, T value) {                    \
    return atomicCAS(address, expected, value);                                          \
  }
#define KSPEC_ATOMICS_OF_INTEGER(T)                          \
  KSPEC_ATOMIC_UPDATE(atomicMin, T, old < value ? old : value) \
  KSPEC_ATOMIC_UPDATE(atomicMax, T, old > value ? old : value) \
  KSPEC_ATOMIC(atomicAnd, T, and)                            \
  KSPEC_ATOMIC(atomicOr, T, or)                              \
  KSPEC_ATOMIC(atomicXor, T, xor)                            \
  KSPEC_ATOMIC_EXCHANGE(T)                                   \
  KSPEC_ATOMIC_CAS(T)

// Polling with atomicAdd(p, 0) is common, hence the spin count; it costs an increment.
#define KSPEC_ATOMIC_ADD(T)                                            \
  static inline T atomicAdd(T* address, T value) {                     \
    if (value == 0) kspec_host::count_spin();                          \
    return __atomic_fetch_add(kspec_host::aligned(address), value, __ATOMIC_RELAXED); \
  }                                                                    \
  KSPEC_SCOPES(atomicAdd, T)

KSPEC_ATOMIC_ADD(int)
KSPEC_ATOMIC_ADD(unsigned int)
KSPEC_ATOMIC_ADD(unsigned long long)
KSPEC_ATOMICS_OF_INTEGER(int)
KSPEC_ATOMICS_OF_INTEGER(unsigned int)
KSPEC_ATOMICS_OF_INTEGER(unsigned long long)
KSPEC_ATOMIC(atomicSub, int, sub)
KSPEC_ATOMIC(atomicSub, unsigned int, sub)
KSPEC_ATOMIC_UPDATE(atomicMin, long long, old < value ? old : value)
KSPEC_ATOMIC_UPDATE(atomicMax, long long, old > value ? old : value)
KSPEC_ATOMIC(atomicAnd, long long, and)
KSPEC_ATOMIC(atomicOr, long long, or)
KSPEC_ATOMIC(atomicXor, long long, xor)
KSPEC_ATOMIC_UPDATE(atomicInc, unsigned int, old >= value ? 0u : old + 1)
KSPEC_ATOMIC_UPDATE(atomicDec, unsigned int, (old == 0 || old > value) ? value : old - 1)
KSPEC_ATOMIC_UPDATE(atomicAdd, float, old + value)
KSPEC_ATOMIC_UPDATE(atomicAdd, double, old + value)
KSPEC_ATOMIC_EXCHANGE(float)
KSPEC_ATOMIC_CAS(unsigned short)

#undef KSPEC_SCOPES
#undef KSPEC_ATOMIC
#undef KSPEC_ATOMIC_UPDATE
#undef KSPEC_ATOMIC_EXCHANGE
#undef KSPEC_ATOMIC_CAS
#undef KSPEC_ATOMICS_OF_INTEGER
#undef KSPEC_ATOMIC_ADD
