// Reductions along contiguous elements: 2^lanes threads reduce each output, pack by pack.
#pragma once

#include "kspec/batch.cuh"
#include "kspec/copy_async.cuh"
#include "kspec/reduce.cuh"
#include "kspec/shuffle.cuh"

namespace kspec {

// Join the totals of the `count` lanes that follow the first, a power of two.
template <class Op, class Acc>
__device__ inline Partial<Acc> join_warp(const Op& op, Partial<Acc> mine, int count) {
#pragma unroll 1
  for (int by = count / 2; by > 0; by /= 2) {
    const Partial<Acc> other = shuffle_down(mine, by);
    if (other.some) mine.add(op, other.value);
  }
  return mine;
}

// Join the partial results of a group's 2^lanes threads; the first thread gets the total.
template <class Op, class Acc>
__device__ inline Partial<Acc> join_lanes(const Op& op, Partial<Acc> mine, int lanes,
                                          Partial<Acc>* shared) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int count = 1 << (lanes < 5 ? lanes : 5);
#pragma unroll 1
  for (int round = 0; round < 2; ++round) {  // of lanes, then of warps; one copy of the code
    mine = join_warp(op, mine, count);
    if (lanes <= 5 || round == 1) break;
    const int warps = 1 << (lanes - 5);  // of each group
    __syncthreads();
    if (lane == 0) shared[warp] = mine;
    __syncthreads();
    mine.some = false;
    if (lane < warps) mine = shared[(warp & ~(warps - 1)) + lane];
    count = warps;
  }
  return mine;
}

// Bytes of a block's rows in shared memory; kspec/runtime/schedules/reductions/lines.py agrees.
enum { STAGED_BYTES = 16384 };

// The number of an output, or of the first one where there is none.
template <class Plan> __device__ inline ptrdiff_t existing(const Plan& plan, ptrdiff_t output) {
  return output < plan.outputs ? output : 0;
}

// Where the inputs of one output are, and its first elements before the packs: so many that the
// packs of the leading input are aligned.
template <int I> struct Line {
  ptrdiff_t base[I];
  int head;
};

template <int I, int O, int... K, class... Inputs>
__device__ inline Line<I> find_line(const Reduction<Lines, I, O>& plan, ptrdiff_t output,
                                    Numbers<K...>, const Inputs&... inputs) {
  enum { V = PackSize<Inputs...>::value };
  Line<I> line;
  const Offsets<8, I + O> at(plan.kept, (unsigned int)output, Narrow());
#pragma unroll
  for (int k = 0; k < I; ++k) line.base[k] = at.offset[k];
  line.head = 0;
  if (V > 1 && plan.leader >= 0) {
    const auto head_of = [&](int k, const void* data, int size) {
      const size_t address = reinterpret_cast<size_t>(data) + line.base[k];
      if (k == plan.leader) line.head = (int)((0 - address) / size % V);
    };
    (head_of(K, inputs.data, (int)sizeof(typename Inputs::type)), ...);
    if (line.head > plan.length) line.head = (int)plan.length;
  }
  return line;
}

// Add the elements before and behind the packs, which are between `head` and `end`.
template <class Op, int I, int O, int... K, class... Inputs>
__device__ inline void add_edges(const Op& op, const Reduction<Lines, I, O>& plan,
                                 const Line<I>& line, ptrdiff_t end, int lane, int width,
                                 ptrdiff_t output, Partial<typename Op::_Acc>& total, Numbers<K...>,
                                 const Inputs&... inputs) {
  enum { V = PackSize<Inputs...>::value };
  const ptrdiff_t count = line.head + plan.length - end;
#pragma unroll 1
  for (ptrdiff_t e = lane; e < count; e += width) {
    const ptrdiff_t j = e < line.head ? e : end + e - line.head;
    total.add(op, op._value(inputs.item(Bytes{line.base[K] +
                                              j * (plan.reduced.strides[K][0] / V)})...,
                            j, output));
  }
}

template <class Op, int I, int O>
__device__ inline void post_line(const Op& op, const Reduction<Lines, I, O>& plan,
                                 const typename Op::_Acc& total, ptrdiff_t output) {
  op._post(op._initial(total), Offsets<8, I + O>(plan.kept, (unsigned int)output, Narrow()),
           output);
}

// Load pack number `pack` of a line.
template <int V, int I, int O, int... K, class... Inputs>
__device__ inline void load_pack_of(Batch<V, Numbers<K...>, Inputs...>& batch,
                                    const Reduction<Lines, I, O>& plan, const Line<I>& line,
                                    ptrdiff_t pack, const Inputs&... inputs) {
  ptrdiff_t along[I];
  offsets_along(plan.reduced, pack, along);
  batch.load(
      [&](int k) {
        const ptrdiff_t step = plan.reduced.strides[k][0];
        return AlignedAccessor{line.base[k] + along[k] + line.head * (step / V), step != 0};
      },
      inputs...);
}

// Add packs in rounds: `first`, `first` + step, ... UNROLL of them are in flight at once. From the
// last round to the first: what is read last is still in the cache when the next kernel begins,
// which reads it first.
template <class Op, int I, int O, int... K, class... Inputs>
__device__ inline void add_packs(const Op& op, const Reduction<Lines, I, O>& plan,
                                 const Line<I>& line, ptrdiff_t first, ptrdiff_t step,
                                 ptrdiff_t packs, ptrdiff_t output,
                                 Partial<typename Op::_Acc>& total, Numbers<K...>,
                                 const Inputs&... inputs) {
  enum { V = PackSize<Inputs...>::value, UNROLL = 4 };
  Batch<V, Numbers<K...>, Inputs...> batch[UNROLL];
  for (first += plan.last; first >= 0; first -= UNROLL * step) {
#pragma unroll
    for (int u = 0; u < UNROLL; ++u)
      if (first + u * step < packs) load_pack_of(batch[u], plan, line, first + u * step, inputs...);
#pragma unroll
    for (int u = 0; u < UNROLL; ++u)
      if (first + u * step < packs)
        total.add(op, batch[u].reduce(op, line.head + (first + u * step) * V, output));
  }
}

template <class Op, int I, int O, int... K, class... Inputs>
__device__ inline void reduce_lines(const Op& op, const Reduction<Lines, I, O>& plan,
                                    Numbers<K...> numbers, const Inputs&... inputs) {
  typedef typename Op::_Acc Acc;
  enum { V = PackSize<Inputs...>::value };
  __shared__ __align__(16) unsigned char memory[16 * sizeof(Partial<Acc>)];
  Partial<Acc>* shared = reinterpret_cast<Partial<Acc>*>(memory);
  const int width = 1 << plan.lanes, lane = threadIdx.x & (width - 1);
  const ptrdiff_t output =
      (ptrdiff_t)blockIdx.x * (blockDim.x >> plan.lanes) + (threadIdx.x >> plan.lanes);
  // Threads beyond the last output reduce nothing; they are there to shuffle.
  const bool live = output < plan.outputs;
  const Line<I> line = find_line(plan, existing(plan, output), numbers, inputs...);
  const ptrdiff_t packs = live ? (plan.length - line.head) / V : 0;
  const ptrdiff_t first = (ptrdiff_t)blockIdx.y * width + lane;
  const ptrdiff_t step = (ptrdiff_t)width * plan.splits;
  Partial<Acc> total;
  total.some = false;
  add_packs(op, plan, line, first, step, packs, output, total, numbers, inputs...);
  if (V > 1 && blockIdx.y == 0 && live)
    add_edges(op, plan, line, line.head + packs * V, lane, width, output, total, numbers,
              inputs...);

  const bool mine = lane == 0 && live;
  Acc* partials = reinterpret_cast<Acc*>(plan.partials) + output * plan.splits;
#pragma unroll 1
  for (int round = 0; round < 2; ++round) {  // of this block, then of all; one copy of the code
    total = join_lanes(op, total, plan.lanes, shared);
    if (plan.splits == 1 || round == 1) break;
    if (mine) partials[blockIdx.y] = total.value;
    if (!is_last_block(&plan.tickets[blockIdx.x], plan.splits)) return;
    total.some = false;
    if (live)
      for (int split = lane; split < plan.splits; split += width) total.add(op, partials[split]);
  }
  if (mine) post_line(op, plan, total.value, output);
}

// Two packs of each of two outputs are all that a thread has: they are in flight at once.
template <class Op, int I, int O, int... K, class... Inputs>
__device__ inline void reduce_short_lines(const Op& op, const Reduction<ShortLines, I, O>& plan,
                                          Numbers<K...> numbers, const Inputs&... inputs) {
  typedef typename Op::_Acc Acc;
  enum { V = PackSize<Inputs...>::value, UNROLL = 2, SIDE = 2, MOST_LANES = 2 };
  const int width = 1 << plan.lanes, lane = threadIdx.x & (width - 1);
  const int groups = blockDim.x >> plan.lanes;
  const ptrdiff_t output = (ptrdiff_t)blockIdx.x * (groups * SIDE) + (threadIdx.x >> plan.lanes);

  Batch<V, Numbers<K...>, Inputs...> batch[SIDE][UNROLL];
  int head[SIDE], packs[SIDE];
#pragma unroll
  for (int s = 0; s < SIDE; ++s) {
    const Line<I> line = find_line(plan, existing(plan, output + s * groups), numbers, inputs...);
    head[s] = line.head;
    packs[s] = ((int)plan.length - line.head) / V;
#pragma unroll
    for (int u = 0; u < UNROLL; ++u)
      if (lane + u * width < packs[s])
        load_pack_of(batch[s][u], plan, line, lane + u * width, inputs...);
  }
  Partial<Acc> total[SIDE];
#pragma unroll
  for (int s = 0; s < SIDE; ++s) {
    total[s].some = false;
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
      const int pack = lane + u * width;
      if (pack < packs[s])
        total[s].add(op, batch[s][u].reduce(op, head[s] + pack * V,
                                          existing(plan, output + s * groups)));
    }
  }
#pragma unroll
  for (int s = 0; s < SIDE; ++s) {
    const ptrdiff_t number = output + s * groups;
    if (plan.length != (ptrdiff_t)packs[s] * V) {
      // Found again: kept until here, it would take registers from the loads.
      const ptrdiff_t one = existing(plan, number);
      const Line<I> line = find_line(plan, one, numbers, inputs...);
      add_edges(op, plan, line, line.head + (ptrdiff_t)packs[s] * V, lane, width, one, total[s],
                numbers, inputs...);
    }
#pragma unroll
    for (int step = MOST_LANES - 1; step >= 0; --step) {
      if (step >= plan.lanes) continue;  // the same for all
      const Partial<Acc> other = shuffle_down(total[s], 1 << step);
      if (other.some) total[s].add(op, other.value);
    }
    if (lane == 0 && number < plan.outputs)
      post_line(op, plan, total[s].value, number);
  }
}

// Too few elements for packs: a thread for two outputs at once, element by element. Neighbouring
// threads find theirs in the same cache lines, of which there must not be too many.
template <class Op, int I, int O, int... K, class... Inputs>
__device__ inline void reduce_tiny_lines(const Op& op, const Reduction<ShortLines, I, O>& plan,
                                         Numbers<K...> numbers, const Inputs&... inputs) {
  enum { V = PackSize<Inputs...>::value, SIDE = 2 };
  const ptrdiff_t output = (ptrdiff_t)blockIdx.x * (blockDim.x * SIDE) + threadIdx.x;
  Line<I> line[SIDE];
  typename Op::_Acc total[SIDE];
  const auto value = [&](const Line<I>& at, int s, ptrdiff_t j) {
    return op._value(inputs.item(Bytes{at.base[K] + j * (plan.reduced.strides[K][0] / V)})..., j,
                     existing(plan, output + s * blockDim.x));
  };
#pragma unroll
  for (int s = 0; s < SIDE; ++s) {
    line[s] = find_line(plan, existing(plan, output + s * blockDim.x), numbers, inputs...);
    total[s] = value(line[s], s, 0);
  }
#pragma unroll 4
  for (ptrdiff_t j = 1; j < plan.length; ++j) {
#pragma unroll
    for (int s = 0; s < SIDE; ++s) total[s] = op._reduce(total[s], value(line[s], s, j));
  }
#pragma unroll
  for (int s = 0; s < SIDE; ++s)
    if (output + s * blockDim.x < plan.outputs)
      post_line(op, plan, total[s], output + s * blockDim.x);
}

// Begin to copy elements that follow each other to shared memory.
template <class T> __device__ inline void stage_elements(T* to, const T* from, int count) {
  const int bytes = count * (int)sizeof(T);
  if ((reinterpret_cast<size_t>(from) | bytes) % 16 == 0) {
    for (int at = threadIdx.x; at < bytes / 16; at += blockDim.x)
      copy_async<16>(reinterpret_cast<uint4*>(to) + at, reinterpret_cast<const uint4*>(from) + at);
  } else {
    for (int at = threadIdx.x; at < count; at += blockDim.x) to[at] = from[at];
  }
}
// Begin to copy `count` elements of an input from number `first` on, and let it be the copy, which has
// room for `room`. Return the place after it.
template <class Input>
__device__ inline unsigned char* stage_rows(Input& input, unsigned char* place, ptrdiff_t first,
                                            int count, int room) {
  if (!input.data) return place;  // a number
  typedef typename Stored<typename Input::type>::type T;
  T* const copy = reinterpret_cast<T*>(place);
  stage_elements(copy, stored(input.data) + first, count);
  input.data = reinterpret_cast<decltype(input.data)>(copy);
  return place + room * sizeof(T);
}

// Rows without gaps between them, which begin anywhere: the threads of a block copy what is side by
// side, and then read from shared memory what is not.
template <class Op, int I, int O, int... K, class... Inputs>
__device__ inline void reduce_staged_lines(const Op& op, const Reduction<ShortLines, I, O>& plan,
                                           Numbers<K...>, Inputs... inputs) {
  typedef typename Op::_Acc Acc;
  __shared__ __align__(16) unsigned char stage[STAGED_BYTES];
  const int width = 1 << plan.lanes, lane = threadIdx.x & (width - 1);
  const int rows = blockDim.x >> plan.lanes, row = threadIdx.x >> plan.lanes;
  const int length = (int)plan.length;
  const ptrdiff_t first = (ptrdiff_t)blockIdx.x * rows, left = plan.outputs - first;
  const int present = left < rows ? (int)left : rows;
  unsigned char* place = stage;
  ((place = stage_rows(inputs, place, first * length, present * length, rows * length)), ...);
  commit_copies();
  wait_for_copies(0);
  __syncthreads();

  const int mine = row < present ? row : 0;
  const auto value = [&](int j) {
    return op._value(inputs.item(Nth{mine * length + j})..., j, first + mine);
  };
  Partial<Acc> total{value(lane), true};
#pragma unroll 4
  for (int j = lane + width; j < length; j += width)
    total.value = op._reduce(total.value, value(j));
  total = join_warp(op, total, width);
  if (lane == 0 && row < present) post_line(op, plan, total.value, first + row);
}

template <class Op, int I, int O, class... Inputs>
__device__ inline void reduce(const Op& op, const Reduction<Lines, I, O>& plan,
                              const Inputs&... inputs) {
  reduce_lines(op, plan, typename UpTo<I>::type(), inputs...);
}
template <class Op, int I, int O, class... Inputs>
__device__ inline void reduce(const Op& op, const Reduction<ShortLines, I, O>& plan,
                              const Inputs&... inputs) {
  const typename UpTo<I>::type numbers;
  if (plan.way == IN_PACKS)
    reduce_short_lines(op, plan, numbers, inputs...);
  else if (plan.way == STAGED)
    reduce_staged_lines(op, plan, numbers, inputs...);
  else
    reduce_tiny_lines(op, plan, numbers, inputs...);
}

}  // namespace kspec
