// Scans of rows that lie one behind the other in memory, by blocks that stay: block b of B takes the
// tiles b, b + B, and so on. B tiles that follow each other are a wave; all blocks are resident. Every
// block reads what each tile of a wave makes and keeps what all waves before it make, so that no tile
// waits for a chain of others, and equal calls on equal devices give equal bits.
//
// Elements wait in shared memory. A tile is passed over twice: as soon as it is there, to say what it
// makes, and AHEAD tiles later, when the others of its wave have long done so too, to make outputs.
#pragma once

#include "kspec/scan_lines.cuh"
#include "kspec/staged.cuh"

namespace kspec {

enum { WAVE_THREADS = 256 };  // and a warp that listens to other blocks
template <int AXES> struct MaxThreads<ScanWaves<AXES>> { enum { value = WAVE_THREADS + 32 }; };
template <int AXES, class Acc, class... Inputs> struct MinBlocks<ScanWaves<AXES>, Acc, Inputs...> {
  enum { value = 1 };
};

// Where a tile has an output: in the place of the input of its number, if their elements have the same
// size.
template <class In, class Out> __device__ constexpr int place_of_output(int k) {
  if (k < Out::COUNT && In::of(k) == Out::of(k)) return place_of_input<In>(k);
  int bytes = place_of_input<In>(In::COUNT);
  for (int i = 0; i < k; ++i) bytes += In::of(i) == Out::of(i) ? 0 : Out::of(i);
  return bytes;
}

// The elements of a tile whose packs have `V`; kspec/runtime/schedules/wave_schedule.py agrees.
template <int V, class In, class Out> struct WaveTile {
  enum {
    THREADS = WAVE_THREADS,
    WARPS = THREADS / 32,
    BYTES = place_of_output<In, Out>(Out::COUNT),              // of an element
    PACKS = V * BYTES <= 16 ? 7 : V * BYTES <= 32 ? 3 : 1,     // of a thread: odd, so that those
    SIZE = THREADS * PACKS * V,                                // of neighbours have other banks
    AHEAD = 3,
    STAGES = AHEAD + 5  // at most
  };
};

template <class... Args> struct Arguments {};

// A thread's part of a scan.
template <int V, class Op, class Plan, class K, class L, class Inputs, class Outputs>
struct WaveThread;
template <int V, class Op, class Plan, int... K, int... L, class... Inputs, class... Outputs>
struct WaveThread<V, Op, Plan, Numbers<K...>, Numbers<L...>, Arguments<Inputs...>, Arguments<Outputs...>> {
  typedef typename Op::_Acc Acc;
  typedef Sizes<Inputs...> In;
  typedef Sizes<Outputs...> Out;
  typedef WaveTile<V, In, Out> Tile;
  enum { PACKS = Tile::PACKS, SIZE = Tile::SIZE, WARPS = Tile::WARPS, STRETCH = 32 * PACKS * V };
  enum { ALL = (1u << (V - 1) << 1) - 1u };

  // Where a tile's elements are in their rows, in the order of the scan, and which exist.
  struct Rows : RowsOfTile<Plan, SIZE> {
    int low, high;  // elements that exist

    __device__ inline Rows(const Plan& plan, ptrdiff_t first)
        : RowsOfTile<Plan, SIZE>(plan, first),
          low(item_of(0, first, SIZE)),
          high(item_of(plan.outputs * plan.length, first, SIZE)) {}
    __device__ inline bool is_whole() const { return high - low == SIZE; }
    __device__ inline bool begins_none() const { return this->long_rows && this->begin == SIZE; }
    __device__ inline unsigned int exists(int item) const {
      return bits_within<V>(item, low, high);
    }
  };
  // Packs that follow each other, of which each is asked with which of its elements a row begins.
  struct Begins {
    int left, length;  // elements before the next row, and of a row, if not more than a tile's

    __device__ inline Begins(const Rows& rows, int item) {
      const ptrdiff_t column = rows[item].column, row = rows.plan.length;
      const ptrdiff_t before = column > 0 ? row - column : -column;
      left = before < SIZE ? (int)before : SIZE;
      length = row < SIZE ? (int)row : SIZE;
    }
    __device__ inline unsigned int next() {
      unsigned int bits = 0;
#pragma unroll 1
      for (; left < V; left += length) bits |= 1u << left;
      left -= V;
      return bits;
    }
  };

  const Op& op;
  const Plan& plan;
  const int lane, warp;
  const int stretch;  // first element in memory of the warp's, in a tile
  bool bulk;          // stretches are copied as a whole

  __device__ inline WaveThread(const Op& op, const Plan& plan, const Inputs&... inputs,
                               const Outputs&... outputs)
      : op(op), plan(plan), lane(threadIdx.x % 32), warp(threadIdx.x / 32),
        stretch((plan.reversed ? WARPS - 1 - warp : warp) * STRETCH) {
    bulk = HAS_BULK;
    ((bulk = bulk && plan.steps[K] != 0 && is_aligned(inputs.data)), ...);
    ((bulk = bulk && is_aligned(outputs.data)), ...);
  }

  // A tile's first element in memory, and in the order of the scan.
  __device__ inline ptrdiff_t memory_begin(ptrdiff_t tile) const {
    return (plan.reversed ? plan.tiles - 1 - tile : tile) * SIZE - plan.shift;
  }
  __device__ inline ptrdiff_t begin(ptrdiff_t tile) const {
    return plan.reversed ? plan.outputs * plan.length - memory_begin(tile) - SIZE : memory_begin(tile);
  }
  __device__ inline bool is_whole(ptrdiff_t first) const {
    return first >= 0 && first + SIZE <= plan.outputs * plan.length;
  }
  // Whether the first tile begins at a multiple of 16 bytes.
  template <class T> __device__ inline bool is_aligned(const T* data) const {
    return data && reinterpret_cast<size_t>(data - plan.shift) % 16 == 0;
  }
  // One of the packs that the warp's lanes move side by side.
  __device__ inline int moved_item(int p) const { return stretch + (p * 32 + lane) * V; }

  // Load a tile's elements of the warp; they are there some time later.
  __device__ inline void load(ptrdiff_t tile, unsigned char* slot, Arrival& arrival,
                              const Inputs&... inputs) const {
    const ptrdiff_t first = memory_begin(tile);
    const bool whole = is_whole(first);
    if (bulk && whole) {
      if (lane) return;
      arrival.expect(STRETCH * place_of_input<In>(In::COUNT));
      (arrival.load(slot + SIZE * place_of_input<In>(K) + stretch * In::of(K),
                    inputs.data + (first + stretch), STRETCH * In::of(K)),
       ...);
      return;
    }
    (stage_input<V, PACKS>(inputs, plan.steps[K] != 0, first, plan.outputs * plan.length, whole,
                           slot + SIZE * place_of_input<In>(K), [&](int p) { return moved_item(p); }),
     ...);
    commit_copies();
    if (bulk && lane == 0) arrival.expect(0);
  }
  // Wait for elements that have been loaded to a slot, an odd number of times or an even one.
  __device__ inline void wait(Arrival& arrival, int odd) const {
    if (bulk)
      arrival.wait(odd);
    else
      wait_for_copies(plan.stages - Tile::AHEAD - 1);
    __syncwarp();
  }
  // Write outputs that are in a slot.
  __device__ inline void store(ptrdiff_t tile, const unsigned char* slot,
                               const Outputs&... outputs) const {
    const ptrdiff_t first = memory_begin(tile);
    const bool whole = is_whole(first);
    if (bulk) fence_bulk();
    __syncwarp();
    if (!(bulk && whole))
      (store_output<L>(first, whole, slot, outputs), ...);
    else if (lane == 0)
      (store_bulk(outputs.data + (first + stretch),
                  slot + SIZE * place_of_output<In, Out>(L) + stretch * Out::of(L),
                  STRETCH * Out::of(L)),
       ...);
    if (bulk && lane == 0) commit_bulk();
    __syncwarp();
  }
  // What the thread's elements of a tile make.
  __device__ inline Carry<Acc> total(ptrdiff_t tile, const unsigned char* slot,
                                     const Inputs&... inputs) const {
    Carry<Acc> sum;
    sum.state = NOTHING;
    each_pack(tile, slot, [&](const Rows&, int, unsigned int, unsigned int begins, Acc (&value)[V]) {
#pragma unroll
      for (int j = 0; j < V; ++j) {
        const bool alone = (j == 0 && sum.state == NOTHING) || begins >> j & 1;
        sum.value = alone ? value[j] : op._reduce(sum.value, value[j]);
      }
      sum.state = begins || sum.state == BEGUN ? BEGUN : OPEN;
    }, inputs...);
    return sum;
  }
  // Put their outputs in the place of the inputs, given what is before these.
  __device__ inline void finish(ptrdiff_t tile, unsigned char* slot, const Carry<Acc>& before,
                                const Inputs&... inputs) const {
    Acc run = before.value;
    each_pack(tile, slot, [&](const Rows& rows, int p, unsigned int which, unsigned int begins,
                              Acc (&value)[V]) {
#pragma unroll
      for (int j = 0; j < V; ++j) {
        const Acc prior = run;
        run = begins >> j & 1 ? value[j] : op._reduce(prior, value[j]);
        value[j] = plan.exclusive ? prior : run;
      }
      turn(value, plan.reversed);
      const Places places(rows, item(p), plan.reversed);
      const unsigned int there = in_memory(which);
      const unsigned int first = plan.exclusive ? in_memory(begins) : 0;
      OutputPack<V, Numbers<L...>, Outputs...> pack;
#pragma unroll
      for (int j = 0; j < V; ++j) {
        if (!(there >> j & 1)) continue;
        const Place& at = places.at[j];
        counted(op, at.column + !plan.exclusive)
            ._post(first >> j & 1 ? op._identity() : op._initial(value[j]),
                   InPack<decltype(pack), sizeof...(K)>{pack, j}, row(at));
      }
      pack.stage([&](int l) {
        return slot + SIZE * place_of_output<In, Out>(l) + memory_item(p) * Out::of(l);
      });
    }, inputs...);
  }

 private:
  template <int N, class Output>
  __device__ inline void store_output(ptrdiff_t first, bool whole, const unsigned char* slot,
                                      const Output& output) const {
    typedef typename Output::type T;
    const T* const from = reinterpret_cast<const T*>(slot + SIZE * place_of_output<In, Out>(N));
    const ptrdiff_t total = plan.outputs * plan.length;
#pragma unroll
    for (int p = 0; p < PACKS; ++p) {
      const int item = moved_item(p);
      T* const to = output.data + (first + item);
      if (whole) {
        typedef typename Word<sizeof(T) * V>::type Access;
        __stcs(reinterpret_cast<Access*>(to), *reinterpret_cast<const Access*>(from + item));
      } else {
        for (int j = 0; j < V; ++j)
          if (first + item + j >= 0 && first + item + j < total) to[j] = from[item + j];
      }
    }
  }

  // A pack of the thread's: number p in the order of the scan, whose elements are from `item` on in
  // that order, and from `memory_item` on in memory.
  __device__ inline int item(int p) const { return ((int)threadIdx.x * PACKS + p) * V; }
  __device__ inline int memory_item(int p) const {
    return plan.reversed ? SIZE - V - item(p) : item(p);
  }
  // Places of a pack's elements in their rows, in the order in which they are in memory.
  struct Places {
    Place at[V];

    __device__ inline Places(const Rows& rows, int item, bool reversed) {
      at[0] = rows[item];
#pragma unroll
      for (int j = 1; j < V; ++j) at[j] = rows.after(at[j - 1]);
      turn(at, reversed);
    }
  };
  // From the order of memory to that of the scan, or back.
  template <class T> __device__ static inline void turn(T (&value)[V], bool reversed) {
    if (!reversed) return;
#pragma unroll
    for (int j = 0; j < V / 2; ++j) {
      const T other = value[j];
      value[j] = value[V - 1 - j];
      value[V - 1 - j] = other;
    }
  }
  __device__ inline ptrdiff_t row(const Place& at) const {
    return plan.reversed ? plan.outputs - 1 - at.row : at.row;
  }
  __device__ inline unsigned int in_memory(unsigned int bits) const {
    return plan.reversed ? __brev(bits) >> (32 - V) : bits;
  }
  // The elements of a pack, mapped, in the order of the scan; those that `which` has no bit for are
  // anything.
  __device__ inline void map(Acc (&value)[V], const Rows& rows, int p, unsigned int which,
                             const unsigned char* slot, const Inputs&... inputs) const {
    Batch<V, Numbers<K...>, Inputs...> batch;
    batch.load_packed(
        [&](int k) {
          const unsigned char* operand = slot + SIZE * place_of_input<In>(k);
          return StagedAccessor{operand + memory_item(p) * In::of(k)};
        },
        inputs...);
    const Places places(rows, item(p), plan.reversed);
    const unsigned int there = in_memory(which);
#pragma unroll
    for (int j = 0; j < V; ++j) {
      const Place& at = places.at[j];
      if (there >> j & 1) value[j] = batch.map(op, j, place_in(plan, at.column), row(at));
    }
    turn(value, plan.reversed);
  }
  // Call `each(rows, p, which, begins, value)` for the thread's packs in the order of the scan: with
  // bits for the elements that exist, and for those with which a row begins, as which those count
  // that do not exist.
  template <class Each>
  __device__ inline void each_pack(ptrdiff_t tile, const unsigned char* slot, const Each& each,
                                   const Inputs&... inputs) const {
    const Rows rows(plan, begin(tile));
    if (!rows.is_whole())
      each_pack<true, true>(rows, slot, each, inputs...);
    else if (rows.begins_none())
      each_pack<false, false>(rows, slot, each, inputs...);
    else
      each_pack<true, false>(rows, slot, each, inputs...);
  }
  // BEGIN: rows may begin among the elements. MISSING: some may not exist.
  template <bool BEGIN, bool MISSING, class Each>
  __device__ inline void each_pack(const Rows& rows, const unsigned char* slot, const Each& each,
                                   const Inputs&... inputs) const {
    Begins edges(rows, item(0));
#pragma unroll(MISSING || V > 4 ? 1 : PACKS)
    for (int p = 0; p < PACKS; ++p) {
      const unsigned int which = MISSING ? rows.exists(item(p)) : ALL;
      const unsigned int begins = BEGIN ? edges.next() | (which ^ ALL) : 0;
      Acc value[V];
      map(value, rows, p, which, slot, inputs...);
      each(rows, p, which, begins, value);
    }
  }
};

// What the tiles of waves make, as the blocks say it.
template <class Op> struct Waves {
  typedef typename Op::_Acc Acc;
  typedef Message<Acc> Text;
  typedef typename Text::Word Word;
  enum { BATCH = 8 };  // messages of a lane that are under way

  const Op& op;
  Word* words;
  ptrdiff_t tiles;
  int number;  // of this block, in each wave
  unsigned int launch;
  Carry<Acc> base;  // what all waves before make

  template <class Plan>
  __device__ inline Waves(const Op& op, const Plan& plan, const Ticket& mine)
      : op(op), words(static_cast<Word*>(plan.carries)), tiles(plan.tiles),
        number((int)mine.number), launch(mine.launch) {
    base.state = NOTHING;
  }
  __device__ inline ptrdiff_t tile(int wave) const { return (ptrdiff_t)wave * gridDim.x + number; }
  __device__ inline void say(int wave, const Carry<Acc>& whole) const {
    Text::write(whole, launch, words + tile(wave) * Text::WORDS, 1);
  }
  // Wait until the next wave has said all. What is before this block's tile goes to `front`. A warp
  // comes here.
  __device__ inline void listen(int wave, Carry<Acc>* front) {
    const int lane = threadIdx.x % 32, blocks = gridDim.x, each = (blocks + 31) / 32;
    const ptrdiff_t first = (ptrdiff_t)wave * blocks;
    Carry<Acc> some, before;
    some.state = before.state = NOTHING;
    for (int m = 0; m < each; m += BATCH) {
      const int from = lane * each + m;
      Text said[BATCH];
      bool exists[BATCH];
#pragma unroll
      for (int b = 0; b < BATCH; ++b) {
        exists[b] = m + b < each && from + b < blocks && first + from + b < tiles;
        if (exists[b]) said[b].read(words + (first + from + b) * Text::WORDS, 1);
      }
#pragma unroll
      for (int b = 0; b < BATCH; ++b) {
        if (!exists[b]) continue;
        while (!said[b].is_complete(launch))
          said[b].read(words + (first + from + b) * Text::WORDS, 1);
        if (from + b == number) before = some;
        Carry<Acc> next = said[b].carry(launch);
        next.follow(op, some);
        some = next;
      }
    }
    __syncwarp();
    some = up_to_lane<32>(op, some);
    const Carry<Acc> earlier = shuffle_up(some, 1);
    if (lane == number / each) {
      if (lane) before.follow(op, earlier);
      before.follow(op, base);
      *front = before;
    }
    Carry<Acc> whole = shuffle_from(some, 31);
    whole.follow(op, base);
    base = whole;
  }
};

// Scan with threads that load tiles, find what their own elements make, and finish them.
template <class Thread, class Op, class Plan, class Load, class Total, class Finish>
__device__ inline void scan_waves(const Op& op, const Plan& plan, const Thread& thread,
                                  const Load& load, const Total& total, const Finish& finish) {
  typedef typename Op::_Acc Acc;
  enum { AHEAD = Thread::Tile::AHEAD, WARPS = Thread::WARPS };
  // Each twice: one is written while slow threads still read the other.
  __shared__ __align__(16) unsigned char memory[2 * (WARPS + 1) * sizeof(Carry<Acc>)];
  __shared__ Arrival arrivals[Thread::Tile::STAGES][WARPS];
  for (int k = threadIdx.x; k < Thread::Tile::STAGES * WARPS; k += blockDim.x)
    arrivals[k / WARPS][k % WARPS].init();
  Waves<Op> waves(op, plan, take_tile(plan));
  __syncthreads();
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, blocks = gridDim.x;
  const int count = (int)((plan.tiles - waves.number + blocks - 1) / blocks);
  const bool works = warp < WARPS;  // the last warp listens
  const int stages = (int)plan.stages, late = thread.bulk;  // bulk stores free a slot later
  if (works)
    for (int k = 0; k < stages; ++k)
      if (k < count)
        load(waves.tile(k), k, arrivals[k][warp]);
      else
        commit_copies();
  Carry<Acc> own[AHEAD + 1];       // what is before the thread's elements in a tile, newest first
  int reading = 0, finishing = 0, free = 0, odd = 0;  // slots, and the turn of the first
  for (int k = 0; k < count + AHEAD; ++k) {
    const int j = k - AHEAD;  // the tile that is finished
    Carry<Acc>* const shared = reinterpret_cast<Carry<Acc>*>(memory) + k % 2 * (WARPS + 1);
    Carry<Acc>* const front = shared + WARPS;
    if (works && k < count) {
      thread.wait(arrivals[reading][warp], odd);
      Carry<Acc> whole = total(waves.tile(k), reading);
      const unsigned int begun = __ballot_sync(0xffffffffu, whole.state == BEGUN);
      whole.value = up_to_lane<32>(op, whole.value, begun);
      own[0].value = shuffle_up(whole.value, 1);
      own[0].state = state_of_first(lane, begun);
      whole.state = state_of_first(32, begun);
      if (lane == 31) shared[warp] = whole;
      odd ^= reading + 1 == stages;
      reading = reading + 1 < stages ? reading + 1 : 0;
    }
    if (!works && j >= 0) waves.listen(j, front);
    __syncthreads();
    if (works && k < count) {
      Carry<Acc> part = shared[lane % WARPS];
      const unsigned int begun = __ballot_sync(0xffffffffu, part.state == BEGUN);
      part.value = up_to_lane<WARPS>(op, part.value, begun);
      Carry<Acc> before;
      before.value = shuffle_from(part.value, warp ? warp - 1 : 0);
      before.state = state_of_first(warp, begun);
      own[0].follow(op, before);
      if (threadIdx.x == WARPS - 1) {
        part.state = state_of_first(WARPS, begun);
        waves.say(k, part);
      }
    }
    if (works && j >= 0) {
      Carry<Acc> before = own[AHEAD];
      before.follow(op, *front);
      finish(waves.tile(j), finishing, before);
      finishing = finishing + 1 < stages ? finishing + 1 : 0;
      const int next = j - late + stages;
      if (j >= late && next < count)
        load(waves.tile(next), free, arrivals[free][warp]);
      else
        commit_copies();
      if (j >= late) free = free + 1 < stages ? free + 1 : 0;
    }
#pragma unroll
    for (int a = AHEAD; a > 0; --a) own[a] = own[a - 1];
  }
  if (works && thread.bulk && lane == 0) finish_bulk();
}

template <class Op, int AXES, int I, int O, class... Inputs>
__device__ inline void reduce(const Op& op, const Reduction<ScanWaves<AXES>, I, O>& plan,
                              const Inputs&... inputs) {
  typedef typename Op::_Acc Acc;
  extern __shared__ __align__(16) unsigned char slots[];
  op._outputs([&](const auto&... outputs) {
    enum { V = PackSize<Inputs..., Bare<decltype(outputs)>...>::value };
    const auto scan = [&](const auto& thread) {
      typedef Bare<decltype(thread)> Thread;
      const auto slot = [&](int k) { return slots + k * (Thread::SIZE * Thread::Tile::BYTES); };
      scan_waves<Thread>(
          op, plan, thread,
          [&](ptrdiff_t tile, int k, Arrival& arrival) {
            thread.load(tile, slot(k), arrival, inputs...);
          },
          [&](ptrdiff_t tile, int k) { return thread.total(tile, slot(k), inputs...); },
          [&](ptrdiff_t tile, int k, const Carry<Acc>& before) {
            thread.finish(tile, slot(k), before, inputs...);
            thread.store(tile, slot(k), outputs...);
          });
    };
    if constexpr (V > 1 && sizeof(Acc) <= 16 && V * sizeof(Acc) <= 128) {
      typedef Reduction<ScanWaves<AXES>, I, O> Plan;
      typedef Arguments<Bare<decltype(outputs)>...> Outputs;
      typedef typename UpTo<I>::type In;
      typedef typename UpTo<O>::type Out;
      scan(WaveThread<V, Op, Plan, In, Out, Arguments<Inputs...>, Outputs>(op, plan, inputs...,
                                                                           outputs...));
    }
  });
}

}  // namespace kspec
