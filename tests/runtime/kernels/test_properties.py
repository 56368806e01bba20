"""Random shapes and strides against NumPy: broadcasting, views, reduced axes."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import kspec
from tests.devices import ArrayDevice
from tests.profiles import examples

COMBINE = kspec.ElementwiseKernel("T x, T y", "T z", "z = x + 1000 * y", "combine")
ENUMERATE = kspec.ElementwiseKernel("T x", "T y", "y = x * 100000 + i", "enumerate_elements")
TOTAL = kspec.ReductionKernel("T x", "T y", "x", "a + b", "y = a", "0", "total")
POSITIONS = kspec.ReductionKernel(
    "T x", "T y", "x * _J + 7 * _i", "a + b", "y = a", "0", "positions"
)

drawn = settings(
    max_examples=examples(50),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def sources(shape: tuple[int, ...], start: int = 1) -> np.ndarray:
    return np.arange(start, start + np.prod(shape, dtype=int), dtype=np.int64).reshape(shape)


@st.composite
def views(draw: Any, shape: tuple[int, ...]) -> tuple[tuple[int, ...], Any, Any]:
    """Draw a larger shape, axes and an index whose view of it has `shape`."""
    steps = [draw(st.sampled_from([1, 1, -1, 2, -3])) for _ in shape]
    offsets = [draw(st.integers(0, 2)) for _ in shape]
    whole, index = [], []
    for extent, step, offset in zip(shape, steps, offsets, strict=True):
        span = max(0, extent - 1) * abs(step) + offset + (extent > 0)
        whole.append(span)
        stop = span if step > 0 else offset - 1
        first = offset if step > 0 else span - 1
        index.append(slice(first, None if stop < 0 else stop, step) if extent else slice(0, 0))
    axes = draw(st.permutations(range(len(shape))))
    return tuple(whole), tuple(index), tuple(axes)


def apply(array: Any, view: tuple[tuple[int, ...], Any, Any]) -> Any:
    """Return the view of `array`, which lies in memory with its axes permuted."""
    _, index, axes = view
    inverse = tuple(int(axis) for axis in np.argsort(axes))
    # The ellipsis keeps a 0-d array an array.
    return (array.transpose(*inverse) if axes else array)[(*index, ...)]


def stored(view: tuple[tuple[int, ...], Any, Any], start: int = 1) -> np.ndarray:
    whole, _, axes = view
    return sources(tuple(whole[axis] for axis in axes), start)


SHAPES = hnp.array_shapes(min_dims=0, max_dims=5, min_side=0, max_side=5)


@st.composite
def broadcastable(draw: Any) -> tuple[Any, Any]:
    shapes = draw(hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=5, max_side=5))
    return tuple(draw(views(shape)) for shape in shapes.input_shapes)  # type: ignore[return-value]


@drawn
@given(broadcastable())
def test_views_broadcast_as_in_numpy(place: ArrayDevice, case: tuple[Any, Any]) -> None:
    x, y = stored(case[0]), stored(case[1], 500)
    z = COMBINE(apply(place.array(x), case[0]), apply(place.array(y), case[1]))
    expected = apply(x, case[0]) + 1000 * apply(y, case[1])
    assert z.shape == expected.shape
    np.testing.assert_array_equal(place.numpy(z), expected)


@drawn
@given(SHAPES.flatmap(lambda shape: st.tuples(views(shape), views(shape))))
def test_the_index_is_that_of_c_order(place: ArrayDevice, case: tuple[Any, Any]) -> None:
    x = stored(case[0])
    target = place.array(np.full_like(stored(case[1]), -1))
    ENUMERATE(apply(place.array(x), case[0]), apply(target, case[1]))
    expected = np.full_like(stored(case[1]), -1)
    view = apply(expected, case[1])
    view[...] = apply(x, case[0]) * 100000 + np.arange(view.size).reshape(view.shape)
    np.testing.assert_array_equal(place.numpy(target), expected)


@st.composite
def reductions(draw: Any) -> tuple[Any, Any, bool]:
    shape = draw(SHAPES)
    axes = st.integers(-len(shape), len(shape) - 1) if shape else st.nothing()
    unique = st.lists(axes, unique_by=lambda axis: axis % len(shape)).map(tuple)
    axis = draw(st.one_of(st.none(), unique, axes) if shape else st.sampled_from([None, ()]))
    return draw(views(shape)), axis, draw(st.booleans())


@drawn
@given(reductions())
def test_reductions_over_any_axes(place: ArrayDevice, case: tuple[Any, Any, bool]) -> None:
    view, axis, keepdims = case
    x = stored(view)
    y = TOTAL(apply(place.array(x), view), axis=axis, keepdims=keepdims)
    expected = np.sum(apply(x, view), axis=axis, keepdims=keepdims)
    assert y.shape == expected.shape
    np.testing.assert_array_equal(place.numpy(y), expected)


@drawn
@given(reductions())
def test_positions_along_any_axes(place: ArrayDevice, case: tuple[Any, Any, bool]) -> None:
    view, axis, keepdims = case
    x = apply(stored(view), view)
    y = POSITIONS(apply(place.array(stored(view)), view), axis=axis, keepdims=keepdims)
    every = range(x.ndim)
    reduced = every if axis is None else (axis,) if isinstance(axis, int) else axis
    last = sorted(one % x.ndim for one in reduced)
    kept = [one for one in every if one not in last]
    rows = x.transpose(*kept, *last).reshape(
        [x.shape[one] for one in kept] + [int(np.prod([x.shape[one] for one in last], dtype=int))]
    )
    index = np.arange(np.prod(rows.shape[:-1], dtype=int)).reshape(rows.shape[:-1])
    expected = (rows * np.arange(rows.shape[-1]) + 7 * index[..., None]).sum(axis=-1)
    np.testing.assert_array_equal(place.numpy(y).reshape(expected.shape), expected)
