from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.include.harness import Library, compile_cuda

PRECISIONS = {"float": np.complex64, "double": np.complex128}
FUNCTIONS = """
    exp expm1 log log2 log10 log1p sqrt sin cos tan sinh cosh tanh asin acos atan asinh
    acosh atanh conj rint
""".split()  # noqa: SIM905  (a list of words reads better)
CLASSES = ("isnan", "isinf", "isfinite")
ORDER = {"less": "<", "greater": ">", "less_equal": "<=", "greater_equal": ">="}
NUMPY_NAMES = {name: "arc" + name[1:] for name in FUNCTIONS if name[0] == "a"}

HEADER = """
#include "kspec/complex.cuh"
#define MAP(NAME, REAL, TO, EXPRESSION)                                                     \\
  extern "C" void NAME##_##REAL(long n, const complex<REAL>* x, TO* out) {                  \\
    for (long k = 0; k < n; k++) { complex<REAL> z = x[k]; out[k] = EXPRESSION; }           \\
  }
#define MAP2(NAME, REAL, TO, EXPRESSION)                                                    \\
  extern "C" void NAME##_##REAL(long n, const complex<REAL>* x, const complex<REAL>* y,     \\
                                TO* out) {                                                  \\
    for (long k = 0; k < n; k++) { complex<REAL> z = x[k], w = y[k]; out[k] = EXPRESSION; } \\
  }
"""


def text() -> str:
    lines = [HEADER]
    for real in PRECISIONS:
        lines += [f"MAP({name}, {real}, complex<{real}>, {name}(z))" for name in FUNCTIONS]
        lines += [
            f"MAP({name}, {real}, {real}, {name}(z))"
            for name in ("abs", "arg", "norm", "real", "imag")
        ]
        lines += [
            f"MAP({name}, {real}, bool, {name}(z))" for name in ("isnan", "isinf", "isfinite")
        ]
        lines += [
            f"MAP2({name}, {real}, complex<{real}>, {expression})"
            for name, expression in {
                "add": "z + w",
                "subtract": "z - w",
                "multiply": "z * w",
                "divide": "z / w",
                "pow": "pow(z, w)",
                "min": "min(z, w)",
                "max": "max(z, w)",
                "mixed": "2 * z + w * 0.5 - 1.0f / (z + 3) + w / 4 - 2",
                "compound": "(z += w, z *= 2, z -= 1.5, z *= w, z)",
                "polar": f"polar<{real}>(z.real(), w.real())",
                "set": "(z.real(w.imag()), z.imag(w.real()), z)",
                "real_power": "pow(z, w.real())",
                "real_base": "pow(z.real(), w)",
            }.items()
        ]
        lines.append(f"MAP2(equal, {real}, bool, z == w && !(z != w))")
        lines += [f"MAP2({name}, {real}, bool, z {operator} w)" for name, operator in ORDER.items()]
        lines.append(f"MAP2(less_real, {real}, bool, z < w.real() && !(w.real() <= z))")
        lines.append(f"MAP(is_real, {real}, bool, z == z.real() && 0 + z.real() == z)")
    return "\n".join(lines)


@pytest.fixture(scope="module")
def library() -> Library:
    return Library(text())


def points(dtype: Any, spread: float = 3.0) -> Any:
    """Random numbers, most near 1 and some of any size, plus those near the branch points."""
    rng = np.random.default_rng(3)
    plain = rng.normal(size=(2, 4000)) * spread
    sizes = 10.0 ** rng.uniform(-9, 1.5, (2, 2000)) * rng.choice([-1, 1], (2, 2000))
    near = rng.normal(size=(2, 2000)) * 10.0 ** rng.uniform(-7, -1, (1, 2000))
    near[0] += rng.choice([-1.0, 1.0], 2000)
    unit = np.exp(2j * np.pi * rng.uniform(size=1000))
    parts = np.concatenate([plain, sizes, near, near[::-1]], axis=1)
    axes = np.array([0.5, -0.5, 2, -2, 1.5j, -1.5j, 0.5j, -0.5j, 1, -1, 1j, -1j, 0])
    return np.concatenate([parts[0] + 1j * parts[1], unit, axes]).astype(dtype)


def error(actual: Any, expected: Any) -> Any:
    """Distance in units of the last place of the larger part of the expected number."""
    scale = np.maximum(np.abs(expected), np.finfo(actual.dtype).tiny)
    return np.abs(actual.astype(np.complex128) - expected) / scale / np.finfo(actual.dtype).eps


@pytest.mark.filterwarnings("ignore:.*encountered:RuntimeWarning")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_single_precision_is_accurate(library: Library, name: str) -> None:
    values = points(np.complex64)
    actual = library(f"{name}_float", np.complex64, values)
    expected = numpy_function(name)(values.astype(np.complex128))
    finite = np.isfinite(expected) & (np.abs(expected) < 3e38)
    assert error(actual, expected)[finite].max() < 8
    assert not np.isfinite(actual[~finite & (values != 0)]).any()


@pytest.mark.filterwarnings("ignore:.*encountered:RuntimeWarning")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_double_precision_agrees_with_numpy(library: Library, name: str) -> None:
    values = points(np.complex128)
    actual = library(f"{name}_double", np.complex128, values)
    expected = numpy_function(name)(values)
    finite = np.isfinite(expected)
    if name == "log1p":  # NumPy's own loses digits near zero
        wide = values.astype(np.clongdouble)
        excess = wide.real * 2 + wide.real**2 + wide.imag**2
        size = np.where(excess < -0.5, np.log(np.abs(1 + wide)), np.log1p(excess) / 2)
        expected = size + 1j * np.arctan2(wide.imag, 1 + wide.real)
    assert error(actual, expected.astype(np.clongdouble))[finite].max() < 16


def numpy_function(name: str) -> Any:
    return getattr(np, NUMPY_NAMES.get(name, name))


SPECIAL = np.array(
    [0.0, -0.0, 1.0, -1.0, 0.5, -3.0, np.inf, -np.inf, np.nan, 1e-300, 1e300, -1e300]
)


def same_kind(actual: Any, expected: Any) -> Any:
    """Whether parts agree: NaN with NaN, infinity with infinity, numbers closely."""
    close = np.isclose(actual, expected, rtol=1e-13, atol=0) | (
        np.isnan(actual) & np.isnan(expected)
    )
    return close | ((actual == 0) & (expected == 0))


@pytest.mark.filterwarnings("ignore:.*encountered:RuntimeWarning")
@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name not in ("log1p", "expm1")])
def test_special_values_follow_c99(library: Library, name: str) -> None:
    parts = np.stack(np.meshgrid(SPECIAL, SPECIAL)).reshape(2, -1)
    values = np.empty(parts.shape[1], np.complex128)
    values.real, values.imag = parts
    if name in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "exp"):
        values = values[~((np.abs(values.real) > 1e9) & (np.abs(values.imag) == 1e300))]
    actual = library(f"{name}_double", np.complex128, values)
    expected = numpy_function(name)(values)
    good = same_kind(actual.real, expected.real) & same_kind(actual.imag, expected.imag)
    # C99 leaves the sign of an infinity or zero beside a NaN open.
    loose = np.isnan(expected) & (np.abs(actual.real) == np.abs(expected.real))
    loose |= np.isnan(expected) & (np.abs(actual.imag) == np.abs(expected.imag))
    bad = ~(good | loose)
    assert not bad.any(), list(zip(values[bad], actual[bad], expected[bad], strict=True))


@pytest.mark.filterwarnings("ignore:.*encountered:RuntimeWarning")
@pytest.mark.parametrize("name", ["sqrt", "log", "asin", "acos", "atan", "asinh", "acosh", "atanh"])
def test_branch_cuts_are_numpys(library: Library, name: str) -> None:
    real = np.array([-3.0, -1.5, -0.5, 0.0, 0.5, 1.5, 3.0])
    values = [complex(x, y) for x in real for y in (0.0, -0.0)]
    values += [complex(x, y) for y in real for x in (0.0, -0.0)]
    array = np.array(values)
    actual, expected = library(f"{name}_double", np.complex128, array), numpy_function(name)(array)
    np.testing.assert_allclose(actual, expected, rtol=1e-14)
    np.testing.assert_array_equal(np.signbit(actual.imag), np.signbit(expected.imag))
    np.testing.assert_array_equal(np.signbit(actual.real), np.signbit(expected.real))


@pytest.mark.parametrize("real", PRECISIONS)
def test_arithmetic(library: Library, real: str) -> None:
    dtype = PRECISIONS[real]
    left, right = points(dtype)[:5000], points(dtype)[5000:10000]
    wide, wider = left.astype(np.complex128), right.astype(np.complex128)
    expected = {
        "add": wide + wider,
        "subtract": wide - wider,
        "multiply": wide * wider,
        "divide": wide / wider,
        "mixed": 2 * wide + wider * 0.5 - 1 / (wide + 3) + wider / 4 - 2,
        "compound": ((wide + wider) * 2 - 1.5) * wider,
        "set": wider.imag + 1j * wider.real,
        "polar": wide.real * np.exp(1j * wider.real),
    }
    scale = np.abs(wide) + np.abs(wider) + np.abs(1 / (wide + 3)) + 3
    for name, value in expected.items():
        actual = library(f"{name}_{real}", dtype, left, right)
        bound = 8 * np.finfo(dtype).eps * np.maximum(np.abs(value), scale)
        if name in ("multiply", "divide"):
            bound = 4 * np.finfo(dtype).eps * np.abs(value)
        if name == "compound":
            bound = 8 * np.finfo(dtype).eps * scale * (np.abs(wider) + 1)
        assert (np.abs(actual - value) <= bound).all(), name


@pytest.mark.parametrize("real", PRECISIONS)
def test_division_and_size_do_not_overflow(library: Library, real: str) -> None:
    dtype = PRECISIONS[real]
    huge = np.finfo(dtype).max / 4
    values = np.array([complex(huge, huge), complex(huge, -1), complex(1 / huge, 1 / huge)], dtype)
    np.testing.assert_allclose(library(f"divide_{real}", dtype, values, values), 1, rtol=1e-6)
    size = library(f"abs_{real}", np.finfo(dtype).dtype, values)
    np.testing.assert_allclose(size, np.abs(values), rtol=1e-6)
    root = library(f"sqrt_{real}", dtype, values)
    np.testing.assert_allclose(root, np.sqrt(values), rtol=1e-6)
    logarithm = library(f"log_{real}", dtype, values)
    np.testing.assert_allclose(logarithm, np.log(values), rtol=1e-6)


@pytest.mark.filterwarnings("ignore:.*encountered:RuntimeWarning")
def test_division_by_zero_is_numpys(library: Library) -> None:
    left = np.array([1 + 1j, 0j, -1j, complex(np.inf, 1), complex(np.nan, 0)])
    zero = np.zeros(5, complex)
    np.testing.assert_array_equal(library("divide_double", complex, left, zero), left / zero)


@pytest.mark.filterwarnings("ignore:.*encountered:RuntimeWarning")
@pytest.mark.parametrize("real", PRECISIONS)
def test_powers(library: Library, real: str) -> None:
    dtype = PRECISIONS[real]
    rng = np.random.default_rng(4)
    base = (rng.normal(size=2000) + 1j * rng.normal(size=2000)).astype(dtype)
    exponent = (rng.normal(size=2000) + 1j * rng.normal(size=2000)).astype(dtype)
    exponent[:500] = rng.integers(-8, 9, 500)
    base[500:520] = 0
    exponent[500:510] = np.linspace(-1, 1, 10)
    expected = base.astype(complex) ** exponent.astype(complex)
    actual = library(f"pow_{real}", dtype, base, exponent)
    np.testing.assert_allclose(actual, expected, rtol=100 * np.finfo(dtype).eps)
    real_exponent = exponent.real.astype(complex)
    actual = library(f"real_power_{real}", dtype, base, exponent)
    expected = base.astype(complex) ** real_exponent
    np.testing.assert_allclose(actual, expected, rtol=100 * np.finfo(dtype).eps)
    actual = library(f"real_base_{real}", dtype, base, exponent)[600:]
    expected = (base.real.astype(complex) ** exponent.astype(complex))[600:]
    np.testing.assert_allclose(actual, expected, rtol=100 * np.finfo(dtype).eps)


def test_parts_and_classification(library: Library) -> None:
    values = points(np.complex128)
    for name, function in {
        "abs": np.abs,
        "arg": np.angle,
        "real": np.real,
        "imag": np.imag,
        "norm": lambda z: z.real**2 + z.imag**2,
    }.items():
        actual = library(f"{name}_double", np.float64, values)
        np.testing.assert_allclose(actual, function(values), rtol=1e-15)
    special = np.array([complex(x, y) for x in SPECIAL for y in SPECIAL])
    for name in CLASSES:
        np.testing.assert_array_equal(
            library(f"{name}_double", np.bool_, special), getattr(np, name)(special)
        )
    np.testing.assert_array_equal(
        library("is_real_double", np.bool_, special), special == special.real
    )


def test_order_is_lexicographic_and_skips_nan(library: Library) -> None:
    parts = [-1.0, 0.0, 2.0, np.nan]
    values = np.array([complex(x, y) for x in parts for y in parts])
    left, right = (side.ravel() for side in np.meshgrid(values, values))
    for name, function in {"min": np.fmin, "max": np.fmax}.items():
        actual = library(f"{name}_double", complex, left, right)
        expected = function(left, right)
        nan = np.isnan(left) & np.isnan(right)
        np.testing.assert_array_equal(actual[~nan], expected[~nan])
        assert np.isnan(actual[nan]).all()
    np.testing.assert_array_equal(library("equal_double", np.bool_, left, right), left == right)


@pytest.mark.parametrize("real", PRECISIONS)
def test_comparisons_are_numpys(library: Library, real: str) -> None:
    parts = [-1.0, 0.0, 2.0, np.inf]
    values = np.array([complex(x, y) for x in parts for y in parts], PRECISIONS[real])
    left, right = (np.ascontiguousarray(side).ravel() for side in np.meshgrid(values, values))
    for name in ORDER:
        actual = library(f"{name}_{real}", np.bool_, left, right)
        np.testing.assert_array_equal(actual, getattr(np, name)(left, right))
    actual = library(f"less_real_{real}", np.bool_, left, right)
    np.testing.assert_array_equal(actual, left < right.real)


def test_nan_is_neither_less_nor_more(library: Library) -> None:
    values = np.array([complex(1, np.nan), complex(np.nan, 1), 1])
    left, right = (side.ravel() for side in np.meshgrid(values, values))
    for name in ORDER:
        actual = library(f"{name}_double", np.bool_, left, right)
        np.testing.assert_array_equal(actual, (left == right) & ("equal" in name))


USES = """
#include "kspec/complex.cuh"
#include "kspec/half.cuh"
static_assert(sizeof(complex<float>) == 8 && alignof(complex<float>) == 8, "layout");
static_assert(sizeof(complex<double>) == 16 && alignof(complex<double>) == 16, "layout");
static_assert(__is_trivially_copyable(complex<float>) && __is_trivial(complex<double>), "trivial");
template <class T> __device__ void use(T* x, decltype(x->real())* r) {
  __shared__ T tile[4];
  tile[threadIdx.x] = x[0];
  x[0] = exp(x[0]) + log(x[0]) + log10(x[0]) + log2(x[0]) + log1p(x[0]) + expm1(x[0]);
  x[1] = sqrt(x[0]) + sin(x[0]) + cos(x[0]) + tan(x[0]) + sinh(x[0]) + cosh(x[0]) + tanh(x[0]);
  x[2] = asin(x[0]) + acos(x[0]) + atan(x[0]) + asinh(x[0]) + acosh(x[0]) + atanh(x[0]);
  x[3] = pow(x[0], x[1]) + pow(x[0], 2) + pow(2.0f, x[0]) + rint(x[0]) + conj(x[0]);
  x[4] = min(x[0], x[1]) + max(x[0], x[1]) + polar(r[0], r[1]) - x[0] + +x[0];
  r[2] = real(x[0]) + imag(x[0]) + abs(x[0]) + arg(x[0]) + norm(x[0]);
  x[0] += x[1]; x[0] -= 1; x[0] *= 2.0; x[0] /= r[0]; x[0] = 1; x[0] = 1 / x[0]; x[0].real(3);
  r[1] = isnan(x[0]) + isinf(x[0]) + isfinite(x[0]) + (x[0] == x[1]) + (x[0] != 1) + (0 == x[0]);
  r[1] += (x[0] < x[1]) + (x[0] >= 1) + (2.0 > x[0]) + (x[1] <= r[0]);
  float16 half(r[0]);
  x[0] = r[0] > 0 ? x[0] : T(0); x[0] = x[0] * half; x[0] = half; x[1] += bfloat16(half);
  complex<float> narrow(x[0]); complex<double> wide(x[0]);
  wide = narrow * wide; narrow = wide; x[0] = tile[1] * 1.0;
}
extern "C" __global__ void kernel(complex<float>* x, complex<double>* y, float* r, double* s) {
  use(x, r);
  use(y, s);
}
"""


@pytest.mark.parametrize("arch", [pytest.param("sm_80", marks=pytest.mark.slow), "compute_100"])
def test_compiles_for_cuda(arch: str) -> None:
    assert compile_cuda(USES, arch) == (True, "")


def test_compiles_for_the_host() -> None:
    Library(USES.replace('extern "C" __global__', "__global__"))


def test_thrust_names() -> None:
    text = """
    #include "cupy/complex.cuh"
    extern "C" __global__ void kernel(thrust::complex<float>* x) {
      x[0] = thrust::abs(x[0]) + thrust::exp(x[1]) + conj(x[2]);
    }
    """
    assert compile_cuda(text, "sm_80") == (True, "")


def test_macros_of_users_do_not_break_it() -> None:
    options = [f"-D{letter}=3" for letter in "ABCDEFGHIJKLMNOPQRSUVWXYZ"]
    assert compile_cuda('#include "kspec/complex.cuh"\n', "sm_80", *options) == (True, "")
