"""8-bit floats: every code, and a dense sweep of floats, bit for bit as ml_dtypes converts them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.include.harness import Library, compile_cuda
from tests.include.test_half import HEADER

KINDS = {
    name: np.dtype(getattr(ml_dtypes, name))
    for name in (
        "float8_e4m3fn",
        "float8_e5m2",
        "float8_e4m3fnuz",
        "float8_e5m2fnuz",
        "float8_e4m3b11fnuz",
    )
}


def text() -> str:
    lines = [HEADER.replace("kspec/half.cuh", "kspec/float8.cuh")]
    for kind in KINDS:
        lines += [
            f"MAP({kind}_widen, {kind}, float, (float)v)",
            f"MAP({kind}_from_float, float, {kind}, {kind}(v))",
            f"MAP({kind}_from_double, double, {kind}, {kind}(v))",
            f"MAP({kind}_from_long, long long, {kind}, {kind}(v))",
            f"MAP({kind}_from_bool, bool, {kind}, {kind}(v))",
            f"MAP2({kind}_add, {kind}, {kind}, v + w)",
            f"MAP2({kind}_multiply, {kind}, {kind}, v * w)",
            f"MAP2({kind}_divide, {kind}, {kind}, v / w)",
            f"MAP2({kind}_compound, {kind}, {kind}, (v += w, v *= 2, v -= 1.0, v /= w, v))",
            f"MAP2({kind}_less, {kind}, bool, v < w)",
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
            f"MAP({kind}_bits, {kind}, unsigned char, {kind}::from_bits(v.to_bits()).to_bits())",
        ]
    return "\n".join(lines)


@pytest.fixture(scope="module")
def library() -> Library:
    return Library(text())


def every_value(kind: str) -> Any:
    return np.arange(256, dtype=np.uint8).view(KINDS[kind])


def pairs(kind: str) -> tuple[Any, Any]:
    left, right = np.indices((256, 256), np.uint8).reshape(2, -1)
    return left.view(KINDS[kind]), right.view(KINDS[kind])


def same(actual: Any, expected: Any) -> None:
    """Compare bit by bit, except that every NaN equals every other."""
    nan = np.isnan(expected.astype(np.float32))
    assert (np.isnan(actual.astype(np.float32)) == nan).all()
    np.testing.assert_array_equal(actual.view(np.uint8)[~nan], expected.view(np.uint8)[~nan])


@pytest.mark.parametrize("kind", KINDS)
def test_every_code_to_float(library: Library, kind: str) -> None:
    values = every_value(kind)
    wide = library(f"{kind}_widen", np.float32, values)
    np.testing.assert_array_equal(wide.view(np.uint32), values.astype(np.float32).view(np.uint32))
    np.testing.assert_array_equal(library(f"{kind}_bits", np.uint8, values), np.arange(256))


@pytest.mark.parametrize("kind", KINDS)
def test_floats_bit_for_bit(library: Library, kind: str) -> None:
    # All floats whose last 11 bits are at a rounding boundary, and random ones.
    upper = np.arange(1 << 21, dtype=np.uint32) << 11
    random = np.random.default_rng(1).integers(0, 1 << 32, 2_000_000, dtype=np.uint32)
    for bits in (upper, upper | 1, upper | 0x7FF, random):
        values = bits.view(np.float32)
        with np.errstate(all="ignore"):
            expected = values.astype(KINDS[kind]).view(np.uint8)
        actual = library(f"{kind}_from_float", np.uint8, values)
        np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("kind", KINDS)
def test_midpoints_and_their_neighbours(library: Library, kind: str) -> None:
    values = every_value(kind).astype(np.float32)
    finite = np.sort(values[np.isfinite(values)])
    middle = (finite[1:] + finite[:-1]) / 2
    floats = np.concatenate([finite, middle, np.nextafter(middle, 9e9), np.nextafter(middle, -9e9)])
    expected = floats.astype(KINDS[kind])
    np.testing.assert_array_equal(
        library(f"{kind}_from_float", np.uint8, floats.astype(np.float32)), expected.view(np.uint8)
    )
    # A double next to a midpoint is rounded once, not first to the midpoint.
    points = middle.astype(np.float64)
    doubles = np.concatenate([points * (1 + 1e-12), points * (1 - 1e-12)])
    wanted = [finite[np.argmin(np.abs(finite.astype(np.float64) - one))] for one in doubles]
    actual = library(f"{kind}_from_double", KINDS[kind], doubles)
    np.testing.assert_array_equal(actual.astype(np.float32), wanted)


@pytest.mark.parametrize("kind", KINDS)
def test_integers(library: Library, kind: str) -> None:
    numbers = np.array([0, 1, -1, 7, 100, -448, 2**40, -(2**62)], np.int64)
    expected = numbers.astype(np.float32).astype(KINDS[kind])
    same(library(f"{kind}_from_long", KINDS[kind], numbers), expected)
    bools = np.array([True, False])
    same(library(f"{kind}_from_bool", KINDS[kind], bools), bools.astype(KINDS[kind]))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_arithmetic_is_that_of_float(library: Library, kind: str) -> None:
    dtype = KINDS[kind]
    left, right = pairs(kind)
    x, y = left.astype(np.float32), right.astype(np.float32)
    for name, expected in {"add": x + y, "multiply": x * y, "divide": x / y}.items():
        same(library(f"{kind}_{name}", dtype, left, right), expected.astype(dtype))
    step = (x + y).astype(dtype)
    for operation in (lambda v: v * 2, lambda v: v - 1, lambda v: v / y):
        step = operation(step.astype(np.float32)).astype(dtype)
    same(library(f"{kind}_compound", dtype, left, right), step)
    np.testing.assert_array_equal(library(f"{kind}_less", bool, left, right), x < y)
    same(library(f"{kind}_sqrt", dtype, left), np.sqrt(x).astype(dtype))


@pytest.mark.parametrize("kind", KINDS)
def test_helpers(library: Library, kind: str) -> None:
    dtype = KINDS[kind]
    values = every_value(kind)
    wide = values.astype(np.float32)
    for name in ("isnan", "isinf", "isfinite"):
        actual = library(f"{kind}_{name}", bool, values)
        np.testing.assert_array_equal(actual, getattr(np, name)(wide))
    np.testing.assert_array_equal(library(f"{kind}_iszero", bool, values), wide == 0)
    np.testing.assert_array_equal(library(f"{kind}_signbit", bool, values), np.arange(256) >= 128)
    left, right = pairs(kind)
    x, y = left.astype(np.float32), right.astype(np.float32)
    same_value = np.testing.assert_array_equal
    smallest = library(f"{kind}_min", dtype, left, right).astype(np.float32)
    same_value(smallest, np.fmin(x, y))
    same_value(library(f"{kind}_fmax", dtype, left, right).astype(np.float32), np.fmax(x, y))
    mixed = library(f"{kind}_max_mixed", dtype, left, right).astype(np.float32)
    same_value(mixed, np.fmax(np.fmax(x, y), np.fmax(-1, x)))
    same(library(f"{kind}_nextafter", dtype, left, right), np.nextafter(left, right))
    signed = library(f"{kind}_copysign", dtype, left, right)
    same(signed, np.copysign(x, y).astype(dtype))


ARCHS = [
    *(pytest.param(one, marks=pytest.mark.slow) for one in ("compute_75", "sm_90")),
    "compute_120",
]


@pytest.mark.parametrize("arch", ARCHS)
def test_cuda_compiles_it(arch: str) -> None:
    code = text().replace('extern "C" void', 'extern "C" __global__ void')
    ok, log = compile_cuda(code, arch)
    assert ok, log
