"""Properties of broadcasting and collapsing, against NumPy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import mutually_broadcastable_shapes

from kspec.errors import ArgumentTypeError, ShapeError
from kspec.model.shapes import broadcast_shapes, normalize_axes
from kspec.runtime import schedules as layout
from kspec.runtime.schedules import Axes


@given(mutually_broadcastable_shapes(num_shapes=3, max_dims=5, max_side=4, min_side=0))
def test_broadcasting_is_numpys(shapes) -> None:
    assert broadcast_shapes(shapes.input_shapes) == shapes.result_shape
    for shape in shapes.input_shapes:
        array = np.empty(shape, np.float32)
        want = np.broadcast_to(array, shapes.result_shape)
        got = layout.broadcast_strides(shape, array.strides, shapes.result_shape)
        moving = [extent > 1 for extent in shapes.result_shape]
        assert [g for g, m in zip(got, moving, strict=True) if m] == [
            w for w, m in zip(want.strides, moving, strict=True) if m
        ]


def test_what_does_not_broadcast_says_which_shapes() -> None:
    with pytest.raises(ShapeError, match=r"could not be broadcast together with shapes \(2, 3\)"):
        broadcast_shapes([(2, 3), (4,)])


@st.composite
def views(draw):
    """Two views of equal shape with any strides numpy can make by slicing and transposing."""
    ndim = draw(st.integers(0, 4))
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=ndim, max_size=ndim)))

    def view():
        order = draw(st.permutations(range(ndim)))
        steps = [draw(st.sampled_from([1, 2, -1, -3])) for _ in range(ndim)]
        big = np.zeros([shape[k] * abs(steps[k]) for k in order], np.int16)
        array = big.transpose(np.argsort(order)) if ndim else big
        return array[tuple(slice(None, None, step) for step in steps)]

    return shape, [view(), view()]


@given(views(), st.booleans())
def test_collapsed_axes_visit_the_same_elements(case, keep_order: bool) -> None:
    shape, arrays = case
    axes = layout.collapse(shape, [array.strides for array in arrays], keep_order)
    assert axes.size == math.prod(shape)
    assert all(extent > 1 for extent in axes.extents)

    def offsets(extents, strides):
        grid = np.zeros((1,), int)
        for extent, steps in zip(extents, strides, strict=True):
            grid = np.add.outer(np.arange(extent) * steps, grid).ravel()
        return grid

    got = [offsets(axes.extents, strides) for strides in axes.strides]
    want = [offsets(shape[::-1], array.strides[::-1]) for array in arrays]
    if keep_order:
        assert np.array_equal(got, want)
    else:
        assert sorted(zip(*got, strict=True)) == sorted(zip(*want, strict=True))


def test_equal_layouts_of_any_order_become_one_axis() -> None:
    strides = (4, 24, 8)  # a permutation of a contiguous (2, 3, ...) block
    axes = layout.collapse((2, 5, 3), [strides, strides], keep_order=False)
    assert axes == Axes((30,), ((4,), (4,)))


def test_the_output_decides_which_axis_is_innermost() -> None:
    axes = layout.collapse((100, 50), [(4, 400), (200, 4)], keep_order=False)
    assert axes == Axes((50, 100), ((400, 4), (4, 200)))


@pytest.mark.parametrize(
    ("axis", "want"), [(None, (0, 1, 2)), (1, (1,)), (-1, (2,)), ((2, 0), (0, 2)), ((), ())]
)
def test_axes_are_normalised(axis, want) -> None:
    assert normalize_axes(axis, 3) == want


@pytest.mark.parametrize(
    ("axis", "error", "message"),
    [
        (3, np.exceptions.AxisError, "a reduction: axis 3 is out of bounds"),
        ((0, -3), ShapeError, "duplicate value in 'axis'"),
        (1.5, ArgumentTypeError, "axis must be an integer"),
        ("x", ArgumentTypeError, "axis must be an integer"),
        (True, ArgumentTypeError, "axis must be an integer"),
    ],
)
def test_bad_axes(axis, error, message: str) -> None:
    with pytest.raises(error, match=message):
        normalize_axes(axis, 3)


def test_axes_may_be_kept_as_they_are() -> None:
    axes = layout.collapse((2, 1, 3), [(24, 24, 8), (0, 0, 8)], merge=False)
    assert axes == Axes((3, 1, 2), ((8, 24, 24), (8, 0, 0)))
    assert layout.collapse((), [()], merge=False) == Axes((), ((),))
