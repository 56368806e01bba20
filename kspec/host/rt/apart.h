// Memory of the runtime that kernels can reach: stacks, shared memory, local arrays, the device's
// heap. Each kind has a realm of addresses, far from all else and from one another, so that a wrong
// index, also a large one, ends where nothing is. The realms follow the shadow (abi.h).
#pragma once

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

namespace kspec_host {

struct Realm {
  uintptr_t begin, end;
  size_t gap;  // of addresses that stay free after each piece
  uintptr_t next = begin;
};

static Realm shared_realm = {(uintptr_t)8 << 42, (uintptr_t)9 << 42, (size_t)64 << 20};
static Realm stack_realm = {(uintptr_t)10 << 42, (uintptr_t)11 << 42, 0};
static Realm local_realm = {(uintptr_t)12 << 42, (uintptr_t)13 << 42, 0};
static Realm heap_realm = {(uintptr_t)14 << 42, (uintptr_t)15 << 42, 0};
static pthread_mutex_t realm_mutex = PTHREAD_MUTEX_INITIALIZER;

// Map memory in a realm; null when there is none. No address is used twice before all were used.
// Where one is taken, or the machine has fewer addresses, the system chooses another.
static char* map_apart(Realm* realm, size_t bytes, int protection) {
  pthread_mutex_lock(&realm_mutex);
  if (realm->next + bytes > realm->end) realm->next = realm->begin;
  void* map = mmap((void*)realm->next, bytes, protection,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  realm->next += bytes + realm->gap;
  pthread_mutex_unlock(&realm_mutex);
  return map == MAP_FAILED ? nullptr : (char*)map;
}

}  // namespace kspec_host
