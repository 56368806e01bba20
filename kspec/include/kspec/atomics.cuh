// Atomic functions that CUDA has not, as in CuPy: atomicAdd of long long, atomicMin and atomicMax
// of float and double. (Those of 16-bit floats come with kspec/half.cuh.)
//
// They are templates, so that a function of the same name in the user's preamble is preferred.
#pragma once

namespace kspec {

template <class T> struct FloatWord {};
template <> struct FloatWord<float> { typedef unsigned int type; };
template <> struct FloatWord<double> { typedef unsigned long long type; };
template <class T> struct LongLong {};
template <> struct LongLong<long long> { typedef long long type; };

template <class To, class From> __device__ inline To float_bits(From value) {
  union Both {
    From from;
    To to;
  } both;
  both.from = value;
  return both.to;
}

// Replaces a number by a better one, compared in its own precision: compare and swap until
// nobody came between. As with fmin and fmax, NaN gives way to a number. Returns the old value.
template <class Better, class T> __device__ inline T atomic_select(T* address, T value) {
  typedef typename FloatWord<T>::type Word;
  Word* word = reinterpret_cast<Word*>(address);
  Word seen = *const_cast<volatile Word*>(word);
  for (;;) {
    const T old = float_bits<T>(seen);
    if (!(Better::better(value, old) || (old != old && value == value))) return old;
    const Word before = atomicCAS(word, seen, float_bits<Word>(value));
    if (before == seen) return old;
    seen = before;
  }
}
struct Less {
  template <class T> __device__ static inline bool better(T left, T right) { return left < right; }
};
struct Greater {
  template <class T> __device__ static inline bool better(T left, T right) { return left > right; }
};

}  // namespace kspec

template <class T, class = typename kspec::FloatWord<T>::type>
__device__ inline T atomicMin(T* address, decltype(T()) value) {
  return kspec::atomic_select<kspec::Less>(address, value);
}
template <class T, class = typename kspec::FloatWord<T>::type>
__device__ inline T atomicMax(T* address, decltype(T()) value) {
  return kspec::atomic_select<kspec::Greater>(address, value);
}
// Two's complement: signed and unsigned sums have the same bits.
template <class T, class = typename kspec::LongLong<T>::type>
__device__ inline T atomicAdd(T* address, decltype(T()) value) {
  return (T)atomicAdd(reinterpret_cast<unsigned long long*>(address), (unsigned long long)value);
}
