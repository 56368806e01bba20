"""Reductions and scans of blocks, warps and threads, and atomics."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.review.case import Case, floats, integers, zeros

_BLOCK = 256

# ---- reductions of blocks

_REDUCE_HEAD = """
extern "C" __global__ void NAME(const float* x, float* y) {
  __shared__ float part[256];
  int t = threadIdx.x;
  float value = x[blockIdx.x * blockDim.x + t];
"""
_INTERLEAVED = """  part[t] = value;
  __syncthreads();
  for (int step = 1; step < 256; step *= 2) {
    if (t % (2 * step) == 0) {
      float other = part[t + step];
      value += other;
      part[t] = value;
    }
    __syncthreads();
  }
  if (t == 0) {
    y[blockIdx.x] = value;
  }
}
"""
_STRIDED_TREE = """  part[t] = value;
  __syncthreads();
  for (int step = 1; step < 256; step *= 2) {
    int place = 2 * step * t;
    if (place < 256) {
      float one = part[place];
      float other = part[place + step];
      part[place] = one + other;
    }
    __syncthreads();
  }
  if (t == 0) {
    y[blockIdx.x] = part[0];
  }
}
"""
_SEQUENTIAL = """  part[t] = value;
  __syncthreads();
  for (int step = 128; step > 0; step /= 2) {
    if (t < step) {
      float other = part[t + step];
      value += other;
      part[t] = value;
    }
    __syncthreads();
  }
  if (t == 0) {
    y[blockIdx.x] = value;
  }
}
"""
_SHUFFLE = """
  for (int step = 16; step > 0; step /= 2) value += __shfl_down_sync(0xffffffffu, value, step);
  if (t % 32 == 0) {
    part[t / 32] = value;
  }
  __syncthreads();
  if (t >= 32) return;
  value = 0;
  if (t < 8) {
    value = part[t];
  }
  for (int step = 4; step > 0; step /= 2) value += __shfl_down_sync(0xffffffffu, value, step);
  if (t == 0) {
    y[blockIdx.x] = value;
  }
}
"""
_SCAN = """
extern "C" __global__ void block_scan(const float* x, float* y) {
  __shared__ float sums[256];
  int t = threadIdx.x;
  int i = blockIdx.x * blockDim.x + t;
  float value = x[i];
  sums[t] = value;
  __syncthreads();
  for (int step = 1; step < 256; step *= 2) {
    float other = 0;
    if (t >= step) {
      other = sums[t - step];
    }
    __syncthreads();
    value += other;
    sums[t] = value;
    __syncthreads();
  }
  y[i] = value;
}
"""
_ROW_SUMS = """
extern "C" __global__ void warp_row_sums(const float* x, float* y, int columns) {
  int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  int lane = threadIdx.x & 31;
  float sum = 0;
#pragma unroll 4
  for (int k = lane; k < columns; k += 32) {
    sum += x[row * columns + k];
  }
  for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(0xffffffffu, sum, step);
  if (lane == 0) {
    y[row] = sum;
  }
}
"""
_COLUMN_SUMS = """
extern "C" __global__ void thread_row_sums(const float* x, float* y, int columns) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = 0;
#pragma unroll 1
  for (int k = 0; k < columns; ++k) {
    sum += x[row * columns + k];
  }
  y[row] = sum;
}
"""


def _reductions(n: int) -> list[Case]:
    rows, columns = n // 512, 512
    trees = {
        "reduce_interleaved": _INTERLEAVED,
        "reduce_strided": _STRIDED_TREE,
        "reduce_sequential": _SEQUENTIAL,
        "reduce_shuffle": _SHUFFLE,
    }
    matrix = lambda: (floats(n), zeros(rows), np.int32(columns))  # noqa: E731
    row_sums = lambda x, y, width: x.reshape(rows, columns).sum(1)  # noqa: E731
    return [
        *(
            Case(
                name,
                _REDUCE_HEAD.replace("NAME", name) + code,
                lambda: (floats(n), zeros(n // _BLOCK)),
                (n // _BLOCK,),
                (_BLOCK,),
                lambda x, y: x.reshape(-1, _BLOCK).sum(1),
            )
            for name, code in trees.items()
        ),
        Case(
            "block_scan",
            _SCAN,
            lambda: (floats(n // 4), zeros(n // 4)),
            (n // 4 // _BLOCK,),
            (_BLOCK,),
            lambda x, y: x.reshape(-1, _BLOCK).cumsum(1),
        ),
        Case(
            "warp_row_sums",
            _ROW_SUMS,
            matrix,
            (rows // 8,),
            (_BLOCK,),
            row_sums,
            bandwidth_bound=True,
        ),
        Case("thread_row_sums", _COLUMN_SUMS, matrix, (max(1, rows // 64),), (64,), row_sums),
    ]


# ---- atomics

_HISTOGRAM = """
extern "C" __global__ void histogram_global(const unsigned char* x, int* bins) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int key = x[i];
  atomicAdd(&bins[key], 1);
}
"""
_HISTOGRAM_SHARED = """
extern "C" __global__ void histogram_shared(const unsigned char* x, int* bins, int n) {
  __shared__ int counts[256];
  counts[threadIdx.x] = 0;
  __syncthreads();
#pragma unroll 1
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    int key = x[i];
    atomicAdd(&counts[key], 1);
  }
  __syncthreads();
  int count = counts[threadIdx.x];
  atomicAdd(&bins[threadIdx.x], count);
}
"""
_ATOMIC_SCATTER = """
extern "C" __global__ void atomic_scatter(const int* index, const float* x, float* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int j = index[i];
  float value = x[i];
  atomicAdd(&y[j], value);
}
"""
_ATOMIC_TOTAL = """
extern "C" __global__ void atomic_warp_totals(const float* x, float* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = x[i];
  for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(0xffffffffu, sum, step);
  if ((threadIdx.x & 31) == 0) {
    atomicAdd(&y[blockIdx.x & 63], sum);
  }
}
"""
_COMPACT = """
extern "C" __global__ void compact(const float* x, int* found, int* count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float value = x[i];
  if (value > 0.9f) {
    int place = atomicAdd(count + (blockIdx.x & 1023), 1);
    found[(blockIdx.x & 1023) * 1024 + place % 1024] = 1;
  }
}
"""


def _totals(x: Any, y: Any) -> Any:
    sums = x.reshape(-1, _BLOCK).astype(np.float64).sum(1)
    return np.bincount(np.arange(sums.size) % 64, sums, 64)


def _compact(x: Any, found: Any, count: Any) -> Any:
    kept = (x > np.float32(0.9)).reshape(-1, _BLOCK).sum(1)
    return np.bincount(np.arange(kept.size) % 1024, kept, 1024).astype(np.int32)


def _atomics(n: int) -> list[Case]:
    few = n // 4
    return [
        Case(
            "histogram_global",
            _HISTOGRAM,
            lambda: (integers(few, 256, "uint8"), zeros(256, "int32")),
            (few // _BLOCK,),
            (_BLOCK,),
            lambda x, bins: np.bincount(x, minlength=256),
        ),
        Case(
            "histogram_shared",
            _HISTOGRAM_SHARED,
            lambda: (integers(n, 256, "uint8"), zeros(256, "int32"), np.int32(n)),
            (min(1056, n // _BLOCK),),
            (_BLOCK,),
            lambda x, bins, count: np.bincount(x, minlength=256),
        ),
        Case(
            "atomic_scatter",
            _ATOMIC_SCATTER,
            lambda: (integers(few, few, seed=9), floats(few), zeros(few)),
            (few // _BLOCK,),
            (_BLOCK,),
            lambda index, x, y: np.bincount(index, x, few),
            output=2,
        ),
        Case(
            "atomic_warp_totals",
            _ATOMIC_TOTAL,
            lambda: (floats(n), zeros(64)),
            (n // _BLOCK,),
            (_BLOCK,),
            _totals,
        ),
        Case(
            "compact",
            _COMPACT,
            lambda: (floats(n), zeros(2**20, "int32"), zeros(1024, "int32")),
            (n // _BLOCK,),
            (_BLOCK,),
            _compact,
            output=2,
        ),
    ]


def reductions(n: int) -> list[Case]:
    """Return the cases for arrays of about n elements; n is a power of two."""
    return [*_reductions(n), *_atomics(n)]
