// Reductions to many keys, each of which has some elements, that keep the order of elements. Rows are
// grouped by the high bits of their keys: counted, and moved to their places through shared memory, so
// that those of a group are written side by side (D. Merrill and A. Grimshaw, "High performance and
// scalable radix sorting", 2011). Then warps have accumulators of all keys of a group, as for few keys.
#pragma once

#include "kspec/by_key_runs.cuh"
#include "kspec/key_sort.cuh"

namespace kspec {

// Keys of a group, groups at most, and bytes of shared memory; key_schedule.py agrees.
enum { GROUP = 1024, GROUPS = 1024, GROUPING = 106560 };

template <int AXES, class Acc> struct MaxThreads<KeyGroups<AXES>, Acc> { enum { value = 512 }; };
template <int AXES, class Acc, class... Inputs>
struct MinBlocks<KeyGroups<AXES>, Acc, Inputs...> {
#if defined(__CUDA_ARCH__) && (__CUDA_ARCH__ == 900 || __CUDA_ARCH__ / 100 == 10)
  enum { value = 2 };  // as many as have room in shared memory
#else
  enum { value = 1 };
#endif
};

// A row's key, and what it makes or its number.
struct __align__(8) KeyedRow {
  unsigned int key, payload;

  __device__ inline int group() const { return key / GROUP; }
};

template <class Op, class Plan> struct KeyGrouping {
  typedef typename Op::_Acc Acc;
  typedef typename OwnCells<Op>::Cell Cell;
  typedef Total<Acc> Part;
  enum {
    THREADS = MaxThreads<KeyGroups<1>, Acc>::value,
    WARPS = THREADS / 32,
    ROWS = 16,  // of a thread: a warp has some that follow each other
    TILE = THREADS * ROWS,
    STRETCH = 4 * TILE,  // rows whose groups are counted together; key_schedule.py agrees
    RANGE = 4 * TILE,    // grouped rows that a block reduces; likewise
    BATCH = 4,           // rows of a thread, at once
    EACH = GROUPS / THREADS,
    KEYS = GROUPS * GROUP,
  };
  struct __align__(16) Zeros { unsigned int of[4]; };
  // Of groups that follow each other.
  struct __align__(2 * EACH) Some { unsigned short of[EACH]; };
  struct Memory {
    union {
      Some earlier[WARPS][THREADS];  // rows of a group in earlier warps, or their places
      unsigned int keys[TILE];       // in the order of groups
    };
    union {
      unsigned int ranked[ROWS][THREADS];  // a row's place in its group in its warp, and its key
      unsigned int payloads[TILE];         // in the order of groups
    };
    unsigned int payload[ROWS][THREADS];
    unsigned int next[GROUPS];   // the place of a group's next row
    unsigned int shift[GROUPS];  // from a row's place in the tile to that in memory
    unsigned int of_warps[WARPS];
  };
  static_assert(sizeof(Memory) <= GROUPING, "a tile of rows fits into shared memory");
  enum { CELLS = sizeof(Memory) / (GROUP * sizeof(Cell)) };  // warps with accumulators

  const Op& op;
  const Plan& plan;
  ptrdiff_t first;
  int rows, groups, stretches, ranges;
  KeyedRow* grouped;
  unsigned int* counts;  // [stretch][group] rows, then how many are in the stretches before
  unsigned int* totals;  // [group]

  // Of the rows from number `chunk * plan.chunk` on.
  __device__ inline KeyGrouping(const Op& op, const Plan& plan, ptrdiff_t chunk)
      : op(op), plan(plan), first(chunk * plan.chunk), groups((int)(plan.count / GROUP) + 1) {
    const ptrdiff_t left = plan.length - first;
    rows = (int)(left < plan.chunk ? left : plan.chunk);
    stretches = (rows + STRETCH - 1) / STRETCH;
    ranges = (rows + RANGE - 1) / RANGE;
    grouped = reinterpret_cast<KeyedRow*>(plan.sorting);
    counts = plan.sorting + 2 * plan.chunk;
    totals = counts + (plan.chunk + STRETCH - 1) / STRETCH * GROUPS;
  }

  // Count the rows of a stretch by group.
  __device__ inline void count(int stretch, Memory& memory) const {
    unsigned int* const found = memory.next;
    for (int k = threadIdx.x; k < groups; k += THREADS) found[k] = 0;
    __syncthreads();
    const int begin = stretch * STRETCH, end = begin + STRETCH < rows ? begin + STRETCH : rows;
#pragma unroll 1
    for (int row = begin + threadIdx.x; row < end; row += BATCH * THREADS) {
      ptrdiff_t key[BATCH];
      plan.keys.read(first + row, THREADS, first + end, key);
#pragma unroll
      for (int k = 0; k < BATCH; ++k) {
        if (row + k * THREADS >= end) continue;
        const unsigned int own = plan.kept(key[k]);
        if constexpr (Op::_STRICT)
          if (own == plan.count) refuse_key(first + row + k * THREADS, key[k], plan.count);
        atomicAdd(found + own / GROUP, 1u);
      }
    }
    __syncthreads();
    for (int k = threadIdx.x; k < groups; k += THREADS) counts[stretch * GROUPS + k] = found[k];
  }
  // Of 32 groups, how many rows are in the stretches before each one.
  __device__ inline void place(int tile, Memory& memory) const {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, group = tile * 32 + lane;
    const int each = (stretches + WARPS - 1) / WARPS, from = warp * each;
    const int to = from + each < stretches ? from + each : stretches;
    const bool exists = group < groups;
    unsigned int sum = 0;
#pragma unroll 8
    for (int k = from; k < to; ++k)
      if (exists) sum += counts[k * GROUPS + group];
    memory.next[threadIdx.x] = sum;
    __syncthreads();
    unsigned int before = 0;
    for (int w = 0; w < warp; ++w) before += memory.next[w * 32 + lane];
    if (!exists) return;
    if (warp == WARPS - 1) totals[group] = before + sum;
#pragma unroll 8
    for (int k = from; k < to; ++k) {
      const unsigned int found = counts[k * GROUPS + group];
      counts[k * GROUPS + group] = before;
      before += found;
    }
  }
  // Move the rows of a stretch to their places.
  __device__ inline void group(int stretch, Memory& memory) const {
    const int own = threadIdx.x * EACH;
    unsigned int total[EACH], before[EACH];
#pragma unroll
    for (int k = 0; k < EACH; ++k) total[k] = own + k < groups ? totals[own + k] : 0;
    scan_block(total, before, memory.of_warps);
#pragma unroll
    for (int k = 0; k < EACH; ++k)
      memory.next[own + k] = before[k] + (own + k < groups ? counts[stretch * GROUPS + own + k] : 0);
    const int begin = stretch * STRETCH, end = begin + STRETCH < rows ? begin + STRETCH : rows;
#pragma unroll 1
    for (int tile = begin; tile < end; tile += TILE)
      move_tile(tile, tile + TILE < end ? tile + TILE : end, memory);
  }

  // Reduce the groups of a range: those within it, and its parts of those that cross its edges.
  __device__ inline void reduce_range(int range, Memory& memory) const {
    enum { LANE_ROWS = 4, STEP = 32 * LANE_ROWS };
    Cell* const cells = reinterpret_cast<Cell*>(&memory);
    const int warp = threadIdx.x / 32, most = (int)CELLS < (int)WARPS ? (int)CELLS : (int)WARPS;
    const int begin = range * RANGE, end = begin + RANGE < rows ? begin + RANGE : rows;
#pragma unroll 1
    for (int from = begin, to; from < end; from = to) {
      const int group = grouped[from].group();
      to = end_of(group, from, end);
      const int steps = (to - from + STEP - 1) / STEP, warps = steps < most ? steps : most;
      for (int k = threadIdx.x; k < warps * GROUP; k += THREADS) cells[k].count = 0;
      __syncthreads();
      if (warp < warps) {
        const int each = (steps + warps - 1) / warps * STEP, some = from + warp * each;
        add_rows<LANE_ROWS>(some, some + each < to ? some + each : to,
                            OwnCells<Op>{op, cells + warp * GROUP});
      }
      __syncthreads();
      const bool begins = from > begin || begins_at(from), ends = to < end || ends_at(to);
      for (int k = threadIdx.x; k < GROUP; k += THREADS) {
        Part part;
        for (int w = 0; w < warps; ++w) part.append(op, cells[w * GROUP + k]);
        if (!begins) head(range)[k] = part;
        else if (!ends) tail(range)[k] = part;
        else append(group, k, part);
      }
      __syncthreads();
    }
  }
  // Join the parts of the group that begins in a range and ends in another.
  __device__ inline void join(int range) const {
    const int begin = range * RANGE, end = begin + RANGE;
    if (end >= rows || ends_at(end)) return;
    const int group = grouped[end].group();
    if (grouped[begin].group() == group && !begins_at(begin)) return;
    const int last = (end_of(group, end, rows) - 1) / RANGE;
    for (int k = threadIdx.x; k < GROUP; k += THREADS) {
      Part total = tail(range)[k];
#pragma unroll 4
      for (int other = range + 1; other <= last; ++other) total.append(op, head(other)[k]);
      append(group, k, total);
    }
  }

 private:
  // What a range makes of the group that began before it; of the one that begins in it and goes on.
  __device__ inline Part* head(int range) const {
    return static_cast<Part*>(plan.edges) + (ptrdiff_t)range * GROUP;
  }
  __device__ inline Part* tail(int range) const { return head(ranges + range); }
  __device__ inline void append(int group, int number, const Part& part) const {
    const ptrdiff_t key = (ptrdiff_t)group * GROUP + number;
    if (key < plan.count) static_cast<Part*>(plan.cells)[key].append(op, part);
  }
  __device__ inline bool begins_at(int row) const {
    return row == 0 || grouped[row - 1].group() != grouped[row].group();
  }
  __device__ inline bool ends_at(int row) const { return row == rows || begins_at(row); }
  // Where a group ends, whose row is at `from`, or `end` if it comes first. A warp comes here.
  __device__ inline int end_of(int group, int from, int end) const {
    if (grouped[end - 1].group() == group) return end;
    int low = from + 1, high = end - 1;
    while (low < high) {
      const int step = (high - low + 31) / 32, probe = low + (threadIdx.x % 32 + 1) * step - 1;
      const bool same = probe < high && grouped[probe].group() == group;
      low += __popc(__ballot_sync(0xffffffffu, same)) * step;
      if (low + step - 1 < high) high = low + step - 1;
    }
    return low;
  }

  __device__ inline void move_tile(int tile, int end, Memory& memory) const {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, own = threadIdx.x * EACH;
    const int row = tile + warp * (32 * ROWS) + lane;
    unsigned short* const mine = memory.earlier[warp][0].of;
    __syncthreads();  // rows of the tile before have been written
#pragma unroll
    for (int k = lane; k < GROUPS / 8; k += 32) reinterpret_cast<Zeros*>(mine)[k] = Zeros{};
    __syncwarp();
    AtRow<Plan::INS> at(plan.steps, first + row, 32);
    ptrdiff_t found[BATCH];
    unsigned int payload[BATCH];
    const auto load = [&](int from) {
      plan.keys.read(first + row + from * 32, 32, first + end, found);
#pragma unroll
      for (int k = 0; k < BATCH; ++k, ++at)
        if (row + (from + k) * 32 < end)
          payload[k] = payload_of(at, row + (from + k) * 32, found[k]);
    };
    load(0);
#pragma unroll 1
    for (int from = 0; from < ROWS; from += BATCH) {
      unsigned int key[BATCH];
#pragma unroll
      for (int k = 0; k < BATCH; ++k) {
        key[k] = plan.kept(found[k]);
        memory.payload[from + k][threadIdx.x] = payload[k];
      }
      if (from + BATCH < ROWS) load(from + BATCH);  // while those of the batch before are ranked
#pragma unroll
      for (int k = 0; k < BATCH; ++k) {
        const bool exists = row + (from + k) * 32 < end;
        const unsigned int group = key[k] / GROUP, peers = peers_by_bits<GROUPS>(group, exists);
        const unsigned int start = mine[group];
        const unsigned int place = start + __popc(peers & ((1u << lane) - 1u));
        memory.ranked[from + k][threadIdx.x] = place * KEYS + key[k];
        __syncwarp();
        if (is_first(peers)) mine[group] = (unsigned short)(start + __popc(peers));
        __syncwarp();
      }
    }
    __syncthreads();
    unsigned int total[EACH] = {}, before[EACH];
#pragma unroll 4
    for (int w = 0; w < WARPS; ++w) {
      const Some some = memory.earlier[w][threadIdx.x];
#pragma unroll
      for (int k = 0; k < EACH; ++k) total[k] += some.of[k];
    }
    scan_block(total, before, memory.of_warps);
#pragma unroll
    for (int k = 0; k < EACH; ++k) {
      const unsigned int next = memory.next[own + k];
      memory.shift[own + k] = next - before[k];
      memory.next[own + k] = next + total[k];
    }
#pragma unroll 4
    for (int w = 0; w < WARPS; ++w) {
      Some some = memory.earlier[w][threadIdx.x];
#pragma unroll
      for (int k = 0; k < EACH; ++k) {
        const unsigned int found = some.of[k];
        some.of[k] = (unsigned short)before[k];
        before[k] += found;
      }
      memory.earlier[w][threadIdx.x] = some;
    }
    __syncthreads();
    unsigned int places[ROWS / 2];  // two in each
#pragma unroll
    for (int k = 0; k < ROWS; ++k) {
      const unsigned int one = memory.ranked[k][threadIdx.x];
      const unsigned int found = mine[one % KEYS / GROUP] + one / KEYS;
      const unsigned int place = row + k * 32 < end ? found : (unsigned int)TILE;
      places[k / 2] = k % 2 ? places[k / 2] | place << 16 : place;
    }
    const auto each_place = [&](const auto& work) {
#pragma unroll
      for (int k = 0; k < ROWS; ++k) {
        const int place = places[k / 2] >> k % 2 * 16 & 0xffff;
        if (place < TILE) work(k, place);
      }
    };
    __syncthreads();
    each_place([&](int k, int place) { memory.keys[place] = memory.ranked[k][threadIdx.x] % KEYS; });
    __syncthreads();
    each_place([&](int k, int place) { memory.payloads[place] = memory.payload[k][threadIdx.x]; });
    __syncthreads();
#pragma unroll 4
    for (int k = threadIdx.x; k < end - tile; k += THREADS) {
      const KeyedRow one = {memory.keys[k], memory.payloads[k]};
      grouped[memory.shift[one.group()] + k] = one;
    }
  }
  template <class At>
  __device__ inline unsigned int payload_of(const At& at, int row, ptrdiff_t key) const {
    unsigned int payload = row;
    if constexpr (sizeof(Acc) == sizeof(payload)) {
      if (Op::_INDEXED && plan.kept(key) == plan.count) return payload;
      const Acc value = op._map(at, first + row, key);
      memcpy(&payload, &value, sizeof(payload));
    }
    return payload;
  }
  template <int N>
  __device__ static inline void put(const KeyedBatch<Op, N>& batch, const OwnCells<Op>& own) {
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const int slot = (int)batch.slot[k];
      own.join(slot, batch.value[k], peers_by_bits<GROUP>(slot, slot >= 0));
    }
  }
  // Join grouped rows of a group to accumulators.
  template <int N>
  __device__ inline void add_rows(int begin, int end, const OwnCells<Op>& own) const {
#pragma unroll 1
    for (int row = begin + threadIdx.x % 32; row - (int)(threadIdx.x % 32) < end; row += 32 * N) {
      KeyedRow one[N];
      KeyedBatch<Op, N> batch;
#pragma unroll
      for (int k = 0; k < N; ++k)
        if (row + k * 32 < end) one[k] = grouped[row + k * 32];
#pragma unroll
      for (int k = 0; k < N; ++k) {
        batch.slot[k] = -1;
        if (row + k * 32 >= end || one[k].key >= plan.count) continue;
        batch.slot[k] = one[k].key % GROUP;
        if constexpr (sizeof(Acc) == sizeof(one[k].payload)) {
          memcpy(batch.value + k, &one[k].payload, sizeof(Acc));
        } else {
          const ptrdiff_t number = first + one[k].payload;
          const AtRow<Plan::INS> at(plan.steps, number, 0);
          batch.value[k] = op._map(at, number, (ptrdiff_t)one[k].key);
        }
      }
      put(batch, own);
    }
  }
};

template <class Op, int AXES, int I, int O>
__device__ inline void group_keys(const Op& op, const KeyPlan<AXES, I, O>& plan) {
  typedef KeyPlan<AXES, I, O> Plan;
  typedef KeyGrouping<Op, Plan> Grouping;
  typedef Total<typename Op::_Acc> Part;
  enum { STEPS = 5 };
  extern __shared__ __align__(16) unsigned char bytes[];
  typename Grouping::Memory& memory = *reinterpret_cast<typename Grouping::Memory*>(bytes);
  const int last = 1 + STEPS * (int)((plan.length + plan.chunk - 1) / plan.chunk);
  Part* const cells = static_cast<Part*>(plan.cells);
  const auto tiles_of = [&](int phase) -> ptrdiff_t {
    if (phase == 0 || phase == last) return spans(plan.count);
    const Grouping grouping(op, plan, (phase - 1) / STEPS);
    const int step = (phase - 1) % STEPS;
    return step == 1 ? (grouping.groups + 31) / 32 : step < 3 ? grouping.stretches : grouping.ranges;
  };
  in_phases(plan.progress, last + 1, tiles_of, [&](int phase, ptrdiff_t tile) {
    if (phase == 0) {
      each_in_span(tile, plan.count, [&](ptrdiff_t key) { cells[key].count = 0; });
    } else if (phase == last) {
      each_in_span(tile, plan.count, [&](ptrdiff_t key) {
        const Part& part = cells[key];
        post_slot(op, plan, key, part.value, (ptrdiff_t)part.count, part.count != 0);
      });
    } else {
      const Grouping grouping(op, plan, (phase - 1) / STEPS);
      switch ((phase - 1) % STEPS) {
        case 0: grouping.count((int)tile, memory); break;
        case 1: grouping.place((int)tile, memory); break;
        case 2: grouping.group((int)tile, memory); break;
        case 3: grouping.reduce_range((int)tile, memory); break;
        default: grouping.join((int)tile);
      }
    }
  });
}

template <class Op, int AXES, int I, int O, class... Inputs>
__device__ inline void reduce(const Op& op, const Reduction<KeyGroups<AXES>, I, O>& reduction,
                              const Inputs&...) {
  typedef KeyPlan<AXES, I, O> Plan;
  if constexpr (sizeof(typename Op::_Acc) <= 8) group_keys(op, static_cast<const Plan&>(reduction));
}

}  // namespace kspec
