// CUDA's keywords. (compiler/rewrite.py handles __noinline__, and __shared__ inside functions.)
#pragma once

typedef __SIZE_TYPE__ size_t;
typedef __PTRDIFF_TYPE__ ptrdiff_t;
#ifndef NULL
#define NULL __null
#endif

#define __global__
#define __device__
#define __host__
#define __managed__
#define __constant__
#define __grid_constant__
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __maxnreg__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __forceinline__ inline __attribute__((always_inline))
#define __inline_hint__ inline
#ifndef __restrict__
#define __restrict__ __restrict
#endif
// What the rewriter leaves: file scope and macros. One variable per operating-system thread is one
// per block, since a thread runs one block at a time.
#define __shared__ thread_local

#if !defined(__clang__)
#define __builtin_assume(...) ((void)0)
#endif

// Default arguments that carry the call site into the runtime, for messages.
#define KSPEC_HOST_SITE \
  const char* kspec_file = __builtin_FILE(), int kspec_line = __builtin_LINE()
#define KSPEC_HOST_HERE \
  ::kspec_host::Site { kspec_file, kspec_line }

// Instrumented builds (sanitize=): the dialect's own bookkeeping is no access of the kernel.
#if KSPEC_HOST_CHECK_ACCESS && defined(__clang__)
// no_sanitize would leave the atomics instrumented.
#define KSPEC_HOST_UNCHECKED __attribute__((disable_sanitizer_instrumentation))
#elif KSPEC_HOST_CHECK_ACCESS
#define KSPEC_HOST_UNCHECKED __attribute__((no_sanitize("thread")))
#else
#define KSPEC_HOST_UNCHECKED
#endif

#define KSPEC_HOST_EXPORT extern "C" __attribute__((visibility("default"), used))

namespace kspec_host {

// The few type traits the shim needs; <type_traits> would cost 10 ms.
template <class T> struct Identity { typedef T type; };
template <class T> using NotDeduced = typename Identity<T>::type;
template <class T> struct RemoveConst { typedef T type; };
template <class T> struct RemoveConst<const T> { typedef T type; };
template <bool, class T = void> struct EnableIf {};
template <class T> struct EnableIf<true, T> { typedef T type; };

}  // namespace kspec_host
