"""Transposes: through registers, and through tiles of shared memory with and without conflicts."""

from __future__ import annotations

import numpy as np

from benchmarks.review.case import Case, matrix_shape, zeros
from benchmarks.review.copies import numbers

_READ_ROWS = """
extern "C" __global__ void transpose_read_rows(const float* x, float* y, int rows, int columns) {
  int column = blockIdx.x * 32 + threadIdx.x;
  int row = blockIdx.y * 8 + threadIdx.y;
  float value = x[row * columns + column];
  y[column * rows + row] = value;
}
"""
_WRITE_ROWS = """
extern "C" __global__ void transpose_write_rows(const float* x, float* y, int rows, int columns) {
  int row = blockIdx.x * 32 + threadIdx.x;
  int column = blockIdx.y * 8 + threadIdx.y;
  float value = x[row * columns + column];
  y[column * rows + row] = value;
}
"""
_TILED = """
extern "C" __global__ void NAME(const TYPE* x, TYPE* y, int rows, int columns) {
  __shared__ TYPE tile[32][WIDTH];
  int column = blockIdx.x * 32 + threadIdx.x;
  int row = blockIdx.y * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8) {
    TYPE value = x[(row + j) * columns + column];
    tile[threadIdx.y + j][PUT] = value;
  }
  __syncthreads();
  column = blockIdx.y * 32 + threadIdx.x;
  row = blockIdx.x * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8) {
    TYPE value = tile[threadIdx.x][GET];
    y[(row + j) * rows + column] = value;
  }
}
"""
_PLACES = ("threadIdx.x", "threadIdx.y + j")
_SWIZZLED = ("threadIdx.x ^ (threadIdx.y + j)", "(threadIdx.y + j) ^ threadIdx.x")


def _case(name: str, code: str, n: int, grid: tuple[int, int], dtype: str = "float32") -> Case:
    rows, columns = matrix_shape(n)
    return Case(
        name,
        code,
        lambda: (numbers(n, dtype), zeros(n, dtype), np.int32(rows), np.int32(columns)),
        grid,
        (32, 8),
        lambda x, y, *sizes: x.reshape(rows, columns).T,
        bandwidth_bound=True,
    )


def _tiled(
    name: str,
    n: int,
    width: int,
    type: str = "float",
    dtype: str = "float32",
    places: tuple[str, str] = _PLACES,
) -> Case:
    rows, columns = matrix_shape(n)
    code = _TILED.replace("NAME", name).replace("TYPE", type).replace("WIDTH", str(width))
    code = code.replace("PUT", places[0]).replace("GET", places[1])
    return _case(name, code, n, (columns // 32, rows // 32), dtype)


def transposes(n: int) -> list[Case]:
    """Return the cases for matrices of about n elements; n is a power of two."""
    rows, columns = matrix_shape(n)
    return [
        _case("transpose_read_rows", _READ_ROWS, n, (columns // 32, rows // 8)),
        _case("transpose_write_rows", _WRITE_ROWS, n, (rows // 32, columns // 8)),
        _tiled("transpose_tile", n, 32),
        _tiled("transpose_padded", n, 33),
        _tiled("transpose_swizzled", n, 32, places=_SWIZZLED),
        _tiled("transpose_16bit", n, 32, "short", "int16"),
        _tiled("transpose_16bit_padded", n, 34, "short", "int16"),
        _tiled("transpose_64bit", n // 2, 32, "double", "float64"),
        _tiled("transpose_64bit_padded", n // 2, 33, "double", "float64"),
    ]
