// Instrumented builds (sanitize=): the dialect's own bookkeeping is no access of the kernel.
#pragma once

#if KSPEC_HOST_REVIEW && defined(__clang__)
#define KSPEC_HOST_UNCHECKED \
  __attribute__((disable_sanitizer_instrumentation, no_sanitize("coverage")))
#elif KSPEC_HOST_REVIEW
#define KSPEC_HOST_UNCHECKED __attribute__((no_sanitize("thread"), no_sanitize_coverage))
#elif KSPEC_HOST_CHECK_ACCESS && defined(__clang__)
// no_sanitize would leave the atomics instrumented.
#define KSPEC_HOST_UNCHECKED __attribute__((disable_sanitizer_instrumentation))
#elif KSPEC_HOST_CHECK_ACCESS
#define KSPEC_HOST_UNCHECKED __attribute__((no_sanitize("thread")))
#elif KSPEC_HOST_CHECK_BOUNDS && defined(__clang__)
#define KSPEC_HOST_UNCHECKED __attribute__((no_sanitize("address")))
#elif KSPEC_HOST_CHECK_BOUNDS
#define KSPEC_HOST_UNCHECKED __attribute__((no_sanitize("kernel-address")))
#else
#define KSPEC_HOST_UNCHECKED
#endif
