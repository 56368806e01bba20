"""Windowed inputs in references of specs: the same numbers as NumPy's own padding."""

from __future__ import annotations

import numpy as np
import pytest

from kspec.build.properties.windowed import WindowedArray
from kspec.model.neighbours.windows import BOUNDARIES, BoundWindow
from tests.windows.reference import neighbours

REACH = ((2, 1), (0, 3))


@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("shape", [(2, 5, 6), (3, 3), (4, 3)])
def test_neighbours(shape: tuple[int, ...], boundary: str) -> None:
    u = np.random.default_rng(0).integers(0, 99, shape)
    array = WindowedArray.of(u, BoundWindow("u", REACH, boundary, 7))
    for offsets, expected in neighbours(u, REACH, boundary, 7).items():
        found = array(*offsets)
        assert type(found) is np.ndarray
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("boundary", [one for one in BOUNDARIES if one != "valid"])
@pytest.mark.parametrize("shape", [(1, 1), (1, 2), (2, 1)])
def test_extents_below_the_reach(shape: tuple[int, ...], boundary: str) -> None:
    u = np.arange(1, 1 + np.prod(shape)).reshape(shape)
    array = WindowedArray.of(u, BoundWindow("u", REACH, boundary, 7))
    for offsets, expected in neighbours(u, REACH, boundary, 7).items():
        np.testing.assert_array_equal(array(*offsets), expected)


@pytest.mark.parametrize("boundary", [one for one in BOUNDARIES if one != "valid"])
def test_no_elements(boundary: str) -> None:
    array = WindowedArray.of(np.zeros((0, 4)), BoundWindow("u", REACH, boundary))
    assert array(-1, 2).shape == (0, 4)


def test_it_is_an_array() -> None:
    u = np.arange(4.0)
    array = WindowedArray.of(u, BoundWindow("u", ((1, 1),), "wrap"))
    np.testing.assert_array_equal(array * 2, u * 2)
    assert array.sum() == 6


def test_offsets_that_are_refused() -> None:
    array = WindowedArray.of(np.arange(6.0).reshape(2, 3), BoundWindow("u", REACH, "wrap"))
    with pytest.raises(IndexError, match=r"offset 2 of u .* along axis 0, which is \[-2, 1\]"):
        array(2, 0)
    with pytest.raises(TypeError, match="u needs 2 offsets, not 1"):
        array(0)
    with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
        array(0.5, 0)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="only the input itself is read at offsets"):
        (array + 1)(0, 0)
