// sanitize="race": the last accesses to every byte, and what conflicts with them.
//
// A cell remembers the last write and two reads of a 4-byte word. Words that are accessed in parts
// get a cell for each byte instead, so that neighbours in a word never count as one.
#pragma once

#include <stdlib.h>
#include <string.h>

#include "check_clocks.h"
#include "check_shared.h"

namespace kspec_host {

struct Cell {
  Access write;
  Access reads[2];
};

enum : unsigned { SHADOW_BYTES = 4096, WORD_BYTES = 4, SHADOW_WORDS = SHADOW_BYTES / WORD_BYTES };

struct ShadowPage {
  uintptr_t number;
  Cell words[SHADOW_WORDS];
  Cell* bytes;  // SHADOW_BYTES of them, once a word is accessed in parts
  bool split[SHADOW_WORDS];
};

struct Race {
  Ordering ordering;
  ShadowPage** pages;  // a hash table by number
  unsigned page_count, page_capacity;
  ShadowPage* recent[64];
};

// ------------------------------------------------------------------------- shadow memory

static ShadowPage** page_slot(ShadowPage** pages, unsigned capacity, uintptr_t number) {
  unsigned index = (unsigned)((number * 0x9E3779B97F4A7C15ull) >> 40) & (capacity - 1);
  while (pages[index] && pages[index]->number != number) index = (index + 1) & (capacity - 1);
  return &pages[index];
}

static bool grow_pages(Race* race) {
  unsigned capacity = race->page_capacity ? 2 * race->page_capacity : 256;
  ShadowPage** pages = (ShadowPage**)calloc(capacity, sizeof(ShadowPage*));
  if (!pages) return false;
  for (unsigned i = 0; i < race->page_capacity; i++)
    if (ShadowPage* page = race->pages[i]) *page_slot(pages, capacity, page->number) = page;
  free(race->pages);
  race->pages = pages;
  race->page_capacity = capacity;
  return true;
}

// The shadow of an address; null when memory is short, and then nothing is checked there.
static ShadowPage* shadow_page(Race* race, uintptr_t address) {
  uintptr_t number = address / SHADOW_BYTES;
  ShadowPage** recent = &race->recent[number % 64];
  if (*recent && (*recent)->number == number) return *recent;
  if (2 * race->page_count >= race->page_capacity && !grow_pages(race)) return nullptr;
  ShadowPage** slot = page_slot(race->pages, race->page_capacity, number);
  if (!*slot) {
    *slot = (ShadowPage*)calloc(1, sizeof(ShadowPage));
    if (!*slot) return nullptr;
    (*slot)->number = number;
    race->page_count++;
  }
  return *recent = *slot;
}

static void forget_accesses(Race* race) {
  for (unsigned i = 0; i < race->page_capacity; i++) {
    if (race->pages[i]) free(race->pages[i]->bytes);
    free(race->pages[i]);
  }
  free(race->pages);
  race->pages = nullptr;
  race->page_count = race->page_capacity = 0;
  memset(race->recent, 0, sizeof race->recent);
}

static bool split_word(ShadowPage* page, unsigned word) {
  if (!page->bytes) page->bytes = (Cell*)calloc(SHADOW_BYTES, sizeof(Cell));
  if (!page->bytes) return false;
  for (unsigned i = 0; i < WORD_BYTES; i++) page->bytes[word * WORD_BYTES + i] = page->words[word];
  page->split[word] = true;
  return true;
}

// ------------------------------------------------------------------------- one access

struct Incoming {
  Worker* worker;
  Race* race;
  Access access;
  uintptr_t address;
  size_t size;
  unsigned kind;
  bool shared;
};

static void add_thread(Text* text, const Worker* worker, const Access& access) {
  const unsigned *shape = worker->block.block, *grid = worker->block.grid;
  unsigned thread = access.thread, block = access.block - 1;
  if (shape[1] * shape[2] == 1) {
    text->add("thread %u", thread);
  } else {
    text->add("thread (%u,%u,%u)", thread % shape[0], thread / shape[0] % shape[1],
              thread / (shape[0] * shape[1]));
  }
  if (access.block != worker->job->check->race->ordering.clocks.block)
    text->add(" of block (%u,%u,%u)", block % grid[0], block / grid[0] % grid[1],
              block / grid[0] / grid[1]);
  if (access.pc) text->add("<@%x>", access.pc);  // host/faults.py puts file and line here
}

static const char* advice(const Incoming& now, const Access& earlier) {
  if (earlier.block != now.access.block)
    return "blocks are not ordered: use atomics, or __threadfence() and an atomic between them";
  if (earlier.thread / WARP_SIZE == now.access.thread / WARP_SIZE)
    return "no __syncwarp() or __syncthreads() orders them";
  return "no __syncthreads() orders them";
}

[[noreturn]] static void fail_race(const Incoming& now, const Access& earlier, const char* hazard,
                                   bool earlier_writes) {
  Worker* worker = now.worker;
  if (Fault* fault = begin_fault(worker, "race")) {
    Text text(fault->message, sizeof fault->message);
    text.add("%s hazard on %s memory: %s of %zu bytes by ", hazard,
             now.shared ? "shared" : "global", kind_name(now.kind), now.size);
    add_thread(&text, worker, now.access);
    text.add(" conflicts with %s by ",
             earlier.atomic ? "atomic" : earlier_writes ? "write" : "read");
    add_thread(&text, worker, earlier);
    text.add("\n  at ");
    if (now.shared) {
      describe_shared_address(&text, worker, now.address);
    } else {
      describe_array(&text, worker->job->check, now.address);
    }
    text.add("; %s", advice(now, earlier));
    set_fault_thread(fault, worker, now.access.thread);
    end_fault(worker);
  }
  abort_block(worker);
}

static bool conflicts(const Incoming& now, const Access& earlier) {
  if (!earlier.block || (earlier.atomic && now.access.atomic)) return false;
  return !is_ordered(&now.race->ordering, earlier, now.access.thread, now.shared);
}

// How useful a second remembered read is: the further from the first, the more writes it catches.
static int distance(const Access& a, const Access& b) {
  if (!a.block || !b.block) return -1;
  if (a.block != b.block) return 3;
  if (a.thread / WARP_SIZE != b.thread / WARP_SIZE) return 2;
  return a.thread != b.thread;
}

static bool is_current(const Incoming& now, const Access& access) {
  return access.block && (access.block != now.access.block ? !now.shared
                                                           : access.epoch == now.access.epoch);
}

static void remember_read(const Incoming& now, Cell* cell) {
  Access* reads = cell->reads;
  for (int i = 0; i < 2; i++) {
    bool mine = reads[i].block == now.access.block && reads[i].thread == now.access.thread;
    if (mine || !is_current(now, reads[i])) {
      reads[i] = now.access;
      return;
    }
  }
  if (distance(reads[0], now.access) > distance(reads[0], reads[1])) reads[1] = now.access;
}

static void visit(const Incoming& now, Cell* cell) {
  bool writes = now.kind & ACCESS_WRITE;
  if (conflicts(now, cell->write))
    fail_race(now, cell->write, writes ? "write-after-write" : "read-after-write", true);
  if (writes)
    for (const Access& read : cell->reads)
      if (conflicts(now, read)) fail_race(now, read, "write-after-read", false);
  if (writes) cell->write = now.access;
  // Whoever is ordered after a plain write is ordered after the reads before it.
  if (writes && !now.access.atomic) memset(cell->reads, 0, sizeof cell->reads);
  // Atomics are remembered as reads too: of several unordered ones more than the last counts.
  if (!writes || now.access.atomic) remember_read(now, cell);
}

static void visit_all(const Incoming& now) {
  uintptr_t address = now.address, end = address + now.size;
  while (address < end) {
    ShadowPage* page = shadow_page(now.race, address);
    uintptr_t next = (address / WORD_BYTES + 1) * WORD_BYTES;
    if (next > end) next = end;
    unsigned offset = address % SHADOW_BYTES, word = offset / WORD_BYTES;
    bool whole = next - address == WORD_BYTES;
    if (page && whole && !page->split[word]) {
      visit(now, &page->words[word]);
    } else if (page && (page->split[word] || split_word(page, word))) {
      for (unsigned i = 0; i < next - address; i++) visit(now, &page->bytes[offset + i]);
    }
    address = next;
  }
}

static void check_race(Worker* worker, unsigned thread, uintptr_t address, size_t size,
                       unsigned kind, const void* pc, bool shared) {
  Race* race = worker->job->check->race;
  Ordering* ordering = &race->ordering;
  Clocks* clocks = &ordering->clocks;
  // CUDA defines volatile accesses as strong; in shared memory they are relied on to order lanes,
  // which they do not.
  if (kind & ACCESS_VOLATILE && !shared) kind |= ACCESS_ATOMIC;
  bool atomic = kind & ACCESS_ATOMIC;
  if (atomic) acquire(ordering, thread, address);
  const ModuleText& text = worker->job->text;
  uintptr_t place = (uintptr_t)pc;
  uint32_t offset = text.holds(place) ? (uint32_t)(place - 1 - text.load_address) : 0;
  Access access = {clocks->block, clocks->own[thread], offset, thread, clocks->epoch, atomic};
  visit_all({worker, race, access, address, size, kind, shared});
  if (atomic && kind & ACCESS_WRITE && (clocks->fenced || kind & ACCESS_RELEASE))
    release(ordering, thread, address);
}

// ------------------------------------------------------------------------- events

static Ordering* ordering_of(const Worker* worker) {
  Check* check = worker->job->check;
  return check && check->modes & CHECK_RACE ? &check->race->ordering : nullptr;
}

static bool begin_race(Check* check) {
  if (!check->race) check->race = (Race*)calloc(1, sizeof(Race));
  return check->race != nullptr;
}

static void end_race(Check* check) {
  if (!check->race) return;
  forget_accesses(check->race);
  clear_ordering(&check->race->ordering);
}

// Memory has a new owner: nothing is known of it.
static void forget_range(Worker* worker, uintptr_t begin, size_t size) {
  if (!ordering_of(worker)) return;
  Race* race = worker->job->check->race;
  for (uintptr_t address = begin; address < begin + size; address++) {
    ShadowPage** slot =
        race->page_count ? page_slot(race->pages, race->page_capacity, address / SHADOW_BYTES)
                         : nullptr;
    unsigned offset = address % SHADOW_BYTES;
    if (!slot || !*slot) {
      address += SHADOW_BYTES - offset - 1;  // to the next page
      continue;
    }
    memset(&(*slot)->words[offset / WORD_BYTES], 0, sizeof(Cell));
    if ((*slot)->split[offset / WORD_BYTES]) memset(&(*slot)->bytes[offset], 0, sizeof(Cell));
  }
}

static void race_begin_block(Worker* worker) {
  Ordering* ordering = ordering_of(worker);
  const unsigned *grid = worker->block.grid, *index = worker->block.index;
  uint32_t block = index[0] + grid[0] * (index[1] + grid[1] * index[2]) + 1;
  if (ordering) begin_block_clocks(ordering, block, worker->thread_count);
}

// A barrier of the block is complete.
static void race_barrier(Worker* worker) {
  if (Ordering* ordering = ordering_of(worker)) order_block(ordering, worker->thread_count);
}

// A warp operation of some lanes is complete.
static void race_warp(Worker* worker, unsigned warp, unsigned lanes) {
  if (Ordering* ordering = ordering_of(worker)) order_lanes(ordering, warp, lanes);
}

static void service_fence(Worker* worker, unsigned) {
  if (Ordering* ordering = ordering_of(worker)) ordering->clocks.fenced = true;
}

}  // namespace kspec_host
