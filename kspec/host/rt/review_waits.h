// Loads of a warp in their order in, how often it waits for them out.
//
// A warp issues its instructions in order: loads that follow each other are on their way together,
// until the first of their values is used. Which instruction uses one is not recorded, so a step is a
// load whose address was loaded, and the first one after a store or a barrier; a store to the other
// space counts if the load is of another basic block, for compilers unroll loops that fill shared
// memory. Further basic blocks with loads are turns: of those, too, some are made at a time.
#pragma once

#include "review_count.h"
#include "review_state.h"

namespace kspec_host {

// The addresses that a warp loaded from, by lane, as they are on the host.
struct LoadedLanes {
  uint64_t address[WARP_SIZE];
  unsigned mask, size;
};

// The loads of a warp from one space.
struct Waits {
  enum : unsigned { KEPT = 4 };  // loads whose values may be addresses
  unsigned visit, node;  // the basic block of the last of them; visit 0: something is between
  bool stored;           // to the other space, since
  LoadedLanes kept[KEPT];
  unsigned count;

  void interrupt() { visit = 0, count = 0, stored = false; }
};

// The integer of 4 or 8 bytes that a thread loaded; memory may have changed since, which indices
// rarely do.
static int64_t loaded_integer(uint64_t address, unsigned size) {
  int64_t wide;
  int32_t narrow;
  memcpy(&narrow, (const void*)address, 4);
  if (size == 4) return narrow;
  memcpy(&wide, (const void*)address, 8);
  return wide;
}

// Whether addresses are linear in the values of an earlier load, which do not just count the lanes.
static bool depends_on(const LoadedLanes& later, const LoadedLanes& earlier, uint64_t begin) {
  const unsigned mask = later.mask & earlier.mask;
  if (!mask || (earlier.size != 4 && earlier.size != 8)) return false;
  const unsigned first = (unsigned)__builtin_ctz(mask);
  const int64_t origin = loaded_integer(earlier.address[first], earlier.size);
  int64_t run = 0, rise = 0;
  unsigned other = WARP_SIZE;
  bool counts = true;
  for (unsigned lane = first + 1; lane < WARP_SIZE; lane++) {
    if (!(mask >> lane & 1)) continue;
    const int64_t step = loaded_integer(earlier.address[lane], earlier.size) - origin;
    const int64_t way = (int64_t)(later.address[lane] - later.address[first]);
    if (other == WARP_SIZE) {
      other = lane, run = step, rise = way;
      continue;
    }
    if ((__int128)way * run != (__int128)rise * step) return false;
    counts = counts && (__int128)step * (other - first) == (__int128)run * (lane - first);
  }
  if (other == WARP_SIZE || !run)  // one value
    return origin && !rise && (later.address[first] == (uint64_t)origin ||
                               later.address[first] == begin + (uint64_t)(origin * later.size));
  return rise && !counts;
}

static void note_load(ReviewWaits* counted, Waits* waits, const LoadedLanes& load, unsigned visit,
                      unsigned node, uint64_t begin) {
  bool depends = false;
  for (unsigned i = 0; i < waits->count && i < Waits::KEPT; i++)
    depends = depends || depends_on(load, waits->kept[i], begin);
  if (depends || !waits->visit || (waits->stored && waits->node != node))
    counted->steps++;
  else if (waits->visit != visit)
    counted->turns++;
  if (depends) waits->count = 0;  // the values of what comes later
  waits->visit = visit, waits->node = node;
  waits->stored = false;
  waits->kept[waits->count++ % Waits::KEPT] = load;
}

}  // namespace kspec_host
