// Inputs that an operation reads at offsets from the element, and the loop around it. The operation
// sees such an input `u` as Neighbours: u(-1, 0) is one element further up.
//
//   kspec::for_each_window<kspec::WindowTile<2, kspec::Reach<1, 0, 0, 0>>>(
//       elements, [&](ptrdiff_t i, const auto& u, float& y) { y = u.read(-1, 0); }, ...);
//
// Where a tile and all its windows lie inside the arrays, a read is a load. Elsewhere the boundary
// says what to read instead. kspec/runtime/schedules/window_schedule.py packs the same structures.
#pragma once

#include "kspec/boundary.cuh"
#include "kspec/elements.cuh"

namespace kspec {

// A windowed input: its last A axes, innermost first.
template <class T, int A> struct Window {
  typedef T type;
  const typename Stored<T>::type* data;
  T value;                  // of elements outside, where the boundary is CONSTANT
  int boundary;
  Fold folds[A];
  ptrdiff_t extents[A];
  ptrdiff_t first[A];       // index of what the loop has first: not 0 if the boundary is VALID
  ptrdiff_t before[A], after[A];
};

// Types of what an operation reads a window at.
template <int A, class... Offset> struct CheckedOffsets {
  static_assert(sizeof...(Offset) == A, "a window is read at one offset for each of its axes");
  static_assert(((static_cast<Offset>(1.5) == static_cast<Offset>(1)) && ...),
                "a window is read at integers; to read between elements, sample it");
};

// The elements around one, which has `index` in the array. V > 1: around V of them, in rows of
// aligned packs. `Around` says how elements are read that are not known to be inside.
template <class T, int A, class Around, int V = 1> class Neighbours {
 public:
  typedef T type;
  enum { axes = A, pack = V };

  // `index` is that of the element along the windowed axes. `column`, `row` and `plane` are how many
  // elements further along the first three of them: constants, so that the compiler sees which reads
  // are the same.
  __device__ inline Neighbours(const Window<T, A>& window, const ptrdiff_t* strides,
                               ptrdiff_t offset, const ptrdiff_t* index,
                               const Around* around = nullptr, int column = 0,
                               int row = 0, int plane = 0)
      : window_(window), strides_(strides), around_(around), shift_{column, row, plane} {
#pragma unroll
    for (int k = 0; k < A; ++k) {
      index_[k] = index[k] + window.first[k];
      offset += window.first[k] * strides[k];
    }
    start_ = element(window.data, Bytes{offset});
  }

  __device__ inline T center() const {
    const ptrdiff_t offsets[A] = {};
    return load(row_of(offsets), shift(0));
  }
  // Offsets along the axes, outermost first.
  template <class... Offset> __device__ inline T read(Offset... offset) const {
    CheckedOffsets<A, Offset...>();
    const ptrdiff_t offsets[A] = {static_cast<ptrdiff_t>(offset)...};
    return Around::template read<T>(*this, around_, offsets);
  }

  __device__ inline const Window<T, A>& window() const { return window_; }
  // For samples, which count axes from the outermost: the window, its strides, the index of the
  // element in the array, and the array's first element along the windowed axes.
  __device__ inline ptrdiff_t stride(int axis) const { return strides_[A - 1 - axis]; }
  __device__ inline ptrdiff_t index(int axis) const {
    return index_[A - 1 - axis] + shift(A - 1 - axis);
  }
  __device__ inline const typename Stored<T>::type* first() const {
    ptrdiff_t distance = 0;
#pragma unroll
    for (int k = 0; k < A; ++k) distance -= index_[k] * strides_[k];
    return element(start_, Bytes{distance});
  }

  // For `Around`: the row of an element in bytes from here, its column there, and elements at such a
  // place. What lies in one pack comes with one load.
  __device__ inline ptrdiff_t row_of(const ptrdiff_t (&offsets)[A]) const {
    ptrdiff_t distance = 0;
#pragma unroll
    for (int k = 1; k < A; ++k) distance += (offsets[A - 1 - k] + shift(k)) * strides_[k];
    return distance;
  }
  __device__ inline ptrdiff_t column_of(const ptrdiff_t (&offsets)[A]) const {
    return offsets[A - 1] + shift(0);
  }
  // Along one axis, counted from the innermost: the index here, and how far away an element is.
  __device__ inline ptrdiff_t own(int axis) const { return index_[axis]; }
  __device__ inline ptrdiff_t step(const ptrdiff_t (&offsets)[A], int axis) const {
    return offsets[A - 1 - axis] + shift(axis);
  }
  __device__ inline T load(ptrdiff_t row, ptrdiff_t column) const {
    if constexpr (V == 1) {
      return load_single(row + column * strides_[0]);
    } else {
      const int number = (int)column & (V - 1);
      Pack<Element, V> pack;
      pack.load_read_only(element(start_, Bytes{row}) + (column - number));
      return static_cast<T>(pack.pick(number));
    }
  }
  __device__ inline T load_single(ptrdiff_t distance) const {
    return static_cast<T>(read_only(element(start_, Bytes{distance})));
  }

#ifdef KSPEC_HOST
  // The same for offsets that the operation computes.
  template <class... Offset>
  inline T read_checked(const char* name, const char* file, int line, Offset... offset) const {
    const ptrdiff_t offsets[sizeof...(Offset)] = {static_cast<ptrdiff_t>(offset)...};
    for (int axis = 0; axis < A; ++axis) check_reach(axis, offsets[axis], name, file, line);
    return read(offset...);
  }

  // Stop the launch if an offset along an axis, outermost first, is outside of the reach.
  inline void check_reach(int axis, ptrdiff_t step, const char* name, const char* file,
                          int line) const {
    const ptrdiff_t before = window_.before[A - 1 - axis], after = window_.after[A - 1 - axis];
    if (step >= -before && step <= after) return;
    Message message;
    message.add("offset ").add(step).add(" of ").add(name);
    message.add(" is outside its reach along axis ").add((ptrdiff_t)axis);
    message.add(", which is [").add(-before).add(", ").add(after).add("]");
    ::kspec_host::kspec_fail("window", message.text, file, line);
  }

 private:
  struct Message {
    char text[256];
    int length = 0;

    Message& add(const char* part) {
      for (; *part && length < 255; ++part) text[length++] = *part;
      text[length] = 0;
      return *this;
    }
    Message& add(ptrdiff_t number) {
      char digits[24];
      int k = 23;
      digits[k] = 0;
      size_t rest = number < 0 ? 0 - (size_t)number : (size_t)number;
      do digits[--k] = (char)('0' + rest % 10);
      while (rest /= 10);
      if (number < 0) digits[--k] = '-';
      return add(digits + k);
    }
  };
#endif

 private:
  typedef typename Stored<T>::type Element;

  __device__ inline int shift(int axis) const { return axis < 3 ? shift_[axis] : 0; }

  const Window<T, A>& window_;
  const ptrdiff_t* strides_;
  const Around* around_;
  const Element* start_;
  ptrdiff_t index_[A];
  int shift_[3];
};

// ---- Around an element

// Every element that is read is inside.
struct AllInside {
  template <class T, class Near, int A>
  __device__ inline static T read(const Near& near, const AllInside*,
                                  const ptrdiff_t (&offsets)[A]) {
    return near.load(near.row_of(offsets), near.column_of(offsets));
  }
};

// Elements may be outside along any axis.
struct Anywhere {
  template <class T, class Near, int A>
  __device__ inline static T read(const Near& near, const Anywhere*,
                                  const ptrdiff_t (&offsets)[A]) {
    ptrdiff_t distance = 0;
#pragma unroll
    for (int k = 0; k < A; ++k) {
      const ptrdiff_t extent = near.window().extents[A - 1 - k], own = near.index(k);
      ptrdiff_t place = own + offsets[k];
      if (place < 0 || place >= extent)
        place = index_outside(place, extent, near.window().boundary);
      if (place < 0) return near.window().value;
      distance += (place - own) * near.stride(k);
    }
    return near.load_single(distance);
  }
};

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
  unsigned int folds;   // whether one fold brings neighbours in a row inside
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

// What the operation gets of an operand at one element.
template <class Around, class Arg>
__device__ inline decltype(auto) item_at(const Arg& argument, const ptrdiff_t*, ptrdiff_t offset,
                                         const ptrdiff_t*) {
  return argument.item(Bytes{offset});
}
template <class Around, class T, int A>
__device__ inline Neighbours<T, A, Around> item_at(const Window<T, A>& argument,
                                                   const ptrdiff_t* strides, ptrdiff_t offset,
                                                   const ptrdiff_t* index) {
  return Neighbours<T, A, Around>(argument, strides, offset, index);
}

// ---- Tiles

// How far an operation reads: elements before and after along each axis, outermost first.
template <int... ENDS> struct Reach {
  // Elements that it may read, up to a number that is large enough.
  static constexpr int volume() {
    const int ends[] = {ENDS...};
    long long found = 1;
    for (int k = 0; k < (int)sizeof...(ENDS) && found < 1000; k += 2)
      found *= 1LL + ends[k] + ends[k + 1];
    return found < 1000 ? (int)found : 1000;
  }
  // The farthest along an axis, counted from the innermost.
  static constexpr int farthest(int axis) {
    const int ends[] = {ENDS...}, k = (int)sizeof...(ENDS) - 2 * axis - 2;
    return k < 0 ? 0 : ends[k] > ends[k + 1] ? ends[k] : ends[k + 1];
  }
};

constexpr int largest(int one) { return one; }
template <class... Rest> constexpr int largest(int one, Rest... rest) {
  return one > largest(rest...) ? one : largest(rest...);
}

// Which elements a thread of a GPU takes: rows() rows of a pack in each of planes() planes, STEPS
// times. Their windows share most of what is loaded. The numbers were measured on an H200.
// kspec/runtime/schedules/window_schedule.py has the same.
template <int W, class... Reaches> struct WindowTile {
  static constexpr int farthest(int axis) { return largest(Reaches::farthest(axis)...); }
  enum {
    THREADS = 256,
    NARROW = farthest(0) <= 2,
    TALL = largest(farthest(1), farthest(2), farthest(3)) > 4,
    LARGE = largest(Reaches::volume()...) > 64,  // each element costs a copy of the operation's code
    LANES = W == 1 ? THREADS : W == 2 && !TALL ? 64 : 32,
    STEPS = W == 1 || TALL || LARGE ? 1 : 2,
    BLOCKS = TALL || LARGE ? 2 : 4,  // on a multiprocessor: fewer registers, more threads
  };
  // Of packs of V elements.
  static constexpr int rows(int V) {
    return W == 1 || LARGE ? 1 : W > 2 ? (V > 8 ? 1 : 2) : TALL ? (V > 4 ? 32 / V : 8)
         : V > 4 ? 16 / V : 4;
  }
  static constexpr int planes(int V) { return W > 2 && !LARGE && V <= 4 ? 2 : 1; }
};

#ifdef KSPEC_HOST

// Elements [begin, end) of a row that begins with element `row`; `index` is along the windowed axes,
// `outer` where the operands are along the others. UNIT: elements follow each other in memory, which
// the compiler has to know to vectorise the loop.
template <class Around, bool UNIT, int W, int OUTER, int N, class Op, class... Args, int... K>
inline void visit_row(const Elements<Windows<W, OUTER>, N>& loop, const Offsets<OUTER, N>& outer,
                      ptrdiff_t row, ptrdiff_t begin, ptrdiff_t end, const ptrdiff_t (&index)[W],
                      const Op& op, Numbers<K...>, const Args... args) {
  // Copies, also of the arguments: the compiler cannot know that writes to outputs leave them alone.
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

#define KSPEC_WINDOW(name, window, ...) (window).read(__VA_ARGS__)
#define KSPEC_WINDOW_CHECKED(name, window, ...) \
  (window).read_checked(name, __FILE__, __LINE__, __VA_ARGS__)

#else

// Elements next to a pack may be outside of their row: up to two at each end.
template <class T, int A, int V> struct RowEnds {
  enum { REACH = 2 };
  int columns[2 * REACH];  // where they are, from the pack's first element
  bool missing[2 * REACH];

  __device__ inline RowEnds(const Window<T, A>& window, const ptrdiff_t*,
                            const ptrdiff_t* index) {
    const int first = (int)(index[0] + window.first[0]), extent = (int)window.extents[0];
#pragma unroll
    for (int k = 0; k < 2 * REACH; ++k) {
      const int place = first + (k < REACH ? k - REACH : V + k - REACH);
      const int found = window.folds[0].inside(place, extent);
      columns[k] = found - first;
      missing[k] = found != place && window.boundary == CONSTANT;
    }
  }
  template <class U, class Near>
  __device__ inline static T read(const Near& near, const RowEnds* ends,
                                  const ptrdiff_t (&offsets)[A]) {
    const ptrdiff_t row = near.row_of(offsets), column = near.column_of(offsets);
    if (column >= 0 && column < V) return near.load(row, column);
    const int k = (int)column + REACH - (column < 0 ? 0 : V);
    const T value = near.load_single(row + ends->columns[k] * (ptrdiff_t)sizeof(T));
    return ends->missing[k] ? near.window().value : value;
  }
};

// Elements may be outside along any axis, of which each has more elements than a read goes far.
struct Folded {
  template <class T, class Near, int A>
  __device__ inline static T read(const Near& near, const Folded*, const ptrdiff_t (&offsets)[A]) {
    const auto& window = near.window();
    ptrdiff_t row = 0;
    int column = 0;
    bool missing = false;
#pragma unroll
    for (int k = 0; k < A; ++k) {
      const int own = (int)near.own(k), place = own + (int)near.step(offsets, k);
      const int found = window.folds[k].inside(place, (int)window.extents[k]);
      missing = missing | (found != place);
      if (k == 0) column = found - own;
      else row += (found - own) * near.stride(A - 1 - k);
    }
    // A fold is an element in any case.
    const ptrdiff_t step = near.step(offsets, 0);
    const ptrdiff_t distance = row + column * near.stride(A - 1);
    const bool in_pack = step >= 0 && step < Near::pack;
    const T value = in_pack ? near.load(row, step) : near.load_single(distance);
    return missing & (window.boundary == CONSTANT) ? window.value : value;
  }
};

// Where a thread's elements are: in a tile with all their windows, in rows that have their windows
// in the array, at its edges, or in an array that is smaller than a window.
struct InTile {
  template <class T, int A, int V> struct Around : AllInside {
    __device__ inline Around(const Window<T, A>&, const ptrdiff_t*, const ptrdiff_t*) {}
  };
};
struct InRows {
  template <class T, int A, int V> struct Around : RowEnds<T, A, V> {
    using RowEnds<T, A, V>::RowEnds;
  };
};
struct AtEdges {
  template <class T, int A, int V> struct Around : Folded {
    __device__ inline Around(const Window<T, A>&, const ptrdiff_t*, const ptrdiff_t*) {}
  };
};
struct OfSmall {
  template <class T, int A, int V> struct Around : Anywhere {
    __device__ inline Around(const Window<T, A>&, const ptrdiff_t*, const ptrdiff_t*) {}
  };
};

// Where V elements of an operand are that follow each other in memory, `row` rows and `plane` planes
// from the thread's first element.
template <int V, class Where> struct WindowAccessor {
  ptrdiff_t offset;  // of the thread's first element
  const ptrdiff_t* strides;
  const ptrdiff_t* index;
  int row, plane;
  ptrdiff_t distance;  // from there

  template <class T> __device__ inline void load(const T* data, Pack<T, V>& pack) const {
    pack.load(element(data, Bytes{offset + distance}));
  }
  template <class T> __device__ inline void store(T* data, const T (&value)[V]) const {
    write_pack(element(data, Bytes{offset + distance}), value);
  }
};

// A windowed operand loads what the operation reads.
template <class T, int A, int V, class Where>
struct Operand<Window<T, A>, V, WindowAccessor<V, Where>> {
  typedef typename Where::template Around<T, A, V> Around;

  const Window<T, A>& argument;
  const WindowAccessor<V, Where> accessor;
  const Around around;

  __device__ inline Operand(const Window<T, A>& argument,
                            const WindowAccessor<V, Where>& accessor)
      : argument(argument),
        accessor(accessor),
        around(argument, accessor.strides, accessor.index) {}
  __device__ inline void load() {}
  __device__ inline Neighbours<T, A, Around, V> item(int j) const {
    // Along axes that the window lacks, its elements are other ones.
    ptrdiff_t offset = accessor.offset;
    if (A < 2) offset += accessor.row * accessor.strides[1];
    if (A < 3) offset += accessor.plane * accessor.strides[2];
    return Neighbours<T, A, Around, V>(argument, accessor.strides, offset, accessor.index, &around,
                                       j, A < 2 ? 0 : accessor.row, A < 3 ? 0 : accessor.plane);
  }
  __device__ inline void store() {}
};

template <class Op, class... Operands>
__device__ inline void compute_one(const Op& op, ptrdiff_t i, int j,
                                   Operands&... operands) {
  op(i + j, operands.item(j)...);
}

// Compute a pack of elements, the first being number i. Their numbers are constants, not counters of
// loops: a large operation would not be unrolled.
template <class Op, class... Operands, int... J>
__device__ inline void compute_pack(const Op& op, ptrdiff_t i, Numbers<J...>,
                                    Operands&&... operands) {
  (operands.load(), ...);
  (compute_one(op, i, J, operands...), ...);
  (operands.store(), ...);
}

// The pack `row` rows and `plane` planes from the thread's first element, where each operand has
// `first`.
template <class Where, int V, int W, int OUTER, int N, class Op, class... Args, int... K>
__device__ inline void compute_row(const Elements<Windows<W, OUTER>, N>& loop,
                                   const ptrdiff_t (&first)[N], const ptrdiff_t* index,
                                   ptrdiff_t i, int row, int plane, const Op& op,
                                   Numbers<K...>, const Args&... args) {
  const auto accessor = [&](int k) {
    const ptrdiff_t* strides = loop.strides[k];
    const ptrdiff_t distance = (W > 1 ? row * strides[W > 1] : 0) +
                               (W > 2 ? plane * strides[W > 2 ? 2 : 0] : 0);
    return WindowAccessor<V, Where>{first[k], strides, index, row, plane, distance};
  };
  i += (row + plane * loop.extents[W > 1]) * loop.extents[0];
  compute_pack(op, i, typename UpTo<V>::type(),
               Operand<Args, V, WindowAccessor<V, Where>>(args, accessor(K))...);
}

// Packs of a thread in ROWS rows of some planes; the first element has `index`, and `number` is that
// of its place along the other axes.
template <class Where, int V, int ROWS, int W, int OUTER, int N, class Op, class... Args, int... K,
          int... ROW>
__device__ inline void compute_rows(const Elements<Windows<W, OUTER>, N>& loop,
                                    const Offsets<OUTER, N>& outer,
                                    const ptrdiff_t* index, ptrdiff_t number,
                                    Numbers<ROW...>, const Op& op,
                                    Numbers<K...> numbers, const Args&... args) {
  ptrdiff_t first[N], i = number;
#pragma unroll
  for (int k = 0; k < N; ++k) {
    first[k] = outer.offset[k];
#pragma unroll
    for (int axis = 0; axis < W; ++axis) first[k] += index[axis] * loop.strides[k][axis];
  }
#pragma unroll
  for (int axis = W - 1; axis >= 0; --axis) i = i * loop.extents[axis] + index[axis];
  (compute_row<Where, V>(loop, first, index, i, ROW % ROWS, ROW / ROWS, op, numbers, args...), ...);
}

// Call visit(index) for each row of a thread that exists, one after the other.
template <int ROWS, int PLANES, int W, int OUTER, int N, class Visit>
__device__ inline void each_row(const Elements<Windows<W, OUTER>, N>& loop,
                                const ptrdiff_t (&index)[W], const Visit& visit) {
#pragma unroll 1
  for (int row = 0; row < ROWS * PLANES; ++row) {
    ptrdiff_t at[W];
    bool exists = true;
#pragma unroll
    for (int k = 0; k < W; ++k) {
      at[k] = index[k] + (k == 1 ? row % ROWS : k == 2 ? row / ROWS : 0);
      exists = exists && at[k] < loop.extents[k];
    }
    if (exists) visit(at);
  }
}

// A thread's elements of a tile that begins at `first`: whole packs where rows are made of them and
// have their windows in the array, single elements elsewhere.
template <class Tile, int V, int W, int OUTER, int N, class Op, class... Args, int... K>
__device__ inline void compute_tile(const Elements<Windows<W, OUTER>, N>& loop,
                                    const Offsets<OUTER, N>& outer,
                                    const ptrdiff_t (&first)[W], ptrdiff_t number,
                                    const Op& op, Numbers<K...> numbers,
                                    const Args&... args) {
  enum { LANES = Tile::LANES, ROWS = Tile::rows(V), PLANES = Tile::planes(V) };
  const typename UpTo<ROWS * PLANES>::type rows;
  ptrdiff_t index[W];
#pragma unroll
  for (int k = 0; k < W; ++k) index[k] = first[k];
  if (W > 1) index[W > 1] += threadIdx.x / LANES * ROWS;
  bool along = true;  // whether the thread's rows have their windows in the array
#pragma unroll
  for (int k = 1; k < W; ++k) {
    const int extent = k == 1 ? (int)ROWS : k == 2 ? (int)PLANES : 1;
    along = along && index[k] >= loop.begin[k] && index[k] + extent <= loop.end[k];
  }
  // Lanes of a warp are in the same rows, and take the same way.
  const int lane = threadIdx.x % LANES, width = loop.packed ? (int)V : 1;
  const ptrdiff_t warp = first[0] + (lane & ~31) * width;
  const bool across = warp >= loop.begin[0] && warp + 32 * width <= loop.end[0];
  index[0] += lane * width;
  if (index[0] >= loop.extents[0]) return;
  if constexpr (V > 1) {
    if (loop.packed) {
      // Where the reach is narrow, to ask what lies outside of the pack costs less than a second copy
      // of the code, for the ends of rows.
      typedef typename Choose<Tile::NARROW, InRows, InTile>::type Where;
      if (along && (Tile::NARROW || across)) {
        compute_rows<Where, V, ROWS>(loop, outer, index, number, rows, op, numbers, args...);
      } else {
        each_row<ROWS, PLANES>(loop, index, [&](const ptrdiff_t (&at)[W]) {
          compute_rows<AtEdges, V, 1>(loop, outer, at, number, Numbers<0>(), op, numbers, args...);
        });
      }
      return;
    }
  }
  if (along && across) {
    compute_rows<InTile, 1, ROWS>(loop, outer, index, number, rows, op, numbers, args...);
  } else {
    each_row<ROWS, PLANES>(loop, index, [&](const ptrdiff_t (&at)[W]) {
      if (loop.folds)
        compute_rows<AtEdges, 1, 1>(loop, outer, at, number, Numbers<0>(), op, numbers, args...);
      else
        compute_rows<OfSmall, 1, 1>(loop, outer, at, number, Numbers<0>(), op, numbers, args...);
    });
  }
}

// The extent of a block's tile along an axis.
template <class Tile, int V, int W, int OUTER, int N>
__device__ inline int tile_extent(const Elements<Windows<W, OUTER>, N>& loop, int axis) {
  if (axis == 0) return (int)Tile::LANES * (loop.packed ? V : 1);
  if (axis == 1) return (int)Tile::THREADS / (int)Tile::LANES * Tile::rows(V);
  return axis == 2 ? Tile::planes(V) : 1;
}

template <class Tile, int W, int OUTER, int N, class Op, class... Args, int... K>
__device__ inline void each_window(const Elements<Windows<W, OUTER>, N>& loop,
                                   const Op& op, Numbers<K...> numbers,
                                   const Args&... args) {
  enum { V = PackSize<Args...>::value };
  unsigned int rest = blockIdx.x;
  ptrdiff_t first[W];
#pragma unroll
  for (int k = 0; k < W; ++k) {
    const unsigned int next = loop.divisors[k].divide(rest);
    const int steps = k == W - 1 ? (int)Tile::STEPS : 1;
    first[k] = (ptrdiff_t)(rest - next * loop.tiles[k]) * steps * tile_extent<Tile, V>(loop, k);
    rest = next;
  }
  const Offsets<OUTER, N> outer(loop.outer, (ptrdiff_t)rest);
#pragma unroll 1
  for (int step = 0; step < Tile::STEPS && first[W - 1] < loop.extents[W - 1]; ++step) {
    compute_tile<Tile, V>(loop, outer, first, rest, op, numbers, args...);
    first[W - 1] += tile_extent<Tile, V>(loop, W - 1);
  }
}

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
