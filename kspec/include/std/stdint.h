// Integers of fixed width, without libcu++: that halves the time. The types must be libcu++'s, for
// it defines the same names in the same namespace.
#pragma once

#define KSPEC_INTEGERS(BITS, TYPE)                            \
  typedef signed TYPE int##BITS##_t;                          \
  typedef signed TYPE int_fast##BITS##_t, int_least##BITS##_t; \
  typedef unsigned TYPE uint##BITS##_t;                       \
  typedef unsigned TYPE uint_fast##BITS##_t, uint_least##BITS##_t;
KSPEC_INTEGERS(8, char)
KSPEC_INTEGERS(16, short)
KSPEC_INTEGERS(32, int)
KSPEC_INTEGERS(64, long long)
#undef KSPEC_INTEGERS

typedef int64_t intptr_t, intmax_t;
typedef uint64_t uintptr_t, uintmax_t;

#ifndef INT8_MAX
#define INT8_MIN (-128)
#define INT16_MIN (-32768)
#define INT32_MIN (-2147483647 - 1)
#define INT64_MIN (-9223372036854775807LL - 1)
#define INT8_MAX 127
#define INT16_MAX 32767
#define INT32_MAX 2147483647
#define INT64_MAX 9223372036854775807LL
#define UINT8_MAX 255
#define UINT16_MAX 65535
#define UINT32_MAX 4294967295U
#define UINT64_MAX 18446744073709551615ULL
#define INTPTR_MIN INT64_MIN
#define INTPTR_MAX INT64_MAX
#define UINTPTR_MAX UINT64_MAX
#define INTMAX_MIN INT64_MIN
#define INTMAX_MAX INT64_MAX
#define UINTMAX_MAX UINT64_MAX
#define INT8_C(VALUE) VALUE
#define INT16_C(VALUE) VALUE
#define INT32_C(VALUE) VALUE
#define INT64_C(VALUE) VALUE##LL
#define UINT8_C(VALUE) VALUE
#define UINT16_C(VALUE) VALUE
#define UINT32_C(VALUE) VALUE##U
#define UINT64_C(VALUE) VALUE##ULL
#define INTMAX_C(VALUE) VALUE##LL
#define UINTMAX_C(VALUE) VALUE##ULL
#endif
#ifndef SIZE_MAX  // libcu++ has had it since CCCL 3.0
#define PTRDIFF_MIN INT64_MIN
#define PTRDIFF_MAX INT64_MAX
#define SIZE_MAX UINT64_MAX
#endif
