// One access of a warp in, what a GPU's memory has to do for it out.
//
// A request to global memory moves whole sectors of 32 bytes. Shared memory has 32 banks of 4 bytes:
// in one pass, a wavefront, each of them gives one word to all threads that want it. Accesses of 8
// bytes go in two halves of a warp and those of 16 in four quarters, but two of these go together
// where neighbours want the same word (as Nsight Compute counts them on an H200).
#pragma once

#include <stdlib.h>
#include <string.h>

#include "review_flow.h"
#include "review_state.h"

namespace kspec_host {

// The addresses of the threads of a warp that take part in an access, sorted.
struct Request {
  uint64_t address[WARP_SIZE];
  unsigned lane[WARP_SIZE];
  unsigned count, size;
};

static void sort_addresses(const Request& request, uint64_t* sorted) {
  for (unsigned i = 0; i < request.count; i++) {  // they mostly are
    uint64_t value = request.address[i];
    unsigned k = i;
    for (; k > 0 && sorted[k - 1] > value; k--) sorted[k] = sorted[k - 1];
    sorted[k] = value;
  }
}

// The most threads that have one address.
static unsigned most_alike(const uint64_t* sorted, unsigned count) {
  unsigned most = 0, run = 0;
  for (unsigned i = 0; i < count; i++) {
    run = i && sorted[i] == sorted[i - 1] ? run + 1 : 1;
    if (run > most) most = run;
  }
  return most;
}

// Store the distinct sectors of an access; returns how many there are. The bytes that are asked for
// are added to `bytes`.
static unsigned sectors_of(const uint64_t* sorted, unsigned count, unsigned size,
                           uint64_t* sectors, uint64_t* bytes) {
  unsigned found = 0;
  uint64_t end = 0;  // of the bytes seen so far
  for (unsigned i = 0; i < count; i++) {
    uint64_t begin = sorted[i], last = begin + size;
    if (last > end) *bytes += last - (begin > end ? begin : end);
    if (last > end) end = last;
    for (uint64_t sector = begin / SECTOR_BYTES; sector <= (last - 1) / SECTOR_BYTES; sector++)
      if (!found || sectors[found - 1] < sector) sectors[found++] = sector;
  }
  return found;
}

// The passes that a part of a warp needs for words in the banks of shared memory, and the fewest for
// so many different words.
static void count_passes(ReviewSite* site, const uint64_t* sorted, unsigned count, unsigned size) {
  unsigned char load[BANKS] = {};
  uint64_t previous = ~0ull;
  unsigned most = 0, words = 0;
  for (unsigned i = 0; i < count; i++)
    for (uint64_t word = sorted[i] / BANK_BYTES; word <= (sorted[i] + size - 1) / BANK_BYTES;
         word++) {
      if (previous != ~0ull && word <= previous) continue;
      previous = word;
      words++;
      unsigned passes = ++load[word % BANKS];
      if (passes > most) most = passes;
    }
  site->wavefronts += most;
  site->ideal += (words + BANKS - 1) / BANKS;
}

// Whether lanes that are `apart` from each other, in a part of a warp, have the same address.
static bool is_shared_by(const Request& request, unsigned apart) {
  for (unsigned i = 0; i < request.count; i++)  // in the order of lanes
    for (unsigned k = i; k-- > 0 && request.lane[k] + apart >= request.lane[i];)
      if (request.lane[k] == (request.lane[i] ^ apart) && request.address[k] != request.address[i])
        return false;
  return true;
}

// The lanes of a request from number `first` on.
static Request part_of(const Request& request, unsigned first, unsigned width) {
  Request part;
  part.count = 0, part.size = request.size;
  for (unsigned i = 0; i < request.count; i++) {
    if (request.lane[i] - first >= width) continue;
    part.lane[part.count] = request.lane[i];
    part.address[part.count++] = request.address[i];
  }
  return part;
}

static void count_wavefronts(ReviewSite* site, const Request& request) {
  // Together where neighbours, or lanes two apart, have the same address; else half by half.
  const unsigned width = request.size > 8 ? WARP_SIZE / 2 : WARP_SIZE;
  for (unsigned first = 0; first < WARP_SIZE; first += width) {
    const Request whole = part_of(request, first, width);
    const bool together = request.size <= 4 || is_shared_by(whole, 1) || is_shared_by(whole, 2);
    const unsigned step = together ? width : width / 2;
    for (unsigned at = first; at < first + width; at += step) {
      const Request part = part_of(whole, at, step);
      if (!part.count) continue;
      uint64_t sorted[WARP_SIZE];
      sort_addresses(part, sorted);
      count_passes(site, sorted, part.count, part.size);
    }
  }
}

// ------------------------------------------------------------------------- sectors beyond a request

// The mark of a sector; null when memory is short.
static SectorMark* mark_of(Review* review, uint64_t sector) {
  if (2 * (review->mark_count + 1) > review->mark_capacity) {
    size_t wanted = review->mark_capacity ? 2 * review->mark_capacity : 1 << 14;
    SectorMark* table = (SectorMark*)calloc(wanted, sizeof(SectorMark));
    if (!table) return nullptr;
    for (size_t i = 0; i < review->mark_capacity; i++) {
      const SectorMark& mark = review->marks[i];
      if (!mark.key) continue;
      size_t place = mixed(mark.key) & (wanted - 1);
      while (table[place].key) place = (place + 1) & (wanted - 1);
      table[place] = mark;
    }
    free(review->marks);
    review->marks = table;
    review->mark_capacity = wanted;
  }
  size_t place = mixed(sector + 1) & (review->mark_capacity - 1);
  while (review->marks[place].key && review->marks[place].key != sector + 1)
    place = (place + 1) & (review->mark_capacity - 1);
  if (!review->marks[place].key) {
    review->marks[place].key = sector + 1;
    review->mark_count++;
  }
  return &review->marks[place];
}

// Whether the run has loaded a sector.
static bool is_loaded(const Review* review, uint64_t sector) {
  size_t place = mixed(sector + 1) & (review->mark_capacity - 1);
  while (review->marks[place].key && review->marks[place].key != sector + 1)
    place = (place + 1) & (review->mark_capacity - 1);
  return review->marks[place].key && review->marks[place].loaded == review->block.run;
}

// The bytes of a sector that an access of a thread covers, as a set.
static uint32_t bytes_in(uint64_t sector, uint64_t address, unsigned size) {
  uint64_t begin = sector * SECTOR_BYTES, from = address > begin ? address - begin : 0;
  uint64_t to = address + size - begin;
  if (address + size <= begin || from >= SECTOR_BYTES) return 0;
  if (to > SECTOR_BYTES) to = SECTOR_BYTES;
  return (uint32_t)(((1ull << (to - from)) - 1) << from);
}

static void count_traffic(Review* review, ReviewRegion* region, const Request& request,
                          const uint64_t* sectors, unsigned count, AccessClass access) {
  unsigned thread = 0;  // sorted, as the sectors are
  for (unsigned i = 0; i < count; i++) {
    SectorMark* mark = mark_of(review, sectors[i]);
    if (!mark) {
      review->short_of_memory = true;
      return;
    }
    if (access == CLASS_LOAD) {
      review->turn += !i || sectors[i] / LINE_SECTORS != sectors[i - 1] / LINE_SECTORS;
      if (mark->block != review->block.number) {
        region->l2_loads++;
      } else if (mark->reader == review->warp) {
        unsigned distance = 31 - (unsigned)__builtin_clz(review->turn - mark->turn);
        region->again[distance < DISTANCES ? distance : DISTANCES - 1]++;
      }
      mark->block = review->block.number;
      mark->reader = review->warp, mark->turn = review->turn;
    } else if (access == CLASS_ATOMIC) {
      region->l2_atomics++;
    } else {
      if (mark->writer != review->warp) region->l2_stores++;
      mark->writer = review->warp;
    }
    // What the run has written is in the second cache: reading it costs nothing more.
    if (access != CLASS_STORE && mark->loaded != review->block.run && mark->stored != review->block.run)
      region->dram_loads += is_loaded(review, sectors[i] ^ 1) ? 0 : 2;  // memory is read in pairs
    if (access != CLASS_STORE) mark->loaded = review->block.run;
    if (access == CLASS_LOAD) continue;
    if (mark->stored != review->block.run) region->dram_stores++, mark->written = 0;
    mark->stored = review->block.run;
    if (access == CLASS_ATOMIC) mark->written = ~0u;
    const uint64_t end = (sectors[i] + 1) * SECTOR_BYTES;
    while (thread && request.address[thread - 1] + request.size > end - SECTOR_BYTES) thread--;
    for (; thread < request.count && request.address[thread] < end; thread++)
      mark->written |= bytes_in(sectors[i], request.address[thread], request.size);
  }
}

}  // namespace kspec_host
