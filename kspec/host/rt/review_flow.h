// The flow of a kernel between its basic blocks, as far as its threads took it, and where threads
// that went apart meet again.
//
// Compilers for GPUs let the threads of a warp that part at a branch meet where all ways from there
// come together: at the branch's immediate post-dominator. It is computed here as Cooper, Harvey and
// Kennedy do ("A Simple, Fast Dominance Algorithm", 2001), on the reversed flow.
#pragma once

#include <stdlib.h>
#include <string.h>

#include "review_state.h"

namespace kspec_host {

// Make room in a table for one more; false when memory is short.
template <class T> static bool has_room(T** table, unsigned count, unsigned* capacity) {
  if (count < *capacity) return true;
  unsigned wanted = 2 * *capacity + 64;
  T* grown = (T*)realloc((void*)*table, wanted * sizeof(T));
  if (!grown) return false;
  *table = grown;
  *capacity = wanted;
  return true;
}

static inline uint64_t mixed(uint64_t key) {
  key ^= key >> 31;
  key *= 0x9E3779B97F4A7C15ull;
  return key ^ key >> 29;
}

// Keep an open table of indices (and 1) at most half full; `hash_of` returns the hash of an index.
template <class F>
static bool has_slots(unsigned** slots, unsigned* slot_count, unsigned used, F hash_of) {
  if (2 * (used + 1) <= *slot_count) return true;
  unsigned wanted = *slot_count ? 2 * *slot_count : 256;
  unsigned* table = (unsigned*)calloc(wanted, sizeof(unsigned));
  if (!table) return false;
  for (unsigned i = 0; i < used; i++) {
    unsigned place = (unsigned)hash_of(i) & (wanted - 1);
    while (table[place]) place = (place + 1) & (wanted - 1);
    table[place] = i + 1;
  }
  free(*slots);
  *slots = table;
  *slot_count = wanted;
  return true;
}

// The number of a basic block that was reached through these calls; ~0u when memory is short.
static unsigned node_of(Review* review, uint32_t pc, uint64_t calls) {
  const uint64_t key = mixed(calls) + pc;
  auto hash_of = [review](unsigned i) { return mixed(review->node_keys[i]); };
  if (!has_slots(&review->node_slots, &review->node_slot_count, review->node_count, hash_of) ||
      !has_room(&review->nodes, review->node_count, &review->node_capacity) ||
      !has_room(&review->node_keys, review->node_count, &review->key_capacity))
    return ~0u;
  unsigned place = (unsigned)mixed(key) & (review->node_slot_count - 1);
  for (; unsigned found = review->node_slots[place];
       place = (place + 1) & (review->node_slot_count - 1))
    if (review->node_keys[found - 1] == key) return found - 1;
  review->node_slots[place] = ++review->node_count;
  review->node_keys[review->node_count - 1] = key;
  review->nodes[review->node_count - 1] = {};
  review->nodes[review->node_count - 1].pc = pc;
  review->joined = false;
  return review->node_count - 1;
}

// The number of the way from a basic block to another; ~0u when memory is short.
static unsigned edge_of(Review* review, unsigned from, unsigned to) {
  KnownEdge* known = &review->known[mixed((uint64_t)from << 32 | to) & (KNOWN_EDGES - 1)];
  if (known->from == from + 1 && known->to == to) return known->number;
  unsigned number = 0;
  while (number < review->edge_count &&
         (review->edges[number].from != from || review->edges[number].to != to))
    number++;
  if (number == review->edge_count) {
    if (!has_room(&review->edges, number, &review->edge_capacity)) {
      review->short_of_memory = true;
      return ~0u;
    }
    review->edges[review->edge_count++] = {from, to, 0, 0};
    review->nodes[from].successors++;
    review->joined = false;
  }
  *known = {from + 1, to, number};
  return number;
}

enum : unsigned { LEAVES = ~0u - 1 };  // as the end of an edge: the thread returns

// Compute where threads meet again.
struct Joins {
  Review* review;
  unsigned count;  // of nodes; this number is the end of the kernel
  unsigned *first, *next;  // edges by the node they lead to
  unsigned *out, *next_out;  // and by the node they come from
  unsigned *order, *rank;  // nodes from the end on, children after parents; and their places there
  unsigned ordered;

  unsigned target(unsigned edge) const {
    unsigned to = review->edges[edge].to;
    return to == LEAVES ? count : to;
  }

  // A depth-first search against the flow, in postorder; without recursion, for flows are long.
  void search(unsigned* stack, unsigned* cursor, bool* seen) {
    unsigned depth = 0;
    stack[depth] = count, cursor[depth++] = first[count];
    seen[count] = true;
    while (depth) {
      unsigned edge = cursor[depth - 1];
      if (edge == ~0u) {
        order[ordered++] = stack[--depth];
        continue;
      }
      cursor[depth - 1] = next[edge];
      unsigned from = review->edges[edge].from;
      if (seen[from]) continue;
      seen[from] = true;
      stack[depth] = from, cursor[depth++] = first[from];
    }
  }

  unsigned meet(unsigned a, unsigned b) const {
    while (a != b) {
      while (rank[a] < rank[b]) a = review->joins[a];
      while (rank[b] < rank[a]) b = review->joins[b];
    }
    return a;
  }

  void settle() {
    unsigned* joins = review->joins;
    for (unsigned i = 0; i < count; i++) joins[i] = ~0u;
    joins[count] = count;
    for (bool changed = true; changed;) {
      changed = false;
      for (unsigned k = ordered; k-- > 0;) {
        unsigned node = order[k];
        if (node == count) continue;
        unsigned best = ~0u;
        for (unsigned e = out[node]; e != ~0u; e = next_out[e]) {
          unsigned to = target(e);
          if (joins[to] == ~0u) continue;  // not reached yet, or it never ends
          best = best == ~0u ? to : meet(best, to);
        }
        if (best != joins[node] && best != ~0u) joins[node] = best, changed = true;
      }
    }
    for (unsigned i = 0; i < count; i++)
      if (joins[i] == ~0u) joins[i] = count;
  }
};

static bool compute_joins(Review* review) {
  if (review->joined) return true;
  unsigned count = review->node_count, edges = review->edge_count;
  unsigned* joins = (unsigned*)realloc(review->joins, (count + 1) * sizeof(unsigned));
  if (joins) review->joins = joins;
  unsigned* room = (unsigned*)malloc((6 * (size_t)(count + 1) + 2 * (size_t)edges) * sizeof(unsigned));
  bool* seen = (bool*)calloc(count + 1, 1);
  if (joins && room && seen) {
    unsigned n = count + 1;
    unsigned* links = room + 6 * n;
    Joins work = {review, count, room, links, room + n, links + edges, room + 2 * n, room + 3 * n, 0};
    for (unsigned i = 0; i <= count; i++) work.first[i] = work.out[i] = ~0u, work.rank[i] = 0;
    for (unsigned e = 0; e < edges; e++) {
      unsigned to = work.target(e), from = review->edges[e].from;
      work.next[e] = work.first[to];
      work.first[to] = e;
      work.next_out[e] = work.out[from];
      work.out[from] = e;
    }
    work.search(room + 4 * n, room + 5 * n, seen);
    for (unsigned k = 0; k < work.ordered; k++) work.rank[work.order[k]] = k + 1;
    work.settle();
    review->joined = true;
  }
  free(room);
  free(seen);
  return review->joined;
}

}  // namespace kspec_host
