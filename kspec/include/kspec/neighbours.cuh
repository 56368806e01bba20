// Inputs that an operation reads at offsets from the element. It sees such an input `u` as Neighbours:
// u(-1, 0) is one element further up. What is known about the elements around it says how they are
// read: where all of them lie inside the array, a read is a load. Elsewhere the boundary says what to
// read instead.
#pragma once

#include "kspec/boundary.cuh"
#include "kspec/operand.cuh"
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

// Whether elements are read from the array itself.
template <class Around> constexpr bool is_in_memory = true;

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
    if constexpr (!is_in_memory<Around>) return Around::template read<T>(*this, around_, offsets);
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

  // How far the element is along an axis, counted from the innermost, from that of `index`.
  __device__ inline int shift(int axis) const { return axis < 3 ? shift_[axis] : 0; }

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

// The index that an index along an axis of a window stands for; -1: none.
template <class Source>
__device__ inline ptrdiff_t index_in(const Source& window, ptrdiff_t index, int axis) {
  const ptrdiff_t extent = window.extents[axis];
  return index >= 0 && index < extent ? index : index_outside(index, extent, window.boundary());
}

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
      const ptrdiff_t own = near.index(k);
      const ptrdiff_t place = index_in(near.window(), own + offsets[k], A - 1 - k);
      if (place < 0) return near.window().value;
      distance += (place - own) * near.stride(k);
    }
    return near.load_single(distance);
  }
};

// Compute the j-th element of a thread, which is number i.
template <class Op, class... Operands>
__device__ inline void compute_item(const Op& op, ptrdiff_t i, int j, Operands&... operands) {
  op(i, operands.item(j)...);
}

}  // namespace kspec
