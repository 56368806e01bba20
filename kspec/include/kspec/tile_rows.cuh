// Where the elements of a tile are in their rows, which follow each other.
#pragma once

#include "kspec/scan.cuh"

namespace kspec {

template <class Plan> struct RowsOfTile {
  const Plan& plan;
  Place first;   // that of the tile's first element, or of one that would come before the first row
  bool long_rows;
  int begin;     // in long rows, the only element that may begin one

  // Of `size` elements, from number `element` on.
  __device__ inline RowsOfTile(const Plan& plan, ptrdiff_t element, int size) : plan(plan) {
    first = Place{0, element};
    if (plan.outputs > 1 && element > 0) {
      first.row = plan.narrow ? (ptrdiff_t)plan.by_length.divide((unsigned int)element)
                              : element / plan.length;
      first.column -= first.row * plan.length;
    }
    long_rows = plan.outputs == 1 || plan.length >= size;
    const ptrdiff_t next = first.column <= 0 ? 0 : plan.length;
    begin = item_of(next, first.column, size);
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
#pragma unroll 1
    for (int j = column <= 0 ? -column : length - column; j < V; j += length) bits |= 1u << j;
    return bits;
  }
};

}  // namespace kspec
