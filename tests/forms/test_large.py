"""Forms of reductions of more elements than 32 bits count."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kspec
from tests.devices import ArrayDevice
from tests.large import TOTAL, count_of, filled, wrong_ones

SUM = kspec.ReductionKernel("T x", "T y", "x", "a + b", "y = a", "0", "large_sum")
# The elements are their numbers modulo 7, and the sum of those before number n is before(n).
SEVENS = kspec.ElementwiseKernel("", "uint8 x", "x = i % 7", "large_fill_sevens")
BEFORE = """
__device__ inline long long before(long long n) {
  const long long rest = n % 7;
  return n / 7 * 21 + rest * (rest - 1) / 2;
}
"""
SUM_BEFORE = kspec.ElementwiseKernel(
    "int64 n", "int64 y", "y = before(n)", "large_sum_before", preamble=BEFORE
)


def sevens(place: ArrayDevice, *shape: int) -> Any:
    """Return an array of bytes, whose elements are their numbers modulo 7."""
    x = kspec.empty(shape, "uint8", device=place.place)
    SEVENS(x)
    return x


def test_scans(place: ArrayDevice) -> None:
    n = count_of(place)
    x = sevens(place, n)
    assert wrong_ones(SUM.scan(x), "before(i + 1)", BEFORE) == 0
    assert wrong_ones(SUM.scan(x, exclusive=True), "before(i)", BEFORE) == 0
    found = SUM.scan(x, reverse=True)
    assert wrong_ones(found, f"before({n}ll) - before(i)", BEFORE) == 0


@pytest.mark.parametrize("axis", [0, 1])
def test_scans_of_rows(place: ArrayDevice, axis: int) -> None:
    rows, columns = (103, 7 * 21) if place.is_host else (2**15 + 3, 7 * 9363)
    x = sevens(place, rows, columns)
    expected = (f"before(i % {columns} + 1)", f"(i / {columns} + 1) * (i % 7)")[axis == 0]
    assert wrong_ones(SUM.scan(x, axis=axis), expected, BEFORE) == 0


def test_segments(place: ArrayDevice) -> None:
    n = count_of(place)
    x = sevens(place, n)
    bounds = np.sort(np.random.default_rng(0).integers(0, n + 1, 5000))
    bounds[0], bounds[-1], bounds[2000:2003] = 0, n, bounds[2000]
    found = kspec.asnumpy(TOTAL.segments(x, kspec.asarray(bounds, device=place.place)))
    np.testing.assert_array_equal(found, np.diff(SUM_BEFORE(bounds)))


def test_windows(place: ArrayDevice) -> None:
    n = count_of(place)
    found = SUM.window(filled(place, n), 3)
    assert found.shape == (n - 2,)
    assert wrong_ones(found, "value(i) + value(i + 1) + value(i + 2)") == 0


# The same sums, in an expression that is not known: elements have to keep their order.
ORDERED = kspec.ReductionKernel(
    "uint8 x", "int64 y", "x", "a + b + 0", "y = a", "0", "large_ordered"
)
KEYS = kspec.ElementwiseKernel("int32 n", "int32 key", "key = i % n", "large_keys")


@pytest.mark.parametrize("n", [7, 100_003])
def test_keys(n: int, place: ArrayDevice) -> None:
    count = count_of(place)
    x, keys = sevens(place, count), kspec.empty((count,), "int32", device=place.place)
    KEYS(n, keys)
    key = np.arange(n)
    elements = np.maximum(count - key + n - 1, 0) // n
    turns, rest = elements // 7, elements % 7
    wanted = turns * 21 if n % 7 else elements * key
    for j in range(7 if n % 7 else 0):
        wanted = wanted + np.where(j < rest, (key + n * j) % 7, 0)
    for kernel, deterministic in ((TOTAL, True), (ORDERED, True), (ORDERED, False)):
        found = kernel.by_key(x, keys, n, deterministic=deterministic)
        np.testing.assert_array_equal(kspec.asnumpy(found), wanted)
