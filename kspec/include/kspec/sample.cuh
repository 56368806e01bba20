// Samples: inputs read between elements, by the B-spline of an order.
//
//   x.sample(y, x)            raw: coordinates along all axes, in elements
//   x.slice(n).sample(y, x)   the same of the array x[n]
//   u.sample(dy, dx)          windowed: offsets from the element
//
// Order 0 takes the nearest element (the higher one in the middle between two), order 1 interpolates
// linearly, and order 3 combines cubic B-spline coefficients. Elements of weight 0 do not count. A
// coordinate that is NaN, or infinite where the boundary repeats the array, has the sample NaN.
// Elements outside are those of the boundary, as with SciPy's grid-wrap and grid-constant.
#pragma once

#include "kspec/boundary.cuh"
#include "kspec/operand.cuh"

namespace kspec {

template <class T> struct IsInteger { enum { value = 0 }; };
#define KSPEC_INTEGER(type) \
  template <> struct IsInteger<type> { enum { value = 1 }; };
KSPEC_INTEGER(bool) KSPEC_INTEGER(char) KSPEC_INTEGER(signed char) KSPEC_INTEGER(unsigned char)
KSPEC_INTEGER(short) KSPEC_INTEGER(unsigned short) KSPEC_INTEGER(int) KSPEC_INTEGER(unsigned int)
KSPEC_INTEGER(long) KSPEC_INTEGER(unsigned long) KSPEC_INTEGER(long long)
KSPEC_INTEGER(unsigned long long)
#undef KSPEC_INTEGER

// Functions that are never called, only asked for their types.
template <class T> __device__ T sample_value();
__device__ float sample_part(const float*);
__device__ double sample_part(const double*);
template <class T> __device__ typename T::value_type sample_part(const T*);  // of complex numbers
__device__ float sample_part(const void*);  // of structs, which order 0 takes as they are
template <class T> __device__ decltype(sample_value<T>() * 1.0f) sample_number(int);
template <class T> __device__ T sample_number(...);
template <class T> __device__ decltype(sample_value<T>() * 1.0f, char()) has_product(int);
template <class T> __device__ int has_product(...);

// The type that coordinates are computed in: double for integers and double, otherwise float.
template <class T, bool INTEGER = IsInteger<T>::value> struct Coordinate { typedef double type; };
template <class T> struct Coordinate<T, false> {
  typedef decltype(sample_value<T>() + 0.0f) type;
};

// The type of a sample of T, and the real one of its weights. Integers are sampled to the type of
// the coordinates; floats of 8 and 16 bits to float, in which they compute.
template <class T, class C, int ORDER, bool INTEGER = IsInteger<T>::value> struct Sample {
  typedef decltype(sample_number<T>(0)) type;
  typedef decltype(sample_part((const type*)nullptr)) Weight;
};
template <class T, class C, int ORDER> struct Sample<T, C, ORDER, true> {
  typedef C type;
  typedef C Weight;
};
template <class T, class C> struct Sample<T, C, 0, true> {
  typedef T type;
  typedef float Weight;
};

// The sample at a coordinate without a place: NaN, or `value` for integers and structs.
template <class R, bool HAS_NAN = !IsInteger<R>::value && sizeof(has_product<R>(0)) == 1>
struct Nowhere {
  __device__ static inline R sample(R value) { return value; }
};
template <class R> struct Nowhere<R, true> {
  __device__ static inline R sample(R) {
    typedef decltype(sample_part((const R*)nullptr)) Part;
    return R((Part)CUDART_NAN);
  }
};

// The elements that a sample combines along one axis; -1: one that lies outside.
template <class Weight, int ORDER> struct Taps {
  ptrdiff_t at[ORDER + 1];
  Weight weight[ORDER + 1];

  __device__ inline void weigh(Weight rest) {
    const Weight one = 1, other = one - rest;
    if (ORDER == 0) {
      weight[0] = one;
    } else if (ORDER == 1) {
      weight[0] = other;
      weight[ORDER] = rest;
    } else {
      weight[0] = other * other * other / 6;
      weight[ORDER / 3] = (rest * rest * (rest - 2) * 3 + 4) / 6;
      weight[2 * ORDER / 3] = (other * other * (other - 2) * 3 + 4) / 6;
      weight[ORDER] = rest * rest * rest / 6;
    }
  }
};

// The first element that a sample at a coordinate combines, in a type that holds its index; `rest` is
// how far behind the lower of those around it the coordinate is.
template <int ORDER, class Index, class C, class Rest>
__device__ inline ptrdiff_t first_tap(C coordinate, Rest& rest) {
  Index lower = (Index)coordinate;
  C place = (C)lower;
  if (place > coordinate) {
    --lower;
    place -= 1;
  }
  rest = (Rest)coordinate - (Rest)place;
  if (ORDER == 0) return lower + (rest >= (Rest)0.5);
  return lower - (ORDER == 3);
}

// Whether the index is an int: 64-bit conversions take four times as long on a GPU.
template <class C> __device__ inline bool has_short_index(C coordinate) {
  return coordinate > (C)-1073741824 && coordinate < (C)1073741824;
}

// Coordinates that are beyond this have no index.
template <class C> __device__ inline bool has_index(C coordinate) {
  return coordinate > (C)-1e18 && coordinate < (C)1e18;
}

// The coordinate within the array that stands for one outside, as in SciPy; NaN: none.
__device__ __noinline__ inline double coordinate_outside(double c, ptrdiff_t n, int boundary) {
  const double extent = (double)n;
  const bool repeats = boundary == REFLECT || boundary == MIRROR || boundary == WRAP;
  if (n <= 0 && (repeats || boundary == NEAREST)) return CUDART_NAN;
  // Four elements away all taps are outside.
  if (!repeats) return c < -4 ? -4 : c > extent + 3 ? extent + 3 : c;
  if (c >= 0 && c <= extent - 1) return c;
  if (boundary == WRAP) {
    c = fmod(c, extent);
    return c < 0 ? c + extent : c;
  }
  const double size = c < 0 ? -c : c;
  if (boundary == REFLECT) {
    const double rest = fmod(size, 2 * extent);
    if (c < 0) return rest > extent ? 2 * extent - rest : rest - 1;
    return rest >= extent ? 2 * extent - rest - 1 : rest;
  }
  if (n == 1) return size - size;  // infinity has no place here either
  const double period = 2 * extent - 2, rest = fmod(size, period);
  if (c < 0) return rest >= extent - 1 ? period - rest : rest;
  return rest >= extent ? period - rest : rest;
}

// The taps from a first one on, of which the boundary takes the place where they are outside.
template <int ORDER, class Weight>
__device__ inline void set_taps(Taps<Weight, ORDER>& taps, ptrdiff_t first, Weight rest,
                                ptrdiff_t n, int boundary) {
  taps.weigh(rest);
  const bool inside = first >= 0 && first + ORDER < n;
#pragma unroll
  for (int k = 0; k <= ORDER; ++k) {
    const ptrdiff_t place = first + k;
    const bool there = inside || (place >= 0 && place < n);
    taps.at[k] = there ? place : index_outside(place, n, boundary);
  }
}

// Find the taps at `base + offset` of an axis; false if there is no such place. The offset is
// apart, so that its fraction keeps its bits, and is the same in each part of a divided array.
template <int ORDER, class Weight, class C>
__device__ inline bool place_taps(Taps<Weight, ORDER>& taps, ptrdiff_t base, C offset, ptrdiff_t n,
                                  int boundary) {
  const bool mirrored = boundary == REFLECT || boundary == MIRROR;
  if (n > 0 && has_short_index(offset)) {
    decltype(C() + Weight()) rest;
    const ptrdiff_t first = base + first_tap<ORDER, int>(offset, rest);
    // In a mirror the middle between two elements goes to the other one.
    const bool turned = ORDER == 0 && mirrored && (first < (rest >= 0.5f) || first >= n);
    if (!turned) {
      set_taps<ORDER>(taps, first, (Weight)rest, n, boundary);
      return true;
    }
  }
  double rest;
  const double inside = coordinate_outside((double)base + (double)offset, n, boundary);
  if (!has_index(inside)) return false;
  const ptrdiff_t first = first_tap<ORDER, ptrdiff_t>(inside, rest);
  set_taps<ORDER>(taps, first, (Weight)rest, n, boundary);
  return true;
}

// Where a sample of N axes is, outermost first: at `base + offsets`.
template <int N, class C> struct Site {
  ptrdiff_t extents[N], strides[N], base[N];
  C offsets[N];
};

// The sum over elements that lie inside along all axes, from the first one on: most samples are
// such, and none of their loads waits for another, or for a branch.
template <class T, class R, class Weight, int ORDER, int N> struct SumInside {
  typedef typename Stored<T>::type Item;
  Taps<Weight, ORDER> taps[N];
  ptrdiff_t distance;  // of the first element
  bool found;          // whether they lie inside

  template <class C>
  __device__ inline explicit SumInside(const Site<N, C>& site) : distance(0), found(true) {
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const bool is_short = has_short_index(site.offsets[k]);
      const C offset = is_short ? site.offsets[k] : C(0);
      decltype(C() + Weight()) rest;
      const ptrdiff_t first = site.base[k] + first_tap<ORDER, int>(offset, rest);
      // In a mirror the middle between two elements goes to the other one.
      const bool turned = ORDER == 0 && rest >= 0.5f;
      found = found & is_short & (first >= turned) & (first + ORDER < site.extents[k]);
      taps[k].weigh((Weight)rest);
      distance += first * site.strides[k];
    }
  }
  template <int AXIS> __device__ inline R from(const Item* place, const ptrdiff_t* strides) const {
    if constexpr (AXIS == N) {
      return static_cast<R>(static_cast<T>(read_only(place)));
    } else if constexpr (ORDER == 0) {  // structs have no sum
      return from<AXIS + 1>(place, strides);
    } else {
      R part[ORDER + 1], sum = R(0);
#pragma unroll
      for (int k = 0; k <= ORDER; ++k)
        part[k] = from<AXIS + 1>(element(place, Bytes{k * strides[AXIS]}), strides);
#pragma unroll
      for (int k = 0; k <= ORDER; ++k) {  // an element of weight 0 may be NaN
        const Weight weight = taps[AXIS].weight[k];
        if (weight != 0) sum = sum + part[k] * weight;
      }
      return sum;
    }
  }
};

// The sum over the taps of all axes, wherever they are.
template <class T, class R, class Weight, int ORDER, int N> struct TapSum {
  typedef typename Stored<T>::type Item;
  Taps<Weight, ORDER> taps[N];
  ptrdiff_t strides[N];
  R value;

  template <int AXIS> __device__ inline R from(const Item* place) const {
    if constexpr (AXIS == N) {
      return static_cast<R>(static_cast<T>(read_only(place)));
    } else if constexpr (ORDER == 0) {
      const ptrdiff_t at = taps[AXIS].at[0];
      return at < 0 ? value : from<AXIS + 1>(element(place, Bytes{at * strides[AXIS]}));
    } else {
      R sum = R(0);
#pragma unroll
      for (int k = 0; k <= ORDER; ++k) {
        const Weight weight = taps[AXIS].weight[k];
        const ptrdiff_t at = taps[AXIS].at[k];
        if (weight == 0) continue;
        if (at < 0)
          sum = sum + value * weight;
        else
          sum = sum + from<AXIS + 1>(element(place, Bytes{at * strides[AXIS]})) * weight;
      }
      return sum;
    }
  }
};

// The sample of an array that has its first element at `data`. Not inlined: few samples are beyond
// its elements, and an operation may have many.
template <int ORDER, class T, int N, class C>
__device__ __noinline__ typename Sample<T, C, ORDER>::type sample_anywhere(
    const typename Stored<T>::type* data, Site<N, C> site, int boundary, T value) {
  typedef typename Sample<T, C, ORDER>::type R;
  TapSum<T, R, typename Sample<T, C, ORDER>::Weight, ORDER, N> sum;
  sum.value = static_cast<R>(value);
  bool somewhere = true;
#pragma unroll
  for (int k = 0; k < N; ++k) {
    sum.strides[k] = site.strides[k];
    somewhere &=
        place_taps(sum.taps[k], site.base[k], site.offsets[k], site.extents[k], boundary);
  }
  if (!somewhere) return Nowhere<R>::sample(sum.value);
  return sum.template from<0>(data);
}

// The same, without a branch where all elements lie inside.
template <int ORDER, class T, int N, class C>
__device__ inline typename Sample<T, C, ORDER>::type sample_at(
    const typename Stored<T>::type* data, const Site<N, C>& site, int boundary, const T& value) {
  typedef typename Sample<T, C, ORDER>::type R;
  const SumInside<T, R, typename Sample<T, C, ORDER>::Weight, ORDER, N> inside(site);
  if (!inside.found) return sample_anywhere<ORDER, T>(data, site, boundary, value);
  return inside.template from<0>(element(data, Bytes{inside.distance}), site.strides);
}

template <class... Number> using CoordinateOf =
    typename Coordinate<decltype((sample_value<Number>() + ...))>::type;

// A raw input, or the part of one at an index of its first axes.
template <class T, int N, int ORDER> struct Slice {
  const typename Stored<T>::type* data;
  const ptrdiff_t* shape;
  const ptrdiff_t* strides;
  int boundary;
  T value;

  template <class... Number> __device__ inline auto sample(Number... coordinate) const {
    static_assert(sizeof...(Number) == N, "a sample has one coordinate for each axis");
    typedef CoordinateOf<Number...> C;
    Site<N, C> site = {{}, {}, {}, {static_cast<C>(coordinate)...}};
#pragma unroll
    for (int k = 0; k < N; ++k) {
      site.extents[k] = shape[k];
      site.strides[k] = strides[k];
    }
    return sample_at<ORDER>(data, site, boundary, value);
  }
};

// A raw input that is sampled. kspec/runtime/schedules/marshal.py packs it.
template <class T, int NDIM, int ORDER> struct Sampled : Array<const T, NDIM> {
  alignas(16) T value;  // of elements outside, where the boundary is CONSTANT
  int boundary;

  template <class... I> __device__ inline Slice<T, NDIM - (int)sizeof...(I), ORDER> slice(
      I... index) const {
    const ptrdiff_t indices[sizeof...(I) + 1] = {static_cast<ptrdiff_t>(index)..., 0};
    ptrdiff_t offset = 0;
#pragma unroll
    for (int k = 0; k < (int)sizeof...(I); ++k) offset += indices[k] * this->strides_[k];
    const auto* data = reinterpret_cast<const typename Stored<T>::type*>(this->data_);
    return {element(data, Bytes{offset}), this->shape_ + sizeof...(I),
            this->strides_ + sizeof...(I), boundary, value};
  }
  template <class... Number> __device__ inline auto sample(Number... coordinate) const {
    return slice().sample(coordinate...);
  }
};

// The sample of a windowed input at offsets from the element.
template <int ORDER, class Near, class... Number>
__device__ inline auto sample_near(const Near& near, Number... offset) {
  typedef typename Near::type T;
  constexpr int A = Near::axes;
  static_assert(sizeof...(Number) == A, "a sample has one offset for each axis of the window");
  typedef CoordinateOf<Number...> C;
  Site<A, C> site = {{}, {}, {}, {static_cast<C>(offset)...}};
#pragma unroll
  for (int k = 0; k < A; ++k) {
    site.extents[k] = near.window().extents[A - 1 - k];
    site.strides[k] = near.stride(k);
    site.base[k] = near.index(k);
  }
  return sample_at<ORDER>(near.first(), site, near.window().boundary(), near.window().value);
}

#ifdef KSPEC_HOST
// The same, after a check that the elements that it combines are within the reach.
template <int ORDER, class Near, class... Number>
inline auto sample_checked(const char* name, const char* file, int line, const Near& near,
                           Number... offset) {
  typedef CoordinateOf<Number...> C;
  const C offsets[sizeof...(Number)] = {static_cast<C>(offset)...};
  for (int axis = 0; axis < Near::axes; ++axis) {
    C one = offsets[axis], rest;
    if (one != one) continue;
    const C most = (C)1e15;
    if (!has_index(one)) one = one < 0 ? -most : most;
    const ptrdiff_t first = first_tap<ORDER, ptrdiff_t>(one, rest);
    Taps<C, ORDER> taps;
    taps.weigh(rest);
    for (int k = 0; k <= ORDER; ++k)
      if (taps.weight[k] != 0) near.check_reach(axis, first + k, name, file, line);
  }
  return sample_near<ORDER>(near, offset...);
}
#define KSPEC_SAMPLE(order, name, window, ...) \
  kspec::sample_checked<order>(name, __FILE__, __LINE__, window, __VA_ARGS__)
#else
#define KSPEC_SAMPLE(order, name, window, ...) kspec::sample_near<order>(window, __VA_ARGS__)
#endif

}  // namespace kspec
