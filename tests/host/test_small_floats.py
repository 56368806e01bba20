"""half and bfloat16 are bit for bit NumPy's float16 and ml_dtypes' bfloat16."""

import numpy as np
import pytest

from .conftest import Program

ml_dtypes = pytest.importorskip("ml_dtypes")

TEXT = r"""
#include <cuda_fp16.h>
#include <cuda_bf16.h>
template <class T> __global__ void convert(const float* f, T* h, float* back, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) { h[i] = T(f[i]); back[i] = (float)h[i]; }
}
template <class T> __global__ void from_double(const double* f, T* h, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) h[i] = T(f[i]);
}
template <class T> __global__ void arithmetic(const T* a, const T* b, T* o, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  o[4 * i] = a[i] + b[i];
  o[4 * i + 1] = a[i] * b[i];
  o[4 * i + 2] = a[i] / b[i];
  o[4 * i + 3] = hsqrt(__habs(a[i]));
}
extern "C" __global__ void pairs(__half2* a, float2* o) {
  __half2 v = __hfma2(a[0], a[1], __half2half2(__float2half(1.f)));
  o[0] = __half22float2(v);
  __half s = __shfl_sync(1u, a[0].x, 0);
  atomicAdd(&a[0].x, s);
  a[1].y = max((float)a[0].x, 0.5f) > 1.9f ? __half(7) : -a[1].y;
}
"""
TYPES = [("__half", np.float16), ("__nv_bfloat16", ml_dtypes.bfloat16)]


@pytest.fixture(scope="module")
def program() -> Program:
    kernels = ("convert", "from_double", "arithmetic")
    return Program(TEXT, [f"{kernel}<{ctype}>" for kernel in kernels for ctype, _ in TYPES])


def special_floats() -> np.ndarray:
    """Every exponent, ties, limits, and a sweep over all bit patterns."""
    sweep = np.arange(0, 2**32, 3989, dtype=np.uint64).astype(np.uint32).view(np.float32)
    powers = np.ldexp(np.float32(1), np.arange(-140, 120)).astype(np.float32)
    limits = np.array([0, -0.0, np.inf, 65504, 65519.99, 65520, 65536], np.float32)
    ties = (np.arange(2**12, dtype=np.uint32) << 12 | 0x3C000000).view(np.float32)
    return np.concatenate(
        [sweep[~np.isnan(sweep)], powers, -powers * np.float32(1.5), limits, ties]
    )


@pytest.mark.parametrize(("ctype", "dtype"), TYPES)
@pytest.mark.filterwarnings("ignore:overflow")
def test_conversion_is_exact(program, ctype, dtype):
    x = special_floats()
    narrow, back = np.zeros(x.size, dtype), np.zeros(x.size, np.float32)
    program(f"convert<{ctype}>", -(-x.size // 256), 256, x, narrow, back, x.size)
    expected = x.astype(dtype)
    np.testing.assert_array_equal(narrow.view(np.uint16), expected.view(np.uint16))
    np.testing.assert_array_equal(back, expected.astype(np.float32))


@pytest.mark.parametrize(("ctype", "dtype"), TYPES)
def test_nan_stays_nan(program, ctype, dtype):
    x = np.array([0x7F800001, 0x7FC00000, 0xFFFFFFFF], np.uint32).view(np.float32)
    narrow, back = np.zeros(3, dtype), np.zeros(3, np.float32)
    program(f"convert<{ctype}>", 1, 3, x, narrow, back, 3)
    assert np.isnan(back).all()


def test_double_is_rounded_once(program):
    # Just above a tie: rounding to float first would make it one.
    x = np.array([1 + 2**-11 + 2**-40, 1 + 2**-11, 2**-25 + 2**-70, 1e-300, 65519.9999999])
    narrow = np.zeros(x.size, np.float16)
    program("from_double<__half>", 1, x.size, x, narrow, x.size)
    np.testing.assert_array_equal(narrow, x.astype(np.float16))


@pytest.mark.parametrize(("ctype", "dtype"), TYPES)
@pytest.mark.filterwarnings("ignore:(overflow|divide|invalid)")
def test_arithmetic_is_exact(program, ctype, dtype):
    rng = np.random.default_rng(0)
    scale = np.exp2(rng.integers(-9, 9, (2, 100_000)))
    a, b = (rng.standard_normal((2, 100_000)) * scale).astype(dtype)
    out = np.zeros((a.size, 4), dtype)
    program(f"arithmetic<{ctype}>", -(-a.size // 256), 256, a, b, out, a.size)
    expected = np.stack([a + b, a * b, a / b, np.sqrt(np.abs(a))], 1).astype(dtype)
    np.testing.assert_array_equal(out.view(np.uint16), expected.view(np.uint16))


def test_pairs_shuffles_and_atomics(program):
    a, out = np.array([1, 2, 3, 4], np.float16), np.zeros(2, np.float32)
    program("pairs", 1, 1, a, out)
    assert out.tolist() == [4, 9] and a.tolist() == [2, 2, 3, 7]
