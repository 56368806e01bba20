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
