// How arguments reach a generated kernel: In<T>, Out<T> (one element at a time) and
// Array<T, NDIM> (`raw`: indexed by hand).  kspec/runtime/schedules/marshal.py packs the same layouts.
#pragma once

#include "kspec/array.cuh"
#include "kspec/constants.cuh"
#include "kspec/truth.cuh"

namespace kspec {

// Where an element is: its number among contiguous elements, or its distance in bytes.
struct Nth { ptrdiff_t index; };
struct Bytes { ptrdiff_t offset; };

template <class T> __device__ inline T* element(T* data, Nth at) { return data + at.index; }
template <class T> __device__ inline T* element(T* data, Bytes at) {
  return reinterpret_cast<T*>(reinterpret_cast<size_t>(data) + at.offset);
}

// 0, 1, ... N - 1 as a parameter pack: the numbers of the operands.
template <int... K> struct Numbers {};
template <int N, int... K> struct UpTo : UpTo<N - 1, N - 1, K...> {};
template <int... K> struct UpTo<0, K...> { typedef Numbers<K...> type; };

template <int K> struct Number { enum { value = K }; };

// An input: an array, or (null pointer) a scalar that travels in the parameter itself. The test
// is uniform over the launch; it spares a specialization for each mix of arrays and scalars.
template <class T> struct In {
  typedef T type;
  const typename Stored<T>::type* data;
  T value;

  template <class At> __device__ inline T item(At at) const {
    return data ? static_cast<T>(*element(data, at)) : value;
  }
};

// What the kernel may read before it writes it: `_non_const` inputs, and outputs that the
// operation does not simply assign.
template <class T> struct InOut {
  typedef T type;
  T* data;

  template <class At> __device__ inline T& item(At at) const {
    T* place = element(data, at);
    settle(place);
    return *place;
  }
};

// An output whose old value nobody sees.
template <class T> struct Out {
  typedef T type;
  T* data;

  template <class At> __device__ inline T& item(At at) const { return *element(data, at); }
};

// A raw argument. `x[k]` is the k-th element in C order of the logical shape, whatever the
// strides; `x[index]` and `x[{a, b}]` take one integer per axis. Neither checks bounds. A function
// of the user's can take it as a CArray.
template <class T, int NDIM> struct Array : CArray<typename Mutable<T>::type, NDIM> {
  typedef CArray<typename Mutable<T>::type, NDIM> Base;
  using Base::contiguous_;
  using Base::data_;
  using Base::room;
  using Base::shape_;
  using Base::strides_;

  __device__ inline T& operator[](ptrdiff_t k) const {
    if (NDIM == 0) return *data_;
    if (contiguous_) return data_[k];
    ptrdiff_t offset = 0;
#pragma unroll
    for (int axis = room - 1; axis > 0; --axis) {
      const ptrdiff_t rest = k / shape_[axis];
      offset += (k - rest * shape_[axis]) * strides_[axis];
      k = rest;
    }
    return *element(data_, Bytes{offset + k * strides_[0]});
  }
  __device__ inline T& operator[](const typename Index<NDIM>::type& index) const {
    return at(index);
  }
  // A template, so that the literal 0 stays an integer.
  template <class I> __device__ inline T& operator[](const I* index) const { return at(index); }

 private:
  template <class I> __device__ inline T& at(const I* index) const {
    ptrdiff_t offset = 0;
#pragma unroll
    for (int axis = 0; axis < NDIM; ++axis) offset += (ptrdiff_t)index[axis] * strides_[axis];
    return *element(data_, Bytes{offset});
  }
};

// A number where the kernel declares a raw argument, as In<T> packs it.
template <class T> struct Array<const T, -1> : In<T> {
  enum { ndim = 0 };

  __device__ inline operator T() const { return this->value; }
  template <class At> __device__ inline T operator[](const At&) const {
    static_assert(sizeof(At) == 0, "a raw parameter that is indexed needs an array, not a number");
    return this->value;
  }
};

}  // namespace kspec
