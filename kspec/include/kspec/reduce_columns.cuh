// Reductions of neighbouring outputs: a thread reduces a pack of columns, `across` threads of a block
// lie side by side, and those below each other take different rows.
//
// Packs begin at aligned addresses. Where rows follow each other without gaps and are short, `merged`
// of them are read as one that is a whole number of packs, and its columns of the same output are
// joined at the end. Other rows may begin anywhere: a thread takes rows that begin alike, its pack
// begins up to V - 1 columns before the place it has in an aligned row, and what it shares with
// the next block is left out.
#pragma once

#include "kspec/batch.cuh"
#include "kspec/reduce.cuh"

namespace kspec {

// A thread's pack: its first column, which may be left of the row, and for each of its elements the
// column and the row among those that are read as one. Elements outside the row stand for its
// nearest column; their totals are left out.
template <int V> struct ColumnPack {
  ptrdiff_t column;
  int first, last;  // elements inside the row
  int late[V], inner[V];

  __device__ inline bool is_inside() const { return first == 0 && last == V - 1; }
  __device__ inline int nearest(int j) const { return j < first ? first : j > last ? last : j; }
};

// Where a pack is of which some elements are outside the row.
template <int V> struct EdgeAccessor {
  const ColumnPack<V>& mine;
  ptrdiff_t offset, step;

  template <class T> __device__ inline void load(const T* data, Pack<T, V>& pack) const {
    pack.load_each([&](int j) { return *element(data, Bytes{offset + mine.nearest(j) * step}); });
  }
};

// The same for an input that all rows share; `offset` is that of the first column.
template <int V> struct HeldAccessor {
  const ColumnPack<V>& mine;
  ptrdiff_t offset, step;

  template <class T> __device__ inline void load(const T* data, Pack<T, V>& pack) const {
#pragma unroll
    for (int j = 0; j < V; ++j)
      pack.put(j, *element(data, Bytes{offset + mine.inner[j] * step}));
  }
};

// Add rows first, first + step, ... into a pack of totals: UNROLL of them are in flight at once.
template <class Op, int I, int O, int V, int... K, class... Inputs>
__device__ inline void add_rows(const Op& op, const Reduction<Columns, I, O>& plan,
                                const Offsets<8, I + O>& origin, ptrdiff_t output, ptrdiff_t first,
                                ptrdiff_t step, const ColumnPack<V>& mine,
                                typename Op::_Acc (&total)[V], Numbers<K...>,
                                const Inputs&... inputs) {
  enum { UNROLL = 4 };
  typedef Batch<V, Numbers<K...>, Inputs...> Rows;
  Rows rows[UNROLL], held;
  ptrdiff_t base[I];
#pragma unroll
  for (int k = 0; k < I; ++k)
    base[k] = origin.offset[k] + (plan.held >> k & 1 ? 0 : mine.column * plan.kept.strides[k][0]);
  if (I > 1)
    held.load([&](int k) { return HeldAccessor<V>{mine, origin.offset[k], plan.kept.strides[k][0]}; },
              inputs...);
  bool some = false;  // there is nothing to start from but the first row
  const auto add = [&](Rows& one, ptrdiff_t row, bool begun) {
    if (I > 1) one.take(held, plan.held);
#pragma unroll
    for (int j = 0; j < V; ++j) {
      const typename Op::_Acc mapped =
          one.map(op, j, row * plan.merged + mine.late[j], output + mine.inner[j]);
      total[j] = begun ? op._reduce(total[j], mapped) : mapped;
    }
  };
  ptrdiff_t end = plan.rows;
  if (!mine.is_inside() || plan.alone >= end) {
    // What a pack holds beside its row are other rows, but for the first and last few: those go
    // element by element.
    const int alone = plan.alone, twice = 2 * alone < end ? 2 * alone : (int)end;
#pragma unroll 1
    for (int n = 0; n < twice; ++n) {
      const int last = n < alone ? 0 : plan.rest - twice;  // so far from the last row
      if ((last + n - (int)first) % (int)step) continue;
      const ptrdiff_t row = n < alone ? n : end - twice + n;
      rows[0].load(
          [&](int k) {
            return EdgeAccessor<V>{mine, base[k] + row * plan.reduced.strides[k][0],
                                plan.kept.strides[k][0]};
          },
          inputs...);
      add(rows[0], row, some);
      some = true;
    }
    while (first < alone) first += step;
    end -= alone;
  }
  for (; first < end; first += UNROLL * step) {
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
      if (first + u * step < end) {
        ptrdiff_t along[I];
        offsets_along(plan.reduced, first + u * step, along);
        rows[u].load(
            [&](int k) {
              const bool moves = plan.kept.strides[k][0] != 0 && !(plan.held >> k & 1);
              return AlignedAccessor{base[k] + along[k], moves};
            },
            inputs...);
      }
    }
#pragma unroll
    for (int u = 0; u < UNROLL; ++u)
      if (first + u * step < end) add(rows[u], first + u * step, u > 0 || some);
    some = true;
  }
}

// Elements from the last aligned address to the first pack of the leading input, in a given row.
template <int I, int O, int... K, class... Inputs>
__device__ inline int find_shift(const Reduction<Columns, I, O>& plan,
                                 const Offsets<8, I + O>& origin, ptrdiff_t row, ptrdiff_t column,
                                 Numbers<K...>, const Inputs&... inputs) {
  enum { V = PackSize<Inputs...>::value };
  int shift = 0;
  if (V > 1 && plan.leader >= 0) {
    const auto shift_of = [&](int k, const void* data, int size) {
      const size_t address = reinterpret_cast<size_t>(data) + origin.offset[k] +
                             row * plan.reduced.strides[k][0] + column * size;
      if (k == plan.leader) shift = (int)(address / size % V);
    };
    (shift_of(K, inputs.data, (int)sizeof(typename Inputs::type)), ...);
  }
  return shift;
}

template <class Op, int I, int O, int... K, class... Inputs>
__device__ inline void reduce_columns(const Op& op, const Reduction<Columns, I, O>& plan,
                                      Numbers<K...> numbers, const Inputs&... inputs) {
  typedef typename Op::_Acc Acc;
  enum { V = PackSize<Inputs...>::value, ROOM = sizeof(Acc) > 96 ? 256 : 512 };
  __shared__ __align__(16) unsigned char memory[ROOM * sizeof(Acc)];
  Acc* shared = reinterpret_cast<Acc*>(memory);
  const int threads = blockDim.x, down = plan.down, columns = (int)plan.columns;
  const int x = threadIdx.x % plan.across, y = threadIdx.x / plan.across;
  const ptrdiff_t batch = blockIdx.x / plan.tiles, tile = blockIdx.x % plan.tiles;
  const unsigned int begin = (unsigned int)(batch * columns);  // the first output
  const bool merged = plan.merged > 1;
  const ptrdiff_t row = (ptrdiff_t)blockIdx.y * down + y;

  // The block's columns are those from `start` to `stop`; of rows that are read as one, the first
  // begins `start` elements late.
  int start = (int)tile * plan.span, shift;
  {
    const Offsets<8, I + O> origin(plan.kept, begin, Narrow());
    shift = find_shift(plan, origin, merged ? 0 : row, merged ? 0 : start, numbers, inputs...);
  }
  if (merged) start = shift ? V - shift : 0, shift = 0;
  const int left = merged ? columns * plan.merged : columns - start;
  const int stop = start + (merged || left < plan.span ? left : plan.span);

  Acc total[V];
  ColumnPack<V> mine;
  mine.column = start + x * V - shift;
  const bool live = y < down && mine.column < stop;
  if (live) {
    const Offsets<8, I + O> origin(plan.kept, begin, Narrow());
    mine.first = mine.column < 0 ? (int)-mine.column : 0;
    mine.last = merged || columns - mine.column >= V ? V - 1 : (int)(columns - mine.column) - 1;
    int late = merged ? (int)mine.column / columns : 0;
    int inner = (int)mine.column - late * columns;
#pragma unroll
    for (int j = 0; j < V; ++j) {
      mine.late[j] = late;
      mine.inner[j] = merged ? inner : (int)mine.column + mine.nearest(j);
      if (++inner == columns) inner = 0, ++late;
    }
    const ptrdiff_t step = (ptrdiff_t)down * plan.splits;
    add_rows(op, plan, origin, begin, row, step, mine, total, numbers, inputs...);
  }

  // Join the groups of `width` neighbours among the first `count` values in shared memory.
  const auto join = [&](int width, int count) {
    for (int rest = count; rest > width;) {
      const int half = ((rest + width - 1) / width + 1) / 2 * width;
      __syncthreads();
      for (int c = threadIdx.x; c < rest - half; c += threads)
        shared[c] = op._reduce(shared[c], shared[c + half]);
      rest = half;
    }
    __syncthreads();
  };
  // The threads below each other whose rows begin alike, then the first row of each kind.
  const ptrdiff_t rows = plan.rows - (ptrdiff_t)blockIdx.y * down;
  const int count = rows < down ? (int)rows : down;
  if (count > plan.period) {
#pragma unroll 1
    for (int j = 0; j < V; ++j) {
      __syncthreads();
      if (y < count) {
#pragma unroll
        for (int one = 0; one < V; ++one)
          if (one == j) shared[threadIdx.x] = total[one];
      }
      join(plan.across * plan.period, plan.across * count);
      if (y < plan.period) {
#pragma unroll
        for (int one = 0; one < V; ++one)
          if (one == j) total[one] = shared[threadIdx.x];
      }
    }
  }
#pragma unroll 1
  for (int kind = 0; kind < plan.period && kind < count; ++kind) {
    __syncthreads();
    if (live && y == kind) {
#pragma unroll
      for (int j = 0; j < V; ++j) {
        const int c = (int)mine.column + j;
        if (c >= start && c < stop)
          shared[c - start] = kind ? op._reduce(shared[c - start], total[j]) : total[j];
      }
    }
  }
  __syncthreads();

  int width = stop - start;
  if (merged) {
    if (blockIdx.y == 0) {
      // What is behind the rows, up to a row and almost a pack, and what is before them: each
      // element goes to some column of its output.
      const ptrdiff_t end = start + plan.rows * width;
      const int behind = (int)(plan.length * columns - end);
      const Offsets<8, I + O> origin(plan.kept, begin, Narrow());
#pragma unroll 1
      for (int part = 0; part < 3; ++part) {
        const ptrdiff_t first = part == 0 ? end : part == 1 ? end + width : 0;
        const int some = part == 0 ? (behind < width ? behind : width)
                                   : part == 1 ? behind - width : start;
        const int to = part == 2 ? width - start : 0;
        for (int c = threadIdx.x; c < some; c += threads) {
          const ptrdiff_t e = first + c, late = e / columns;
          const int inner = (int)(e - late * columns);
          const Acc mapped = op._value(
              inputs.item(Bytes{origin.offset[K] +
                                (plan.held >> K & 1 ? inner : e) * plan.kept.strides[K][0]})...,
              late, (ptrdiff_t)begin + inner);
          shared[to + c] = op._reduce(shared[to + c], mapped);
        }
        __syncthreads();
      }
    }
    // The rows that were read as one.
    width = columns;
    for (int c = threadIdx.x; c < columns; c += threads) {
#pragma unroll 1
      for (int late = 1; late < plan.merged; ++late)
        shared[c] = op._reduce(shared[c], shared[c + late * columns]);
    }
    __syncthreads();
  }

  if (plan.splits > 1) {
    Acc* partials =
        reinterpret_cast<Acc*>(plan.partials) + (ptrdiff_t)blockIdx.x * plan.splits * plan.span;
    const int groups = (plan.splits + plan.group - 1) / plan.group;
    // First the splits of a group, by the last of them, then the groups.
    int from = blockIdx.y, number = blockIdx.y / plan.group, ticket = groups > 1 ? 1 + number : 0;
    int step = 1, members = plan.group;
    number *= plan.group;
    if (members > plan.splits - number) members = plan.splits - number;
#pragma unroll 1
    for (;;) {
      for (int c = threadIdx.x; c < width; c += threads)
        partials[(ptrdiff_t)from * plan.span + c] = shared[c];
      if (!is_last_block(&plan.tickets[blockIdx.x * (groups > 1 ? groups + 1 : 1) + ticket],
                         members))
        return;
      int abreast = threads / width < members ? threads / width : members;
      if (abreast == 0) abreast = 1;
      for (int t = threadIdx.x; t < abreast * width; t += threads) {
        const Acc* part = partials + (ptrdiff_t)number * plan.span + t % width;
        const ptrdiff_t stride = (ptrdiff_t)step * plan.span;
        Acc sum = part[t / width * stride];
#pragma unroll 4
        for (int m = t / width + abreast; m < members; m += abreast)
          sum = op._reduce(sum, part[m * stride]);
        shared[t] = sum;
      }
      join(width, abreast * width);
      if (ticket == 0) break;
      from = number, number = 0, ticket = 0;
      step = plan.group, members = groups;
    }
  }
  // Neighbouring threads write neighbouring outputs.
  for (int c = threadIdx.x; c < width; c += threads) {
    const unsigned int output = begin + (merged ? (start + c) % columns : start + c);
    op._post(op._initial(shared[c]), Offsets<8, I + O>(plan.kept, output, Narrow()),
             (ptrdiff_t)output);
  }
}

template <class Op, int I, int O, class... Inputs>
__device__ inline void reduce(const Op& op, const Reduction<Columns, I, O>& plan,
                              const Inputs&... inputs) {
  reduce_columns(op, plan, typename UpTo<I>::type(), inputs...);
}

}  // namespace kspec
