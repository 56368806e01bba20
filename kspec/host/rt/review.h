// Reviews: what the threads of a warp do, in the order in which a GPU would do it.
//
// record_access(), service_arrive() and record_barrier() keep the events of each thread of a sampled
// block. Once the block has ended, end_reviewed_block() walks through each warp: threads that part at
// a branch go on one group after the other and meet again where their ways do (review_flow.h); what
// a group does at once is a request, and counted (review_count.h), and so is how often the warp waits
// for what it loads (review_waits.h).
#pragma once

#include <stdlib.h>
#include <string.h>

#include "check_memory.h"
#include "review_count.h"
#include "review_flow.h"
#include "review_state.h"
#include "review_waits.h"

namespace kspec_host {

// ------------------------------------------------------------------------- recording

static inline unsigned count_of(const ThreadEvents& own) { return own.count & ~(1u << 31); }
static inline bool is_cut(const ThreadEvents& own) { return own.count >> 31; }

// What is dropped is counted, for figures can be scaled.
static bool is_dropped(Review* review, unsigned thread) {
  if (!is_cut(review->block.threads[thread])) return false;
  review->summary.dropped++;
  return true;
}

static void keep_event(Review* review, unsigned thread, const Event& event) {
  ThreadEvents* own = &review->block.threads[thread];
  if (own->count >= MAX_THREAD_EVENTS || review->block_events >= MAX_BLOCK_EVENTS ||
      !has_room(&own->events, own->count, &own->capacity)) {
    own->count |= 1u << 31;  // an end that is not the thread's
    review->summary.dropped++;
    return;
  }
  own->events[own->count++] = event;
  review->block_events++;
  review->summary.kept++;
}

static void record_access(Worker* worker, unsigned thread, uintptr_t address, size_t size,
                          unsigned kind, const void* pc, Space space) {
  Review* review = worker->job->check->review;
  if (!review->block.sampled || is_dropped(review, thread)) return;
  uint32_t offset = (uint32_t)((uintptr_t)pc - worker->job->text.load_address);
  const unsigned kept = ACCESS_READ | ACCESS_WRITE | ACCESS_ATOMIC | ACCESS_COMPARE;
  // Copies of structs, by as many bytes at once as divide their size.
  size_t piece = size <= 16 && !(size & (size - 1)) ? size : size & (~size + 1);
  if (piece > 16) piece = 16;
  for (size_t at = 0; at < size; at += piece)
    keep_event(review, thread,
               {address + at, offset, (uint16_t)piece, (uint8_t)(kind & kept), space});
}

static void service_arrive(Worker* worker, unsigned thread, int step, const void* pc) {
  Check* check = worker->job->check;
  if (!worker->running || !check || !check->review) return;
  // The dialect may arrive somewhere before a block's threads have begun.
  if (!check->review->block.sampled || thread >= worker->thread_count) return;
  if (is_dropped(check->review, thread)) return;
  require_stack(worker, pc);
  uint32_t offset = (uint32_t)((uintptr_t)pc - worker->job->text.load_address);
  keep_event(check->review, thread, {0, offset, 0, (uint8_t)step, 0});
}

static void record_barrier(Worker* worker, unsigned thread) {
  const Check* check = worker->job->check;
  if (!check || !check->review) return;
  if (!check->review->block.sampled || is_dropped(check->review, thread)) return;
  keep_event(check->review, thread, {0, 0, 0, STEP_BARRIER, 0});
}

// ------------------------------------------------------------------------- counting

// Addresses as on a GPU, whose arrays begin at multiples of 256 bytes.
static ReviewRegion* region_of(Review* review, uint64_t* address) {
  for (unsigned i = 1; i < review->region_count; i++) {
    ReviewRegion* region = &review->regions[i];
    if (*address - region->begin >= region->size) continue;
    *address = ((uint64_t)i << 48) + (*address - region->begin);
    return region;
  }
  return &review->regions[0];
}

static AccessClass class_of(unsigned kind) {
  if (kind & ACCESS_ATOMIC && kind & (ACCESS_WRITE | ACCESS_COMPARE)) return CLASS_ATOMIC;
  return kind & ACCESS_WRITE ? CLASS_STORE : CLASS_LOAD;
}

static ReviewSite* site_of(Review* review, const Event& event, AccessClass access) {
  auto hash = [](uint32_t pc, unsigned access, unsigned size) {
    return mixed((uint64_t)pc << 8 | access << 5 | size);
  };
  auto hash_of = [review, hash](unsigned i) {
    const ReviewSite& one = review->sites[i];
    return hash(one.pc, one.access, one.size);
  };
  unsigned count = review->summary.site_count;
  if (!has_slots(&review->site_slots, &review->slot_count, count, hash_of) ||
      !has_room(&review->sites, count, &review->site_capacity))
    return nullptr;
  unsigned place = (unsigned)hash(event.pc, access, event.size) & (review->slot_count - 1);
  for (; unsigned found = review->site_slots[place]; place = (place + 1) & (review->slot_count - 1)) {
    ReviewSite* site = &review->sites[found - 1];
    if (site->pc == event.pc && site->access == access && site->size == event.size &&
        site->space == event.space)
      return site;
  }
  review->site_slots[place] = ++review->summary.site_count;
  ReviewSite* site = &review->sites[count];
  *site = {};
  site->pc = event.pc, site->access = access, site->space = event.space, site->size = event.size;
  site->address = event.address;
  return site;
}

static void count_request(Review* review, const Event& event, Request* request) {
  AccessClass access = class_of(event.kind);
  ReviewSite* site = site_of(review, event, access);
  if (!site) {
    review->short_of_memory = true;
    return;
  }
  site->requests++;
  site->lanes += request->count;
  uint64_t sorted[WARP_SIZE];
  ReviewRegion* region = nullptr;
  if (event.space == SPACE_SHARED) {
    count_wavefronts(site, *request);
    sort_addresses(*request, sorted);
  } else {
    region = &review->regions[0];
    for (unsigned i = 0; i < request->count; i++) region = region_of(review, &request->address[i]);
    sort_addresses(*request, sorted);
    uint64_t sectors[2 * WARP_SIZE];
    unsigned found = sectors_of(sorted, request->count, event.size, sectors, &site->bytes);
    site->sectors += found;
    for (unsigned i = 0; i < found; i++)
      site->tags += !i || sectors[i] / LINE_SECTORS != sectors[i - 1] / LINE_SECTORS;
    site->misaligned += sorted[0] % SECTOR_BYTES != 0;
    Request ordered = *request;
    memcpy(ordered.address, sorted, request->count * sizeof *sorted);
    count_traffic(review, region, ordered, sectors, found, access);
  }
  if (access != CLASS_ATOMIC) return;
  unsigned alike = most_alike(sorted, request->count);
  site->contention += alike;
  if (region) region->atomic_lanes += alike == request->count ? 1 : request->count;
}

// ------------------------------------------------------------------------- warps

// Threads that go together until they come to a basic block where others wait. Where their way is
// short, a compiler lets the others come along and do nothing: it predicates it.
struct Group {
  unsigned mask, join, issued;
  unsigned parted;  // the basic block after which it went its own way; ~0u: none
};

struct WarpWalk {
  Review* review;
  const ThreadEvents* threads;  // of the warp
  unsigned count;
  unsigned position[WARP_SIZE], node[WARP_SIZE];  // the next event, and the last basic block

  unsigned visit;  // of basic blocks, from 1
  Waits global, shared;

  bool has_ended(unsigned lane) const { return position[lane] >= count_of(threads[lane]); }
  const Event& event(unsigned lane) const { return threads[lane].events[position[lane]]; }
  bool arrives(unsigned lane) const {
    return !has_ended(lane) && event(lane).size == 0 && event(lane).kind == STEP_BLOCK;
  }

  // The basic block that a thread enters next.
  unsigned next(unsigned lane) const { return (unsigned)event(lane).address; }

  // Number the basic blocks, in the place of addresses, and keep the ways between them.
  void learn_flow() {
    for (unsigned lane = 0; lane < count; lane++) {
      unsigned last = ~0u, depth = 0;
      uint64_t calls[MAX_CALLS] = {};
      uint32_t places[MAX_CALLS] = {};
      unsigned outer[MAX_CALLS] = {};
      Event* events = threads[lane].events;
      for (unsigned i = 0; i < count_of(threads[lane]); i++) {
        Event& one = events[i];
        if (one.size) continue;
        if (one.kind == STEP_CALL) {
          const uint64_t before = calls[depth < MAX_CALLS ? depth : MAX_CALLS - 1];
          if (++depth >= MAX_CALLS) continue;
          calls[depth] = mixed(before + one.pc + 1);
          places[depth] = one.pc, outer[depth] = last;
          continue;
        }
        if (one.kind == STEP_RETURN) {
          if (depth) depth--;
          continue;
        }
        if (one.kind == STEP_BARRIER) continue;
        const unsigned level = depth < MAX_CALLS ? depth : MAX_CALLS - 1;
        const unsigned nodes = review->node_count, now = node_of(review, one.pc, calls[level]);
        if (now == ~0u) review->short_of_memory = true;
        if (now == ~0u) return;
        if (now == nodes)  // it is new
          review->nodes[now].call = places[level], review->nodes[now].outer = outer[level];
        if (last != ~0u) edge_of(review, last, now);
        one.address = last = now;
      }
      if (last != ~0u && !is_cut(threads[lane])) leave_from(last);
    }
    if (!review->returns) leave_somewhere();
  }

  void leave_from(unsigned node) {
    edge_of(review, node, LEAVES);
    review->returns = true;
  }

  bool passes(unsigned lane, unsigned node) const {
    for (unsigned i = count_of(threads[lane]); i-- > 0;) {
      const Event& one = threads[lane].events[i];
      if (!one.size && one.kind == STEP_BLOCK && one.address == node) return true;
    }
    return false;
  }

  // All threads are cut off, in a loop that none is seen to leave: without an end, ways that part never
  // meet again. One leaves behind a basic block that all come to, and that leads to one other.
  void leave_somewhere() {
    unsigned refused[8], tries = 0;
    for (unsigned i = count_of(threads[0]); i-- > 0 && tries < 8;) {
      const Event& one = threads[0].events[i];
      if (one.size || one.kind != STEP_BLOCK || review->nodes[one.address].successors != 1) continue;
      const unsigned node = (unsigned)one.address;
      bool common = true;
      for (unsigned k = 0; k < tries && common; k++) common = refused[k] != node;
      if (!common) continue;
      for (unsigned lane = 1; lane < count && common; lane++) common = passes(lane, node);
      if (common) return leave_from(node);
      refused[tries++] = node;
    }
  }

  // Whether a thread's way to a basic block is another one, which is not a loop and has few accesses
  // of shared memory and none of other.
  bool is_predicated(unsigned lane, unsigned join) const {
    unsigned accesses = 0;
    for (unsigned i = position[lane] + 1; i < count_of(threads[lane]); i++) {
      const Event& one = threads[lane].events[i];
      if (one.size && (one.space != SPACE_SHARED || one.kind & ACCESS_ATOMIC ||
                       ++accesses > MOST_PREDICATED))
        return false;
      if (!one.size && one.kind == STEP_BLOCK) return (unsigned)one.address == join;
      if (!one.size && one.kind == STEP_BARRIER) return false;
    }
    return false;
  }

  // The threads of a group may come from several basic blocks: the first one's is taken.
  void count_edge(unsigned from, unsigned to, unsigned mask) {
    const unsigned edge = from == ~0u ? ~0u : edge_of(review, from, to);
    if (edge == ~0u) return;
    review->edges[edge].visits++;
    review->edges[edge].lanes += (unsigned)__builtin_popcount(mask);
  }

  // Let all threads of a group do what follows their arrival in a basic block.
  void run_node(unsigned mask, unsigned issued, unsigned entered) {
    ReviewSummary* summary = &review->summary;
    summary->block_lanes += (unsigned)__builtin_popcount(issued);
    ReviewBlock* block = &review->nodes[entered];
    block->visits++;
    block->lanes += (unsigned)__builtin_popcount(mask);
    count_edge(node[__builtin_ctz(mask)], entered, mask);
    for (unsigned lane = 0; lane < count; lane++)
      if (mask >> lane & 1) position[lane]++, node[lane] = entered;
    visit++;
    for (;;) {
      Request request;
      request.count = 0;
      Event first = {};
      bool waited = false;  // for the threads of the block
      for (unsigned lane = 0; lane < count; lane++) {
        if (!(mask >> lane & 1)) continue;
        while (!has_ended(lane) && event(lane).size == 0 && !arrives(lane))
          waited |= event(lane).kind == STEP_BARRIER, position[lane]++;
        if (has_ended(lane) || arrives(lane)) continue;
        const Event& one = event(lane);
        if (!request.count) first = one;
        if (one.pc != first.pc || one.size != first.size || one.space != first.space) continue;
        request.address[request.count] = one.address;
        request.lane[request.count++] = lane;
        position[lane]++;
      }
      if (waited) summary->barriers++, global.interrupt(), shared.interrupt();
      if (!request.count) return;
      request.size = first.size;
      summary->request_lanes += mask == issued ? request.count : (unsigned)__builtin_popcount(issued);
      count_waits(first, request);
      count_request(review, first, &request);
    }
  }

  void count_waits(const Event& event, const Request& request) {
    if (event.space == SPACE_MODULE) return;
    Waits* waits = event.space == SPACE_SHARED ? &shared : &global;
    if (class_of(event.kind) != CLASS_LOAD) {
      (waits == &global ? shared : global).stored = true;
      return waits->interrupt();
    }
    LoadedLanes load = {};
    uint64_t address = request.address[0];
    const ReviewRegion* region = region_of(review, &address);
    if (event.space == SPACE_GLOBAL && region != &review->regions[0]) {
      load.size = event.size;
      for (unsigned i = 0; i < request.count; i++) {
        load.mask |= 1u << request.lane[i];
        load.address[request.lane[i]] = request.address[i];
      }
    }
    ReviewSummary* summary = &review->summary;
    note_load(event.space == SPACE_SHARED ? &summary->shared : &summary->global, waits, load, visit,
              node[request.lane[0]], region->begin);
  }

  void walk() {
    Group groups[2 * WARP_SIZE + 2];
    unsigned depth = 0;
    const unsigned all = count == 32 ? ~0u : (1u << count) - 1;
    groups[depth++] = {all, review->node_count, all, ~0u};
    // What a thread does before its first basic block is nothing of a kernel's.
    for (unsigned lane = 0; lane < count; lane++) {
      position[lane] = 0, node[lane] = ~0u;
      while (!has_ended(lane) && !arrives(lane)) position[lane]++;
    }
    while (depth) {
      Group* group = &groups[depth - 1];
      for (unsigned lane = 0; lane < count; lane++)
        if (group->mask >> lane & 1 && has_ended(lane))
          group->mask &= ~(1u << lane), group->issued &= ~(1u << lane);
      if (!group->mask) {
        depth--;
        continue;
      }
      unsigned entered = next((unsigned)__builtin_ctz(group->mask)), same = 0;
      for (unsigned lane = 0; lane < count; lane++)
        if (group->mask >> lane & 1 && next(lane) == entered) same |= 1u << lane;
      if (same == group->mask) {
        if (entered == group->join) {
          if (group->parted != ~0u) review->nodes[group->parted].groups++;
          depth--;
        } else {
          run_node(same, group->issued, entered);
        }
        continue;
      }
      part(groups, &depth);
    }
  }

  // Split the last group by where its threads go on.
  void part(Group* groups, unsigned* depth) {
    Group whole = groups[*depth - 1];
    unsigned last = node[__builtin_ctz(whole.mask)];
    unsigned join = last == ~0u ? review->node_count : review->joins[last];
    if (last != ~0u) review->nodes[last].diverged++;
    if (join == whole.join) --*depth;  // those who wait for the others already do
    for (unsigned rest = whole.mask; rest;) {
      unsigned entered = next((unsigned)__builtin_ctz(rest)), same = 0;
      for (unsigned lane = 0; lane < count; lane++)
        if (rest >> lane & 1 && next(lane) == entered) same |= 1u << lane;
      rest &= ~same;
      if (entered == join) {
        review->nodes[last].groups++;
        continue;
      }
      const bool predicated = entered != last && is_predicated((unsigned)__builtin_ctz(same), join);
      groups[(*depth)++] = {same, join, predicated ? whole.issued : same, last};
    }
  }
};

// ------------------------------------------------------------------------- blocks

// The number of the run that a block is of, 0: it is not looked at.
static unsigned run_of(const Check* check, unsigned long long block) {
  for (unsigned i = 0; i < check->run_count; i++)
    if (block >= check->runs[i].first && block < check->runs[i].last) return check->first_run + i;
  return 0;
}

// Count what the threads of a block did; false when memory is short.
static bool count_events(const Worker* worker, Review* review) {
  for (unsigned first = 0; first < worker->thread_count && !review->block.skipped;
       first += WARP_SIZE) {
    unsigned count = worker->thread_count - first;
    if (count > WARP_SIZE) count = WARP_SIZE;
    WarpWalk warp;
    warp.review = review, warp.threads = review->block.threads + first, warp.count = count;
    review->warp++;
    warp.visit = 0;
    warp.global.interrupt(), warp.shared.interrupt();
    warp.learn_flow();
    if (review->short_of_memory || !compute_joins(review)) return false;
    warp.walk();
    for (unsigned lane = 0; lane < count; lane++)
      review->summary.lost += is_cut(warp.threads[lane]);
  }
  return true;
}

// Whether a tile is one of those that are looked at: one of each so many, anywhere among these.
static bool is_sampled_tile(const Review* review, uint64_t number, uint64_t count) {
  const uint64_t each = (count + SAMPLED_TILES - 1) / SAMPLED_TILES;
  if (number % each != mixed(number / each + 1) % each) return false;
  return (double)review->summary.kept * (double)count <= (double)TILE_EVENTS * (double)(number + 1);
}

static void service_tile(Worker* worker, unsigned long long number, unsigned long long count) {
  Check* check = worker->job->check;
  if (!worker->running || !check || !check->review) return;
  Review* review = check->review;
  BlockRecord* block = &review->block;
  if (!block->threads) return;
  require_stack(worker, nullptr);
  if (block->sampled) (void)count_events(worker, review);  // of the tile before
  review->summary.tiled = true;
  block->sampled = number < count;  // else none is left
  block->skipped = !is_sampled_tile(review, number, count);
  if (!block->skipped) block->number = block->run = ++review->begun;
  review->block_events = 0;
  for (unsigned i = 0; i < worker->thread_count; i++)
    block->threads[i].count = block->skipped ? 1u << 31 : 0;
}

static void end_reviewed_block(Worker* worker) {
  Review* review = worker->job->check->review;
  if (!review || has_failed(worker->job)) return;
  ReviewSummary* summary = &review->summary;
  if (!review->block.sampled && !summary->tiled) return;
  if (review->block.sampled && !count_events(worker, review)) return;
  review->block.sampled = false;
  summary->warps += worker->warp_count;
  summary->threads += worker->thread_count;
  summary->skipped += review->block.skipped && !summary->tiled;
  summary->sampled++;
}

static void begin_reviewed_block(Worker* worker) {
  Review* review = worker->job->check->review;
  if (!review) return;
  BlockRecord* block = &review->block;
  const unsigned* grid = worker->block.grid;
  const unsigned* index = worker->block.index;
  unsigned long long number =
      index[0] + (unsigned long long)grid[0] * (index[1] + (unsigned long long)grid[1] * index[2]);
  if (!block->threads) {
    block->threads = (ThreadEvents*)calloc(MAX_BLOCK_THREADS, sizeof(ThreadEvents));
    if (!block->threads) review->short_of_memory = true;
  }
  block->run = run_of(worker->job->check, number);
  block->sampled = block->threads && block->run && !review->summary.tiled;
  if (!block->sampled) return;
  block->skipped = review->summary.kept >= block->run * worker->job->check->run_events;
  block->number = ++review->begun;
  if (!worker->block.cooperative) review->block_events = 0;
  for (unsigned i = 0; i < worker->thread_count; i++)
    block->threads[i].count = block->skipped ? 1u << 31 : 0;
}

// ------------------------------------------------------------------------- launches

static Review launch_review;

// Arrays that overlap, views and what they are of, are one region.
static bool collect_review_regions(Review* review, const Check* check) {
  review->region_count = 0;
  if (!has_room(&review->regions, 0, &review->region_capacity)) return false;
  review->regions[review->region_count++] = {};
  for (unsigned i = 0; i < check->interval_count; i++) {
    const Interval& one = check->intervals[i];
    if (one.kind != INTERVAL_ARRAY && one.kind != INTERVAL_BUFFER) continue;
    ReviewRegion* last = &review->regions[review->region_count - 1];
    if (review->region_count > 1 && one.begin < last->begin + last->size) {
      if (one.end > last->begin + last->size) last->size = one.end - last->begin;
    } else {
      if (!has_room(&review->regions, review->region_count, &review->region_capacity)) return false;
      last = &review->regions[review->region_count++];
      *last = {};
      last->begin = one.begin, last->size = one.end - one.begin;
    }
    if (one.kind == INTERVAL_ARRAY) last->name = one.name;
  }
  return true;
}

// Called when the intervals of a launch are sorted.
static bool begin_review(Check* check, const Job* job) {
  Review* review = check->review = &launch_review;
  review->block.sampled = false;
  review->block_events = 0;
  if (check->continues) return true;
  review->begun = 0, review->warp = 0;
  review->summary = {};
  review->summary.blocks = job->block_count;
  review->node_count = review->edge_count = 0;
  review->joined = review->returns = review->short_of_memory = false;
  memset(review->known, 0, sizeof review->known);
  if (review->site_slots) memset(review->site_slots, 0, review->slot_count * sizeof(unsigned));
  if (review->node_slots) memset(review->node_slots, 0, review->node_slot_count * sizeof(unsigned));
  if (review->mark_capacity > MOST_KEPT_MARKS) {
    free(review->marks);
    review->marks = nullptr;
    review->mark_capacity = 0;
  }
  if (review->marks) memset(review->marks, 0, review->mark_capacity * sizeof(SectorMark));
  review->mark_count = 0;
  return collect_review_regions(review, check);
}

static const ReviewSummary* finished_review() {
  Review* review = &launch_review;
  for (unsigned i = 0; i < review->region_count; i++) review->regions[i].dram_partial = 0;
  for (size_t i = 0; i < review->mark_capacity; i++) {
    const SectorMark& mark = review->marks[i];
    if (!mark.key || !mark.stored || mark.written == ~0u || mark.loaded) continue;
    uint64_t region = (mark.key - 1) * SECTOR_BYTES >> 48;
    if (region < review->region_count) review->regions[region].dram_partial++;
  }
  for (unsigned i = 0; i < review->node_count && review->joined; i++)
    review->nodes[i].join = review->joins[i];
  review->summary.sites = review->sites;
  review->summary.basic_blocks = review->nodes;
  review->summary.basic_block_count = review->node_count;
  review->summary.edges = review->edges;
  review->summary.edge_count = review->edge_count;
  review->summary.regions = review->regions;
  review->summary.region_count = review->region_count;
  return &review->summary;
}

// Give back the room of events: a block may have taken 256 MiB.
static void release_record(BlockRecord* block) {
  for (unsigned i = 0; block->threads && i < MAX_BLOCK_THREADS; i++) free(block->threads[i].events);
  free(block->threads);
  *block = {};
}

}  // namespace kspec_host
