// Slot<Arg, V>: the V elements of one operand that a thread works on, in registers.
//
// A Place says where in memory they are: `load<T, V>(data, pack)` and `store<T, V>(data, values)`.
#pragma once

#include "kspec/operand.cuh"
#include "kspec/pack.cuh"

namespace kspec {

template <class Arg, int V> struct Slot;

template <class T, int V> struct Slot<In<T>, V> {
  Pack<T, V> pack;

  template <class Place> __device__ inline void load(const In<T>& argument, const Place& place) {
    if (argument.data)
      place.load(argument.data, pack);
    else
      pack.fill(argument.value);
  }
  __device__ inline T item(int j) const { return pack.get(j); }
  template <class Place> __device__ inline void store(const In<T>&, const Place&) const {}
};

template <class T, int V> struct Slot<Out<T>, V> {
  T value[V];

  template <class Place> __device__ inline void load(const Out<T>&, const Place&) {}
  __device__ inline T& item(int j) { return value[j]; }
  template <class Place> __device__ inline void store(const Out<T>& argument, const Place& place) {
    place.store(argument.data, value);
  }
};

template <class T, int V> struct Slot<InOut<T>, V> {
  T value[V];

  template <class Place> __device__ inline void load(const InOut<T>& argument, const Place& place) {
    Pack<T, V> pack;
    place.load(argument.data, pack);
#pragma unroll
    for (int j = 0; j < V; ++j) value[j] = pack.get(j);
  }
  __device__ inline T& item(int j) { return value[j]; }
  template <class Place>
  __device__ inline void store(const InOut<T>& argument, const Place& place) {
    place.store(argument.data, value);
  }
};

// One operand of a loop: its parameter, the elements in hand, and where they are.
template <class Arg, int V, class Place> struct Operand {
  const Arg& argument;
  const Place place;
  Slot<Arg, V> slot;

  __device__ inline Operand(const Arg& argument, const Place& place)
      : argument(argument), place(place) {}
  __device__ inline void load() { slot.load(argument, place); }
  __device__ inline decltype(auto) item(int j) { return slot.item(j); }
  __device__ inline void store() { slot.store(argument, place); }
};

// Load, compute and store V elements, the j-th being number i + j * step; `valid[j]` tells which
// exist. All loads come before the first store, so they are in flight together.
template <int V, class Op, class Valid, class... Operands>
__device__ inline void compute(const Op& op, ptrdiff_t i, ptrdiff_t step, const Valid& valid,
                               Operands&&... operands) {
  (operands.load(), ...);
#pragma unroll
  for (int j = 0; j < V; ++j)
    if (valid[j]) op(i + j * step, operands.item(j)...);
  (operands.store(), ...);
}

struct All {
  __device__ inline bool operator[](int) const { return true; }
};
struct First {
  int count;
  __device__ inline bool operator[](int j) const { return j < count; }
};

}  // namespace kspec
