"""Accesses to shared memory: how many wavefronts a request of a warp takes.

Each thread writes a value to a place of a tile and reads that of another thread.  The arrays are
small, so that the time is that of shared memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.review.case import Case, floats, integers, zeros
from benchmarks.review.copies import numbers

_BLOCK = 256
_EXCHANGE = """
extern "C" __global__ void NAME(const TYPE* x, TYPE* y) {
  __shared__ TYPE tile[SIZE];
  int t = threadIdx.x;
  int i = blockIdx.x * blockDim.x + t;
  TYPE value = x[i];
  tile[PUT] = value;
  __syncthreads();
  TYPE other = tile[GET];
  y[i] = other;
}
"""


def _reversed(x: Any) -> Any:
    """Return the values of each block in reverse."""
    return x.reshape(-1, _BLOCK)[:, ::-1]


def _exchange(
    name: str,
    n: int,
    size: int,
    put: str,
    get: str,
    *,
    type: str = "float",
    dtype: str = "float32",
    lanes: int = 1,
    expected: Callable[[Any], Any] = _reversed,
) -> Case:
    """Return a case whose tile is written and read at expressions of the thread `t`."""
    code = _EXCHANGE.replace("PUT", put).replace("GET", get)
    code = code.replace("NAME", name).replace("TYPE", type).replace("SIZE", str(size))
    return Case(
        name,
        code,
        lambda: (numbers(n * lanes, dtype), zeros(n * lanes, dtype)),
        (n // _BLOCK,),
        (_BLOCK,),
        lambda x, y: expected(x),
    )


def _strided(n: int, step: int) -> Case:
    """Return a case with a conflict of as many ways as the step is even."""
    return _exchange(
        f"shared_stride_{step}", n, _BLOCK * step, f"t * {step}", f"(255 - t) * {step}"
    )


def _columns(name: str, n: int, pitch: int) -> Case:
    """Return a case that writes rows of 32 values, and reads columns."""
    return _exchange(
        name,
        n,
        32 * pitch,
        f"t / 32 * {pitch} + t % 32",
        f"t % 8 * {pitch} + t / 8",
        expected=lambda x: x.reshape(-1, 8, 32).swapaxes(1, 2),
    )


def _vectors(x: Any) -> Any:
    return x.reshape(-1, _BLOCK, 4)[:, ::-1]


_ROUNDS = """
extern "C" __global__ void NAME(const int* index, float* y) {
  __shared__ float tile[1024];
  int t = threadIdx.x;
  int i = blockIdx.x * blockDim.x + t;
  int place = index[i];
  for (int k = t; k < 1024; k += blockDim.x) {
    tile[k] = k;
  }
  __syncthreads();
  float sum = 0;
#pragma unroll 1
  for (int k = 0; k < 64; ++k) {
    sum += tile[(PLACE) & 1023];
  }
  y[i] = sum;
}
"""


def _rounds(name: str, n: int, place: str, expected: Callable[[Any], Any]) -> Case:
    """Return a case that reads a tile of 1024 values 64 times."""
    code = _ROUNDS.replace("NAME", name).replace("PLACE", place)
    return Case(
        name,
        code,
        lambda: (integers(n, 1024, seed=6), zeros(n)),
        (n // _BLOCK,),
        (_BLOCK,),
        lambda index, y: expected(index),
    )


def _read_at(places: Callable[[Any, int], Any]) -> Callable[[Any], Any]:
    """Return a function that sums the values at `places(index, k)`, which are their positions."""
    return lambda index: sum((places(index, k) & 1023) for k in range(64)).astype(np.float32)


def _threads(index: Any) -> Any:
    return np.arange(index.size) % _BLOCK


_DYNAMIC = """
extern "C" __global__ void dynamic_reverse(const float* x, float* y) {
  extern __shared__ float tile[];
  int t = threadIdx.x;
  int i = blockIdx.x * blockDim.x + t;
  float value = x[i];
  tile[t] = value;
  __syncthreads();
  float other = tile[blockDim.x - 1 - t];
  y[i] = other;
}
"""


def shared(n: int) -> list[Case]:
    """Return the cases, with n / 8 threads, or n / 64 that read often; n is a power of two."""
    n = n // 8
    return [
        *(_strided(n, step) for step in (1, 2, 3, 4, 8, 32)),
        _columns("shared_columns", n, 32),
        _columns("shared_columns_padded", n, 33),
        _exchange("shared_double", n, _BLOCK, "t", "255 - t", type="double", dtype="float64"),
        _exchange(
            "shared_double_stride_2",
            n,
            2 * _BLOCK,
            "2 * t",
            "2 * (255 - t)",
            type="double",
            dtype="float64",
        ),
        _exchange(
            "shared_float2",
            n,
            _BLOCK,
            "t",
            "255 - t",
            type="float2",
            lanes=2,
            expected=lambda x: x.reshape(-1, _BLOCK, 2)[:, ::-1],
        ),
        _exchange(
            "shared_float4",
            n,
            _BLOCK,
            "t",
            "255 - t",
            type="float4",
            lanes=4,
            expected=_vectors,
        ),
        _exchange(
            "shared_float4_stride_2",
            n,
            2 * _BLOCK,
            "2 * t",
            "2 * (255 - t)",
            type="float4",
            lanes=4,
            expected=_vectors,
        ),
        _exchange("shared_bytes", n, _BLOCK, "t", "255 - t", type="unsigned char", dtype="uint8"),
        _exchange(
            "shared_bytes_stride_8",
            n,
            8 * _BLOCK,
            "8 * t",
            "8 * (255 - t)",
            type="unsigned char",
            dtype="uint8",
        ),
        _exchange("shared_shorts", n, _BLOCK, "t", "255 - t", type="short", dtype="int16"),
        _rounds(
            "shared_broadcast",
            n // 8,
            "t / 32 + k",
            _read_at(lambda index, k: _threads(index) // 32 + k),
        ),
        _rounds(
            "shared_groups_of_4",
            n // 8,
            "t / 4 * 33 + k",
            _read_at(lambda index, k: _threads(index) // 4 * 33 + k),
        ),
        _rounds(
            "shared_random", n // 8, "place + 97 * k", _read_at(lambda index, k: index + 97 * k)
        ),
        Case(
            "dynamic_reverse",
            _DYNAMIC,
            lambda: (floats(n), zeros(n)),
            (n // _BLOCK,),
            (_BLOCK,),
            lambda x, y: _reversed(x),
            shared_mem=4 * _BLOCK,
        ),
    ]
