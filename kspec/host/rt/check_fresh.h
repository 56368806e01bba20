// sanitize="init" of arrays that a call makes, such as outputs: reads before any write.
#pragma once

#include <stdlib.h>
#include <string.h>

#include "check_memory.h"
#include "check_shared.h"
#include "check_state.h"

namespace kspec_host {

static void release_fresh(Check* check) {
  for (unsigned i = 0; i < check->fresh_count; i++) free(check->fresh[i].written);
  free(check->fresh);
  check->fresh = nullptr;
  check->fresh_count = 0;
}

// Without memory for the tables, nothing is found.
static void collect_fresh(Check* check, const Region* regions, unsigned region_count) {
  release_fresh(check);
  // A review takes the blocks as a GPU would, which loads outputs whole.
  if (!(check->modes & CHECK_INIT) || check->modes & CHECK_REVIEW) return;
  check->fresh = (FreshArray*)calloc(region_count + 1, sizeof(FreshArray));
  for (unsigned i = 0; check->fresh && i < region_count; i++) {
    if (!regions[i].fresh) continue;
    FreshArray one = {regions[i].begin, regions[i].size,
                      (unsigned char*)calloc(regions[i].size + 1, 1)};
    if (one.written) check->fresh[check->fresh_count++] = one;
  }
}

static void check_fresh(Worker* worker, unsigned thread, uintptr_t address, size_t size,
                        unsigned kind, const void* pc) {
  Check* check = worker->job->check;
  for (unsigned i = 0; i < check->fresh_count; i++) {
    const FreshArray& one = check->fresh[i];
    if (address < one.begin || address + size > one.begin + one.size) continue;
    unsigned char* bytes = one.written + (address - one.begin);
    if (kind & ACCESS_READ && nothing_written(bytes, size))
      fail_array(worker, thread, address, size, kind, pc, true);
    if (kind & ACCESS_WRITE) memset(bytes, BYTE_WRITTEN, size);
  }
}

}  // namespace kspec_host
