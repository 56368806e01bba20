// sanitize="race": which accesses are ordered. The rules are CUDA's:
//
//   * a block barrier orders all threads of a block, a warp operation the lanes in its mask;
//   * an atomic that releases (by its memory order, or relaxed after a __threadfence()) publishes
//     what its thread knows; an atomic on the same address afterwards learns it;
//   * blocks are not ordered otherwise.
//
// Barriers are counted: one number, the epoch, stands for everything before it. Warps keep a clock
// for each pair of lanes. What atomics publish is kept in one log for each address; a thread
// remembers how far it has read which logs.
#pragma once

#include <stdlib.h>
#include <string.h>

#include "state.h"

namespace kspec_host {

// Who accessed a piece of memory, and when.
struct Access {
  uint32_t block;  // 1 + linear index; 0: nobody
  uint32_t clock;
  uint32_t pc;  // offset in the module
  uint32_t thread : 10, epoch : 21, atomic : 1;
};

struct ReleaseLog;

// A thread knows the first `length` entries of a log. Immutable once `frozen`.
struct Known {
  ReleaseLog* log;
  unsigned length;
  bool frozen;
  Known* next;
};

// What one atomic published.
struct Release {
  uint32_t block, epoch;  // accesses of the block before this epoch
  unsigned thread;
  uint32_t clocks[WARP_SIZE];  // and of the lanes of its warp up to these
  Known* known;                // and whatever the thread had learned
};

struct ReleaseLog {
  uintptr_t address;
  Release* items;
  unsigned count, capacity;
  unsigned seen;  // entries that another thread has learned
  unsigned long long query;
  unsigned searched;  // entries that this query has looked at
};

// The threads of the running block.
struct Clocks {
  uint32_t block;  // 1 + linear index; 0 means nobody
  uint32_t epoch;
  bool fenced;  // a thread of the block has executed __threadfence()
  bool lanes_used;
  uint32_t own[MAX_BLOCK_THREADS];
  uint32_t lanes[MAX_BLOCK_THREADS][WARP_SIZE];
  Known* known[MAX_BLOCK_THREADS];
};

// Memory that is only given back as a whole, at the end of a launch.
struct Arena {
  struct Piece {
    Piece* next;
    size_t used;
    char bytes[64 * 1024];
  };
  Piece* pieces;
};

static void* take(Arena* arena, size_t size) {
  size = round_up(size, 16);
  if (!arena->pieces || arena->pieces->used + size > sizeof arena->pieces->bytes) {
    Arena::Piece* piece = (Arena::Piece*)malloc(sizeof(Arena::Piece));
    if (!piece) return nullptr;
    piece->next = arena->pieces;
    piece->used = 0;
    arena->pieces = piece;
  }
  void* memory = arena->pieces->bytes + arena->pieces->used;
  arena->pieces->used += size;
  return memory;
}

static void clear(Arena* arena) {
  while (Arena::Piece* piece = arena->pieces) {
    arena->pieces = piece->next;
    free(piece);
  }
}

struct Ordering {
  Clocks clocks;
  Arena arena;
  ReleaseLog** logs;  // a hash table by address
  unsigned log_count, log_capacity;
  unsigned long long query;
};

static void begin_block_clocks(Ordering* ordering, uint32_t block, unsigned threads) {
  Clocks* clocks = &ordering->clocks;
  clocks->block = block;
  clocks->epoch = 1;
  clocks->fenced = false;
  for (unsigned i = 0; i < threads; i++) clocks->own[i] = 1;
  if (clocks->lanes_used) memset(clocks->lanes, 0, sizeof clocks->lanes[0] * threads);
  clocks->lanes_used = false;
  memset(clocks->known, 0, sizeof clocks->known[0] * threads);
}

static void clear_ordering(Ordering* ordering) {
  for (unsigned i = 0; i < ordering->log_capacity; i++)
    if (ordering->logs[i]) free(ordering->logs[i]->items);
  free(ordering->logs);
  ordering->logs = nullptr;
  ordering->log_count = ordering->log_capacity = 0;
  clear(&ordering->arena);
  memset(ordering->clocks.lanes, 0, sizeof ordering->clocks.lanes);
}

// ------------------------------------------------------------------------- knowledge

static Known* remember(Ordering* ordering, ReleaseLog* log, unsigned length, Known* next) {
  Known* known = (Known*)take(&ordering->arena, sizeof(Known));
  if (known) *known = {log, length, false, next};
  return known ? known : next;
}

// Both lists in one; where both have a log, the longer part counts.
static Known* join_known(Ordering* ordering, Known* a, Known* b) {
  if (a == b || !b) return a;
  if (!a) return b;
  Known* joined = a;
  for (Known* other = b; other; other = other->next) {
    if (other == a) break;  // the rest is shared
    unsigned length = 0;
    for (Known* mine = a; mine; mine = mine->next)
      if (mine->log == other->log && mine->length > length) length = mine->length;
    if (other->length > length) joined = remember(ordering, other->log, other->length, joined);
  }
  return joined;
}

// The same knowledge for all of `count` threads: thread(0), thread(1), ...
template <class F> static void share_known(Ordering* ordering, unsigned count, F thread) {
  Known** known = ordering->clocks.known;
  Known* joined = known[thread(0)];
  bool equal = true;
  for (unsigned i = 1; i < count; i++) {
    if (known[thread(i)] == known[thread(i - 1)]) continue;
    equal = false;
    joined = join_known(ordering, joined, known[thread(i)]);
  }
  if (equal) return;
  if (joined) joined->frozen = true;
  for (unsigned i = 0; i < count; i++) known[thread(i)] = joined;
}

static void order_block(Ordering* ordering, unsigned threads) {
  ordering->clocks.epoch++;
  if (ordering->log_count) share_known(ordering, threads, [](unsigned i) { return i; });
}

static void order_lanes(Ordering* ordering, unsigned warp, unsigned lanes) {
  Clocks* clocks = &ordering->clocks;
  uint32_t joined[WARP_SIZE] = {};
  unsigned threads[WARP_SIZE], count = 0;
  clocks->lanes_used = true;
  for (unsigned left = lanes; left; left &= left - 1) {
    unsigned lane = (unsigned)__builtin_ctz(left), thread = warp * WARP_SIZE + lane;
    threads[count++] = thread;
    for (unsigned i = 0; i < WARP_SIZE; i++)
      if (clocks->lanes[thread][i] > joined[i]) joined[i] = clocks->lanes[thread][i];
    if (clocks->own[thread] > joined[lane]) joined[lane] = clocks->own[thread];
  }
  for (unsigned i = 0; i < count; i++) {
    memcpy(clocks->lanes[threads[i]], joined, sizeof joined);
    clocks->own[threads[i]]++;
  }
  if (ordering->log_count && count)
    share_known(ordering, count, [&threads](unsigned i) { return threads[i]; });
}

// ------------------------------------------------------------------------- atomics

static ReleaseLog** log_slot(ReleaseLog** logs, unsigned capacity, uintptr_t address) {
  unsigned index = (unsigned)((address * 0x9E3779B97F4A7C15ull) >> 40) & (capacity - 1);
  while (logs[index] && logs[index]->address != address) index = (index + 1) & (capacity - 1);
  return &logs[index];
}

static ReleaseLog* find_log(Ordering* ordering, uintptr_t address) {
  return ordering->log_count ? *log_slot(ordering->logs, ordering->log_capacity, address) : nullptr;
}

static bool grow_logs(Ordering* ordering) {
  unsigned capacity = ordering->log_capacity ? 2 * ordering->log_capacity : 64;
  ReleaseLog** logs = (ReleaseLog**)calloc(capacity, sizeof(ReleaseLog*));
  if (!logs) return false;
  for (unsigned i = 0; i < ordering->log_capacity; i++)
    if (ReleaseLog* log = ordering->logs[i]) *log_slot(logs, capacity, log->address) = log;
  free(ordering->logs);
  ordering->logs = logs;
  ordering->log_capacity = capacity;
  return true;
}

static ReleaseLog* make_log(Ordering* ordering, uintptr_t address) {
  if (ReleaseLog* log = find_log(ordering, address)) return log;
  if (2 * ordering->log_count >= ordering->log_capacity && !grow_logs(ordering)) return nullptr;
  ReleaseLog* log = (ReleaseLog*)take(&ordering->arena, sizeof(ReleaseLog));
  if (!log) return nullptr;
  memset(log, 0, sizeof *log);
  log->address = address;
  *log_slot(ordering->logs, ordering->log_capacity, address) = log;
  ordering->log_count++;
  return log;
}

// Learn what atomics on an address have published.
static void acquire(Ordering* ordering, unsigned thread, uintptr_t address) {
  ReleaseLog* log = find_log(ordering, address);
  if (!log || !log->count) return;
  const Release& last = log->items[log->count - 1];
  Clocks* clocks = &ordering->clocks;
  if (last.block != clocks->block || last.thread != thread) log->seen = log->count;
  Known* head = clocks->known[thread];
  for (Known* known = head; known; known = known->next)
    if (known->log == log && known->length == log->count) return;
  if (head && head->log == log && !head->frozen) {
    head->length = log->count;  // polling: nobody else has this node
  } else {
    clocks->known[thread] = remember(ordering, log, log->count, head);
  }
}

// Publish what the thread knows.
static void release(Ordering* ordering, unsigned thread, uintptr_t address) {
  ReleaseLog* log = make_log(ordering, address);
  if (!log) return;
  Clocks* clocks = &ordering->clocks;
  Release* item = log->count ? &log->items[log->count - 1] : nullptr;
  bool replace = item && item->block == clocks->block && item->thread == thread &&
                 log->seen < log->count;
  if (!replace) {
    if (log->count == log->capacity) {
      unsigned capacity = 2 * log->capacity + 8;
      Release* grown = (Release*)realloc(log->items, capacity * sizeof(Release));
      if (!grown) return;
      log->items = grown;
      log->capacity = capacity;
    }
    item = &log->items[log->count++];
  }
  item->block = clocks->block;
  item->epoch = clocks->epoch;
  item->thread = thread;
  memcpy(item->clocks, clocks->lanes[thread], sizeof item->clocks);
  item->clocks[thread % WARP_SIZE] = clocks->own[thread]++;
  item->known = clocks->known[thread];
  if (item->known) item->known->frozen = true;
}

// ------------------------------------------------------------------------- questions

static bool covers(const Release& release, const Access& access) {
  if (release.block != access.block) return false;
  if (access.epoch < release.epoch) return true;
  return access.thread / WARP_SIZE == release.thread / WARP_SIZE &&
         access.clock <= release.clocks[access.thread % WARP_SIZE];
}

// Whether an access is part of some knowledge. Latest entries first: they are what locks ask for.
static bool is_known(Ordering* ordering, const Known* known, const Access& access, int depth) {
  enum { DEEPEST = 64 };  // the stack is a CUDA thread's; beyond, rather no alarm than a false one
  if (depth > DEEPEST) return true;
  for (; known; known = known->next) {
    ReleaseLog* log = known->log;
    unsigned first = log->query == ordering->query ? log->searched : 0;
    if (first >= known->length) continue;
    log->query = ordering->query;
    log->searched = known->length;
    const Known* last = nullptr;
    for (unsigned i = known->length; i-- > first;) {
      const Release& item = log->items[i];
      if (covers(item, access)) return true;
      if (item.known && item.known != last && is_known(ordering, item.known, access, depth + 1))
        return true;
      last = item.known;
    }
  }
  return false;
}

// Whether an earlier access happens before the one that `thread` makes now.
static bool is_ordered(Ordering* ordering, const Access& access, unsigned thread, bool shared) {
  const Clocks& clocks = ordering->clocks;
  if (access.block == clocks.block) {
    if (access.thread == thread || access.epoch < clocks.epoch) return true;
    if (access.thread / WARP_SIZE == thread / WARP_SIZE &&
        access.clock <= clocks.lanes[thread][access.thread % WARP_SIZE])
      return true;
  } else if (shared) {
    return true;  // another block's memory was at this address
  }
  if (!clocks.known[thread]) return false;
  ordering->query++;
  return is_known(ordering, clocks.known[thread], access, 0);
}

}  // namespace kspec_host
