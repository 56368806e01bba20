// The data of reviews: what threads did, in their order, and what warps of a GPU would have done.
//
// Threads of the host device run one after another. Each keeps what it did; when a block has ended,
// review.h walks through the threads of a warp as a GPU would, and counts.
#pragma once

#include <stdint.h>

#include "state.h"

namespace kspec_host {

enum : unsigned {
  SECTOR_BYTES = 32,
  LINE_SECTORS = 4,  // of a line of the first cache
  BANKS = 32,
  BANK_BYTES = 4,
  // Of the events of a block: 256 MiB. What a thread does later is not seen.
  MAX_BLOCK_EVENTS = 1u << 24,
  MAX_THREAD_EVENTS = 1u << 18,
  SAMPLED_TILES = 128,  // of which the events are kept, fewer where these are many:
  TILE_EVENTS = 1u << 25,
  MAX_CALLS = 64,  // of functions in functions that are told apart
  DISTANCES = 16,
  MOST_PREDICATED = 4,  // accesses of a basic block that others of the warp skip without a branch
  MOST_KEPT_MARKS = 1u << 20,  // of sectors, from one review to the next
  KNOWN_EDGES = 1024,  // a power of two
};

// An access of a thread, or its arrival in a basic block.
struct Event {
  uint64_t address;
  uint32_t pc;    // from the start of the module
  uint16_t size;  // 0: no access
  uint8_t kind;   // a set of AccessKind, without what is only about memory order; else a ReviewStep
  uint8_t space;  // a Space
};

enum Space : unsigned char { SPACE_GLOBAL, SPACE_SHARED, SPACE_MODULE };

enum AccessClass : unsigned char { CLASS_LOAD, CLASS_STORE, CLASS_ATOMIC, CLASS_COUNT };

struct ThreadEvents {
  Event* events;
  unsigned count, capacity;
};

// A block that is running.
struct BlockRecord {
  bool sampled;  // it is of a run
  bool skipped;  // but what it does is only counted, for the run has kept enough
  unsigned run;
  unsigned number;        // among those, from 1
  ThreadEvents* threads;  // MAX_BLOCK_THREADS
};

// What is known of one instruction. Python reads these: kspec/host/recording.py.
struct ReviewSite {
  uint32_t pc;
  uint8_t access, space;  // AccessClass, Space
  uint16_t size;          // bytes of a thread's access
  uint64_t requests, lanes;
  uint64_t sectors;              // of 32 bytes, for all requests
  uint64_t tags;                 // of cache lines, which have four of them
  uint64_t bytes;                // that threads asked for, each byte once in a request
  uint64_t wavefronts, ideal;    // of shared memory
  uint64_t contention;           // threads with the same address, the most in each request
  uint64_t misaligned;           // requests that begin within a sector
  uint64_t address;              // an example
};

// A basic block, for one way of calls that leads to it.
struct ReviewBlock {
  uint32_t pc;
  uint32_t successors;  // that were seen
  uint64_t visits, lanes;
  uint64_t diverged;  // visits after which threads went apart
  uint64_t groups;    // of those threads that came to where they meet, one by one
  uint32_t join;      // where that is: a basic block; the number of all: the end
  uint32_t call;      // what called the function, 0: nothing
  uint32_t outer;     // the basic block before that call
};

// A way from a basic block to another, or to LEAVES: the thread returns.
struct ReviewEdge {
  uint32_t from, to;
  uint64_t visits, lanes;  // of warps, and their threads
};

// What the memory behind the first cache has to do, for one array or other region.
struct ReviewRegion {
  const char* name;        // of an array in it, null: of none
  uint64_t begin, size;    // size: 0 for what is in no region
  uint64_t l2_loads;       // sectors, each once a block: the first cache has it then
  uint64_t l2_stores;      // sectors, those that a warp writes piece by piece once
  uint64_t l2_atomics;
  uint64_t atomic_lanes;   // threads of those, 1 of a warp that has one address
  uint64_t dram_loads;     // sectors, in pairs, each once in a run of blocks
  uint64_t dram_stores;
  uint64_t dram_partial;   // those of which some bytes are neither written nor loaded: they are read
  // Sectors that a warp loads again, by the lines that it loaded from since, as a power of two.
  uint64_t again[DISTANCES];
};

// How often a warp waits for what it loads (review_waits.h).
struct ReviewWaits {
  uint64_t steps;  // one after the other
  uint64_t turns;  // in further basic blocks, which a compiler may make some of at a time
};

struct ReviewSummary {
  uint64_t blocks, sampled;     // of the launch, and of the runs
  uint64_t skipped;             // of those: what they do is dropped
  uint64_t threads, lost;       // of the runs, and those whose later events are not seen
  uint64_t kept, dropped;       // events
  uint64_t warps;
  uint64_t barriers;            // of warps
  uint64_t block_lanes, request_lanes;  // threads of visits and requests, predicated ones, too
  ReviewWaits global, shared;   // of warps, by the space that was loaded from
  const ReviewSite* sites;
  const ReviewBlock* basic_blocks;
  const ReviewRegion* regions;
  const ReviewEdge* edges;
  uint32_t site_count, basic_block_count, region_count, edge_count;
  bool tiled;  // blocks take tiles, of which some were looked at, of all blocks
};

// A sector that was touched: when last.
struct SectorMark {
  uint64_t key;  // 0: nothing is here
  uint32_t block, loaded, stored;  // the last sampled block that loaded it, and the last runs
  uint32_t written;  // its bytes that the last of these wrote, as a set
  uint32_t writer;   // the last warp that stored into it
  uint32_t reader, turn;  // the last warp that loaded it, and how many lines had been loaded from
};

struct KnownEdge {
  uint32_t from, to, number;  // the first of them and 1
};

struct Review {
  BlockRecord block;
  unsigned begun;         // sampled blocks
  uint32_t warp;          // whose events are counted, from 1
  uint32_t turn;          // lines that warps have loaded from
  uint64_t block_events;  // kept of the blocks that run
  ReviewSummary summary;
  ReviewSite* sites;
  unsigned site_capacity;
  unsigned* site_slots;  // hash table: index into sites, and 1
  unsigned slot_count;
  ReviewBlock* nodes;     // basic blocks, one for each way of calls that leads to them
  uint64_t* node_keys;
  unsigned key_capacity;
  unsigned node_count, node_capacity;
  unsigned* node_slots;
  unsigned node_slot_count;
  ReviewEdge* edges;
  KnownEdge known[KNOWN_EDGES];  // some of them, to be found at once
  unsigned edge_count, edge_capacity;
  unsigned* joins;  // where threads that part in a basic block meet again: a node, or node_count
  bool returns;     // some edge is to LEAVES
  bool joined;      // joins are those of the edges
  SectorMark* marks;
  size_t mark_count, mark_capacity;
  ReviewRegion* regions;
  unsigned region_count, region_capacity;
  bool short_of_memory;
};

}  // namespace kspec_host
