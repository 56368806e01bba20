// Segments of a single column. However long segments are, each block has as much work as the others: a
// stretch of tiles, which it takes one after the other. Elements and bounds of the next tile
// are on their way to shared memory while it works on one. A thread has elements that follow each
// other. It writes for each what those up to it make, from the last bound before it on or from its own
// first one on, and corrects one: the last of the segment that has begun before its own.
#pragma once

#include "kspec/line_tile.cuh"
#include "kspec/segment_ends.cuh"
#include "kspec/segment_parts.cuh"
#include "kspec/staged.cuh"

namespace kspec {

enum { SEGMENT_WORK = 16 };  // kspec/runtime/schedules/segment_schedule.py agrees

// The elements of a tile whose packs have `V`, or single ones, if V is 1, of inputs with so many BYTES,
// the first with FIRST; kspec/runtime/schedules/segment_schedule.py agrees.
template <class Acc, int V, int BYTES, int FIRST> struct SegmentTile {
  enum {
    // Of several inputs one may say which elements of others are gathered. Then smaller blocks leave more
    // shared memory to the L1 cache, and threads with more elements have more loads in flight.
    SEVERAL = BYTES > FIRST,
    THREADS = sizeof(Acc) > 96 || SEVERAL ? 128 : 256,
    WARPS = THREADS / 32,
    SLOTS = V > 1 ? 2 : 0,  // of inputs: one is read, one is filled
    IN_PLACE = V > 1 && FIRST == sizeof(Acc),  // what elements make is where the first input was
    MADE = IN_PLACE ? 0 : (int)sizeof(Acc),
    HELD = V > 1 ? V * (SLOTS * BYTES + MADE) : 4 * MADE,  // bytes of a pack, or of four elements
    FITTING = HELD <= 32 ? 7 : HELD <= (SEVERAL ? 64 : 48) ? 5 : HELD <= 128 ? 3 : 1,
    MOST = V > 8 ? 1 : V > 4 ? 3 : 7,  // in registers
    // Odd, so that neighbouring threads have other banks.
    PACKS = FITTING < MOST ? FITTING : MOST,
    ITEMS = PACKS * V,  // of a thread
    SIZE = THREADS * ITEMS
  };
  typedef EndsOfTile<SIZE, THREADS> Ends;
  enum { OF_ENDS = (sizeof(Ends) + 15) / 16 * 16, OF_MADE = (SIZE * MADE + 15) / 16 * 16 };

  // A pack of the thread's, and one of those that neighbouring threads copy side by side.
  __device__ static inline int item(int p) { return (int)threadIdx.x * ITEMS + p * V; }
  __device__ static inline int moved_item(int p) { return (p * THREADS + (int)threadIdx.x) * V; }
};

// Begin to copy the elements of a tile from number `first` of `total` on.
template <class Tile, int V, int... K, class... Inputs>
__device__ inline void stage_tile(Numbers<K...>, const ptrdiff_t* steps, ptrdiff_t first,
                                  ptrdiff_t total, unsigned char* slot, const Inputs&... inputs) {
  const bool whole = first >= 0 && first + Tile::SIZE <= total;
  (stage_input<V, Tile::PACKS>(inputs, steps[K] != 0, first, total, whole,
                               slot + Tile::SIZE * place_of_input<Sizes<Inputs...>>(K),
                               Tile::moved_item),
   ...);
}

// The segment of an element, and its number in it, for operations that ask.
template <class Op, class Plan> __device__ inline Place locate(const Plan& plan, ptrdiff_t n) {
  return Op::_INDEXED ? plan.locate(n) : Place{0, 0};
}
// Map the elements of a tile that the thread has, of those from `low` to `high`. They may be anywhere:
// neighbouring threads map neighbours, and pass them on in shared memory. The block comes here.
template <class Tile, class Op, int AXES, int I, int O, class Acc>
__device__ inline void map_singles(const Op& op, const SegmentPlan<AXES, I, O>& plan,
                                   const Offsets<AXES, I + O>& row, ptrdiff_t first, int low, int high,
                                   Acc* made, Acc (&value)[Tile::ITEMS]) {
  const auto moved = [&](const auto& each) {
#pragma unroll
    for (int p = 0; p < Tile::PACKS; ++p) {
      const int item = Tile::moved_item(p);
      if (item >= low && item < high) each(p, item);
    }
  };
  // All loads are in flight before the first one is waited for.
  moved([&](int p, int item) {
    const ptrdiff_t n = first + item;
    const Place place = locate<Op>(plan, n);
    value[p] = op._map(InRow<AXES, I + O>{row, plan.steps, n}, place.column, place.row);
  });
  moved([&](int p, int item) { made[item] = value[p]; });
  __syncthreads();
#pragma unroll
  for (int j = 0; j < Tile::ITEMS; ++j) {
    const int item = Tile::item(0) + j;
    if (item >= low && item < high) value[j] = made[item];
  }
}
// The same of packs that have been staged: `all` of the thread's elements, or those that `which` has a
// bit for.
template <class Tile, int V, class Op, class Plan, class Acc, class... Inputs>
__device__ inline void map_staged(const Op& op, const Plan& plan, ptrdiff_t first, bool all,
                                  unsigned int which, const unsigned char* slot,
                                  Acc (&value)[Tile::ITEMS], const Inputs&... inputs) {
  typedef Sizes<Inputs...> In;
  const auto map = [&](const auto& exists) {
#pragma unroll
    for (int p = 0; p < Tile::PACKS; ++p) {
      Batch<V, typename UpTo<In::COUNT>::type, Inputs...> batch;
      batch.load_packed(
          [&](int k) {
            return StagedAccessor{slot + Tile::SIZE * place_of_input<In>(k) +
                                  Tile::item(p) * In::of(k)};
          },
          inputs...);
#pragma unroll
      for (int j = 0; j < V; ++j) {
        const Place at = locate<Op>(plan, first + Tile::item(p) + j);
        if (exists(p * V + j)) value[p * V + j] = batch.map(op, j, at.column, at.row);
      }
    }
  };
  if (all)
    map([](int) { return true; });
  else
    map([&](int j) { return which >> j & 1; });
}

// What elements make that follow each other in a thread's registers: each becomes that of those up to
// it, from the last one on with which a segment begins; `begins` has a bit for each of these.
template <class Op, class Acc, int ITEMS>
__device__ inline void run_items(const Op& op, Acc (&value)[ITEMS], unsigned int begins) {
#pragma unroll
  for (int j = 1; j < ITEMS; ++j)
    if (!(begins >> j & 1)) value[j] = op._reduce(value[j - 1], value[j]);
}
// Write them to shared memory, in packs of V if they fill accesses.
template <int V, class Acc, int ITEMS>
__device__ inline void store_items(Acc* to, const Acc (&value)[ITEMS]) {
#pragma unroll
  for (int j = 0; j < ITEMS; j += V) {
    Acc pack[V];
#pragma unroll
    for (int k = 0; k < V; ++k) pack[k] = value[j + k];
    if constexpr (V * sizeof(Acc) % 16 == 0) {
      store_pack<V>(to + j, pack);
    } else {
#pragma unroll
      for (int k = 0; k < V; ++k) to[j + k] = pack[k];
    }
  }
}

// Tell what is before the elements of each thread in its tile, given what they make; `all` becomes what
// the whole tile does. The block comes here, with room for a carry of each warp.
template <int WARPS, class Op, class Acc>
__device__ inline Carry<Acc> before_items(const Op& op, const Acc& own, bool begins, Carry<Acc>* warps,
                                          Carry<Acc>& all) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const unsigned int begun = __ballot_sync(0xffffffffu, begins);
  const Acc up = up_to_lane<32>(op, own, begun);
  if (lane == 31) warps[warp] = Carry<Acc>{up, state_of_first(32, begun)};
  Carry<Acc> before{shuffle_up(up, 1), state_of_first(lane, begun)};
  __syncthreads();
  const Carry<Acc> one = warps[lane % WARPS];
  const unsigned int begun_warps = __ballot_sync(0xffffffffu, one.state == BEGUN);
  const Acc some = up_to_lane<WARPS>(op, one.value, begun_warps);
  if (warp)
    before.follow(op, Carry<Acc>{shuffle_from(some, warp - 1), state_of_first(warp, begun_warps)});
  all = Carry<Acc>{shuffle_from(some, WARPS - 1), state_of_first(WARPS, begun_warps)};
  return before;
}

// The tiles of a block. All stretches have as much work: an element is one unit, and the end of a segment
// SEGMENT_WORK of them. As in merge-based division (Merrill and Garland, "Merge-based parallel sparse
// matrix-vector multiplication", 2016) a block finds its own by a search.
struct StretchTiles {
  ptrdiff_t begin, end;  // its first tile, and the one behind its last
  ptrdiff_t ended;       // segments that have ended when the work before it is done: not before `begin`

  // Stretch number `number`, which begins where the one before it ends.
  template <class Tile, class Plan>
  __device__ static inline StretchTiles find(const Plan& plan, ptrdiff_t number) {
    const ptrdiff_t work = number * plan.work - plan.shift, works[2] = {work, work + plan.work};
    ptrdiff_t ended[2] = {0, 0}, most[2] = {plan.segments, plan.segments}, bound[2];
    count_ended<Tile::THREADS>(plan, SEGMENT_WORK, works, ended, most);
    plan.bounds.read(ended[0] + 1, ended[1] - ended[0], plan.segments + 1, bound);
    const auto tile = [&](int k) {
      const ptrdiff_t end = ended[k] < plan.segments ? plan.within(bound[k]) : plan.length;
      const ptrdiff_t place = works[k] - SEGMENT_WORK * ended[k];
      return ((place < end ? place : end) + plan.shift) / Tile::SIZE;
    };
    const ptrdiff_t tiles =
        plan.length ? (plan.length + plan.shift + Tile::SIZE - 1) / Tile::SIZE : 1;
    return StretchTiles{tile(0), number + 1 < plan.tiles ? tile(1) : tiles, ended[0]};
  }
};

// Reduce the segments whose ends are in a stretch of tiles. Packs are copied; if V is 1, elements may
// be anywhere, and are mapped as they are read.
template <int V, class Op, int AXES, int I, int O, class... Inputs>
__device__ inline void segment_stretch(const Op& op, const SegmentPlan<AXES, I, O>& plan,
                                       unsigned char* memory, const Inputs&... inputs) {
  typedef typename Op::_Acc Acc;
  typedef Sizes<Inputs...> In;
  typedef SegmentTile<Acc, V, place_of_input<In>(In::COUNT), In::of(0)> Tile;
  typedef typename UpTo<I>::type Number;
  enum { SIZE = Tile::SIZE, PACKS = Tile::PACKS, WARPS = Tile::WARPS };
  __shared__ __align__(16) unsigned char of_warps[WARPS * sizeof(Carry<Acc>)];
  __shared__ __align__(16) unsigned char of_part[sizeof(SegmentPart<Acc>)];
  Carry<Acc>* const warps = reinterpret_cast<Carry<Acc>*>(of_warps);
  SegmentPart<Acc>& part = *reinterpret_cast<SegmentPart<Acc>*>(of_part);  // the first thread's
  const auto slot_of = [&](int turn) {  // where inputs are
    return memory + Tile::OF_ENDS + Tile::OF_MADE + turn * (SIZE * place_of_input<In>(In::COUNT));
  };
  const Offsets<AXES, I + O> row(plan.rows, 0);
  // The elements that are of segments, and the segment that has begun before the stretch, or -1.
  __shared__ ptrdiff_t begin, end, open;
  const ptrdiff_t number = blockIdx.x;
  ptrdiff_t edges[2];  // on their way during the search
  plan.bounds.read(0, plan.segments, plan.segments + 1, edges);
  const StretchTiles own = StretchTiles::find<Tile>(plan, number);
  ptrdiff_t first = own.begin * SIZE - plan.shift;
  if constexpr (V > 1)
    stage_tile<Tile, V>(Number(), plan.steps, first, plan.length, slot_of(0), inputs...);
  typename Tile::Ends& shared = *reinterpret_cast<typename Tile::Ends*>(memory);
  shared.clear();
  // With the first element come segments that end at once.
  EndsFinder<SegmentPlan<AXES, I, O>, SIZE, Tile::THREADS> ends(
      plan, shared, first > 0 ? ended_before<Tile::THREADS>(plan, first, own.ended) : 0);
  ends.load();
  int left = (int)(own.end - own.begin);
  if (threadIdx.x == 0) {
    begin = plan.within(edges[0]);
    end = plan.within(edges[1]);
    open = first > 0 && plan.bound(ends.from) < first ? ends.from : -1;
    part.tail.state = NOTHING;
    part.head.state = OPEN;
    part.segment = -1;
  }
  const auto post = [&](ptrdiff_t segment, ptrdiff_t count, const Acc& value) {
    counted(op, count)._post(value, InRow<AXES, I + O>{row, plan.steps, segment}, segment);
  };
  __syncthreads();
#pragma unroll 1
  for (; left > 0; first += SIZE) {
    const int low = item_of(0, first, SIZE), high = item_of(plan.length, first, SIZE);
    const int covered = item_of(begin, first, SIZE), bare = item_of(end, first, SIZE);
    const int lowest = covered < low ? low : covered, highest = bare > high ? high : bare;
    const bool is_last = --left == 0;
    ends.find(first, low, high);
    Acc* const made =
        reinterpret_cast<Acc*>(Tile::IN_PLACE ? slot_of(ends.turn) : memory + Tile::OF_ENDS);
    if (!is_last) {
      if constexpr (V > 1)
        stage_tile<Tile, V>(Number(), plan.steps, first + SIZE, plan.length, slot_of(ends.turn ^ 1),
                            inputs...);
      ends.load();
    }
    const int item = Tile::item(0);
    const bool is_whole = highest - lowest == SIZE;
    const unsigned int which = is_whole ? ~0u : bits_within<Tile::ITEMS>(item, lowest, highest);
    Acc value[Tile::ITEMS];
    if constexpr (V == 1)
      map_singles<Tile>(op, plan, row, first, lowest, highest, made, value);
    else
      map_staged<Tile, V>(op, plan, first, is_whole, which, slot_of(ends.turn), value, inputs...);
    const unsigned int* const word = shared.bits + item / 32;
    const unsigned int begins =
        (__funnelshift_r(word[0], word[1], item % 32) | ~which) & (~0u >> (32 - Tile::ITEMS));
    if (__any_sync(0xffffffffu, begins != 0)) {
      run_items(op, value, begins);
      store_items<V>(made + item, value);
    } else {  // only the last element of each thread may be that of a segment
      run_items(op, value, 0);
      made[item + Tile::ITEMS - 1] = value[Tile::ITEMS - 1];
    }
    Carry<Acc> tail;
    const Carry<Acc> before =
        before_items<WARPS>(op, value[Tile::ITEMS - 1], begins != 0, warps, tail);
    shared.clear();
    // The last element of the segment that has begun before those of the thread.
    const int last = item + (begins ? __ffs(begins) - 2 : Tile::ITEMS - 1);
    if (last >= item && before.state != NOTHING)
      made[last] = op._reduce(before.value, made[last]);
    __syncthreads();
    const int head = ends.at(1);  // where the first segment ends, which may have begun before the tile
    if (threadIdx.x == 0) {
      if (ends.count && ends.at(0) < 0 && head > 0 && head <= SIZE) {
        Carry<Acc> whole{made[head - 1], OPEN};
        whole.follow(op, part.tail);
        if (ends.from == open) {
          part.head = whole;
          part.segment = open;
        } else {
          post(ends.from, first + head - plan.bound(ends.from), op._initial(whole.value));
        }
      }
      tail.follow(op, part.tail);
      part.tail = tail;
    }
    ends.each(first, low, high, [&](ptrdiff_t segment, int begin, int end) {
      if (begin < 0) return;
      const bool some = begin < end && end <= SIZE;
      post(segment, some ? end - begin : 0, some ? op._initial(made[end - 1]) : op._identity());
    });
  }
  if (plan.tiles == 1 || threadIdx.x >= 32) return;
  __syncwarp();
  leave_part(op, plan, number, part, [&](ptrdiff_t segment, const Acc& value) {
    post(segment, plan.bound(segment + 1) - plan.bound(segment), op._initial(value));
  });
}

template <class Op, int AXES, int I, int O, class... Inputs>
__device__ inline void reduce(const Op& op, const Reduction<SegmentLines<AXES>, I, O>& plan,
                              const Inputs&... inputs) {
  typedef typename Op::_Acc Acc;
  enum { V = TilePack<Acc, PackSize<Inputs...>::value>::V };
  extern __shared__ __align__(16) unsigned char memory[];
  if constexpr (V > 1) {
    if (plan.packed) {
      segment_stretch<V>(op, plan, memory, inputs...);
      return;
    }
  }
  segment_stretch<1>(op, plan, memory, inputs...);
}

}  // namespace kspec
