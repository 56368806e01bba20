// Integers of fixed width: those of 64 bits are `long long`, as NVRTC's are. The C library's are
// `long` in Linux, a type of its own, for which CUDA has fewer functions.
#pragma once

#if !KSPEC_HOST  // the runtime, which is C++ of the host
#include_next <stdint.h>
#else

#define int64_t kspec_libc_int64_t
#define uint64_t kspec_libc_uint64_t
#define int_least64_t kspec_libc_int_least64_t
#define uint_least64_t kspec_libc_uint_least64_t
#define int_fast64_t kspec_libc_int_fast64_t
#define uint_fast64_t kspec_libc_uint_fast64_t
#define intptr_t kspec_libc_intptr_t
#define uintptr_t kspec_libc_uintptr_t
#define intmax_t kspec_libc_intmax_t
#define uintmax_t kspec_libc_uintmax_t
#include_next <stdint.h>
#undef int64_t
#undef uint64_t
#undef int_least64_t
#undef uint_least64_t
#undef int_fast64_t
#undef uint_fast64_t
#undef intptr_t
#undef uintptr_t
#undef intmax_t
#undef uintmax_t

typedef long long int64_t, int_least64_t, int_fast64_t, intptr_t, intmax_t;
typedef unsigned long long uint64_t, uint_least64_t, uint_fast64_t, uintptr_t, uintmax_t;

#undef INT64_MIN
#undef INT64_MAX
#undef UINT64_MAX
#undef INTPTR_MIN
#undef INTPTR_MAX
#undef UINTPTR_MAX
#undef INTMAX_MIN
#undef INTMAX_MAX
#undef UINTMAX_MAX
#undef INT64_C
#undef UINT64_C
#undef INTMAX_C
#undef UINTMAX_C
#define INT64_MIN (-9223372036854775807LL - 1)
#define INT64_MAX 9223372036854775807LL
#define UINT64_MAX 18446744073709551615ULL
#define INTPTR_MIN INT64_MIN
#define INTPTR_MAX INT64_MAX
#define UINTPTR_MAX UINT64_MAX
#define INTMAX_MIN INT64_MIN
#define INTMAX_MAX INT64_MAX
#define UINTMAX_MAX UINT64_MAX
#define INT64_C(VALUE) VALUE##LL
#define UINT64_C(VALUE) VALUE##ULL
#define INTMAX_C(VALUE) VALUE##LL
#define UINTMAX_C(VALUE) VALUE##ULL
#endif
