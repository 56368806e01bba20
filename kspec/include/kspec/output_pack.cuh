// Outputs of a pack of elements, in registers until all are made.
#pragma once

#include "kspec/slots.cuh"

namespace kspec {

template <class T> struct Unqualified { typedef T type; };
template <class T> struct Unqualified<const T&> { typedef T type; };
template <class T> using Bare = typename Unqualified<T>::type;

struct Spot { void* place; };
template <class T> __device__ inline T* element(T*, Spot at) { return static_cast<T*>(at.place); }

template <int K, class Output, int V> struct OwnOutput { typename Output::type value[V]; };
template <int V, class K, class... Outputs> struct OutputPack;
template <int V, int... K, class... Outputs>
struct OutputPack<V, Numbers<K...>, Outputs...> : OwnOutput<K, Outputs, V>... {
  __device__ inline void* place(int output, int j) {
    void* found = nullptr;
    ((output == K ? void(found = &OwnOutput<K, Outputs, V>::value[j]) : void()), ...);
    return found;
  }
  // Write them from element number `first` on, or those that `which` has a bit for.
  __device__ inline void store(const Outputs&... outputs, ptrdiff_t first) const {
    (write_pack<V>(outputs.data + first, OwnOutput<K, Outputs, V>::value), ...);
  }
  __device__ inline void store(const Outputs&... outputs, ptrdiff_t first,
                               unsigned int which) const {
#pragma unroll
    for (int j = 0; j < V; ++j)
      if (which >> j & 1) ((outputs.data[first + j] = OwnOutput<K, Outputs, V>::value[j]), ...);
  }
  // Keep those of output k at the address `place(k)`.
  template <class Where> __device__ inline void stage(const Where& place) const {
    (store_pack<V>(reinterpret_cast<typename Outputs::type*>(place(K)),
                   OwnOutput<K, Outputs, V>::value),
     ...);
  }
};
template <class Pack, int INPUTS> struct InPack {
  Pack& pack;
  int j;

  __device__ inline Spot operator[](int operand) const {
    return Spot{pack.place(operand - INPUTS, j)};
  }
};

}  // namespace kspec
