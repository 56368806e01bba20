// The heap of the device: malloc(), free(), new and delete of kernels. All modules have the same,
// whatever they check, and it outlives launches, as on a GPU.
//
// Blocks of similar size lie side by side in chunks, with unused bytes behind each. What the heap
// knows of them is elsewhere, so no overrun damages it. A block that was freed is used again as
// late as possible, so that a use after free is found.
#pragma once

#include <stdlib.h>
#include <string.h>

#include "shadow.h"

namespace kspec_host {

enum : size_t {
  HEAP_ALIGNMENT = 16,
  HEAP_GAP_BYTES = 16,  // at least so many are unused behind a block
  HEAP_CHUNK_BYTES = (size_t)1 << 20,
  MAX_SLOT_BYTES = HEAP_CHUNK_BYTES / 8,  // larger blocks have chunks of their own
  HEAP_GUARD_BYTES = 64 * 1024,           // around chunks
};
enum : unsigned { SMALLEST_SLOT = 5, SLOT_CLASSES = 2 * (17 - SMALLEST_SLOT) + 1 };

enum SlotState : unsigned char { SLOT_FRESH, SLOT_USED, SLOT_FREED };

struct HeapChunk;

struct HeapSlot {
  HeapChunk* chunk;
  size_t size;     // what was asked for
  HeapSlot* next;  // in the queue of freed ones
  SlotState state;
};

struct HeapChunk {
  uintptr_t begin;
  size_t slot_bytes;
  unsigned slot_count, used_count;  // those that are not fresh
  HeapSlot* slots;
  char* map;  // with its guards
  size_t map_bytes;
};

// The slots of one size: those of the newest chunk first, then the freed, the oldest first.
struct SlotClass {
  HeapChunk* newest;
  HeapSlot *first_freed, *last_freed;
};

static HeapChunk** heap_chunks;  // sorted by address
static size_t heap_chunk_count, heap_chunk_capacity;
static SlotClass slot_classes[SLOT_CLASSES];
static size_t heap_mapped_bytes;
static pthread_mutex_t heap_mutex = PTHREAD_MUTEX_INITIALIZER;

// ------------------------------------------------------------------------- chunks

// A kernel that allocates without end must not take all memory of the machine.
static size_t heap_limit() {
  return (size_t)sysconf(_SC_PHYS_PAGES) / 2 * page_bytes();
}

// The number of chunks that begin at or before an address. The mutex is held.
static size_t chunks_until(uintptr_t address) {
  size_t low = 0, high = heap_chunk_count;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (heap_chunks[middle]->begin <= address) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

static bool add_chunk(HeapChunk* chunk) {
  if (heap_chunk_count == heap_chunk_capacity) {
    size_t capacity = 2 * heap_chunk_capacity + 64;
    void* grown = realloc(heap_chunks, capacity * sizeof(HeapChunk*));
    if (!grown) return false;
    heap_chunks = (HeapChunk**)grown;
    heap_chunk_capacity = capacity;
  }
  size_t at = chunks_until(chunk->begin);
  memmove(heap_chunks + at + 1, heap_chunks + at, (heap_chunk_count - at) * sizeof(HeapChunk*));
  heap_chunks[at] = chunk;
  heap_chunk_count++;
  return true;
}

static void unmap_chunk(HeapChunk* chunk) {
  if (chunk->map) {
    munmap(chunk->map, chunk->map_bytes);
    heap_mapped_bytes -= chunk->map_bytes;
  }
  free(chunk->slots);
  free(chunk);
}

// A chunk of fresh slots; null when there is no memory.
static HeapChunk* make_chunk(size_t slot_bytes, unsigned slot_count, size_t alignment) {
  size_t body = slot_bytes * slot_count, room = round_up(body, page_bytes());
  size_t bytes = room + alignment + 2 * HEAP_GUARD_BYTES;
  HeapChunk* chunk = (HeapChunk*)calloc(1, sizeof(HeapChunk));
  if (!chunk) return nullptr;
  chunk->slots = (HeapSlot*)calloc(slot_count, sizeof(HeapSlot));
  if (heap_mapped_bytes + bytes <= heap_limit())
    chunk->map = map_apart(&heap_realm, bytes, PROT_NONE);
  if (chunk->map) {
    chunk->map_bytes = bytes;
    heap_mapped_bytes += bytes;
    // Its end is as close to the guard as can be.
    uintptr_t last = (uintptr_t)chunk->map + bytes - HEAP_GUARD_BYTES;
    chunk->begin = (last - body) / alignment * alignment;
    chunk->slot_bytes = slot_bytes;
    chunk->slot_count = slot_count;
    uintptr_t first = chunk->begin / page_bytes() * page_bytes();
    if (chunk->slots && !mprotect((void*)first, last - first, PROT_READ | PROT_WRITE) &&
        add_chunk(chunk))
      return chunk;
  }
  unmap_chunk(chunk);
  return nullptr;
}

// ------------------------------------------------------------------------- slots

// The class of slots that a block fits in: powers of two, and half as much again in between.
static unsigned slot_class(size_t bytes, size_t alignment) {
  unsigned power = SMALLEST_SLOT;
  while (((size_t)1 << power) < bytes) power++;
  bool less = power > SMALLEST_SLOT && bytes <= (size_t)3 << (power - 2);
  return 2 * (power - SMALLEST_SLOT) - (less && alignment <= HEAP_ALIGNMENT);
}

static size_t class_bytes(unsigned number) {
  size_t power = (size_t)1 << (SMALLEST_SLOT + (number + 1) / 2);
  return number % 2 ? power / 4 * 3 : power;
}

static HeapSlot* fresh_slot(HeapChunk* chunk) {
  HeapSlot* slot = &chunk->slots[chunk->used_count++];
  slot->chunk = chunk;
  return slot;
}

static HeapSlot* take_slot(unsigned number) {
  SlotClass* slots = &slot_classes[number];
  if (slots->newest && slots->newest->used_count < slots->newest->slot_count)
    return fresh_slot(slots->newest);
  if (HeapSlot* slot = slots->first_freed) {
    slots->first_freed = slot->next;
    return slot;
  }
  size_t bytes = class_bytes(number);
  HeapChunk* chunk = make_chunk(bytes, (unsigned)(HEAP_CHUNK_BYTES / bytes), MAX_SLOT_BYTES);
  if (!chunk) return nullptr;
  slots->newest = chunk;
  return fresh_slot(chunk);
}

static HeapSlot* take_slot_for(size_t size, size_t alignment) {
  if (alignment < HEAP_ALIGNMENT) alignment = HEAP_ALIGNMENT;
  size_t bytes = round_up(size + HEAP_GAP_BYTES, alignment);
  if (bytes <= MAX_SLOT_BYTES) return take_slot(slot_class(bytes, alignment));
  HeapChunk* chunk = make_chunk(bytes, 1, alignment);
  return chunk ? fresh_slot(chunk) : nullptr;
}

static void give_slot(HeapSlot* slot) {
  HeapChunk* chunk = slot->chunk;
  if (chunk->slot_bytes > MAX_SLOT_BYTES) {  // the only one
    size_t at = chunks_until(chunk->begin);
    memmove(heap_chunks + at - 1, heap_chunks + at, (heap_chunk_count - at) * sizeof(HeapChunk*));
    heap_chunk_count--;
    unmap_chunk(chunk);
    return;
  }
  SlotClass* slots = &slot_classes[slot_class(chunk->slot_bytes, HEAP_ALIGNMENT)];
  slot->next = nullptr;
  (slots->first_freed ? slots->last_freed->next : slots->first_freed) = slot;
  slots->last_freed = slot;
}

static uintptr_t begin_of(const HeapSlot* slot) {
  return slot->chunk->begin + (size_t)(slot - slot->chunk->slots) * slot->chunk->slot_bytes;
}

// The slot that an address is in, of a block that is used or was; null if there is none.
static HeapSlot* slot_at(uintptr_t address) {
  size_t count = chunks_until(address);
  if (!count) return nullptr;
  HeapChunk* chunk = heap_chunks[count - 1];
  size_t number = (address - chunk->begin) / chunk->slot_bytes;
  return number < chunk->used_count ? &chunk->slots[number] : nullptr;
}

// ------------------------------------------------------------------------- blocks

// Memory of a block, aligned; null when there is none, as from CUDA's malloc().
static void* allocate_heap_block(size_t size, size_t alignment) {
  if (size > (size_t)1 << 46 || alignment > HEAP_CHUNK_BYTES) return nullptr;
  pthread_mutex_lock(&heap_mutex);
  HeapSlot* slot = take_slot_for(size, alignment);
  uintptr_t begin = slot ? begin_of(slot) : 0;
  if (slot) {
    slot->size = size;
    slot->state = SLOT_USED;
    if (shadow.reserved) open_memory(begin, size, READ_ONLY_SHADOW);
  }
  pthread_mutex_unlock(&heap_mutex);
  return (void*)begin;
}

enum ReleaseOutcome { RELEASED, RELEASED_BEFORE, NOT_ALLOCATED };

static ReleaseOutcome release_heap_block(void* memory) {
  if (!memory) return RELEASED;
  pthread_mutex_lock(&heap_mutex);
  HeapSlot* slot = slot_at((uintptr_t)memory);
  ReleaseOutcome outcome = NOT_ALLOCATED;
  if (slot && begin_of(slot) == (uintptr_t)memory) {
    outcome = slot->state == SLOT_USED ? RELEASED : RELEASED_BEFORE;
    if (outcome == RELEASED) {
      slot->state = SLOT_FREED;
      if (shadow.reserved) close_memory((uintptr_t)memory, slot->size, READ_ONLY_SHADOW);
      give_slot(slot);
    }
  }
  pthread_mutex_unlock(&heap_mutex);
  return outcome;
}

// The block that an access is within, or null. The mutex is held.
static const HeapSlot* used_slot_at(uintptr_t address, size_t size) {
  const HeapSlot* slot = slot_at(address);
  bool used = slot && slot->state == SLOT_USED && size <= slot->size &&
              address - begin_of(slot) <= slot->size - size;
  return used ? slot : nullptr;
}

static bool in_heap(uintptr_t address, size_t size) {
  pthread_mutex_lock(&heap_mutex);
  bool found = used_slot_at(address, size);
  pthread_mutex_unlock(&heap_mutex);
  return found;
}

// The same, and the shadow hears of it: it may be younger than the block, or was closed as a whole.
static bool open_in_heap(uintptr_t address, size_t size) {
  pthread_mutex_lock(&heap_mutex);
  const HeapSlot* slot = used_slot_at(address, size);
  if (slot) open_memory(begin_of(slot), slot->size, READ_ONLY_SHADOW);
  pthread_mutex_unlock(&heap_mutex);
  return slot;
}

struct HeapBlock {
  uintptr_t begin;
  size_t size;
  bool freed;
};

static uintptr_t distance_of(uintptr_t address, uintptr_t begin, size_t size) {
  uintptr_t end = begin + size;
  return address < begin ? begin - address : address >= end ? address - end : 0;
}

// The block that is nearest to an address, and nearer than `limit`.
static bool nearest_heap_block(uintptr_t address, uintptr_t limit, HeapBlock* block) {
  bool found = false;
  pthread_mutex_lock(&heap_mutex);
  size_t count = chunks_until(address);
  for (size_t i = count ? count - 1 : 0; i < heap_chunk_count && i <= count; i++) {
    HeapChunk* chunk = heap_chunks[i];
    size_t at = address < chunk->begin ? 0 : (address - chunk->begin) / chunk->slot_bytes;
    if (at >= chunk->used_count) at = chunk->used_count - 1;
    for (size_t k = at; k <= at + 1 && k < chunk->used_count; k++) {
      const HeapSlot* slot = &chunk->slots[k];
      uintptr_t distance = distance_of(address, begin_of(slot), slot->size);
      if (distance >= limit) continue;
      limit = distance;
      found = true;
      *block = {begin_of(slot), slot->size, slot->state == SLOT_FREED};
    }
  }
  pthread_mutex_unlock(&heap_mutex);
  return found;
}

static const char* name_of(const HeapBlock& block) {
  return block.freed ? "freed memory from malloc()" : "memory from malloc()";
}

}  // namespace kspec_host
