// Atomic functions on numbers for which CUDA has none: 8- and 16-bit integers and floating-point
// numbers, signed 64-bit integers, minima and maxima of floating-point numbers, and sums of complex
// ones, whose parts are added one by one.
//
// They are templates, so that CUDA's own functions, and those of the user's preamble, are preferred.
#pragma once

template <class Real> class complex;

namespace kspec {

// A number whose first bytes are those of another one.
template <class To, class From> __device__ inline To first_bytes(From value) {
  To bits = 0;
  memcpy(&bits, &value, sizeof(To) < sizeof(From) ? sizeof(To) : sizeof(From));
  return bits;
}
template <class T> __device__ inline unsigned long long* wide_word(T* address) {
  return reinterpret_cast<unsigned long long*>(address);
}

// The word that is compared and swapped for a number, of which GPUs have none of a single byte: at the
// end of an array of bytes, the word may have the byte behind it.
template <int BYTES> struct AtomicWord {};
template <> struct AtomicWord<1> { typedef unsigned short type; };
template <> struct AtomicWord<2> { typedef unsigned short type; };
template <> struct AtomicWord<4> { typedef unsigned int type; };
template <> struct AtomicWord<8> { typedef unsigned long long type; };

// Let a number be `change(number)`: compare and swap until nobody came between. Returns the old one.
template <class T, class Change>
__device__ inline T atomic_update(T* address, const Change& change) {
#ifdef KSPEC_HOST
  return kspec_host::update(address, change);
#else
  typedef typename AtomicWord<sizeof(T)>::type Word;
  const size_t place = reinterpret_cast<size_t>(address);
  Word* const word = reinterpret_cast<Word*>(place / sizeof(Word) * sizeof(Word));
  const int shift = sizeof(T) == 1 ? place % 2 * 8 : 0;
  const Word others = sizeof(T) == 1 ? (Word)(0xff00u >> shift) : 0;
  Word seen = *const_cast<volatile Word*>(word);
  for (;;) {
    const T old = first_bytes<T>(Word(seen >> shift));
    const Word wanted = (seen & others) | Word(first_bytes<Word>(T(change(old))) << shift);
    if (wanted == seen) return old;
    const Word found = atomicCAS(word, seen, wanted);
    if (found == seen) return old;
    seen = found;
  }
#endif
}

// The smaller or greater number, compared in its own precision. As with fmin and fmax, NaN gives way to
// a number.
template <bool LESS> struct Better {
  template <class T> __device__ static inline T of(T left, T right) {
    const bool better = LESS ? right < left : left < right;
    return better || (left != left && right == right) ? right : left;
  }
};

// Numbers of which sums and minima are made here.
template <class T> struct Summed { enum { value = sizeof(T) <= 2 }; };
template <> struct Summed<long long> { enum { value = 1 }; };
template <class T> struct Ordered { enum { value = sizeof(T) <= 2 }; };
template <> struct Ordered<float> { enum { value = 1 }; };
template <> struct Ordered<double> { enum { value = 1 }; };
template <bool> struct If {};
template <> struct If<true> { typedef int type; };

}  // namespace kspec

template <class T, typename kspec::If<kspec::Ordered<T>::value>::type = 0>
__device__ inline T atomicMin(T* address, decltype(T()) value) {
  return kspec::atomic_update(address, [=](T old) { return kspec::Better<true>::of(old, value); });
}
template <class T, typename kspec::If<kspec::Ordered<T>::value>::type = 0>
__device__ inline T atomicMax(T* address, decltype(T()) value) {
  return kspec::atomic_update(address, [=](T old) { return kspec::Better<false>::of(old, value); });
}
// Two's complement: signed and unsigned sums have the same bits.
template <class T, typename kspec::If<kspec::Summed<T>::value>::type = 0>
__device__ inline T atomicAdd(T* address, decltype(T()) value) {
  if constexpr (sizeof(T) == 8)
    return (T)atomicAdd(kspec::wide_word(address), (unsigned long long)value);
  else
    return kspec::atomic_update(address, [=](T old) { return T(old + value); });
}
template <class Real>
__device__ inline complex<Real> atomicAdd(complex<Real>* address, decltype(complex<Real>()) value) {
  Real* const parts = reinterpret_cast<Real*>(address);
  const Real real = atomicAdd(parts, value.real());
  return complex<Real>(real, atomicAdd(parts + 1, value.imag()));
}
template <class T> __device__ inline T atomicSub(T* address, decltype(T()) value) {
  return atomicAdd(address, T(T(0) - value));
}
template <class T> __device__ inline T atomicExch(T* address, decltype(T()) value) {
  if constexpr (sizeof(T) == 8)
    return kspec::first_bytes<T>(
        atomicExch(kspec::wide_word(address), kspec::first_bytes<unsigned long long>(value)));
  else
    return kspec::atomic_update(address, [=](T) { return value; });
}
template <class T>
__device__ inline T atomicCAS(T* address, decltype(T()) expected, decltype(T()) value) {
  if constexpr (sizeof(T) == 8)
    return (T)atomicCAS(kspec::wide_word(address), (unsigned long long)expected,
                        (unsigned long long)value);
  else
    return kspec::atomic_update(address, [=](T old) { return old == expected ? value : old; });
}
#define KSPEC_ATOMIC_BITS(NAME, OPERATOR)                                                      \
  template <class T> __device__ inline T NAME(T* address, decltype(T()) value) {               \
    if constexpr (sizeof(T) == 8)                                                              \
      return (T)NAME(kspec::wide_word(address), (unsigned long long)value);                    \
    else                                                                                       \
      return kspec::atomic_update(address, [=](T old) { return T(old OPERATOR value); });      \
  }
KSPEC_ATOMIC_BITS(atomicAnd, &)
KSPEC_ATOMIC_BITS(atomicOr, |)
KSPEC_ATOMIC_BITS(atomicXor, ^)
#undef KSPEC_ATOMIC_BITS
