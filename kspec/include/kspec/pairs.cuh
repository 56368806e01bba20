// Pair<T>: two elements of 8 or 16 bits in a 32-bit word, of which one instruction takes the minima.
//
// An operation that only selects elements gives each of two the same result as alone. Its kernel has
// it as a Selection: once for single elements, and once for pairs. kspec/cpp/selection.py tells which
// operations these are; windows.cuh runs them.
#pragma once

#include "kspec/slots.cuh"

namespace kspec {

// Older GPUs take several instructions for the minima of a pair.
#ifndef KSPEC_PAIRS
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define KSPEC_PAIRS true
#else
#define KSPEC_PAIRS false
#endif
#endif

template <class Single, class Pairs> struct Selection {
  Single single;
  Pairs pairs;

  template <class... Items>
  __device__ inline void operator()(ptrdiff_t i, Items&&... items) const {
    single(i, static_cast<Items&&>(items)...);
  }
};
template <class Single, class Pairs>
__device__ inline Selection<Single, Pairs> selection(const Single& single, const Pairs& pairs) {
  return Selection<Single, Pairs>{single, pairs};
}
template <class Op> constexpr bool only_selects = false;
template <class Single, class Pairs> constexpr bool only_selects<Selection<Single, Pairs>> = true;

// Each element is in the high bits of a half of the word. The bits below an element of 8 bits do not
// matter: they decide between equal elements only.
template <class T> struct Pair {
  enum { is_signed = T(-1) < T(0) };
  unsigned int word;
};
template <class T> __device__ inline Pair<T> min(Pair<T> a, Pair<T> b) {
  return {Pair<T>::is_signed ? __vmins2(a.word, b.word) : __vminu2(a.word, b.word)};
}
template <class T> __device__ inline Pair<T> max(Pair<T> a, Pair<T> b) {
  return {Pair<T>::is_signed ? __vmaxs2(a.word, b.word) : __vmaxu2(a.word, b.word)};
}

template <class T> constexpr bool fits_pairs = false;
template <> constexpr bool fits_pairs<signed char> = true;
template <> constexpr bool fits_pairs<unsigned char> = true;
template <> constexpr bool fits_pairs<short> = true;
template <> constexpr bool fits_pairs<unsigned short> = true;

// An element within a word, from one of its bytes on.
template <class T> struct InWord {
  unsigned int word;
  int byte;

  template <int V> __device__ inline InWord(const Pack<T, V>& pack, int j)
      : word(pack.word_of(j)), byte(j * (int)sizeof(T) & 3) {}
  __device__ inline explicit InWord(T value) : word(0), byte(0) { memcpy(&word, &value, sizeof(T)); }
};

template <class T> __device__ inline Pair<T> pair(const InWord<T>& first, const InWord<T>& second) {
  const int low = first.byte, high = second.byte + 4;
  return {__byte_perm(first.word, second.word,
                      sizeof(T) == 1 ? low * 0x11 | high * 0x1100
                                     : low | (low + 1) << 4 | high << 8 | (high + 1) << 12)};
}

// The pack whose elements j and j + V / 2 are pairs.
template <class T, int V>
__device__ inline Pack<T, V> unpaired(const Pair<T> (&pairs)[V / 2]) {
  enum { STEP = 4 / (int)sizeof(T), HALF = V / 2 / STEP };
  Pack<T, V> pack;
#pragma unroll
  for (int k = 0; k < HALF; ++k) {
    const Pair<T>* part = pairs + k * STEP;
    unsigned int left = part[0].word, right = part[1].word;
    if (sizeof(T) == 1) {
      left = __byte_perm(left, right, 0x7351);
      right = __byte_perm(part[STEP - 2].word, part[STEP - 1].word, 0x7351);
    }
    pack.word[k] = __byte_perm(left, right, 0x5410);
    pack.word[k + HALF] = __byte_perm(left, right, 0x7632);
  }
  return pack;
}

// Neighbours of a pair of elements.
template <class Near> struct NeighbourPair {
  typedef typename Near::type T;
  Near first, second;

  template <class... Offset> __device__ inline Pair<T> read(Offset... offset) const {
    return pair(first.read_in_word(offset...), second.read_in_word(offset...));
  }
  __device__ inline Pair<T> center() const {
    return pair(first.center_in_word(), second.center_in_word());
  }
};

// ---- Operands: pair j of a pack are its elements j and j + V / 2, so that the neighbours of pairs are
// pairs too, which the compiler sees

// A windowed input.
template <class Arg, int V, class Accessor> struct PairOperand : Operand<Arg, V, Accessor> {
  typedef Operand<Arg, V, Accessor> Base;
  using Base::Base;

  __device__ inline auto item(int j) const {
    typedef decltype(Base::item(j)) Near;
    return NeighbourPair<Near>{Base::item(j), Base::item(j + V / 2)};
  }
};

template <class T, int V, class Accessor>
struct PairOperand<In<T>, V, Accessor> : Operand<In<T>, V, Accessor> {
  using Operand<In<T>, V, Accessor>::Operand;

  __device__ inline Pair<T> item(int j) const {
    const auto& pack = this->slot.pack;
    return pair(InWord<T>(pack, j), InWord<T>(pack, j + V / 2));
  }
};

template <class T, int V, class Accessor> struct PairOperand<Out<T>, V, Accessor> {
  const Out<T>& argument;
  const Accessor accessor;
  Pair<T> value[V / 2];

  __device__ inline PairOperand(const Out<T>& argument, const Accessor& accessor)
      : argument(argument), accessor(accessor) {}
  __device__ inline void load() {}
  __device__ inline Pair<T>& item(int j) { return value[j]; }
  __device__ inline void store() { accessor.store(argument.data, unpaired<T, V>(value)); }
};

}  // namespace kspec
