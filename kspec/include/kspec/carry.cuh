// What crosses from some elements to those that follow them: inside a block, and between blocks.
//
// Elements are in tiles, each of which needs what all tiles before it make. As in decoupled
// look-back (Merrill and Garland, "Single-pass parallel prefix scan with decoupled look-back", 2016)
// a tile says what its own elements make as soon as it knows, and reads what others have said. But
// each reads the same values whatever is ready first, so equal calls give equal bits: those of the
// tiles before it in its group, and what all before the group make, which the last tile of the group
// before says. Only these last tiles wait for each other in a chain.
#pragma once

#include "kspec/shuffle.cuh"

namespace kspec {

// What some neighbouring elements make in their order: nothing, one value, or, where a row begins
// among them, the value from there on.
enum CarryState { NOTHING = 0, OPEN = 1, BEGUN = 2 };

template <class Acc> struct Carry {
  Acc value;
  int state;

  // Put what is before these elements in front.
  template <class Op> __device__ inline void follow(const Op& op, const Carry& before) {
    if (state == BEGUN || before.state == NOTHING) return;
    value = state == NOTHING ? before.value : op._reduce(before.value, value);
    state = before.state;
  }
};

// What the carries of the lanes up to this one make, in their order, of the first LANES lanes.
template <int LANES, class Op, class Acc>
__device__ inline Carry<Acc> up_to_lane(const Op& op, Carry<Acc> some) {
#pragma unroll 1
  for (int by = 1; by < LANES; by *= 2) {
    const Carry<Acc> other = shuffle_up(some, by);
    if ((int)(threadIdx.x % 32) >= by) some.follow(op, other);
  }
  return some;
}

// What the lanes up to this one make, given a bit for each lane in which a row begins.
template <int LANES, class Op, class Acc>
__device__ inline Acc up_to_lane(const Op& op, Acc own, unsigned int begun) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int by = 1; by < LANES; by *= 2) {
    const Acc other = shuffle_up(own, by);
    // No row begins in the `by` lanes that end here.
    if (lane >= by && begun << (31 - lane) >> (32 - by) == 0) own = op._reduce(other, own);
  }
  return own;
}
// The state of what the first `count` of these lanes make.
__device__ inline int state_of_first(int count, unsigned int begun) {
  if (count == 0) return NOTHING;
  return begun << (32 - count) ? BEGUN : OPEN;
}

// A carry in memory. Each 32 bits travel in one 64-bit access with the state and the number of the
// launch: a reader of one has the others, and takes nothing from an earlier launch.
template <class Acc> struct Message {
  typedef unsigned long long Word;
  enum { WORDS = (sizeof(Acc) + 3) / 4 };

  Word word[WORDS];

  __device__ inline void read(const Word* from, int step) {
#pragma unroll
    for (int k = 0; k < WORDS; ++k) word[k] = static_cast<const volatile Word*>(from)[k * step];
  }
  __device__ inline bool is_complete(unsigned int launch) const {
    bool complete = true;
#pragma unroll
    for (int k = 0; k < WORDS; ++k) complete = complete && is_written(word[k], launch);
    return complete;
  }
  __device__ static inline bool is_written(Word word, unsigned int launch) {
    return state(word, launch) - 1u < 2u;
  }
  __device__ inline Carry<Acc> carry(unsigned int launch) const {
    unsigned int bits[WORDS];
#pragma unroll
    for (int k = 0; k < WORDS; ++k) bits[k] = (unsigned int)word[k];
    return Carry<Acc>{value(bits), (int)state(word[0], launch)};
  }
  __device__ static inline void write(const Carry<Acc>& carry, unsigned int launch, Word* to,
                                      int step) {
    unsigned int bits[WORDS];
    bits[WORDS - 1] = 0;
    memcpy(bits, &carry.value, sizeof(Acc));
#pragma unroll
    for (int k = 0; k < WORDS; ++k)
      static_cast<volatile Word*>(to)[k * step] = word_of(carry.state, launch, bits[k]);
  }
  __device__ static inline Word word_of(int state, unsigned int launch, unsigned int bits) {
    return (Word)(launch << 2 ^ (unsigned int)state) << 32 | bits;
  }
  __device__ static inline Acc value(const unsigned int* bits) {
    Acc value;
    memcpy(&value, bits, sizeof(Acc));
    return value;
  }
  // NOTHING, or anything above BEGUN, if nothing was written in this launch.
  __device__ static inline unsigned int state(Word word, unsigned int launch) {
    return (unsigned int)(word >> 32) ^ launch << 2;
  }
};

// A block's tile: tiles begin in the order of their numbers, so none waits for one that cannot run.
struct Ticket {
  ptrdiff_t number;
  unsigned int launch;  // launches before this one, with the same memory
};
// The memory for it is zero at first; the block that takes the last tile makes it ready for the next
// launch.
template <class Plan> __device__ inline Ticket take_tile(const Plan& plan) {
  __shared__ unsigned long long taken;
  if (plan.tiles == 1) return Ticket{(ptrdiff_t)blockIdx.x, 0};
  if (threadIdx.x == 0) {
    taken = atomicAdd(plan.tickets, 1ull);
    if ((unsigned int)taken == gridDim.x - 1) atomicAdd(plan.tickets, (1ull << 32) - gridDim.x);
  }
  __syncthreads();
  return Ticket{(ptrdiff_t)(unsigned int)taken, (unsigned int)(taken >> 32)};
}

// The carries of a launch. A chain is tiles that follow each other; COLUMNS chains lie side by side
// in the same tiles, and there are `chains` such sets of tiles. Each set has the messages of its
// tiles, then what is before each group of tiles. READERS read the messages of a group together,
// each some that follow each other. All memory is zero before the first launch.
template <class Acc, int READERS, int COLUMNS> struct LookBack {
  typedef Message<Acc> Text;
  typedef typename Text::Word Word;
  // kspec/runtime/schedules/scan_schedule.py agrees.
  enum { EACH = Text::WORDS > 4 ? 1 : Text::WORDS > 2 ? 2 : 4 };
  enum { GROUP = READERS * EACH };

  Word* words;  // [tile or group][word][column]
  ptrdiff_t tiles;
  unsigned int launch;

  template <class Plan>
  __device__ inline LookBack(const Plan& plan, ptrdiff_t chain, unsigned int launch)
      : words(static_cast<Word*>(plan.carries) +
              chain * (plan.tiles + plan.groups) * COLUMNS * Text::WORDS),
        tiles(plan.tiles),
        launch(launch) {}

  // Say what a tile makes, and what is before the next group if it is the last of its own, if
  // `says`; return what all tiles before it make. `join(carry)` is what the carries of all readers
  // make in their order; all threads of the tile that need it come here together.
  template <class Op, class Join>
  __device__ inline Carry<Acc> exchange(const Op& op, ptrdiff_t tile, int reader, int column,
                                        bool says, const Carry<Acc>& own, const Join& join) const {
    const ptrdiff_t group = tile / GROUP, first = group * GROUP + reader * EACH;
    const int count = tile < first ? 0 : tile - first < EACH ? (int)(tile - first) : EACH;
    if (says) Text::write(own, launch, at(tile, column), COLUMNS);
    Text found[EACH], past;
#pragma unroll
    for (int k = 0; k < EACH; ++k)
      if (k < count) found[k].read(at(first + k, column), COLUMNS);
    if (group) past.read(at(tiles + group, column), COLUMNS);
    for (bool waits = true; waits;) {
      waits = false;
#pragma unroll
      for (int k = 0; k < EACH; ++k) {
        if (k >= count || found[k].is_complete(launch)) continue;
        found[k].read(at(first + k, column), COLUMNS);
        waits = true;
      }
    }
    Carry<Acc> some;
    some.state = NOTHING;
#pragma unroll
    for (int k = 0; k < EACH; ++k) {
      if (k >= count) continue;
      Carry<Acc> next = found[k].carry(launch);
      next.follow(op, some);
      some = next;
    }
    Carry<Acc> before = join(some);
    if (group && before.state != BEGUN) {
      while (!past.is_complete(launch)) past.read(at(tiles + group, column), COLUMNS);
      before.follow(op, past.carry(launch));
    }
    if (says && tile % GROUP == GROUP - 1 && tile + 1 < tiles) {
      Carry<Acc> whole = own;
      whole.follow(op, before);
      Text::write(whole, launch, at(tiles + group + 1, column), COLUMNS);
    }
    return before;
  }

 private:
  __device__ inline Word* at(ptrdiff_t entry, int column) const {
    return words + entry * (COLUMNS * Text::WORDS) + column;
  }
};

}  // namespace kspec
