// Shared memory. The rewriter turns
//     __shared__ float s[64];         into a reference into the arena of the running block,
//     extern __shared__ float s[];    into a reference to its dynamic shared memory,
// and outside functions both into references that each block sets.
// The arena is handed out anew in every block, filled with a poison value, so that a kernel can not
// live on what an earlier block left behind.
#pragma once

namespace kspec_host {

// The argument of alignas is a type or a number.
template <class T> constexpr unsigned long alignment_of() { return alignof(T); }
template <unsigned long N> constexpr unsigned long alignment_of() { return N; }

KSPEC_HOST_OWN static unsigned shared_variable_count = 0;
KSPEC_HOST_OWN static unsigned shared_variable_bytes = 0;  // what they take, outside functions too

static inline KSPEC_HOST_UNCHECKED unsigned add_shared_variable(unsigned long size) {
  shared_variable_bytes += (unsigned)size;
  return shared_variable_count++;
}

// Each __shared__ declaration has a number; templates have one per instantiation, which is what
// the local type `Tag` (declared beside the variable) tells apart.
template <class T, class Tag> struct SharedSlot {
  static inline unsigned number = add_shared_variable(sizeof(T));
};

// As the runtime leaves shared memory to each block. The plain memset of modules with checks would
// check its memory.
#if KSPEC_HOST_CHECK_BOUNDS || (KSPEC_HOST_CHECK_ACCESS && !KSPEC_HOST_REVIEW)
extern "C" void* __real_memset(void* to, int value, unsigned long size);
static inline KSPEC_HOST_UNCHECKED void poison(void* memory, unsigned long size) {
  __real_memset(memory, 0xFF, size);
}
#else
static inline KSPEC_HOST_UNCHECKED void poison(void* memory, unsigned long size) {
  __builtin_memset(memory, 0xFF, size);
}
#endif

// First use of a variable in this block: give it its place.
static KSPEC_HOST_UNCHECKED __attribute__((noinline)) unsigned place_shared(
    unsigned number, unsigned long size, unsigned long alignment, const char* name, Site site) {
  Block* block = kspec_context.block;
  unsigned long offset = block->static_used + block->static_redzone;
  offset = (offset + alignment - 1) / alignment * alignment;
  if (offset + size > block->static_capacity)
    fail("shared-memory", "the block uses more than 48 KiB of static __shared__ memory", site);
  block->static_used = (unsigned)(offset + size);
  block->slots[number] = (unsigned)offset;
#if KSPEC_HOST_CHECK_BOUNDS
  // The runtime closed the arena. What is unused behind a variable lets accesses that begin in it
  // end in it too.
  volatile unsigned char* shadow =
      (volatile unsigned char*)(SHADOW_OFFSET + ((unsigned long)block->static_shared + offset) / 8);
  for (unsigned long i = 0; i < size / 8; i++) shadow[i] = 0;
  if (size % 8) shadow[size / 8] = size % 8;
#endif
  poison(block->static_shared + offset, size);
#if KSPEC_HOST_CHECK_ACCESS || KSPEC_HOST_CHECK_BOUNDS
  kspec_runtime->place(block->worker, (unsigned)offset, (unsigned)size, name);
#else
  (void)name;
#endif
  return (unsigned)offset;
}

template <class T, class Tag>
static inline KSPEC_HOST_UNCHECKED T& kspec_shared(unsigned long alignment, const char* name,
                                                   KSPEC_HOST_SITE) {
  unsigned number = SharedSlot<T, Tag>::number, offset = kspec_context.block->slots[number];
  if (__builtin_expect(offset == ~0u, 0))
    offset = place_shared(number, sizeof(T), alignment < 16 ? 16 : alignment, name, KSPEC_HOST_HERE);
  return *(T*)(kspec_context.block->static_shared + offset);
}

template <class T> static inline KSPEC_HOST_UNCHECKED T& kspec_dynamic_shared() {
  return *(T*)kspec_context.block->dynamic_shared;
}

// A __shared__ variable outside functions: every new block sets where it is.
struct KspecFileShared {
  void (*set)(Block*);
  KspecFileShared* next;
  KspecFileShared(unsigned long size, unsigned long alignment, void (*setter)(Block*));
};
KSPEC_HOST_OWN static KspecFileShared* first_file_shared = nullptr;
// The room that they take in the arena; which of them a kernel uses is not known.
KSPEC_HOST_OWN static unsigned file_shared_bytes = 0;
inline KSPEC_HOST_UNCHECKED KspecFileShared::KspecFileShared(unsigned long size,
                                                             unsigned long alignment,
                                                             void (*setter)(Block*))
    : set(setter), next(first_file_shared) {
  first_file_shared = this;
  if (size) file_shared_bytes += (unsigned)(size + (alignment < 16 ? 16 : alignment));
}

static inline KSPEC_HOST_UNCHECKED void set_file_shared(Block* block) {
  for (KspecFileShared* one = first_file_shared; one; one = one->next) one->set(block);
}

}  // namespace kspec_host
