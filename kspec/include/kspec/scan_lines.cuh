// Scans of rows whose elements are taken in tiles, one after the other.
#pragma once

#include "kspec/line_tile.cuh"
#include "kspec/scan.cuh"

namespace kspec {

template <class Plan> __device__ inline Place locate(const Plan& plan, ptrdiff_t element) {
  if (plan.outputs == 1) return Place{0, element};
  const ptrdiff_t row = plan.narrow ? (ptrdiff_t)plan.by_length.divide((unsigned int)element)
                                    : element / plan.length;
  return Place{row, element - row * plan.length};
}

template <class T> struct Unqualified { typedef T type; };
template <class T> struct Unqualified<const T&> { typedef T type; };
template <class T> using Bare = typename Unqualified<T>::type;

// Where the operands of element number `element` are if they have no gaps.
struct Gapless {
  const ptrdiff_t* steps;
  ptrdiff_t element;

  __device__ inline Bytes operator[](int operand) const { return Bytes{element * steps[operand]}; }
};
// Outputs of a pack of elements, in registers until all are made.
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
  __device__ inline void store(const Outputs&... outputs, ptrdiff_t first) const {
    (store_pack<V>(outputs.data + first, OwnOutput<K, Outputs, V>::value), ...);
  }
};
template <class Pack, int INPUTS> struct InPack {
  Pack& pack;
  int j;

  __device__ inline Spot operator[](int operand) const {
    return Spot{pack.place(operand - INPUTS, j)};
  }
};

template <class Op, int AXES, int I, int O, class... Inputs>
__device__ inline void reduce(const Op& op, const Reduction<ScanLines<AXES>, I, O>& plan,
                              const Inputs&... inputs) {
  typedef typename Op::_Acc Acc;
  typedef LineTile<Acc> Tile;
  __shared__ __align__(16) unsigned char memory[Tile::ROOM * sizeof(Acc)];
  const Tile tile{reinterpret_cast<Acc*>(memory)};
  const ptrdiff_t number = take_tile(plan), total = plan.outputs * plan.length;
  const ptrdiff_t first = number * Tile::SIZE - plan.shift;
  const auto place = [&](ptrdiff_t n) {
    const Place at = locate(plan, n);
    return Place{at.row, place_in(plan, at.column)};
  };
  op._outputs([&](const auto&... outputs) {
    enum { V = PackSize<Inputs..., Bare<decltype(outputs)>...>::value };
    if (plan.packed) {
      TilePacks<Acc, V, typename UpTo<I>::type, Inputs...> packs;
      packs.load(plan.steps, first, total, inputs...);
      packs.put(op, tile, first, 0, total, place);
    } else {
#pragma unroll 2
      for (int item = threadIdx.x; item < Tile::SIZE && first + item < total;
           item += Tile::THREADS) {
        const Place at = place(first + item);
        const Offsets<AXES, I + O> row(plan.rows, at.row);
        tile[item] = op._map(InRow<AXES, I + O>{row, plan.steps, at.column}, at.column, at.row);
      }
    }
    __syncthreads();

    const ptrdiff_t mine = first + threadIdx.x * Tile::ITEMS;
    ptrdiff_t column = mine < 0 ? mine : locate(plan, mine).column;
    unsigned int begins = 0;
#pragma unroll
    for (int j = 0; j < Tile::ITEMS; ++j) {
      if (column <= 0 || mine + j >= total) begins |= 1u << j;
      if (++column == plan.length) column = 0;
    }
    scan_items(op, plan, number, tile, begins, plan.exclusive);
    __syncthreads();

    const auto post = [&](int item, const Place& at, const auto& where) {
      const bool nothing = plan.exclusive && at.column == 0;
      counted(op, at.column + !plan.exclusive)
          ._post(nothing ? op._identity() : op._initial(tile[item]), where, at.row);
    };
    if (plan.packed) {
#pragma unroll 1
      for (int item = threadIdx.x * V; item < Tile::SIZE; item += Tile::THREADS * V) {
        const ptrdiff_t n = first + item;
        if (n >= 0 && n + V <= total) {
          OutputPack<V, typename UpTo<O>::type, Bare<decltype(outputs)>...> pack;
#pragma unroll
          for (int j = 0; j < V; ++j)
            post(item + j, locate(plan, n + j), InPack<decltype(pack), I>{pack, j});
          pack.store(outputs..., n);
        } else {
#pragma unroll 1
          for (int j = 0; j < V; ++j)
            if (n + j >= 0 && n + j < total)
              post(item + j, locate(plan, n + j), Gapless{plan.steps, n + j});
        }
      }
    } else {
#pragma unroll 2
      for (int item = threadIdx.x; item < Tile::SIZE && first + item < total;
           item += Tile::THREADS) {
        const Place at = locate(plan, first + item);
        const Offsets<AXES, I + O> row(plan.rows, at.row);
        post(item, at, InRow<AXES, I + O>{row, plan.steps, place_in(plan, at.column)});
      }
    }
  });
}

}  // namespace kspec
