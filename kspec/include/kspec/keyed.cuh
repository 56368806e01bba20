// Elements with their keys, and accumulators that know how many elements they have.
#pragma once

#include "kspec/by_key.cuh"
#include "kspec/phases.cuh"
#include "kspec/shuffle.cuh"

namespace kspec {

enum { KEY_SHARED = 32768 };  // bytes of shared memory; key_schedule.py agrees

// Elements of a thread that are in flight: of one column. More columns take far more code.
template <class Acc> struct InFlight {
  enum { value = sizeof(Acc) <= 8 ? 8 : sizeof(Acc) <= 16 ? 4 : sizeof(Acc) <= 32 ? 2 : 1 };
};
template <int AXES, class Acc, class... Inputs> struct MinBlocks<KeyRuns<AXES>, Acc, Inputs...> {
  enum { value = sizeof(Acc) <= 8 ? 3 : 0 };
};
template <int AXES, class Acc, class... Inputs>
struct MinBlocks<KeySorted<AXES>, Acc, Inputs...> {
  enum { value = sizeof(Acc) <= 8 ? 2 : 0 };  // a thread has many rows in flight
};

template <class Acc> struct Total : Counted<Acc, unsigned long long> {
  __device__ inline Total() { this->count = 0; }
};
// An operation of such values.
template <class Op> struct CountedOp {
  typedef Total<typename Op::_Acc> _Acc;
  const Op& op;

  __device__ inline _Acc _reduce(const _Acc& a, const _Acc& b) const {
    _Acc both = a;
    both.append(op, b);
    return both;
  }
};

// The keys of some rows; ALL: these exist, and otherwise are -1 if they do not.
template <class T, bool ALL, int N>
__device__ inline void read_integers(const Integers& from, const ptrdiff_t (&row)[N], int step,
                                     ptrdiff_t (&key)[N]) {
  const char* place = from.data + row[0] * from.stride;
  const ptrdiff_t jump = step * from.stride;
#pragma unroll
  for (int k = 0; k < N; ++k, place += jump)
    key[k] = ALL || row[k] >= 0 ? (ptrdiff_t)*reinterpret_cast<const T*>(place) : -1;
}

// Where the inputs of a row of one column are; those of rows at equal distances need no products.
template <int INPUTS> struct AtRow {
  ptrdiff_t offset[INPUTS], jump[INPUTS];

  __device__ inline AtRow(const ptrdiff_t* steps, ptrdiff_t row, int distance) {
#pragma unroll
    for (int i = 0; i < INPUTS; ++i) offset[i] = row * steps[i], jump[i] = distance * steps[i];
  }
  __device__ inline Bytes operator[](int operand) const { return Bytes{offset[operand]}; }
  __device__ inline void operator++() {
#pragma unroll
    for (int i = 0; i < INPUTS; ++i) offset[i] += jump[i];
  }
};

// Some elements of a launch, all of whose loads are in flight at once. A single one may be of any
// column, several are of the only one.
template <class Op, int N> struct KeyedBatch {
  typename Op::_Acc value[N];
  ptrdiff_t slot[N];  // -1: it belongs to no output, or does not exist

  // The elements from number `first` on, every `step`-th of them, before number `end`.
  template <int AXES, int I, int O>
  __device__ inline void load(const Op& op, const KeyPlan<AXES, I, O>& plan, ptrdiff_t first, int step,
                              ptrdiff_t end) {
    // Where nothing is asked of each element, loads need not wait for one another.
    if (N > 1 && first + (N - 1) * (ptrdiff_t)step < end)
      load_rows<true>(op, plan, first, step, end);
    else
      load_rows<false>(op, plan, first, step, end);
  }

 private:
  template <bool ALL, int AXES, int I, int O>
  __device__ inline void load_rows(const Op& op, const KeyPlan<AXES, I, O>& plan, ptrdiff_t first,
                                   int step, ptrdiff_t end) {
    ptrdiff_t row[N], key[N];
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const ptrdiff_t n = first + k * (ptrdiff_t)step;
      row[k] = !ALL && n >= end ? -1 : N > 1 ? n : n / plan.outputs;
    }
    // One question for all keys; in loops that are not unrolled they would be in local memory.
    switch (plan.keys.is_signed ? -plan.keys.bytes : plan.keys.bytes) {
      case -4: read_integers<int, ALL>(plan.keys, row, step, key); break;
      case 4: read_integers<unsigned int, ALL>(plan.keys, row, step, key); break;
      case -2: read_integers<short, ALL>(plan.keys, row, step, key); break;
      case 2: read_integers<unsigned short, ALL>(plan.keys, row, step, key); break;
      case -1: read_integers<signed char, ALL>(plan.keys, row, step, key); break;
      case 1: read_integers<unsigned char, ALL>(plan.keys, row, step, key); break;
      default: read_integers<long long, ALL>(plan.keys, row, step, key);
    }
    AtRow<I> at_row(plan.steps, row[0], step);
#pragma unroll
    for (int k = 0; k < N; ++k, ++at_row) {
      const bool kept = (size_t)key[k] < (size_t)plan.count;
      if constexpr (Op::_STRICT)
        if (row[k] >= 0 && !kept) refuse_key(row[k], key[k], plan.count);
      const ptrdiff_t column = N > 1 ? 0 : first - row[k] * plan.outputs;
      slot[k] = !kept ? -1 : N > 1 ? key[k] : key[k] * plan.outputs + column;
      // A map that does not look at the key need not wait for it.
      if (Op::_INDEXED ? !kept : !ALL && row[k] < 0) continue;
      if constexpr (N > 1) {
        value[k] = op._map(at_row, row[k], key[k]);
      } else {
        const Offsets<AXES, I + O> at(plan.rows, column);
        value[k] = op._map(InRow<AXES, I + O>{at, plan.steps, row[k]}, row[k], key[k]);
      }
    }
  }
};

// The elements of a tile.
struct Stretch {
  ptrdiff_t begin, end;

  __device__ inline Stretch(ptrdiff_t begin, ptrdiff_t end) : begin(begin), end(end) {}
  template <class Plan>
  __device__ inline Stretch(const Plan& plan, ptrdiff_t tile)
      : Stretch(plan.length * plan.outputs, plan.tiles, tile) {}
  // That of a tile, of `tiles` that have the first `total` elements.
  __device__ inline Stretch(ptrdiff_t total, ptrdiff_t tiles, ptrdiff_t tile) {
    // Of as many elements as whole blocks have in flight: they begin at aligned addresses, and large
    // tiles have no rest.
    const ptrdiff_t even = (total + tiles - 1) / tiles;
    const ptrdiff_t batch = (ptrdiff_t)blockDim.x * (even < (ptrdiff_t)blockDim.x * 256 ? 8 : 32);
    const ptrdiff_t each = (even + batch - 1) / batch * batch;
    begin = tile * each < total ? tile * each : total;
    end = begin + each < total ? begin + each : total;
  }
};

// Call `add(slot, value)` for the thread's elements of a stretch that have an output, N at once.
template <int N, class Op, int AXES, int I, int O, class Add>
__device__ inline void each_element(const Op& op, const KeyPlan<AXES, I, O>& plan,
                                    const Stretch& stretch, const Add& add) {
  for (ptrdiff_t n = stretch.begin; n < stretch.end; n += (ptrdiff_t)blockDim.x * N) {
    KeyedBatch<Op, N> batch;
    batch.load(op, plan, n + threadIdx.x, blockDim.x, stretch.end);
#pragma unroll
    for (int k = 0; k < N; ++k)
      if (batch.slot[k] >= 0) add(batch.slot[k], batch.value[k]);
  }
}

// The lanes of the warp whose elements have the same output; none if there is no output.
__device__ inline unsigned int peers_of(ptrdiff_t slot) {
  const unsigned int peers = __match_any_sync(0xffffffffu, (unsigned long long)slot);
  return slot < 0 ? 0 : peers;
}
// What the values of peers make in the order of their lanes: the first of them has it. A lane joins
// what the next of its peers has, and so on, each time with twice as many values.
template <class Op>
__device__ inline typename Op::_Acc join_peers(const Op& op, unsigned int peers,
                                               typename Op::_Acc value) {
  const unsigned int above = peers & (0xfffffffeu << threadIdx.x % 32);
  int next = above ? __ffs(above) - 1 : 32;
  while (__any_sync(0xffffffffu, next < 32)) {
    const typename Op::_Acc other = shuffle_from(value, next % 32);
    const int later = __shfl_sync(0xffffffffu, next, next % 32);
    if (next < 32) {
      value = op._reduce(value, other);
      next = later;
    }
  }
  return value;
}
__device__ inline bool is_first(unsigned int peers) {
  return peers && __ffs(peers) - 1 == (int)(threadIdx.x % 32);
}

// Of few keys: join what each tile has made of an accumulator, in their order; 32 outputs for each
// block.
template <class Op, int AXES, int I, int O>
__device__ inline void post_few(const Op& op, const KeyPlan<AXES, I, O>& plan, ptrdiff_t tile,
                                unsigned char* memory) {
  typedef Total<typename Op::_Acc> Part;
  Part* made = reinterpret_cast<Part*>(memory);
  const Part* parts = static_cast<const Part*>(plan.cells);
  const int warp = threadIdx.x / 32, warps = blockDim.x / 32;
  const ptrdiff_t slot = tile * 32 + threadIdx.x % 32, slots = plan.slots();
  const ptrdiff_t each = (plan.tiles + warps - 1) / warps, from = warp * each;
  const ptrdiff_t to = from + each < plan.tiles ? from + each : plan.tiles;
  Part total;
  if (slot < slots) {
    enum { N = InFlight<typename Op::_Acc>::value };  // loads that need not wait for one another
    for (ptrdiff_t k = from; k < to; k += N) {
      Part some[N];
#pragma unroll
      for (int j = 0; j < N; ++j)
        if (k + j < to) some[j] = parts[(k + j) * slots + slot];
#pragma unroll
      for (int j = 0; j < N; ++j) total.append(op, some[j]);
    }
  }
  made[threadIdx.x] = total;
  __syncthreads();
  if (warp || slot >= slots) return;
  for (int k = 1; k < warps; ++k) total.append(op, made[k * 32 + threadIdx.x]);
  post_slot(op, plan, slot, total.value, (ptrdiff_t)total.count, total.count != 0);
}

}  // namespace kspec
