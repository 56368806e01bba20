// Programs of rows: what is computed of a row stays in registers until all of it is written, so that
// each row is read once and written once. 2^lanes threads share a row, PACKS packs of V neighbouring
// elements each; kspec/fusion/rows.py writes the kernels and kspec/fused_rows.py chooses the numbers.
#pragma once

#include "kspec/pack.cuh"
#include "kspec/shuffle.cuh"
#include "kspec/truth.cuh"

namespace kspec {

template <int V, int PACKS> struct Row {
  long long index;  // of the row
  int length;
  int lane;         // of the thread among those of its row
  int lanes;        // logarithm of how many these are
  bool live;        // whether there is such a row

  __device__ inline Row(long long rows, long long row_length, long long row_lanes)
      : length((int)row_length), lanes((int)row_lanes) {
    lane = threadIdx.x & ((1 << lanes) - 1);
    index = (long long)blockIdx.x * (blockDim.x >> lanes) + (threadIdx.x >> lanes);
    live = index < rows;
  }
  // First element of a pack of this thread.
  __device__ inline int at(int pack) const { return ((pack << lanes) + lane) * V; }
  __device__ inline bool has(int pack) const { return live && at(pack) < length; }

  template <class T> __device__ inline void load(T (&to)[PACKS][V], const T* row) const {
    Pack<typename Stored<T>::type, V> pack[PACKS];
#pragma unroll
    for (int k = 0; k < PACKS; ++k)
      if (has(k)) pack[k].load(stored(row) + at(k));
#pragma unroll
    for (int k = 0; k < PACKS; ++k) {
#pragma unroll
      for (int j = 0; j < V; ++j)
        if (has(k)) to[k][j] = static_cast<T>(pack[k].get(j));
    }
  }

  // What the threads of a row have, made one, for each of them; all threads of the block must come
  // here. The same for any number of calls, since lanes are joined in pairs.
  template <class T, class Join> __device__ inline T all(T mine, const Join& join) const {
    enum { WORDS = (sizeof(T) + 3) / 4 };
#pragma unroll 1
    for (int step = 1; step < (lanes < 5 ? 1 << lanes : 32); step <<= 1)
      mine = join(mine, shuffle_xor(mine, step));
    if (lanes <= 5) return mine;
    __shared__ unsigned int kept[32][WORDS];
    const int warp = threadIdx.x >> 5, warps = 1 << (lanes - 5);
    __syncthreads();  // what was kept before has been read
    if ((threadIdx.x & 31) == 0) memcpy(kept[warp], &mine, sizeof(T));
    __syncthreads();
    memcpy(&mine, kept[(warp & ~(warps - 1)) + (threadIdx.x & (warps - 1))], sizeof(T));
#pragma unroll 1
    for (int step = 1; step < warps; step <<= 1) mine = join(mine, shuffle_xor(mine, step));
    return mine;
  }
};

}  // namespace kspec
