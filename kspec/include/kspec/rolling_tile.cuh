// Windows that slide along the innermost axis by single elements, a stretch of neighbours for each
// block. Each element is read and mapped once, to shared memory. A thread has elements that follow each
// other, and makes totals of those up to each one, and from each one on. A window is the last elements
// of one thread, all of some others, and the first of one more (van Herk, "A fast algorithm for local
// minimum and maximum filters on rectangular and octagonal kernels", 1992): whatever its size, there is
// as much to do. Totals of 1, 2, 4 and so on threads are made of the shorter ones.
#pragma once

#include "kspec/rolling.cuh"

namespace kspec {

// Windows of `size` elements from each of a thread's on, of all `elements` of the block. There is room
// for the totals of all threads twice. The block comes here.
template <class Op, class Acc, int ITEMS>
__device__ inline void roll_items(const Op& op, int size, int elements, Acc* all, Acc* totals,
                                  Acc (&window)[ITEMS]) {
  const int own = threadIdx.x, threads = blockDim.x, item = own * ITEMS;
#pragma unroll
  for (int j = 0; j < ITEMS; ++j)
    if (item + j < elements) window[j] = all[item + j];
  if (size <= ITEMS) {
#pragma unroll 1
    for (int k = 1; k < size; ++k)
#pragma unroll
      for (int j = 0; j < ITEMS; ++j)
        if (item + j + k < elements) window[j] = op._reduce(window[j], all[item + j + k]);
    return;
  }
  // Totals up to each element, in its place, and from each one on.
  Acc total = window[0];
#pragma unroll
  for (int j = 1; j < ITEMS; ++j) {
    total = op._reduce(total, window[j]);
    all[item + j] = total;
  }
#pragma unroll
  for (int j = ITEMS - 2; j >= 0; --j) window[j] = op._reduce(window[j], window[j + 1]);
  totals[own] = total;
  __syncthreads();
  // A window ends `apart` threads further on, or in the next one, and has all of those between.
  const int apart = (size - 1) / ITEMS, rest = (size - 1) % ITEMS;
  Acc between, across;
  if (own + apart < threads) across = totals[own + apart];
  Acc* longer = totals + threads;
#pragma unroll 1
  for (int done = 0, width = 1; done < apart - 1; width *= 2) {  // threads of each of `totals`
    const int next = own + 1 + done;
    if ((apart - 1) & width) {
      if (next < threads) between = done ? op._reduce(between, totals[next]) : totals[next];
      done += width;
    }
    if (own + width < threads) longer[own] = op._reduce(totals[own], totals[own + width]);
    Acc* const read = totals;
    totals = longer;
    longer = read;
    __syncthreads();
  }
  if (apart > 1) across = op._reduce(between, across);
#pragma unroll
  for (int j = 0; j < ITEMS; ++j) {
    const int last = item + size - 1 + j;
    if (last >= elements) continue;
    if (j + rest >= ITEMS)
      window[j] = op._reduce(window[j], across);
    else if (apart > 1)
      window[j] = op._reduce(window[j], between);
    window[j] = op._reduce(window[j], all[last]);
  }
}

template <class Op, int AXES, int I, int O>
__device__ inline void roll_tile(const Op& op, const Reduction<Rolling<AXES, 1>, I, O>& plan) {
  typedef typename Op::_Acc Acc;
  typedef RollingTile<Acc> Tile;
  typedef WindowPlace<Reduction<Rolling<AXES, 1>, I, O>, 1, I + O> Place;
  __shared__ __align__(16) unsigned char of_elements[Tile::SIZE * sizeof(Acc)];
  __shared__ __align__(16) unsigned char of_threads[2 * Tile::THREADS * sizeof(Acc)];
  Acc* const all = reinterpret_cast<Acc*>(of_elements);
  const SlidingAxis<I>& axis = plan.sliding[0];
  const int size = (int)axis.size, threads = blockDim.x;
  // The windows of this block.
  const unsigned int row = blockIdx.x / (unsigned int)plan.tiles;
  const ptrdiff_t length = plan.places.extents[0];
  const ptrdiff_t start = (ptrdiff_t)(blockIdx.x - row * plan.tiles) * plan.tile;
  const int count = length - start < plan.tile ? (int)(length - start) : plan.tile;
  const ptrdiff_t output = row * length + start;
  // Their elements.
  const int elements = count + size - 1;
  const ptrdiff_t first = start - axis.before;
  const bool inside = first >= 0 && first + elements <= axis.extent;
  if (!inside && plan.boundary == CONSTANT) {  // windows that differ in how many elements there are
    for (int k = threadIdx.x; k < count; k += threads) roll(op, plan, output + k);
    return;
  }
  const Place place(plan, output);
  const auto map = [&](ptrdiff_t element) {
    At<I> at;
#pragma unroll
    for (int i = 0; i < I; ++i) at.offset[i] = place.offset[i] + (element - start) * axis.strides[i];
    return op._map(at, 0, 0);
  };
  Acc window[Tile::ITEMS];
  if (inside) {  // all loads are in flight before the first one is waited for
#pragma unroll
    for (int r = 0; r < Tile::ITEMS; ++r) {
      const int k = r * threads + threadIdx.x;
      if (k < elements) window[r] = map(first + k);
    }
#pragma unroll
    for (int r = 0; r < Tile::ITEMS; ++r) {
      const int k = r * threads + threadIdx.x;
      if (k < elements) all[k] = window[r];
    }
  } else {
#pragma unroll 1
    for (int k = threadIdx.x; k < elements; k += threads) {
      const ptrdiff_t n = first + k;
      const bool exists = 0 <= n && n < axis.extent;
      all[k] = map(exists ? n : index_outside(n, axis.extent, plan.boundary));
    }
  }
  __syncthreads();
  roll_items(op, size, elements, all, reinterpret_cast<Acc*>(of_threads), window);
  __syncthreads();
#pragma unroll
  for (int j = 0; j < Tile::ITEMS; ++j)
    if (threadIdx.x * Tile::ITEMS + j < count) all[threadIdx.x * Tile::ITEMS + j] = window[j];
  __syncthreads();
  const Op whole = counted(op, size);
#pragma unroll
  for (int r = 0; r < Tile::ITEMS; ++r) {
    const int k = r * threads + threadIdx.x;
    if (k >= count) continue;
    At<I + O> at;
#pragma unroll
    for (int o = 0; o < I + O; ++o) at.offset[o] = place.offset[o] + k * plan.places.strides[o][0];
    whole._post(op._initial(all[k]), at, output + k);
  }
}

}  // namespace kspec
