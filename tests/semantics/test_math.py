"""Mathematical functions and fast intrinsics within CUDA's own bounds.

The bounds are the maximum errors of the CUDA C++ Programming Guide, appendix "Mathematical
functions" (in ulp, against the exact result), the larger one where its versions differ; for the
double rsqrt 2 and cbrt 4 instead of 1: on the host they are 1 / sqrt(x) and the C library's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.devices import ArrayDevice
from tests.semantics.harness import run, ulps

Reference = Callable[[Any], Any]


def from_math(function: Callable[[float], float]) -> Reference:
    return np.vectorize(function, otypes=[np.float64])


# Name, exact values in double, smallest and largest argument, ulp for float.
SINGLE: list[tuple[str, Reference, float, float, float]] = [
    ("sinf", np.sin, -100, 100, 2),
    ("cosf", np.cos, -100, 100, 2),
    ("tanf", np.tan, -100, 100, 4),
    ("asinf", np.arcsin, -1, 1, 2),
    ("acosf", np.arccos, -1, 1, 2),
    ("atanf", np.arctan, -10, 10, 2),
    ("sinhf", np.sinh, -10, 10, 3),
    ("coshf", np.cosh, -10, 10, 2),
    ("tanhf", np.tanh, -10, 10, 2),
    ("asinhf", np.arcsinh, -10, 10, 3),
    ("acoshf", np.arccosh, 1, 10, 4),
    ("atanhf", np.arctanh, -0.99, 0.99, 3),
    ("expf", np.exp, -80, 80, 2),
    ("exp2f", np.exp2, -100, 100, 2),
    ("exp10f", lambda x: 10.0**x, -30, 30, 2),
    ("expm1f", np.expm1, -10, 10, 2),
    ("logf", np.log, 1e-3, 1e3, 1),
    ("log2f", np.log2, 1e-3, 1e3, 1),
    ("log10f", np.log10, 1e-3, 1e3, 2),
    ("log1pf", np.log1p, -0.9, 100, 1),
    ("sqrtf", np.sqrt, 0, 1e6, 0.5),
    ("rsqrtf", lambda x: 1 / np.sqrt(x), 1e-3, 1e6, 2),
    ("cbrtf", np.cbrt, -1e3, 1e3, 1),
    ("rcbrtf", lambda x: 1 / np.cbrt(x), 1e-3, 1e3, 1),
    ("sinpif", from_math(lambda x: math.sin(math.pi * math.fmod(x, 2))), -4, 4, 1),
    ("cospif", from_math(lambda x: math.cos(math.pi * math.fmod(x, 2))), -4, 4, 1),
    ("erff", from_math(math.erf), -3, 3, 2),
    ("erfcf", from_math(math.erfc), -3, 5, 4),
    ("tgammaf", from_math(math.gamma), 0.5, 20, 5),
    ("normcdff", from_math(lambda x: math.erfc(-x / math.sqrt(2)) / 2), -4, 4, 5),
    ("fabsf", np.abs, -5, 5, 0),
    ("rintf", np.rint, -5, 5, 0),
    ("floorf", np.floor, -5, 5, 0),
    ("ceilf", np.ceil, -5, 5, 0),
    ("truncf", np.trunc, -5, 5, 0),
]
# Name, bound in double; the exact values are NumPy's in long double.
DOUBLE: list[tuple[str, Any, float, float, float]] = [
    ("sin", np.sin, -100, 100, 2),
    ("cos", np.cos, -100, 100, 2),
    ("tan", np.tan, -1.5, 1.5, 2),
    ("asin", np.arcsin, -1, 1, 2),
    ("acos", np.arccos, -1, 1, 2),
    ("atan", np.arctan, -10, 10, 2),
    ("sinh", np.sinh, -10, 10, 2),
    ("cosh", np.cosh, -10, 10, 2),
    ("tanh", np.tanh, -10, 10, 2),
    ("asinh", np.arcsinh, -10, 10, 3),
    ("acosh", np.arccosh, 1, 10, 3),
    ("atanh", np.arctanh, -0.99, 0.99, 2),
    ("exp", np.exp, -100, 100, 1),
    ("exp2", np.exp2, -100, 100, 1),
    ("expm1", np.expm1, -10, 10, 1),
    ("log", np.log, 1e-3, 1e3, 1),
    ("log2", np.log2, 1e-3, 1e3, 2),
    ("log10", np.log10, 1e-3, 1e3, 2),
    ("log1p", np.log1p, -0.9, 100, 1),
    ("sqrt", np.sqrt, 0, 1e6, 0.5),
    ("rsqrt", lambda x: 1 / np.sqrt(x), 1e-3, 1e6, 2),
    ("cbrt", np.cbrt, -1e3, 1e3, 4),
    ("fabs", np.abs, -5, 5, 0),
    ("round", lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x), -5, 5, 0),
]
UNARY = "\n".join(
    f'extern "C" __global__ void k_{name}(const {ctype}* x, {ctype}* y, int n) {{\n'
    f"  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i < n) y[i] = {name}(x[i]);\n}}"
    for table, ctype in ((SINGLE, "float"), (DOUBLE, "double"))
    for name, *_ in table
)
MATH_SOURCE = (
    UNARY
    + r"""
extern "C" __global__ void several(const float* x, const float* y, float* o, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float a = x[i], b = y[i];
  o[i] = powf(a, b); o[n + i] = atan2f(a, b); o[2 * n + i] = hypotf(a, b);
  o[3 * n + i] = fmodf(a, b); o[4 * n + i] = fmaf(a, b, 1.0f); o[5 * n + i] = a / b;
  o[6 * n + i] = rhypotf(a, b); o[7 * n + i] = norm3df(a, b, 1.0f);
  o[8 * n + i] = remainderf(a, b); o[9 * n + i] = copysignf(a, -b);
}
extern "C" __global__ void pairs(double* o) {
  float s, c; double S, C, whole; int e;
  sincosf(0.5f, &s, &c); sincos(0.5, &S, &C);
  o[0] = s; o[1] = c; o[2] = S; o[3] = C;
  sincospi(0.25, &S, &C); o[4] = S; o[5] = C;
  o[6] = frexp(12.0, &e); o[7] = e; o[8] = modf(-2.75, &whole); o[9] = whole;
  o[10] = ldexp(0.75, 4); o[11] = fmin(1.0, nan("")); o[12] = fmax(nan(""), 2.0);
  o[13] = lround(2.5); o[14] = llrint(2.5); o[15] = ilogb(10.0); o[16] = remquo(7.0, 2.0, &e);
  o[17] = e & 7; o[18] = nextafter(1.0, 2.0); o[19] = fdim(3.0, 5.0); o[20] = scalbn(3.0, -1);
  sincospi(0.75f, &s, &c); o[21] = s; o[22] = c;
}
extern "C" __global__ void rounded(float a, float b, float* f, double* d) {
  f[0] = __fadd_rn(a, b); f[1] = __fadd_rz(a, b); f[2] = __fadd_ru(a, b); f[3] = __fadd_rd(a, b);
  f[4] = __fmul_ru(a, b); f[5] = __fdiv_rd(a, b); f[6] = __frcp_ru(b); f[7] = __fsqrt_rd(b);
  f[8] = __fmaf_rz(a, b, 1.0f); f[9] = __double2float_rd(1.0 / 3); f[10] = __int2float_rz(16777219);
  d[0] = __dadd_ru(a, (double)b * 1e-10); d[1] = __ddiv_rd(a, b); d[2] = __dmul_ru(1.0 / 3, a);
}
"""
)


def arguments(low: float, high: float, dtype: Any, count: int = 2000) -> np.ndarray:
    return np.random.default_rng(3).uniform(low, high, count).astype(dtype)


@pytest.mark.parametrize(("name", "exact", "low", "high", "bound"), SINGLE)
def test_single(
    name: str, exact: Reference, low: float, high: float, bound: float, place: ArrayDevice
) -> None:
    x = arguments(low, high, np.float32)
    _, y = run(place, MATH_SOURCE, f"k_{name}", (8,), (256,), x, np.zeros_like(x), x.size)
    assert ulps(y, exact(x.astype(np.float64))).max() <= bound + 1e-6


@pytest.mark.parametrize(("name", "exact", "low", "high", "bound"), DOUBLE)
def test_double(
    name: str, exact: Reference, low: float, high: float, bound: float, place: ArrayDevice
) -> None:
    x = arguments(low, high, np.float64)
    _, y = run(place, MATH_SOURCE, f"k_{name}", (8,), (256,), x, np.zeros_like(x), x.size)
    assert ulps(y, exact(x.astype(np.longdouble))).max() <= bound + 1e-3


def test_several_arguments(place: ArrayDevice) -> None:
    x, y = arguments(0.1, 20, np.float32), arguments(-5, 5, np.float32)[::-1].copy()
    _, _, out = run(
        place,
        MATH_SOURCE,
        "several",
        (8,),
        (256,),
        x,
        y,
        np.zeros((10, x.size), np.float32),
        x.size,
    )
    a, b = x.astype(np.float64), y.astype(np.float64)
    exact = [
        (a**b, 4), (np.arctan2(a, b), 3), (np.hypot(a, b), 3), (np.fmod(a, b), 0),
        (a * b + 1, 0.5), (a / b, 0.5), (1 / np.hypot(a, b), 2), (np.sqrt(a * a + b * b + 1), 3),
        (np.vectorize(math.remainder)(a, b), 0), (np.copysign(a, -b), 0),
    ]  # fmt: skip
    for number, (values, bound) in enumerate(exact):
        assert ulps(out[number], values).max() <= bound + 1e-6, number


def test_functions_with_two_results_and_integers(place: ArrayDevice) -> None:
    (o,) = run(place, MATH_SOURCE, "pairs", (1,), (1,), np.zeros(23))
    np.testing.assert_allclose(o[[0, 2]], math.sin(0.5), rtol=2e-7)
    np.testing.assert_allclose(o[[1, 3]], math.cos(0.5), rtol=2e-7)
    np.testing.assert_allclose(o[4:6], math.sqrt(0.5), rtol=1e-15)
    np.testing.assert_allclose(o[21:], [math.sqrt(0.5), -math.sqrt(0.5)], rtol=2e-7)
    assert o[6:21].tolist() == [
        0.75, 4, -0.75, -2, 12, 1, 2, 3, 2, 3, -1, 4, np.nextafter(1, 2), 0, 1.5,
    ]  # fmt: skip


def test_directed_rounding(place: ArrayDevice) -> None:
    one, tiny = np.float32(1), np.float32(3e-9)
    f, d = run(
        place, MATH_SOURCE, "rounded", (1,), (1,), one, tiny, np.zeros(11, np.float32), np.zeros(3)
    )
    above = np.nextafter(one, np.float32(2))
    assert f[:4].tolist() == [one, one, above, one] and f[4] == tiny
    quotient = 1 / np.float64(tiny)
    below = np.float32(quotient) if np.float32(quotient) <= quotient else None
    low = below if below is not None else np.nextafter(np.float32(quotient), np.float32(0))
    assert f[5] == low and f[6] == np.nextafter(low, np.float32(np.inf))
    assert float(f[7]) ** 2 <= float(tiny) < float(np.nextafter(f[7], one)) ** 2
    assert f[8] == one and float(f[9]) < 1 / 3 and f[10] == 16777218
    assert d[0] == np.nextafter(1, 2)
    assert d[1] <= quotient and d[2] == 1 / 3


FAST_SOURCE = r"""
extern "C" __global__ void fast(const float* x, float* o, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float a = x[i], s, c;
  o[i] = __sinf(a); o[n + i] = __cosf(a); o[2 * n + i] = __expf(a); o[3 * n + i] = __exp10f(a);
  a = fabsf(a) + 0.5f;
  o[4 * n + i] = __logf(a); o[5 * n + i] = __log2f(a); o[6 * n + i] = __log10f(a);
  o[7 * n + i] = __fdividef(a, 3.0f); o[8 * n + i] = __powf(a, 1.5f);
  o[9 * n + i] = __frsqrt_rn(a); o[10 * n + i] = __saturatef(a - 1.0f);
  __sincosf(x[i], &s, &c);
  o[11 * n + i] = s; o[12 * n + i] = c;
}
"""


def test_fast_intrinsics(place: ArrayDevice) -> None:
    """Bounds: absolute 2^-21.19 for sine and cosine, 2^-21.4 for logarithms near 1; ulp else."""
    x = arguments(-3.1, 3.1, np.float32)
    out = np.zeros((13, x.size), np.float32)
    _, out = run(place, FAST_SOURCE, "fast", (8,), (256,), x, out, x.size)
    a = x.astype(np.float64)
    b = (np.abs(x) + np.float32(0.5)).astype(np.float64)
    for row, exact in ((0, np.sin(a)), (1, np.cos(a)), (11, np.sin(a)), (12, np.cos(a))):
        assert np.abs(out[row] - exact).max() <= 2**-21.19
    assert (ulps(out[2], np.exp(a)) <= 2 + np.floor(np.abs(1.173 * a)) + 0.5).all()
    assert (ulps(out[3], 10**a) <= 2 + np.floor(np.abs(2.97 * a)) + 0.5).all()
    for row, exact in ((4, np.log(b)), (5, np.log2(b)), (6, np.log10(b))):
        assert ((np.abs(out[row] - exact) <= 2**-21.4) | (ulps(out[row], exact) <= 3)).all()
    assert ulps(out[7], b / 3).max() <= 2
    np.testing.assert_allclose(out[8], b**1.5, rtol=2e-6)  # exp2f(y * __log2f(x))
    assert ulps(out[9], 1 / np.sqrt(b)).max() <= 0.5 + 1e-6
    np.testing.assert_array_equal(out[10], np.clip(b.astype(np.float32) - 1, 0, 1))
