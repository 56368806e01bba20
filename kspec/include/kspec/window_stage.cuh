// Windows where rows are not made of aligned packs. A block copies what its windows read to shared
// memory, in packs that begin where they are aligned, and elements outside as the boundary says. A warp
// writes its rows from lane to lane so that its lines begin where those of the memory do: without that
// each write touches two of them.
#pragma once

#include "kspec/copy_async.cuh"
#include "kspec/elements.cuh"
#include "kspec/neighbours.cuh"
#include "kspec/shuffle.cuh"
#include "kspec/window_tile.cuh"

namespace kspec {

#ifndef KSPEC_CHUNKED

// Bytes of an element that is staged; 0: an operand that is no window.
template <class Arg> struct StagedSize { enum { value = 0 }; };
template <class T, int A, int B> struct StagedSize<Window<T, A, B>> {
  enum { value = sizeof(typename Stored<T>::type) };
};

__device__ inline ptrdiff_t least(ptrdiff_t a, ptrdiff_t b) { return a < b ? a : b; }

// The elements that a block takes, and the room of its windows. The numbers were measured on an H200;
// kspec/runtime/schedules/window_schedule.py has the same.
template <class Tile, int W, class... Args> struct Stage {
  enum {
    WARPS = Tile::THREADS / 32,  // at most: where there are few rows, some of them are left out
    COLUMNS = Tile::ELEMENTS > 2 ? 4 : (int)Tile::ELEMENTS,  // of a thread, 32 elements apart
    ROWS = W == 1 ? 1 : Tile::VOLUME > 36 ? 4 : 6,
    ROOM = 47 << 10  // of 48 KB, which need no permission: there is an Arrival, too
  };
  // Warps side by side.
  static __device__ constexpr int across(ptrdiff_t columns) {
    return W == 1 ? (int)WARPS : columns > 32 * COLUMNS ? 2 : 1;
  }
  static __device__ constexpr int extent(int axis, int across, int warps) {
    return axis == 0 ? 32 * COLUMNS * across : warps / across * ROWS;
  }
  // How far a window of A axes reaches, and the elements with these neighbours.
  static __device__ constexpr int reach(int axis, int A) {
    return axis < A ? Tile::farthest(axis) : 0;
  }
  static __device__ constexpr int all(int axis, int A, int across, int warps) {
    return extent(axis, across, warps) + 2 * reach(axis, A);
  }
  // Bytes from a row to the next, but for what makes these begin at the same multiple of 16 bytes as in
  // the array. There is room for the 16 bytes around the ends.
  static __device__ constexpr int row(int size, int across) {
    return all(0, 1, across, WARPS) * size + 30 & -16;
  }
  static constexpr int bytes(int size, int across) {
    return size > 0 ? all(1, W, across, WARPS) * (row(size, across) + 15) + 31 & -16 : 0;
  }
  // Where the room of an operand begins; that of one behind the last: the end of all.
  static __device__ constexpr int begin(int operand) {
    const int sizes[] = {StagedSize<Args>::value..., 0};
    int found = 0;
    for (int k = 0; k < operand; ++k)
      found += largest(bytes(sizes[k], across(1)), bytes(sizes[k], across(1 << 20)));
    return found;
  }
  enum {
    BYTES = begin(sizeof...(Args)),
    // Rows of narrow elements take as many instructions for each as those of wide ones.
    FITS = (W == 1 || (W == 2 && Tile::ELEMENTS <= 4)) && !Tile::TALL && !Tile::LARGE &&
           !Tile::FLAT && (int)BYTES <= (int)ROOM
  };

  // Dynamic, so that kernels that run with packs leave it to the cache.
  static __device__ inline unsigned char* room() {
    extern __shared__ uint4 kspec_stage[];
    return reinterpret_cast<unsigned char*>(kspec_stage);
  }
};

// ---- What is staged

// Where elements of a window are in shared memory, and bytes to the next one along each axis.
struct StagedPlace {
  unsigned char* first;
  int size, row;

  __device__ inline StagedPlace at(int x, int y) const {
    return {first + x * size + y * row, size, row};
  }
};

// Stage what the elements of a block from `first` on read of a window; `expected` are bytes that will
// arrive. Operands that are no windows stay where they are.
template <class Stage, int W, class Loop, class Arg>
__device__ inline StagedPlace stage(const Arg&, const Loop&, const ptrdiff_t*, ptrdiff_t,
                                    const ptrdiff_t (&)[W], int, unsigned char*, Arrival&, int&) {
  return StagedPlace{};
}
template <class Stage, int W, class Loop, class T, int A, int B>
__device__ inline StagedPlace stage(const Window<T, A, B>& window, const Loop& loop,
                                    const ptrdiff_t* strides, ptrdiff_t offset,
                                    const ptrdiff_t (&first)[W], int across, unsigned char* room,
                                    Arrival& arrival, int& expected) {
  typedef typename Stored<T>::type Element;
  enum { SIZE = sizeof(Element), SLACK = 30 / SIZE + 1, Y = W > 1 };
  const int warps = blockDim.x / 32, warp = threadIdx.x / 32, lane = threadIdx.x & 31;
  const bool packed = FitsWords<Element>::value && strides[0] == SIZE;
  const ptrdiff_t data = reinterpret_cast<ptrdiff_t>(window.data) + offset;
  ptrdiff_t begin[W], start = data;
  bool whole = packed;  // all of it lies in the array, with 16 bytes around it
#pragma unroll
  for (int k = 0; k < W; ++k) {
    begin[k] = first[k] - Stage::reach(k, A) + (k < A ? window.first[k] : 0);
    start += begin[k] * strides[k];
    const ptrdiff_t extent = k < A ? window.extents[k] : loop.extents[k], slack = k ? 0 : SLACK;
    whole = whole && begin[k] >= slack && begin[k] + Stage::all(k, A, across, warps) + slack <= extent;
  }
  const StagedPlace place{room + ((int)start & 15), SIZE,
                          Stage::row(SIZE, across) + (W > 1 ? (int)strides[Y] & 15 : 0)};
  const StagedPlace found = place.at(Stage::reach(0, A), W > 1 ? Stage::reach(1, A) : 0);
  const int lines = W > 1 ? Stage::all(1, A, across, warps) : 1, bytes = Stage::row(SIZE, across);
  if (HAS_BULK && whole) {
    for (int line = lane; warp == 0 && line < lines; line += 32) {
      const ptrdiff_t from = start + (W > 1 ? line * strides[Y] : 0);
      const int skip = (int)from & 15;
      arrival.load(place.at(0, line).first - skip, reinterpret_cast<const void*>(from - skip), bytes);
    }
    expected += lines * bytes;
    return found;
  }
  // Columns that something reads, and bytes to the ends of a row of the array.
  const int wide = (int)least(Stage::all(0, A, across, warps),
                              loop.extents[0] - first[0] + 2 * Stage::reach(0, A));
  const int before = (int)least(begin[0], 16) * SIZE;
  const int behind = (int)least(window.extents[0] - begin[0], wide + 16) * SIZE;
  // Each lane looks for a line of its warp: where column 0 of the array stands, or 0 if nowhere, and
  // which of its packs lie in the array.
  ptrdiff_t own = data;
  bool inside = packed;
  if (W > 1) {
    const ptrdiff_t wanted = begin[Y] + warp + lane * warps;
    const ptrdiff_t index = A > 1 ? index_in(window, wanted, Y) : least(wanted, loop.extents[Y] - 1);
    inside = inside && index >= 0 && index == wanted;
    own = index < 0 ? 0 : data + index * strides[Y];
  }
  int own_low = 0, own_end = 0;
  if (inside) {
    const int skip = (int)(own + begin[0] * SIZE) & 15;
    const int stop = behind + skip < 0 ? 0 : (behind + skip) / 16;
    const int enough = (wide * SIZE + skip + 15) / 16;
    own_low = skip > before ? (skip - before + 15) / 16 : 0;
    own_end = stop < enough ? stop : enough;
  }
  const bool in_row = begin[0] >= 0 && begin[0] + wide <= window.extents[0];
  const int thread = W > 1 ? lane : (int)threadIdx.x, threads = W > 1 ? 32 : (int)blockDim.x;
  int number = 0;
#pragma unroll 1
  for (int line = W > 1 ? warp : 0; line < lines; line += warps, ++number) {
    const ptrdiff_t from = shuffle_from(own, number);
    const int low = shuffle_from(own_low, number), end = shuffle_from(own_end, number);
    const StagedPlace to = place.at(0, line);
    int gone = 0, copied = 0;  // columns before the packs, and in them
    if (end > low) {
      const ptrdiff_t row = from + begin[0] * SIZE;
      const int skip = (int)row & 15;
#pragma unroll 1
      for (int k = low + thread; k < end; k += threads)
        copy_async<16>(to.first + 16 * k - skip, reinterpret_cast<const void*>(row + 16 * k - skip));
      gone = low > 0 ? (16 * low - skip) / SIZE : 0;
      copied = (int)least((16 * end - skip) / SIZE, wide) - gone;
    }
    Element* const elements = reinterpret_cast<Element*>(to.first);
    if (from && in_row) {
      const ptrdiff_t row = from + begin[0] * strides[0];
#pragma unroll 4
      for (int k = thread; k < wide - copied; k += threads) {
        const int x = k < gone ? k : k + copied;
        elements[x] = *reinterpret_cast<const Element*>(row + x * strides[0]);
      }
    } else {
#pragma unroll 1
      for (int k = thread; k < wide - copied; k += threads) {
        const int x = k < gone ? k : k + copied;
        const ptrdiff_t index = index_in(window, begin[0] + x, 0);
        elements[x] = !from || index < 0
                          ? static_cast<Element>(window.value)
                          : *reinterpret_cast<const Element*>(from + index * strides[0]);
      }
    }
  }
  return found;
}

// Around an element: all that is read has been staged.
template <class Source> struct Staged {
  StagedPlace place;  // of the thread's first element

  template <class T, class Near, int A>
  __device__ inline static T read(const Near& near, const Staged* around,
                                  const ptrdiff_t (&offsets)[A]) {
    typedef typename Stored<T>::type Element;
    const StagedPlace& place = around->place;
    const int x = (int)near.step(offsets, 0);
    const int y = A > 1 ? (int)near.step(offsets, A > 1) : near.shift(1);
    return static_cast<T>(*reinterpret_cast<const Element*>(place.at(x, y).first));
  }
};
template <class Source> constexpr bool is_in_memory<Staged<Source>> = false;

// One element to global memory, where the compiler does not see that it is: it would think that what
// is in shared memory may change.
template <class T> __device__ inline void write_element(T* data, const T& value) {
  if constexpr (FitsWords<T>::value) {
    typename Word<sizeof(T)>::type word;
    memcpy(&word, &value, sizeof(T));
    __stwb(reinterpret_cast<typename Word<sizeof(T)>::type*>(data), word);
  } else {
    *data = value;
  }
}

// ---- Operands: elements of a thread in some rows, of which each has some columns that are 32 apart

template <int COLUMNS, int ROWS> struct SpreadAccessor {
  enum { V = COLUMNS * ROWS };
  ptrdiff_t offset;  // of the thread's first element
  const ptrdiff_t* strides;
  const ptrdiff_t* index;
  StagedPlace place;
  int left;  // elements of the row from there on

  static __device__ constexpr int column(int j) { return 32 * (j % COLUMNS); }
  static __device__ constexpr int row(int j) { return j / COLUMNS; }
  __device__ inline ptrdiff_t at(int j) const {
    return offset + column(j) * strides[0] + (ROWS > 1 ? row(j) * strides[ROWS > 1] : 0);
  }
  __device__ inline bool exists(int j) const { return column(j) < left; }
  template <class T> __device__ inline void load(const T* data, Pack<T, V>& pack) const {
#pragma unroll
    for (int j = 0; j < V; ++j)
      if (exists(j)) pack.put(j, *element(data, Bytes{at(j)}));
  }
  // All lanes of a warp come here together, unless there is one column.
  template <class T> __device__ inline void store(T* data, const T (&value)[V]) const {
    if constexpr (COLUMNS > 1 && FitsWords<T>::value) {
      if (strides[0] == sizeof(T) && left + (int)(threadIdx.x & 31) >= 32 * COLUMNS) {
#pragma unroll
        for (int j = 0; j < V; j += COLUMNS) store_lines(element(data, Bytes{at(j)}), value + j);
        return;
      }
    }
#pragma unroll
    for (int j = 0; j < V; ++j)
      if (exists(j)) write_element(element(data, Bytes{at(j)}), value[j]);
  }

 private:
  // Lines of 32 elements from where the memory's begin. The last has the end of the row, and what comes
  // before the first.
  template <class T> __device__ inline static void store_lines(T* to, const T* value) {
    const int lane = threadIdx.x & 31;
    const int shift = -(int)(reinterpret_cast<size_t>(to - lane) / sizeof(T)) & 31;
    const int from = lane + shift;
    const bool gives_next = lane < shift;
    to += shift;
#pragma unroll
    for (int j = 0; j < COLUMNS; ++j) {
      T given = value[j];
      if (gives_next) given = value[(j + 1) % COLUMNS];
      const T moved = shuffle_from(given, from & 31);
      if (j + 1 == COLUMNS && from >= 32) to -= 32 * COLUMNS;
      write_element(to + 32 * j, moved);
    }
  }
};

template <class T, int A, int B, int V, int COLUMNS, int ROWS>
struct Operand<Window<T, A, B>, V, SpreadAccessor<COLUMNS, ROWS>> {
  typedef Window<T, A, B> Source;
  typedef SpreadAccessor<COLUMNS, ROWS> Accessor;

  const Source& argument;
  const Accessor accessor;
  const Staged<Source> around;

  __device__ inline Operand(const Source& argument, const Accessor& accessor)
      : argument(argument), accessor(accessor), around{accessor.place} {}
  __device__ inline void load() {}
  __device__ inline auto item(int j) const {
    // Along an axis that the window lacks, its elements are other ones.
    ptrdiff_t offset = accessor.offset;
    if (ROWS > 1 && A < 2) offset += Accessor::row(j) * accessor.strides[ROWS > 1];
    return Neighbours<Source, Staged<Source>>(argument, accessor.strides, offset, accessor.index,
                                              &around, Accessor::column(j), Accessor::row(j));
  }
  __device__ inline void store() {}
};

// ---- The loop

// The elements of a column, if it exists: they share most of what they read.
template <int COLUMN, int COLUMNS, class Op, class Number, int... ROW, class... Operands>
__device__ inline void compute_column(const Op& op, const Number& number, int left, Numbers<ROW...>,
                                      Operands&... operands) {
  if (32 * COLUMN >= left) return;
  (compute_item(op, number(32 * COLUMN, ROW), ROW * COLUMNS + COLUMN, operands...), ...);
}

// All results come before the first store: so the compiler sees which reads of shared memory are the
// same.
template <class Op, class Number, class Rows, int... COLUMN, class... Operands>
__device__ inline void compute_spread(const Op& op, const Number& number, int left,
                                      Numbers<COLUMN...>, Rows rows, Operands&&... operands) {
  (operands.load(), ...);
  (compute_column<COLUMN, sizeof...(COLUMN)>(op, number, left, rows, operands...), ...);
  (operands.store(), ...);
}

// Elements of a thread, the first of which has `index`; `left` are in its row from there on.
template <int COLUMNS, int ROWS, int W, int OUTER, int N, class Op, class... Args, int... K>
__device__ inline void compute_staged_part(const Elements<Windows<W, OUTER>, N>& loop,
                                           const Offsets<OUTER, N>& outer,
                                           const StagedPlace (&places)[N],
                                           const ptrdiff_t (&index)[W], int left, ptrdiff_t rest,
                                           const Op& op, Numbers<K...>, const Args&... args) {
  typedef SpreadAccessor<COLUMNS, ROWS> Accessor;
  const auto accessor = [&](int k) {
    ptrdiff_t offset = outer.offset[k];
#pragma unroll
    for (int axis = 0; axis < W; ++axis) offset += index[axis] * loop.strides[k][axis];
    return Accessor{offset, loop.strides[k], index, places[k], left};
  };
  ptrdiff_t first = rest;
#pragma unroll
  for (int axis = W - 1; axis >= 0; --axis) first = first * loop.extents[axis] + index[axis];
  const auto number = [&](int column, int row) {
    return first + column + row * loop.extents[0];
  };
  compute_spread(op, number, left, typename UpTo<COLUMNS>::type(), typename UpTo<ROWS>::type(),
                 Operand<Args, Accessor::V, Accessor>(args, accessor(K))...);
}

// The tile of a block.
template <class Stage, int W, int OUTER, int N, class Op, class... Args, int... K>
__device__ inline void compute_staged(const Elements<Windows<W, OUTER>, N>& loop, const Op& op,
                                      Numbers<K...> numbers, const Args&... args) {
  enum { COLUMNS = Stage::COLUMNS, ROWS = Stage::ROWS, Y = W > 1 };
  const int across = Stage::across(loop.extents[0]);
  unsigned int rest = blockIdx.x;
  ptrdiff_t index[W];
#pragma unroll
  for (int k = 0; k < W; ++k) {
    const unsigned int next = loop.divisors[k].divide(rest);
    index[k] = (ptrdiff_t)(rest - next * loop.tiles[k]) * Stage::extent(k, across, blockDim.x / 32);
    rest = next;
  }
  const Offsets<OUTER, N> outer(loop.outer, (ptrdiff_t)rest);
  __shared__ Arrival arrival;
  if (HAS_BULK && threadIdx.x < 32) {  // the first warp begins all copies of whole lines
    if (threadIdx.x == 0) arrival.init();
    __syncwarp();
  }
  int expected = 0;
  unsigned char* const room = Stage::room();
  StagedPlace places[N] = {stage<Stage>(args, loop, loop.strides[K], outer.offset[K], index, across,
                                        room + Stage::begin(K), arrival, expected)...};
  if (HAS_BULK && threadIdx.x == 0) arrival.expect(expected);
  commit_copies();
  wait_for_copies(0);
  __syncthreads();
  if (HAS_BULK) arrival.wait(0);

  const int warp = threadIdx.x / 32, lane = threadIdx.x & 31;
  const int right = warp % across * (32 * COLUMNS) + lane, down = warp / across * ROWS;
#pragma unroll
  for (int k = 0; k < N; ++k) places[k] = places[k].at(right, W > 1 ? down : 0);
  index[0] += right;
  if (W > 1) index[Y] += down;
  const int left = (int)least(loop.extents[0] - index[0], 32 * COLUMNS);
  const int below = W > 1 ? (int)least(loop.extents[Y] - index[Y], ROWS) : 1;
  if (left + lane <= 0) return;  // nothing for this warp
  if (below == ROWS) {
    compute_staged_part<COLUMNS, ROWS>(loop, outer, places, index, left, rest, op, numbers, args...);
  } else if constexpr (ROWS > 1) {
#pragma unroll 1
    for (int k = 0; k < COLUMNS * below; ++k) {  // one by one, those that exist
      typedef SpreadAccessor<COLUMNS, ROWS> Part;
      const int steps[] = {Part::column(k), Part::row(k)};
      if (steps[0] >= left) continue;
      ptrdiff_t at[W];
      StagedPlace moved[N];
#pragma unroll
      for (int axis = 0; axis < W; ++axis) at[axis] = index[axis] + steps[axis];
#pragma unroll
      for (int n = 0; n < N; ++n) moved[n] = places[n].at(steps[0], steps[1]);
      compute_staged_part<1, 1>(loop, outer, moved, at, 1, rest, op, numbers, args...);
    }
  }
}

#endif

}  // namespace kspec
