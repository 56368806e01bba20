"""Repeated calls of fused functions that are one kernel: whatever else they are called with."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kspec
from kspec.errors import FusionError, ShapeError
from tests.devices import ArrayDevice

TIMES = 4  # from the third call on, nothing is looked up but the launch plan


def squared_diff(x: Any, y: Any) -> Any:
    return (x - y) * (x - y)


def repeated(function: Any, *args: Any) -> Any:
    """Call a function until calls like this are short, and return what it returns then."""
    for _ in range(TIMES):
        found = function(*args)
    return found


def numbers(*shape: int, dtype: str = "float32") -> Any:
    return np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)


@st.composite
def calls(draw: st.DrawFn) -> list[tuple[Any, Any, bool]]:
    """Return arguments of some calls: arrays of few dtypes, shapes and layouts, and numbers."""
    shapes = st.sampled_from([(), (1,), (5,), (0,), (4, 5), (1, 5), (4, 1)])
    dtypes = st.sampled_from(["float32", "float64", "int32"])
    arrays = st.builds(lambda shape, dtype: numbers(*shape, dtype=dtype), shapes, dtypes)
    pairs = st.tuples(arrays, st.one_of(arrays, st.sampled_from([2, 0.5])), st.booleans())
    chosen = draw(st.lists(pairs, min_size=1, max_size=3))
    return draw(st.lists(st.sampled_from(chosen), min_size=1, max_size=15))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(calls())
def test_any_calls_in_turn(device: ArrayDevice, calls: list[tuple[Any, Any, bool]]) -> None:
    fused = kspec.fuse(device="host")(squared_diff)
    for x, y, turned in calls:
        if turned:
            x = x.T
        given = device.array(x.T).T if turned else device.array(x)
        other = device.array(y) if isinstance(y, np.ndarray) else y
        try:
            expected = squared_diff(x, y)
        except ValueError:
            with pytest.raises(ShapeError):
                fused(given, other)
            continue
        found = device.numpy(fused(given, other))
        np.testing.assert_allclose(found, expected)
        assert found.dtype == np.asarray(expected).dtype and found.shape == np.shape(expected)


def test_the_function_may_ask_for_the_shape(device: ArrayDevice) -> None:
    @kspec.fuse(device="host")
    def padded(x: Any) -> Any:
        return x + (100 if x.shape[0] > 4 else 1)

    for size in (3, 5, 3, 7):
        found = device.numpy(repeated(padded, device.array(numbers(size))))
        np.testing.assert_array_equal(found, numbers(size) + (100 if size > 4 else 1))


def test_two_dtypes_are_two_programs(device: ArrayDevice) -> None:
    @kspec.fuse(device="host")
    def scaled(x: Any) -> Any:
        return x * (2 if x.dtype == np.float32 else 3)

    for dtype in ("float32", "float64") * 5:
        found = device.numpy(repeated(scaled, device.array(numbers(6, dtype=dtype))))
        np.testing.assert_array_equal(found, numbers(6) * (2 if dtype == "float32" else 3))
        assert found.dtype == dtype


def test_ever_new_shapes(device: ArrayDevice) -> None:
    fused = kspec.fuse(device="host")(squared_diff)
    for size in [*range(1, 40), *range(1, 40)]:
        found = device.numpy(fused(device.array(numbers(size)), 1))
        np.testing.assert_array_equal(found, (numbers(size) - 1) ** 2)


def test_several_results_and_keywords(device: ArrayDevice) -> None:
    @kspec.fuse(device="host")
    def both(x: Any, y: Any) -> Any:
        return x + y, x - y

    x, y = device.array(numbers(8)), device.array(numbers(8) * 2)
    for found in (repeated(both, x, y), both(x, y=y), both(y=y, x=x)):
        assert isinstance(found, tuple)
        np.testing.assert_array_equal(device.numpy(found[0]), numbers(8) * 3)
        np.testing.assert_array_equal(device.numpy(found[1]), -numbers(8))


def test_errors_after_short_calls(place: ArrayDevice) -> None:
    fused = kspec.fuse(device="host")(squared_diff)
    x, counts = place.array(numbers(6)), place.array(numbers(6, dtype="int64"))
    repeated(fused, x, x)
    with pytest.raises(ShapeError, match=r"operands could not be broadcast .* \(6,\) \(7,\)"):
        fused(x, place.array(numbers(7)))
    repeated(fused, counts, 2)
    with pytest.raises(FusionError, match=r"squared_diff: y is beyond int64; pass np\.uint64"):
        fused(counts, 2**70)
    with pytest.raises(TypeError, match="squared_diff: missing a required argument"):
        fused(x)


def test_calls_after_the_cache_is_cleared(place: ArrayDevice) -> None:
    fused = kspec.fuse(device="host")(squared_diff)
    x = place.array(numbers(6))
    repeated(fused, x, 1)
    assert fused.cache_info().plans
    fused.clear_cache()
    assert not fused.cache_info().plans
    np.testing.assert_array_equal(place.numpy(repeated(fused, x, 1)), (numbers(6) - 1) ** 2)


def test_a_dropped_function_goes_at_once(place: ArrayDevice) -> None:
    fused = kspec.fuse(device="host")(lambda x: x + 1)
    np.testing.assert_array_equal(place.numpy(repeated(fused, place.array(numbers(3)))), [1, 2, 3])
    gone = weakref.ref(fused)
    gc.disable()
    try:
        del fused
        assert gone() is None
    finally:
        gc.enable()
