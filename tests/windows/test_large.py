"""Windows of arrays of more elements than 32 bits count."""

from __future__ import annotations

import pytest

import kspec
from tests.devices import ArrayDevice
from tests.large import count_of, filled, wrong_ones


@pytest.mark.parametrize("boundary", ["nearest", "wrap"])
def test_one_axis(place: ArrayDevice, boundary: str) -> None:
    kernel = kspec.ElementwiseKernel(
        "T u", "T v", "v = u(-1) + 2 * u(0) + 5 * u(1)", "large_line",
        windows={"u": {"reach": [1], "boundary": boundary}},
    )  # fmt: skip
    n = count_of(place)
    found = kernel(filled(place, n))
    at = f"""
    __device__ inline long long at(long long i) {{
      const long long n = {n}ll;
      return {"i < 0 ? 0 : i < n ? i : n - 1" if boundary == "nearest" else "(i + n) % n"};
    }}"""
    expected = "value(at(i - 1)) + 2 * value(i) + 5 * value(at(i + 1))"
    assert wrong_ones(found, expected, at) == 0
    assert wrong_ones(found, "value(i)", at) > n // 2, "the comparison finds nothing"


def test_two_axes(place: ArrayDevice) -> None:
    kernel = kspec.ElementwiseKernel(
        "T u", "T v", "v = u(-1, 0) + 3 * u(0, 1) + 7 * u(1, -1)", "large_plane",
        windows={"u": {"reach": [1, 1], "boundary": "constant"}},
    )  # fmt: skip
    rows, columns = (103, 101) if place.is_host else (2**15 + 3, 2**16 + 1)
    found = kernel(filled(place, rows, columns))
    at = f"""
    __device__ inline int at(long long i, int y, int x) {{
      const long long row = i / {columns} + y, column = i % {columns} + x;
      if (row < 0 || row >= {rows} || column < 0 || column >= {columns}) return 0;
      return value(row * {columns} + column);
    }}"""
    assert wrong_ones(found, "at(i, -1, 0) + 3 * at(i, 0, 1) + 7 * at(i, 1, -1)", at) == 0
