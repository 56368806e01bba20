"""Kernels with core dimensions on more elements, and more items, than 32 bits count."""

from __future__ import annotations

import kspec
from tests.devices import ArrayDevice
from tests.large import count_of, filled, wrong_ones

REVERSE = kspec.ElementwiseKernel(
    "T x[3]", "T y[3]", "for (int k = 0; k < 3; ++k) y(k) = x(2 - k);", "core_large_reverse"
)
PLUS_ONE = kspec.ElementwiseKernel("T x[1]", "T y[1]", "y(0) = x(0) + 1;", "core_large_plus_one")


def test_elements(place: ArrayDevice) -> None:
    x = filled(place, count_of(place) // 3 + 1, 3)
    assert wrong_ones(REVERSE(x), "value(i - i % 3 + 2 - i % 3)") == 0


def test_items(place: ArrayDevice) -> None:
    x = filled(place, count_of(place), 1)
    assert wrong_ones(PLUS_ONE(x), "value(i) + 1") == 0
