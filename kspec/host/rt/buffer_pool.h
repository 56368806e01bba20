// Memory of buffers without guards: for those of a process that has very many.
//
// A guarded buffer costs two of the 65,530 mappings that Linux allows by default. Beyond some
// thousands, small buffers share pages, and large ones lie side by side. Bytes around each still
// tell what was written beside it; checked kernels are told which array an access misses anyway.
#pragma once

#include <stdlib.h>
#include <sys/mman.h>

#include "state.h"

namespace kspec_host {

enum : size_t {
  REDZONE_BYTES = 64,  // on each side
  SMALLEST_PLACE = 128,  // bytes of a slot
  LARGEST_PLACE = 64 * 1024,
  PAGES_BYTES = 1024 * 1024,  // of slots that are mapped together
};

// Slots of one size. Which are free is known here, beyond the reach of kernels.
struct SlotPages {
  SlotPages *previous, *next;  // of the same size, with a free slot
  char* map;
  size_t slot_bytes;
  unsigned free_count;
  unsigned short free_slots[PAGES_BYTES / SMALLEST_PLACE];
  unsigned slot_count() const { return (unsigned)(PAGES_BYTES / slot_bytes); }
};

enum : unsigned { PLACE_SIZES = 10 };  // from SMALLEST_PLACE to LARGEST_PLACE
static SlotPages* open_pages[PLACE_SIZES];

static unsigned slot_size_number(size_t bytes) {
  unsigned number = 0;
  while (((size_t)SMALLEST_PLACE << number) < bytes) number++;
  return number;
}

static SlotPages*& list_of(const SlotPages* pages) {
  return open_pages[slot_size_number(pages->slot_bytes)];
}

static void link_pages(SlotPages* pages) {
  SlotPages*& list = list_of(pages);
  pages->previous = nullptr;
  pages->next = list;
  if (list) list->previous = pages;
  list = pages;
}

static void unlink_pages(SlotPages* pages) {
  if (pages->previous) {
    pages->previous->next = pages->next;
  } else {
    list_of(pages) = pages->next;
  }
  if (pages->next) pages->next->previous = pages->previous;
}

static char* map_plain(size_t bytes) {
  void* map = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return map == MAP_FAILED ? nullptr : (char*)map;
}

static SlotPages* make_pages(size_t slot_bytes) {
  SlotPages* pages = (SlotPages*)malloc(sizeof(SlotPages));
  if (!pages) return nullptr;
  pages->map = map_plain(PAGES_BYTES);
  if (!pages->map) return free(pages), nullptr;
  pages->slot_bytes = slot_bytes;
  pages->free_count = pages->slot_count();
  // The last is taken first.
  for (unsigned i = 0; i < pages->free_count; i++)
    pages->free_slots[i] = (unsigned short)(pages->free_count - 1 - i);
  link_pages(pages);
  return pages;
}

// A slot of at least so many bytes; null when there is no memory. Its address is a multiple of its
// size, up to that of a page.
static char* take_slot(size_t bytes, SlotPages** owner) {
  size_t slot_bytes = (size_t)SMALLEST_PLACE << slot_size_number(bytes);
  SlotPages* pages = open_pages[slot_size_number(bytes)];
  if (!pages) pages = make_pages(slot_bytes);
  if (!pages) return nullptr;
  unsigned slot = pages->free_slots[--pages->free_count];
  if (!pages->free_count) unlink_pages(pages);
  *owner = pages;
  return pages->map + slot * slot_bytes;
}

static void return_slot(SlotPages* pages, const char* place) {
  if (!pages->free_count) link_pages(pages);
  pages->free_slots[pages->free_count++] =
      (unsigned short)((size_t)(place - pages->map) / pages->slot_bytes);
  if (pages->free_count < pages->slot_count()) return;
  unlink_pages(pages);
  munmap(pages->map, PAGES_BYTES);
  free(pages);
}

}  // namespace kspec_host
