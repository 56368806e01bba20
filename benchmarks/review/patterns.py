"""Known patterns: stencils, matrix products, reductions, atomics, constant and local memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.review.case import Case, floats, integers, matrix_shape, zeros

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
_SHUFFLE = """  for (int step = 16; step > 0; step /= 2) value += __shfl_down_sync(0xffffffffu, value, step);
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
    found[(blockIdx.x & 1023) * 65536 + place % 65536] = 1;
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
            lambda: (
                floats(n),
                zeros(2**26 if n >= 2**18 else n * 4096, "int32"),
                zeros(1024, "int32"),
            ),
            (n // _BLOCK,),
            (_BLOCK,),
            _compact,
            output=2,
        ),
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
                np.random.default_rng(3).permutation(few).astype(np.int32),
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
    return [*_stencils(n), *_products(n), *_reductions(n), *_atomics(n), *_other(n)]
