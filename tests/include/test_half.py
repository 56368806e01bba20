from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.include.harness import Library, compile_cuda

KINDS = {"float16": np.dtype(np.float16), "bfloat16": np.dtype(ml_dtypes.bfloat16)}
SOURCES = {
    "float": np.float32,
    "double": np.float64,
    "int": np.int32,
    "unsigned": np.uint32,
    "long long": np.int64,
    "unsigned long long": np.uint64,
}

HEADER = """
#include "kspec/half.cuh"
#define MAP(NAME, FROM, TO, EXPRESSION)                                                \\
  extern "C" void NAME(long n, const FROM* x, TO* out) {                               \\
    for (long k = 0; k < n; k++) { FROM v = x[k]; out[k] = EXPRESSION; }               \\
  }
#define MAP2(NAME, FROM, TO, EXPRESSION)                                               \\
  extern "C" void NAME(long n, const FROM* x, const FROM* y, TO* out) {                \\
    for (long k = 0; k < n; k++) { FROM v = x[k], w = y[k]; out[k] = EXPRESSION; }     \\
  }
"""


def text() -> str:
    lines = [HEADER]
    for kind in KINDS:
        for source in SOURCES:
            name = f"{kind}_from_{source.replace(' ', '_')}"
            lines.append(f"MAP({name}, {source}, {kind}, {kind}(v))")
        lines += [
            f"MAP({kind}_widen, {kind}, float, (float)v)",
            f"MAP({kind}_from_bool, bool, {kind}, {kind}(v))",
            f"MAP2({kind}_add, {kind}, {kind}, v + w)",
            f"MAP2({kind}_multiply, {kind}, {kind}, v * w)",
            f"MAP2({kind}_divide, {kind}, {kind}, v / w)",
            f"MAP2({kind}_compound, {kind}, {kind}, (v += w, v *= 2, v -= 1.0, v /= w, v))",
            f"MAP2({kind}_less, {kind}, bool, v < w)",
            f"MAP2({kind}_equal, {kind}, bool, v == w)",
            f"MAP2({kind}_min, {kind}, {kind}, min(v, w))",
            f"MAP2({kind}_fmax, {kind}, {kind}, fmax(v, w))",
            f"MAP2({kind}_max_mixed, {kind}, {kind}, max(max(v, (float)w), max(-1, v)))",
            f"MAP2({kind}_nextafter, {kind}, {kind}, nextafter(v, w))",
            f"MAP2({kind}_copysign, {kind}, {kind}, copysign(v, w))",
            f"MAP({kind}_isnan, {kind}, bool, isnan(v) && v.isnan())",
            f"MAP({kind}_isinf, {kind}, bool, isinf(v) && v.isinf())",
            f"MAP({kind}_isfinite, {kind}, bool, isfinite(v) && v.isfinite())",
            f"MAP({kind}_signbit, {kind}, bool, signbit(v) && v.signbit())",
            f"MAP({kind}_iszero, {kind}, bool, iszero(v) && v.iszero())",
            f"MAP({kind}_sqrt, {kind}, {kind}, sqrt(v))",
            f"MAP({kind}_bits, {kind}, {kind}, {kind}::from_bits(v.to_bits()))",
            f"MAP({kind}_negate, {kind}, {kind}, -v)",
        ]
    return "\n".join(lines)


@pytest.fixture(scope="module")
def library() -> Library:
    return Library(text())


def every_value(kind: str) -> Any:
    return np.arange(1 << 16, dtype=np.uint16).view(KINDS[kind])


def pairs(kind: str) -> tuple[Any, Any]:
    rng = np.random.default_rng(1)
    bits = rng.integers(0, 1 << 16, (2, 200_000), dtype=np.uint16)
    special = np.array(
        [0, 0x8000, 1, 0x8001, 0x7C00, 0xFC00, 0x7E00, 0x7F80, 0xFF80, 0x7FC0, 0x3C00]
    )
    grid = np.stack(np.meshgrid(special, special), 0).reshape(2, -1).astype(np.uint16)
    both = np.concatenate([bits, grid], 1).view(KINDS[kind])
    return both[0], both[1]


def same(actual: Any, expected: Any) -> None:
    """Compare bit by bit, except that every NaN equals every other."""
    expected = expected.astype(actual.dtype)
    nan = np.isnan(expected.astype(np.float32))
    assert (np.isnan(actual.astype(np.float32)) == nan).all()
    bits = f"u{actual.dtype.itemsize}"
    np.testing.assert_array_equal(actual.view(bits)[~nan], expected.view(bits)[~nan])


@pytest.mark.parametrize("kind", KINDS)
def test_every_value_widens_and_comes_back(library: Library, kind: str) -> None:
    values = every_value(kind)
    wide = library(f"{kind}_widen", np.float32, values)
    same(wide, values.astype(np.float32))
    same(library(f"{kind}_from_float", KINDS[kind], wide), values)
    same(library(f"{kind}_bits", KINDS[kind], values), values)


def neighbours(kind: str, dtype: Any) -> Any:
    """Every value, every midpoint between two, and the numbers next to the midpoints."""
    finite = np.sort(every_value(kind).astype(dtype))
    finite = np.unique(finite[np.isfinite(finite)])
    middle = (finite[1:] / 2 + finite[:-1] / 2).astype(dtype)
    overflow = {"float16": 65520.0, "bfloat16": 3.3961775292304957e38}[kind]
    edge = np.array([overflow, -overflow, np.inf, -np.inf, np.nan, 1e-45, 0.0, -0.0], dtype)
    points = np.concatenate([finite, middle, edge])
    return np.concatenate(
        [points, np.nextafter(points, dtype(np.inf)), np.nextafter(points, dtype(-np.inf))]
    )


@pytest.mark.filterwarnings("ignore:.*encountered.*:RuntimeWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_floats_round_to_nearest_even(library: Library, kind: str) -> None:
    values = neighbours(kind, np.float32)
    same(library(f"{kind}_from_float", KINDS[kind], values), values.astype(KINDS[kind]))


@pytest.mark.filterwarnings("ignore:.*encountered.*:RuntimeWarning")
def test_doubles_round_once(library: Library) -> None:
    values = neighbours("float16", np.float64)
    same(library("float16_from_double", np.float16, values), values.astype(np.float16))
    # ml_dtypes rounds twice, by way of float; compare with exact arithmetic instead.
    values = neighbours("bfloat16", np.float64)
    values = values[np.isfinite(values) & (np.abs(values) < 3.3e38)]
    actual = library("bfloat16_from_double", KINDS["bfloat16"], values)
    bits = actual.view(np.uint16)
    for step in (1, -1):
        other = (bits + np.uint16(step % 65536)).view(KINDS["bfloat16"]).astype(np.float64)
        error, rest = np.abs(actual.astype(np.float64) - values), np.abs(other - values)
        valid = np.isfinite(other)
        assert (error <= rest)[valid].all()
        ties = (error == rest) & valid & (other != actual.astype(np.float64))
        assert (bits[ties] % 2 == 0).all()


def exact_bits(value: int) -> int:
    """Round an integer to bfloat16 with integers only."""
    size = abs(value)
    shift = max(0, size.bit_length() - 8)
    kept, rest = size >> shift, size & ((1 << shift) - 1)
    half = 1 << shift >> 1
    kept += bool(shift) and (rest > half or (rest == half and kept & 1 == 1))
    return int(np.float32((-1 if value < 0 else 1) * kept * 2.0**shift).view(np.uint32)) >> 16


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
@pytest.mark.parametrize("source", [name for name in SOURCES if name not in ("float", "double")])
def test_integers_round_once(library: Library, source: str) -> None:
    dtype = np.dtype(SOURCES[source])
    limits = np.iinfo(dtype)
    rng = np.random.default_rng(2)
    scale = 2.0 ** rng.uniform(0, 8 * dtype.itemsize - 1, 5000)
    ties = [(257 << k) + d for k in range(8 * dtype.itemsize - 10) for d in (-1, 0, 1)]
    values = [int(v) for v in scale] + ties + [limits.min, limits.max, 0, 1, 65519, 65520, 65504]
    values += [-v for v in values if limits.min <= -v <= limits.max]
    array = np.array(values, dtype)
    name = source.replace(" ", "_")
    half = library(f"float16_from_{name}", np.float16, array)
    same(half, array.astype(np.float64).astype(np.float16))
    brain = library(f"bfloat16_from_{name}", KINDS["bfloat16"], array).view(np.uint16)
    assert brain.tolist() == [exact_bits(value) for value in values]


@pytest.mark.filterwarnings("ignore:.*encountered.*:RuntimeWarning")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["add", "multiply", "divide", "less", "equal", "compound"])
def test_arithmetic_is_that_of_float(library: Library, kind: str, name: str) -> None:
    left, right = pairs(kind)
    wide, wider = left.astype(np.float32), right.astype(np.float32)
    if name in ("less", "equal"):
        expected = getattr(np, name)(wide, wider)
        np.testing.assert_array_equal(library(f"{kind}_{name}", np.bool_, left, right), expected)
        return
    if name == "compound":
        value = (wide + wider).astype(KINDS[kind])
        for step in (lambda v: v * np.float32(2), lambda v: v - np.float32(1), lambda v: v / wider):
            value = step(value.astype(np.float32)).astype(KINDS[kind])
    else:
        value = getattr(np, name)(wide, wider).astype(KINDS[kind])
    same(library(f"{kind}_{name}", KINDS[kind], left, right), value)


@pytest.mark.filterwarnings("ignore:.*encountered.*:RuntimeWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_selection(library: Library, kind: str) -> None:
    left, right = pairs(kind)
    zero = (left.astype(np.float32) == 0) & (right.astype(np.float32) == 0)
    wide, wider = (side[~zero].astype(np.float32) for side in (left, right))
    left, right = left[~zero], right[~zero]
    same(library(f"{kind}_min", KINDS[kind], left, right), np.fmin(wide, wider))
    same(library(f"{kind}_fmax", KINDS[kind], left, right), np.fmax(wide, wider))
    mixed = np.fmax(np.fmax(wide, wider), np.float32(-1))
    same(library(f"{kind}_max_mixed", KINDS[kind], left, right), mixed)


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_neighbours_and_signs(library: Library, kind: str) -> None:
    left, right = pairs(kind)
    # Between equal numbers C returns the second, NumPy's half the first: zeros differ in sign.
    expected = np.where(left == right, right, np.nextafter(left, right))
    same(library(f"{kind}_nextafter", KINDS[kind], left, right), expected)
    same(library(f"{kind}_copysign", KINDS[kind], left, right), np.copysign(left, right))
    values = every_value(kind)
    same(library(f"{kind}_negate", KINDS[kind], values), -values)


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_classification(library: Library, kind: str) -> None:
    values = every_value(kind)
    for name in ("isnan", "isinf", "isfinite", "signbit"):
        expected = getattr(np, name)(values)
        np.testing.assert_array_equal(library(f"{kind}_{name}", np.bool_, values), expected)
    zero = library(f"{kind}_iszero", np.bool_, values)
    np.testing.assert_array_equal(zero, values.astype(np.float32) == 0)


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_functions_of_float_apply(library: Library, kind: str) -> None:
    values = every_value(kind)
    expected = np.sqrt(values.astype(np.float32)).astype(KINDS[kind])
    same(library(f"{kind}_sqrt", KINDS[kind], values), expected)
    flags = np.array([True, False])
    same(library(f"{kind}_from_bool", KINDS[kind], flags), flags.astype(np.float32))


USES = """
#include "kspec/half.cuh"
template <class Half> __device__ void use(Half* x, const float* f, const int* n) {
  __shared__ Half tile[32];
  tile[threadIdx.x] = x[1] * x[2] + 1;
  x[0] = tile[0]; x[0] += x[1]; x[0] *= 2; x[0] -= 1.0; x[0] /= x[2]; x[0] = n[0]; x[0] = true;
  x[0] = 3ull; x[0] = (short)3; x[0] = 3l; x[0] = (unsigned char)1; x[0] = f[0];
  x[0] = sqrt(x[1]) + exp(x[2]); x[0] = pow(x[0], x[1]); x[0] = pow(x[0], 2); x[0] = abs(x[0]);
  x[0] = max(x[0], x[1]); x[0] = max(x[0], 0.0f); x[0] = max(0, x[0]); x[0] = min(x[0], 1.0);
  if (isnan(x[0]) || isinf(x[1]) || !isfinite(x[2]) || signbit(x[3])) x[0] = nextafter(x[0], x[1]);
  if (x[0] < x[1] && x[0] != 0 && x[0]) x[0] = -x[1];
  x[0] = x[1] > x[0] ? x[1] : x[0]; x[0] = (int)x[0] + (double)x[1];
  atomicAdd(x, x[1]);
  x[0] = Half::from_bits(x[1].to_bits());
}
extern "C" __global__ void kernel(float16* x, bfloat16* y, const float* f, const int* n) {
  use(x, f, n);
  use(y, f, n);
  x[0] = y[0]; y[0] = x[0]; y[1] = static_cast<bfloat16>(x[1]);
}
"""


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100"])
def test_compiles_for_cuda(arch: str) -> None:
    assert compile_cuda(USES, arch) == (True, "")


def test_compiles_for_the_host() -> None:
    Library(USES.replace('extern "C" __global__', "__global__"))


def test_macros_of_users_do_not_break_it() -> None:
    options = [f"-D{letter}=3" for letter in "ABCDEFGHIJKLMNOPQRSUVWXYZ"]
    assert compile_cuda('#include "kspec/half.cuh"\n', "sm_80", *options) == (True, "")
