"""Windows over rows that are not made of packs: a block of a GPU copies what it reads first.

Like `tests.windows.test_cuda_loop` with the GPU's headers and schedule on the CPU, where copies are
those of older GPUs.
"""

from __future__ import annotations

import numpy as np
import pytest

import kspec
from tests.windows.reference import ALL, BOUNDARIES, Array, correlate, integers, neighbours
from tests.windows.sums import SHIFTS, boundary_of
from tests.windows.test_cuda_loop import SUM_OF_NINE, anew, cuda_loop
from tests.windows.test_windows import windowed

__all__ = ["cuda_loop"]
NINE = np.arange(1, 10).reshape(3, 3)
LINE = windowed("T v", "v = u(-2) + 2 * u(-1) + 3 * u + 4 * u(1) + 5 * u(2)", "line", [2])
FIVE = np.arange(1, 6)
DTYPES = ["float32", "float64", "complex64", "complex128", "int16", "uint8"]


def aligned(shape: tuple[int, ...], dtype: str, skipped: int = 0) -> Array:
    """Return whole numbers that begin so many elements behind a multiple of 256 bytes."""
    values = integers(*shape, dtype="float64").astype("int8").astype(dtype)
    room = np.empty(values.nbytes + 512, np.uint8)
    start = -room.ctypes.data % 256 + skipped * values.itemsize
    found = room[start : start + values.nbytes].view(dtype).reshape(shape)
    found[...] = values
    return found


@pytest.mark.parametrize("shift", SHIFTS)
@pytest.mark.parametrize("number", range(len(DTYPES)))
def test_planes(number: int, shift: int) -> None:
    """One and several tiles in both directions, complete ones and parts."""
    dtype, boundary = DTYPES[number], boundary_of(number, shift)
    kernel = anew(SUM_OF_NINE)
    shapes = [(21, 777), (2, 37, 129), (3, 5, 63), (70, 3), (2, 1, 300), (33, 257), (2, 27, 27)]
    for shape in shapes:
        if boundary == "valid" and shape[-2] < 3:
            continue
        for skipped in (0, 1):
            u = aligned(shape, dtype, skipped)
            expected = correlate(u, NINE, boundary).astype(dtype)
            np.testing.assert_array_equal(kernel(u, boundary=boundary), expected)


@pytest.mark.parametrize("shift", SHIFTS)
@pytest.mark.parametrize("number", range(len(DTYPES)))
def test_lines(number: int, shift: int) -> None:
    dtype, boundary = DTYPES[number], boundary_of(number, shift)
    kernel = anew(LINE)
    for shape in [(2309,), (3, 1025), (5, 31), (7,)]:
        for skipped in (0, 3):
            u = aligned(shape, dtype, skipped)
            expected = correlate(u, FIVE, boundary).astype(dtype)
            np.testing.assert_array_equal(kernel(u, boundary=boundary), expected)


@pytest.mark.parametrize("boundary", ALL)
def test_layouts(boundary: str) -> None:
    """Rows that are part of others, go backwards, have gaps, or lie across."""
    kernel, u = anew(SUM_OF_NINE), aligned((61, 611), "float32")
    for view in (u[3:-1, 5:-2], u[::-1, ::-1], u[:, ::2], u.T, u[::-2], u[:, :1].repeat(300, 1)):
        expected = correlate(view, NINE, boundary)
        for given in (
            np.empty(expected.shape, "float32"),
            np.empty(expected.shape[::-1], "float32").T,
            np.empty((expected.shape[0], 2 * expected.shape[1] + 1), "float32")[:, 1::2],
        ):
            assert kernel(view, given, boundary=boundary) is given
            np.testing.assert_array_equal(given, expected)


def test_in_place_of_an_input_without_a_window() -> None:
    """Lanes write elements that other lanes of their warp have read."""
    kernel = anew(
        kspec.ElementwiseKernel(
            "T u, T w",
            "T v",
            "v = w + u(0, -1) - u(1, 0)",
            "step",
            windows={"u": {"reach": [1, 1], "boundary": "wrap"}},
        )
    )
    u, w = aligned((37, 523), "float32"), aligned((37, 523), "float32", 1)
    expected = w + np.roll(u, 1, 1) - np.roll(u, -1, 0)
    assert kernel(u, w, w) is w
    np.testing.assert_array_equal(w, expected)


def test_two_windows_and_what_is_no_window() -> None:
    kernel = anew(
        kspec.ElementwiseKernel(
            "T u, S c, T h, raw T r",
            "T v, int64 k",
            "v = c(-1) * u(1, 0) + h + r[0]; k = i",
            "two_windows",
            windows={
                "u": {"reach": [1, 1], "boundary": "wrap"},
                "c": {"reach": [1], "boundary": "mirror"},
            },
        )
    )
    for shape in [(2, 21, 41), (19, 523)]:
        u, c = aligned(shape, "float32"), aligned(shape, "int16")
        h, r = integers(shape[-2], 1, dtype="float32"), integers(3, dtype="float32")
        v, k = kernel(u, c, h, r)
        before = neighbours(c, [(1, 1)], "mirror")[-1,]
        np.testing.assert_array_equal(v, before * np.roll(u, -1, -2) + h + r[0])
        np.testing.assert_array_equal(k, np.arange(u.size).reshape(u.shape))


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_outputs_that_are_kept_where_nothing_is_written(boundary: str) -> None:
    kernel = anew(windowed("T v", "if (u(0, 1) > u) v = u(0, 1)", "rising", [1, 1]))
    u, v = aligned((21, 601), "float64"), np.full((21, 601), 7.0)
    right = neighbours(u, [(1, 1), (1, 1)], boundary)[0, 1]
    kernel(u, v, boundary=boundary)
    np.testing.assert_array_equal(v, np.where(right > u, right, 7.0))


@pytest.mark.parametrize(("count", "reach"), [(1, 4), (2, 1), (3, 1), (6, 4)])
def test_several_windows(count: int, reach: int) -> None:
    """Of which two of reach 1 have room in shared memory, and three do not."""
    names = [f"u{k}" for k in range(count)]
    far = f"{reach}, {-reach}"
    kernel = anew(
        kspec.ElementwiseKernel(
            ", ".join(f"T {name}" for name in names),
            "T v",
            "v = " + " + ".join(f"{k + 1} * {name}({far})" for k, name in enumerate(names)),
            f"windows_{count}_{reach}",
            windows={name: {"reach": [reach, reach], "boundary": "wrap"} for name in names},
        )
    )
    arrays = [integers(45, 333, dtype="float64", seed=k) for k in range(count)]
    expected = sum((k + 1) * np.roll(u, (-reach, reach), (0, 1)) for k, u in enumerate(arrays))
    np.testing.assert_array_equal(kernel(*arrays), expected)
