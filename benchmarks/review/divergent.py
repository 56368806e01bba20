"""Divergence: branches and loops that lanes of a warp take differently."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.review.case import Case, floats, matrix_shape, zeros

_BLOCK = 256

_ODD_EVEN = """
extern "C" __global__ void odd_even(const float* x, float* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float value = x[i];
  if (i & 1) {
#pragma unroll 1
    for (int k = 0; k < 16; ++k) value = value * value + 0.125f;
  } else {
#pragma unroll 1
    for (int k = 0; k < 8; ++k) value = value * 0.5f + 0.25f;
  }
  y[i] = value;
}
"""
_ODD_LOADS = """
extern "C" __global__ void odd_even_loads(const float* a, const float* b, float* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float value;
  if (i & 1) {
    value = sqrtf(a[i]);
  } else {
    value = b[i];
  }
  y[i] = value;
}
"""
_SELECTED = """
extern "C" __global__ void selected_by_value(const float* x, float* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float value = x[i];
  if (value > 0.75f) {
    y[i] = sqrtf(value);
  }
}
"""
_WARPS = """
extern "C" __global__ void odd_even_warps(const float* x, float* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float value = x[i];
  if ((threadIdx.x / 32) & 1) {
#pragma unroll 1
    for (int k = 0; k < 16; ++k) value = value * value + 0.125f;
  }
  y[i] = value;
}
"""
_LANE_TRIPS = """
extern "C" __global__ void lane_trips(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = 0;
#pragma unroll 1
  for (int k = 0; k <= (i & 31); ++k) {
    sum += x[(i + 32 * k) & (n - 1)];
  }
  y[i] = sum;
}
"""
_SWITCH = """
extern "C" __global__ void four_ways(const float* x, float* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float value = x[i];
  switch (i & 3) {
    case 0: value = expf(value); break;
    case 1: value = logf(value + 1); break;
    case 2: value = value / (value + 2); break;
    default: value = sqrtf(value);
  }
  y[i] = value;
}
"""
_CSR_THREAD = """
extern "C" __global__ void csr_thread_a_row(
    const int* start, const int* column, const float* value, const float* x, float* y) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  int first = start[row];
  int last = start[row + 1];
  float sum = 0;
#pragma unroll 1
  for (int k = first; k < last; ++k) {
    int j = column[k];
    float factor = value[k];
    float other = x[j];
    sum += factor * other;
  }
  y[row] = sum;
}
"""
_CSR_WARP = """
extern "C" __global__ void csr_warp_a_row(
    const int* start, const int* column, const float* value, const float* x, float* y) {
  int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  int lane = threadIdx.x & 31;
  int first = start[row];
  int last = start[row + 1];
  float sum = 0;
#pragma unroll 1
  for (int k = first + lane; k < last; k += 32) {
    int j = column[k];
    float factor = value[k];
    float other = x[j];
    sum += factor * other;
  }
  for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(0xffffffffu, sum, step);
  if (lane == 0) {
    y[row] = sum;
  }
}
"""
_TRIANGLE = """
extern "C" __global__ void triangle_sums(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = 0;
#pragma unroll 1
  for (int r = 0; r < 4; ++r) {
#pragma unroll 1
    for (int k = 0; k <= (i + 8 * r) % 24; ++k) {
      sum += x[(i + 32 * k + 1024 * r) & (n - 1)];
    }
  }
  y[i] = sum;
}
"""
_SEARCH = """
extern "C" __global__ void lower_bound(const float* sorted, const float* x, int* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float value = x[i];
  int low = 0, high = n;
#pragma unroll 1
  while (low < high) {
    int middle = (low + high) / 2;
    float probe = sorted[middle];
    if (probe < value) low = middle + 1;
    else high = middle;
  }
  y[i] = low;
}
"""
_MANDELBROT = """
extern "C" __global__ void mandelbrot(int* y, int columns, int rows) {
  int column = blockIdx.x * blockDim.x + threadIdx.x;
  int row = blockIdx.y * blockDim.y + threadIdx.y;
  float cx = -2 + 3.0f * column / columns, cy = -1 + 2.0f * row / rows;
  float zx = 0, zy = 0;
  int count = 0;
#pragma unroll 1
  while (count < 200 && zx * zx + zy * zy < 4) {
    float next = zx * zx - zy * zy + cx;
    zy = 2 * zx * zy + cy;
    zx = next;
    ++count;
  }
  y[row * columns + column] = count;
}
"""
_FIRST_LANES = """
extern "C" __global__ void eight_lanes(const float* x, float* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if ((threadIdx.x & 31) >= 8) return;
  float value = x[i];
#pragma unroll 1
  for (int k = 0; k < 16; ++k) value = value * value + 0.125f;
  y[i] = value;
}
"""


def _polynomial(x: Any, rounds: int) -> Any:
    for _ in range(rounds):
        x = x * x + np.float32(0.125)
    return x


def _odd_even(x: Any, y: Any) -> Any:
    out = _polynomial(x, 16)
    even = x[::2]
    for _ in range(8):
        even = even * np.float32(0.5) + np.float32(0.25)
    out[::2] = even
    return out


def _four_ways(x: Any, y: Any) -> Any:
    ways = np.stack([np.exp(x), np.log(x + 1), x / (x + 2), np.sqrt(x)])
    return ways[np.arange(x.size) % 4, np.arange(x.size)]


def _lane_sums(x: Any, y: Any, n: Any) -> Any:
    lane = np.arange(y.size) % 32
    sums = np.zeros(y.size)
    for k in range(32):
        sums += np.where(k <= lane, x[(np.arange(y.size) + 32 * k) % n], 0)
    return sums


def _triangle(x: Any, y: Any, n: Any) -> Any:
    i = np.arange(y.size)
    sums = np.zeros(y.size)
    for r in range(4):
        for k in range(24):
            sums += np.where(k <= (i + 8 * r) % 24, x[(i + 32 * k + 1024 * r) % n], 0)
    return sums


def sparse_matrix(rows: int, longest: int, columns: int) -> tuple[Any, Any, Any, Any]:
    """Return starts, columns and values of a CSR matrix, and a vector.

    Rows have 0 to `longest` elements, most of them few.
    """
    generator = np.random.default_rng(7)
    counts = (generator.random(rows) ** 3 * (longest + 1)).astype(np.int64)
    start = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    column = generator.integers(0, columns, start[-1], dtype=np.int32)
    value = generator.random(start[-1], dtype=np.float32)
    return start, column, value, floats(columns, 8)


def _csr(start: Any, column: Any, value: Any, x: Any, y: Any) -> Any:
    sums = np.concatenate([[0.0], np.cumsum(value.astype(np.float64) * x[column])])
    return sums[start[1:]] - sums[start[:-1]]


def _mandelbrot(y: Any, columns: Any, rows: Any) -> Any:
    f = np.float32
    cx = f(-2) + f(3) * np.arange(columns, dtype=f) / f(columns)
    cy = f(-1) + f(2) * np.arange(rows, dtype=f)[:, None] / f(rows)
    zx, zy = np.zeros((rows, columns), f), np.zeros((rows, columns), f)
    count = np.zeros((rows, columns), np.int32)
    for _ in range(200):
        inside = zx * zx + zy * zy < 4
        count += inside
        zx, zy = (
            np.where(inside, zx * zx - zy * zy + cx, zx),
            np.where(inside, 2 * zx * zy + cy, zy),
        )
    return count


def _eight(x: Any, y: Any) -> Any:
    return np.where(np.arange(x.size) % 32 < 8, _polynomial(x, 16), 0)


def _lines(n: int) -> list[Case]:
    """Return the cases of one array or two, a thread for each element."""
    one = lambda: (floats(n), zeros(n))  # noqa: E731
    grid, block = (n // _BLOCK,), (_BLOCK,)
    loads = lambda: (floats(n, 1), floats(n, 2), zeros(n))  # noqa: E731
    return [
        Case("odd_even", _ODD_EVEN, one, grid, block, _odd_even),
        Case(
            "odd_even_loads",
            _ODD_LOADS,
            loads,
            grid,
            block,
            lambda a, b, y: np.where(np.arange(a.size) % 2, np.sqrt(a), b),
            output=2,
            bandwidth_bound=True,
        ),
        Case(
            "selected_by_value",
            _SELECTED,
            one,
            grid,
            block,
            lambda x, y: np.where(x > 0.75, np.sqrt(x), 0),
            bandwidth_bound=True,
        ),
        Case(
            "odd_even_warps",
            _WARPS,
            one,
            grid,
            block,
            lambda x, y: np.where(np.arange(x.size) // 32 % 2, _polynomial(x, 16), x),
            bandwidth_bound=True,
        ),
        Case("four_ways", _SWITCH, one, grid, block, _four_ways, bandwidth_bound=True),
        Case("eight_lanes", _FIRST_LANES, one, grid, block, _eight, bandwidth_bound=True),
    ]


def divergent(n: int) -> list[Case]:
    """Return the cases for arrays of about n elements; n is a power of two."""
    few = n // 16
    rows = n // 64
    height, width = matrix_shape(max(1024, n // 32))
    matrix = lambda: (*sparse_matrix(rows, 128, n // 8), zeros(rows))  # noqa: E731
    sums = lambda: (floats(n), zeros(few), np.int32(n))  # noqa: E731
    return [
        *_lines(n),
        Case("lane_trips", _LANE_TRIPS, sums, (few // _BLOCK,), (_BLOCK,), _lane_sums),
        Case("triangle_sums", _TRIANGLE, sums, (few // _BLOCK,), (_BLOCK,), _triangle),
        Case(
            "csr_thread_a_row",
            _CSR_THREAD,
            matrix,
            (rows // 64,),
            (64,),
            _csr,
            output=4,
        ),
        Case(
            "csr_warp_a_row",
            _CSR_WARP,
            matrix,
            (rows // 8,),
            (_BLOCK,),
            _csr,
            output=4,
        ),
        Case(
            "lower_bound",
            _SEARCH,
            lambda: (np.sort(floats(few, 1)), floats(few, 2), zeros(few, "int32"), np.int32(few)),
            (few // _BLOCK,),
            (_BLOCK,),
            lambda table, x, y, count: np.searchsorted(table, x),
            output=2,
        ),
        Case(
            "mandelbrot",
            _MANDELBROT,
            lambda: (zeros(width * height, "int32"), np.int32(width), np.int32(height)),
            (width // 32, height // 8),
            (32, 8),
            _mandelbrot,
            output=0,
        ),
        Case(
            "sorted_trips",
            _LANE_TRIPS.replace("lane_trips", "sorted_trips").replace("(i & 31)", "(i / 32 & 31)"),
            sums,
            (few // _BLOCK,),
            (_BLOCK,),
            _warp_sums,
        ),
    ]


def _warp_sums(x: Any, y: Any, n: Any) -> Any:
    warp = np.arange(y.size) // 32 % 32
    sums = np.zeros(y.size)
    for k in range(32):
        sums += np.where(k <= warp, x[(np.arange(y.size) + 32 * k) % n], 0)
    return sums
