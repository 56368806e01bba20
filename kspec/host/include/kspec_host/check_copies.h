// Checked builds: copies whose size the compiler can compare with the variable they are about. It
// would leave out those that nothing reads, and checks of accesses leave out a thread's own stack.
#pragma once

#include "hooks.h"

namespace kspec_host {
static KSPEC_HOST_UNCHECKED __attribute__((noinline, cold)) void copy_beside(
    const void* address, unsigned long size, unsigned kind) {
#if KSPEC_HOST_CHECK_BOUNDS
  ask_bounds(address, size, kind, KSPEC_HOOK_CALLER);
#else
  if (!kspec_context.block) return;
  kspec_runtime->undefined(caller(), kind & ACCESS_WRITE ? UNDEFINED_WRITE : UNDEFINED_READ,
                           KSPEC_HOOK_CALLER, (unsigned long)address, size);
#endif
}
}  // namespace kspec_host

// Another name, so that no compiler takes it for what it knows: the linker puts the checked one here.
#if KSPEC_HOST_CHECK_BOUNDS
#define KSPEC_COPY(NAME) __builtin_##NAME
#else
extern "C" void* kspec_plain_memset(void*, int, unsigned long) __asm__("memset");
extern "C" void* kspec_plain_memcpy(void*, const void*, unsigned long) __asm__("memcpy");
extern "C" void* kspec_plain_memmove(void*, const void*, unsigned long) __asm__("memmove");
#define KSPEC_COPY(NAME) kspec_plain_##NAME
#endif
#define KSPEC_FITS(ADDRESS, KIND)                                 \
  if (__builtin_expect(size > __builtin_object_size(ADDRESS, 0), 0)) \
    kspec_host::copy_beside(ADDRESS, size, kspec_host::KIND)
#define KSPEC_SIZED extern "C" inline __attribute__((gnu_inline, always_inline, artificial))

KSPEC_SIZED void* memset(void* to, int value, unsigned long size) noexcept {
  KSPEC_FITS(to, ACCESS_WRITE);
  return KSPEC_COPY(memset)(to, value, size);
}
KSPEC_SIZED void* memcpy(void* to, const void* from, unsigned long size) noexcept {
  KSPEC_FITS(from, ACCESS_READ);
  KSPEC_FITS(to, ACCESS_WRITE);
  return KSPEC_COPY(memcpy)(to, from, size);
}
KSPEC_SIZED void* memmove(void* to, const void* from, unsigned long size) noexcept {
  KSPEC_FITS(from, ACCESS_READ);
  KSPEC_FITS(to, ACCESS_WRITE);
  return KSPEC_COPY(memmove)(to, from, size);
}

#undef KSPEC_SIZED
#undef KSPEC_FITS
#undef KSPEC_COPY
