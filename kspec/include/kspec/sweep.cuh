// Pairwise reductions: some inputs are the same for all elements of an output (they are held), the
// others the same for all outputs (they are swept), as x and y of `x (N, 1), y (1, M)` are, reduced
// along axis 1.
//
// A thread has a few outputs and what they hold in registers. A block copies what is swept to
// shared memory, a tile at a time, of which all its threads read the same element at once.
#pragma once

#include "kspec/reduce.cuh"

namespace kspec {

template <int SWEPT, class Acc> struct MaxThreads<Sweep<SWEPT>, Acc> { enum { value = 256 }; };

template <int SWEPT, int INPUTS, int OUTPUTS> struct Reduction<Sweep<SWEPT>, INPUTS, OUTPUTS> {
  ptrdiff_t outputs;
  ptrdiff_t length;
  ptrdiff_t chunk;        // elements of a split: whole tiles
  int splits;             // blocks along y, that share outputs
  int pad;
  void* partials;         // [splits][outputs] accumulators
  unsigned int* tickets;  // of each block along x, zero before and after
  Axes<8, INPUTS + OUTPUTS> kept;
  Axes<8, INPUTS> reduced;
};

// Outputs of a thread; kspec/runtime/schedules/sweep_schedule.py agrees.
enum { SWEEP_OUTPUTS = 2 };

// One of several things that have a number.
struct Nothing {};
template <int K, class Value> struct Numbered { Value value; };
template <class Numbers, class... Values> struct Several;
template <int... K, class... Values>
struct Several<Numbers<K...>, Values...> : Numbered<K, Values>... {};
template <int K, class Value>
__device__ inline const Value& numbered(const Numbered<K, Value>& one) { return one.value; }
template <int K, class Value>
__device__ inline Value& numbered(Numbered<K, Value>& one) { return one.value; }

// What a map sees of an input, or nothing.
template <bool IS, class Input> using SeenIf = typename Choose<IS, SeenOf<Input>, Nothing>::type;

// So that an access takes as many bytes of a tile as it can.
template <class Items> struct alignas(sizeof(Items) > 8 ? 16 : alignof(Items)) TileItem : Items {};

// The offsets along the reduced axes only, or those of an output's first element.
template <class Op, int SWEPT, int INPUTS, int OUTPUTS, class... Inputs, int... K>
__device__ inline void sweep(const Op& op, const Reduction<Sweep<SWEPT>, INPUTS, OUTPUTS>& plan,
                             Numbers<K...>, const Inputs&... inputs) {
  typedef typename Op::_Acc Acc;
  typedef Several<Numbers<K...>, SeenIf<!(SWEPT >> K & 1), Inputs>...> Held;
  typedef TileItem<Several<Numbers<K...>, SeenIf<(SWEPT >> K & 1) != 0, Inputs>...>> Swept;
  enum { THREADS = MaxThreads<Sweep<SWEPT>, Acc>::value, R = SWEEP_OUTPUTS };
  __shared__ __align__(16) unsigned char memory[THREADS * sizeof(Swept)];
  Swept* const tile = reinterpret_cast<Swept*>(memory);

  const int thread = (int)threadIdx.x;
  const ptrdiff_t first = (ptrdiff_t)blockIdx.x * (THREADS * R) + thread;
  const auto output_of = [&](int r) {
    const ptrdiff_t output = first + r * THREADS;
    return output < plan.outputs ? output : plan.outputs - 1;  // the last one again: not stored
  };
  Held held[R];
#pragma unroll
  for (int r = 0; r < R; ++r) {
    const Offsets<8, INPUTS + OUTPUTS> at(plan.kept, output_of(r));
    const auto hold = [&](auto number, auto& place, const auto& input) {
      if constexpr (!(SWEPT >> decltype(number)::value & 1))
        place = input.item(at[decltype(number)::value]);
    };
    (hold(Number<K>(), numbered<K>(held[r]), inputs), ...);
  }

  const ptrdiff_t begin = (ptrdiff_t)blockIdx.y * plan.chunk;
  const ptrdiff_t end = begin + plan.chunk < plan.length ? begin + plan.chunk : plan.length;
  Acc totals[R];
  const auto map = [&](int r, int k, ptrdiff_t j) {
    const auto one = [&](auto number) -> const auto& {
      if constexpr (SWEPT >> decltype(number)::value & 1)
        return numbered<decltype(number)::value>(tile[k]);
      else
        return numbered<decltype(number)::value>(held[r]);
    };
    return op._value(one(Number<K>())..., j, output_of(r));
  };
  for (ptrdiff_t start = begin; start < end; start += THREADS) {
    const int count = end - start < THREADS ? (int)(end - start) : THREADS;
    __syncthreads();
    if (thread < count) {
      const Offsets<8, INPUTS> at(plan.reduced, start + thread);
      Swept own;
      const auto take = [&](auto number, auto& place, const auto& input) {
        if constexpr (SWEPT >> decltype(number)::value & 1)
          place = input.item(at[decltype(number)::value]);
      };
      (take(Number<K>(), numbered<K>(own), inputs), ...);
      tile[thread] = own;
    }
    __syncthreads();
    // A tile by itself, so that rounding errors do not add up over all elements.
    Acc sums[R];
#pragma unroll
    for (int r = 0; r < R; ++r) sums[r] = map(r, 0, start);
    if (count == THREADS) {
#pragma unroll 5
      for (int k = 1; k < THREADS; ++k)
#pragma unroll
        for (int r = 0; r < R; ++r) sums[r] = op._reduce(sums[r], map(r, k, start + k));
    } else {
#pragma unroll 1
      for (int k = 1; k < count; ++k)
#pragma unroll
        for (int r = 0; r < R; ++r) sums[r] = op._reduce(sums[r], map(r, k, start + k));
    }
#pragma unroll
    for (int r = 0; r < R; ++r)
      totals[r] = start == begin ? sums[r] : op._reduce(totals[r], sums[r]);
  }

  const auto post = [&](ptrdiff_t output, const Acc& total) {
    op._post(op._initial(total), Offsets<8, INPUTS + OUTPUTS>(plan.kept, output), output);
  };
  if (plan.splits == 1) {
#pragma unroll
    for (int r = 0; r < R; ++r)
      if (first + r * THREADS < plan.outputs) post(first + r * THREADS, totals[r]);
    return;
  }
  Acc* const partials = static_cast<Acc*>(plan.partials);
#pragma unroll
  for (int r = 0; r < R; ++r)
    if (first + r * THREADS < plan.outputs)
      partials[blockIdx.y * plan.outputs + first + r * THREADS] = totals[r];
  if (!is_last_block(&plan.tickets[blockIdx.x], plan.splits)) return;
  for (int r = 0; r < R; ++r) {
    const ptrdiff_t output = first + r * THREADS;
    if (output >= plan.outputs) continue;
    Acc total = partials[output];
    for (int split = 1; split < plan.splits; ++split)
      total = op._reduce(total, partials[split * plan.outputs + output]);
    post(output, total);
  }
}

template <class Op, int SWEPT, int INPUTS, int OUTPUTS, class... Inputs>
__device__ inline void reduce(const Op& op, const Reduction<Sweep<SWEPT>, INPUTS, OUTPUTS>& plan,
                              const Inputs&... inputs) {
  sweep(op, plan, typename UpTo<INPUTS>::type(), inputs...);
}

}  // namespace kspec
