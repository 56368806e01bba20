"""argmax and mean_var against NumPy: axes, layouts, ties, NaN, infinities, nothing at all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.devices import ArrayDevice
from tests.specs.test_shipped import kernel

AXES = [None, 0, 1, -1, (0, 2), (2, 0, 1)]
VIEWS = [np.s_[...], np.s_[::-1], np.s_[:, ::2, ::-3], np.s_[..., None, 1]]
FLOATS = ["float16", "float32", "float64"]


def normal(*shape: int, dtype: str = "float64", seed: int = 3) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def argmax_of(x: np.ndarray, axis: Any, keepdims: bool = False) -> np.ndarray:
    """`numpy.argmax`, for several axes too: positions in C order over the reduced ones."""
    if axis is None:
        return np.argmax(x, keepdims=keepdims)
    axes = sorted(one % x.ndim for one in (axis if isinstance(axis, tuple) else (axis,)))
    kept = [one for one in range(x.ndim) if one not in axes]
    rows = x.transpose(*kept, *axes).reshape(*(x.shape[k] for k in kept), -1)
    result = np.argmax(rows, axis=-1)
    return np.expand_dims(result, tuple(axes)) if keepdims else result


class TestArgmax:
    @pytest.mark.parametrize("axis", AXES)
    @pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "int32", *FLOATS])
    def test_axes_and_types(self, dtype: str, axis: Any, place: ArrayDevice) -> None:
        x = (normal(5, 7, 11) * 3).astype(dtype)  # with ties
        result = kernel("argmax")(place.array(x), axis=axis)
        np.testing.assert_array_equal(place.numpy(result), argmax_of(x, axis))
        assert place.numpy(result).dtype == np.int64

    @pytest.mark.parametrize("keepdims", [False, True])
    @pytest.mark.parametrize("view", VIEWS)
    def test_layouts(self, view: Any, keepdims: bool, place: ArrayDevice) -> None:
        base = normal(6, 8, 9)
        x = base[view]
        for axis in (None, 0, 1):
            result = kernel("argmax")(place.array(base)[view], axis=axis, keepdims=keepdims)
            np.testing.assert_array_equal(place.numpy(result), argmax_of(x, axis, keepdims))

    @pytest.mark.parametrize("dtype", FLOATS)
    def test_nan_and_infinities(self, dtype: str, place: ArrayDevice) -> None:
        inf, nan = np.inf, np.nan
        rows = [
            [1, nan, inf, nan],
            [-inf, -inf, -inf, -inf],
            [-0.0, 0.0, -0.0, -1],
            [-inf, 3, inf, inf],
            [nan, nan, 0, 1],
            [-3, -2, -1, -2],
        ]
        x = np.array(rows, dtype)
        result = place.numpy(kernel("argmax")(place.array(x), axis=1))
        np.testing.assert_array_equal(result, np.argmax(x, axis=1))

    def test_long_rows_with_many_equal_elements(self, place: ArrayDevice) -> None:
        x = np.zeros(1_000_003, np.float32)
        assert place.numpy(kernel("argmax")(place.array(x))) == 0
        x[[777_777, 888_888]] = 1
        assert place.numpy(kernel("argmax")(place.array(x))) == 777_777
        x[999_999] = np.nan
        assert place.numpy(kernel("argmax")(place.array(x))) == 999_999

    def test_into_an_output(self, place: ArrayDevice) -> None:
        x = normal(4, 6)
        out = place.zeros((4, 3), "int64")
        kernel("argmax")(place.array(x), axis=1, out=out[:, 1])
        np.testing.assert_array_equal(place.numpy(out)[:, 1], np.argmax(x, axis=1))
        np.testing.assert_array_equal(place.numpy(out)[:, ::2], np.zeros((4, 2)))

    def test_of_nothing(self, place: ArrayDevice) -> None:
        with pytest.raises(ValueError, match="zero-size array to reduction operation argmax"):
            kernel("argmax")(place.zeros((3, 0)), axis=1)


class TestMeanVar:
    @pytest.mark.parametrize("axis", AXES)
    @pytest.mark.parametrize("dtype", FLOATS)
    def test_axes_and_types(self, dtype: str, axis: Any, place: ArrayDevice) -> None:
        x = (normal(5, 7, 11) + 2).astype(dtype)
        rtol = {"float16": 2e-3, "float32": 2e-6, "float64": 1e-13}[dtype]
        for ddof in (0, 1, 0.5):
            mean, variance = map(place.numpy, kernel("mean_var")(place.array(x), ddof, axis=axis))
            assert mean.dtype == variance.dtype == x.dtype
            wide = x.astype(np.float64)
            np.testing.assert_allclose(mean, wide.mean(axis), rtol=rtol)
            np.testing.assert_allclose(variance, wide.var(axis, ddof=ddof), rtol=rtol)

    @pytest.mark.parametrize("keepdims", [False, True])
    @pytest.mark.parametrize("view", VIEWS)
    def test_layouts(self, view: Any, keepdims: bool, place: ArrayDevice) -> None:
        base = normal(6, 8, 9)
        x = base[view]
        for axis in (None, 0, 1):
            arrays = kernel("mean_var")(place.array(base)[view], 0, axis=axis, keepdims=keepdims)
            mean, variance = map(place.numpy, arrays)
            np.testing.assert_allclose(mean, x.mean(axis, keepdims=keepdims), rtol=1e-12)
            np.testing.assert_allclose(variance, x.var(axis, keepdims=keepdims), rtol=1e-12)

    def test_a_large_mean_does_not_cancel(self, place: ArrayDevice) -> None:
        x = normal(200_000) + 1e8
        mean, variance = map(place.numpy, kernel("mean_var")(place.array(x), 0))
        np.testing.assert_allclose(mean, x.mean(), rtol=1e-15)
        np.testing.assert_allclose(variance, x.var(), rtol=1e-7)
        x = (normal(200_000) + 1000).astype(np.float32)
        mean, variance = map(place.numpy, kernel("mean_var")(place.array(x), 0))
        np.testing.assert_allclose(variance, x.astype(np.float64).var(), rtol=1e-4)

    def test_of_equal_elements_there_is_no_variance(self, place: ArrayDevice) -> None:
        x = np.full(100_003, 0.1, np.float32)
        mean, variance = map(place.numpy, kernel("mean_var")(place.array(x), 1))
        assert (mean, variance) == (np.float32(0.1), 0)

    @pytest.mark.filterwarnings("ignore::RuntimeWarning")
    def test_nan_and_infinities(self, place: ArrayDevice) -> None:
        inf, nan = np.inf, np.nan
        x = np.array([[1, nan, 2], [inf, inf, inf], [1, inf, 2], [inf, -inf, 0], [-inf, 1, -inf]])
        mean, variance = map(place.numpy, kernel("mean_var")(place.array(x), 0, axis=1))
        np.testing.assert_array_equal(mean, x.mean(axis=1))
        np.testing.assert_array_equal(variance, x.var(axis=1))
        huge = np.array([1e308, -1e308])
        mean, variance = map(place.numpy, kernel("mean_var")(place.array(huge), 0))
        assert (mean, variance) == (0, inf)

    @pytest.mark.filterwarnings("ignore::RuntimeWarning")
    def test_fewer_elements_than_ddof_and_none(self, place: ArrayDevice) -> None:
        for shape in ((3, 1), (3, 0), (3, 2)):
            x = np.arange(float(np.prod(shape))).reshape(shape)
            for ddof in (1, 2, 3):
                mean, variance = map(place.numpy, kernel("mean_var")(place.array(x), ddof, axis=1))
                np.testing.assert_array_equal(mean, x.mean(axis=1))
                np.testing.assert_array_equal(variance, x.var(axis=1, ddof=ddof))

    def test_into_outputs(self, place: ArrayDevice) -> None:
        x = normal(4, 6)
        both = place.zeros((4, 2))
        returned = kernel("mean_var")(place.array(x), 0, axis=1, out=(both[:, 0], both[:, 1]))
        assert isinstance(returned, tuple) and len(returned) == 2
        expected = np.stack([x.mean(axis=1), x.var(axis=1)], axis=1)
        np.testing.assert_allclose(place.numpy(both), expected, rtol=1e-12)

    def test_ddof_is_one_number(self, place: ArrayDevice) -> None:
        with pytest.raises(TypeError, match="ddof is read by the reduce or post-map expression"):
            kernel("mean_var")(place.zeros((2, 3)), place.zeros(2), axis=1)
