// The loop of a kernel with core dimensions: a thread has one item of each operand.
//
// Where items follow each other in memory, a warp copies those of its threads to shared memory and
// back, so that the accesses of its threads are neighbours.
#pragma once

#include "kspec/chunked.cuh"
#include "kspec/core.cuh"
#include "kspec/elements.cuh"
#ifndef KSPEC_CHUNKED
#include "kspec/copy_async.cuh"
#endif

namespace kspec {

template <int AXES, int OPERANDS>
struct Elements<Items<AXES>, OPERANDS> : Elements<Strided<AXES>, OPERANDS> {
  unsigned long long staged;  // bit k: a warp copies the items of operand k
  unsigned long long packed;  // bit k: its items are contiguous, and aligned to an access
  int stage;                  // bytes of shared memory of a warp
  int made;                   // number of the first output that the call has made
  int places[OPERANDS];       // where it has them
};

// How the loop reaches an item.
struct ItemAccess {
  ptrdiff_t offset;  // in bytes
  bool packed, staged, fresh;
  unsigned char* place;  // of the warp's items, in shared memory
  int lane;
};

// An operand without core dimensions: one element.
template <class Arg> struct ItemOperand {
  const Arg& argument;
  const ItemAccess at;

  __device__ inline ItemOperand(const Arg& argument, const ItemAccess& at)
      : argument(argument), at(at) {}
  __device__ inline void fetch(ptrdiff_t) const {}
  __device__ inline void load() const {}
  __device__ inline decltype(auto) item() const { return argument.item(Bytes{at.offset}); }
  __device__ inline void put(bool) const {}
  __device__ inline void flush(ptrdiff_t) const {}
};

// A large item stays where it is.
template <class Access, bool SMALL, int... D> struct CoreOperand {
  const FarItem<Access, D...> far;
  const bool fresh;

  __device__ inline CoreOperand(const Core<Access, D...>& argument, const ItemAccess& at)
      : far(argument, at.offset), fresh(at.fresh) {}
  __device__ inline void fetch(ptrdiff_t) const {}
  // An output begins with zeros, unless the operation may read what is there.
  __device__ inline void load() const {
    typedef Core<Access, D...> Arg;
    if constexpr (Arg::IS_WRITTEN)
      if (!Arg::IS_READ || fresh) clear_item(far.argument, far.offset);
  }
  __device__ inline const FarItem<Access, D...>& item() const { return far; }
  __device__ inline void put(bool) const {}
  __device__ inline void flush(ptrdiff_t) const {}
};

template <class Access, int... D> struct CoreOperand<Access, true, D...> {
  typedef Core<Access, D...> Arg;
  typedef typename Access::type T;
  typedef typename Choose<Arg::IS_WRITTEN, Item<T, D...>, const Item<T, D...>>::type Seen;

  const Arg& argument;
  const ItemAccess at;
  Item<T, D...> own;

  __device__ inline CoreOperand(const Arg& argument, const ItemAccess& at)
      : argument(argument), at(at) {}
  __device__ inline Seen& item() { return own; }

#ifdef KSPEC_CHUNKED
  inline void load() {
    if (Arg::IS_READ && !at.fresh)
      load_item(argument, at.offset, own);
    else
      own.clear();
  }
  inline void put(bool) {
    if constexpr (Arg::IS_WRITTEN) store_item(argument, at.offset, own);
  }
#else
  typedef typename Arg::Element Element;
  typedef typename Word<Arg::ACCESS>::type Access_;
  enum { BLOCKS = 2 * Arg::BYTES, PADDED = Arg::PITCH > Arg::BYTES };  // 16 bytes of a warp's items

  // Where a block of 16 bytes is among the items in shared memory.
  __device__ static inline int block_place(int block) {
    return 16 * (block + (PADDED ? block / (Arg::ACCESSES > 0 ? Arg::ACCESSES : 1) : 0));
  }
  // Begin to copy the warp's items, of which `first` is the number of the first.
  __device__ inline void fetch(ptrdiff_t first) const {
    if constexpr (Arg::IS_READ && !Arg::IS_WRITTEN) {
      if (!at.staged) return;
      const unsigned char* from = reinterpret_cast<const unsigned char*>(argument.data);
      from += first * Arg::BYTES;
#pragma unroll
      for (int block = 0; block < BLOCKS; block += 32)
        if (block + at.lane < BLOCKS)
          copy_async<16>(at.place + block_place(block + at.lane), from + 16 * (block + at.lane));
    }
  }
  __device__ inline void load() {
    if (!Arg::IS_READ || at.fresh) {
      own.clear();
    } else if (at.staged && !Arg::IS_WRITTEN) {
      load_packed(at.place + at.lane * Arg::PITCH);
    } else if (at.packed) {
      load_packed(element(argument.data, Bytes{at.offset}));
    } else {
      load_item(argument, at.offset, own);
    }
  }
  // Store the item, in shared memory if the warp copies it from there.
  __device__ inline void put(bool exists) const {
    if constexpr (Arg::IS_WRITTEN) {
      if (!exists) return;
      if (at.staged)
        store_packed(at.place + at.lane * Arg::PITCH);
      else if (at.packed)
        store_packed(element(argument.data, Bytes{at.offset}));
      else
        store_item(argument, at.offset, own);
    }
  }
  __device__ inline void flush(ptrdiff_t first) const {
    if constexpr (Arg::IS_WRITTEN) {
      if (!at.staged) return;
      uint4* const to = reinterpret_cast<uint4*>(reinterpret_cast<unsigned char*>(argument.data) +
                                                 first * Arg::BYTES);
#pragma unroll
      for (int block = 0; block < BLOCKS; block += 32)
        if (block + at.lane < BLOCKS)
          to[block + at.lane] =
              *reinterpret_cast<const uint4*>(at.place + block_place(block + at.lane));
    }
  }

 private:
  __device__ inline void load_packed(const void* from) {
    Element elements[Arg::Shape::room];
#pragma unroll
    for (int k = 0; k < Arg::ACCESSES; ++k) {
      const Access_ part = static_cast<const Access_*>(from)[k];
      memcpy(reinterpret_cast<unsigned char*>(elements) + k * Arg::ACCESS, &part, Arg::ACCESS);
    }
#pragma unroll
    for (int k = 0; k < Arg::Shape::count; ++k) own.value[k] = static_cast<T>(elements[k]);
  }
  __device__ inline void store_packed(void* to) const {
#pragma unroll
    for (int k = 0; k < Arg::ACCESSES; ++k) {
      Access_ part;
      memcpy(&part, reinterpret_cast<const unsigned char*>(own.value) + k * Arg::ACCESS,
             Arg::ACCESS);
      static_cast<Access_*>(to)[k] = part;
    }
  }
#endif
};

template <class Access, int... D>
struct ItemOperand<Core<Access, D...>> : CoreOperand<Access, CoreOf<Access, D...>::IS_SMALL, D...> {
  using CoreOperand<Access, CoreOf<Access, D...>::IS_SMALL, D...>::CoreOperand;
};

#ifdef KSPEC_CHUNKED
template <class Op, class... Operands>
inline void compute_item(const Op& op, ptrdiff_t i, Operands&&... operands) {
  (operands.load(), ...);
  op(i, operands.item()...);
  (operands.put(true), ...);
}

template <int AXES, int N, class Op, class... Args, int... K>
inline void each(const Elements<Items<AXES>, N>& elements, const Op& op, Numbers<K...>,
                 const Args&... args) {
  typedef Run<Elements<Strided<AXES>, N>> Items;
  for (Items run(elements, chunk_begin(elements.size()), chunk_end(elements.size())); run.more();
       run.next())
    for (ptrdiff_t i = run.begin; i < run.end; ++i)
      compute_item(op, i, ItemOperand<Args>(
          args, ItemAccess{run.at(i)[K].offset, false, false,
                           K >= elements.made, nullptr, 0})...);
}
#else
template <class Op, class... Operands>
__device__ inline void compute_items(const Op& op, ptrdiff_t i, ptrdiff_t first, bool exists,
                                     bool staged, Operands&&... operands) {
  (operands.fetch(first), ...);
  if (staged) {
    commit_copies();
    wait_for_copies(0);
    __syncwarp();
  }
  if (exists) {  // a thread without an item would clear a large one of another thread
    (operands.load(), ...);
    op(i, operands.item()...);
  }
  if (staged) __syncwarp();
  (operands.put(exists), ...);
  if (staged) {
    __syncwarp();
    (operands.flush(first), ...);
  }
}

template <int AXES, int N, class Op, class... Args, int... K>
__device__ inline void each(const Elements<Items<AXES>, N>& elements, const Op& op, Numbers<K...>,
                            const Args&... args) {
  extern __shared__ uint4 kspec_items[];
  const int lane = threadIdx.x % 32;
  const ptrdiff_t i = thread_number(), first = i - lane;
  if (first >= elements.size()) return;
  const bool exists = i < elements.size();
  // The last warp may have fewer items than threads: each thread reaches its own.
  const unsigned long long staged = first + 32 <= elements.size() ? elements.staged : 0;
  unsigned char* const stage =
      reinterpret_cast<unsigned char*>(kspec_items) + threadIdx.x / 32 * elements.stage;
  const Offsets<AXES, N> at(elements.axes, exists ? i : first);
  compute_items(op, i, first, exists, staged != 0, ItemOperand<Args>(
      args, ItemAccess{at.offset[K], (elements.packed >> (K & 63) & 1) != 0,
                       (staged >> (K & 63) & 1) != 0, K >= elements.made,
                       stage + elements.places[K], lane})...);
}
#endif

}  // namespace kspec
