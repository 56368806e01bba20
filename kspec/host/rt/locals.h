// Where the local arrays of kernels are: not on the stack, between return addresses and saved
// registers, but in memory of their own, in which nothing but these arrays is open.
//
// The compilers' sanitizers can move the arrays of a function there ("use after return"). Such a
// function asks for room when it begins, wherever it was inlined, and closes it when it returns.
#pragma once

#include "apart.h"
#include "report.h"
#include "shadow.h"
#include "state.h"

namespace kspec_host {

// A fiber has slabs of memory for frames; the first is all that most kernels need.
enum : size_t { FIRST_SLAB_BYTES = 8 * 1024, SLAB_BYTES = STACK_BYTES / 4 };

// Make the shadow of a slab one that its functions can write, all of it closed.
static bool close_slab(LocalSlab* slab) {
  pthread_mutex_lock(&shadow.mutex);
  uintptr_t begin = shadow_of((uintptr_t)slab->begin), end = shadow_of((uintptr_t)slab->end);
  bool owned = true;
  for (uintptr_t page = page_of(begin); owned && page < end; page += page_bytes())
    owned = own_page(page);
  if (owned) memset((void*)begin, CLOSED, end - begin);
  pthread_mutex_unlock(&shadow.mutex);
  slab->frame_count = 0;
  slab->generation = owned ? shadow.generation : 0;
  return owned;
}

static bool prepare_slab(LocalSlab* slab, size_t bytes) {
  if (!slab->begin) {
    slab->begin = map_apart(&local_realm, bytes, PROT_READ | PROT_WRITE);
    if (!slab->begin) return false;
    slab->end = slab->begin + bytes;
  }
  return slab->generation == shadow.generation || close_slab(slab);
}

// The records of frames are at the end of their slab, the last first.
static LocalFrame* frame_of(const LocalSlab* slab, unsigned number) {
  return (LocalFrame*)slab->end - 1 - number;
}

// Forget the frames of functions that have returned: stacks grow downwards.
static void drop_frames(Fiber* fiber, uintptr_t stack) {
  for (;;) {
    LocalSlab* slab = &fiber->slabs[fiber->slab];
    while (slab->frame_count && frame_of(slab, slab->frame_count - 1)->stack <= stack)
      slab->frame_count--;
    if (slab->frame_count || !fiber->slab) return;
    fiber->slab--;
  }
}

// Null if the slab is full.
static char* place_frame(LocalSlab* slab, size_t size, size_t chunk, uintptr_t stack) {
  char* begin = slab->begin;
  if (slab->frame_count) begin = frame_of(slab, slab->frame_count - 1)->end;
  size_t alignment = chunk < 4096 ? chunk : 4096;
  begin = (char*)round_up((uintptr_t)begin, alignment);
  LocalFrame* frame = frame_of(slab, slab->frame_count);
  if (begin + chunk > (char*)frame) return nullptr;
  *frame = {begin, begin + chunk, stack};
  slab->frame_count++;
  memset((void*)shadow_of((uintptr_t)begin), OPEN, size / 8);
  return begin;
}

// Room for the arrays of a function; `stack` is its stack pointer, `chunk` the power of two that
// its compiler reckons with. Null: it puts them on its stack.
static void* service_enter_frame(Worker* worker, unsigned long size, unsigned long chunk,
                                 const void* stack, const void* pc) {
  Fiber* fiber = worker->current;
  if (!worker->running || !fiber) return nullptr;
  require_stack(worker, pc);
  drop_frames(fiber, (uintptr_t)stack);
  for (unsigned number = fiber->slab; number < MAX_LOCAL_SLABS; number++) {
    LocalSlab* slab = &fiber->slabs[number];
    if (!prepare_slab(slab, number ? SLAB_BYTES : FIRST_SLAB_BYTES)) return nullptr;
    char* begin = place_frame(slab, size, chunk, (uintptr_t)stack);
    if (!begin) continue;
    fiber->slab = number;
    // The last word says where a byte is to be cleared when the function returns. The stack pointer
    // tells us that already.
    *(void**)(begin + chunk - sizeof(void*)) = &fiber->returned;
    return begin;
  }
  return nullptr;
}

// For functions whose frames are too large for them to close by themselves.
static void service_leave_frame(void* frame, unsigned long size) {
  memset((void*)shadow_of((uintptr_t)frame), CLOSED, size / 8);
}

// ------------------------------------------------------------------------- switching

// The arrays of a thread that waits are closed: a wrong index of another may reach them. What is
// open in the shadow has a small byte, and what is closed a large one, so a bit tells both.
static constexpr uint64_t HIDDEN_BITS = 0x8080808080808080ull, LARGE_BITS = 0x7070707070707070ull;

// Some bytes of the shadow, with OPEN to OPEN_TO_END hidden or shown.
struct Hide {
  template <class T> static T change(T bytes) { return bytes | HIDDEN_BITS; }
};
struct Show {
  template <class T> static T change(T bytes) {
    T large = ((bytes & LARGE_BITS) + LARGE_BITS) & HIDDEN_BITS;
    return bytes & (large | ~HIDDEN_BITS);
  }
};

typedef uint64_t TwoWords __attribute__((vector_size(16), aligned(8), may_alias));

template <class Action> static inline void change_frames(Fiber* fiber) {
  for (unsigned number = 0; number <= fiber->slab; number++) {
    LocalSlab* slab = &fiber->slabs[number];
    if (!slab->frame_count || slab->generation != shadow.generation) continue;
    uint64_t* at = (uint64_t*)shadow_of((uintptr_t)slab->begin);
    uint64_t* last = (uint64_t*)shadow_of((uintptr_t)frame_of(slab, slab->frame_count - 1)->end);
    for (; last - at >= 2; at += 2) *(TwoWords*)at = Action::change(*(TwoWords*)at);
    for (; at < last; at++) *at = Action::change(*at);
  }
}

static inline void hide_frames(Fiber* fiber) { change_frames<Hide>(fiber); }
static inline void show_frames(Fiber* fiber) { change_frames<Show>(fiber); }

static void release_slabs(Fiber* fiber) {
  for (LocalSlab& slab : fiber->slabs) {
    if (!slab.begin) continue;
    size_t bytes = (size_t)(slab.end - slab.begin);
    if (slab.generation == shadow.generation)
      close_memory((uintptr_t)slab.begin, bytes, NEVER_MAPPED);
    munmap(slab.begin, bytes);
  }
}

// The threads of a fiber were abandoned. The functions that they were in close no array any more.
static void abandon_frames(Fiber* fiber) {
  for (unsigned number = 0; number <= fiber->slab; number++) {
    LocalSlab* slab = &fiber->slabs[number];
    if (slab->frame_count && slab->generation == shadow.generation) {
      uintptr_t begin = shadow_of((uintptr_t)slab->begin);
      uintptr_t end = shadow_of((uintptr_t)frame_of(slab, slab->frame_count - 1)->end);
      memset((void*)begin, CLOSED, end - begin);
    }
    slab->frame_count = 0;
  }
  fiber->slab = 0;
}

}  // namespace kspec_host
