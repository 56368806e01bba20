"""biquad against SciPy's lfilter: filters, axes, batches, and numbers that are exact."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.devices import ArrayDevice
from tests.specs.test_shipped import kernel

signal = pytest.importorskip("scipy.signal")

# b0, b1, b2, a1, a2
FILTERS = {
    "low-pass": (*signal.butter(2, 0.1)[0], *signal.butter(2, 0.1)[1][1:]),
    "notch": (*signal.iirnotch(0.3, 20)[0], *signal.iirnotch(0.3, 20)[1][1:]),
    "ringing": (1.0, 0.0, 0.0, -2 * 0.995 * np.cos(0.2), 0.995**2),
    "first order": (0.3, 0.2, 0.0, -0.9, 0.0),
    "no feedback": (0.5, -1.0, 0.25, 0.0, 0.0),
    "late": (0.0, 0.0, 1.0, 0.5, -0.1),
}
TOLERANCE = {"float32": 3e-6, "float64": 1e-13}


def normal(*shape: int, dtype: str = "float64") -> np.ndarray:
    return np.random.default_rng(7).normal(size=shape).astype(dtype)


def filtered(x: np.ndarray, coefficients: Any, axis: int = -1) -> np.ndarray:
    b0, b1, b2, a1, a2 = map(float, coefficients)
    wide = x.astype(np.float64)
    return np.asarray(signal.lfilter([b0, b1, b2], [1, a1, a2], wide, axis=axis))


def check(found: np.ndarray, wanted: np.ndarray) -> None:
    """Compare, relative to the largest value: what is added cancels in part."""
    limit = TOLERANCE[found.dtype.name] * np.abs(wanted).max(initial=0)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=limit)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", FILTERS)
def test_filters(name: str, dtype: str, place: ArrayDevice) -> None:
    coefficients = [np.dtype(dtype).type(one) for one in FILTERS[name]]
    x = normal(4, 5000, dtype=dtype)
    found = place.numpy(kernel("biquad").scan(place.array(x), *map(float, coefficients)))
    assert found.dtype == dtype
    check(found, filtered(x, coefficients))


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("view", [np.s_[...], np.s_[::-1, :, ::2], np.s_[:, 3:, ::-1]])
def test_axes_and_layouts(view: Any, axis: int, place: ArrayDevice) -> None:
    base = normal(33, 21, 40)
    found = kernel("biquad").scan(place.array(base)[view], *FILTERS["low-pass"], axis=axis)
    check(place.numpy(found), filtered(base[view], FILTERS["low-pass"], axis))


def test_each_row_has_a_filter_of_its_own(place: ArrayDevice) -> None:
    x = normal(len(FILTERS), 700)
    coefficients = np.array(list(FILTERS.values()))
    columns = [place.array(one[:, None]) for one in coefficients.T]
    found = place.numpy(kernel("biquad").scan(place.array(x), *columns))
    check(found, np.stack([filtered(*pair) for pair in zip(x, coefficients, strict=True)]))


def test_a_chain_is_a_filter_of_higher_order(place: ArrayDevice) -> None:
    sections = signal.butter(6, 0.2, output="sos")
    x = normal(3, 900)
    y = place.array(x)
    for b0, b1, b2, _, a1, a2 in sections.tolist():
        y = kernel("biquad").scan(y, b0, b1, b2, a1, a2, out=y)
    check(place.numpy(y), signal.sosfilt(sections, x))


def test_fibonacci_numbers_are_exact(place: ArrayDevice) -> None:
    impulse = np.zeros(78)
    impulse[0] = 1
    wanted = [1, 1]
    while len(wanted) < len(impulse):
        wanted.append(wanted[-1] + wanted[-2])
    found = kernel("biquad").scan(place.array(impulse), 1, 0, 0, -1, -1)
    np.testing.assert_array_equal(place.numpy(found), wanted)


def test_backwards_and_delayed(place: ArrayDevice) -> None:
    x, low_pass = normal(2, 300), FILTERS["low-pass"]
    back = place.numpy(kernel("biquad").scan(place.array(x), *low_pass, reverse=True))
    check(back, filtered(x[:, ::-1], low_pass)[:, ::-1])
    late = place.numpy(kernel("biquad").scan(place.array(x), *low_pass, exclusive=True))
    np.testing.assert_array_equal(late[:, 0], 0)
    check(late[:, 1:], filtered(x, low_pass)[:, :-1])


def test_short_rows_and_none(place: ArrayDevice) -> None:
    for shape in ((3, 0), (0, 3), (3, 1), (3, 2)):
        x = normal(*shape)
        found = place.numpy(kernel("biquad").scan(place.array(x), *FILTERS["late"]))
        check(found, filtered(x, FILTERS["late"]) if x.size else x)


def test_nan_reaches_later_elements_only(place: ArrayDevice) -> None:
    x = normal(600)
    x[400] = np.nan
    found = place.numpy(kernel("biquad").scan(place.array(x), *FILTERS["low-pass"]))
    check(found[:400], filtered(x[:400], FILTERS["low-pass"]))
    assert np.isnan(found[400:]).all()
