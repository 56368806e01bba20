"""half and bfloat16 through CUDA's headers, bit for bit where one rounding decides."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.devices import ArrayDevice
from tests.semantics.harness import run

KERNELS = r"""
__device__ unsigned short bits(SCALAR x) { return AS_USHORT(x); }
__device__ SCALAR of(unsigned short x) { return FROM_USHORT(x); }
extern "C" __global__ void arithmetic(const unsigned short* x, const unsigned short* y,
                                      unsigned short* o, int n) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  if (t >= n) return;
  SCALAR a = of(x[t]), b = of(y[t]);
  o[t] = bits(a + b); o[n + t] = bits(a - b); o[2 * n + t] = bits(a * b);
  o[3 * n + t] = bits(__hadd(a, b)); o[4 * n + t] = bits(__hmul(a, b));
  o[5 * n + t] = bits(__hneg(a)); o[6 * n + t] = bits(__habs(a));
  o[7 * n + t] = bits(__hmax(a, b)); o[8 * n + t] = bits(__hmin(a, b));
  o[9 * n + t] = bits(FROM_FLOAT(TO_FLOAT(a)));
  o[10 * n + t] = bits(FROM_DOUBLE((double)TO_FLOAT(a) / 3));
  o[11 * n + t] = (a < b) + 2 * (a == b) + 4 * __hgt(a, b) + 8 * __hisnan(a) + 16 * __hle(a, b);
  PAIR p = MAKE_PAIR(a, b), q = __hadd2_rn(p, __hmul2_rn(p, p));  // _rn: not fused
  o[12 * n + t] = bits(LOW(q)); o[13 * n + t] = bits(HIGH(q));
  o[14 * n + t] = bits(__hfma(a, b, a)); o[15 * n + t] = bits(FROM_INT((int)t * 37 - 900));
}
extern "C" __global__ void sums(unsigned short* o, float* f) {
  SCALAR v = FROM_FLOAT((float)(threadIdx.x % 4));
  for (int d = 16; d; d /= 2) v = v + __shfl_xor_sync(0xffffffffu, v, d);
  o[threadIdx.x] = bits(v);
  __shared__ SCALAR s[32];
  s[threadIdx.x] = v;
  __syncthreads();
  f[threadIdx.x] = TO_FLOAT(s[31 - threadIdx.x]) + TO_FLOAT(hsqrt(FROM_FLOAT(16.0f)));
}
extern "C" __global__ void atomics(SCALAR* x) { atomicAdd(x, FROM_FLOAT(0.5f)); }
"""
HALF_SOURCE = (
    r"""
#include <cuda_fp16.h>
typedef __half SCALAR; typedef __half2 PAIR;
#define AS_USHORT __half_as_ushort
#define FROM_USHORT __ushort_as_half
#define TO_FLOAT __half2float
#define FROM_FLOAT __float2half_rn
#define FROM_DOUBLE __double2half
#define FROM_INT __int2half_rn
#define MAKE_PAIR __halves2half2
#define LOW __low2half
#define HIGH __high2half
"""
    + KERNELS
)
BFLOAT16_SOURCE = (
    r"""
#include <cuda_bf16.h>
typedef __nv_bfloat16 SCALAR; typedef __nv_bfloat162 PAIR;
#define AS_USHORT __bfloat16_as_ushort
#define FROM_USHORT __ushort_as_bfloat16
#define TO_FLOAT __bfloat162float
#define FROM_FLOAT __float2bfloat16_rn
#define FROM_DOUBLE __double2bfloat16
#define FROM_INT __int2bfloat16_rn
#define MAKE_PAIR __halves2bfloat162
#define LOW __low2bfloat16
#define HIGH __high2bfloat16
"""
    + KERNELS
)

FORMATS = ["float16", "bfloat16"]
SOURCES = {"float16": HALF_SOURCE, "bfloat16": BFLOAT16_SOURCE}


def dtype_of(name: str) -> np.dtype[Any]:
    if name == "float16":
        return np.dtype(np.float16)
    return np.dtype(pytest.importorskip("ml_dtypes").bfloat16)


def bits_of(values: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[np.uint16]:
    with np.errstate(over="ignore"):
        return values.astype(dtype).view(np.uint16)


@pytest.mark.parametrize("name", FORMATS)
def test_arithmetic(name: str, place: ArrayDevice) -> None:
    dtype = dtype_of(name)
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(0, 100, 1000), [0, 1e-7, 6e-5, -2.5, np.inf, 1]])
    y = np.concatenate([rng.normal(0, 3, 1000), [0, 1e-7, 1e-5, -2.5, 1, 2]])
    x, y = bits_of(x, dtype), bits_of(y, dtype)
    out = np.zeros((16, x.size), np.uint16)
    _, _, out = run(place, SOURCES[name], "arithmetic", (8,), (128,), x, y, out, x.size)
    # Sums and products of 16-bit floats are exact in double: one rounding follows.
    a, b = x.view(dtype).astype(np.float64), y.view(dtype).astype(np.float64)
    exact = {
        0: a + b, 1: a - b, 2: a * b, 3: a + b, 4: a * b, 5: -a, 6: np.abs(a), 7: np.maximum(a, b),
        8: np.minimum(a, b), 9: a, 14: a * b + a,
    }  # fmt: skip
    for row, values in exact.items():
        np.testing.assert_array_equal(out[row], bits_of(values, dtype), err_msg=str(row))
    if name == "float16":  # NumPy rounds a double to it once, ml_dtypes twice
        np.testing.assert_array_equal(out[10], bits_of(a / 3, dtype))
        numbers = np.arange(x.size) * 37 - 900
        np.testing.assert_array_equal(out[15], bits_of(numbers.astype(np.float64), dtype))
    flags = (a < b) + 2 * (a == b) + 4 * (a > b) + 16 * (a <= b)
    np.testing.assert_array_equal(out[11], flags)
    for row, v in ((12, a), (13, b)):
        square = bits_of(v * v, dtype).view(dtype).astype(np.float64)
        np.testing.assert_array_equal(out[row], bits_of(v + square, dtype))


@pytest.mark.parametrize("name", FORMATS)
def test_warps_and_shared_memory(name: str, place: ArrayDevice) -> None:
    dtype = dtype_of(name)
    out, f = run(
        place, SOURCES[name], "sums", (1,), (32,), np.zeros(32, np.uint16), np.zeros(32, np.float32)
    )
    assert (out.view(dtype) == 48).all() and (f == 52).all()


@pytest.mark.parametrize("name", FORMATS)
def test_atomic_add(name: str, place: ArrayDevice) -> None:
    dtype = dtype_of(name)
    (out,) = run(place, SOURCES[name], "atomics", (2,), (100,), np.zeros(2, dtype))
    assert out.tolist() == [100, 0]
