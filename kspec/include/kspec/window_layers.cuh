// A thread's part of a tile where the operation is a sum of layers, see layers.cuh: rows of windows
// of two axes, planes of three. Layers and rows outside of the array stand for others, for all of a
// warp alike: to find which costs little.
#pragma once

#include "kspec/copy_async.cuh"
#include "kspec/layers.cuh"
#include "kspec/window_operand.cuh"
#include "kspec/window_tile.cuh"

namespace kspec {

#ifndef KSPEC_CHUNKED

// Whether a tile is computed layer by layer.
template <class Tile, class Op, class T> constexpr bool adds_layers() {
  if constexpr (Tile::LAYERED) return adds_alike<Op, T>;
  return false;
}
template <class Tile, class Op, class... Args> constexpr bool in_layers = false;
template <class Tile, class First, class... Parts, class T, int A, int B, class Result>
constexpr bool in_layers<Tile, Layered<First, Parts...>, Window<T, A, B>, Result> =
    adds_layers<Tile, Layered<First, Parts...>, T>();

// How far it is to the element that stands for the one `distance` away along an axis, counted from
// the innermost. `missing`: none does. INSIDE: it is in the array.
template <bool INSIDE, class Reach, class Near>
__device__ inline int folded_step(const Near& near, int axis, int distance, bool& missing) {
  missing = false;
  if constexpr (INSIDE) return distance;
  const auto& window = near.window();
  const int own = (int)near.own(axis), extent = (int)window.extents[axis];
  const int last = extent - 1 + Reach::after(axis);  // what is farther away is near no result
  const int place = own + distance < last ? own + distance : last;
  const int found = fold(place, extent, window.boundary());
  missing = window.boundary() == CONSTANT && found != place;
  return found - own;
}

// Bring what a warp will load of its rows in the layers to come, up to END, into the L2 cache: a
// sector of a lane. `index`: of the lane's first element, which operand 0 has at `offset`.
template <int V, int ROWS, int END, int W, class Loop, class Source>
__device__ inline void prefetch_layers(const Loop& loop, ptrdiff_t offset, const ptrdiff_t* index,
                                       const Source& window) {
  enum { SIZE = sizeof(typename Stored<typename Source::type>::type), SECTOR = 32 / SIZE };
  enum { LANES = V * SIZE, AT_ONCE = 32 / LANES };  // of a row, which has as many sectors
  enum { LOADED = 3 };                              // layers that are loaded at once
  const int lane = threadIdx.x & 31, below = lane / LANES;
  const int column = lane % LANES * SECTOR - lane * V;
  if (index[0] + column >= loop.extents[0]) return;
  const ptrdiff_t* strides = loop.strides[0];
  offset += column * SIZE + below * strides[1];
#pragma unroll
  for (int k = 0; k < W; ++k) offset += window.first[k] * strides[k];
#pragma unroll
  for (int layer = LOADED - 1; layer < END; ++layer) {
#pragma unroll
    for (int row = 0; row < ROWS; row += AT_ONCE)
      if (row + below < ROWS)
        prefetch_sector(element(window.data,
                                Bytes{offset + layer * strides[W - 1] + row * strides[1]}));
  }
}

// The packs of a thread, of which the first one has `index`. INSIDE: so is all that they read, but
// for columns.
template <bool INSIDE, class Tile, class Where, int V, int W, int OUTER, class Op, class Source,
          class Result>
__device__ __forceinline__ void compute_layered(const Elements<Windows<W, OUTER>, 2>& loop,
                                                const Offsets<OUTER, 2>& outer,
                                                const ptrdiff_t* index, const Op& op,
                                                const Source& source, const Result& result) {
  typedef typename Tile::Reach Reach;
  enum { DEEP = W > 2, LAYERS = DEEP ? Tile::planes(V) : Tile::rows(V) };
  enum { ROWS = DEEP ? Tile::rows(V) : 1, ABOVE = DEEP ? Reach::before(1) : 0 };
  typedef Layer<typename Source::type, ABOVE, DEEP ? Reach::after(1) : 0, Reach::before(0),
                Reach::after(0), ROWS, V> Loaded;
  ptrdiff_t first[2];
  find_first(loop, outer, index, first);
  if constexpr (INSIDE && DEEP && V > 1)
    prefetch_layers<V, ROWS, LAYERS + Reach::after(W - 1), W>(loop, first[0], index, source);
  const auto window = operand_at(source, accessor_of<Where, V>(loop, first, index, 0, 0, 0));
  const auto near = window.item(0);
  int below[Loaded::rows];
  bool no_row[Loaded::rows];
#pragma unroll
  for (int row = 0; row < Loaded::rows; ++row) {
    below[row] = no_row[row] = 0;
    if constexpr (DEEP) below[row] = folded_step<INSIDE, Reach>(near, 1, row - ABOVE, no_row[row]);
  }
  const auto load = [&](Loaded& layer, int k) {
    bool no_layer;
    const int ahead = folded_step<INSIDE, Reach>(near, W - 1, k - Reach::before(W - 1), no_layer);
#pragma unroll
    for (int row = 0; row < Loaded::rows; ++row) {
#pragma unroll
      for (int column = 0; column < Loaded::columns; ++column) {
        auto& value = layer.value[row][column];
        if constexpr (DEEP) value = near.read(ahead, below[row], column - Loaded::left);
        else value = near.read(ahead, column - Loaded::left);
        if (no_layer || no_row[row]) value = source.value;
      }
    }
  };
  const auto store = [&](int row, int layer, const auto& compute) {
    auto output = operand_at(result, accessor_of<Where, V>(loop, first, index, 1,
                                                           DEEP ? row : layer, DEEP ? layer : 0));
    compute(output);
    if (INSIDE || (index[W - 1] + layer < loop.extents[W - 1] &&
                   (!DEEP || index[1] + row < loop.extents[1])))
      output.store();
  };
  compute_layers<Loaded, LAYERS, ROWS, V>(op, load, store,
                                          typename UpTo<LAYERS + Op::LAYERS - 1>::type());
}

#endif

}  // namespace kspec
