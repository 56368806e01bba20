// Checked builds (sanitize="memory", "race", "init"): the compiler's -fsanitize=thread puts a call
// before every load and store that others may see. No sanitizer library is linked; the functions
// it would call are these, and they hand each access to the runtime (rt/check.h).
#pragma once

#include "hooks.h"

namespace kspec_host {

static inline KSPEC_HOST_UNCHECKED __attribute__((always_inline)) void report_access(
    const volatile void* address, unsigned long size, unsigned kind, const void* pc) {
  const Block* block = kspec_context.block;
  if (!block) return;  // static initialisers run before any launch
  unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  kspec_runtime->access(block->worker, thread, (const void*)address, size, kind, pc);
}

// The memory_order of the C++ standard, as compilers number it.
static inline __attribute__((always_inline)) unsigned order_kind(int order) {
  unsigned acquires = order == 1 || order == 2 || order == 4 || order == 5;
  unsigned releases = order == 3 || order == 4 || order == 5;
  return ACCESS_ATOMIC | acquires * ACCESS_ACQUIRE | releases * ACCESS_RELEASE;
}

enum { ACCESS_UPDATE = ACCESS_READ | ACCESS_WRITE };

}  // namespace kspec_host

#define KSPEC_HOOK_ACCESS(NAME, SIZE, KIND)                                               \
  KSPEC_HOOK void NAME(void* address) {                                                   \
    kspec_host::report_access(address, SIZE, kspec_host::KIND, KSPEC_HOOK_CALLER);        \
  }
#define KSPEC_HOOK_VOLATILE(NAME, SIZE, KIND)                                             \
  KSPEC_HOOK void NAME(void* address) {                                                   \
    kspec_host::report_access(address, SIZE, kspec_host::KIND | kspec_host::ACCESS_VOLATILE, \
                              KSPEC_HOOK_CALLER);                                         \
  }
#define KSPEC_HOOKS_OF_ALIGNMENTS(HOOK, NAME, SIZE, KIND) \
  HOOK(__tsan_##NAME##SIZE, SIZE, KIND)                  \
  KSPEC_HOOK_ALIAS(__tsan_##NAME##SIZE, void, __tsan_unaligned_##NAME##SIZE, (void*))
#define KSPEC_HOOKS_OF_SIZE(SIZE)                                                       \
  KSPEC_HOOKS_OF_ALIGNMENTS(KSPEC_HOOK_ACCESS, read, SIZE, ACCESS_READ)                 \
  KSPEC_HOOKS_OF_ALIGNMENTS(KSPEC_HOOK_ACCESS, write, SIZE, ACCESS_WRITE)               \
  KSPEC_HOOKS_OF_ALIGNMENTS(KSPEC_HOOK_ACCESS, read_write, SIZE, ACCESS_UPDATE)         \
  KSPEC_HOOKS_OF_ALIGNMENTS(KSPEC_HOOK_VOLATILE, volatile_read, SIZE, ACCESS_READ)      \
  KSPEC_HOOKS_OF_ALIGNMENTS(KSPEC_HOOK_VOLATILE, volatile_write, SIZE, ACCESS_WRITE)

KSPEC_HOOKS_OF_SIZE(1)
KSPEC_HOOKS_OF_SIZE(2)
KSPEC_HOOKS_OF_SIZE(4)
KSPEC_HOOKS_OF_SIZE(8)
KSPEC_HOOKS_OF_SIZE(16)

KSPEC_HOOK void __tsan_read_range(void* address, unsigned long size) {
  kspec_host::report_access(address, size, kspec_host::ACCESS_READ, KSPEC_HOOK_CALLER);
}
KSPEC_HOOK void __tsan_write_range(void* address, unsigned long size) {
  kspec_host::report_access(address, size, kspec_host::ACCESS_WRITE, KSPEC_HOOK_CALLER);
}

// Functions of the C library, which g++ does not instrument: they are linked as these, and clang
// calls them by names of its own. In reviews only the latter are, as copies of large structs count
// once.
#if KSPEC_HOST_REVIEW
#define KSPEC_COPYING(RESULT, NAME, PARAMETERS) KSPEC_HOOK RESULT __tsan_##NAME PARAMETERS
#define KSPEC_PLAIN(NAME) __builtin_##NAME
#else
#define KSPEC_COPYING(RESULT, NAME, PARAMETERS)                             \
  extern "C" RESULT __tsan_##NAME PARAMETERS                                \
      __attribute__((visibility("hidden"), alias("__wrap_" #NAME))); \
  KSPEC_WRAPPED(RESULT, NAME, PARAMETERS)
#define KSPEC_PLAIN(NAME) __real_##NAME
#endif

namespace kspec_host {
static inline KSPEC_HOST_UNCHECKED void report_copy(const void* to, const void* from,
                                                    unsigned long size, const void* pc) {
  if (!size) return;
  if (from) report_access(from, size, ACCESS_READ, pc);
  report_access(to, size, ACCESS_WRITE, pc);
}
}  // namespace kspec_host

KSPEC_COPYING(void*, memcpy, (void* to, const void* from, unsigned long size)) {
  kspec_host::report_copy(to, from, size, KSPEC_HOOK_CALLER);
  return KSPEC_PLAIN(memcpy)(to, from, size);
}
KSPEC_COPYING(void*, memmove, (void* to, const void* from, unsigned long size)) {
  kspec_host::report_copy(to, from, size, KSPEC_HOOK_CALLER);
  return KSPEC_PLAIN(memmove)(to, from, size);
}
KSPEC_COPYING(void*, memset, (void* to, int value, unsigned long size)) {
  kspec_host::report_copy(to, nullptr, size, KSPEC_HOOK_CALLER);
  return KSPEC_PLAIN(memset)(to, value, size);
}
#undef KSPEC_COPYING
#undef KSPEC_PLAIN

// What else instrumentation calls, and we do not need.
KSPEC_IGNORED(__tsan_init, ())
#if !KSPEC_HOST_REVIEW
KSPEC_IGNORED(__tsan_func_entry, (void*))
KSPEC_IGNORED(__tsan_func_exit, ())
#endif
KSPEC_IGNORED(__tsan_vptr_update, (void**, void*))
KSPEC_IGNORED(__tsan_vptr_read, (void**))
KSPEC_IGNORED(__tsan_ignore_thread_begin, ())
KSPEC_IGNORED(__tsan_ignore_thread_end, ())
KSPEC_IGNORED(__tsan_atomic_signal_fence, (int))

// ------------------------------------------------------------------------- atomics

#define KSPEC_HOOK_UPDATE(BITS, T, NAME)                                                       \
  KSPEC_HOOK T __tsan_atomic##BITS##_##NAME(volatile T* address, T value, int order) {         \
    kspec_host::report_access(address, sizeof(T),                                              \
                              kspec_host::ACCESS_UPDATE | kspec_host::order_kind(order),       \
                              KSPEC_HOOK_CALLER);                                              \
    return __atomic_##NAME(address, value, __ATOMIC_SEQ_CST);                                  \
  }
// A failed compare-and-swap only reads.
#define KSPEC_HOOK_COMPARE(BITS, T, NAME)                                                      \
  KSPEC_HOOK int __tsan_atomic##BITS##_compare_exchange_##NAME(volatile T* address, T* expected, \
                                                               T value, int order, int) {      \
    bool will = __atomic_load_n(address, __ATOMIC_RELAXED) == *expected;                       \
    kspec_host::report_access(                                                                 \
        address, sizeof(T),                                                                    \
        (will ? kspec_host::ACCESS_UPDATE : kspec_host::ACCESS_READ) |                         \
            kspec_host::ACCESS_COMPARE | kspec_host::order_kind(order), KSPEC_HOOK_CALLER);    \
    return __atomic_compare_exchange_n(address, expected, value, false, __ATOMIC_SEQ_CST,      \
                                       __ATOMIC_SEQ_CST);                                      \
  }
#define KSPEC_HOOKS_OF_ATOMIC(BITS, T)                                                         \
  KSPEC_HOOK T __tsan_atomic##BITS##_load(const volatile T* address, int order) {              \
    kspec_host::report_access(address, sizeof(T),                                              \
                              kspec_host::ACCESS_READ | kspec_host::order_kind(order),         \
                              KSPEC_HOOK_CALLER);                                              \
    return __atomic_load_n(address, __ATOMIC_SEQ_CST);                                         \
  }                                                                                            \
  KSPEC_HOOK void __tsan_atomic##BITS##_store(volatile T* address, T value, int order) {       \
    kspec_host::report_access(address, sizeof(T),                                              \
                              kspec_host::ACCESS_WRITE | kspec_host::order_kind(order),        \
                              KSPEC_HOOK_CALLER);                                              \
    __atomic_store_n(address, value, __ATOMIC_SEQ_CST);                                        \
  }                                                                                            \
  KSPEC_HOOK T __tsan_atomic##BITS##_exchange(volatile T* address, T value, int order) {       \
    kspec_host::report_access(address, sizeof(T),                                              \
                              kspec_host::ACCESS_UPDATE | kspec_host::order_kind(order),       \
                              KSPEC_HOOK_CALLER);                                              \
    return __atomic_exchange_n(address, value, __ATOMIC_SEQ_CST);                              \
  }                                                                                            \
  KSPEC_HOOK_UPDATE(BITS, T, fetch_add)                                                        \
  KSPEC_HOOK_UPDATE(BITS, T, fetch_sub)                                                        \
  KSPEC_HOOK_UPDATE(BITS, T, fetch_and)                                                        \
  KSPEC_HOOK_UPDATE(BITS, T, fetch_or)                                                         \
  KSPEC_HOOK_UPDATE(BITS, T, fetch_xor)                                                        \
  KSPEC_HOOK_COMPARE(BITS, T, strong)                                                          \
  KSPEC_HOOK_COMPARE(BITS, T, weak)                                                            \
  KSPEC_HOOK T __tsan_atomic##BITS##_compare_exchange_val(volatile T* address, T expected,     \
                                                          T value, int order, int) {           \
    bool will = __atomic_load_n(address, __ATOMIC_RELAXED) == expected;                        \
    kspec_host::report_access(                                                                 \
        address, sizeof(T),                                                                    \
        (will ? kspec_host::ACCESS_UPDATE : kspec_host::ACCESS_READ) |                         \
            kspec_host::ACCESS_COMPARE | kspec_host::order_kind(order), KSPEC_HOOK_CALLER);    \
    __atomic_compare_exchange_n(address, &expected, value, false, __ATOMIC_SEQ_CST,            \
                                __ATOMIC_SEQ_CST);                                             \
    return expected;                                                                           \
  }

KSPEC_HOOKS_OF_ATOMIC(8, unsigned char)
KSPEC_HOOKS_OF_ATOMIC(16, unsigned short)
KSPEC_HOOKS_OF_ATOMIC(32, unsigned int)
KSPEC_HOOKS_OF_ATOMIC(64, unsigned long)

KSPEC_HOOK void __tsan_atomic_thread_fence(int) {
  const kspec_host::Block* block = kspec_context.block;
  if (block) kspec_runtime->fence(block->worker, kspec_host::thread_rank());
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

#undef KSPEC_HOOK_ACCESS
#undef KSPEC_HOOK_VOLATILE
#undef KSPEC_HOOKS_OF_ALIGNMENTS
#undef KSPEC_HOOKS_OF_SIZE
#undef KSPEC_HOOK_UPDATE
#undef KSPEC_HOOK_COMPARE
#undef KSPEC_HOOKS_OF_ATOMIC
