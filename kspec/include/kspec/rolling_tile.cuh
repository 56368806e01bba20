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
// for the totals of all chunks twice. The block comes here.
template <class Tile, class Op, class Acc, int ITEMS>
__device__ inline void roll_items(const Op& op, int size, int elements, Acc* all, Acc* totals,
                                  Acc (&window)[ITEMS]) {
  enum { CHUNK = Tile::CHUNK, CHUNKS = Tile::CHUNKS };
  const int own = threadIdx.x * CHUNKS, chunks = blockDim.x * CHUNKS, item = threadIdx.x * ITEMS;
#pragma unroll
  for (int j = 0; j < ITEMS; ++j) window[j] = all[item + j];
  if (size <= CHUNK) {
#pragma unroll 1
    for (int k = 1; k < size; ++k)
#pragma unroll
      for (int j = 0; j < ITEMS; ++j)
        if (item + j + k < elements) window[j] = op._reduce(window[j], all[item + j + k]);
    return;
  }
  // Totals up to each element of a chunk, in its place, and from each one on.
#pragma unroll
  for (int c = 0; c < CHUNKS; ++c) {
    Acc total = window[c * CHUNK];
#pragma unroll
    for (int j = c * CHUNK + 1; j < (c + 1) * CHUNK; ++j) {
      total = op._reduce(total, window[j]);
      all[item + j] = total;
    }
    totals[own + c] = total;
#pragma unroll
    for (int j = (c + 1) * CHUNK - 2; j >= c * CHUNK; --j)
      window[j] = op._reduce(window[j], window[j + 1]);
  }
  __syncthreads();
  // A window ends `apart` chunks further on, or in the next one, and has all of those between.
  const int apart = (size - 1) / CHUNK, rest = (size - 1) % CHUNK;
  Acc between[CHUNKS], across[CHUNKS];
#pragma unroll
  for (int c = 0; c < CHUNKS; ++c)
    if (own + c + apart < chunks) across[c] = totals[own + c + apart];
  Acc* longer = totals + chunks;
#pragma unroll 1
  for (int done = 0, width = 1; done < apart - 1; width *= 2) {  // chunks of each of `totals`
    const bool takes = (apart - 1) & width;
#pragma unroll
    for (int c = 0; c < CHUNKS; ++c) {
      const int at = own + c, next = at + 1 + done;
      if (takes && next + width <= chunks)
        between[c] = done ? op._reduce(between[c], totals[next]) : totals[next];
      if (at + 2 * width <= chunks) longer[at] = op._reduce(totals[at], totals[at + width]);
    }
    if (takes) done += width;
    Acc* const read = totals;
    totals = longer;
    longer = read;
    __syncthreads();
  }
  if (apart > 1)
#pragma unroll
    for (int c = 0; c < CHUNKS; ++c)
      if (own + c + apart < chunks) across[c] = op._reduce(between[c], across[c]);
  const auto join = [&](const auto& exists) {
#pragma unroll
    for (int j = 0; j < ITEMS; ++j) {
      const int last = item + size - 1 + j;
      if (!exists(last)) continue;
      if (j % CHUNK + rest >= CHUNK)
        window[j] = op._reduce(window[j], across[j / CHUNK]);
      else if (apart > 1)
        window[j] = op._reduce(window[j], between[j / CHUNK]);
      window[j] = op._reduce(window[j], all[last]);
    }
  };
  if (item + size + ITEMS - 2 < elements)
    join([](int) { return true; });
  else
    join([&](int last) { return last < elements; });
}

template <class Op, int AXES, int I, int O>
__device__ inline void roll_tile(const Op& op, const Reduction<Rolling<AXES, 1>, I, O>& plan) {
  typedef typename Op::_Acc Acc;
  typedef RollingTile<Acc> Tile;
  typedef WindowPlace<Reduction<Rolling<AXES, 1>, I, O>, 1, I + O> Place;
  __shared__ __align__(16) unsigned char of_elements[Tile::SIZE * sizeof(Acc)];
  __shared__ __align__(16) unsigned char of_chunks[2 * Tile::THREADS * Tile::CHUNKS * sizeof(Acc)];
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
  // An input's offset, of the element that is number `n` along the axis.
  const auto offset = [&](int i, ptrdiff_t n) {
    return place.offset[i] + (n - start) * axis.strides[i];
  };
  Acc window[Tile::ITEMS];
  if (inside) {  // all loads are in flight before the first one is waited for
    At<I> at;
#pragma unroll
    for (int i = 0; i < I; ++i)
      at.offset[i] = offset(i, first + min((int)threadIdx.x, elements - 1));
    if (elements == threads * Tile::ITEMS) {
#pragma unroll
      for (int r = 0; r < Tile::ITEMS; ++r) {
        window[r] = op._map(at, 0, 0);
#pragma unroll
        for (int i = 0; i < I; ++i) at.offset[i] += threads * axis.strides[i];
      }
    } else {  // behind the last element it is there again
#pragma unroll
      for (int r = 0; r < Tile::ITEMS; ++r) {
        window[r] = op._map(at, 0, 0);
        const int left = elements - 1 - r * threads - (int)threadIdx.x;
        const int step = left < 0 ? 0 : left < threads ? left : threads;
#pragma unroll
        for (int i = 0; i < I; ++i) at.offset[i] += step * axis.strides[i];
      }
    }
#pragma unroll
    for (int r = 0; r < Tile::ITEMS; ++r) all[r * threads + threadIdx.x] = window[r];
  } else {
#pragma unroll 1
    for (int k = threadIdx.x; k < threads * Tile::ITEMS; k += threads) {
      const ptrdiff_t n = first + min(k, elements - 1);
      const bool exists = 0 <= n && n < axis.extent;
      At<I> at;
#pragma unroll
      for (int i = 0; i < I; ++i)
        at.offset[i] = offset(i, exists ? n : index_outside(n, axis.extent, plan.boundary));
      all[k] = op._map(at, 0, 0);
    }
  }
  __syncthreads();
  roll_items<Tile>(op, size, elements, all, reinterpret_cast<Acc*>(of_chunks), window);
  __syncthreads();
#pragma unroll
  for (int j = 0; j < Tile::ITEMS; ++j) all[threadIdx.x * Tile::ITEMS + j] = window[j];
  __syncthreads();
  const Op whole = counted(op, size);
  At<I + O> at;
#pragma unroll
  for (int o = 0; o < I + O; ++o)
    at.offset[o] = place.offset[o] + threadIdx.x * plan.places.strides[o][0];
#pragma unroll
  for (int r = 0; r < Tile::ITEMS; ++r) {
    const int k = r * threads + threadIdx.x;
    if (k < count) whole._post(op._initial(all[k]), at, output + k);
#pragma unroll
    for (int o = 0; o < I + O; ++o) at.offset[o] += threads * plan.places.strides[o][0];
  }
}

}  // namespace kspec
