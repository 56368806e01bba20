"""Copies: strided, misaligned, of vectors, structs and bytes, permuted, and by index.

They are limited by the bandwidth of the memory; what differs is how many sectors of 32 bytes each
request of a warp touches.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.review.case import Case, floats, integers, permutation, zeros

_BLOCK = 256
_DT = np.float32(0.25)

_COPY = """
extern "C" __global__ void NAME(const TYPE* x, TYPE* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  TYPE value = x[FROM];
  y[TO] = value;
}
"""


def _copy(
    name: str,
    threads: int,
    *,
    type: str = "float",
    dtype: str = "float32",
    lanes: int = 1,
    source: str = "i",
    target: str = "i",
    size: int = 0,
    target_size: int = 0,
    expected: Callable[[Any], Any] | None = None,
) -> Case:
    """Return a copy of one value a thread.

    Parameters
    ----------
    type, dtype : str
        What the kernel copies, in C++, and the elements of the arrays.
    lanes : int
        Elements of a value.
    source, target : str
        Indices of a thread's value, as expressions of `i`.
    size, target_size : int
        Elements of the arrays; default: one value for each thread.
    expected : callable, optional
        Makes the output from the input; default: they are equal.
    """
    code = _COPY.replace("FROM", source).replace("TO", target)
    code = code.replace("NAME", name).replace("TYPE", type)
    size = size or threads * lanes
    target_size = target_size or threads * lanes
    wanted = expected or (lambda x: x)
    return Case(
        name,
        code,
        lambda: (numbers(size, dtype), zeros(target_size, dtype)),
        (threads // _BLOCK,),
        (_BLOCK,),
        lambda x, y: wanted(x),
        bandwidth_bound=True,
    )


def numbers(count: int, dtype: str) -> Any:
    """Return random numbers of a dtype."""
    if np.dtype(dtype).kind == "f":
        return floats(count).astype(dtype, copy=False)
    return integers(count, 200, dtype)


def _spread(x: Any, step: int) -> Any:
    """Return the elements of x with zeros between them."""
    y = np.zeros((x.size, step), x.dtype)
    y[:, 0] = x
    return y


def _strided(n: int, step: int) -> Case:
    threads = n // step // _BLOCK * _BLOCK
    return _copy(
        f"strided_{step}",
        threads,
        source=f"{step} * i",
        size=n,
        expected=lambda x: x[: threads * step : step],
    )


def _plain(n: int) -> list[Case]:
    return [
        _copy("copy", n),
        *(_strided(n, step) for step in (2, 3, 4, 8, 32)),
        _copy(
            "strided_store_2",
            n // 2,
            target="2 * i",
            target_size=n,
            expected=lambda x: _spread(x, 2),
        ),
        _copy(
            "strided_store_8",
            n // 8,
            target="8 * i",
            target_size=n,
            expected=lambda x: _spread(x, 8),
        ),
        _copy("misaligned_1", n, source="i + 1", size=n + 1, expected=lambda x: x[1:]),
        _copy("misaligned_3", n, source="i + 3", size=n + 3, expected=lambda x: x[3:]),
        _copy(
            "misaligned_store_1",
            n,
            target="i + 1",
            target_size=n + 1,
            expected=lambda x: np.append(np.float32(0), x),
        ),
        _copy("reversed_copy", n, source=f"{n - 1} - i", expected=lambda x: x[::-1]),
        _copy(
            "swapped_pairs",
            n,
            source="i ^ 1",
            expected=lambda x: x.reshape(-1, 2)[:, ::-1],
        ),
        _copy("repeated_4", n, source="i / 4", size=n // 4, expected=lambda x: np.repeat(x, 4)),
    ]


def _types(n: int) -> list[Case]:
    return [
        _copy("float2_copy", n // 2, type="float2", lanes=2),
        _copy("float4_copy", n // 4, type="float4", lanes=4),
        _copy(
            "float4_strided_2",
            n // 8,
            type="float4",
            lanes=4,
            source="2 * i",
            size=n,
            expected=lambda x: x.reshape(-1, 8)[:, :4],
        ),
        _copy("double_copy", n // 2, type="double", dtype="float64"),
        _copy(
            "double_misaligned",
            n // 2,
            type="double",
            dtype="float64",
            source="i + 1",
            size=n // 2 + 1,
            expected=lambda x: x[1:],
        ),
        _copy("short_copy", n, type="short", dtype="int16"),
        _copy("byte_copy", 2 * n, type="unsigned char", dtype="uint8"),
        _copy(
            "byte_strided_4",
            n // 2,
            type="unsigned char",
            dtype="uint8",
            source="4 * i",
            size=2 * n,
            expected=lambda x: x[::4],
        ),
    ]


_TRIPLES = """
struct Triple { float x, y, z; };
extern "C" __global__ void triple_copy(const Triple* p, Triple* q) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float x = p[i].x;
  float y = p[i].y;
  float z = p[i].z;
  q[i].x = x;
  q[i].y = y;
  q[i].z = z;
}
"""
_PARTICLES = """
struct Particle { float x, y, vx, vy; int kind; float mass; };
extern "C" __global__ void array_of_structs(Particle* p, float dt) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float vx = p[i].vx;
  float vy = p[i].vy;
  float x = p[i].x;
  float y = p[i].y;
  p[i].x = x + vx * dt;
  p[i].y = y + vy * dt;
}
"""
_FIELDS = """
extern "C" __global__ void struct_of_arrays(
    float* x, float* y, const float* vx, const float* vy, float dt) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float dx = vx[i];
  float dy = vy[i];
  float from_x = x[i];
  float from_y = y[i];
  x[i] = from_x + dx * dt;
  y[i] = from_y + dy * dt;
}
"""
_HALVES = """
#include <cuda_fp16.h>
extern "C" __global__ void half2_sum(const __half2* x, const __half2* y, __half2* z) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  __half2 a = x[i];
  __half2 b = y[i];
  z[i] = __hadd2(a, b);
}
"""


def _moved(p: Any, dt: Any) -> Any:
    moved = p.copy().reshape(-1, 6)
    moved[:, :2] += moved[:, 2:4] * dt
    return moved


def _structs(n: int) -> list[Case]:
    particles = n // 8
    fields = n // 4
    return [
        Case(
            "triple_copy",
            _TRIPLES,
            lambda: (floats(3 * (n // 4)), zeros(3 * (n // 4))),
            (n // 4 // _BLOCK,),
            (_BLOCK,),
            lambda p, q: p,
            bandwidth_bound=True,
        ),
        Case(
            "array_of_structs",
            _PARTICLES,
            lambda: (floats(6 * particles), _DT),
            (particles // _BLOCK,),
            (_BLOCK,),
            _moved,
            output=0,
            bandwidth_bound=True,
        ),
        Case(
            "struct_of_arrays",
            _FIELDS,
            lambda: (*(floats(fields, seed) for seed in range(4)), _DT),
            (fields // _BLOCK,),
            (_BLOCK,),
            lambda x, y, vx, vy, dt: x + vx * dt,
            output=0,
            bandwidth_bound=True,
        ),
        Case(
            "half2_sum",
            _HALVES,
            lambda: (
                floats(n, 1).astype("float16"),
                floats(n, 2).astype("float16"),
                zeros(n, "float16"),
            ),
            (n // 2 // _BLOCK,),
            (_BLOCK,),
            lambda x, y, z: x + y,
            output=2,
            bandwidth_bound=True,
        ),
    ]


_EDGE = """
extern "C" __global__ void rounded_up_grid(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float value = x[i];
  y[i] = 2 * value;
}
"""
_GRID_STRIDE = """
extern "C" __global__ void grid_stride_axpy(float a, const float* x, float* y, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    float value = x[i];
    float sum = y[i];
    y[i] = a * value + sum;
  }
}
"""
_BIAS = """
extern "C" __global__ void row_bias(const float* x, const float* bias, float* y, int columns) {
  int column = blockIdx.x * blockDim.x + threadIdx.x;
  int i = blockIdx.y * columns + column;
  float value = x[i];
  float shift = bias[blockIdx.y];
  float scale = bias[column];
  y[i] = value * scale + shift;
}
"""
_GATHER = """
extern "C" __global__ void NAME(const int* index, const float* x, float* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int j = index[i];
  float value = x[j];
  y[i] = value;
}
"""
_SCATTER = """
extern "C" __global__ void scatter(const int* index, const float* x, float* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int j = index[i];
  float value = x[i];
  y[j] = value;
}
"""


def _nearby(count: int, reach: int) -> Any:
    """Return indices that differ from their positions by less than `reach`."""
    near = np.arange(count, dtype=np.int32) + integers(count, 2 * reach, seed=5) - reach
    return np.clip(near, 0, count - 1).astype(np.int32)


def _scattered(index: Any, x: Any, y: Any) -> Any:
    out = np.empty_like(x)
    out[index] = x
    return out


def _others(n: int) -> list[Case]:
    columns = 2**10
    few = n // 4
    line = (few // _BLOCK,)
    return [
        Case(
            "rounded_up_grid",
            _EDGE,
            lambda: (floats(n - 77), zeros(n - 77), np.int32(n - 77)),
            (n // _BLOCK,),
            (_BLOCK,),
            lambda x, y, count: 2 * x,
            bandwidth_bound=True,
        ),
        Case(
            "grid_stride_axpy",
            _GRID_STRIDE,
            lambda: (np.float32(0.5), floats(n, 1), floats(n, 2), np.int32(n)),
            (min(1056, n // _BLOCK),),
            (_BLOCK,),
            lambda a, x, y, count: a * x + y,
            output=2,
            bandwidth_bound=True,
        ),
        Case(
            "row_bias",
            _BIAS,
            lambda: (
                floats(n, 1),
                floats(max(columns, n // columns), 2),
                zeros(n),
                np.int32(columns),
            ),
            (columns // _BLOCK, n // columns),
            (_BLOCK,),
            lambda x, bias, y, width: (
                x.reshape(-1, columns) * bias[:columns] + bias[: n // columns, None]
            ),
            output=2,
            bandwidth_bound=True,
        ),
        Case(
            "random_gather",
            _GATHER.replace("NAME", "random_gather"),
            lambda: (integers(few, n, seed=3), floats(n), zeros(few)),
            line,
            (_BLOCK,),
            lambda index, x, y: x[index],
            output=2,
            bandwidth_bound=True,
        ),
        Case(
            "nearby_gather",
            _GATHER.replace("NAME", "nearby_gather"),
            lambda: (_nearby(few, 64), floats(few), zeros(few)),
            line,
            (_BLOCK,),
            lambda index, x, y: x[index],
            output=2,
            bandwidth_bound=True,
        ),
        Case(
            "scatter",
            _SCATTER,
            lambda: (
                permutation(few),
                floats(few),
                zeros(few),
            ),
            line,
            (_BLOCK,),
            _scattered,
            output=2,
            bandwidth_bound=True,
        ),
    ]


def copies(n: int) -> list[Case]:
    """Return the cases for arrays of about n elements; n is a power of two."""
    return [*_plain(n), *_types(n), *_structs(n), *_others(n)]
