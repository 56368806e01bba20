// Scans of rows that lie one behind the other in memory, by blocks that stay: block b of B takes the
// tiles b, b + B, and so on. B tiles that follow each other are a wave; all blocks are resident. Every
// block reads what each tile of a wave makes and keeps what all waves before it make, so that no tile
// waits for a chain of others, and equal calls on equal devices give equal bits.
//
// Elements wait in shared memory. A tile is passed over twice: as soon as it is there, to find what it
// makes, and AHEAD tiles later, when the others of its wave have long said so too, to make outputs. Two
// teams of warps take turns: while one finds what a tile makes, the other says what it has found, and
// finishes an earlier tile.
#pragma once

#include "kspec/scan_lines.cuh"
#include "kspec/staged.cuh"

namespace kspec {

enum { WAVE_TEAM = 256, WAVE_TEAMS = 2 };  // threads; and a warp that listens to other blocks
template <int AXES, class Acc> struct MaxThreads<ScanWaves<AXES>, Acc> {
  enum { value = WAVE_TEAMS * WAVE_TEAM + 32 };
};
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
    THREADS = WAVE_TEAM,
    WARPS = THREADS / 32,
    BYTES = place_of_output<In, Out>(Out::COUNT),              // of an element
    PACKS = V * BYTES <= 16 ? 7 : V * BYTES <= 32 ? 3 : 1,     // of a thread: odd, so that those
    SIZE = THREADS * PACKS * V,                                // of neighbours have other banks
    AHEAD = 2 * WAVE_TEAMS,
    STAGES = AHEAD + 2 * WAVE_TEAMS  // tiles that a block keeps; those of a team have its own slots
  };
};

template <class... Args> struct Arguments {};

// Which way a scan goes. That most scans are PLAIN, neither exclusive nor reversed, the compiler has to
// know: to choose cost three instructions for each element, as many as all others for float16.
template <bool PLAIN, class Plan> struct WayOfScan {
  enum { IS_PLAIN = PLAIN };
  const Plan& plan;

  __device__ inline bool exclusive() const { return !PLAIN && plan.exclusive; }
  __device__ inline bool reversed() const { return !PLAIN && plan.reversed; }
};

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

  typedef RowsOfTile<Plan> Rows;  // in the order of the scan

  // Packs that follow each other, of which each is asked with which of its elements a row begins.
  struct Begins {
    enum { COUNT = PACKS * V, TOGETHER = COUNT <= 64 };  // all are found at once
    typedef typename Choose<(COUNT > 32), unsigned long long, unsigned int>::type Bits;

    int left, length;  // elements before the next row, and of a row, if not more than a tile's
    Bits bits;

    __device__ inline Begins(const Rows& rows, int item) : bits(0) {
      const ptrdiff_t column = rows[item].column, row = rows.plan.length;
      const ptrdiff_t before = column > 0 ? row - column : -column;
      left = before < SIZE ? (int)before : SIZE;
      length = row < SIZE ? (int)row : SIZE;
      if (TOGETHER) find(COUNT);
    }
    __device__ inline unsigned int next(int p) {
      if (TOGETHER) return (unsigned int)(bits >> p * V) & ALL;
      bits = 0;
      find(V);
      left -= V;
      return (unsigned int)bits;
    }

   private:
    __device__ inline void find(int end) {
#pragma unroll 1
      for (; left < end; left += length) bits |= (Bits)1 << left;
    }
  };

  const Op& op;
  const Plan& plan;
  const int lane, warp;
  const int stretch;         // first element in memory of the warp's, in a tile
  const ptrdiff_t elements;  // in all rows
  bool bulk;                 // stretches are copied as a whole

  __device__ inline WaveThread(const Op& op, const Plan& plan, const Inputs&... inputs,
                               const Outputs&... outputs)
      : op(op), plan(plan), lane(threadIdx.x % 32), warp(threadIdx.x % WAVE_TEAM / 32),
        stretch((plan.reversed ? WARPS - 1 - warp : warp) * STRETCH),
        elements(plan.outputs * plan.length) {
    bulk = HAS_BULK;
    ((bulk = bulk && plan.steps[K] != 0 && is_aligned(inputs.data)), ...);
    ((bulk = bulk && is_aligned(outputs.data)), ...);
  }

  // A tile's first element in memory, and in the order of the scan.
  __device__ inline ptrdiff_t memory_begin(ptrdiff_t tile) const {
    return (plan.reversed ? plan.tiles - 1 - tile : tile) * SIZE - plan.shift;
  }
  __device__ inline ptrdiff_t begin(ptrdiff_t tile) const {
    return plan.reversed ? elements - memory_begin(tile) - SIZE : memory_begin(tile);
  }
  __device__ inline bool is_whole(ptrdiff_t first) const {
    return first >= 0 && first + SIZE <= elements;
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
    (stage_input<V, PACKS>(inputs, plan.steps[K] != 0, first, elements, whole,
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
      wait_for_copies((Tile::STAGES - Tile::AHEAD) / WAVE_TEAMS - 1);
    __syncwarp();
  }
  // Wait until a slot whose outputs are written can be filled again.
  __device__ inline void wait_for_slot() const {
    if (bulk && lane == 0) wait_for_bulk();
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
    each_pack(tile, slot, [&](const auto&, const Rows&, int, unsigned int, unsigned int begins,
                              Acc (&value)[V]) {
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
    each_pack(tile, slot, [&](const auto& way, const Rows& rows, int p, unsigned int which,
                              unsigned int begins, Acc (&value)[V]) {
#pragma unroll
      for (int j = 0; j < V; ++j) {
        const Acc prior = run;
        run = begins >> j & 1 ? value[j] : op._reduce(prior, value[j]);
        value[j] = way.exclusive() ? prior : run;
      }
      turn(value, way.reversed());
      const Places places(rows, item(p), way.reversed());
      const unsigned int there = in_memory(way, which);
      const unsigned int first = way.exclusive() ? in_memory(way, begins) : 0;
      OutputPack<V, Numbers<L...>, Outputs...> pack;
#pragma unroll
      for (int j = 0; j < V; ++j) {
        if (!(there >> j & 1)) continue;
        const Place& at = places.at[j];
        counted(op, at.column + !way.exclusive())
            ._post(first >> j & 1 ? op._identity() : op._initial(value[j]),
                   InPack<decltype(pack), sizeof...(K)>{pack, j}, row(way, at));
      }
      pack.stage([&](int l) {
        return slot + SIZE * place_of_output<In, Out>(l) + memory_item(way, p) * Out::of(l);
      });
    }, inputs...);
  }

 private:
  template <int N, class Output>
  __device__ inline void store_output(ptrdiff_t first, bool whole, const unsigned char* slot,
                                      const Output& output) const {
    typedef typename Output::type T;
    const T* const from = reinterpret_cast<const T*>(slot + SIZE * place_of_output<In, Out>(N));
    T* const to = output.data + first;
    if (whole) {
      typedef typename Word<sizeof(T) * V>::type Access;
#pragma unroll
      for (int p = 0; p < PACKS; ++p)
        __stcs(reinterpret_cast<Access*>(to + moved_item(p)),
               *reinterpret_cast<const Access*>(from + moved_item(p)));
      return;
    }
#pragma unroll 1
    for (int p = 0; p < PACKS; ++p) {
#pragma unroll 1
      for (int j = moved_item(p); j < moved_item(p) + V; ++j)
        if (first + j >= 0 && first + j < elements) to[j] = from[j];
    }
  }

  // A pack of the thread's: number p in the order of the scan, whose elements are from `item` on in
  // that order, and from `memory_item` on in memory.
  __device__ inline int item(int p) const {
    return ((int)threadIdx.x % WAVE_TEAM * PACKS + p) * V;
  }
  template <class Way> __device__ inline int memory_item(const Way& way, int p) const {
    return way.reversed() ? SIZE - V - item(p) : item(p);
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
  template <class Way> __device__ inline ptrdiff_t row(const Way& way, const Place& at) const {
    return way.reversed() ? plan.outputs - 1 - at.row : at.row;
  }
  template <class Way> __device__ inline unsigned int in_memory(const Way& way, unsigned int bits) const {
    return way.reversed() ? __brev(bits) >> (32 - V) : bits;
  }
  // The elements of a pack, mapped, in the order of the scan; those that `which` has no bit for are
  // anything.
  template <class Way>
  __device__ inline void map(Acc (&value)[V], const Way& way, const Rows& rows, int p,
                             unsigned int which, const unsigned char* slot,
                             const Inputs&... inputs) const {
    Batch<V, Numbers<K...>, Inputs...> batch;
    batch.load_packed(
        [&](int k) {
          const unsigned char* operand = slot + SIZE * place_of_input<In>(k);
          return StagedAccessor{operand + memory_item(way, p) * In::of(k)};
        },
        inputs...);
    const Places places(rows, item(p), way.reversed());
    const unsigned int there = in_memory(way, which);
#pragma unroll
    for (int j = 0; j < V; ++j) {
      const Place& at = places.at[j];
      const ptrdiff_t place = way.reversed() ? plan.length - 1 - at.column : at.column;
      if (there >> j & 1) value[j] = batch.map(op, j, place, row(way, at));
    }
    turn(value, way.reversed());
  }
  // Call `each(way, rows, p, which, begins, value)` for the thread's packs in the order of the scan:
  // with bits for the elements that exist, and for those with which a row begins, as which those count
  // that do not exist.
  template <class Each>
  __device__ inline void each_pack(ptrdiff_t tile, const unsigned char* slot, const Each& each,
                                   const Inputs&... inputs) const {
    const ptrdiff_t first = begin(tile);
    const Rows rows(plan, first, SIZE);
    const WayOfScan<false, Plan> any{plan};
    const WayOfScan<true, Plan> plain{plan};
    if (plan.exclusive || plan.reversed) {
      if (is_whole(first) && begins_none(rows))
        each_pack<0, false>(any, rows, first, slot, each, inputs...);
      else
        each_pack<V, true>(any, rows, first, slot, each, inputs...);
    } else if (!is_whole(first)) {
      each_pack<V, true>(any, rows, first, slot, each, inputs...);
    } else if (begins_none(rows)) {
      each_pack<0, false>(plain, rows, first, slot, each, inputs...);
    } else if (rows.first.column % V == 0 && plan.length % V == 0) {
      each_pack<1, false>(plain, rows, first, slot, each, inputs...);
    } else {
      each_pack<V, false>(plain, rows, first, slot, each, inputs...);
    }
  }
  __device__ inline bool begins_none(const Rows& rows) const {
    return rows.long_rows && rows.begin == SIZE;
  }
  // Rows may begin with the first BEGINS elements of a pack. MISSING: some may not exist.
  template <int BEGINS, bool MISSING, class Way, class Each>
  __device__ inline void each_pack(const Way& way, const Rows& rows, ptrdiff_t first,
                                   const unsigned char* slot, const Each& each,
                                   const Inputs&... inputs) const {
    // Code for all packs is worth it where they are small, and outputs have no division.
    enum { UNROLLED = Way::IS_PLAIN && V <= 8 && !Op::_COUNTED };
    const int low = MISSING ? item_of(0, first, SIZE) : 0;
    const int high = MISSING ? item_of(elements, first, SIZE) : SIZE;
    Begins edges(rows, item(0));
#pragma unroll(UNROLLED ? PACKS : 1)
    for (int p = 0; p < PACKS; ++p) {
      const unsigned int which = MISSING ? bits_within<V>(item(p), low, high) : ALL;
      const unsigned int begins =
          BEGINS ? (edges.next(p) & (1u << (BEGINS - 1) << 1) - 1u) | (which ^ ALL) : 0;
      Acc value[V];
      map(value, way, rows, p, which, slot, inputs...);
      each(way, rows, p, which, begins, value);
    }
  }
};

// What the tiles of waves make, as the blocks say it.
template <class Op> struct Waves {
  typedef typename Op::_Acc Acc;
  typedef Message<Acc> Text;
  typedef typename Text::Word Word;
  enum {
    EACH = 5,           // messages that a lane joins
    HEARD = 32 * EACH,  // blocks, at most
    WORDS = Text::WORDS
  };
  // Their messages, in shared memory, and a bit for each word of those in which a row begins.
  struct Heard {
    unsigned int bits[HEARD * WORDS], begun[EACH * WORDS + 1];
  };

  const Op& op;
  Word* words;
  Heard* const heard;
  ptrdiff_t tiles;
  int number;  // of this block, in each wave
  unsigned int launch;
  Carry<Acc> base;          // what all waves before make
  Word word[EACH * WORDS];  // that the lane has asked for

  template <class Plan>
  __device__ inline Waves(const Op& op, const Plan& plan, const Ticket& mine, Heard* heard)
      : op(op), words(static_cast<Word*>(plan.carries)), heard(heard), tiles(plan.tiles),
        number((int)mine.number), launch(mine.launch) {
    base.state = NOTHING;
  }
  __device__ inline ptrdiff_t tile(int wave) const { return (ptrdiff_t)wave * gridDim.x + number; }
  __device__ inline void say(int wave, const Carry<Acc>& whole) const {
    Text::write(whole, launch, words + tile(wave) * WORDS, 1);
  }
  // Begin to read what the tiles of a wave say, if there is one.
  __device__ inline void ask(int wave) {
    const int count = tiles_of(wave) * WORDS;
#pragma unroll
    for (int k = 0; k < EACH * WORDS; ++k) {
      word[k] = Text::word_of(OPEN, launch, 0);  // where there is no tile
      if (lane(k) < count) word[k] = said(wave)[lane(k)];
    }
  }
  // Wait until the next wave has said all. What is before this block's tile goes to `front`. A warp
  // comes here.
  __device__ inline void listen(int wave, Carry<Acc>* front) {
    hear(wave);
    const int own = threadIdx.x % 32, count = tiles_of(wave), last = (count - 1) / EACH;
    const int rest = count - own * EACH, mine = number - own * EACH, bit = own * EACH * WORDS;
    const unsigned int begins =
        __funnelshift_r(heard->begun[bit / 32], heard->begun[bit / 32 + 1], bit % 32);
    Carry<Acc> some, before;
    some.state = before.state = NOTHING;
#pragma unroll
    for (int e = 0; e < EACH; ++e) {
      if (e == mine) before = some;
      if (e >= rest) continue;
      const Acc next = Text::value(heard->bits + (own * EACH + e) * WORDS);
      const bool begun = begins >> e * WORDS & 1;
      some.value = e == 0 || begun ? next : op._reduce(some.value, next);
      some.state = begun || (e && some.state == BEGUN) ? BEGUN : OPEN;
    }
    // Lanes without messages have nothing to join.
    const unsigned int begun = __ballot_sync(0xffffffffu, some.state != OPEN);
    some.value = up_to_lane<32>(op, some.value, begun);
    const Carry<Acc> earlier{shuffle_up(some.value, 1), state_of_first(own, begun)};
    if (0 <= mine && mine < EACH) {
      before.follow(op, earlier);
      before.follow(op, base);
      *front = before;
    }
    Carry<Acc> whole{shuffle_from(some.value, last), state_of_first(last + 1, begun)};
    whole.follow(op, base);
    base = whole;
    ask(wave + 1);
  }

 private:
  __device__ inline int tiles_of(int wave) const {
    const ptrdiff_t left = tiles - (ptrdiff_t)wave * gridDim.x;
    return left < 0 ? 0 : left < gridDim.x ? (int)left : (int)gridDim.x;
  }
  __device__ inline const volatile Word* said(int wave) const {
    return words + (ptrdiff_t)wave * gridDim.x * WORDS;
  }
  // Neighbouring lanes read neighbours: all blocks read the same few lines at about the same time.
  __device__ static inline int lane(int k) { return k * 32 + (int)threadIdx.x % 32; }
  // Wait for all that has been asked for, and keep it.
  __device__ inline void hear(int wave) {
    for (bool waits = true; __any_sync(0xffffffffu, waits);) {
      waits = false;
#pragma unroll
      for (int k = 0; k < EACH * WORDS; ++k) {
        const bool written = Text::is_written(word[k], launch);
        if (!written) word[k] = said(wave)[lane(k)];
        waits = waits || !written;
      }
    }
#pragma unroll
    for (int k = 0; k < EACH * WORDS; ++k) {
      const unsigned int begun = __ballot_sync(0xffffffffu, Text::state(word[k], launch) == BEGUN);
      heard->bits[lane(k)] = (unsigned int)word[k];
      if (threadIdx.x % 32 == 0) heard->begun[k] = begun;
    }
    __syncwarp();
  }
};

// Scan with threads that load tiles, find what their own elements make, and finish them.
template <class Thread, class Op, class Plan, class Load, class Total, class Finish>
__device__ inline void scan_waves(const Op& op, const Plan& plan, const Thread& thread,
                                  const Load& load, const Total& total, const Finish& finish) {
  typedef typename Op::_Acc Acc;
  enum {
    AHEAD = Thread::Tile::AHEAD,
    STAGES = Thread::Tile::STAGES,
    WARPS = Thread::WARPS,
    KEPT = AHEAD / WAVE_TEAMS
  };
  // What warps have found, and what is before tiles: one is written while another is read.
  __shared__ __align__(16) unsigned char memory[2 * (WARPS + 1) * sizeof(Carry<Acc>)];
  __shared__ Arrival arrivals[STAGES][WARPS];
  for (int k = threadIdx.x; k < STAGES * WARPS; k += blockDim.x)
    arrivals[k / WARPS][k % WARPS].init();
  __shared__ typename Waves<Op>::Heard heard;
  Waves<Op> waves(op, plan, take_tile(plan), &heard);
  __syncthreads();
  const int lane = thread.lane, warp = thread.warp, team = threadIdx.x / WAVE_TEAM;
  const int blocks = gridDim.x;
  const int count = (int)((plan.tiles - waves.number + blocks - 1) / blocks);
  const auto found = [&](int k) {
    return reinterpret_cast<Carry<Acc>*>(memory) + k % 2 * (WARPS + 1);
  };
  const auto load_or_not = [&](int k) {
    if (k < count)
      load(waves.tile(k), k % STAGES, arrivals[k % STAGES][warp]);
    else
      commit_copies();
  };
  const bool listens = team == WAVE_TEAMS;  // the last warp
  if (listens) waves.ask(0);
  for (int k = listens ? STAGES : team; k < STAGES; k += WAVE_TEAMS) load_or_not(k);
  Carry<Acc> own[KEPT + 1];  // what is before the thread's elements in a tile, newest first
  for (int k = 0; k <= count + AHEAD; ++k) {
    const int j = k - AHEAD;
    if (listens) {
      if (0 <= j && j < count) waves.listen(j, found(j) + WARPS);
    } else if (team == k % WAVE_TEAMS) {
      thread.wait_for_slot();
      load_or_not(j >= WAVE_TEAMS ? j - WAVE_TEAMS + STAGES : count);
      if (k < count) {
        thread.wait(arrivals[k % STAGES][warp], k / STAGES % 2);
        Carry<Acc> whole = total(waves.tile(k), k % STAGES);
        const unsigned int begun = __ballot_sync(0xffffffffu, whole.state == BEGUN);
        whole.value = up_to_lane<32>(op, whole.value, begun);
        own[0].value = shuffle_up(whole.value, 1);
        own[0].state = state_of_first(lane, begun);
        whole.state = state_of_first(32, begun);
        if (lane == 31) found(k)[warp] = whole;
      }
    } else {
      if (0 < k && k <= count) {
        Carry<Acc> part = found(k - 1)[lane % WARPS];
        const unsigned int begun = __ballot_sync(0xffffffffu, part.state == BEGUN);
        part.value = up_to_lane<WARPS>(op, part.value, begun);
        Carry<Acc> before;
        before.value = shuffle_from(part.value, warp ? warp - 1 : 0);
        before.state = state_of_first(warp, begun);
        own[0].follow(op, before);
        if (warp == 0 && lane == WARPS - 1) {
          part.state = state_of_first(WARPS, begun);
          waves.say(k - 1, part);
        }
      }
      if (0 < j) {
        Carry<Acc> before = own[KEPT];
        before.follow(op, found(j - 1)[WARPS]);
        finish(waves.tile(j - 1), (j - 1) % STAGES, before);
      }
#pragma unroll
      for (int a = KEPT; a > 0; --a) own[a] = own[a - 1];
    }
    __syncthreads();
  }
  if (!listens && thread.bulk && lane == 0) finish_bulk();
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
