// Scans of rows whose elements are taken in tiles, one after the other.
#pragma once

#include "kspec/line_tile.cuh"
#include "kspec/scan.cuh"

namespace kspec {

// Where the elements of a tile are in their rows.
template <class Plan, int SIZE> struct RowsOfTile {
  const Plan& plan;
  Place first;   // that of the tile's first element, or of one that would come before the first row
  bool long_rows;
  int begin;     // in long rows, the only element that may begin one

  __device__ inline RowsOfTile(const Plan& plan, ptrdiff_t element) : plan(plan) {
    first = Place{0, element};
    if (plan.outputs > 1 && element > 0) {
      first.row = plan.narrow ? (ptrdiff_t)plan.by_length.divide((unsigned int)element)
                              : element / plan.length;
      first.column -= first.row * plan.length;
    }
    long_rows = plan.outputs == 1 || plan.length >= SIZE;
    const ptrdiff_t next = first.column <= 0 ? 0 : plan.length;
    begin = item_of(next, first.column, SIZE);
  }
  __device__ inline Place operator[](int item) const {
    const ptrdiff_t column = first.column + item;
    if (plan.outputs == 1 || column < plan.length) return Place{first.row, column};
    if (long_rows) return Place{first.row + 1, column - plan.length};
    const unsigned int rows = plan.by_length.divide((unsigned int)column);
    return Place{first.row + rows, column - rows * plan.length};
  }
  // The place of the element that comes after another one.
  __device__ inline Place after(const Place& at) const {
    const bool ends = at.column + 1 == plan.length;
    return Place{at.row + ends, ends ? 0 : at.column + 1};
  }
  // A bit for each of the V elements from `item` on that begins a row.
  template <int V> __device__ inline unsigned int begins(int item) const {
    if (long_rows) return begin >= item && begin - item < V ? 1u << (begin - item) : 0u;
    const int length = (int)plan.length;
    int column = (int)first.column + item;
    if (column > 0) column -= (int)plan.by_length.divide((unsigned int)column) * length;
    unsigned int bits = 0;
    for (int j = column <= 0 ? -column : length - column; j < V; j += length) bits |= 1u << j;
    return bits;
  }
};

template <class T> struct Unqualified { typedef T type; };
template <class T> struct Unqualified<const T&> { typedef T type; };
template <class T> using Bare = typename Unqualified<T>::type;

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

// Scan a tile whose packs have V elements: `PACKED` if element number n of each operand is number n
// in memory.
template <int V, bool PACKED, class Op, int AXES, int I, int O, class... Inputs>
__device__ inline void scan_tile(const Op& op, const ScanPlan<AXES, I, O>& plan,
                                 const Inputs&... inputs) {
  typedef TileValues<Op, V> Values;
  typedef typename Values::Tile Tile;
  const Ticket tile = take_tile(plan);
  const ptrdiff_t first = tile.number * Tile::SIZE - plan.shift;
  const ptrdiff_t total = plan.outputs * plan.length;
  TilePacks<Tile, V, typename UpTo<I>::type, Inputs...> packs;
  if constexpr (PACKED) packs.load(plan.steps, first, total, inputs...);
  const RowsOfTile<ScanPlan<AXES, I, O>, Tile::SIZE> rows(plan, first);
  const int low = item_of(0, first, Tile::SIZE), high = item_of(total, first, Tile::SIZE);
  const auto where = [&](const Offsets<AXES, I + O>& row, const Place& at) {
    return InRow<AXES, I + O>{row, plan.steps, place_in(plan, at.column)};
  };
  Values values;
  values.begins = 0;
#pragma unroll
  for (int r = 0; r < Tile::ROUNDS; ++r) {
    const int item = Tile::item(r);
    values.begins |= rows.template begins<V>(item) << r * V;
    Place at = rows[item];
    const auto map = [&](int j) {
      if constexpr (PACKED) {
        values.value[r][j] = packs.batch[r].map(op, j, place_in(plan, at.column), at.row);
      } else {
        const Offsets<AXES, I + O> row(plan.rows, at.row);
        values.value[r][j] = op._map(where(row, at), place_in(plan, at.column), at.row);
      }
    };
    if (high - low == Tile::SIZE) {
#pragma unroll
      for (int j = 0; j < V; ++j, at = rows.after(at)) map(j);
    } else {
      const unsigned int exists = bits_within<V>(item, low, high);
      values.begins |= (exists ^ Values::ALL) << r * V;
#pragma unroll
      for (int j = 0; j < V; ++j, at = rows.after(at))
        if (exists >> j & 1) map(j);
    }
  }
  values.scan(op, plan, tile, plan.exclusive);
  op._outputs([&](const auto&... outputs) {
#pragma unroll
    for (int r = 0; r < Tile::ROUNDS; ++r) {
      const int item = Tile::item(r);
      Place at = rows[item];
      const auto post = [&](int j, const auto& place) {
        const bool nothing = plan.exclusive && values.begins >> (r * V + j) & 1;
        counted(op, at.column + !plan.exclusive)
            ._post(nothing ? op._identity() : op._initial(values.value[r][j]), place, at.row);
      };
      if constexpr (PACKED) {
        OutputPack<V, typename UpTo<O>::type, Bare<decltype(outputs)>...> pack;
        if (high - low == Tile::SIZE) {
#pragma unroll
          for (int j = 0; j < V; ++j, at = rows.after(at)) post(j, InPack<decltype(pack), I>{pack, j});
          pack.store(outputs..., first + item);
        } else {
          const unsigned int exists = bits_within<V>(item, low, high);
#pragma unroll
          for (int j = 0; j < V; ++j, at = rows.after(at))
            if (exists >> j & 1) post(j, InPack<decltype(pack), I>{pack, j});
          pack.store(outputs..., first + item, exists);
        }
      } else if (item >= low && item < high) {
        const Offsets<AXES, I + O> row(plan.rows, at.row);
        post(0, where(row, at));
      }
    }
  });
}

template <class Op, int AXES, int I, int O, class... Inputs>
__device__ inline void reduce(const Op& op, const Reduction<ScanLines<AXES>, I, O>& plan,
                              const Inputs&... inputs) {
  op._outputs([&](const auto&... outputs) {
    enum { PACK = PackSize<Inputs..., Bare<decltype(outputs)>...>::value };
    enum { V = TilePack<typename Op::_Acc, PACK>::V };
    if constexpr (V > 1) {
      if (plan.packed) {
        scan_tile<V, true>(op, plan, inputs...);
        return;
      }
    }
    scan_tile<1, false>(op, plan, inputs...);
  });
}

}  // namespace kspec
