// Pack<T, V>: V neighbouring elements that move between memory and registers in one access.
//
// A pack stays in 32-bit words until an element is asked for: narrow elements carried through
// control flow as variables of their own take up to four times the registers.
#pragma once

#include "kspec/constants.cuh"

namespace kspec {

// How many elements of each operand a thread takes at once: as many of the widest type as fill a
// 16-byte access, or 1 where some type does not divide it evenly or is no plain bytes (the gaps of
// a struct are not to be written).
template <class... Args> struct PackSize;
template <> struct PackSize<> { enum { widest = 1, even = 1, value = 1 }; };
template <class Arg, class... Rest> struct PackSize<Arg, Rest...> {
  enum {
    size = sizeof(typename Arg::type),
    widest = (int)size > (int)PackSize<Rest...>::widest ? (int)size : (int)PackSize<Rest...>::widest,
    plain = __is_trivially_copyable(typename Arg::type),
    even = PackSize<Rest...>::even && plain && (size == 1 || size == 2 || size == 4 || size == 8),
    value = even ? 16 / widest : 1
  };
};

// The type of one access of so many bytes.
template <int BYTES> struct Word;
template <> struct Word<16> { typedef uint4 type; };
template <> struct Word<8> { typedef uint2 type; };
template <> struct Word<4> { typedef unsigned int type; };
template <> struct Word<2> { typedef unsigned short type; };
template <> struct Word<1> { typedef unsigned char type; };

template <class T> struct FitsWords {
  enum { size = sizeof(T), value = size == 1 || size == 2 || size == 4 || size == 8 || size == 16 };
};

template <class T, int V, bool WORDS = FitsWords<T>::value && (V > 1)> struct Pack;

template <class T, int V> struct Pack<T, V, true> {
  enum { BYTES = sizeof(T) * V, WORDS = (BYTES + 3) / 4, ACCESS = BYTES > 16 ? 16 : BYTES };
  enum { PER_WORD = sizeof(T) < 4 ? 4 / sizeof(T) : 1 };
  typedef typename Word<ACCESS>::type Access;

  unsigned int word[WORDS];

  __device__ inline T get(int j) const {
    T value;
    if (sizeof(T) == 1) {
      const unsigned char bits = (unsigned char)(word[j / 4] >> (8 * (j % 4)));
      memcpy(&value, &bits, 1);
    } else if (sizeof(T) == 2) {
      const unsigned short bits = (unsigned short)(word[j / 2] >> (16 * (j % 2)));
      memcpy(&value, &bits, 2);
    } else {
      memcpy(&value, &word[j * (sizeof(T) / 4)], sizeof(T));
    }
    return value;
  }
  // The same for an index that may not be a constant: no array in memory.
  __device__ inline T pick(int j) const {
    T value;
    if (sizeof(T) < 4) {
      const unsigned int bits = word_of(j) >> (j % PER_WORD) * 8 * sizeof(T);
      memcpy(&value, &bits, sizeof(T));
    } else {
      value = get(0);
#pragma unroll
      for (int k = 1; k < V; ++k) {
        const T other = get(k);
        if (j == k) value = other;
      }
    }
    return value;
  }
  // The word of a narrow element.
  __device__ inline unsigned int word_of(int j) const {
    unsigned int found = word[0];
#pragma unroll
    for (int k = 1; k < WORDS; ++k) found = j / PER_WORD == k ? word[k] : found;
    return found;
  }
  // `value` comes by copy: memcpy from a reference to global memory would load byte by byte.
  __device__ inline void put(int j, T value) {
    if (sizeof(T) == 1) {
      unsigned char bits;
      memcpy(&bits, &value, 1);
      word[j / 4] = (word[j / 4] & ~(0xffu << (8 * (j % 4)))) | ((unsigned int)bits << (8 * (j % 4)));
    } else if (sizeof(T) == 2) {
      unsigned short bits;
      memcpy(&bits, &value, 2);
      word[j / 2] =
          (word[j / 2] & ~(0xffffu << (16 * (j % 2)))) | ((unsigned int)bits << (16 * (j % 2)));
    } else {
      memcpy(&word[j * (sizeof(T) / 4)], &value, sizeof(T));
    }
  }
  __device__ inline void fill(T value) {
    if (sizeof(T) < 4) {
      unsigned int bits = 0;
      memcpy(&bits, &value, sizeof(T));
#pragma unroll
      for (int k = 0; k < WORDS; ++k) word[k] = bits * (sizeof(T) == 1 ? 0x01010101u : 0x00010001u);
    } else {
#pragma unroll
      for (int j = 0; j < V; ++j) put(j, value);
    }
  }
  // The k-th group of G elements.
  template <int G> __device__ inline void set(int k, const Pack<T, G>& group) {
    enum { SIZE = Pack<T, G>::WORDS };
#pragma unroll
    for (int j = 0; j < SIZE; ++j) word[k * SIZE + j] = group.word[j];
  }
  __device__ inline void choose(bool first, const Pack& one, const Pack& other) {
#pragma unroll
    for (int k = 0; k < WORDS; ++k) word[k] = first ? one.word[k] : other.word[k];
  }
  // Let those after the first G come first. The last G stay, too.
  template <int G> __device__ inline void skip() {
    enum { STEP = Pack<T, G>::WORDS };
#pragma unroll
    for (int k = 0; k + STEP < WORDS; ++k) word[k] = word[k + STEP];
  }
  // All of it, from an address that is a multiple of its size (or of 16).
  __device__ inline void load(const T* data) {
#pragma unroll
    for (int k = 0; k < BYTES / ACCESS; ++k) {
      const Access part = reinterpret_cast<const Access*>(data)[k];
      if (BYTES < 4) word[0] = 0;
      memcpy(&word[k * (ACCESS / 4)], &part, ACCESS);
    }
  }
  // The same, of memory that no thread writes to: one access wherever it stands.
  __device__ inline void load_read_only(const T* data) {
    const Access part = __ldg(reinterpret_cast<const Access*>(data));
    if (BYTES < 4) word[0] = 0;
    memcpy(word, &part, ACCESS);
  }
  // All of it, from any address: the aligned 16-byte blocks around it, moved into place. They must
  // hold nothing that is not the array's.
  __device__ inline void load_unaligned(const T* data) {
    if (BYTES % 16 != 0) {
#pragma unroll
      for (int k = 0; k < WORDS; ++k) word[k] = 0;
#pragma unroll
      for (int j = 0; j < V; ++j) put(j, data[j]);
      return;
    }
    enum { BLOCKS = BYTES / 16 > 0 ? BYTES / 16 : 1 };
    const size_t address = reinterpret_cast<size_t>(data);
    const unsigned int shift = (unsigned int)address & 15u;
    const uint4* blocks = reinterpret_cast<const uint4*>(address - shift);
    unsigned int raw[4 * BLOCKS + 4];
#pragma unroll
    for (int k = 0; k <= BLOCKS; ++k) {
      const uint4 block = blocks[k < BLOCKS || shift ? k : BLOCKS - 1];
      memcpy(&raw[4 * k], &block, 16);
    }
#pragma unroll
    for (int k = 0; k < 4 * BLOCKS + 2; ++k) raw[k] = shift & 8 ? raw[k + 2] : raw[k];
#pragma unroll
    for (int k = 0; k < 4 * BLOCKS + 1; ++k) raw[k] = shift & 4 ? raw[k + 1] : raw[k];
#pragma unroll
    for (int k = 0; k < 4 * BLOCKS; ++k)
      word[k < WORDS ? k : 0] = __funnelshift_r(raw[k], raw[k + 1], (shift & 3) * 8);
  }
  // All of it, element by element: `item(j)` is the j-th.
  template <class Item> __device__ inline void load_each(const Item& item) {
    if (sizeof(T) >= 4) {
#pragma unroll
      for (int j = 0; j < V; ++j) put(j, item(j));
    } else {
      enum { BITS = sizeof(T) < 4 ? 8 * sizeof(T) : 8 };
      // From the last on, each pushing the others up: code for one element, not for V.
#pragma unroll
      for (int k = 0; k < WORDS; ++k) word[k] = 0;
#pragma unroll 1
      for (int j = V - 1; j >= 0; --j) {
        unsigned int bits = 0;
        const T value = item(j);
        memcpy(&bits, &value, sizeof(T));
#pragma unroll
        for (int k = WORDS - 1; k > 0; --k) word[k] = __funnelshift_l(word[k - 1], word[k], BITS);
        word[0] = word[0] << BITS | bits;
      }
    }
  }
};

// Single elements, and those no access divides into, are copied one by one.
template <class T, int V> struct Pack<T, V, false> {
  T value[V];

  __device__ inline T get(int j) const { return value[j]; }
  __device__ inline void put(int j, T one) { value[j] = one; }
  __device__ inline void fill(T one) {
#pragma unroll
    for (int j = 0; j < V; ++j) value[j] = one;
  }
  __device__ inline void load(const T* data) {
#pragma unroll
    for (int j = 0; j < V; ++j) value[j] = data[j];
  }
  __device__ inline void load_unaligned(const T* data) { load(data); }
  template <class Item> __device__ inline void load_each(const Item& item) {
#pragma unroll
    for (int j = 0; j < V; ++j) value[j] = item(j);
  }
};

// Write V elements to an address that is a multiple of their size (or of 16).
template <int V, class T> __device__ inline void store_pack(T* data, const T (&value)[V]) {
  enum { BYTES = sizeof(T) * V, ACCESS = BYTES > 16 ? 16 : BYTES };
  typedef typename Word<ACCESS>::type Access;
  Access part[BYTES / ACCESS];
  memcpy(part, value, BYTES);
#pragma unroll
  for (int k = 0; k < BYTES / ACCESS; ++k) reinterpret_cast<Access*>(data)[k] = part[k];
}
// The same to global memory, where the compiler does not see that the address is such a multiple.
template <int V, class T> __device__ inline void write_pack(T* data, const T (&value)[V]) {
  enum { BYTES = sizeof(T) * V, ACCESS = BYTES > 16 ? 16 : BYTES };
  typedef typename Word<ACCESS>::type Access;
  Access part[BYTES / ACCESS];
  memcpy(part, value, BYTES);
#pragma unroll
  for (int k = 0; k < BYTES / ACCESS; ++k) __stwb(reinterpret_cast<Access*>(data) + k, part[k]);
}
template <int V, class T> __device__ inline void write_pack(T* data, const Pack<T, V>& pack) {
  static_assert(sizeof(T) * V <= 16, "one access writes at most 16 bytes");
  typename Word<sizeof(T) * V>::type word;
  memcpy(&word, pack.word, sizeof(word));
  __stwb(reinterpret_cast<typename Word<sizeof(T) * V>::type*>(data), word);
}
template <class T> __device__ inline void write_pack(T* data, const T (&value)[1]) {
  *data = value[0];
}
template <class T> __device__ inline void store_pack(T* data, const T (&value)[1]) {
  *data = value[0];
}

}  // namespace kspec
