// Slot<Arg, V>: the V elements of one operand that a thread works on, in registers.
//
// An Accessor says where in memory they are: `load<T, V>(data, pack)` and `store<T, V>(data, values)`.
#pragma once

#include "kspec/operand.cuh"
#include "kspec/pack.cuh"

namespace kspec {

template <class Arg, int V> struct Slot;

template <class T, int V> struct Slot<In<T>, V> {
  Pack<typename Stored<T>::type, V> pack;

  template <class Accessor>
  __device__ inline void load(const In<T>& argument, const Accessor& accessor) {
    if (argument.data)
      accessor.load(argument.data, pack);
    else
      pack.fill(argument.value);
  }
  template <class Accessor>
  __device__ inline void load_packed(const In<T>& argument, const Accessor& accessor) {
    pack.load(accessor.first(argument.data));
  }
  __device__ inline T item(int j) const { return static_cast<T>(pack.get(j)); }
  template <class Accessor> __device__ inline void store(const In<T>&, const Accessor&) const {}
};

template <class T, int V> struct Slot<Out<T>, V> {
  T value[V];

  template <class Accessor> __device__ inline void load(const Out<T>&, const Accessor&) {}
  template <class Accessor> __device__ inline void load_packed(const Out<T>&, const Accessor&) {}
  __device__ inline T& item(int j) { return value[j]; }
  template <class Accessor>
  __device__ inline void store(const Out<T>& argument, const Accessor& accessor) {
    accessor.store(argument.data, value);
  }
};

template <class T, int V> struct Slot<InOut<T>, V> {
  T value[V];

  template <class Accessor>
  __device__ inline void load(const InOut<T>& argument, const Accessor& accessor) {
    Pack<typename Stored<T>::type, V> pack;
    accessor.load(stored(argument.data), pack);
    take(pack);
  }
  template <class Accessor>
  __device__ inline void load_packed(const InOut<T>& argument, const Accessor& accessor) {
    Pack<typename Stored<T>::type, V> pack;
    pack.load(accessor.first(stored(argument.data)));
    take(pack);
  }
  __device__ inline T& item(int j) { return value[j]; }
  template <class Accessor>
  __device__ inline void store(const InOut<T>& argument, const Accessor& accessor) {
    accessor.store(argument.data, value);
  }

 private:
  __device__ inline void take(const Pack<typename Stored<T>::type, V>& pack) {
#pragma unroll
    for (int j = 0; j < V; ++j) value[j] = static_cast<T>(pack.get(j));
  }
};

// Part<Arg, V>: V elements of one operand, of which an operation sees PART at a time: code for so
// many, not for V. Its calls stand between begin() and next(), which moves the others up.
enum { PART = 4 };
template <class Arg, int V> struct Part;

template <class T, int V> struct Part<In<T>, V> {
  enum { IS_READ = 1, IS_WRITTEN = 0 };
  typedef typename Stored<T>::type Kept;
  Pack<Kept, V> pack;

  __device__ static inline Kept single(const In<T>& argument) { return argument.value; }
  __device__ inline void begin() const {}
  __device__ inline T item(int j) const { return static_cast<T>(pack.get(j)); }
  __device__ inline void next() { pack.template skip<PART>(); }
};

template <class T, int V> struct Part<Out<T>, V> {
  enum { IS_READ = 0, IS_WRITTEN = 1 };
  typedef T Kept;
  T value[PART];

  __device__ inline void begin() const {}
  __device__ inline T& item(int j) { return value[j]; }
  __device__ inline void next() const {}
};

template <class T, int V> struct Part<InOut<T>, V> : Part<Out<T>, V> {
  enum { IS_READ = 1 };
  typedef typename Stored<T>::type Kept;
  Pack<Kept, V> pack;

  __device__ static inline Kept single(const InOut<T>&) { return Kept(); }  // it is an array
  __device__ inline void begin() {
#pragma unroll
    for (int j = 0; j < PART; ++j) this->value[j] = static_cast<T>(pack.get(j));
  }
  __device__ inline void next() { pack.template skip<PART>(); }
};

// One operand of a loop: its parameter, the elements in hand, and where they are.
template <class Arg, int V, class Accessor> struct Operand {
  const Arg& argument;
  const Accessor accessor;
  Slot<Arg, V> slot;

  __device__ inline Operand(const Arg& argument, const Accessor& accessor)
      : argument(argument), accessor(accessor) {}
  __device__ inline void load() { slot.load(argument, accessor); }
  __device__ inline void load_packed() { slot.load_packed(argument, accessor); }
  __device__ inline decltype(auto) item(int j) { return slot.item(j); }
  __device__ inline void store() { slot.store(argument, accessor); }
};

struct All {
  __device__ inline bool operator[](int) const { return true; }
};
struct First {
  int count;
  __device__ inline bool operator[](int j) const { return j < count; }
};

// Compute and store V elements that are loaded, the j-th being number i + j * step; `valid[j]` tells
// which exist.
template <int V, class Op, class Valid, class... Operands>
__device__ inline void finish(const Op& op, ptrdiff_t i, ptrdiff_t step, const Valid& valid,
                              Operands&... operands) {
#pragma unroll
  for (int j = 0; j < V; ++j)
    if (valid[j]) op(i + j * step, operands.item(j)...);
  (operands.store(), ...);
}

// The same, and load them first. All loads come before the first store, so they are in flight
// together.
template <int V, class Op, class Valid, class... Operands>
__device__ inline void compute(const Op& op, ptrdiff_t i, ptrdiff_t step, const Valid& valid,
                               Operands&&... operands) {
  (operands.load(), ...);
  finish<V>(op, i, step, valid, operands...);
}

// The same for packs that follow each other. Where each operand is an array of aligned packs, one
// test spares those of the single operands, which cost more than their loads.
template <int V, class Op, class... Operands>
__device__ inline void compute_packs(bool packed, const Op& op, ptrdiff_t i,
                                     Operands&&... operands) {
  if (packed)
    (operands.load_packed(), ...);
  else
    (operands.load(), ...);
  finish<V>(op, i, 1, All(), operands...);
}

}  // namespace kspec
