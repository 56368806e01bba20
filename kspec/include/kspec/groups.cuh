// The loop of a kernel with core dimensions whose items are too large for one thread: a group of
// threads has an item, in shared memory. The operation runs in all threads of a group at once.
#pragma once

#include "kspec/core.cuh"
#include "kspec/elements.cuh"

namespace kspec {

template <int AXES, int THREADS, int OPERANDS>
struct Elements<Groups<AXES, THREADS>, OPERANDS> : Elements<Strided<AXES>, OPERANDS> {
  unsigned long long across;      // bit k: neighbours in memory of operand k are those of other items
  unsigned long long transposed;  // bit k: the first of its two core dimensions has the smaller stride
  int stage;                      // bytes of shared memory of a group
  int made;                       // number of the first output that the call has made
  int groups;                     // of a block
  int places[OPERANDS];           // where a group has its items
};

// An item in shared memory. Rows are an odd number of elements apart, so that threads with
// neighbouring rows have no bank conflicts.
template <class T, int... D> struct SharedItem : Extents<D...> {
  typedef Extents<D...> Shape;
  enum { LAST = Shape::last > 0 ? Shape::last : 1, ROW = Shape::axes > 1 ? LAST | 1 : LAST };
  T* const data;

  __device__ inline explicit SharedItem(void* data) : data(static_cast<T*>(data)) {}
  __device__ static inline int place(int k) { return k / LAST * ROW + k % LAST; }
  template <class... I> __device__ inline T& operator()(I... index) const {
    return data[place(Shape::place(index...))];
  }
#ifdef KSPEC_HOST
  template <class... I>
  inline T& checked(const char* name, const char* file, int line, I... index) const {
    Shape::check(name, file, line, index...);
    return (*this)(index...);
  }
#endif
};

// The items of a block, and how its threads reach them.
template <class Loop> struct GroupOf {
  const Loop& elements;
  unsigned char* stage;
  ptrdiff_t first;  // number of the block's first item
  int count;        // of its items

  __device__ inline ptrdiff_t offset(int operand, int group) const {
    // Few items, and many elements of each: splitting the index costs little.
    return elements.at(first + group).offset[operand];
  }
};

// An operand without core dimensions: one element, which all threads of the group have.
template <class Arg> struct GroupOperand {
  const Arg& argument;
  const int number;

  __device__ inline GroupOperand(const Arg& argument, int number)
      : argument(argument), number(number) {}
  template <class Block> __device__ inline void fetch(const Block&) const {}
  template <class Block> __device__ inline decltype(auto) item(const Block& block, int group) const {
    return argument.item(Bytes{block.offset(number, group)});
  }
  template <class Block> __device__ inline void flush(const Block&) const {}
};

template <class Access, int... D> struct GroupOperand<Core<Access, D...>> {
  typedef Core<Access, D...> Arg;
  typedef typename Access::type T;
  typedef Extents<D...> Shape;
  typedef SharedItem<T, D...> Seen;
  const Arg& argument;
  const int number;

  __device__ inline GroupOperand(const Arg& argument, int number)
      : argument(argument), number(number) {}
  template <class Block> __device__ inline Seen item(const Block& block, int group) const {
    return Seen(block.stage + group * block.elements.stage + block.elements.places[number]);
  }
  template <class Block> __device__ inline void fetch(const Block& block) const {
    const bool read = Arg::IS_READ && number < block.elements.made;
    for_each_element(block, [&](T& element, ptrdiff_t offset) {
      element = read ? static_cast<T>(argument.element_at(Bytes{offset})) : T();
    });
  }
  template <class Block> __device__ inline void flush(const Block& block) const {
    if constexpr (Arg::IS_WRITTEN)
      for_each_element(block, [&](T& one, ptrdiff_t offset) {
        *element(argument.data, Bytes{offset}) = one;
      });
  }

 private:
  // All threads of the block share its items, so that neighbours in memory are those of threads.
  template <class Block, class Visit>
  __device__ inline void for_each_element(const Block& block, const Visit& visit) const {
    constexpr int extents[] = {D...};
    enum { COUNT = Shape::count };
    const bool across = number < 64 && (block.elements.across >> number & 1);
    const bool transposed = number < 64 && (block.elements.transposed >> number & 1);
    for (int n = (int)threadIdx.x; n < COUNT * block.count; n += (int)blockDim.x) {
      const int group = across ? n % block.count : n / (COUNT > 0 ? COUNT : 1);
      int k = across ? n / block.count : n - group * COUNT;
      if (Shape::axes == 2 && transposed) {
        const int rows = extents[0] > 0 ? extents[0] : 1;
        k = k % rows * Shape::last + k / rows;
      }
      visit(item(block, group).data[Seen::place(k)],
            block.offset(number, group) + Shape::distance(k, argument.strides));
    }
  }
};

template <class Block, class Op, class... Operands>
__device__ inline void compute_group(const Block& block, int group, const Op& op,
                                     const Operands&... operands) {
  (operands.fetch(block), ...);
  __syncthreads();
  if (group < block.count) op(block.first + group, operands.item(block, group)...);
  __syncthreads();
  (operands.flush(block), ...);
}

template <int AXES, int THREADS, int N, class Op, class... Args, int... K>
__device__ inline void each(const Elements<Groups<AXES, THREADS>, N>& elements, const Op& op,
                            Numbers<K...>, const Args&... args) {
  extern __shared__ uint4 kspec_items[];
  const ptrdiff_t first = (ptrdiff_t)blockIdx.x * elements.groups;
  const ptrdiff_t left = elements.size() - first;
  const int count = left < elements.groups ? (int)left : elements.groups;
  const GroupOf<Elements<Groups<AXES, THREADS>, N>> block{
      elements, reinterpret_cast<unsigned char*>(kspec_items), first, count};
  compute_group(block, (int)threadIdx.x / THREADS, op, GroupOperand<Args>(args, K)...);
}

// What the operation sees beside its operands: its thread in the group, and a barrier of the group.
template <class Layout> struct Group;
template <int AXES, int THREADS> struct Group<Groups<AXES, THREADS>> {
  enum { threads = THREADS };
  __device__ static inline int thread() { return (int)threadIdx.x % THREADS; }
  __device__ static inline void sync() {
    if constexpr (THREADS == 32)
      __syncwarp();
    else
      __syncthreads();
  }
};

}  // namespace kspec
