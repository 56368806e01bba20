// Shadow memory: one byte for each eight of the address space, which kernels compiled with bounds
// checks (include/kspec_host/check_bounds.h) read before every access.
//
// The compilers' kernel-address sanitizer fixes what a byte means: 0 lets all accesses pass, 1 to 8
// those that end within so many bytes of the eight, all others call a hook of ours, which may
// return. So CLOSED means "ask" (bounds.h), and a shadow that is coarser than the truth costs time
// but is never wrong. The whole shadow is reserved without access: an access to memory that no
// launch has opened faults in the shadow, before it happens.
#pragma once

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "state.h"

namespace kspec_host {

enum : uintptr_t {
  SHADOW_BEGIN = SHADOW_OFFSET,
#if defined(__x86_64__)
  SHADOW_SPAN = (uintptr_t)1 << 44,  // for 47 bits of addresses
#else
  SHADOW_SPAN = (uintptr_t)1 << 45,  // for 48
#endif
  SHADOW_END = SHADOW_BEGIN + SHADOW_SPAN,
};

enum : unsigned char { OPEN = 0, OPEN_TO_END = 8, CLOSED = 0xFF };

enum : unsigned {
  MAX_PAGES = 4096,  // of the shadow that are written: 16 MiB; of one launch there may be more,
  PAGE_SLOTS = 32 * MAX_PAGES,  // since each stack of a cooperative grid has some
  MAX_STRAYS = 1024,
  MAPPED_PAGES = 64,   // from so many on, an open range is mapped instead of written: 2 MiB
};
enum : uintptr_t { NO_PAGE = 0, REMOVED_PAGE = 1 };

struct Shadow {
  bool reserved, refused;
  void* closed_page;      // of shared memory, CLOSED throughout
  pthread_mutex_t mutex;  // guards the pages
  uintptr_t* pages;       // those that are written, each CLOSED at first: a hash table
  unsigned page_count;    // slots of it that were ever used
  unsigned stray_count;   // atomic: pages that a stray access has closed
  unsigned generation;    // grows when everything is closed: what is kept open opens itself again
};

static Shadow shadow = {false, false, nullptr, PTHREAD_MUTEX_INITIALIZER, nullptr, 0, 0, 1};

static inline uintptr_t shadow_of(uintptr_t address) { return SHADOW_BEGIN + (address >> 3); }

static inline bool in_shadow(uintptr_t address) {
  return address >= SHADOW_BEGIN && address < SHADOW_END;
}

static inline uintptr_t page_of(uintptr_t address) { return address & ~(page_bytes() - 1); }

static void map_shadow(uintptr_t begin, uintptr_t end, int protection) {
  if (begin < end)
    mmap((void*)begin, end - begin, protection,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

// Null when there is no memory. No file stays open: a daemon closes those it does not know, and the
// next one that is opened has the number.
static void* make_closed_page() {
  void* map = mmap(nullptr, page_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED) return nullptr;
  memset(map, CLOSED, page_bytes());
  return mprotect(map, page_bytes(), PROT_READ) ? nullptr : map;
}

// Reserve the shadow, once. False where addresses are scarce (ulimit -v) or taken.
static bool reserve_shadow() {
  if (shadow.reserved || shadow.refused) return shadow.reserved;
  shadow.refused = true;
  shadow.closed_page = make_closed_page();
  shadow.pages = (uintptr_t*)calloc(PAGE_SLOTS, sizeof(uintptr_t));
  if (!shadow.closed_page || !shadow.pages) return false;
  const int no_replace = 0x100000;  // MAP_FIXED_NOREPLACE
  void* map = mmap((void*)SHADOW_BEGIN, SHADOW_SPAN, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | no_replace, -1, 0);
  if (map == MAP_FAILED) return false;
  if (map != (void*)SHADOW_BEGIN) {  // Linux before 4.17 takes the address for a hint
    munmap(map, SHADOW_SPAN);
    return false;
  }
  madvise(map, SHADOW_SPAN, MADV_DONTDUMP);
  return shadow.reserved = true;
}

// ------------------------------------------------------------------------- pages

// The slot of a page in the table, or a free one for it.
static uintptr_t* page_slot_of(uintptr_t page) {
  unsigned index = (unsigned)((page >> 12) * 0x9E3779B97F4A7C15ull >> 40) % PAGE_SLOTS;
  while (shadow.pages[index] != NO_PAGE && shadow.pages[index] != page)
    index = (index + 1) % PAGE_SLOTS;
  return &shadow.pages[index];
}

// Make a page of the shadow one that can be written. Between mapping and closing it, accesses of
// other workers pass; they are to memory that no launch has opened, in that microsecond.
static bool own_page(uintptr_t page) {
  uintptr_t* slot = page_slot_of(page);
  if (*slot == page) return true;
  if (shadow.page_count >= PAGE_SLOTS / 2) return false;  // far more than MAX_PAGES: stays closed
  map_shadow(page, page + page_bytes(), PROT_READ | PROT_WRITE);
  memset((void*)page, CLOSED, page_bytes());
  *slot = page;
  shadow.page_count++;
  return true;
}

static void write_shadow(uintptr_t begin, uintptr_t end, unsigned char value) {
  while (begin < end) {
    uintptr_t page = page_of(begin), next = page + page_bytes();
    if (next > end) next = end;
    if (own_page(page)) memset((void*)begin, value, next - begin);
    begin = next;
  }
}

static void forget_pages(uintptr_t begin, uintptr_t end) {
  if (end - begin > PAGE_SLOTS * page_bytes()) {
    for (unsigned i = 0; i < PAGE_SLOTS; i++)
      if (shadow.pages[i] >= begin && shadow.pages[i] < end) shadow.pages[i] = REMOVED_PAGE;
    return;
  }
  for (uintptr_t page = begin; page < end; page += page_bytes()) {
    uintptr_t* slot = page_slot_of(page);
    if (*slot == page) *slot = REMOVED_PAGE;
  }
}

// ------------------------------------------------------------------------- ranges

// How the pages in the middle of a range are opened.
struct Opening {
  unsigned mapped_pages;  // from so many on they are mapped
  int protection;
};
static const Opening READ_ONLY_SHADOW = {MAPPED_PAGES, PROT_READ};
static const Opening NEVER_MAPPED = {~0u, PROT_READ};
static const Opening WRITTEN_SHADOW = {1, PROT_READ | PROT_WRITE};  // code writes it too: stacks

// The pages that are mapped when a range is opened.
struct Middle {
  uintptr_t begin, end;
};

static Middle middle_of(uintptr_t begin, uintptr_t end, Opening opening) {
  uintptr_t first = page_of(shadow_of(begin + 7) + page_bytes() - 1), last = page_of(shadow_of(end));
  if (first >= last || (last - first) / page_bytes() < opening.mapped_pages) return {0, 0};
  // The last byte is not zero, and may be the last of a page.
  if (last == shadow_of(end)) last -= page_bytes();
  return {first, last > first ? last : first};
}

static void fill_shadow(uintptr_t from, uintptr_t to, Middle middle, unsigned char value) {
  if (middle.begin >= middle.end) {
    write_shadow(from, to, value);
  } else {
    write_shadow(from, middle.begin, value);
    write_shadow(middle.end, to, value);
  }
}

// Let the accesses to [begin, end) pass, and no others.
static void open_memory(uintptr_t begin, size_t size, Opening opening) {
  if (!size) return;
  uintptr_t end = begin + size, first = shadow_of(begin + 7), last = shadow_of(end);
  pthread_mutex_lock(&shadow.mutex);
  Middle middle = middle_of(begin, end, opening);
  if (middle.begin < middle.end) {
    forget_pages(middle.begin, middle.end);
    map_shadow(middle.begin, middle.end, opening.protection);
  }
  if (first < last) {
    fill_shadow(first, last - 1, middle, OPEN);
    write_shadow(last - 1, last, OPEN_TO_END);  // an access that begins here might end outside
  }
  if (end % 8 && first <= last) write_shadow(last, last + 1, (unsigned char)(end % 8));
  pthread_mutex_unlock(&shadow.mutex);
}

// Take back what open_memory() did.
static void close_memory(uintptr_t begin, size_t size, Opening opening) {
  if (!size) return;
  uintptr_t end = begin + size;
  pthread_mutex_lock(&shadow.mutex);
  Middle middle = middle_of(begin, end, opening);
  if (middle.begin < middle.end) map_shadow(middle.begin, middle.end, PROT_NONE);
  fill_shadow(shadow_of(begin), shadow_of(end + 7), middle, CLOSED);
  pthread_mutex_unlock(&shadow.mutex);
}

// Close everything. No kernel runs.
static void close_shadow() {
  map_shadow(SHADOW_BEGIN, SHADOW_END, PROT_NONE);
  madvise((void*)SHADOW_BEGIN, SHADOW_SPAN, MADV_DONTDUMP);
  memset(shadow.pages, 0, PAGE_SLOTS * sizeof(uintptr_t));
  shadow.page_count = shadow.stray_count = 0;
  shadow.generation++;
}

// Do so when many pages were used.
static void renew_shadow() {
  if (shadow.page_count >= MAX_PAGES ||
      __atomic_load_n(&shadow.stray_count, __ATOMIC_RELAXED) >= MAX_STRAYS)
    close_shadow();
}

// In a signal handler: an access has met a page of the shadow that is not mapped. Closed, it
// makes the access call its hook, which knows more.
static bool close_stray_page(uintptr_t address) {
  __atomic_fetch_add(&shadow.stray_count, 1, __ATOMIC_RELAXED);
  // Of no bytes of shared memory: maps them once more.
  return mremap(shadow.closed_page, 0, page_bytes(), MREMAP_MAYMOVE | MREMAP_FIXED,
                (void*)page_of(address)) != MAP_FAILED;
}

}  // namespace kspec_host
