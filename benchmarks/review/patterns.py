"""Known patterns: stencils, matrix products, constant and local memory, latency, arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.review.case import Case, floats, integers, matrix_shape, permutation, zeros

_BLOCK = 256

# ---- stencils

_THREE_POINTS = """
extern "C" __global__ void three_points(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < 1 || i >= n - 1) return;
  float left = x[i - 1];
  float here = x[i];
  float right = x[i + 1];
  y[i] = 0.25f * left + 0.5f * here + 0.25f * right;
}
"""
_FIVE_POINTS = """
extern "C" __global__ void five_points(const float* x, float* y, int rows, int columns) {
  int column = blockIdx.x * blockDim.x + threadIdx.x;
  int row = blockIdx.y * blockDim.y + threadIdx.y;
  if (column < 1 || column >= columns - 1 || row < 1 || row >= rows - 1) return;
  int i = row * columns + column;
  float here = x[i];
  float left = x[i - 1];
  float right = x[i + 1];
  float above = x[i - columns];
  float below = x[i + columns];
  y[i] = left + right + above + below - 4 * here;
}
"""
_FIVE_POINTS_TILE = """
extern "C" __global__ void five_points_tile(const float* x, float* y, int rows, int columns) {
  __shared__ float tile[10][34];
  int tx = threadIdx.x + 1, ty = threadIdx.y + 1;
  int column = blockIdx.x * 32 + threadIdx.x;
  int row = blockIdx.y * 8 + threadIdx.y;
  int i = row * columns + column;
  float here = x[i];
  tile[ty][tx] = here;
  if (threadIdx.x == 0 && column > 0) {
    float left = x[i - 1];
    tile[ty][0] = left;
  }
  if (threadIdx.x == 31 && column < columns - 1) {
    float right = x[i + 1];
    tile[ty][33] = right;
  }
  if (threadIdx.y == 0 && row > 0) {
    float above = x[i - columns];
    tile[0][tx] = above;
  }
  if (threadIdx.y == 7 && row < rows - 1) {
    float below = x[i + columns];
    tile[9][tx] = below;
  }
  __syncthreads();
  if (column < 1 || column >= columns - 1 || row < 1 || row >= rows - 1) return;
  float sum = tile[ty][tx - 1];
  sum += tile[ty][tx + 1];
  sum += tile[ty - 1][tx];
  sum += tile[ty + 1][tx];
  y[i] = sum - 4 * here;
}
"""


def _three_points(x: Any, y: Any, n: Any) -> Any:
    out = np.zeros_like(x)
    out[1:-1] = 0.25 * x[:-2] + 0.5 * x[1:-1] + 0.25 * x[2:]
    return out


def _five_points(x: Any, y: Any, rows: Any, columns: Any) -> Any:
    u = x.reshape(rows, columns)
    out = np.zeros_like(u)
    out[1:-1, 1:-1] = u[1:-1, :-2] + u[1:-1, 2:] + u[:-2, 1:-1] + u[2:, 1:-1] - 4 * u[1:-1, 1:-1]
    return out


def _stencils(n: int) -> list[Case]:
    rows, columns = matrix_shape(n)
    image = lambda: (floats(n), zeros(n), np.int32(rows), np.int32(columns))  # noqa: E731
    grid = (columns // 32, rows // 8)
    return [
        Case(
            "three_points",
            _THREE_POINTS,
            lambda: (floats(n), zeros(n), np.int32(n)),
            (n // _BLOCK,),
            (_BLOCK,),
            _three_points,
            bandwidth_bound=True,
        ),
        Case("five_points", _FIVE_POINTS, image, grid, (32, 8), _five_points, bandwidth_bound=True),
        Case(
            "five_points_tile",
            _FIVE_POINTS_TILE,
            image,
            grid,
            (32, 8),
            _five_points,
            bandwidth_bound=True,
        ),
    ]


# ---- matrix products

_MATMUL = """
extern "C" __global__ void matmul_naive(const float* a, const float* b, float* c, int n) {
  int column = blockIdx.x * blockDim.x + threadIdx.x;
  int row = blockIdx.y * blockDim.y + threadIdx.y;
  float sum = 0;
#pragma unroll 1
  for (int k = 0; k < n; ++k) {
    float left = a[row * n + k];
    float right = b[k * n + column];
    sum += left * right;
  }
  c[row * n + column] = sum;
}
"""
_MATMUL_COLUMNS = _MATMUL.replace("matmul_naive", "matmul_swapped").replace(
    "int column = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "  int row = blockIdx.y * blockDim.y + threadIdx.y;",
    "int row = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "  int column = blockIdx.y * blockDim.y + threadIdx.y;",
)
_MATMUL_TILED = """
extern "C" __global__ void NAME(const float* a, const float* b, float* c, int n) {
  __shared__ float left[TILE][TILE], right[TILE][TILE];
  int tx = threadIdx.x, ty = threadIdx.y;
  int column = blockIdx.x * TILE + tx;
  int row = blockIdx.y * TILE + ty;
  float sum = 0;
  for (int first = 0; first < n; first += TILE) {
    left[ty][tx] = a[row * n + first + tx];
    right[ty][tx] = b[(first + ty) * n + column];
    __syncthreads();
#pragma unroll UNROLL
    for (int k = 0; k < TILE; ++k) {
      float p = left[ty][k];
      float q = right[k][tx];
      sum += p * q;
    }
    __syncthreads();
  }
  c[row * n + column] = sum;
}
"""


def _tiled(name: str, tile: int, unroll: int) -> str:
    code = _MATMUL_TILED.replace("NAME", name).replace("UNROLL", str(unroll))
    return code.replace("TILE", str(tile))


def _products(n: int) -> list[Case]:
    side = 32
    while (2 * side) ** 2 <= n // 128:
        side *= 2
    matrices = lambda: (  # noqa: E731
        floats(side * side, 1),
        floats(side * side, 2),
        zeros(side * side),
        np.int32(side),
    )

    def product(name: str, code: str, block: tuple[int, int]) -> Case:
        return Case(
            name,
            code,
            matrices,
            (side // block[0], side // block[1]),
            block,
            lambda a, b, c, count: a.reshape(side, side) @ b.reshape(side, side),
            output=2,
        )

    return [
        product("matmul_naive", _MATMUL, (32, 8)),
        product("matmul_swapped", _MATMUL_COLUMNS, (32, 8)),
        product("matmul_tile_16", _tiled("matmul_tile_16", 16, 1), (16, 16)),
        product("matmul_tile_32", _tiled("matmul_tile_32", 32, 1), (32, 32)),
        product("matmul_unrolled", _tiled("matmul_unrolled", 32, 32), (32, 32)),
    ]


# ---- constant and local memory, latency, arithmetic

_WEIGHTS = ", ".join(f"{1 / (k + 1):.6f}f" for k in range(64))
_CONSTANT = """
__constant__ float weights[64] = {%s};
extern "C" __global__ void NAME(const float* x, float* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float value = x[i];
  float sum = 0;
#pragma unroll 1
  for (int k = 0; k < 16; ++k) {
    sum += value * weights[PLACE];
  }
  y[i] = sum;
}
""".replace("%s", _WEIGHTS)
_LOCAL = """
extern "C" __global__ void local_array(const int* x, int* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int kept[16];
  int key = x[i];
  for (int k = 0; k < 16; ++k) kept[k] = key * k;
  int sum = 0;
#pragma unroll 1
  for (int k = 0; k < 8; ++k) {
    sum += kept[(key + k * 5) & 15];
  }
  y[i] = sum;
}
"""
_CHASE = """
extern "C" __global__ void pointer_chase(const int* next, int* y) {
  int place = threadIdx.x;
#pragma unroll 1
  for (int k = 0; k < 256; ++k) {
    place = next[place];
  }
  y[threadIdx.x] = place;
}
"""
_POLYNOMIAL = """
extern "C" __global__ void polynomial(const float* x, float* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float value = x[i];
  float sum = 1;
#pragma unroll 16
  for (int k = 0; k < 1024; ++k) sum = sum * value + 0.5f;
  y[i] = sum;
}
"""
_SMALL = """
extern "C" __global__ void small_grid(const float* x, float* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float value = x[i];
  y[i] = 2 * value;
}
"""
_PAIRS = """
extern "C" __global__ void pair_sums(const float4* points, float* y, int n) {
  __shared__ float4 tile[256];
  int t = threadIdx.x;
  int i = blockIdx.x * blockDim.x + t;
  float4 own = points[i];
  float sum = 0;
#pragma unroll 1
  for (int first = 0; first < n; first += 256) {
    float4 one = points[first + t];
    tile[t] = one;
    __syncthreads();
#pragma unroll 1
    for (int k = 0; k < 256; ++k) {
      float4 other = tile[k];
      float dx = own.x - other.x, dy = own.y - other.y, dz = own.z - other.z;
      sum += other.w * rsqrtf(dx * dx + dy * dy + dz * dz + 1);
    }
    __syncthreads();
  }
  y[i] = sum;
}
"""


def _weighted(x: Any, places: Any) -> Any:
    weights = np.array([float(text.strip("f")) for text in _WEIGHTS.split(", ")], np.float32)
    return x * sum(weights[places(k)] for k in range(16))


def _local(x: Any, y: Any) -> Any:
    return sum(x * ((x + 5 * k) & 15) for k in range(8))


def _chase(following: Any, y: Any) -> Any:
    place = np.arange(y.size)
    for _ in range(256):
        place = following[place]
    return place


def _polynomial(x: Any, y: Any) -> Any:
    total = np.ones_like(x)
    for _ in range(1024):
        total = total * x + np.float32(0.5)
    return total


def _pair_sums(points: Any, y: Any, n: Any) -> Any:
    p = points.reshape(-1, 4)
    out = np.empty(n)
    for start in range(0, int(n), 256):
        apart = p[start : start + 256, None, :3] - p[None, :, :3]
        out[start : start + 256] = (p[:, 3] / np.sqrt((apart**2).sum(-1) + 1)).sum(1)
    return out


def _other(n: int) -> list[Case]:
    few = n // 4
    points = max(256, min(2**14, n // 64))
    one = lambda: (floats(few), zeros(few))  # noqa: E731
    uniform = lambda x, y: _weighted(x, lambda k: k)  # noqa: E731
    by_lane = lambda x, y: _weighted(x, lambda k: (np.arange(x.size) + k) % 64)  # noqa: E731
    line, block = (few // _BLOCK,), (_BLOCK,)
    return [
        Case(
            "constant_uniform",
            _CONSTANT.replace("NAME", "constant_uniform").replace("PLACE", "k"),
            one,
            line,
            block,
            uniform,
            bandwidth_bound=True,
        ),
        Case(
            "constant_by_lane",
            _CONSTANT.replace("NAME", "constant_by_lane").replace("PLACE", "(i + k) & 63"),
            one,
            line,
            block,
            by_lane,
        ),
        Case(
            "local_array",
            _LOCAL,
            lambda: (integers(few, 1000), zeros(few, "int32")),
            (few // _BLOCK,),
            block,
            _local,
        ),
        Case(
            "pointer_chase",
            _CHASE,
            lambda: (
                permutation(few),
                zeros(32, "int32"),
            ),
            (1,),
            (32,),
            _chase,
        ),
        Case(
            "small_grid",
            _SMALL,
            lambda: (floats(4096), zeros(4096)),
            (16,),
            block,
            lambda x, y: 2 * x,
        ),
        Case(
            "polynomial",
            _POLYNOMIAL,
            lambda: (floats(n // 16), zeros(n // 16)),
            (n // 16 // _BLOCK,),
            block,
            _polynomial,
        ),
        Case(
            "pair_sums",
            _PAIRS,
            lambda: (floats(4 * points), zeros(points), np.int32(points)),
            (points // _BLOCK,),
            block,
            _pair_sums,
        ),
    ]


def patterns(n: int) -> list[Case]:
    """Return the cases for arrays of about n elements; n is a power of two."""
    return [*_stencils(n), *_products(n), *_other(n)]
