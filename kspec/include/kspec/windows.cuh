// Inputs that an operation reads at offsets from the element, and the loop around it. The operation
// sees such an input `u` as Neighbours: u(-1, 0) is one element further up.
//
//   kspec::for_each_window<kspec::WindowTile<4, 2, kspec::Reach<1, 0, 0, 0>>>(
//       elements, [&](ptrdiff_t i, const auto& u, float& y) { y = u.read(-1, 0); }, ...);
//
// Where a tile and all its windows lie inside the arrays, a read is a load. Elsewhere the boundary
// says what to read instead. kspec/runtime/schedules/window_schedule.py packs the same structures.
#pragma once

#include "kspec/chunked.cuh"
#include "kspec/boundary.cuh"
#include "kspec/elements.cuh"
#include "kspec/opaque.cuh"
#include "kspec/pairs.cuh"
#ifdef KSPEC_HOST
#include "kspec/message.cuh"
#endif

namespace kspec {

// A windowed input: its last A axes, innermost first. ANY: calls choose its boundary.
template <class T, int A, int BOUNDARY = ANY> struct Window {
  typedef T type;
  enum { axes = A };
  const typename Stored<T>::type* data;
  T value;                  // of elements outside, where the boundary is CONSTANT
  int boundary_;
  ptrdiff_t extents[A];
  ptrdiff_t first[A];       // index of what the loop has first: not 0 if the boundary is VALID
  ptrdiff_t before[A], after[A];

  __device__ inline int boundary() const { return BOUNDARY == ANY ? boundary_ : BOUNDARY; }
};

// The boundary of a window that has several, of which this is the first.
template <class Layout> __device__ constexpr int first_boundary(int boundary) {
  return Layout::is_chosen ? (int)ANY : boundary;
}
template <class Arg> constexpr bool knows_boundary = true;
template <class T, int A> constexpr bool knows_boundary<Window<T, A, ANY>> = false;

// Types of what an operation reads a window at.
template <int A, class... Offset> struct CheckedOffsets {
  static_assert(sizeof...(Offset) == A, "a window is read at one offset for each of its axes");
  static_assert(((static_cast<Offset>(1.5) == static_cast<Offset>(1)) && ...),
                "a window is read at integers; to read between elements, sample it");
};

// The elements around one, which has `index` in the array. V > 1: around V of them, in rows of
// aligned packs. `Around` says how elements are read that are not known to be inside.
template <class Source, class Around, int V = 1> class Neighbours {
 public:
  typedef typename Source::type T;
  typedef T type;
  enum { axes = Source::axes, pack = V, A = axes };

  // `index` is that of the element along the windowed axes. `column`, `row` and `plane` are how many
  // elements further along the first three of them: constants, so that the compiler sees which reads
  // are the same.
  __device__ inline Neighbours(const Source& window, const ptrdiff_t* strides, ptrdiff_t offset,
                               const ptrdiff_t* index, const Around* around = nullptr,
                               int column = 0, int row = 0, int plane = 0)
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

  __device__ inline const Source& window() const { return window_; }
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

  // For `Around`: the row of an element in bytes from here, and elements of a row and a column. What
  // lies in one pack comes with one load.
  __device__ inline ptrdiff_t row_of(const ptrdiff_t (&offsets)[A]) const {
    ptrdiff_t distance = 0;
#pragma unroll
    for (int k = 1; k < A; ++k) distance += step(offsets, k) * strides_[k];
    return distance;
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
      return static_cast<T>(pack_at(row, column).pick((int)column & (V - 1)));
    }
  }
  __device__ inline T load_single(ptrdiff_t distance) const {
    return static_cast<T>(read_only(element(start_, Bytes{distance})));
  }

  // The same as part of a word, for pairs.
  template <class... Offset> __device__ inline InWord<T> read_in_word(Offset... offset) const {
    CheckedOffsets<A, Offset...>();
    return find({static_cast<ptrdiff_t>(offset)...});
  }
  __device__ inline InWord<T> center_in_word() const { return find({}); }

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
    FaultText message;
    message.add("offset ").add(step).add(" of ").add(name);
    message.add(" is outside its reach along axis ").add((ptrdiff_t)axis);
    message.add(", which is [").add(-before).add(", ").add(after).add("]");
    ::kspec_host::kspec_fail("window", message.text, file, line);
  }
#endif

 private:
  typedef typename Stored<T>::type Element;

  __device__ inline int shift(int axis) const { return axis < 3 ? shift_[axis] : 0; }
  __device__ inline Pack<Element, V> pack_at(ptrdiff_t row, ptrdiff_t column) const {
    Pack<Element, V> pack;
    pack.load_read_only(element(start_, Bytes{row}) + (column & -(ptrdiff_t)V));
    return pack;
  }
  __device__ inline InWord<T> find(const ptrdiff_t (&offsets)[A]) const {
    const ptrdiff_t column = step(offsets, 0);
    if (Around::IN_PACKS || (column >= 0 && column < V))
      return InWord<T>(pack_at(row_of(offsets), column), (int)column & (V - 1));
    return InWord<T>(Around::template read<T>(*this, around_, offsets));
  }

  const Source& window_;
  const ptrdiff_t* strides_;
  const Around* around_;
  const Element* start_;
  ptrdiff_t index_[A];
  int shift_[3];
};

// ---- Around an element

// Every element that is read is inside.
struct AllInside {
  enum { IN_PACKS = true };

  AllInside() = default;
  template <class Source> __device__ inline AllInside(const Source&, const ptrdiff_t*) {}

  template <class T, class Near, int A>
  __device__ inline static T read(const Near& near, const AllInside*,
                                  const ptrdiff_t (&offsets)[A]) {
    return near.load(near.row_of(offsets), near.step(offsets, 0));
  }
};

// Elements may be outside along any axis.
struct Anywhere {
  Anywhere() = default;
  template <class Source> __device__ inline Anywhere(const Source&, const ptrdiff_t*) {}

  template <class T, class Near, int A>
  __device__ inline static T read(const Near& near, const Anywhere*,
                                  const ptrdiff_t (&offsets)[A]) {
    ptrdiff_t distance = 0;
#pragma unroll
    for (int k = 0; k < A; ++k) {
      const ptrdiff_t extent = near.window().extents[A - 1 - k], own = near.index(k);
      ptrdiff_t place = own + offsets[k];
      if (place < 0 || place >= extent)
        place = index_outside(place, extent, near.window().boundary());
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

// Elements of a pack of operands of these types.
template <class... T> constexpr int pack_of = PackSize<In<T>...>::value;

// Which elements a thread of a GPU takes: rows() rows of a pack in each of planes() planes, STEPS
// times. Their windows share most of what is loaded. PACK: elements of a pack, where rows are packed.
// The numbers were measured on an H200, those of single elements (V == 1) also on an H100.
// kspec/runtime/schedules/window_schedule.py has the same.
template <int PACK, int W, class... Reaches> struct WindowTile {
  static constexpr int farthest(int axis) { return largest(Reaches::farthest(axis)...); }
  enum {
    VOLUME = largest(Reaches::volume()...),
    HIGH = largest(farthest(1), farthest(2), farthest(3)),
    NARROW = farthest(0) <= 1,
    TALL = HIGH > 4,
    LARGE = VOLUME > 64,  // each element costs a copy of the operation's code
    FLAT = W == 2 && HIGH < 1 && VOLUME > 16 && !LARGE,  // rows have nothing in common
    BYTES = W == 2 && PACK > 8 && VOLUME < 10,           // instructions limit them
    THREADS = FLAT || BYTES ? 128 : 256,
    STEPS = W == 2 && VOLUME > 9 && !TALL && !LARGE ? 2 : 1,
    // On a multiprocessor: with fewer of them, a thread has more registers.
    BLOCKS = TALL || LARGE             ? 2
             : VOLUME > 16 && W > 2    ? 3
             : FLAT                    ? 10
             : VOLUME > 16 && HIGH < 1 ? 5
             : BYTES                   ? 6
                                       : 4,
    // Edges are a part of the work where there are many, or where they are thick.
    PACKED_EDGES = !LARGE && (W > 2 || TALL),
  };
  // Of packs of V elements.
  static constexpr int lanes(int V) {
    return W == 1 ? THREADS : W == 2 ? ((V > 1 || TALL) && !FLAT ? 64 : 128) : 32;
  }
  static constexpr int rows(int V) {
    return W == 1 || LARGE ? 1
           : W > 2         ? (V > 8 ? 1 : 2)
           : TALL          ? (V > 4 ? 32 / V : 10)
           : V > 8         ? (BYTES ? 8 : 2)
           : V > 1         ? 4
           : VOLUME < 10   ? 12
                           : (HIGH > 0 ? 8 : 4);
  }
  static constexpr int planes(int V) { return W > 2 && !LARGE && V <= 4 ? 3 : 1; }
  // Elements of a block along an axis, at each step.
  static constexpr int extent(int V, int axis) {
    return axis == 0   ? lanes(V) * V
           : axis == 1 ? THREADS / lanes(V) * rows(V)
           : axis == 2 ? planes(V)
                       : 1;
  }
};

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

// The elements next to a pack may be outside of their row.
template <class Source, int V> struct RowEnds {
  enum { IN_PACKS = false };
  typedef typename Source::type T;
  int before, behind;  // where they are, from the pack's first element
  bool no_before, no_behind;

  __device__ inline RowEnds(const Source& window, const ptrdiff_t* index) {
    const int first = (int)(index[0] + window.first[0]), extent = (int)window.extents[0];
    const bool is_constant = window.boundary() == CONSTANT;
    before = fold(first - 1, extent, window.boundary()) - first;
    behind = fold(first + V, extent, window.boundary()) - first;
    no_before = is_constant && before != -1;
    no_behind = is_constant && behind != V;
  }
  template <class, class Near, int A>
  __device__ inline static T read(const Near& near, const RowEnds* ends,
                                  const ptrdiff_t (&offsets)[A]) {
    const ptrdiff_t row = near.row_of(offsets), column = near.step(offsets, 0);
    if (column >= 0 && column < V) return near.load(row, column);
    const ptrdiff_t place = column < 0 ? ends->before : ends->behind;
    const T value = near.load_single(row + place * (ptrdiff_t)sizeof(T));
    return (column < 0 ? ends->no_before : ends->no_behind) ? near.window().value : value;
  }
};

// Elements may be outside along any axis, of which each has more elements than a read goes far.
struct Folded {
  template <class Source> __device__ inline Folded(const Source&, const ptrdiff_t*) {}

  template <class T, class Near, int A>
  __device__ inline static T read(const Near& near, const Folded*, const ptrdiff_t (&offsets)[A]) {
    const auto& window = near.window();
    ptrdiff_t row = 0;
    int column = 0;
    bool missing = false;
#pragma unroll
    for (int k = 0; k < A; ++k) {
      const int own = (int)near.own(k), place = own + (int)near.step(offsets, k);
      const int found = fold(place, (int)window.extents[k], window.boundary());
      missing = missing | (window.boundary() == CONSTANT && found != place);
      if (k == 0) column = found - own;
      else row += (found - own) * near.stride(A - 1 - k);
    }
    // A fold is an element in any case.
    const ptrdiff_t step = near.step(offsets, 0);
    const ptrdiff_t distance = row + column * near.stride(A - 1);
    const bool in_pack = step >= 0 && step < Near::pack;
    const T value = in_pack ? near.load(row, step) : near.load_single(distance);
    return missing ? window.value : value;
  }
};

// What `Around` is where rows have their windows in the array, but for their ends.
struct InRows {};
template <class Around, class Source, int V> struct AroundOf { typedef Around type; };
template <class Source, int V> struct AroundOf<InRows, Source, V> {
  typedef RowEnds<Source, V> type;
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
  template <class T> __device__ inline void store(T* data, const Pack<T, V>& pack) const {
    write_pack(element(data, Bytes{offset + distance}), pack);
  }
};

// A windowed operand loads what the operation reads.
template <class T, int A, int B, int V, class Where>
struct Operand<Window<T, A, B>, V, WindowAccessor<V, Where>> {
  typedef Window<T, A, B> Source;
  typedef typename AroundOf<Where, Source, V>::type Around;

  const Source& argument;
  const WindowAccessor<V, Where> accessor;
  const Around around;

  __device__ inline Operand(const Source& argument, const WindowAccessor<V, Where>& accessor)
      : argument(argument), accessor(accessor), around(argument, accessor.index) {}
  __device__ inline void load() {}
  __device__ inline Neighbours<Source, Around, V> item(int j) const {
    // Along axes that the window lacks, its elements are other ones.
    ptrdiff_t offset = accessor.offset;
    if (A < 2) offset += accessor.row * accessor.strides[1];
    if (A < 3) offset += accessor.plane * accessor.strides[2];
    return Neighbours<Source, Around, V>(argument, accessor.strides, offset, accessor.index,
                                         &around, j, A < 2 ? 0 : accessor.row,
                                         A < 3 ? 0 : accessor.plane);
  }
  __device__ inline void store() {}
};

// Whether a kernel computes pairs where whole packs are `Where`.
template <class Where> constexpr bool is_whole = false;
template <> constexpr bool is_whole<AllInside> = true;
template <> constexpr bool is_whole<InRows> = true;
template <class Op, class Where, int V, class... Args>
constexpr bool in_pairs = KSPEC_PAIRS && only_selects<Op> && is_whole<Where> && V % 2 == 0 &&
                          (fits_pairs<typename Args::type> && ...);

template <class Op, class... Operands>
__device__ inline void compute_one(const Op& op, ptrdiff_t i, int j, Operands&... operands) {
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

// The same for pairs. Inlined by force: left for later, it would read the parameters as memory.
template <class Op, class... Operands, int... J>
__device__ __forceinline__ void compute_pairs(const Op& op, ptrdiff_t i, Numbers<J...>,
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
  if constexpr (in_pairs<Op, Where, V, Args...>)
    compute_pairs(op.pairs, i, typename UpTo<V / 2>::type(),
                  PairOperand<Args, V, WindowAccessor<V, Where>>(args, accessor(K))...);
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

// A thread's elements of a tile that begins at `first`: all rows of its pack at once where their
// windows lie inside. Inlined by force: as a function it would take the parameters from the stack.
template <class Tile, int V, int W, int OUTER, int N, class Op, class... Args, int... K>
__device__ __forceinline__ void compute_tile(const Elements<Windows<W, OUTER>, N>& loop,
                                             const Offsets<OUTER, N>& outer,
                                             const ptrdiff_t (&first)[W], ptrdiff_t number,
                                             const Op& op, Numbers<K...> numbers,
                                             const Args&... args) {
  enum { ROWS = Tile::rows(V), PLANES = Tile::planes(V), COLUMNS = 32 * V };
  // To ask which boundary there is, at each pack or with packs at edges, would be much code.
  enum { KNOWN = (knows_boundary<Args> && ...) };
  // Where the reach is narrow, to find what lies outside of each pack costs less than edges.
  enum { WHOLE_ROWS = KNOWN && Tile::NARROW && V > 1, EDGES = KNOWN && Tile::PACKED_EDGES ? V : 1 };
  ptrdiff_t index[W];  // of a warp's first element; its lanes are in the same rows
#pragma unroll
  for (int k = 0; k < W; ++k) index[k] = first[k];
  index[0] += (threadIdx.x % Tile::lanes(V) & ~31) * V;
  if (W > 1) index[W > 1] += threadIdx.x / Tile::lanes(V) * ROWS;
  if (index[0] >= loop.extents[0]) return;
  int begin = 0, end = COLUMNS;  // columns whose windows lie inside
#pragma unroll
  for (int k = 1; k < W; ++k) {
    const int extent = k == 1 ? (int)ROWS : k == 2 ? (int)PLANES : 1;
    if (index[k] < loop.begin[k] || index[k] + extent > loop.end[k]) begin = end;
  }
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
  // Code for so many rows: where operations select, more of them are worth it.
  enum { SOME = !Tile::BYTES || V <= 8 || in_pairs<Op, Where, V, Args...> ? ROWS : 2 };
  if constexpr (SOME == ROWS) {
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
  unsigned int rest = blockIdx.x;
  ptrdiff_t first[W];
#pragma unroll
  for (int k = 0; k < W; ++k) {
    const unsigned int next = loop.divisors[k].divide(rest);
    unsigned int tile = rest - next * loop.tiles[k];
    if (k == W - 1) tile = (tile > 0 ? tile : loop.tiles[k]) - 1;
    first[k] = (ptrdiff_t)tile * Tile::extent(V, k) * (k == W - 1 ? (int)Tile::STEPS : 1);
    rest = next;
  }
  const Offsets<OUTER, N> outer(loop.outer, (ptrdiff_t)rest);
#pragma unroll 1
  for (int step = 0; step < Tile::STEPS && first[W - 1] < loop.extents[W - 1]; ++step) {
    make_opaque(first);
    compute_tile<Tile, V>(loop, outer, first, rest, op, numbers, args...);
    first[W - 1] += Tile::extent(V, W - 1);
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
