// CUDA's keywords, and what the rest of the dialect is written with.
#pragma once

typedef __SIZE_TYPE__ size_t;
typedef __PTRDIFF_TYPE__ ptrdiff_t;
#ifndef NULL
#define NULL __null
#endif

#if KSPEC_HOST_REWRITE  // defined, and still words that compiler/rewrite.py finds
#define __global__ __global__
#define __device__ __device__
#define __host__ __host__
#define __managed__ __managed__
#define __constant__ __constant__
#define __grid_constant__ __grid_constant__
#define __launch_bounds__ __launch_bounds__
#define __cluster_dims__ __cluster_dims__
#define __maxnreg__ __maxnreg__
#define __align__ __align__
#define __builtin_align__ __builtin_align__
#define __device_builtin__ __device_builtin__
#define __forceinline__ __forceinline__
#define __inline_hint__ __inline_hint__
#define __shared__ __shared__
#else
#include "rewritten.h"
#endif
#ifndef __restrict__
#define __restrict__ __restrict
#endif

#if !defined(__clang__)
#define __builtin_assume(...) ((void)0)
#endif

// Default arguments that carry the call site into the runtime, for messages.
#define KSPEC_HOST_SITE \
  const char* kspec_file = __builtin_FILE(), int kspec_line = __builtin_LINE()
#define KSPEC_HOST_HERE \
  ::kspec_host::Site { kspec_file, kspec_line }

// What compiler/host/preprocess.py writes for __CUDACC__ and its relatives.
#define KSPEC_CUDA 1
#define KSPEC_CUDA_VER_MAJOR 12
#define KSPEC_CUDA_VER_MINOR 0
#define KSPEC_CUDARCH 700

// libcu++ leaves out types whose headers are the toolkit's, which would come with all others.
#define CCCL_DISABLE_NVFP8_SUPPORT

#include "unchecked.h"

#if KSPEC_HOST_CHECK_BOUNDS
// A variable of the dialect, which kernels must not write.
#define KSPEC_HOST_OWN __attribute__((section("kspec_own")))
#else
#define KSPEC_HOST_OWN
#endif

namespace kspec_host {

// The few type traits the shim needs; <type_traits> would cost 10 ms.
template <class T> struct Identity { typedef T type; };
template <class T> using NotDeduced = typename Identity<T>::type;
template <class T> struct RemoveConst { typedef T type; };
template <class T> struct RemoveConst<const T> { typedef T type; };
template <class T> struct Never { enum { value = false }; };
template <bool, class T = void> struct EnableIf {};
template <class T> struct EnableIf<true, T> { typedef T type; };

}  // namespace kspec_host
