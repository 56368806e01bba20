"""Sliding windows: values, boundaries, several axes, layouts, dtypes, outputs, bad input."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.exceptions import AxisError
from numpy.lib.stride_tricks import sliding_window_view

import kspec
from kspec.errors import ArgumentTypeError, NotSupportedError, OverlapError, ShapeError
from tests.devices import ArrayDevice
from tests.forms.kernels import MAX, MEAN, MODELS, SUM
from tests.forms.reference import integers
from tests.profiles import examples

# NumPy's names of the boundaries, which `np.pad` has.
PADDED = {"nearest": "edge", "reflect": "symmetric", "mirror": "reflect", "wrap": "wrap"}


def rolling(
    x: Any, sizes: Any, axes: Any, boundary: str = "valid", steps: Any = None, reduce: Any = np.sum
) -> Any:
    """Return the outputs, computed window by window."""
    axes = [axis % x.ndim for axis in axes]
    steps = steps or [1] * len(axes)
    if boundary not in ("valid", "shrink"):
        widths = [(0, 0)] * x.ndim
        for axis, size in zip(axes, sizes, strict=True):
            widths[axis] = (size // 2, size - 1 - size // 2)
        x = np.pad(x, widths, PADDED[boundary])
    if boundary != "shrink":
        views = sliding_window_view(x, sizes, axes)
        found = reduce(views, axis=tuple(range(x.ndim, x.ndim + len(axes))))
        places = [slice(None)] * x.ndim
        for axis, step in zip(axes, steps, strict=True):
            places[axis] = slice(None, None, step)
        return found[tuple(places)]
    shape = list(x.shape)
    for axis, step in zip(axes, steps, strict=True):
        shape[axis] = -(-shape[axis] // step)
    found = np.empty(shape, x.dtype)
    for at in itertools.product(*map(range, shape)):
        place: list[Any] = list(at)
        for axis, size, step in zip(axes, sizes, steps, strict=True):
            first = at[axis] * step - size // 2
            place[axis] = slice(max(0, first), first + size)
        found[at] = reduce(x[tuple(place)])
    return found


class TestValues:
    @pytest.mark.parametrize("boundary", ["valid", *PADDED, "shrink"])
    @pytest.mark.parametrize("size", [1, 2, 3, 8])
    def test_one_axis(self, boundary: str, size: int, device: ArrayDevice) -> None:
        x = integers(3, 11, 9)
        for axis in range(3):
            if boundary == "valid" and size > x.shape[axis]:
                continue
            if boundary != "shrink" and size // 2 >= x.shape[axis]:
                continue  # NumPy pads no further
            found = SUM.window(device.array(x), size, axis=axis, boundary=boundary)
            np.testing.assert_array_equal(device.numpy(found), rolling(x, [size], [axis], boundary))

    def test_windows_longer_than_the_axis(self, device: ArrayDevice) -> None:
        x = device.array([1, 10, 100])
        wrapped = device.numpy(SUM.window(x, 7, boundary="wrap"))
        assert wrapped.tolist() == [
            sum([1, 10, 100][(at - 3 + k) % 3] for k in range(7)) for at in range(3)
        ]
        assert device.numpy(SUM.window(x, 7, boundary="shrink")).tolist() == [111, 111, 111]
        assert device.numpy(SUM.window(x, 7, boundary="nearest")).tolist() == [
            4 * 1 + 10 + 2 * 100,
            3 * 1 + 10 + 3 * 100,
            2 * 1 + 10 + 4 * 100,
        ]

    @pytest.mark.parametrize("boundary", ["valid", "reflect", "shrink"])
    def test_several_axes_and_steps(self, boundary: str, device: ArrayDevice) -> None:
        x = integers(6, 7, 4, 8)
        for axes, sizes, steps in (
            ((1, 3), (2, 3), (1, 1)),
            ((3, 0), (2, 4), (2, 1)),
            ((0, 1, 2), (2, 3, 2), (2, 2, 2)),
            ((-4, -3, -2, -1), (2, 3, 2, 2), (1, 2, 1, 3)),
        ):
            found = SUM.window(device.array(x), sizes, axis=axes, boundary=boundary, step=steps)
            wanted = rolling(x, sizes, axes, boundary, steps)
            np.testing.assert_array_equal(device.numpy(found), wanted, str(axes))

    def test_one_size_for_all_axes(self, device: ArrayDevice) -> None:
        x = integers(8, 9).astype("int32")
        found = MAX.window(device.array(x), 2, axis=(0, 1), step=2)
        np.testing.assert_array_equal(
            device.numpy(found), rolling(x, (2, 2), (0, 1), "valid", (2, 2), np.max)
        )

    @pytest.mark.parametrize("name", MODELS)
    def test_every_kernel_is_its_segments(self, name: str, device: ArrayDevice) -> None:
        model = MODELS[name]
        inputs = model.draw(23)
        arrays = [device.array(one) for one in inputs]
        found = model.kernel.window(*arrays, 6)
        outputs = found if isinstance(found, tuple) else (found,)
        model.check(tuple(map(device.numpy, outputs)), model.windows(inputs, 6))

    def test_the_count_is_that_of_the_window(self, device: ArrayDevice) -> None:
        x = np.random.default_rng(0).random((4, 9))
        found = MEAN.window(device.array(x), 4, boundary="shrink")
        wanted = rolling(x, [4], [1], "shrink", reduce=np.mean)
        np.testing.assert_allclose(device.numpy(found), wanted, rtol=1e-14)

    def test_places(self, device: ArrayDevice) -> None:
        kernel = kspec.ReductionKernel(
            "T x", "int64 y", "100 * _i + 10 * _J + x", "max(a, b)", "y = a", "0", "placed"
        )
        found = kernel.window(device.array([0, 0, 0, 5]), 3, boundary="shrink")
        assert device.numpy(found).tolist() == [20, 120, 225, 315]


class TestArrays:
    @settings(max_examples=examples(40), deadline=None)
    @given(st.data())
    def test_any_layout(self, data: st.DataObject) -> None:
        shape = data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=3))
        x = integers(*(2 * one for one in shape))
        x = x[tuple(slice(None, None, data.draw(st.sampled_from([1, 2, -1, -2]))) for _ in shape)]
        x = x.transpose(data.draw(st.permutations(range(x.ndim))))
        axis = data.draw(st.integers(0, x.ndim - 1))
        boundary = data.draw(st.sampled_from(["valid", *PADDED, "shrink"]))
        size = data.draw(st.integers(1, x.shape[axis]))
        step = data.draw(st.integers(1, 3))
        found = SUM.window(x, size, axis=axis, boundary=boundary, step=step)
        np.testing.assert_array_equal(found, rolling(x, [size], [axis], boundary, [step]))

    def test_given_outputs_and_empty_ones(self, device: ArrayDevice) -> None:
        x = device.array(integers(5, 8))
        out = device.zeros((6, 5), "int64").T
        assert SUM.window(x, 3, out=out) is out
        wanted = rolling(integers(5, 8), [3], [1])
        np.testing.assert_array_equal(device.numpy(out), wanted)
        assert SUM.window(device.zeros((0, 4)), 2).shape == (0, 3)
        assert SUM.window(device.zeros((0, 4)), 2, axis=0, boundary="wrap").shape == (0, 4)

    def test_repeated_calls(self, device: ArrayDevice) -> None:
        kernel = kspec.ReductionKernel.from_spec(SUM.spec)
        arrays = [integers(4, 30, seed=k) for k in range(4)]
        for x in arrays * 2:
            for size, axis in ((3, 1), (5, 1), ((2, 2), (0, 1))):
                found = kernel.window(device.array(x), size, axis=axis)
                sizes, axes = (size, axis) if isinstance(size, tuple) else ([size], [axis])
                np.testing.assert_array_equal(device.numpy(found), rolling(x, sizes, axes))
        assert kernel.cache_info().plans >= 3

    def test_numbers_that_equal_integers(self) -> None:
        """A plan of the calls before must not let them through."""
        kernel, x = kspec.ReductionKernel.from_spec(SUM.spec), integers(4, 30)
        for _ in range(4):
            kernel.window(x, (2, 1), axis=(0, 1))
            with pytest.raises(ArgumentTypeError, match="size must be an integer or a tuple"):
                kernel.window(x, (2.0, 1), axis=(0, 1))
            with pytest.raises(ArgumentTypeError, match="axis must be an integer or a tuple"):
                kernel.window(x, (2, 1), axis=(False, True))


def refused(*args: Any, kernel: Any = SUM, **keywords: Any) -> str:
    with pytest.raises(
        (ArgumentTypeError, ShapeError, AxisError, NotSupportedError, OverlapError)
    ) as caught:
        kernel.window(*args, **keywords)
    return f"{type(caught.value).__name__}: {caught.value}"


def test_bad_calls() -> None:
    x = np.zeros((3, 7))
    name = SUM.name
    assert refused(x) == (
        f"ArgumentTypeError: {name}.window() takes 2 positional arguments (T x, size), not 1"
    )
    assert refused(x, 8) == (
        f"ShapeError: {name}: a window of 8 does not fit axis 1, which has 7 elements; choose "
        "another boundary than 'valid'"
    )
    assert refused(x, 0) == f"ShapeError: {name}: size must be 1 or more, not 0"
    assert refused(x, 2, step=0) == f"ShapeError: {name}: step must be 1 or more, not 0"
    assert refused(x, (2, 3)) == (
        f"ShapeError: {name}: size has 2 numbers, and windows slide along 1 axis"
    )
    assert refused(x, 2.5) == (
        f"ArgumentTypeError: {name}: size must be an integer or a tuple of integers, not 2.5"
    )
    assert refused(x, 2, axis=()) == (
        f"ArgumentTypeError: {name}: axis must be an integer or a tuple of integers, not ()"
    )
    assert refused(x, 2, axis=2) == (
        f"AxisError: {name}: axis 2 is out of bounds for array of dimension 2"
    )
    assert refused(x, 2, axis=(0, -2)) == f"ShapeError: {name}: an axis is given twice: (0, -2)"
    assert refused(x, 2, boundary="same") == (
        f"ArgumentTypeError: {name}: boundary is 'same'; expected one of valid, nearest, reflect, "
        "mirror, wrap, shrink"
    )
    five = np.zeros((2,) * 5)
    assert refused(five, 2, axis=(0, 1, 2, 3, 4)) == (
        f"ShapeError: {name}: windows slide along 4 axes at most, not 5"
    )
    assert refused(x, 3, out=np.zeros((3, 7))) == (
        f"ShapeError: Out shape is mismatched: {name}: output y has shape (3, 7), the result (3, 5)"
    )
    assert refused(x, 3, boundary="wrap", out=x).startswith(
        f"OverlapError: {name}: argument y is written to, and its memory overlaps"
    )
