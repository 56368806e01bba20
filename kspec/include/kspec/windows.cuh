// Inputs that an operation reads at offsets from the element, and the loop around it. The operation
// sees such an input `u` as Neighbours: u(-1, 0) is one element further up.
//
//   kspec::for_each(elements, [&](ptrdiff_t i, const auto& u, float& y) { y = u.read(-1, 0); }, ...);
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
  ptrdiff_t extents[A];
  ptrdiff_t first[A];       // index of what the loop has first: not 0 if the boundary is VALID
  ptrdiff_t before[A], after[A];
};

// The elements around one, which has `index` in the array.
template <class T, int A, bool INSIDE> class Neighbours {
 public:
  // `index` is that of the element along the windowed axes, `shift` elements further along the
  // outermost of the A axes: a constant, so that the compiler sees which reads are the same.
  __device__ inline Neighbours(const Window<T, A>& window, const ptrdiff_t* strides,
                               ptrdiff_t offset, const ptrdiff_t* index, int shift = 0)
      : window_(window), strides_(strides), shift_(shift) {
#pragma unroll
    for (int k = 0; k < A; ++k) {
      index_[k] = index[k] + window.first[k];
      offset += window.first[k] * strides[k];
    }
    start_ = element(window.data, Bytes{offset});
  }

  __device__ inline T center() const { return load(shift_ * strides_[A - 1]); }

  // Offsets along the axes, outermost first.
  template <class... Offset> __device__ inline T read(Offset... offset) const {
    static_assert(sizeof...(Offset) == A, "a window is read at one offset for each of its axes");
    const ptrdiff_t offsets[A] = {static_cast<ptrdiff_t>(offset)...};
    ptrdiff_t distance = 0;
#pragma unroll
    for (int k = 0; k < A; ++k) {
      ptrdiff_t step = offsets[A - 1 - k];
      if (!INSIDE) {
        const ptrdiff_t extent = window_.extents[k];
        ptrdiff_t place = index_[k] + step;
        if (place < 0 || place >= extent) place = index_outside(place, extent, window_.boundary);
        if (place < 0) return window_.value;
        step = place - index_[k];
      }
      if (k == A - 1) step += shift_;
      distance += step * strides_[k];
    }
    return load(distance);
  }

  // For samples, which count axes from the outermost: the window, its strides, the index of the
  // element in the array, and the array's first element along the windowed axes.
  __device__ inline const Window<T, A>& window() const { return window_; }
  __device__ inline ptrdiff_t stride(int axis) const { return strides_[A - 1 - axis]; }
  __device__ inline ptrdiff_t index(int axis) const {
    return index_[A - 1 - axis] + (axis == 0 ? shift_ : 0);
  }
  __device__ inline const typename Stored<T>::type* first() const {
    ptrdiff_t distance = 0;
#pragma unroll
    for (int k = 0; k < A; ++k) distance -= index_[k] * strides_[k];
    return element(start_, Bytes{distance});
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
  __device__ inline T load(ptrdiff_t distance) const {
    return static_cast<T>(read_only(element(start_, Bytes{distance})));
  }

  const Window<T, A>& window_;
  const ptrdiff_t* strides_;
  const typename Stored<T>::type* start_;
  ptrdiff_t index_[A];
  int shift_;
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
template <bool INSIDE, class Arg>
__device__ inline decltype(auto) item_at(const Arg& argument, const ptrdiff_t*, ptrdiff_t offset,
                                         const ptrdiff_t*) {
  return argument.item(Bytes{offset});
}
template <bool INSIDE, class T, int A>
__device__ inline Neighbours<T, A, INSIDE> item_at(const Window<T, A>& argument,
                                                   const ptrdiff_t* strides, ptrdiff_t offset,
                                                   const ptrdiff_t* index) {
  return Neighbours<T, A, INSIDE>(argument, strides, offset, index);
}

#ifdef KSPEC_HOST

// Elements [begin, end) of a row that begins with element `row`; `index` is along the windowed axes,
// `outer` where the operands are along the others. UNIT: elements follow each other in memory, which
// the compiler has to know to vectorise the loop.
template <bool INSIDE, bool UNIT, int W, int OUTER, int N, class Op, class... Args, int... K>
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
    op(row + i, item_at<INSIDE>(args, strides[K], start[K] + i * strides[K][0], at)...);
  }
}

// The same with everything inlined: g++ leaves operations of many reads out of line, one element at a
// time.
template <int W, int OUTER, int N, class Op, class... Args, int... K>
__attribute__((flatten)) inline void visit_unit_row(
    const Elements<Windows<W, OUTER>, N>& loop, const Offsets<OUTER, N>& outer, ptrdiff_t row,
    ptrdiff_t begin, ptrdiff_t end, const ptrdiff_t (&index)[W], const Op& op,
    Numbers<K...> numbers, const Args&... args) {
  visit_row<true, true>(loop, outer, row, begin, end, index, op, numbers, args...);
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
template <int W, int OUTER, int N, class Op, class... Args, int... K>
inline void each(const Elements<Windows<W, OUTER>, N>& loop, const Op& op, Numbers<K...> numbers,
                 const Args&... args) {
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
    visit_row<false, false>(loop, outer, row, first, begin, index, op, numbers, args...);
    if (unit) visit_unit_row(loop, outer, row, begin, end, index, op, numbers, args...);
    else visit_row<true, false>(loop, outer, row, begin, end, index, op, numbers, args...);
    visit_row<false, false>(loop, outer, row, end, last, index, op, numbers, args...);
    i = row + last;
  }
}

#define KSPEC_WINDOW(name, window, ...) (window).read(__VA_ARGS__)
#define KSPEC_WINDOW_CHECKED(name, window, ...) \
  (window).read_checked(name, __FILE__, __LINE__, __VA_ARGS__)

#else

// A thread takes elements that follow each other along the outermost windowed axis: their windows
// share most of what is loaded. Neighbouring threads are neighbours along the innermost.
template <int W> struct WindowTile {
  enum {
    THREADS = 256,
    LANES = W == 1 ? THREADS : 32,
    ROWS = THREADS / LANES,
    EACH = W == 1 ? 1 : 4,
  };
  static constexpr int extent(int axis) {
    return (axis == 0 ? (int)LANES : axis == 1 ? (int)ROWS : 1) * (axis == W - 1 ? (int)EACH : 1);
  }
};

// Where V elements of an operand are that follow each other along the outermost windowed axis.
template <int V, int W, bool INSIDE> struct WindowAccessor {
  ptrdiff_t offset, step;
  const ptrdiff_t* strides;
  const ptrdiff_t* index;

  template <class T> __device__ inline void load(const T* data, Pack<T, V>& pack) const {
#pragma unroll
    for (int j = 0; j < V; ++j) pack.put(j, *element(data, Bytes{offset + j * step}));
  }
  template <class T> __device__ inline void store(T* data, const T (&value)[V]) const {
#pragma unroll
    for (int j = 0; j < V; ++j) *element(data, Bytes{offset + j * step}) = value[j];
  }
};

// A windowed operand loads what the operation reads.
template <class T, int A, int V, int W, bool INSIDE>
struct Operand<Window<T, A>, V, WindowAccessor<V, W, INSIDE>> {
  const Window<T, A>& argument;
  const WindowAccessor<V, W, INSIDE> accessor;

  __device__ inline Operand(const Window<T, A>& argument,
                            const WindowAccessor<V, W, INSIDE>& accessor)
      : argument(argument), accessor(accessor) {}
  __device__ inline void load() {}
  __device__ inline Neighbours<T, A, INSIDE> item(int j) const {
    const ptrdiff_t offset = accessor.offset + (A == W ? 0 : j * accessor.step);
    return Neighbours<T, A, INSIDE>(argument, accessor.strides, offset, accessor.index,
                                    A == W ? j : 0);
  }
  __device__ inline void store() {}
};

template <bool INSIDE, int V, int W, int OUTER, int N, class Op, class... Args, int... K>
__device__ inline void compute_windows(const Elements<Windows<W, OUTER>, N>& loop,
                                       const Offsets<OUTER, N>& outer, const ptrdiff_t* index,
                                       ptrdiff_t i, ptrdiff_t step, const Op& op, Numbers<K...>,
                                       const Args&... args) {
  const auto accessor = [&](int k) {
    ptrdiff_t offset = outer.offset[k];
#pragma unroll
    for (int axis = 0; axis < W; ++axis) offset += index[axis] * loop.strides[k][axis];
    const ptrdiff_t* strides = loop.strides[k];
    return WindowAccessor<V, W, INSIDE>{offset, strides[W - 1], strides, index};
  };
  compute<V>(op, i, step, All(),
             Operand<Args, V, WindowAccessor<V, W, INSIDE>>(args, accessor(K))...);
}

template <int W, int OUTER, int N, class Op, class... Args, int... K>
__device__ inline void each(const Elements<Windows<W, OUTER>, N>& loop, const Op& op,
                            Numbers<K...> numbers, const Args&... args) {
  typedef WindowTile<W> Tile;
  unsigned int rest = blockIdx.x;
  ptrdiff_t index[W];
#pragma unroll
  for (int k = 0; k < W; ++k) {
    const unsigned int next = loop.divisors[k].divide(rest);
    index[k] = (ptrdiff_t)(rest - next * loop.tiles[k]) * Tile::extent(k);
    rest = next;
  }
  index[0] += threadIdx.x % Tile::LANES;
  if (W > 1) index[W > 1] += threadIdx.x / Tile::LANES * (W == 2 ? (int)Tile::EACH : 1);
  bool inside = true;
#pragma unroll
  for (int k = 0; k < W; ++k) {
    if (index[k] >= loop.extents[k]) return;
    const int more = k == W - 1 ? Tile::EACH - 1 : 0;
    inside = inside && index[k] >= loop.begin[k] && index[k] + more < loop.end[k];
  }
  const Offsets<OUTER, N> outer(loop.outer, (ptrdiff_t)rest);
  ptrdiff_t i = rest, step = 1;
#pragma unroll
  for (int k = W - 1; k >= 0; --k) {
    i = i * loop.extents[k] + index[k];
    if (k < W - 1) step *= loop.extents[k];
  }
  if (inside) {
    compute_windows<true, Tile::EACH>(loop, outer, index, i, step, op, numbers, args...);
  } else {
#pragma unroll 1
    for (int j = 0; j < Tile::EACH && index[W - 1] < loop.extents[W - 1]; ++j) {
      compute_windows<false, 1>(loop, outer, index, i + j * step, step, op, numbers, args...);
      ++index[W - 1];
    }
  }
}

#define KSPEC_WINDOW(name, window, ...) (window).read(__VA_ARGS__)
#define KSPEC_WINDOW_CHECKED(name, window, ...) (window).read(__VA_ARGS__)

#endif

}  // namespace kspec
