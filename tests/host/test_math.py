"""CUDA's mathematical functions and intrinsics against Python's and NumPy's."""

import ctypes
import math

import numpy as np
import pytest

from .conftest import Program

# Name in CUDA, reference, range of the arguments.
FUNCTIONS = [
    ("sin", np.sin, -10, 10),
    ("cosf", np.cos, -10, 10),
    ("exp", np.exp, -10, 10),
    ("exp10", lambda x: 10**x, -5, 5),
    ("log1p", np.log1p, 0, 10),
    ("cbrt", np.cbrt, -10, 10),
    ("rcbrt", lambda x: 1 / np.cbrt(x), 0.1, 10),
    ("rsqrt", lambda x: x**-0.5, 0.1, 10),
    ("tgamma", np.vectorize(math.gamma), 0.5, 10),
    ("erf", np.vectorize(math.erf), -3, 3),
    ("erfcx", np.vectorize(lambda x: math.exp(x * x) * math.erfc(x)), -3, 20),
    ("sinpi", lambda x: np.sin(np.pi * x), -2, 2),
    ("cospi", lambda x: np.cos(np.pi * x), -2, 2),
    ("normcdf", np.vectorize(lambda x: math.erfc(-x / math.sqrt(2)) / 2), -5, 5),
    ("cyl_bessel_i0", np.i0, -40, 40),
    ("__expf", np.exp, -10, 10),
    ("__saturatef", lambda x: np.clip(x, 0, 1), -2, 2),
    ("fabs", np.abs, -2, 2),
    ("rint", np.rint, -5, 5),
]
KERNEL = """
template <class T> __global__ void k_{0}(const T* x, T* y) {{
  y[threadIdx.x] = {0}(x[threadIdx.x]);
}}
"""
INVERSES = r"""
extern "C" __global__ void inverses(const double* x, double* y) {
  int i = threadIdx.x;
  y[3 * i] = erf(erfinv(x[i]));
  y[3 * i + 1] = erfc(erfcinv(1 + x[i]));
  y[3 * i + 2] = normcdf(normcdfinv((x[i] + 1) / 2));
}
extern "C" __global__ void rounding(float a, float b, float* f, double* d) {
  f[0] = __fadd_rd(a, b); f[1] = __fadd_ru(a, b); f[2] = __fadd_rz(-a, -b); f[3] = __fadd_rn(a, b);
  f[4] = __frcp_ru(b); f[5] = __fsqrt_rd(b); f[6] = __ll2float_rd(16777217); f[7] = a + b;
  d[0] = __ddiv_rd(a, b); d[1] = __ddiv_ru(a, b); d[2] = __fma_ru(a, a, 1e-30);
}
extern "C" __global__ void tails(double* y) {
  y[0] = erfc(erfcinv(1e-200)) / 1e-200; y[1] = erfinv(1.0); y[2] = erfcinv(2.0);
  y[3] = erfinv(2.0);
  y[4] = erfinvf(0.5f); y[5] = normcdfinv(0.5); y[6] = erf(erfinv(1e-9)) / 1e-9;
}
"""
INTEGERS = r"""
#include <math_constants.h>
extern "C" __global__ void integers(long long* o) {
  o[0] = __clz(1); o[1] = __clzll(0); o[2] = __popc(0xff0fu); o[3] = __ffs(8); o[4] = __brev(1u);
  o[5] = __byte_perm(0x33221100u, 0x77665544u, 0x7531u); o[6] = __funnelshift_l(1u, 2u, 4);
  o[7] = __mulhi(1 << 30, 8); o[8] = __umul64hi(1ull << 63, 6); o[9] = __dp4a(0x01020304, 0x01010101, 5);
  o[10] = __float2int_rn(2.5f); o[11] = __float2int_rz(-2.9f); o[12] = __float2uint_rn(-1.f);
  o[13] = __double2ll_rd(1e300); o[14] = __float2int_rn(CUDART_NAN_F); o[15] = __float_as_int(1.0f);
  o[16] = min(3, 5u); o[17] = max(-1LL, 2LL); o[18] = (long long)max(1.5f, 2.0); o[19] = abs(-7LL);
  o[20] = sizeof(float3) * 1000 + alignof(float4) * 100 + sizeof(pow(2.0f, 2)) * 10 + sizeof(pow(2, 2.0));
  o[21] = __double2hiint(__hiloint2double(5, -6)) * 10 + (__double2loint(__hiloint2double(5, -6)) == -6);
  o[22] = isnan(CUDART_NAN) + 2 * isinf(-CUDART_INF_F) + 4 * isfinite(1.0) + 8 * signbit(-0.0)
          + 16 * isnan(1.0f);
  int exponent; double whole; float s, c; sincosf(0.f, &s, &c); frexp(8.0, &exponent);
  o[23] = exponent * 100 + (long long)(modf(2.5, &whole) * 10) + (long long)(s + c);
}
"""


@pytest.fixture(scope="module")
def program() -> Program:
    names = [f"k_{name}<{t}>" for name, *_ in FUNCTIONS for t in ("float", "double")]
    text = "".join(KERNEL.format(name) for name, *_ in FUNCTIONS)
    return Program(text + INVERSES + INTEGERS, names)


@pytest.mark.parametrize(("name", "reference", "low", "high"), FUNCTIONS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_function(program, name, reference, low, high, dtype):
    x = np.linspace(low, high, 301).astype(dtype)
    y = np.zeros_like(x)
    program(f"k_{name}<{'float' if dtype == np.float32 else 'double'}>", 1, x.size, x, y)
    single = dtype == np.float32 or name.endswith("f")
    tolerance = 2e-6 if single else 1e-13
    np.testing.assert_allclose(y, reference(x.astype(np.float64)), rtol=tolerance, atol=tolerance)


def test_half_integers_are_exact(program):
    x = np.array([-2, -1.5, -1, -0.5, 0, 0.5, 1, 1.5, 2, 1e15])
    y = np.zeros_like(x)
    program("k_sinpi<double>", 1, x.size, x, y)
    np.testing.assert_array_equal(y, [0, 1, 0, -1, 0, 1, 0, -1, 0, 0])
    program("k_cospi<double>", 1, x.size, x, y)
    np.testing.assert_array_equal(y, [1, 0, -1, 0, 1, 0, -1, 0, 1, 1])


def test_inverse_functions(program):
    x = np.concatenate([np.linspace(-0.999, 0.999, 201), [1e-5, -0.999999]])
    y = np.zeros((x.size, 3))
    program("inverses", 1, x.size, x, y)
    np.testing.assert_allclose(y[:, 0], x, rtol=1e-13, atol=1e-16)
    np.testing.assert_allclose(y[:, 1], 1 + x, rtol=1e-12)
    np.testing.assert_allclose(y[:, 2], (x + 1) / 2, rtol=1e-12)


def test_tails(program):
    y = np.zeros(7)
    program("tails", 1, 1, y)
    np.testing.assert_allclose(y[[0, 6]], 1, rtol=1e-10)
    assert y[1] == np.inf and y[2] == -np.inf and np.isnan(y[3])
    np.testing.assert_allclose(y[4], 0.4769362762, rtol=1e-6)
    assert abs(y[5]) < 1e-15


def test_directed_rounding(program):
    f, d = np.zeros(8, np.float32), np.zeros(3)
    program("rounding", 1, 1, ctypes.c_float(1), ctypes.c_float(3e-9), f, d)
    one, b = np.float32(1), np.float32(3e-9)
    above = np.nextafter(one, 2, dtype=np.float32)
    assert f[:4].tolist() == [one, above, -one, one] and f[7] == one
    assert float(f[4]) >= 1 / float(b) and float(f[5]) ** 2 <= float(b)
    assert f[6] == 16777216
    assert d[1] == np.nextafter(d[0], np.inf) and d[2] == np.nextafter(1, 2)


def test_integer_intrinsics(program):
    out = np.zeros(24, np.int64)
    program("integers", 1, 1, out)
    assert out.tolist() == [
        31, 64, 12, 4, 1 << 31, 0x77553311, 32, 2, 3, 15,
        2, -2, 0, 2**63 - 1, 0, 0x3F800000, 3, 2, 2, 7,
        12 * 1000 + 1600 + 40 + 8, 51, 1 + 2 + 4 + 8, 405 + 1,
    ]  # fmt: skip
