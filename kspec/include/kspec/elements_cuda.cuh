// The loop on a GPU: which elements a thread takes, for each layout. One pack (or two elements) a
// thread and no loop: the hardware hands out blocks faster than a grid-stride loop.
#pragma once

#include "kspec/elements.cuh"
#include "kspec/slots.cuh"

// One element a thread; a loop all the same, for the user's `continue`.
#define KSPEC_ELEMENTS(i, elements)                                                            \
  for (ptrdiff_t i = kspec::thread_number(); i < (elements).size(); i = (elements).size())
#define KSPEC_AT(i, elements) (elements).at(i)

namespace kspec {

__device__ inline ptrdiff_t thread_number() {
  return (ptrdiff_t)blockIdx.x * blockDim.x + threadIdx.x;
}

// ---- Flat

template <int V> struct FlatAccessor {
  ptrdiff_t i;
  bool moving, aligned;

  template <class T> __device__ inline const T* first(const T* data) const { return data + i; }
  template <class T> __device__ inline void load(const T* data, Pack<T, V>& pack) const {
    if (!moving)
      pack.fill(*data);
    else if (aligned)
      pack.load(data + i);
    else
      pack.load_unaligned(data + i);
  }
  template <class T> __device__ inline void store(T* data, const T (&value)[V]) const {
    if (aligned) {
      store_pack(data + i, value);
    } else {
#pragma unroll
      for (int j = 0; j < V; ++j) data[i + j] = value[j];
    }
  }
};

template <int N, class Op, class... Args, int... K>
__device__ inline void each(const Elements<Flat, N>& elements, const Op& op, Numbers<K...>,
                            const Args&... args) {
  enum { V = PackSize<Args...>::value };
  const auto accessor = [&](int k, ptrdiff_t i) {
    return FlatAccessor<V>{i, elements.moves(k), (elements.aligned >> k & 1) != 0};
  };
  const ptrdiff_t packs = (size_t)(elements.size() - elements.head - elements.tail) / V;
  const ptrdiff_t thread = thread_number();
  if (thread < packs) {
    const ptrdiff_t i = elements.head + thread * V;
    compute_packs<V>(elements.packed(), op, i,
                     Operand<Args, V, FlatAccessor<V>>(args, accessor(K, i))...);
  } else if (V > 1 && thread < packs + elements.size() - packs * V) {
    // What no pack holds, element by element: before the first pack, and after the last.
    const ptrdiff_t rest = thread - packs;
    const ptrdiff_t i = rest < elements.head ? rest : rest + packs * V;
    compute<1>(op, i, 1, All(), Operand<Args, 1, FlatAccessor<1>>(
        args, FlatAccessor<1>{i, elements.moves(K), true})...);
  }
}

// ---- Strided: two elements a thread, a block's width apart

template <int V> struct StridedAccessor {
  ptrdiff_t offset[V];
  int count;

  template <class T> __device__ inline void load(const T* data, Pack<T, V>& pack) const {
#pragma unroll
    for (int j = 0; j < V; ++j) pack.put(j, *element(data, Bytes{offset[j]}));
  }
  template <class T> __device__ inline void store(T* data, const T (&value)[V]) const {
#pragma unroll
    for (int j = 0; j < V; ++j)
      if (j < count) *element(data, Bytes{offset[j]}) = value[j];
  }
};

template <int AXES, int N, class Op, class... Args, int... K>
__device__ inline void each(const Elements<Strided<AXES>, N>& elements, const Op& op,
                            Numbers<K...>, const Args&... args) {
  enum { V = 2 };
  const ptrdiff_t width = blockDim.x;
  const ptrdiff_t i = (ptrdiff_t)blockIdx.x * V * width + threadIdx.x;
  if (i >= elements.size()) return;
  const int count = i + width < elements.size() ? 2 : 1;
  const Offsets<AXES, N> first(elements.axes, i);
  // The last thread may have a single element; it loads that twice.
  const Offsets<AXES, N> second(elements.axes, count == 2 ? i + width : i);
  compute<V>(op, i, width, First{count}, Operand<Args, V, StridedAccessor<V>>(
      args, StridedAccessor<V>{{first.offset[K], second.offset[K]}, count})...);
}

// ---- Rows: all threads of a row share one split of the index. A thread has little to do besides
// finding its pack, so that is done with as few 64-bit numbers as possible.

template <int V> struct RowsAccessor {
  ptrdiff_t row;       // where it begins, in bytes
  unsigned int inner;  // the first element of the pack
  bool moving;

  template <class T> __device__ inline void load(const T* data, Pack<T, V>& pack) const {
    if (moving)
      pack.load(element(data, Bytes{row}) + inner);
    else
      pack.fill(*element(data, Bytes{row}));
  }
  template <class T> __device__ inline void store(T* data, const T (&value)[V]) const {
    write_pack(element(data, Bytes{row}) + inner, value);
  }
};

template <int N, class Op, class... Args, int... K>
__device__ inline void each(const Elements<Rows, N>& elements, const Op& op, Numbers<K...>,
                            const Args&... args) {
  enum { V = PackSize<Args...>::value };
  const unsigned int lane = threadIdx.x & ((1u << elements.lanes) - 1);
  unsigned int pack = (blockIdx.x * elements.turns << elements.lanes) + lane;
  const unsigned int row = (blockIdx.y + blockIdx.z * gridDim.y) * (blockDim.x >> elements.lanes) +
                           (threadIdx.x >> elements.lanes);
  if (pack >= elements.packs || row >= elements.rows) return;
  const Offsets<8, N> at = elements.outer.ndim == 1
                               ? Offsets<8, N>(elements.outer, row, OneAxis())
                               : Offsets<8, N>(elements.outer, row, Narrow());
#pragma unroll 1
  for (int turn = 0; turn < elements.turns && pack < elements.packs; ++turn) {
    const ptrdiff_t i = (row * (ptrdiff_t)elements.packs + pack) * V;
    compute<V>(op, i, 1, All(), Operand<Args, V, RowsAccessor<V>>(
        args, RowsAccessor<V>{at.offset[K], pack * V, elements.axes.strides[K][0] != 0})...);
    pack += 1u << elements.lanes;
  }
}

// ---- Packs: V elements that follow each other in the order of the loop

template <int V, class Loop> struct PacksAccessor {
  const Loop& loop;
  const int k;
  const ptrdiff_t i, offset;
  const int inside;  // elements from here to the end of the row

  __device__ inline bool is_flat() const { return loop.flat >> k & 1; }
  __device__ inline bool is_aligned() const { return loop.aligned >> k & 1; }

  template <class T> __device__ inline void load(const T* data, Pack<T, V>& pack) const {
    const ptrdiff_t step = loop.axes.strides[k][0];
    // The blocks around a pack must hold nothing but the array, or the row: not so at its ends.
    const int beside = is_aligned() || step == 0 ? 0 : V;
    if (is_flat()) {
      if (is_aligned() || (i >= V && i + 2 * V <= loop.size_))
        load_row(data + i, pack);
      else
        pack.load_each([&](int j) { return data[i + j]; });
    } else if (inside < V + beside || inside > loop.axes.extents[0] - beside) {
      for_each_element([&](int j, ptrdiff_t at) { pack.put(j, *element(data, Bytes{at})); });
    } else if (step == 0) {
      pack.fill(*element(data, Bytes{offset}));
    } else if (step == sizeof(T)) {
      load_row(element(data, Bytes{offset}), pack);
    } else {
#pragma unroll
      for (int j = 0; j < V; ++j) pack.put(j, *element(data, Bytes{offset + j * step}));
    }
  }
  template <class T> __device__ inline void store(T* data, const T (&value)[V]) const {
    if (is_aligned() && is_flat())
      write_pack(data + i, value);
    else if (is_aligned() && inside >= V && loop.axes.strides[k][0] == sizeof(T))
      write_pack(element(data, Bytes{offset}), value);
    else
      for_each_element([&](int j, ptrdiff_t at) { *element(data, Bytes{at}) = value[j]; });
  }

 private:
  template <class T> __device__ inline void load_row(const T* data, Pack<T, V>& pack) const {
    if (is_aligned())
      pack.load(data);
    else
      pack.load_unaligned(data);
  }
  // Along the row, and from its end to the next one: of two axes that is the same step everywhere,
  // of more the index is split again.
  template <class Visit> __device__ inline void for_each_element(const Visit& visit) const {
    const ptrdiff_t step = loop.axes.strides[k][0];
    const ptrdiff_t turn = loop.axes.strides[k][1] - loop.axes.extents[0] * step;
    ptrdiff_t at = offset;
    int left = inside;
#pragma unroll
    for (int j = 0; j < V; ++j) {
      visit(j, at);
      at += step;
      if (--left == 0 && j + 1 < V) {
        at = loop.axes.ndim <= 2 ? at + turn : loop.axes.offset(k, (unsigned int)(i + j + 1));
        left = (int)loop.axes.extents[0];
      }
    }
  }
};

template <int N, class Op, class... Args, int... K>
__device__ inline void each(const Elements<Packs, N>& elements, const Op& op, Numbers<K...>,
                            const Args&... args) {
  enum { V = PackSize<Args...>::value };
  typedef PacksAccessor<V, Elements<Packs, N>> Accessor;
  const int size = (int)elements.size(), packs = size / V;
  const int thread = blockIdx.x * blockDim.x + threadIdx.x;
  if (thread < packs) {
    const int i = thread * V;
    const Offsets<8, N> at(elements.axes, (unsigned int)i, Narrow());
    const int inside = (int)(elements.axes.extents[0] - at.inner);
    compute<V>(op, i, 1, All(), Operand<Args, V, Accessor>(
        args, Accessor{elements, K, i, at.offset[K], inside})...);
  } else if (V > 1 && thread < packs + size % V) {
    const int i = thread - packs + packs * V;
    const Offsets<8, N> at(elements.axes, (unsigned int)i, Narrow());
    compute<1>(op, i, 1, All(), Operand<Args, 1, StridedAccessor<1>>(
        args, StridedAccessor<1>{{at.offset[K]}, 1})...);
  }
}

// ---- Tiles: 4 x 4 elements a thread, each operand read along its own axis, transposed by naming
// registers. A warp covers 32 x 16 elements, so that every access fills whole sectors.

enum { TILE = 4, LANES_ACROSS = 8, LANES_DOWN = 4, WARPS_ACROSS = 2, WARPS_DOWN = 4 };

struct Inside {  // which elements of the tile exist
  int across, down;
  __device__ inline bool operator[](int j) const { return j % TILE < across && j / TILE < down; }
  __device__ inline bool all() const { return across >= TILE && down >= TILE; }
};

struct TileAccessor {
  ptrdiff_t offset, across, down;  // in bytes: of the first element, to the next ones
  Inside inside;

  template <class T> __device__ inline void load(const T* data, Pack<T, TILE * TILE>& pack) const {
    Pack<T, TILE> line;
    if (inside.all() && across == sizeof(T)) {
#pragma unroll
      for (int r = 0; r < TILE; ++r) {
        line.load(element(data, Bytes{offset + r * down}));
#pragma unroll
        for (int c = 0; c < TILE; ++c) pack.put(r * TILE + c, line.get(c));
      }
    } else if (inside.all() && down == sizeof(T)) {
#pragma unroll
      for (int c = 0; c < TILE; ++c) {
        line.load(element(data, Bytes{offset + c * across}));
#pragma unroll
        for (int r = 0; r < TILE; ++r) pack.put(r * TILE + c, line.get(r));
      }
    } else {
#pragma unroll
      for (int j = 0; j < TILE * TILE; ++j)
        if (inside[j]) pack.put(j, *element(data, Bytes{at(j)}));
    }
  }
  template <class T> __device__ inline void store(T* data, const T (&value)[TILE * TILE]) const {
    if (inside.all() && across == sizeof(T)) {
#pragma unroll
      for (int r = 0; r < TILE; ++r) {
        T row[TILE];
#pragma unroll
        for (int c = 0; c < TILE; ++c) row[c] = value[r * TILE + c];
        write_pack(element(data, Bytes{offset + r * down}), row);
      }
    } else {
#pragma unroll
      for (int j = 0; j < TILE * TILE; ++j)
        if (inside[j]) *element(data, Bytes{at(j)}) = value[j];
    }
  }

 private:
  __device__ inline ptrdiff_t at(int j) const {
    return offset + j % TILE * across + j / TILE * down;
  }
};

// The same elements of a block where their packs are not aligned: 16 that follow each other along
// axis 1 a thread, lanes side by side along axis 0. What runs along axis 1 in memory is turned in
// shared memory. All threads of a block come here, also those without elements.
enum { SIDE = TILE * LANES_ACROSS * WARPS_ACROSS, WARPS = WARPS_ACROSS * WARPS_DOWN };

template <int WIDEST> struct TurnedAccessor {  // bytes of the widest element that is turned
  ptrdiff_t offset, across, down;  // in bytes: of the block's first element, to the next ones
  int right, below;                // elements of the block that exist

  static __device__ inline int x() { return threadIdx.x % SIDE; }
  static __device__ inline int y() { return threadIdx.x / SIDE * TILE * TILE; }
  __device__ inline int count() const { return x() < right ? below - y() : 0; }
  __device__ inline ptrdiff_t at(int j) const { return offset + x() * across + (y() + j) * down; }

  template <class T> __device__ inline void load(const T* data, Pack<T, TILE * TILE>& pack) const {
    if constexpr (FitsWords<T>::value && (int)sizeof(T) <= WIDEST) {
      if (down == sizeof(T) && across != sizeof(T)) {
        turn(data, pack);
        return;
      }
    }
#pragma unroll
    for (int j = 0; j < TILE * TILE; ++j)
      if (j < count()) pack.put(j, *element(data, Bytes{at(j)}));
  }
  template <class T> __device__ inline void store(T* data, const T (&value)[TILE * TILE]) const {
#pragma unroll
    for (int j = 0; j < TILE * TILE; ++j)
      if (j < count()) *element(data, Bytes{at(j)}) = value[j];
  }

 private:
  static __device__ inline unsigned char* room() {
    __shared__ __align__(16) unsigned char bytes[SIDE * (SIDE + 1) * WIDEST];
    return bytes;
  }
  template <class T> __device__ inline void turn(const T* data, Pack<T, TILE * TILE>& pack) const {
    enum { HALVES = SIDE / 32, LINES = SIDE / WARPS };
    typedef typename Word<sizeof(T)>::type Bits;
    Bits(*kept)[SIDE + 1] = reinterpret_cast<Bits(*)[SIDE + 1]>(room());
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    Bits loaded[LINES][HALVES];
#pragma unroll
    for (int c = 0; c < LINES; ++c) {
#pragma unroll
      for (int h = 0; h < HALVES; ++h) {
        const int line = c * WARPS + warp, place = h * 32 + lane;
        if (line < right && place < below)
          loaded[c][h] = *reinterpret_cast<const Bits*>(
              element(data, Bytes{offset + line * across + place * (ptrdiff_t)sizeof(T)}));
      }
    }
    __syncthreads();  // an operand before this one has been read
#pragma unroll
    for (int c = 0; c < LINES; ++c) {
#pragma unroll
      for (int h = 0; h < HALVES; ++h) kept[c * WARPS + warp][h * 32 + lane] = loaded[c][h];
    }
    __syncthreads();
#pragma unroll
    for (int j = 0; j < TILE * TILE; ++j) {
      T value;
      memcpy(&value, &kept[x()][y() + j], sizeof(T));
      pack.put(j, value);
    }
  }
};

template <int N, class Op, class... Args, int... K>
__device__ inline void each(const Elements<Tiles, N>& elements, const Op& op, Numbers<K...>,
                            const Args&... args) {
  const unsigned int rest = elements.divisors[0].divide(blockIdx.x);
  const unsigned int outer = elements.divisors[1].divide(rest);
  const Offsets<8, N> base(elements.outer, outer, Narrow());
  const ptrdiff_t block0 = (ptrdiff_t)(blockIdx.x - rest * elements.tiles[0]) * SIDE;
  const ptrdiff_t block1 = (ptrdiff_t)(rest - outer * elements.tiles[1]) * SIDE;
  if (elements.turned) {
    const ptrdiff_t right = elements.extents[0] - block0, below = elements.extents[1] - block1;
    enum { widest = PackSize<Args...>::widest };
    typedef TurnedAccessor<(widest < 8 ? widest : 8)> Turned;
    const auto accessor = [&](int k) {
      const ptrdiff_t across = elements.strides[k][0], down = elements.strides[k][1];
      return Turned{base.offset[k] + block0 * across + block1 * down, across, down,
                    right < SIDE ? (int)right : SIDE, below < SIDE ? (int)below : SIDE};
    };
    compute<TILE * TILE>(op, 0, 0, First{accessor(0).count()},
                         Operand<Args, TILE * TILE, Turned>(args, accessor(K))...);
    return;
  }
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int x = warp % WARPS_ACROSS * LANES_ACROSS + lane % LANES_ACROSS;
  const int y = warp / WARPS_ACROSS * LANES_DOWN + lane / LANES_ACROSS;
  const ptrdiff_t i0 = block0 + x * TILE, i1 = block1 + y * TILE;
  const ptrdiff_t left = elements.extents[0] - i0, below = elements.extents[1] - i1;
  if (left <= 0 || below <= 0) return;
  const Inside inside{left < TILE ? (int)left : TILE, below < TILE ? (int)below : TILE};
  compute<TILE * TILE>(op, 0, 0, inside, Operand<Args, TILE * TILE, TileAccessor>(
      args, TileAccessor{base.offset[K] + i0 * elements.strides[K][0] + i1 * elements.strides[K][1],
                      elements.strides[K][0], elements.strides[K][1], inside})...);
}

}  // namespace kspec
