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

// ---- Tiles: 64 x 64 elements a block, 16 a thread, of which the operation sees 4 at a time.
//
// Where all packs are aligned and whole, a thread has 4 x 4 elements: each operand is read along its
// own axis, and transposed in registers. A warp covers 32 x 16 elements, so that every access fills
// whole sectors. Elsewhere a thread has 16 elements that follow each other along axis 1, lanes side
// by side along axis 0. Operands that run along axis 1 in memory are turned in shared memory, so all
// threads of a block go on, also those without elements.

enum { TILE = PART, LANES_ACROSS = 8, WARPS_ACROSS = 2, SIDE = TILE * LANES_ACROSS * WARPS_ACROSS };
enum { TILE_ITEMS = TILE * TILE };

struct TileThread {
  const bool turned;
  const int right, below;  // elements of the block that exist, along both axes
  int x, y;                // the thread's first one
  int count;               // and how many of them exist

  __device__ inline TileThread(bool turned, ptrdiff_t right, ptrdiff_t below)
      : turned(turned), right(right < SIDE ? (int)right : SIDE),
        below(below < SIDE ? (int)below : SIDE) {
    if (turned) {
      x = column();
      y = group() * TILE_ITEMS;
      count = x < this->right ? this->below - y : 0;
    } else {
      const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
      x = (warp % WARPS_ACROSS * LANES_ACROSS + lane % LANES_ACROSS) * TILE;
      y = (warp / WARPS_ACROSS * TILE + lane / LANES_ACROSS) * TILE;
      count = x < this->right && y < this->below ? (int)TILE_ITEMS : 0;
    }
    if (count > TILE_ITEMS) count = TILE_ITEMS;
  }
  static __device__ inline int column() { return threadIdx.x % SIDE; }
  static __device__ inline int group() { return threadIdx.x / SIDE; }
};

template <int WIDEST> __device__ inline unsigned char* tile_room() {
  __shared__ __align__(16) unsigned char bytes[SIDE * (SIDE + 1) * WIDEST];
  return bytes;
}

template <class Arg, int WIDEST> struct TileOperand {  // bytes of the widest element
  typedef Part<Arg, TILE_ITEMS> Values;
  typedef typename Values::Kept T;
  typedef typename Word<sizeof(T)>::type Bits;

  const Arg& argument;
  const TileThread& thread;
  const ptrdiff_t across, down;  // in bytes: from an element to the next ones
  ptrdiff_t first;               // where the thread's first element is
  const bool still, turned;      // it does not move, or does along axis 1
  Values part;
  Bits loaded[TILE_ITEMS];

  __device__ inline TileOperand(const Arg& argument, const TileThread& thread, ptrdiff_t first,
                                ptrdiff_t across, ptrdiff_t down)
      : argument(argument), thread(thread), across(across), down(down), first(first),
        still((across | down) == 0 || !argument.data),
        turned((down == sizeof(T)) & (across != sizeof(T))) {}

  __device__ inline void fill() {
    if constexpr (Values::IS_READ)
      if (still) part.pack.fill(argument.data ? *at(first) : Values::single(argument));
  }
  // Four packs along the operand's own axis.
  __device__ inline void load_lines() {
    if constexpr (Values::IS_READ) {
      if (still) return;
      const ptrdiff_t step = turned ? across : down;
      const T* line_at = at(first);
      Pack<T, TILE_ITEMS> lines, other;
#pragma unroll
      for (int r = 0; r < TILE; ++r) {
        Pack<T, TILE> line;
        line.load(line_at);
        line_at = element(line_at, Bytes{step});
        lines.template set<TILE>(r, line);
      }
#pragma unroll
      for (int j = 0; j < TILE_ITEMS; ++j) other.put(j, lines.get(j % TILE * TILE + j / TILE));
      part.pack.choose(turned, other, lines);
    }
  }
  // Single elements. Those of a turned operand are loaded along axis 1 by neighbouring threads.
  __device__ inline void load_elements() {
    if constexpr (Values::IS_READ) {
      if (still) return;
      ptrdiff_t from = first, step = down;
      int count = thread.count;
      if (turned) {
        const int x = TileThread::group(), y = TileThread::column();
        from += (x - thread.x) * across + (y - thread.y) * down;
        step = TILE * across;
        count = y < thread.below ? (thread.right - x + TILE - 1) / TILE : 0;
      }
      const T* next = at(from);
#pragma unroll
      for (int j = 0; j < TILE_ITEMS; ++j) {
        if (j < count) loaded[j] = *reinterpret_cast<const Bits*>(next);
        next = element(next, Bytes{step});
      }
    }
  }
  __device__ inline void turn() {
    if constexpr (Values::IS_READ) {
      if (still) return;
      if (turned) {
        Bits(*kept)[SIDE + 1] = reinterpret_cast<Bits(*)[SIDE + 1]>(tile_room<WIDEST>());
        const int x = TileThread::group(), y = TileThread::column();
        __syncthreads();  // an operand before this one has been read
#pragma unroll
        for (int j = 0; j < TILE_ITEMS; ++j) kept[j * TILE + x][y] = loaded[j];
        __syncthreads();
#pragma unroll
        for (int j = 0; j < TILE_ITEMS; ++j) loaded[j] = kept[thread.x][thread.y + j];
      }
#pragma unroll
      for (int j = 0; j < TILE_ITEMS; ++j) {
        T value;
        memcpy(&value, &loaded[j], sizeof(T));
        part.pack.put(j, value);
      }
    }
  }
  // The next four; those of an operand that does not move are all the same.
  __device__ inline void next() {
    if (!still) part.next();
  }
  // The first four of those that are left.
  __device__ inline void store(int left) {
    if constexpr (Values::IS_WRITTEN) {
      if (thread.turned) {
#pragma unroll
        for (int j = 0; j < TILE; ++j)
          if (j < left) *element(argument.data, Bytes{first + j * down}) = part.value[j];
        first += TILE * down;
      } else {
        write_pack(element(argument.data, Bytes{first}), part.value);
        first += down;
      }
    }
  }

 private:
  __device__ inline const T* at(ptrdiff_t offset) const {
    return element(reinterpret_cast<const T*>(argument.data), Bytes{offset});
  }
};

template <int WIDEST, class Op, class... Operands>
__device__ inline void compute_tile(const Op& op, const TileThread& thread,
                                    Operands&&... operands) {
  (operands.fill(), ...);
  if (thread.turned) {
    if constexpr (WIDEST >= 4) {
      (operands.load_elements(), ...);
      (operands.turn(), ...);
    } else {  // single elements take more registers than packs of them
      ((operands.load_elements(), operands.turn()), ...);
    }
  } else {
    if (thread.count == 0) return;
    (operands.load_lines(), ...);
  }
#pragma unroll (WIDEST == 1 ? (int)TILE : 1)
  for (int k = 0; k < TILE; ++k) {
    const int left = thread.count - k * TILE;
    if (left <= 0) break;
    (operands.part.begin(), ...);
#pragma unroll
    for (int j = 0; j < TILE; ++j)
      if (j < left) op(0, operands.part.item(j)...);
    (operands.store(left), ...);
    (operands.next(), ...);
  }
}

template <int N, class Op, class... Args, int... K>
__device__ inline void each(const Elements<Tiles, N>& elements, const Op& op, Numbers<K...>,
                            const Args&... args) {
  if constexpr (PackSize<Args...>::value > 1) {  // others have another layout
    const unsigned int rest = elements.divisors[0].divide(blockIdx.x);
    const unsigned int outer = elements.divisors[1].divide(rest);
    const Offsets<8, N> base(elements.outer, outer, Narrow());
    ptrdiff_t x = (ptrdiff_t)(blockIdx.x - rest * elements.tiles[0]) * SIDE;
    ptrdiff_t y = (ptrdiff_t)(rest - outer * elements.tiles[1]) * SIDE;
    const TileThread thread(elements.turned, elements.extents[0] - x, elements.extents[1] - y);
    x += thread.x;
    y += thread.y;
    const auto first = [&](int k) {
      return base.offset[k] + x * elements.strides[k][0] + y * elements.strides[k][1];
    };
    enum { WIDEST = PackSize<Args...>::widest };
    compute_tile<WIDEST>(op, thread, TileOperand<Args, WIDEST>(
        args, thread, first(K), elements.strides[K][0], elements.strides[K][1])...);
  }
}

}  // namespace kspec
