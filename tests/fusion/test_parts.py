"""Functions whose result consists of parts: joined, shifted, subtracted, selected, taken, scanned.

NumPy is the reference: for drawn shapes, dtypes and arguments it is called with the same arrays.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kspec import fuse
from kspec.errors import FusionError
from tests.devices import ArrayDevice
from tests.fusion.programs import values
from tests.profiles import examples

fused = fuse(device="host")
Function = Callable[..., Any]
X, Y = values("float32", (5, 7), 0), values("float32", (5, 7), 1)
BLOCK = values("float64", (3, 4, 5), 2)
INDEX = np.array([[3, -1, 9], [0, -12, 2]])


def agree(function: Function, arrays: tuple[Any, ...], device: ArrayDevice, eps: float = 0) -> None:
    """Compare the results of a fused function, or its error, with the function as it is."""
    given = [device.array(one) if isinstance(one, np.ndarray) else one for one in arrays]
    arrays = tuple(one.copy() if isinstance(one, np.ndarray) else one for one in arrays)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            wanted = function(*arrays)
        except (ValueError, IndexError, TypeError) as error:
            with pytest.raises(type(error)):
                fused(function)(*given)
            return
        found = fused(function)(*given)
    assert (found is None) == (wanted is None)
    several = wanted if isinstance(wanted, tuple) else (wanted,) * (wanted is not None)
    for one, two in zip(found if isinstance(found, tuple) else (found,), several, strict=False):
        two = np.asarray(two)
        one = device.numpy(one)
        assert (one.dtype, one.shape) == (two.dtype, two.shape), inspect.getsource(function)
        if eps and two.size:
            wide = "c16" if two.dtype.kind == "c" else "f8"
            bound = eps * max(1.0, float(np.nanmax(np.abs(two.astype(wide)))))
            np.testing.assert_allclose(one.astype(wide), two.astype(wide), rtol=0, atol=bound)
        else:
            np.testing.assert_array_equal(one, two)
    for one, two in zip(given, arrays, strict=True):  # perhaps written to
        if isinstance(two, np.ndarray):
            np.testing.assert_allclose(device.numpy(one), two, rtol=eps)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: np.stack([x + y, x, y * 2]),
        lambda x, y: np.stack((x, y), axis=-1).sum(-1) - x,
        lambda x, y: np.stack([x.sum(), y.max(), (x * y).mean()]) * 2,
        lambda x, y: np.stack([x.sum(0), y[0]], 1),
        lambda x, y: np.stack([x, y.astype("i4")]),
        lambda x, y: np.stack(x) + y,
        lambda x, y: np.stack([x, y], out=np.zeros_like(np.stack([x, y]))),
        lambda x, y: np.stack([x, y], dtype="f8")[::-1, 1].T,
        lambda x, y: (np.stack([x, y]), np.stack([x, y]), x - 1),
        lambda x, y: np.stack([np.stack([x, y]), np.stack([y, x + 1])], 2),
        lambda x, y: np.concatenate([x, y[:2] * 2]),
        lambda x, y: np.concatenate([x[:, :1], y, x], axis=1) ** 2,
        lambda x, y: np.concatenate([x, y.T], axis=None),
        lambda x, y: np.hstack([x.sum(0), y[0]]),
        lambda x, y: np.hstack([x, y]).max(1),
        lambda x, y: np.vstack([x[0], y]),
        lambda x, y: np.concatenate([x > 0, y]),
        lambda x, y: np.reshape(np.stack([x, y]), (2, -1)).sum(1),
        lambda x, y: np.exp(y) / np.stack([x, y]).sum(0).max(-1, keepdims=True),
    ],
)
def test_joined(function: Function, device: ArrayDevice) -> None:
    agree(function, (X, Y), device, eps=1e-5)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: np.stack([]),
        lambda x, y: np.stack([x, y[0]]),
        lambda x, y: np.stack([x, y], axis=3),
        lambda x, y: np.concatenate([x, y[0]]),
        lambda x, y: np.concatenate([x, y[:, 1:]]),
        lambda x, y: np.concatenate([x[0, 0], y[0, 0]]),
        lambda x, y: np.stack([x, y], dtype="i4"),
        lambda x, y: np.roll(x, 1, 2),
        lambda x, y: np.roll(x, (1, 2), (0, 1, 1)),
        lambda x, y: np.diff(x, -1),
        lambda x, y: np.diff(x[0, 0]),
        lambda x, y: np.diff(x, prepend=y[0]),
        lambda x, y: np.take(x, 35),
        lambda x, y: np.take(x, [1, -8], axis=1),
        lambda x, y: np.take(x, [0.5], axis=1),
        lambda x, y: np.take(x, y, mode="wrap"),
        lambda x, y: np.take(x, 1, mode="nothing"),
        lambda x, y: np.take(x[:0], [1]),
        lambda x, y: np.take(x, 1, axis=2),
        lambda x, y: np.cumsum(x, axis=2),
        lambda x, y: np.select([x > 0], [x, y]),
        lambda x, y: np.select([], []),
        lambda x, y: np.select([x], [y]),
    ],
)
def test_what_numpy_refuses(function: Function, device: ArrayDevice) -> None:
    agree(function, (X, Y), device)


def test_what_kernels_cannot(device: ArrayDevice) -> None:
    x, index = device.array(X), device.array(INDEX)
    for function, message in (
        (lambda x, index: np.take(x, index), "write mode='wrap' or mode='clip'"),
        (lambda x, index: x[index], "write np.take(x, indices, axis=0, mode='clip')"),
        (lambda x, index: np.take(x, list(range(40)), mode="wrap"), "40 indices in a list"),
        (lambda x, index: np.roll(x, index), "roll: shift= must be known before kernels run"),
        (lambda x, index: np.block([x, x]), "write np.stack or np.concatenate"),
        (lambda x, index: np.piecewise(x, [x > 0], [1]), "write np.select"),
    ):
        with pytest.raises(FusionError) as caught:
            fused(function)(x, index)
        assert message in str(caught.value)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, j: np.take(x, j, mode="wrap") * 2,
        lambda x, j: np.take(x * 2, j, 0, mode="clip") + 1,
        lambda x, j: np.take(x, j, 1, mode="wrap"),
        lambda x, j: np.take(x, j, -1, mode="clip"),
        lambda x, j: x.take(j, axis=1, mode="clip").sum((0, 1)),
        lambda x, j: np.take(x.T, j[0], 1, mode="wrap")[:, ::-1] + x[:, 1].T[:, :1, None],
        lambda x, j: np.take(x, j, 1, mode="clip") + x[:, :1, None],
        lambda x, j: np.take(x, np.take(j, j, mode="wrap"), mode="wrap"),
        lambda x, j: np.take(x, j[0, 1], 2, mode="clip"),
        lambda x, j: np.take(x, j.sum(), 2, mode="wrap"),
        lambda x, j: np.take(x, [0, 2, -1], 1) - np.take(x, 1, 1)[:, None],
        lambda x, j: np.take(x, [[0, 2], [1, 1]], -1),
        lambda x, j: np.take(x, [9, -9], 0, mode="clip"),
        lambda x, j: np.take(x, j > 0, mode="clip"),
        lambda x, j: np.take(x.sum(0), j, mode="clip") / x.sum(),
        lambda x, j: np.take(x.sum(0), j, 1, mode="clip").reshape(-1),
        lambda x, j: np.stack([np.take(x, j, mode="clip"), j]),
        lambda x, j: np.cumsum(np.take(x, j, mode="clip"), 1),
    ],
)
def test_taken(function: Function, device: ArrayDevice) -> None:
    agree(function, (BLOCK, INDEX), device, eps=1e-14)
    agree(function, (BLOCK, INDEX.astype("i1")), device, eps=1e-14)


def test_a_table_around(device: ArrayDevice) -> None:
    table, x = np.float32([1, 10, 100]), np.array([[2, 0], [1, 7]])
    here = device.array(table)
    found = fused(lambda x: np.take(here, x, mode="clip") + x)(device.array(x))
    np.testing.assert_array_equal(device.numpy(found), table[[[2, 0], [1, 2]]] + x)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: np.sqrt(np.cumsum(abs(x), axis=1) * 2) + 1,
        lambda x: np.cumsum(x),
        lambda x: x.cumsum(0) / x.sum(0),
        lambda x: np.cumsum(x, axis=-1) / x.sum(-1, keepdims=True),
        lambda x: np.cumsum(np.cumprod(x, axis=0), axis=1)[:, ::-1].T,
        lambda x: (np.cumsum(x, 0), np.cumsum(x * x, 0), x.sum()),
        lambda x: np.cumsum(x, 0) - np.cumsum(x, 1),
        lambda x: np.cumsum(x > 0, 1),
        lambda x: np.cumsum(x.astype("i1"), 0, dtype="i2"),
        lambda x: np.cumsum(x[0, 0]),
        lambda x: np.cumsum(x[0, 0], -1) + np.take(x[1, 1], 0, 0),
        lambda x: np.roll(np.cumsum(x, 0), 1, 0) + x,
        lambda x: np.cumsum(np.ones_like(x), 1),
        lambda x: x.cumprod(1, dtype="f8"),
    ],
)
def test_scanned(function: Function, device: ArrayDevice) -> None:
    agree(function, (X,), device, eps=1e-5)


def test_written_to(device: ArrayDevice) -> None:
    """Elements read at other places are those that an argument had before."""

    def shift(y: Any) -> None:
        y[...] = np.roll(y, 1, 0) + np.take(y, [0], 1) - y

    def gather(y: Any, j: Any) -> None:
        y[...] = np.take(y, j, 0, mode="wrap") + y

    def total(y: Any) -> Any:
        y += np.cumsum(y, 1)
        return np.stack([y, y + 1])

    agree(shift, (X,), device, eps=1e-6)
    agree(gather, (X, np.arange(5)[::-1].copy()), device, eps=1e-6)
    agree(total, (X,), device, eps=1e-5)


def test_other_extents_in_later_calls(device: ArrayDevice) -> None:
    def f(x: Any, j: Any) -> Any:
        return np.stack([x, x + 1], 1) * np.take(x, j, 0, mode="clip")[:, None], np.cumsum(x, 0)

    found = fused(f)
    for rows in (3, 8, 2, 0):
        x, j = values("float64", (rows, 4), rows), np.arange(rows) * 2
        for one, two in zip(found(device.array(x), device.array(j)), f(x, j), strict=True):
            np.testing.assert_allclose(device.numpy(one), two, rtol=1e-13)


def test_narrow_floats(device: ArrayDevice) -> None:
    x = values("float16", (4, 6), 0)
    agree(lambda x: np.stack([x * 2, x]) + np.roll(x, 1), (x,), device, eps=1e-3)
    agree(lambda x: np.take(x * 2, [1, 0], 1) - np.diff(x, axis=0, n=3), (x,), device, eps=1e-2)
    agree(lambda x: np.cumsum(x, 1) + 1, (x,), device, eps=1e-2)
    agree(lambda x, j: np.take(x + x, j, mode="clip") * x[0, 0], (x, INDEX), device, eps=1e-2)


def test_few_kernels() -> None:
    """Parts of one shape are one kernel's outputs; a taken element is read where it is used."""
    x, j = np.ones((3, 3)), np.ones((3, 3), int)
    assert len(fused(lambda x: np.stack([x + 1, x - 1])).to_spec(x)) == 1
    assert len(fused(lambda x, j: np.take(x, j, mode="clip") * x + 1).to_spec(x, j)) == 1
    assert len(fused(lambda x: np.sqrt(np.cumsum(x * x, 0)) + 1).to_spec(x)) == 1
    assert len(fused(lambda x: np.diff(x, 2)).to_spec(x)) == 1
    text = fused(lambda x: np.stack([x + 1, x - 1])).explain(x)
    assert "part 1 of joined" in text
    assert "scan along axes (0,)" in fused(lambda x: np.cumsum(x, 0)).explain(x)


DTYPES = ("float32", "int8", "float64", "bool", "complex64", "uint16", "int64")
SIZES = st.sampled_from((1, 2, 3, 5, 0))
SHAPES = st.integers(1, 3).flatmap(lambda ndim: st.tuples(*[SIZES] * ndim))


@st.composite
def arrays(draw: Any, dtypes: tuple[str, ...] = DTYPES) -> Any:
    shape, dtype = draw(SHAPES), draw(st.sampled_from(dtypes))
    return values(dtype, shape, draw(st.integers(0, 99)))


@st.composite
def calls(draw: Any) -> tuple[Function, tuple[Any, ...]]:
    """Return a function and arrays for it."""
    x = draw(arrays())
    axis = draw(st.integers(-x.ndim, x.ndim - 1))
    kind = draw(
        st.sampled_from(("roll", "rolls", "diff", "stack", "concat", "select", "take", "list"))
    )
    number = draw(st.integers(-7, 7))
    if kind == "roll":
        where = draw(st.sampled_from((None, axis)))
        return (lambda x: np.roll(x, number, where)), (x,)
    if kind == "rolls":
        axes = draw(st.lists(st.integers(-x.ndim, x.ndim - 1), min_size=1, max_size=3))
        shifts = draw(st.lists(st.integers(-9, 9), min_size=len(axes), max_size=len(axes)))
        return (lambda x: np.roll(x, tuple(shifts), tuple(axes))), (x,)
    if kind == "diff":
        given: dict[str, Any] = {"n": draw(st.integers(0, 4)), "axis": axis}
        end = draw(st.sampled_from((None, 1, np.float32(2))))
        if end is not None and x.size:  # a number has nothing to be as long as, next to no elements
            given[draw(st.sampled_from(("prepend", "append")))] = end
        return (lambda x: np.diff(x, **given)), (x,)
    y = values(draw(st.sampled_from(DTYPES)), x.shape, number + 7)
    if kind == "stack":
        place = draw(st.integers(-x.ndim - 1, x.ndim))
        return (lambda x, y: np.stack([x, y, x], place)), (x, y)
    if kind == "concat":
        part = np.moveaxis(np.moveaxis(y, axis, 0)[: number + 7], 0, axis)
        where = draw(st.sampled_from((None, axis)))
        return (lambda x, y: np.concatenate([x, y], where)), (x, np.ascontiguousarray(part))
    if kind == "select":
        default = draw(st.sampled_from((0, 2.5, True, np.int8(3), 1j)))
        return (lambda x, y: np.select([x != 0, y == 0], [y, x], default)), (x, y)
    where = draw(st.sampled_from((None, axis)))
    mode = draw(st.sampled_from(("wrap", "clip")))
    index = draw(arrays(("int64", "int8", "uint8")))
    if kind == "take":
        return (lambda x, j: np.take(x, j, where, mode=mode)), (x, index)
    listed = index.ravel()[:5].astype(int).tolist() or 1
    return (lambda x: np.take(x, listed, where, mode=mode)), (x,)


def test_drawn_calls(device: ArrayDevice) -> None:
    @given(calls())
    @settings(max_examples=examples(200))
    def draw(call: tuple[Function, tuple[Any, ...]]) -> None:
        function, given = call
        agree(function, given, device, eps=1e-6)

    draw()


@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
def test_drawn_scans(name: str, device: ArrayDevice) -> None:
    @given(arrays(), st.data())
    @settings(max_examples=examples(40))
    def draw(x: Any, data: st.DataObject) -> None:
        axis = data.draw(st.sampled_from((None, *range(-x.ndim, x.ndim))))
        agree(lambda x: getattr(np, name)(x, axis), (x,), device, eps=1e-5)

    draw()


def test_bfloat16(device: ArrayDevice) -> None:
    if device.library == "cupy":
        pytest.skip("CuPy has no bfloat16")
    x = values("bfloat16", (4, 6), 0)
    assert x.dtype == ml_dtypes.bfloat16
    agree(lambda x: np.stack([x, x[::-1]], 1), (x,), device)
    agree(lambda x: np.roll(x, 2, 1), (x,), device)
    agree(lambda x: np.diff(x), (x,), device, eps=1e-2)
