// Elements of bool arrays whose bytes are neither 0 nor 1, which views of other memory have. NumPy
// takes each of them for True; C++ leaves undefined what reading one as a bool gives.
#pragma once

namespace kspec {

// The type that an element is read as. It converts to the element's own.
template <class T> struct Stored { typedef T type; };
template <> struct Stored<bool> { typedef unsigned char type; };

template <class T> __device__ inline const typename Stored<T>::type* stored(const T* data) {
  return reinterpret_cast<const typename Stored<T>::type*>(data);
}

__device__ inline bool truth(const bool& element) { return *stored(&element) != 0; }

// Before an element is read in its place: let its byte be 0 or 1.
template <class T> __device__ inline void settle(T*) {}
__device__ inline void settle(bool* element) { *element = truth(*element); }

}  // namespace kspec
