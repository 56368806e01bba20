"""Forms of reductions of more elements than 32 bits count."""

from __future__ import annotations

import numpy as np
import pytest

import kspec
from tests.devices import OWN_CUDA, OWN_HOST, ArrayDevice
from tests.large import count_of, filled, wrong_ones

PLACES = [
    pytest.param(OWN_HOST, id="host"),
    pytest.param(OWN_CUDA, id="cuda", marks=pytest.mark.gpu),
]
SUM = kspec.ReductionKernel("T x", "T y", "x", "a + b", "y = a", "0", "large_sum")
MODULO = kspec.ReductionKernel("uint8 x", "int64 y", "x % 7", "a + b", "y = a", "0", "large_sevens")
# The elements are their numbers modulo 7.
SEVENS = kspec.ElementwiseKernel("", "uint8 x", "x = i % 7", "large_fill_sevens")
TOTAL = """
__device__ inline long long total(long long n) {  // of the elements before number n
  const long long rest = n % 7;
  return n / 7 * 21 + rest * (rest - 1) / 2;
}
"""


def total(n: np.ndarray) -> np.ndarray:
    """Return the sum of the elements before each number, as the preamble above."""
    rest = n % 7
    return n // 7 * 21 + rest * (rest - 1) // 2


@pytest.mark.parametrize("device", PLACES)
def test_scans(device: ArrayDevice) -> None:
    n = count_of(device)
    x = kspec.empty((n,), "uint8", device=device.place)
    SEVENS(x)
    assert wrong_ones(SUM.scan(x), "total(i + 1)", TOTAL) == 0
    assert wrong_ones(SUM.scan(x, exclusive=True), "total(i)", TOTAL) == 0
    found = SUM.scan(x, reverse=True)
    assert wrong_ones(found, f"total({n}ll) - total(i)", TOTAL) == 0


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("device", PLACES)
def test_scans_of_rows(device: ArrayDevice, axis: int) -> None:
    rows, columns = (103, 7 * 21) if device.is_host else (2**15 + 3, 7 * 9363)
    x = kspec.empty((rows, columns), "uint8", device=device.place)
    SEVENS(x)
    expected = (f"total(i % {columns} + 1)", f"(i / {columns} + 1) * (i % 7)")[axis == 0]
    assert wrong_ones(SUM.scan(x, axis=axis), expected, TOTAL) == 0


@pytest.mark.parametrize("device", PLACES)
def test_segments(device: ArrayDevice) -> None:
    n = count_of(device)
    x = kspec.empty((n,), "uint8", device=device.place)
    SEVENS(x)
    bounds = np.sort(np.random.default_rng(0).integers(0, n + 1, 5000))
    bounds[0], bounds[-1], bounds[2000:2003] = 0, n, bounds[2000]
    found = kspec.asnumpy(MODULO.segments(x, kspec.asarray(bounds, device=device.place)))
    np.testing.assert_array_equal(found, np.diff(total(bounds)))


@pytest.mark.parametrize("device", PLACES)
def test_windows(device: ArrayDevice) -> None:
    n = count_of(device)
    found = SUM.window(filled(device, n), 3)
    assert found.shape == (n - 2,)
    assert wrong_ones(found, "value(i) + value(i + 1) + value(i + 2)") == 0
