// The loop around an operation that reads windows, see neighbours.cuh.
//
//   kspec::for_each_window<kspec::WindowTile<4, 2, kspec::Reach<1, 0, 0, 0>>>(
//       elements, [&](ptrdiff_t i, const auto& u, float& y) { y = u.read(-1, 0); }, ...);
//
// kspec/runtime/schedules/window_schedule.py packs the same structures.
#pragma once

#include "kspec/chunked.cuh"
#include "kspec/elements.cuh"
#include "kspec/neighbours.cuh"
#include "kspec/opaque.cuh"
#include "kspec/window_layers.cuh"
#include "kspec/window_operand.cuh"
#include "kspec/window_stage.cuh"
#include "kspec/window_tile.cuh"

namespace kspec {

// The windowed axes are the last ones of the loop, innermost first.
template <int W, int OUTER, int OPERANDS> struct Elements<Windows<W, OUTER>, OPERANDS> {
  enum { room = W + OUTER };
  ptrdiff_t size_;
  ptrdiff_t extents[W];
  ptrdiff_t begin[W], end[W];  // where every window lies inside its array
  ptrdiff_t strides[OPERANDS][W];
  unsigned int tiles[W];  // along each of them
  Divisor divisors[W];
  unsigned int packed;  // whether rows are made of aligned packs; if so, `folds`
  unsigned int folds;   // whether `fold` brings every neighbour inside its array
  Axes<OUTER, OPERANDS> outer;

  __device__ inline ptrdiff_t size() const { return size_; }
  __device__ inline int ndim() const { return W + outer.ndim; }
  template <class Visitor> __device__ inline void visit(ptrdiff_t i, Visitor& visitor) const {
#pragma unroll
    for (int k = 0; k < W; ++k) {
      const ptrdiff_t rest = i / extents[k];
      visitor.add(k, i - rest * extents[k]);
      i = rest;
    }
    Shifted<Visitor> shifted{visitor};
    outer.visit(i, shifted);
  }

 private:
  template <class Visitor> struct Shifted {
    Visitor& visitor;
    __device__ inline void add(int axis, ptrdiff_t index) { visitor.add(axis + W, index); }
  };
};

template <int W, int OUTER, int OPERANDS>
struct Elements<ChosenBoundary<W, OUTER>, OPERANDS> : Elements<Windows<W, OUTER>, OPERANDS> {};

// What the operation gets of an operand at one element.
template <class Around, class Arg>
__device__ inline decltype(auto) item_at(const Arg& argument, const ptrdiff_t*, ptrdiff_t offset,
                                         const ptrdiff_t*) {
  return argument.item(Bytes{offset});
}
template <class Around, class T, int A, int B>
__device__ inline Neighbours<Window<T, A, B>, Around> item_at(const Window<T, A, B>& argument,
                                                              const ptrdiff_t* strides,
                                                              ptrdiff_t offset,
                                                              const ptrdiff_t* index) {
  return Neighbours<Window<T, A, B>, Around>(argument, strides, offset, index);
}

#ifdef KSPEC_CHUNKED

// Elements [begin, end) of a row that begins with element `row`; `index` is along the windowed axes,
// `outer` where the operands are along the others. UNIT: elements follow each other in memory, which
// the compiler has to know to vectorise the loop.
template <class Around, bool UNIT, int W, int OUTER, int N, class Op, class... Args, int... K>
inline void visit_row(const Elements<Windows<W, OUTER>, N>& loop, const Offsets<OUTER, N>& outer,
                      ptrdiff_t row, ptrdiff_t begin, ptrdiff_t end, const ptrdiff_t (&index)[W],
                      const Op op, Numbers<K...>, const Args... args) {
  // Copies, also of the operation and the arguments: the compiler cannot know that writes to outputs
  // leave them alone.
  const ptrdiff_t sizes[N] = {(ptrdiff_t)sizeof(*args.data)...};
  ptrdiff_t strides[N][W], start[N], at[W];
  for (int k = 0; k < N; ++k) {
    start[k] = outer.offset[k];
    for (int axis = 0; axis < W; ++axis) {
      strides[k][axis] = UNIT && axis == 0 ? sizes[k] : loop.strides[k][axis];
      if (axis > 0) start[k] += index[axis] * strides[k][axis];
    }
  }
  for (int axis = 0; axis < W; ++axis) at[axis] = index[axis];
  // Threads run in any order, so elements may too. g++ finds that out for a few pointers only.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC ivdep
#endif
  for (ptrdiff_t i = begin; i < end; ++i) {
    at[0] = i;
    op(row + i, item_at<Around>(args, strides[K], start[K] + i * strides[K][0], at)...);
  }
}

// The same with everything inlined: g++ leaves operations of many reads out of line, one element at a
// time.
template <int W, int OUTER, int N, class Op, class... Args, int... K>
__attribute__((flatten)) inline void visit_unit_row(
    const Elements<Windows<W, OUTER>, N>& loop, const Offsets<OUTER, N>& outer, ptrdiff_t row,
    ptrdiff_t begin, ptrdiff_t end, const ptrdiff_t (&index)[W], const Op& op,
    Numbers<K...> numbers, const Args&... args) {
  visit_row<AllInside, true>(loop, outer, row, begin, end, index, op, numbers, args...);
}

// Whether elements of all arrays follow each other along the innermost axis; numbers have no data.
template <int W, int OUTER, int N, class... Args, int... K>
inline bool is_unit(const Elements<Windows<W, OUTER>, N>& loop, Numbers<K...>,
                    const Args&... args) {
  const bool found[N] = {
      (!args.data || loop.strides[K][0] == (ptrdiff_t)sizeof(*args.data))...};
  bool all = true;
  for (int k = 0; k < N; ++k) all = all && found[k];
  return all;
}

// A thread takes neighbouring elements, row by row; in a row, those in the middle have no test.
template <class Tile, int W, int OUTER, int N, class Op, class... Args, int... K>
inline void each_window(const Elements<Windows<W, OUTER>, N>& loop, const Op& op,
                        Numbers<K...> numbers, const Args&... args) {
  const bool unit = is_unit(loop, numbers, args...);
  const ptrdiff_t stop = chunk_end(loop.size());
  for (ptrdiff_t i = chunk_begin(loop.size()); i < stop;) {
    ptrdiff_t index[W], rest = i;
    bool inside = true;
    for (int k = 0; k < W; ++k) {
      const ptrdiff_t next = rest / loop.extents[k];
      index[k] = rest - next * loop.extents[k];
      rest = next;
      if (k > 0) inside = inside && index[k] >= loop.begin[k] && index[k] < loop.end[k];
    }
    const Offsets<OUTER, N> outer(loop.outer, rest);
    const ptrdiff_t row = i - index[0];
    const ptrdiff_t last = stop - row < loop.extents[0] ? stop - row : loop.extents[0];
    const ptrdiff_t first = index[0];
    const auto between = [&](ptrdiff_t k) { return k < first ? first : k > last ? last : k; };
    const ptrdiff_t begin = inside ? between(loop.begin[0]) : last;
    const ptrdiff_t end = inside && loop.end[0] > loop.begin[0] ? between(loop.end[0]) : begin;
    visit_row<Anywhere, false>(loop, outer, row, first, begin, index, op, numbers, args...);
    if (unit) visit_unit_row(loop, outer, row, begin, end, index, op, numbers, args...);
    else visit_row<AllInside, false>(loop, outer, row, begin, end, index, op, numbers, args...);
    visit_row<Anywhere, false>(loop, outer, row, end, last, index, op, numbers, args...);
    i = row + last;
  }
}

// What `loop_prep` declares is copied with the operation.
#define KSPEC_CAPTURE =
#define KSPEC_WINDOW(name, window, ...) (window).read(__VA_ARGS__)
#define KSPEC_WINDOW_CHECKED(name, window, ...) \
  (window).read_checked(name, __FILE__, __LINE__, __VA_ARGS__)

#else

// Whether a kernel computes pairs where whole packs are `Where`.
template <class Where> constexpr bool is_whole = false;
template <> constexpr bool is_whole<AllInside> = true;
template <> constexpr bool is_whole<InRows> = true;
template <class Op, class Where, int V, class... Args>
constexpr bool in_pairs = KSPEC_PAIRS && only_selects<Op> && is_whole<Where> && V % 2 == 0 &&
                          (fits_pairs<typename Args::type> && ...);

// Compute a pack of elements, the first being number i. Their numbers are constants, not counters of
// loops: a large operation would not be unrolled.
template <class Op, class... Operands, int... J>
__device__ inline void compute_pack(const Op& op, ptrdiff_t i, Numbers<J...>,
                                    Operands&&... operands) {
  (operands.load(), ...);
  (compute_item(op, i + J, J, operands...), ...);
  (operands.store(), ...);
}

// The same where all that is read is in the array, inlined by force: large operations would become
// functions otherwise, which read parameters and neighbours as memory.
template <class Op, class... Operands>
__device__ __forceinline__ void compute_whole_item(const Op& op, ptrdiff_t i, int j,
                                                   Operands&... operands) {
  op(i, operands.item(j)...);
}
template <class Op, class... Operands, int... J>
__device__ __forceinline__ void compute_whole_pack(const Op& op, ptrdiff_t i, Numbers<J...>,
                                                   Operands&&... operands) {
  (operands.load(), ...);
  (compute_whole_item(op, i + J, J, operands...), ...);
  (operands.store(), ...);
}

// Compute the pack `row` rows and `plane` planes from the thread's first element, which is number
// `i`.
template <class Where, int V, int W, int OUTER, int N, class Op, class... Args, int... K>
__device__ inline void compute_row(const Elements<Windows<W, OUTER>, N>& loop,
                                   const ptrdiff_t (&first)[N], const ptrdiff_t* index,
                                   ptrdiff_t i, int row, int plane, const Op& op,
                                   Numbers<K...>, const Args&... args) {
  const auto accessor = [&](int k) {
    return accessor_of<Where, V>(loop, first, index, k, row, plane);
  };
  i += (row + plane * loop.extents[W > 1]) * loop.extents[0];
  if constexpr (in_pairs<Op, Where, V, Args...>)
    compute_whole_pack(op.pairs, i, typename UpTo<V / 2>::type(),
                       PairOperand<Args, V, WindowAccessor<V, Where>>(args, accessor(K))...);
  else if constexpr (is_whole<Where> && V > 1)
    compute_whole_pack(op, i, typename UpTo<V>::type(),
                       Operand<Args, V, WindowAccessor<V, Where>>(args, accessor(K))...);
  else
    compute_pack(op, i, typename UpTo<V>::type(),
                 Operand<Args, V, WindowAccessor<V, Where>>(args, accessor(K))...);
}

// Packs of a thread in ROWS rows of some planes; the first element has `index`, and `number` is that
// of its place along the other axes.
template <class Where, int V, int ROWS, int W, int OUTER, int N, class Op, class... Args, int... K,
          int... ROW>
__device__ inline void compute_rows(const Elements<Windows<W, OUTER>, N>& loop,
                                    const Offsets<OUTER, N>& outer, const ptrdiff_t* index,
                                    ptrdiff_t number, const Op& op, Numbers<K...> numbers,
                                    Numbers<ROW...>, const Args&... args) {
  ptrdiff_t first[N], i = number;
  find_first(loop, outer, index, first);
#pragma unroll
  for (int axis = W - 1; axis >= 0; --axis) i = i * loop.extents[axis] + index[axis];
  (compute_row<Where, V>(loop, first, index, i, ROW % ROWS, ROW / ROWS, op, numbers, args...), ...);
}

// Columns [0, begin) and [end, columns) of a warp's rows, the first of which has `index`: windows
// may lie outside. The lanes share them, V by V. FOLDS: `loop.folds` is known to be true.
template <int V, bool FOLDS, int ROWS, int PLANES, int W, int OUTER, int N, class Op,
          class... Args, int... K>
__device__ inline void compute_edges(const Elements<Windows<W, OUTER>, N>& loop,
                                     const Offsets<OUTER, N>& outer,
                                     const ptrdiff_t (&index)[W], int begin, int end, int columns,
                                     ptrdiff_t number, const Op& op, Numbers<K...> numbers,
                                     const Args&... args) {
  const Numbers<0> one;
  const int rest = columns - (end - begin);
#pragma unroll 1
  for (int k = (threadIdx.x & 31) * V; k < rest * ROWS * PLANES; k += 32 * V) {
    const int row = k / rest, column = k - row * rest;
    ptrdiff_t at[W];
    bool exists = true;
#pragma unroll
    for (int axis = 0; axis < W; ++axis) {
      at[axis] = index[axis] + (axis == 0   ? column + (column < begin ? 0 : end - begin)
                                : axis == 1 ? row % ROWS
                                : axis == 2 ? row / ROWS
                                            : 0);
      exists = exists && at[axis] < loop.extents[axis];
    }
    if (!exists) continue;
    make_opaque(at);
    if constexpr (!FOLDS) {
      if (!loop.folds) {
        compute_rows<Anywhere, V, 1>(loop, outer, at, number, op, numbers, one, args...);
        continue;
      }
    }
    compute_rows<Folded, V, 1>(loop, outer, at, number, op, numbers, one, args...);
  }
}

// Bring the packs of a warp, ROWS rows of them, into the L2 cache: their loads wait less then. `index`:
// of its first element.
template <int V, int ROWS, int W, int OUTER, int N, class Arg>
__device__ inline void prefetch_rows(const Elements<Windows<W, OUTER>, N>&, const ptrdiff_t*,
                                     ptrdiff_t, const ptrdiff_t (&)[W], const Arg&) {}
template <int V, int ROWS, int W, int OUTER, int N, class T, int A, int B>
__device__ inline void prefetch_rows(const Elements<Windows<W, OUTER>, N>& loop,
                                     const ptrdiff_t* strides, ptrdiff_t offset,
                                     const ptrdiff_t (&index)[W], const Window<T, A, B>& window) {
  enum { SIZE = sizeof(typename Stored<T>::type) };
  if (V * SIZE % 16) return;
  const int row = threadIdx.x & 31;
  if (row >= ROWS || index[1] + row >= loop.extents[1]) return;
#pragma unroll
  for (int k = 0; k < W; ++k)
    offset += (index[k] + (k == 1 ? row : 0) + (k < A ? window.first[k] : 0)) * strides[k];
  const int columns = (int)least(32 * V, loop.extents[0] - index[0]);
  prefetch(element(window.data, Bytes{offset}), columns * SIZE);
}

// A thread's elements of a tile that begins at `first`: all rows of its pack at once where their
// windows lie inside. Inlined by force: as a function it would take the parameters from the stack.
template <class Tile, int V, int W, int OUTER, int N, class Op, class... Args, int... K>
__device__ __forceinline__ void compute_tile(const Elements<Windows<W, OUTER>, N>& loop,
                                             const Offsets<OUTER, N>& outer,
                                             const ptrdiff_t (&first)[W], int lanes,
                                             ptrdiff_t number, const Op& op,
                                             Numbers<K...> numbers, const Args&... args) {
  enum { ROWS = Tile::rows(V), PLANES = Tile::planes(V), COLUMNS = 32 * V };
  enum { LAYERS = in_layers<Tile, Op, Args...> };
  // To ask which boundary there is, at each pack or with packs at edges, would be much code.
  enum { KNOWN = (knows_boundary<Args> && ...) };
  // Where the reach is narrow, to find what lies outside of each pack costs less than edges.
  enum { WHOLE_ROWS = KNOWN && Tile::NARROW && V > 1, EDGES = KNOWN && Tile::PACKED_EDGES ? V : 1 };
  ptrdiff_t index[W];  // of a warp's first element; its lanes are in the same rows
#pragma unroll
  for (int k = 0; k < W; ++k) index[k] = first[k];
  index[0] += (threadIdx.x & (lanes - 32)) * V;
  if (W > 1) index[W > 1] += (threadIdx.x / 32 >> lanes / 64) * ROWS;  // of 32, 64 or 128
  if (index[0] >= loop.extents[0] || index[W > 1] >= loop.extents[W > 1]) return;
  if constexpr (Tile::PREFETCHED && V > 1)
    (prefetch_rows<V, ROWS>(loop, loop.strides[K], outer.offset[K], index, args), ...);
  int begin = 0, end = COLUMNS;  // columns whose windows lie inside
  bool inside = true;            // along the other axes
#pragma unroll
  for (int k = 1; k < W; ++k) {
    const int extent = k == 1 ? (int)ROWS : k == 2 ? (int)PLANES : 1;
    inside = inside && index[k] >= loop.begin[k] && index[k] + extent <= loop.end[k];
  }
  // Layers find out themselves what is outside.
  if (!inside && !(LAYERS && V > 1)) begin = end;
  if (!WHOLE_ROWS) {
    const ptrdiff_t low = loop.begin[0] - index[0] + (V - 1), high = loop.end[0] - index[0];
    if (low > begin) begin = low < end ? (int)low & -V : end;
    if (high < end) end = high > begin ? (int)high & -V : begin;
  }
  if (begin > 0 || end < COLUMNS)
    compute_edges<EDGES, (V > 1), ROWS, PLANES>(loop, outer, index, begin, end, COLUMNS, number, op,
                                                numbers, args...);
  const int column = (threadIdx.x & 31) * V;
  index[0] += column;
  if (column < begin || column >= end || (WHOLE_ROWS && index[0] >= loop.extents[0])) return;
  make_opaque(index);
  typedef typename Choose<WHOLE_ROWS, InRows, AllInside>::type Where;
  // Rows that there is code for: it grows with the elements of a pack, but where operations select.
  enum {
    FEW = (Tile::BYTES && V > 8 && !in_pairs<Op, Where, V, Args...>) || (Tile::HEAVY && V > 4),
    SOME = FEW ? 2 : ROWS
  };
  if constexpr (LAYERS) {
    if (inside || V == 1) {
      compute_layered<true, Tile, Where, V>(loop, outer, index, op, args...);
    } else {
      make_opaque(index);  // it would keep what both ways have in common
      compute_layered<false, Tile, Where, V>(loop, outer, index, op, args...);
    }
  } else if constexpr (SOME == ROWS) {
    compute_rows<Where, V, ROWS>(loop, outer, index, number, op, numbers,
                                 typename UpTo<ROWS * PLANES>::type(), args...);
  } else {
#pragma unroll 1
    for (int row = 0; row < ROWS; row += SOME, index[W > 1] += SOME) {
      make_opaque(index);
      compute_rows<Where, V, SOME>(loop, outer, index, number, op, numbers,
                                   typename UpTo<SOME>::type(), args...);
    }
  }
}

// The tiles of a block. Those at the end of the outermost axis come first: edges take longer, and
// nothing has to wait for them.
template <class Tile, int V, int W, int OUTER, int N, class Op, class... Args, int... K>
__device__ inline void compute_tiles(const Elements<Windows<W, OUTER>, N>& loop, const Op& op,
                                     Numbers<K...> numbers, const Args&... args) {
  const int lanes = Tile::lanes(V, loop.extents[0]);
  unsigned int rest = blockIdx.x;
  ptrdiff_t first[W];
#pragma unroll
  for (int k = 0; k < W; ++k) {
    const unsigned int next = loop.divisors[k].divide(rest);
    unsigned int tile = rest - next * loop.tiles[k];
    if (k == W - 1) tile = (tile > 0 ? tile : loop.tiles[k]) - 1;
    first[k] = (ptrdiff_t)tile * extent_of<Tile>(V, k, lanes) * (k == W - 1 ? (int)Tile::STEPS : 1);
    rest = next;
  }
  const Offsets<OUTER, N> outer(loop.outer, (ptrdiff_t)rest);
#pragma unroll 1
  for (int step = 0; step < Tile::STEPS && first[W - 1] < loop.extents[W - 1]; ++step) {
    make_opaque(first);
    compute_tile<Tile, V>(loop, outer, first, lanes, rest, op, numbers, args...);
    first[W - 1] += extent_of<Tile>(V, W - 1, lanes);
  }
}

template <class Tile, int W, int OUTER, int N, class Op, class... Args, int... K>
__device__ inline void each_window(const Elements<Windows<W, OUTER>, N>& loop, const Op& op,
                                   Numbers<K...> numbers, const Args&... args) {
  enum { V = PackSize<Args...>::value };
  if constexpr (V > 1) {
    if (loop.packed) {
      compute_tiles<Tile, V>(loop, op, numbers, args...);
      return;
    }
  }
  typedef Stage<Tile, W, Args...> Staging;
  if constexpr (Staging::FITS)
    compute_staged<Staging>(loop, op, numbers, args...);
  else
    compute_tiles<Tile, 1>(loop, op, numbers, args...);
}

// Copies of parameters would leave the constant memory that they are in.
#define KSPEC_CAPTURE &
#define KSPEC_WINDOW(name, window, ...) (window).read(__VA_ARGS__)
#define KSPEC_WINDOW_CHECKED(name, window, ...) (window).read(__VA_ARGS__)

#endif

// Call op(i, x, y, ...) for all elements that a thread is given: those of a tile on a GPU.
template <class Tile, int W, int OUTER, int N, class Op, class... Args>
__device__ inline void for_each_window(const Elements<Windows<W, OUTER>, N>& loop, const Op& op,
                                       const Args&... args) {
  each_window<Tile>(loop, op, typename UpTo<N>::type(), args...);
}

}  // namespace kspec
