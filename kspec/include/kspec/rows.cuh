// Programs of rows: each row is read once and written once, and in between it is kept in registers.
// kspec/fusion/rows.py writes the kernels, kspec/fusion/call/row_sizes.py chooses their numbers.
//
// Short rows: 2^lanes threads of a block share one, and a block takes as many as fit, once. Long
// rows: all threads of a block, or of a cluster of blocks, take one after the other, and copy the
// next one into shared memory while they compute. A thread has PACKS packs of V neighbouring
// elements of a row.
#pragma once

#include "kspec/copy_async.cuh"
#include "kspec/messages.cuh"
#include "kspec/pack.cuh"
#include "kspec/shuffle.cuh"
#include "kspec/truth.cuh"

namespace kspec {

template <int V_, int PACKS_, int LANES> struct ShortRows {
  enum { V = V_, PACKS = PACKS_, LONG = 0, EACH = 1 << LANES };
  long long index;  // of the row
  int length;
  int lane;   // of the thread among those of its row
  bool live;  // whether there is such a row
  bool left;  // whether this thread has not been through its rows

  __device__ inline ShortRows(long long rows, long long row_length)
      : length((int)row_length), left(true) {
    lane = threadIdx.x & (EACH - 1);
    index = (long long)blockIdx.x * (blockDim.x >> LANES) + (threadIdx.x >> LANES);
    live = index < rows;
  }
  // First element of a pack of this thread. Nothing but a constant is added for a pack, so that no
  // address takes registers of its own.
  __device__ inline long long at(int pack) const {
    return (long long)(lane * V) + pack * (EACH * V);
  }
  // Rows are longer than half of what their threads can have.
  __device__ inline bool has(int pack) const {
    return live && (pack < PACKS / 2 || at(pack) < length);
  }
  __device__ inline void next() { left = false; }

  // What the threads of a row have, made one, for each of them; all threads must come here, once.
  template <int NUMBER, class T, class Join>
  __device__ inline T all(T mine, const Join& join) const {
    mine = join_lanes<(EACH < 32 ? EACH : 32)>(mine, join);
    if constexpr (LANES > 5) {
      enum { WARPS = EACH / 32, WORDS = (sizeof(T) + 3) / 4 };
      __shared__ unsigned int kept[32][WORDS];  // of this call: each has a `Join` of its own
      const int warp = threadIdx.x >> 5;
      if ((threadIdx.x & 31) == 0) memcpy(kept[warp], &mine, sizeof(T));
      __syncthreads();
      memcpy(&mine, kept[(warp & ~(WARPS - 1)) + (threadIdx.x & (WARPS - 1))], sizeof(T));
      mine = join_lanes<WARPS>(mine, join);
    }
    return mine;
  }
};

template <int V_, int PACKS_, int LANES, int BLOCKS, int JOINS> struct LongRows {
  enum { V = V_, PACKS = PACKS_, LONG = 1, THREADS = 1 << LANES };
  long long index, rows, step;
  int length;
  int lane;
  bool live, left;
  int odd, turn;          // which of two places for messages is in use, and how often it was
  mutable int arrays;     // of whole rows
  mutable unsigned room;  // bytes of shared memory that they take

  typedef Messages<THREADS / 32, BLOCKS, 2 * JOINS> Kept;
  static __device__ inline Kept& kept() {
    __shared__ Kept one;
    return one;
  }

  __device__ inline LongRows(long long all_rows, long long row_length)
      : index(blockIdx.x / BLOCKS), rows(all_rows), step(gridDim.x / BLOCKS),
        length((int)row_length), lane(blockIdx.x % BLOCKS * THREADS + threadIdx.x), live(true),
        odd(0), turn(0), arrays(0), room(0) {
    left = index < rows;
    kept().open();
  }
  __device__ inline long long at(int pack) const {
    return (long long)(lane * V) + pack * (BLOCKS * THREADS * V);
  }
  // A row ends in the last pack.
  __device__ inline bool has(int pack) const { return pack < PACKS - 1 || at(pack) < length; }
  __device__ inline void next() {
    index += step;
    left = index < rows;
    turn ^= odd;
    odd ^= 1;
  }

  template <int NUMBER, class T, class Join>
  __device__ inline T all(T mine, const Join& join) const {
    mine = join_lanes<32>(mine, join);
    return kept().join(2 * NUMBER + odd, turn, mine, join);
  }

  // Shared memory of this thread alone: a pack of so many bytes, for each pack of a row.
  template <int BYTES> __device__ inline unsigned reserve() const {
    const unsigned place = room + threadIdx.x * BYTES;
    room += PACKS * THREADS * BYTES;
    return place;
  }
  template <int BYTES> static __device__ inline char* slot(unsigned place, int pack) {
    extern __shared__ uint4 kspec_slots[];
    return reinterpret_cast<char*>(kspec_slots) + place + pack * (THREADS * BYTES);
  }
};

// BLOCKS of a long row; 0: rows are short.
template <int V, int PACKS, int LANES, int BLOCKS, int JOINS> struct RowsOf {
  typedef LongRows<V, PACKS, LANES, BLOCKS, JOINS> type;
};
template <int V, int PACKS, int LANES, int JOINS> struct RowsOf<V, PACKS, LANES, 0, JOINS> {
  typedef ShortRows<V, PACKS, LANES> type;
};
// Threads of a block for rows that 2^LANES of its threads share.
constexpr int threads_of_rows(int lanes) { return lanes < 7 ? 128 : 1 << lanes; }

// The elements of an array of rows that a thread has read, as they are in memory.
template <class T, class Rows, bool LONG = Rows::LONG> struct Elements {
  enum { V = Rows::V, PACKS = Rows::PACKS };
  Pack<typename Stored<T>::type, V> pack[PACKS];

  __device__ inline Elements(const Rows&, const T*, long long) {}
  __device__ inline void load(const Rows& row, const T* data, long long step) {
#pragma unroll
    for (int k = 0; k < PACKS; ++k)
      if (row.has(k)) pack[k].load(stored(data + row.index * step) + row.at(k));
  }
  __device__ inline T get(int k, int j) const { return static_cast<T>(pack[k].get(j)); }
};

template <class T, class Rows> struct Elements<T, Rows, true> {
  enum { V = Rows::V, PACKS = Rows::PACKS, BYTES = V * sizeof(T) };
  Pack<typename Stored<T>::type, V> pack[PACKS];
  unsigned place;

  __device__ inline Elements(const Rows& row, const T* data, long long step)
      : place(row.template reserve<BYTES>()) {
    ++row.arrays;
    if (row.left) request(row, data + row.index * step);
    commit_copies();
  }
  __device__ inline void request(const Rows& row, const T* data) const {
#pragma unroll
    for (int k = 0; k < PACKS; ++k)
      if (row.has(k)) copy_async<BYTES>(Rows::template slot<BYTES>(place, k), data + row.at(k));
  }
  // Each array's copies are a group: those of the others may be under way.
  __device__ inline void load(const Rows& row, const T* data, long long step) {
    wait_for_copies(row.arrays - 1);
#pragma unroll
    for (int k = 0; k < PACKS; ++k)
      if (row.has(k)) memcpy(pack[k].word, Rows::template slot<BYTES>(place, k), BYTES);
    if (row.index + row.step < row.rows) request(row, data + (row.index + row.step) * step);
    commit_copies();
  }
  __device__ inline T get(int k, int j) const { return static_cast<T>(pack[k].get(j)); }
};

// An array that is the same for all rows.
template <class T, class Rows, bool LONG = Rows::LONG> struct Columns {
  typedef Pack<typename Stored<T>::type, Rows::V> Part;

  __device__ inline Columns(const Rows&, const T*) {}
  __device__ inline Part of(const Rows& row, const T* data, int k) const {
    Part pack;
    pack.load(stored(data) + row.at(k));
    return pack;
  }
};

template <class T, class Rows> struct Columns<T, Rows, true> {
  enum { BYTES = Rows::V * sizeof(T) };
  typedef Pack<typename Stored<T>::type, Rows::V> Part;
  unsigned place;

  __device__ inline Columns(const Rows& row, const T* data)
      : place(row.template reserve<BYTES>()) {
#pragma unroll
    for (int k = 0; k < Rows::PACKS; ++k) {
      if (!row.has(k)) continue;
      Part pack;
      pack.load(stored(data) + row.at(k));
      memcpy(Rows::template slot<BYTES>(place, k), pack.word, BYTES);
    }
  }
  __device__ inline Part of(const Rows&, const T*, int k) const {
    Part pack;
    memcpy(pack.word, Rows::template slot<BYTES>(place, k), BYTES);
    return pack;
  }
};

// Functions of elements for results that are rounded to fewer digits than a float has: within some
// units in its last place.

// Quotients by a number of the row: what is computed of it alone is computed once.
struct Reciprocal {
  float inverse, scale;

  __device__ inline explicit Reciprocal(float number) {
    const float size = fabsf(number);
    scale = size > 0x1p100f ? 0x1p-64f : size < 0x1p-100f ? 0x1p64f : 1.0f;
    inverse = 1.0f / (number * scale);
  }
  __device__ inline float under(float element) const { return element * inverse * scale; }
};
// What is less than the least normal number is 0.
__device__ inline float quick_exp(float exponent) {
  const float of_two = 1.4426950408889634f * exponent;
#ifdef KSPEC_HOST
  return exp2f(of_two);
#else
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(of_two));
  return power;
#endif
}

}  // namespace kspec
