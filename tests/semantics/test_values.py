"""Values that travel: structures as arguments, vector types, complex numbers, printf, clocks."""

from __future__ import annotations

import ctypes
import time

import numpy as np
import pytest

import kspec
from tests.devices import ArrayDevice
from tests.semantics.harness import run

VALUES_SOURCE = r"""
struct Inner { short a; double b; };
struct Outer { char tag; Inner inner; float values[3]; long long last; };
extern "C" __global__ void by_value(Outer s, char c, double* out) {
  out[0] = s.tag; out[1] = s.inner.a; out[2] = s.inner.b; out[3] = s.values[2]; out[4] = s.last;
  out[5] = c; out[6] = sizeof(Outer);
}
// Each thread has its own copy of a parameter.
extern "C" __global__ void own_copy(int x, int* out) {
  x += threadIdx.x;
  __syncthreads();
  out[threadIdx.x] = x;
}
extern "C" __global__ void sizes(int* o) {
#define SIZE(T) *o++ = 100 * sizeof(T) + alignof(T);
  SIZE(char1) SIZE(char2) SIZE(char3) SIZE(char4) SIZE(uchar4) SIZE(short2) SIZE(ushort3)
  SIZE(short4) SIZE(int2) SIZE(int3) SIZE(uint4) SIZE(longlong2) SIZE(ulonglong2) SIZE(float1)
  SIZE(float2) SIZE(float3) SIZE(float4) SIZE(double1) SIZE(double2) SIZE(dim3) SIZE(uint3)
}
extern "C" __global__ void vectors(const float4* x, float4* y, int3* z) {
  int t = threadIdx.x;
  float4 v = x[t];
  float2 half = make_float2(v.x + v.y, v.z + v.w);
  y[t] = make_float4(half.y, half.x, v.w, v.z);
  z[t] = make_int3(t, 2 * t, (int)v.x);
}
extern "C" __global__ void arithmetic(const float2* x, const float2* y, float2* out) {
  int t = threadIdx.x;
  float2 a = x[t], b = y[t];
  out[t] = make_float2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}
"""
LAYOUT = np.dtype(
    {
        "names": ["tag", "a", "b", "values", "last"],
        "formats": ["i1", "i2", "f8", ("f4", 3), "i8"],
        "offsets": [0, 8, 16, 24, 40],
        "itemsize": 48,
    }
)


def test_structures_by_value(place: ArrayDevice) -> None:
    value = np.zeros((), LAYOUT)
    value["tag"], value["a"], value["b"], value["last"] = 7, -300, 2.5, 2**40
    value["values"] = [1, 2, 3]
    (out,) = run(place, VALUES_SOURCE, "by_value", (1,), (1,), value[()], np.int8(-5), np.zeros(7))
    assert out.tolist() == [7, -300, 2.5, 3, 2**40, -5, 48]


def test_each_thread_has_its_own_parameters(place: ArrayDevice) -> None:
    (out,) = run(place, VALUES_SOURCE, "own_copy", (1,), (64,), 10, np.zeros(64, np.int32))
    np.testing.assert_array_equal(out, 10 + np.arange(64))


def test_sizes_of_vector_types(place: ArrayDevice) -> None:
    (out,) = run(place, VALUES_SOURCE, "sizes", (1,), (1,), np.zeros(21, np.int32))
    assert out.tolist() == [
        101, 202, 301, 404, 404, 404, 602, 808, 808, 1204, 1616, 1616, 1616, 404,
        808, 1204, 1616, 808, 1616, 1204, 1204,
    ]  # fmt: skip


def test_vector_types(place: ArrayDevice) -> None:
    x = np.arange(128, dtype=np.float32).reshape(32, 4)
    _, y, z = run(
        place, VALUES_SOURCE, "vectors", (1,), (32,), x, 0 * x, np.zeros((32, 3), np.int32)
    )
    expected = [x[:, 2] + x[:, 3], x[:, 0] + x[:, 1], x[:, 3], x[:, 2]]
    np.testing.assert_array_equal(y, np.stack(expected, -1))
    t = np.arange(32)
    np.testing.assert_array_equal(z, np.stack([t, 2 * t, x[:, 0]], -1))


COMPLEX_SOURCE = r"""
#include <kspec/complex.cuh>
template <class T>
__global__ void numbers(const complex<T>* x, const complex<T>* y, complex<T>* o) {
  int t = threadIdx.x, n = blockDim.x;
  complex<T> a = x[t], b = y[t];
  o[t] = a * b; o[n + t] = a / b; o[2 * n + t] = conj(a) + b; o[3 * n + t] = sqrt(a);
  o[4 * n + t] = exp(a); o[5 * n + t] = complex<T>(abs(a), arg(b));
}
"""
CUCOMPLEX_SOURCE = r"""
#include <cuComplex.h>
extern "C" __global__ void numbers(const cuFloatComplex* x, const cuFloatComplex* y,
                                   cuFloatComplex* o) {
  int t = threadIdx.x, n = blockDim.x;
  cuFloatComplex a = x[t], b = y[t];
  o[t] = cuCmulf(a, b); o[n + t] = cuCdivf(a, b); o[2 * n + t] = cuCaddf(cuConjf(a), b);
  o[3 * n + t] = cuCfmaf(a, b, make_cuFloatComplex(1, 2)); o[4 * n + t] = cuCsubf(a, b);
  o[5 * n + t] = make_cuComplex(cuCabsf(a), cuCimagf(b));
}
extern "C" __global__ void doubles(const cuDoubleComplex* x, const cuDoubleComplex* y,
                                   cuDoubleComplex* o) {
  int t = threadIdx.x, n = blockDim.x;
  cuDoubleComplex a = x[t], b = y[t];
  o[t] = cuCmul(a, b); o[n + t] = cuCdiv(a, b); o[2 * n + t] = cuCadd(cuConj(a), b);
  o[3 * n + t] = cuCfma(a, b, make_cuDoubleComplex(1, 2)); o[4 * n + t] = cuCsub(a, b);
  o[5 * n + t] = make_cuDoubleComplex(cuCabs(a), cuCimag(cuComplexFloatToDouble(
      cuComplexDoubleToFloat(b))));
}
"""


def complex_numbers(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    parts = np.random.default_rng(0).uniform(-2, 2, (4, 64))
    return (parts[0] + 1j * parts[1]).astype(dtype), (parts[2] + 1j * parts[3]).astype(dtype)


@pytest.mark.parametrize(("ctype", "dtype"), [("float", "complex64"), ("double", "complex128")])
def test_complex_numbers(ctype: str, dtype: str, place: ArrayDevice) -> None:
    x, y = complex_numbers(dtype)
    _, _, out = run(
        place, COMPLEX_SOURCE, f"numbers<{ctype}>", (1,), (64,), x, y, np.zeros((6, 64), dtype)
    )
    expected = [x * y, x / y, x.conj() + y, np.sqrt(x), np.exp(x), np.abs(x) + 1j * np.angle(y)]
    # Each part within 16 units of the modulus.
    scale = 16 * np.finfo(dtype).eps * np.abs(expected)
    assert (np.abs(out - np.array(expected)) <= scale).all()


@pytest.mark.parametrize(("name", "dtype"), [("numbers", "complex64"), ("doubles", "complex128")])
def test_cucomplex(name: str, dtype: str, place: ArrayDevice) -> None:
    x, y = complex_numbers(dtype)
    _, _, out = run(place, CUCOMPLEX_SOURCE, name, (1,), (64,), x, y, np.zeros((6, 64), dtype))
    single = y.imag.astype(np.float32)
    expected = [x * y, x / y, x.conj() + y, x * y + (1 + 2j), x - y, np.abs(x) + 1j * single]
    scale = 16 * np.finfo(dtype).eps * (np.abs(expected) + 3)
    assert (np.abs(out - np.array(expected)) <= scale).all()


OUTPUT_SOURCE = r"""
extern "C" __global__ void greet(int n, int* where) {
  if (threadIdx.x < n)
    printf("%d %5.2f %s %c %x %lld %%\n", threadIdx.x, 1.5, "text", 'c', 255, 1ll << 40);
}
extern "C" __global__ void clocks(long long* o) {
  long long begin = clock64();
  clock_t low = clock();
  for (int i = 0; i < 10; i++) __nanosleep(100);
  o[0] = clock64() - begin; o[1] = warpSize; o[2] = sizeof(low);
}
"""


def test_printf(place: ArrayDevice, capfd: pytest.CaptureFixture[str]) -> None:
    run(place, OUTPUT_SOURCE, "greet", (1,), (32,), 2, np.zeros(1, np.int32))
    if not place.is_host:
        kspec.asnumpy(kspec.zeros(1, device=place.place))  # waits, and so prints
        ctypes.CDLL(None).fflush(None)
    lines = capfd.readouterr().out.splitlines()
    assert sorted(lines) == [f"{t}  1.50 text c ff {1 << 40} %" for t in range(2)]


def test_clocks(place: ArrayDevice) -> None:
    start = time.perf_counter_ns()
    (out,) = run(place, OUTPUT_SOURCE, "clocks", (1,), (1,), np.zeros(3, np.int64))
    assert 0 < out[0] < 10 * (time.perf_counter_ns() - start)
    assert out[1:].tolist() == [32, 8]


# Instantiated by test_sources.py.
COMPLEX_NAMES = ("numbers<float>", "numbers<double>")
