// malloc() and free() of kernels: the device's heap. It outlives launches, as on a GPU.
#pragma once

#include <stdlib.h>
#include <string.h>

#include "shadow.h"

namespace kspec_host {

struct HeapBlock {
  uintptr_t begin;
  size_t size;
};

// Sorted by address.
static HeapBlock* heap_blocks;
static size_t heap_count, heap_capacity;
static pthread_mutex_t heap_mutex = PTHREAD_MUTEX_INITIALIZER;

// The number of blocks that begin at or before an address. The mutex is held.
static size_t heap_blocks_until(uintptr_t address) {
  size_t low = 0, high = heap_count;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (heap_blocks[middle].begin <= address) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

static bool in_heap(uintptr_t address, size_t size) {
  pthread_mutex_lock(&heap_mutex);
  size_t count = heap_blocks_until(address);
  const HeapBlock* block = count ? &heap_blocks[count - 1] : nullptr;
  bool found = block && size <= block->size && address - block->begin <= block->size - size;
  pthread_mutex_unlock(&heap_mutex);
  return found;
}

// Null when there is no memory, as CUDA's malloc().
static void* allocate_heap_block(unsigned long size) {
  if (size > (size_t)1 << 46) return nullptr;
  void* memory = malloc(size + 1);
  if (!memory) return nullptr;
  pthread_mutex_lock(&heap_mutex);
  if (heap_count == heap_capacity) {
    size_t capacity = 2 * heap_capacity + 64;
    void* grown = realloc(heap_blocks, capacity * sizeof(HeapBlock));
    if (grown) {
      heap_blocks = (HeapBlock*)grown;
      heap_capacity = capacity;
    }
  }
  bool room = heap_count < heap_capacity;
  if (room) {
    size_t at = heap_blocks_until((uintptr_t)memory);
    memmove(heap_blocks + at + 1, heap_blocks + at, (heap_count - at) * sizeof(HeapBlock));
    heap_blocks[at] = {(uintptr_t)memory, size};
    heap_count++;
  }
  pthread_mutex_unlock(&heap_mutex);
  if (!room) return free(memory), nullptr;
  if (shadow.reserved) open_memory((uintptr_t)memory, size, READ_ONLY_SHADOW);
  return memory;
}

// False if the address is not one that allocate_heap_block() returned.
static bool release_heap_block(void* memory) {
  if (!memory) return true;
  pthread_mutex_lock(&heap_mutex);
  size_t count = heap_blocks_until((uintptr_t)memory), size = 0;
  bool found = count && heap_blocks[count - 1].begin == (uintptr_t)memory;
  if (found) {
    size = heap_blocks[count - 1].size;
    memmove(heap_blocks + count - 1, heap_blocks + count,
            (heap_count - count) * sizeof(HeapBlock));
    heap_count--;
  }
  pthread_mutex_unlock(&heap_mutex);
  if (!found) return false;
  if (shadow.reserved) close_memory((uintptr_t)memory, size, READ_ONLY_SHADOW);
  free(memory);
  return true;
}

}  // namespace kspec_host
