// Device buffers: each in its own mapping that ends at a guard, so that the first byte past a
// buffer faults, as long as there are not too many (buffer_pool.h). The bytes around a buffer are
// canaries, checked after every launch.
#pragma once

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "buffer_pool.h"
#include "report.h"
#include "state.h"

namespace kspec_host {

enum : unsigned char { CANARY = 0xCB };

struct Buffer {
  Buffer *previous, *next;
  char* map;  // what is unmapped with it; a slot of `pages` if that is not null
  size_t map_bytes;
  SlotPages* pages;
  bool guarded;
  char *low, *begin, *high;  // canaries, the buffer, canaries
  size_t size;
  unsigned number;  // for messages
};

static Buffer* all_buffers;
static unsigned buffer_count, guarded_count;
static pthread_mutex_t buffers_mutex = PTHREAD_MUTEX_INITIALIZER;

// So many buffers have guards, and two or three mappings each.
enum : unsigned { MAX_GUARDED = 8192 };

// How much around a buffer is nobody's. A wrong index is often far off, and must not reach the
// memory of Python; the space costs addresses only.
enum : size_t { GUARD_BYTES = (size_t)64 << 20 };

// Map `pages` bytes between two guards, and say how large those are: a page where addresses are
// scarce (ulimit -v). Null when there is no memory.
static char* map_guarded(size_t pages, size_t* guard) {
  const size_t sizes[] = {GUARD_BYTES, page_bytes()};
  for (size_t size : sizes) {
    *guard = size;
    char* map = (char*)mmap(nullptr, pages + 2 * size, PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED) continue;
    if (!mprotect(map + size, pages, PROT_READ | PROT_WRITE)) return map;
    munmap(map, pages + 2 * size);
  }
  return nullptr;
}

// Find memory for a buffer: `body` bytes of it, and bytes on both sides. The mutex is held.
static bool place_guarded(Buffer* buffer, size_t body) {
  size_t pages = round_up(body, page_bytes()), guard;
  if (guarded_count == MAX_GUARDED || !(buffer->map = map_guarded(pages, &guard))) return false;
  buffer->map_bytes = pages + 2 * guard;
  buffer->guarded = true;
  buffer->low = buffer->map + guard;
  buffer->high = buffer->low + pages;
  buffer->begin = buffer->high - body;
  guarded_count++;
  return true;
}

static bool place_plain(Buffer* buffer, size_t body, size_t alignment) {
  size_t front = round_up(REDZONE_BYTES, alignment), whole = front + body + REDZONE_BYTES;
  if (whole <= LARGEST_PLACE) {
    buffer->map = take_slot(whole, &buffer->pages);
  } else {
    buffer->map_bytes = round_up(whole, page_bytes());
    buffer->map = map_plain(buffer->map_bytes);
  }
  if (!buffer->map) return false;
  buffer->begin = buffer->map + front;
  buffer->low = buffer->begin - REDZONE_BYTES;
  buffer->high = buffer->begin + body + REDZONE_BYTES;
  return true;
}

static Buffer* allocate_buffer(size_t size, size_t alignment) {
  if (size > (size_t)-1 / 2) return nullptr;
  size_t body = round_up(size ? size : 1, alignment);
  Buffer* buffer = (Buffer*)calloc(1, sizeof(Buffer));
  if (!buffer) return nullptr;
  pthread_mutex_lock(&buffers_mutex);
  bool placed = place_guarded(buffer, body) || place_plain(buffer, body, alignment);
  if (placed) {
    buffer->size = size;
    memset(buffer->low, CANARY, (size_t)(buffer->begin - buffer->low));
    memset(buffer->begin + size, CANARY, (size_t)(buffer->high - (buffer->begin + size)));
    buffer->number = ++buffer_count;
    buffer->next = all_buffers;
    if (all_buffers) all_buffers->previous = buffer;
    all_buffers = buffer;
  }
  pthread_mutex_unlock(&buffers_mutex);
  if (placed) return buffer;
  free(buffer);
  return nullptr;
}

static void free_buffer(Buffer* buffer) {
  pthread_mutex_lock(&buffers_mutex);
  if (buffer->previous) {
    buffer->previous->next = buffer->next;
  } else {
    all_buffers = buffer->next;
  }
  if (buffer->next) buffer->next->previous = buffer->previous;
  guarded_count -= buffer->guarded;
  if (buffer->pages) {
    return_slot(buffer->pages, buffer->map);
  } else {
    munmap(buffer->map, buffer->map_bytes);
  }
  pthread_mutex_unlock(&buffers_mutex);
  free(buffer);
}

// First byte in [begin, end) that is no canary, or null.
static char* damaged_byte(char* begin, char* end) {
  for (char* byte = begin; byte < end; byte++)
    if ((unsigned char)*byte != CANARY) return byte;
  return nullptr;
}

// Fill `fault` with the first damaged canary; the canary is repaired, so it is reported once.
static bool find_damage(Fault* fault) {
  bool found = false;
  pthread_mutex_lock(&buffers_mutex);
  for (Buffer* buffer = all_buffers; buffer && !found; buffer = buffer->next) {
    char *low = buffer->low, *end = buffer->begin + buffer->size, *high = buffer->high;
    char* byte = damaged_byte(low, buffer->begin);
    if (!byte) byte = damaged_byte(end, high);
    if (!byte) continue;
    found = true;
    memset(fault, 0, sizeof *fault);
    bool under = byte < buffer->begin;
    snprintf(fault->kind, sizeof fault->kind, under ? "buffer-underflow" : "buffer-overflow");
    long long offset = byte - buffer->begin;
    snprintf(fault->message, sizeof fault->message,
             "the byte at offset %lld of buffer #%u (%zu bytes) was written", offset,
             buffer->number, buffer->size);
    memset(low, CANARY, (size_t)(buffer->begin - low));
    memset(end, CANARY, (size_t)(high - end));
  }
  pthread_mutex_unlock(&buffers_mutex);
  return found;
}

// How far from a null pointer an address is still an offset from it: nothing is mapped there.
enum : uintptr_t { NULL_REACH = (uintptr_t)1 << 20 };

// Say that an address is null, or an offset from it; false when it is neither.
static bool describe_null(Text* text, uintptr_t address) {
  bool before = address + NULL_REACH < address;
  if (address >= NULL_REACH && !before) return false;
  text->add("address 0x%zx: ", (size_t)address);
  if (before || address >= page_bytes())
    text->add("%zu bytes %s ", (size_t)(before ? -address : address), before ? "before" : "after");
  text->add("a null pointer");
  return true;
}

// Say where an address lies relative to the nearest buffer. Runs in a signal handler: the lock is
// only tried, because the interrupted thread might hold it.
static void describe_address(Text* text, uintptr_t address) {
  const Buffer* nearest = nullptr;
  if (pthread_mutex_trylock(&buffers_mutex) == 0) {
    // Far misses are attributed too, as far as a guard reaches: a wrong index is rarely off by one.
    uintptr_t best = GUARD_BYTES;
    for (const Buffer* buffer = all_buffers; buffer; buffer = buffer->next) {
      uintptr_t begin = (uintptr_t)buffer->begin, end = begin + buffer->size;
      uintptr_t distance = address < begin ? begin - address : address >= end ? address - end : 0;
      if (distance < best) {
        best = distance;
        nearest = buffer;
      }
    }
    if (nearest) {
      long long offset = (long long)(address - (uintptr_t)nearest->begin);
      long long size = (long long)nearest->size;
      if (offset < 0) {
        text->add("%lld bytes before", -offset);
      } else if (offset >= size) {
        text->add("%lld bytes past the end of", offset - size);
      } else {
        text->add("offset %lld of", offset);
      }
      text->add(" buffer #%u (%lld bytes)", nearest->number, size);
    }
    pthread_mutex_unlock(&buffers_mutex);
  }
  if (nearest) return;
  if (!describe_null(text, address))
    text->add("address 0x%zx, which is in no device buffer", (size_t)address);
}

}  // namespace kspec_host
