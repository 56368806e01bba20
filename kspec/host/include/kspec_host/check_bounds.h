// The default check of accesses: -fsanitize=kernel-address (g++) or address (clang) looks at a byte
// of shadow memory (rt/shadow.h) before every load and store, and calls a hook unless that says
// "open". No sanitizer library is linked: the hooks are these, and rt/bounds.h decides. They return
// when the access is legal.
#pragma once

#include "hooks.h"

namespace kspec_host {

// The hooks are many and small: what they do is compiled once.
static KSPEC_HOST_UNCHECKED __attribute__((noinline)) void ask_bounds(
    const volatile void* address, unsigned long size, unsigned kind, const void* pc) {
  const Block* block = kspec_context.block;
  if (!block) return;  // static initialisers run before any launch
  unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  kspec_runtime->bounds(block->worker, thread, (const void*)address, size, kind, pc);
}

static KSPEC_HOST_UNCHECKED __attribute__((noinline, cold)) void misaligned_atomic(
    const volatile void* address, unsigned long size) {
  ask_bounds(address, size, ACCESS_READ | ACCESS_WRITE | ACCESS_ATOMIC, KSPEC_HOOK_CALLER);
}

}  // namespace kspec_host

#define KSPEC_HOOK_NAMED(NAME, SIZE, KIND)                                      \
  KSPEC_HOOK void NAME(void* address) {                                         \
    kspec_host::ask_bounds(address, SIZE, kspec_host::KIND, KSPEC_HOOK_CALLER); \
  }
#define KSPEC_HOOK_SIZED(NAME, KIND)                                            \
  KSPEC_HOOK void NAME(void* address, unsigned long size) {                     \
    kspec_host::ask_bounds(address, size, kspec_host::KIND, KSPEC_HOOK_CALLER); \
  }
// Beside the reports, calls that are made where the compiler found inline checks too long.
#define KSPEC_HOOKS_OF_ACCESS(ACCESS, SIZE, KIND)                  \
  KSPEC_HOOK_NAMED(__asan_report_##ACCESS##SIZE##_noabort, SIZE, KIND) \
  KSPEC_HOOK_ALIAS(__asan_report_##ACCESS##SIZE##_noabort, void,   \
                   __asan_##ACCESS##SIZE##_noabort, (void*))
#define KSPEC_HOOKS_OF_SIZE(SIZE)                \
  KSPEC_HOOKS_OF_ACCESS(load, SIZE, ACCESS_READ) \
  KSPEC_HOOKS_OF_ACCESS(store, SIZE, ACCESS_WRITE)

KSPEC_HOOKS_OF_SIZE(1)
KSPEC_HOOKS_OF_SIZE(2)
KSPEC_HOOKS_OF_SIZE(4)
KSPEC_HOOKS_OF_SIZE(8)
KSPEC_HOOKS_OF_SIZE(16)
KSPEC_HOOK_SIZED(__asan_report_load_n_noabort, ACCESS_READ)
KSPEC_HOOK_SIZED(__asan_report_store_n_noabort, ACCESS_WRITE)
KSPEC_HOOK_ALIAS(__asan_report_load_n_noabort, void, __asan_loadN_noabort, (void*, unsigned long))
KSPEC_HOOK_ALIAS(__asan_report_store_n_noabort, void, __asan_storeN_noabort,
                 (void*, unsigned long))

// The compiler's list of variables: how large they are, and how much room it gave them.
KSPEC_HOOK void __asan_register_globals(void* variables, unsigned long count) {
  kspec_host::kspec_module.variables = (const kspec_host::Variable*)variables;
  kspec_host::kspec_module.variable_count = count;
}
KSPEC_IGNORED(__asan_unregister_globals, (void*, unsigned long))
KSPEC_HOOK void __asan_register_elf_globals(unsigned long*, void* begin, void* end) {
  __asan_register_globals(begin, (kspec_host::Variable*)end - (kspec_host::Variable*)begin);
}
KSPEC_IGNORED(__asan_unregister_elf_globals, (unsigned long*, void*, void*))
KSPEC_IGNORED(__asan_init, ())
KSPEC_IGNORED(__asan_before_dynamic_init, (const void*))
KSPEC_IGNORED(__asan_after_dynamic_init, ())
KSPEC_IGNORED(__asan_handle_no_return, ())  // rt/bounds.h opens abandoned stacks anew

// Local arrays are in memory of their own (rt/locals.h). The last figure of these names says how
// much a function needs: up to 64 bytes, 128, 256, ...
extern "C" __attribute__((visibility("hidden"), used)) KSPEC_HOST_OWN int
    __asan_option_detect_stack_use_after_return = 1;

namespace kspec_host {
static KSPEC_HOST_UNCHECKED __attribute__((noinline)) void* enter_frame(
    unsigned long size, unsigned long chunk, const void* stack, const void* pc) {
  const Block* block = kspec_context.block;
  return block ? kspec_runtime->enter_frame(block->worker, size, chunk, stack, pc) : nullptr;
}
}  // namespace kspec_host

KSPEC_HOOK void kspec_leave_frame(void* frame, unsigned long size) {
  kspec_runtime->leave_frame(frame, size);
}
#define KSPEC_HOOKS_OF_FRAME(FIGURE)                                                         \
  KSPEC_HOOK void* __asan_stack_malloc_##FIGURE(unsigned long size) {                        \
    return kspec_host::enter_frame(size, 64ul << FIGURE, __builtin_frame_address(0),         \
                                   KSPEC_HOOK_CALLER);                                       \
  }                                                                                          \
  KSPEC_HOOK_ALIAS(__asan_stack_malloc_##FIGURE, void*, __asan_stack_malloc_always_##FIGURE, \
                   (unsigned long))                                                          \
  KSPEC_HOOK_ALIAS(kspec_leave_frame, void, __asan_stack_free_##FIGURE, (void*, unsigned long))
KSPEC_HOOKS_OF_FRAME(0)
KSPEC_HOOKS_OF_FRAME(1)
KSPEC_HOOKS_OF_FRAME(2)
KSPEC_HOOKS_OF_FRAME(3)
KSPEC_HOOKS_OF_FRAME(4)
KSPEC_HOOKS_OF_FRAME(5)
KSPEC_HOOKS_OF_FRAME(6)
KSPEC_HOOKS_OF_FRAME(7)
KSPEC_HOOKS_OF_FRAME(8)
KSPEC_HOOKS_OF_FRAME(9)
KSPEC_HOOKS_OF_FRAME(10)

#if defined(__clang__)
// clang marks large arrays on stacks by calls.
#define KSPEC_HOOK_MARK(VALUE)                                                       \
  KSPEC_HOOK void __asan_set_shadow_##VALUE(unsigned char* shadow, unsigned long size) { \
    for (unsigned long i = 0; i < size; i++)                                         \
      ((volatile unsigned char*)shadow)[i] = 0x##VALUE;                              \
  }
KSPEC_HOOK_MARK(00)
KSPEC_HOOK_MARK(f1)
KSPEC_HOOK_MARK(f2)
KSPEC_HOOK_MARK(f3)
KSPEC_HOOK_MARK(f5)
KSPEC_HOOK_MARK(f8)
#endif
KSPEC_IGNORED(__asan_alloca_poison, (unsigned long, unsigned long))
KSPEC_IGNORED(__asan_allocas_unpoison, (unsigned long, unsigned long))

// ------------------------------------------------------------------------- the C library

// Functions of the C library are not compiled with checks: those that follow a pointer are linked
// as these (-Wl,--wrap), which check what it points to.

namespace kspec_host {
static KSPEC_HOST_UNCHECKED __attribute__((noinline)) void ask_two(
    const void* to, const void* from, unsigned long size, const void* pc) {
  if (from) ask_bounds(from, size, ACCESS_READ, pc);
  ask_bounds(to, size, ACCESS_WRITE, pc);
}
}  // namespace kspec_host

KSPEC_WRAPPED(void*, memcpy, (void* to, const void* from, unsigned long size)) {
  if (size) kspec_host::ask_two(to, from, size, KSPEC_HOOK_CALLER);
  return __real_memcpy(to, from, size);
}
KSPEC_WRAPPED(void*, memmove, (void* to, const void* from, unsigned long size)) {
  if (size) kspec_host::ask_two(to, from, size, KSPEC_HOOK_CALLER);
  return __real_memmove(to, from, size);
}
KSPEC_WRAPPED(void*, memset, (void* to, int value, unsigned long size)) {
  if (size) kspec_host::ask_two(to, nullptr, size, KSPEC_HOOK_CALLER);
  return __real_memset(to, value, size);
}
#if defined(__clang__)
// What clang makes of copies in instrumented code.
KSPEC_HOOK void* __asan_memcpy(void* to, const void* from, unsigned long size) {
  if (size) kspec_host::ask_two(to, from, size, KSPEC_HOOK_CALLER);
  return __real_memcpy(to, from, size);
}
KSPEC_HOOK void* __asan_memmove(void* to, const void* from, unsigned long size) {
  if (size) kspec_host::ask_two(to, from, size, KSPEC_HOOK_CALLER);
  return __real_memmove(to, from, size);
}
KSPEC_HOOK void* __asan_memset(void* to, int value, unsigned long size) {
  if (size) kspec_host::ask_two(to, nullptr, size, KSPEC_HOOK_CALLER);
  return __real_memset(to, value, size);
}
#endif
#define KSPEC_WRAPPED_MATH(T, SUFFIX)                                                       \
  KSPEC_WRAPPED(void, sincos##SUFFIX, (T x, T* sine, T* cosine)) {                          \
    kspec_host::ask_two(sine, nullptr, sizeof(T), KSPEC_HOOK_CALLER);                       \
    kspec_host::ask_two(cosine, nullptr, sizeof(T), KSPEC_HOOK_CALLER);                     \
    __real_sincos##SUFFIX(x, sine, cosine);                                                 \
  }                                                                                         \
  KSPEC_WRAPPED(T, modf##SUFFIX, (T x, T* whole)) {                                         \
    kspec_host::ask_two(whole, nullptr, sizeof(T), KSPEC_HOOK_CALLER);                      \
    return __real_modf##SUFFIX(x, whole);                                                   \
  }                                                                                         \
  KSPEC_WRAPPED(T, frexp##SUFFIX, (T x, int* exponent)) {                                   \
    kspec_host::ask_two(exponent, nullptr, sizeof(int), KSPEC_HOOK_CALLER);                 \
    return __real_frexp##SUFFIX(x, exponent);                                               \
  }                                                                                         \
  KSPEC_WRAPPED(T, remquo##SUFFIX, (T x, T y, int* quotient)) {                             \
    kspec_host::ask_two(quotient, nullptr, sizeof(int), KSPEC_HOOK_CALLER);                 \
    return __real_remquo##SUFFIX(x, y, quotient);                                           \
  }
KSPEC_WRAPPED_MATH(double, )
KSPEC_WRAPPED_MATH(float, f)

#undef KSPEC_WRAPPED_MATH
#undef KSPEC_HOOK_MARK
#undef KSPEC_HOOKS_OF_FRAME
#undef KSPEC_HOOKS_OF_SIZE
#undef KSPEC_HOOKS_OF_ACCESS
#undef KSPEC_HOOK_SIZED
#undef KSPEC_HOOK_NAMED
