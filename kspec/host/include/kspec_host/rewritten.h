// What compiler/rewrite.py writes into a preprocessed text, and CUDA's keywords, which are macros
// only now: until here they had to be seen. No macro of the user's is left to clash with these.
#pragma once

#include "unchecked.h"

#define __global__
#define __device__
#define __host__
#define __managed__
#define __constant__
#define __grid_constant__
#define __launch_bounds__(...)
#define __maxnreg__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_align__(n) __attribute__((aligned(n)))
#define __device_builtin__
#define __forceinline__ inline __attribute__((always_inline))
#define __inline_hint__ inline
// What the rewriter leaves: templates of variables. One for each operating-system thread is one for
// each block, since a thread runs one block at a time; except in cooperative launches.
#define __shared__ thread_local

#define KSPEC_HOST_SHARED(TYPE, NAME, TAG) \
  struct TAG;                              \
  TYPE& NAME = ::kspec_host::kspec_shared<TYPE, TAG>(alignof(TYPE), #NAME);
#define KSPEC_HOST_DYNAMIC_SHARED(TYPE, NAME) TYPE& NAME = ::kspec_host::kspec_dynamic_shared<TYPE>();
#if KSPEC_HOST_CHECK_BOUNDS
#define KSPEC_HOST_OWN __attribute__((section("kspec_own")))  // as in dialect.h
// What compiler/host/loops writes: functions that are not instrumented.
#if defined(__clang__)
#define KSPEC_HOST_LOOPS static inline __attribute__((always_inline, no_sanitize("address", "object-size")))
#else
#define KSPEC_HOST_LOOPS \
  static inline __attribute__((always_inline, no_sanitize("kernel-address,object-size")))
#endif
#else
#define KSPEC_HOST_OWN
#endif
// Outside functions: a reference, and a pointer of the same address, which each new block sets. It
// has to be __thread, whose uses cannot wait for an initial value.
#define KSPEC_HOST_FILE_REFERENCE(TYPE, NAME, NUMBER)                                             \
  __attribute__((visibility("hidden"))) __thread TYPE* kspec_at_##NAME __asm__("kspec_shared_" #NUMBER); \
  extern __attribute__((visibility("hidden"))) __thread TYPE& NAME __asm__("kspec_shared_" #NUMBER);
#define KSPEC_HOST_FILE_SHARED(TYPE, NAME, NUMBER)                                                \
  KSPEC_HOST_FILE_REFERENCE(TYPE, NAME, NUMBER)                                                   \
  struct kspec_tag_##NAME;                                                                        \
  KSPEC_HOST_OWN static ::kspec_host::KspecFileShared kspec_file_##NAME(                          \
      sizeof(TYPE), alignof(TYPE), [](::kspec_host::Block*) {                                     \
        kspec_at_##NAME = &::kspec_host::kspec_shared<TYPE, kspec_tag_##NAME>(alignof(TYPE), #NAME); \
      });
#define KSPEC_HOST_FILE_DYNAMIC_SHARED(TYPE, NAME, NUMBER)                                        \
  KSPEC_HOST_FILE_REFERENCE(TYPE, NAME, NUMBER)                                                   \
  KSPEC_HOST_OWN static ::kspec_host::KspecFileShared kspec_file_##NAME(                          \
      0, 0, [](::kspec_host::Block* kspec_block) {                                                \
        kspec_at_##NAME = (TYPE*)kspec_block->dynamic_shared;                                     \
      });

#define KSPEC_HOST_EXPORT extern "C" __attribute__((visibility("default"), used))
#define KSPEC_HOST_KERNEL(NUMBER, ...)                                                        \
  KSPEC_HOST_EXPORT KSPEC_HOST_UNCHECKED void kspec_entry_##NUMBER(int kspec_call,            \
                                                                   void* kspec_block) {       \
    ::kspec_host::KspecKernel<__VA_ARGS__>::kspec_run(kspec_call, kspec_block);               \
  }                                                                                           \
  KSPEC_HOST_EXPORT const unsigned* kspec_sizes_##NUMBER() {                                  \
    return ::kspec_host::KspecKernel<__VA_ARGS__>::kspec_sizes;                               \
  }
#define KSPEC_HOST_GLOBAL(NUMBER, ...)                                                        \
  KSPEC_HOST_EXPORT void* kspec_global_##NUMBER() { return (void*)&(__VA_ARGS__); }           \
  KSPEC_HOST_EXPORT unsigned long kspec_global_size_##NUMBER() { return sizeof(__VA_ARGS__); }
#define KSPEC_HOST_CONSTANT(NUMBER, ...)  \
  KSPEC_HOST_GLOBAL(NUMBER, __VA_ARGS__) \
  KSPEC_HOST_EXPORT bool kspec_constant_##NUMBER() { return true; }
