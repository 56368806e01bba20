// Reductions by key whose accumulators are updated by all threads, in any order: atomically, by an
// operation of the hardware if there is one. Of those with one blocks have as many as fit in shared
// memory, if there are enough elements for each.
#pragma once

#include "kspec/keyed.cuh"

namespace kspec {

// kspec/runtime/schedules/key_schedule.py agrees.
template <int AXES, class Acc> struct MaxThreads<KeyCells<AXES>, Acc> {
  enum { value = sizeof(Acc) <= 8 ? 768 : 256 };
};
template <int AXES, class Acc, class... Inputs> struct MinBlocks<KeyCells<AXES>, Acc, Inputs...> {
  enum { value = 1 };
};

// Add to a number in global memory. The compiler lets an atomicAdd beside fences return what was there,
// which takes half as long again.
#ifdef __CUDA_ARCH__
#define KSPEC_ADD_IN_MEMORY(TYPE, SUFFIX, CONSTRAINT)                        \
  __device__ inline void add_in_memory(TYPE* at, TYPE by) {                  \
    asm volatile("red.relaxed.gpu.global.add." SUFFIX " [%0], %1;"           \
                 ::"l"(__cvta_generic_to_global(at)), CONSTRAINT(by));       \
  }
KSPEC_ADD_IN_MEMORY(float, "f32", "f")
KSPEC_ADD_IN_MEMORY(double, "f64", "d")
KSPEC_ADD_IN_MEMORY(unsigned int, "u32", "r")
KSPEC_ADD_IN_MEMORY(unsigned long long, "u64", "l")
#undef KSPEC_ADD_IN_MEMORY
#else
template <class Number> __device__ inline void add_in_memory(Number* at, Number by) {
  atomicAdd(at, by);
}
#endif

// Atomic operations of numbers. A type and an operation without any has `value` 0. key_schedule.py
// agrees.
template <class Acc, int JOIN> struct AtomicJoin { enum { value = 0 }; };

// The whole numbers as the hardware takes them, and their largest and smallest values.
template <class Acc> struct WholeNumber;
template <> struct WholeNumber<int> {
  typedef unsigned int Word;
  __device__ static inline int least() { return (int)0x80000000u; }
};
template <> struct WholeNumber<unsigned int> {
  typedef unsigned int Word;
  __device__ static inline unsigned int least() { return 0; }
};
template <> struct WholeNumber<long long> {
  typedef unsigned long long Word;
  __device__ static inline long long least() { return (long long)0x8000000000000000ull; }
};
template <> struct WholeNumber<unsigned long long> {
  typedef unsigned long long Word;
  __device__ static inline unsigned long long least() { return 0; }
};
template <class Acc, int JOIN> struct AtomicNumber {
  typedef WholeNumber<Acc> Number;
  typedef typename Number::Word Word;
  enum { value = 1 };

  // What changes no other value.
  __device__ static inline Acc neutral() {
    if constexpr (JOIN == LARGEST) return Number::least();
    if constexpr (JOIN == LEAST) return (Acc)~(Word)Number::least();
    if constexpr (JOIN == ALL_BITS) return (Acc)~(Word)0;
    return 0;
  }
  __device__ static inline void update(Acc* at, Acc by) {
    Word* word = reinterpret_cast<Word*>(at);
    if constexpr (JOIN == SUM) atomicAdd(word, (Word)by);
    if constexpr (JOIN == LEAST) atomicMin(at, by);
    if constexpr (JOIN == LARGEST) atomicMax(at, by);
    if constexpr (JOIN == ALL_BITS) atomicAnd(word, (Word)by);
    if constexpr (JOIN == ANY_BIT) atomicOr(word, (Word)by);
    if constexpr (JOIN == ODD_BITS) atomicXor(word, (Word)by);
  }
  __device__ static inline void update_in_memory(Acc* at, Acc by) {
    if constexpr (JOIN == SUM)
      add_in_memory(reinterpret_cast<Word*>(at), (Word)by);
    else
      update(at, by);
  }
};
#define KSPEC_ATOMIC(TYPE, JOIN) \
  template <> struct AtomicJoin<TYPE, JOIN> : AtomicNumber<TYPE, JOIN> {};
#define KSPEC_ATOMICS(TYPE)    \
  KSPEC_ATOMIC(TYPE, SUM)      \
  KSPEC_ATOMIC(TYPE, LEAST)    \
  KSPEC_ATOMIC(TYPE, LARGEST)  \
  KSPEC_ATOMIC(TYPE, ALL_BITS) \
  KSPEC_ATOMIC(TYPE, ANY_BIT)  \
  KSPEC_ATOMIC(TYPE, ODD_BITS)
KSPEC_ATOMICS(int)
KSPEC_ATOMICS(unsigned int)
KSPEC_ATOMICS(long long)
KSPEC_ATOMICS(unsigned long long)
#undef KSPEC_ATOMICS
#undef KSPEC_ATOMIC
template <class Real> struct AtomicReal {
  enum { value = 1 };
  __device__ static inline Real neutral() { return 0; }
  __device__ static inline void update(Real* at, Real by) { atomicAdd(at, by); }
  __device__ static inline void update_in_memory(Real* at, Real by) { add_in_memory(at, by); }
};
template <> struct AtomicJoin<float, SUM> : AtomicReal<float> {};
template <> struct AtomicJoin<double, SUM> : AtomicReal<double> {};

// Accumulators in global memory. Without an atomic operation each has a state.
template <class Op> struct Cells {
  typedef typename Op::_Acc Acc;
  typedef AtomicJoin<Acc, Op::_JOINS> Atomic;
  enum { EMPTY, BUSY, FULL };
  // Accumulators that are swapped as a word.
  enum { IS_WORD = sizeof(Acc) <= 8 };
  template <bool WIDE, class Unused> struct WordOf { typedef unsigned int type; };
  template <class Unused> struct WordOf<true, Unused> { typedef unsigned long long type; };
  typedef typename WordOf<(sizeof(Acc) > 4), void>::type Word;
  template <bool WORD, class Unused> struct StoredAs { typedef Acc type; };
  template <class Unused> struct StoredAs<true, Unused> { typedef Word type; };
  typedef typename StoredAs<!Atomic::value && IS_WORD, void>::type Stored;

  const Op& op;
  Stored* stored;
  unsigned int* states;
  unsigned long long* counts;

  template <class Plan>
  __device__ inline Cells(const Op& op, const Plan& plan)
      : op(op), stored(static_cast<Stored*>(plan.cells)), states(plan.states), counts(plan.counts) {}

  __device__ inline void clear(ptrdiff_t slot) const {
    if constexpr (Atomic::value)
      stored[slot] = Atomic::neutral();
    else
      states[slot] = EMPTY;
    if constexpr (Op::_COUNTED) counts[slot] = 0;
  }
  __device__ inline void update(ptrdiff_t slot, const Acc& by, unsigned int elements) const {
    if constexpr (Op::_COUNTED) add_in_memory(counts + slot, (unsigned long long)elements);
    if constexpr (Atomic::value) {
      Atomic::update_in_memory(stored + slot, by);
    } else if constexpr (IS_WORD) {
      swap_in(slot, by);
    } else {
      // No thread waits inside of what others of its warp wait for.
      volatile unsigned int* state = states + slot;
      for (bool waits = true; waits;) {
        const unsigned int seen = *state;
        if (seen == BUSY || atomicCAS(states + slot, seen, (unsigned int)BUSY) != seen) {
          __nanosleep(20);
          continue;
        }
        __threadfence();
        stored[slot] = seen == FULL ? op._reduce(stored[slot], by) : by;
        __threadfence();
        atomicExch(states + slot, (unsigned int)FULL);
        waits = false;
      }
    }
  }
  template <class Plan> __device__ inline void post(const Plan& plan, ptrdiff_t slot) const {
    const bool any = Atomic::value || states[slot] == FULL;
    const ptrdiff_t elements = Op::_COUNTED ? (ptrdiff_t)counts[slot] : 0;
    Acc total = Acc();
    if (any) memcpy(&total, stored + slot, sizeof(Acc));
    post_slot(op, plan, slot, total, elements, any);
  }

 private:
  __device__ static inline Word word_of(const Acc& value) {
    Word word = 0;
    memcpy(&word, &value, sizeof(Acc));
    return word;
  }
  __device__ inline void swap_in(ptrdiff_t slot, const Acc& by) const {
    volatile unsigned int* state = states + slot;
    while (*state != FULL) {
      if (*state == BUSY || atomicCAS(states + slot, (unsigned int)EMPTY, (unsigned int)BUSY) != EMPTY) {
        __nanosleep(20);
        continue;
      }
      atomicExch(stored + slot, word_of(by));
      __threadfence();
      atomicExch(states + slot, (unsigned int)FULL);
      return;
    }
    Word seen = static_cast<const volatile Word*>(stored)[slot];
    for (;;) {
      Acc old;
      memcpy(&old, &seen, sizeof(Acc));
      const Word wanted = word_of(op._reduce(old, by));
      // Another thread may have made it as large, or as small.
      const Word found = wanted == seen ? seen : atomicCAS(stored + slot, seen, wanted);
      if (found == seen) return;
      seen = found;
    }
  }
};

// Elements of a thread that follow each other and have the same output are joined first.
template <class Op> struct SameSlot {
  typename Op::_Acc value;
  ptrdiff_t slot;
  unsigned int count;

  template <class Put>
  __device__ inline void add(const Op& op, ptrdiff_t next, const typename Op::_Acc& by, const Put& put) {
    if (next == slot) {
      value = op._reduce(value, by);
      ++count;
      return;
    }
    if (slot >= 0) put(slot, value, count);
    slot = next;
    value = by;
    count = 1;
  }
};

// Call `put(slot, value, elements)` for the elements of a stretch, of which those of one thread that
// follow each other may have been joined.
template <class Op, int AXES, int I, int O, class Put>
__device__ inline void put_stretch(const Op& op, const KeyPlan<AXES, I, O>& plan,
                                   const Stretch& stretch, const Put& put) {
  enum { N = sizeof(typename Op::_Acc) == 8 ? 4 : InFlight<typename Op::_Acc>::value };
  SameSlot<Op> same;
  same.slot = -1;
  same.count = 0;
  const auto add = [&](ptrdiff_t slot, const typename Op::_Acc& value) {
    same.add(op, slot, value, put);
  };
  if (plan.outputs == 1)
    each_element<N>(op, plan, stretch, add);
  else
    each_element<1>(op, plan, stretch, add);
  // Many threads may have the same output until the end.
  const unsigned int peers = peers_of(same.slot);
  unsigned int count = 0;
  if constexpr (Op::_COUNTED) {
    for (int lane = 0; lane < 32; ++lane) {
      const unsigned int other = __shfl_sync(0xffffffffu, same.count, lane);
      if (peers >> lane & 1) count += other;
    }
  }
  same.value = join_peers(op, peers, same.value);
  if (is_first(peers)) put(same.slot, same.value, count);
}

// Few keys: each block has accumulators of all of them in shared memory, some several times.
template <class Op, int AXES, int I, int O>
__device__ inline void join_few(const Op& op, const KeyPlan<AXES, I, O>& plan, ptrdiff_t tile,
                                unsigned char* memory) {
  typedef typename Op::_Acc Acc;
  typedef AtomicJoin<Acc, Op::_JOINS> Atomic;
  typedef Total<Acc> Part;
  const int slots = (int)plan.slots(), all = slots * plan.copies;
  Acc* values = reinterpret_cast<Acc*>(memory);
  unsigned int* counts = reinterpret_cast<unsigned int*>(values + all);
  for (int k = threadIdx.x; k < all; k += blockDim.x) {
    values[k] = Atomic::neutral();
    if constexpr (Op::_COUNTED) counts[k] = 0;
  }
  __syncthreads();
  const int own = (int)(threadIdx.x / 32) % plan.copies * slots;
  put_stretch(op, plan, Stretch(plan, tile), [&](ptrdiff_t slot, const Acc& value, unsigned int elements) {
    Atomic::update(values + own + slot, value);
    if constexpr (Op::_COUNTED) atomicAdd(counts + own + slot, elements);
  });
  __syncthreads();
  Part* parts = static_cast<Part*>(plan.cells) + tile * slots;
  for (int slot = threadIdx.x; slot < slots; slot += blockDim.x) {
    Part part;
    part.value = values[slot];
    part.count = Op::_COUNTED ? counts[slot] : 1;
    for (int copy = 1; copy < plan.copies; ++copy) {
      part.value = op._reduce(part.value, values[copy * slots + slot]);
      if constexpr (Op::_COUNTED) part.count += counts[copy * slots + slot];
    }
    parts[slot] = part;
  }
}

// More keys: a block may have accumulators of the first outputs in shared memory, and adds them to those
// in global memory in the end. So most elements, or at least some, take no way to global memory.
template <class Op> struct HeldCells {
  typedef typename Op::_Acc Acc;
  typedef AtomicJoin<Acc, Op::_JOINS> Atomic;

  Acc* values;
  unsigned int* counts;
  int held;

  template <class Plan>
  __device__ inline HeldCells(const Plan& plan, unsigned char* memory)
      : values(reinterpret_cast<Acc*>(memory)), held(plan.held) {
    counts = reinterpret_cast<unsigned int*>(values + held);
  }
  __device__ inline void clear() const {
    for (int slot = threadIdx.x; slot < held; slot += blockDim.x) {
      values[slot] = Atomic::neutral();
      if constexpr (Op::_COUNTED) counts[slot] = 0;
    }
  }
  __device__ inline void update(ptrdiff_t slot, const Acc& by, unsigned int elements) const {
    Atomic::update(values + slot, by);
    if constexpr (Op::_COUNTED) atomicAdd(counts + slot, elements);
  }
  __device__ inline void add_to(const Cells<Op>& cells) const {
    for (int slot = threadIdx.x; slot < held; slot += blockDim.x) {
      const unsigned int count = Op::_COUNTED ? counts[slot] : 0;
      if (count || values[slot] != Atomic::neutral()) cells.update(slot, values[slot], count);
    }
  }
};
template <class Op, int AXES, int I, int O>
__device__ inline void put_held(const Op& op, const KeyPlan<AXES, I, O>& plan, ptrdiff_t tile,
                                const Cells<Op>& cells, unsigned char* memory) {
  enum { CHUNK = 16384 };
  __shared__ unsigned long long taken;
  const HeldCells<Op> held(plan, memory);
  held.clear();
  __syncthreads();
  const ptrdiff_t total = plan.length * plan.outputs, even = total - total / 8;
  for (Stretch stretch(even, plan.tiles, tile);;) {
    put_stretch(op, plan, stretch,
                [&](ptrdiff_t slot, const typename Op::_Acc& value, unsigned int elements) {
                  if (slot < held.held)
                    held.update(slot, value, elements);
                  else
                    cells.update(slot, value, elements);
                });
    // Blocks are not equally fast: an eighth of all elements is for those that ask first.
    if (threadIdx.x == 0) taken = atomicAdd(plan.progress + 2, 1ull);
    __syncthreads();
    const ptrdiff_t begin = even + (ptrdiff_t)taken * CHUNK;
    if (begin >= total) break;
    stretch = Stretch(begin, begin + CHUNK < total ? begin + CHUNK : total);
    __syncthreads();
  }
  held.add_to(cells);
}

template <class Op, int AXES, int I, int O, class... Inputs>
__device__ inline void reduce(const Op& op, const Reduction<KeyCells<AXES>, I, O>& plan,
                              const Inputs&...) {
  enum { ATOMIC = AtomicJoin<typename Op::_Acc, Op::_JOINS>::value };
  extern __shared__ __align__(16) unsigned char memory[];
  const ptrdiff_t slots = plan.slots();
  if constexpr (ATOMIC) {
    if (plan.copies) {
      in_phases(plan.progress, 2,
                [&](int phase) { return phase ? (slots + 31) / 32 : plan.tiles; },
                [&](int phase, ptrdiff_t tile) {
                  if (phase)
                    post_few(op, plan, tile, memory);
                  else
                    join_few(op, plan, tile, memory);
                });
      return;
    }
  }
  const Cells<Op> cells(op, plan);
  const auto put = [&](ptrdiff_t tile) {
    if constexpr (ATOMIC)
      put_held(op, plan, tile, cells, memory);
    else
      put_stretch(op, plan, Stretch(plan, tile),
                  [&](ptrdiff_t slot, const typename Op::_Acc& value, unsigned int elements) {
                    cells.update(slot, value, elements);
                  });
  };
  in_phases(plan.progress, 3, [&](int phase) { return phase == 1 ? plan.tiles : spans(slots); },
            [&](int phase, ptrdiff_t tile) {
              if (phase == 0) {
                each_in_span(tile, slots, [&](ptrdiff_t slot) { cells.clear(slot); });
              } else if (phase == 1) {
                put(tile);
              } else {
                if (threadIdx.x == 0) plan.progress[2] = 0;  // what has been taken
                each_in_span(tile, slots, [&](ptrdiff_t slot) { cells.post(plan, slot); });
              }
            });
}

}  // namespace kspec
