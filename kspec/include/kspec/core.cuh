// Parameters with core dimensions, and the small arrays that an operation sees of them:
// `T A[n, n]` is Core<In<T>, n, n>, of whose items A(r, c) is an element.
//
// A small item is copied to registers as a whole; elements of larger ones are read and written
// where they are. kspec/runtime/schedules/item_schedule.py packs the same structures.
#pragma once

#include "kspec/operand.cuh"
#include "kspec/pack.cuh"
#ifdef KSPEC_HOST
#include "kspec/message.cuh"
#endif

namespace kspec {

// Extents are expressions, in which Python's `//` is this.
__device__ constexpr int floor_div(int a, int b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

template <class Access, int... D> struct Core : Access {};  // never made: the cases follow

template <class... I>
constexpr bool are_integers = ((static_cast<I>(1.5) == static_cast<I>(1)) && ...);

template <int... D> __device__ constexpr int last_of() {
  constexpr int extents[] = {0, D...};
  return extents[sizeof...(D)];
}

// What an array of these extents has, in C order.
template <int... D> struct Extents {
  enum { axes = sizeof...(D), count = (1 * ... * D), room = count > 0 ? count : 1 };
  enum { last = last_of<D...>() };

  template <class... I> __device__ static constexpr int place(I... index) {
    static_assert(sizeof...(I) == axes, "an element has one index for each core dimension");
    static_assert(are_integers<I...>, "the indices of an element are integers");
    int at = 0;
    ((at = at * D + (int)index), ...);
    return at;
  }
  // The distance in bytes of an element that is number k.
  __device__ static inline ptrdiff_t distance(int k, const ptrdiff_t* strides) {
    constexpr int extents[] = {D...};
    ptrdiff_t bytes = 0;
#pragma unroll
    for (int axis = axes - 1; axis >= 0; --axis) {
      const int extent = extents[axis] > 0 ? extents[axis] : 1;
      bytes += k % extent * strides[axis];
      k /= extent;
    }
    return bytes;
  }
#ifdef KSPEC_HOST
  template <class... I>
  static inline void check(const char* name, const char* file, int line, I... index) {
    const ptrdiff_t given[] = {(ptrdiff_t)index...}, extents[] = {D...};
    for (int axis = 0; axis < (int)sizeof...(I) && axis < axes; ++axis) {
      if (given[axis] >= 0 && given[axis] < extents[axis]) continue;
      FaultText message;
      message.add("index ").add(given[axis]).add(" of ").add(name);
      message.add(" is outside of its core dimension ").add((ptrdiff_t)axis);
      message.add(", which has ").add(extents[axis]).add(" elements");
      ::kspec_host::kspec_fail("bounds", message.text, file, line);
    }
  }
#endif
};

// A copy of an item.
template <class T, int... D> struct Item : Extents<D...> {
  typedef Extents<D...> Shape;
  T value[Shape::room];

  template <class... I> __device__ inline T& operator()(I... index) {
    return value[Shape::place(index...)];
  }
  template <class... I> __device__ inline const T& operator()(I... index) const {
    return value[Shape::place(index...)];
  }
  __device__ inline void clear() {
#pragma unroll
    for (int k = 0; k < Shape::count; ++k) value[k] = T();
  }
#ifdef KSPEC_HOST
  template <class... I>
  inline T& checked(const char* name, const char* file, int line, I... index) {
    Shape::check(name, file, line, index...);
    return (*this)(index...);
  }
  template <class... I>
  inline const T& checked(const char* name, const char* file, int line, I... index) const {
    Shape::check(name, file, line, index...);
    return (*this)(index...);
  }
#endif
};

// An item where it is.
template <class Access, int... D> struct FarItem : Extents<D...> {
  typedef Extents<D...> Shape;
  const Core<Access, D...>& argument;
  const ptrdiff_t offset;

  __device__ inline FarItem(const Core<Access, D...>& argument, ptrdiff_t offset)
      : argument(argument), offset(offset) {}
  template <class... I> __device__ inline decltype(auto) operator()(I... index) const {
    static_assert(sizeof...(I) == Shape::axes, "an element has one index for each core dimension");
    static_assert(are_integers<I...>, "the indices of an element are integers");
    ptrdiff_t at = offset;
    int axis = 0;
    ((at += (ptrdiff_t)index * argument.strides[axis++]), ...);
    return argument.element_at(Bytes{at});
  }
#ifdef KSPEC_HOST
  template <class... I>
  inline decltype(auto) checked(const char* name, const char* file, int line, I... index) const {
    Shape::check(name, file, line, index...);
    return (*this)(index...);
  }
#endif
};

template <class Access, int... D>
__device__ inline void load_item(const Core<Access, D...>& from, ptrdiff_t offset,
                                 Item<typename Access::type, D...>& item);

// What the parameters have in common. A small item is at most so large.
template <class Access, int... D> struct CoreOf {
  typedef typename Access::type type;
  typedef typename Stored<type>::type Element;
  typedef Extents<D...> Shape;
  enum {
    BYTES = Shape::count * sizeof(Element),
    IS_SMALL = Shape::count <= 64 && BYTES <= 512,
    // As many bytes as fill an access, and divide an item evenly.
    ACCESS = !__is_trivially_copyable(Element) || !BYTES ? 1
             : BYTES % 16 == 0                           ? 16
             : BYTES % 8 == 0                            ? 8
             : BYTES % 4 == 0                            ? 4
             : BYTES % 2 == 0                            ? 2
                                                         : 1,
    ACCESSES = BYTES / ACCESS,
    // Items in shared memory are an odd number of accesses apart, so that threads with neighbouring
    // ones have no bank conflicts.
    PITCH = BYTES + (ACCESSES % 2 ? 0 : ACCESS)
  };
};

template <class T, int... D> struct Core<In<T>, D...> : CoreOf<In<T>, D...> {
  enum { IS_READ = 1, IS_WRITTEN = 0 };
  const typename Stored<T>::type* data;
  ptrdiff_t strides[sizeof...(D)];

  __device__ inline T element_at(Bytes at) const { return static_cast<T>(*element(data, at)); }
  // What a map sees.
  __device__ inline auto item(Bytes at) const {
    if constexpr (CoreOf<In<T>, D...>::IS_SMALL) {
      Item<T, D...> own;
      load_item(*this, at.offset, own);
      return own;
    } else {
      return FarItem<In<T>, D...>(*this, at.offset);
    }
  }
};
template <class T, int... D> struct Core<InOut<T>, D...> : CoreOf<InOut<T>, D...> {
  enum { IS_READ = 1, IS_WRITTEN = 1 };
  T* data;
  ptrdiff_t strides[sizeof...(D)];

  __device__ inline T& element_at(Bytes at) const {
    T* place = element(data, at);
    settle(place);
    return *place;
  }
};
template <class T, int... D> struct Core<Out<T>, D...> : CoreOf<Out<T>, D...> {
  enum { IS_READ = 0, IS_WRITTEN = 1 };
  T* data;
  ptrdiff_t strides[sizeof...(D)];

  __device__ inline T& element_at(Bytes at) const { return *element(data, at); }
  // What a post-map writes to.
  __device__ inline FarItem<Out<T>, D...> item(Bytes at) const {
    return FarItem<Out<T>, D...>(*this, at.offset);
  }
};

// What a map sees of an input.
template <class Input> using SeenOf = decltype(static_cast<const Input*>(nullptr)->item(Bytes{0}));

// Load an item from anywhere, store it, and set it to zeros.
template <class Access, int... D>
__device__ inline void load_item(const Core<Access, D...>& from, ptrdiff_t offset,
                                 Item<typename Access::type, D...>& item) {
  typedef Extents<D...> Shape;
#pragma unroll
  for (int k = 0; k < Shape::count; ++k)
    item.value[k] = from.element_at(Bytes{offset + Shape::distance(k, from.strides)});
}
template <class Access, int... D>
__device__ inline void store_item(const Core<Access, D...>& to, ptrdiff_t offset,
                                  const Item<typename Access::type, D...>& item) {
  typedef Extents<D...> Shape;
#pragma unroll
  for (int k = 0; k < Shape::count; ++k)
    *element(to.data, Bytes{offset + Shape::distance(k, to.strides)}) = item.value[k];
}
template <class Access, int... D>
__device__ inline void clear_item(const Core<Access, D...>& to, ptrdiff_t offset) {
  typedef Extents<D...> Shape;
#pragma unroll 1
  for (int k = 0; k < Shape::count; ++k)
    *element(to.data, Bytes{offset + Shape::distance(k, to.strides)}) = typename Access::type();
}

}  // namespace kspec

#ifdef KSPEC_HOST
#define KSPEC_CORE(name, item, ...) (item).checked(name, __FILE__, __LINE__, __VA_ARGS__)
#else
#define KSPEC_CORE(name, item, ...) (item)(__VA_ARGS__)
#endif
