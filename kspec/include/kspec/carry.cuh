// What crosses from some elements to those that follow them: inside a block, and between blocks.
//
// Elements are in tiles, each of which needs what all tiles before it make. As in decoupled
// look-back (Merrill and Garland, "Single-pass parallel prefix scan with decoupled look-back", 2016)
// a tile says what its own elements make as soon as it knows, and reads what others have said. But
// each reads the same values whatever is ready first, so equal calls give equal bits: 32 tiles are
// a group, 32 groups are one again, and so on, and the last tile of a group says what the group
// makes. So nobody waits for a chain: a tile reads at most 31 values of each level.
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

// The carries of a launch. A chain is tiles that follow each other; `columns` chains lie side by side
// in the same tiles, and there are `chains` such sets of tiles. Each set has the entries of its tiles,
// then those of its groups, and so on, and a counter for each group. All is zero before a launch and
// after it. Each 32 bits of a carry travel with its state in one 64-bit access: whoever sees one sees
// the other.
template <class Acc> struct LookBack {
  enum { WORDS = (sizeof(Acc) + 3) / 4, GROUP = 32 };
  typedef unsigned long long Word;

  unsigned int* counters;  // tiles that have begun, sets that have ended, then those of the groups
  Word* words;             // [entry][column][word]
  unsigned int* groups;    // counters of this set of tiles
  ptrdiff_t tiles;
  int columns;
  int chains;

  template <class Plan>
  __device__ inline LookBack(const Plan& plan, ptrdiff_t chain, int columns)
      : counters(plan.counters),
        words(static_cast<Word*>(plan.carries) + chain * plan.entries * columns * WORDS),
        groups(plan.counters + 2 + chain * plan.groups),
        tiles(plan.tiles),
        columns(columns),
        chains(plan.chains) {}

  __device__ inline Word* at(ptrdiff_t entry, int column) const {
    return words + (entry * columns + column) * WORDS;
  }
  __device__ inline void publish(ptrdiff_t entry, int column, const Carry<Acc>& carry) const {
    unsigned int bits[WORDS];
    bits[WORDS - 1] = 0;
    memcpy(bits, &carry.value, sizeof(Acc));
    volatile Word* to = at(entry, column);
#pragma unroll
    for (int k = 0; k < WORDS; ++k) to[k] = (Word)carry.state << 32 | bits[k];
  }
  // Wait for a carry.
  __device__ inline Carry<Acc> read(ptrdiff_t entry, int column) const {
    const volatile Word* from = at(entry, column);
    unsigned int bits[WORDS];
    Carry<Acc> carry;
    for (;;) {
      carry.state = BEGUN;
#pragma unroll
      for (int k = 0; k < WORDS; ++k) {
        const Word word = from[k];
        bits[k] = (unsigned int)word;
        if ((int)(word >> 32) < carry.state) carry.state = (int)(word >> 32);
      }
      if (carry.state != NOTHING) break;
    }
    memcpy(&carry.value, bits, sizeof(Acc));
    return carry;
  }

  // Say what a tile makes, and what the groups make whose last tile it is, if `says`, and return what
  // all tiles before it make. `fold(entry, count)` is what `count` < 32 entries make in their order;
  // all threads of the tile that need it come here together.
  template <class Op, class Fold>
  __device__ inline Carry<Acc> exchange(const Op& op, ptrdiff_t tile, int column, bool says,
                                        const Carry<Acc>& own, const Fold& fold) const {
    Carry<Acc> before;
    before.state = NOTHING;
    ptrdiff_t base = 0, count = tiles, index = tile;
#pragma unroll 1
    for (bool last = true;;) {
      if (last && says) {
        Carry<Acc> whole = own;
        whole.follow(op, before);
        publish(base + index, column, whole);
      }
      const int inside = (int)(index % GROUP);
      if (inside && before.state != BEGUN) before.follow(op, fold(base + index - inside, inside));
      last = last && inside == GROUP - 1;
      if (count <= GROUP) return before;
      base += count;
      count = (count + GROUP - 1) / GROUP;
      index /= GROUP;
    }
  }

  // One warp says that its tile has read all it needs. The last tile of a group makes its carries
  // zero again, the last of these groups theirs, and so on: ready for the next launch.
  __device__ inline void leave(ptrdiff_t tile) const {
    const int lane = threadIdx.x % 32;
    unsigned int* counter = groups;
    ptrdiff_t base = 0, count = tiles, index = tile;
    __syncwarp();
    __threadfence();
#pragma unroll 1
    for (;;) {
      const ptrdiff_t group = index / GROUP, first = group * GROUP;
      const int members = (int)(count - first < GROUP ? count - first : GROUP);
      if (!is_last(counter + group, members)) return;
      Word* to = at(base + first, 0);
      for (int k = lane; k < members * columns * WORDS; k += 32) to[k] = 0;
      if (count <= GROUP) break;
      base += count;
      count = (count + GROUP - 1) / GROUP;
      counter += count;
      index = group;
    }
    if (is_last(counters + 1, chains) && lane == 0) counters[0] = 0;
  }

 private:
  // Whether a warp is the last of so many to arrive; the counter is zero again then.
  __device__ static inline bool is_last(unsigned int* counter, int members) {
    bool last = false;
    if (threadIdx.x % 32 == 0) {
      last = atomicAdd(counter, 1u) == (unsigned int)members - 1u;
      if (last) *counter = 0;
    }
    last = __any_sync(0xffffffffu, last);
    if (last) __threadfence();
    return last;
  }
};

// The number of this block's tile: tiles begin in their order, so none waits for one that cannot run.
template <class Plan> __device__ inline ptrdiff_t take_tile(const Plan& plan) {
  __shared__ unsigned int number;
  if (plan.tiles == 1) return blockIdx.x;
  if (threadIdx.x == 0) number = atomicAdd(plan.counters, 1u);
  __syncthreads();
  return number;
}

}  // namespace kspec
