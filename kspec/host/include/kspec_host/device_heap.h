// malloc(), free(), new and delete of kernels: the heap of the device (rt/heap.h), in all modes.
#pragma once

#include "hooks.h"

#if KSPEC_HOST_STD
#include <new>
#else
inline void* operator new(unsigned long, void* memory) noexcept { return memory; }
inline void* operator new[](unsigned long, void* memory) noexcept { return memory; }
#endif

namespace kspec_host {

static inline KSPEC_HOST_UNCHECKED void* allocate(unsigned long size, unsigned long alignment,
                                                   const void* pc) {
  const Block* block = kspec_context.block;
  return block ? kspec_runtime->allocate(block->worker, size, alignment, pc) : nullptr;
}

static inline KSPEC_HOST_UNCHECKED void release(void* memory, const void* pc) {
  if (!memory || !kspec_context.block) return;
  Caller here = caller();
  kspec_runtime->release(here.worker, here.thread, memory, pc);
}

}  // namespace kspec_host

KSPEC_WRAPPED(void*, malloc, (unsigned long size)) {
  return kspec_host::allocate(size, 16, KSPEC_HOOK_CALLER);
}
KSPEC_WRAPPED(void*, _ZnwmSt11align_val_t, (unsigned long size, unsigned long alignment)) {
  return kspec_host::allocate(size, alignment, KSPEC_HOOK_CALLER);
}
KSPEC_WRAPPED(void, free, (void* memory)) { kspec_host::release(memory, KSPEC_HOOK_CALLER); }

// The mangled names of new and delete: of arrays or not, of a size, aligned, nothrow. These leave
// what else they are given alone.
#define KSPEC_ALLOCATES(NAME) KSPEC_WRAPPED_ALIAS(malloc, void*, NAME, (unsigned long))
#define KSPEC_ALLOCATES_ALIGNED(NAME) \
  KSPEC_WRAPPED_ALIAS(_ZnwmSt11align_val_t, void*, NAME, (unsigned long, unsigned long))
#define KSPEC_RELEASES(NAME) KSPEC_WRAPPED_ALIAS(free, void, NAME, (void*))
KSPEC_ALLOCATES(_Znwm)
KSPEC_ALLOCATES(_Znam)
KSPEC_ALLOCATES(_ZnwmRKSt9nothrow_t)
KSPEC_ALLOCATES(_ZnamRKSt9nothrow_t)
KSPEC_ALLOCATES_ALIGNED(_ZnamSt11align_val_t)
KSPEC_ALLOCATES_ALIGNED(_ZnwmSt11align_val_tRKSt9nothrow_t)
KSPEC_ALLOCATES_ALIGNED(_ZnamSt11align_val_tRKSt9nothrow_t)
KSPEC_RELEASES(_ZdlPv)
KSPEC_RELEASES(_ZdaPv)
KSPEC_RELEASES(_ZdlPvm)
KSPEC_RELEASES(_ZdaPvm)
KSPEC_RELEASES(_ZdlPvSt11align_val_t)
KSPEC_RELEASES(_ZdaPvSt11align_val_t)
KSPEC_RELEASES(_ZdlPvmSt11align_val_t)
KSPEC_RELEASES(_ZdaPvmSt11align_val_t)

#if defined(__clang__)
// A call that ends a kernel would be a jump, and a fault would not know its line.
#define KSPEC_CALLED __attribute__((not_tail_called))
extern "C" KSPEC_CALLED void free(void*);
KSPEC_CALLED void operator delete(void*) noexcept;
KSPEC_CALLED void operator delete[](void*) noexcept;
KSPEC_CALLED void operator delete(void*, unsigned long) noexcept;
KSPEC_CALLED void operator delete[](void*, unsigned long) noexcept;
#undef KSPEC_CALLED
#endif

#undef KSPEC_ALLOCATES
#undef KSPEC_ALLOCATES_ALIGNED
#undef KSPEC_RELEASES
