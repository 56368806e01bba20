"""Every layout of elementwise kernels and reductions, forced by the arrays, against NumPy.

Integers, so that results are exact; the elements beside outputs must stay what they were.  On the
host device the same arrays take its own two layouts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kspec
from kspec.model.stages import COLUMNS, FLAT, LINES, PACKS, ROWS, SHORT_LINES, TILES
from kspec.runtime.modules.loader import KernelLoader
from tests.devices import ArrayDevice

STRIDED = "kspec::Strided<8>"
DTYPES = ["int8", "int16", "int32", "float64", "complex128"]


@pytest.fixture
def layouts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The layouts that are asked for, in order."""
    asked: list[str] = []
    original = KernelLoader.kernel

    def kernel(self: KernelLoader, wanted: Any, *rest: Any) -> Any:
        asked.append(wanted.layout)
        return original(self, wanted, *rest)

    monkeypatch.setattr(KernelLoader, "kernel", kernel)
    return asked


def numbers(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    rng = np.random.default_rng(sum(shape))
    values = rng.integers(-3, 4, shape)
    return (
        (values + 1j * rng.integers(-3, 4, shape)).astype(dtype)
        if dtype[0] == "c"
        else (values.astype(dtype))
    )


def whole(x: Any) -> Any:
    return x


# Name: shape of x and what is taken of it, the same of y, what is taken of an output of x's shape.
Take = Callable[[Any], Any]
ELEMENTWISE: dict[str, tuple[tuple[int, ...], Take, tuple[int, ...], Take, Take, str]] = {
    "flat": ((1031,), whole, (1031,), whole, whole, FLAT),
    "flat, one element": ((33, 31), whole, (1, 1), whole, whole, FLAT),
    "flat, Fortran": ((33, 31), lambda x: x.T, (33, 31), lambda y: y.T, lambda z: z.T, FLAT),
    "flat, misaligned": (
        (1031,), lambda x: x[3:], (1031,), lambda y: y[1:-2], lambda z: z[2:-1], FLAT
    ),
    "rows": ((35, 512), whole, (512,), whole, whole, ROWS),
    "rows, column": ((35, 512), whole, (35, 1), whole, whole, ROWS),
    "rows, three axes": ((5, 7, 256), whole, (5, 1, 256), whole, whole, ROWS),
    "rows, a column and a row": ((35, 512), lambda x: x[:, :1], (512,), whole, whole, ROWS),
    "rows, a column and a long row": ((3, 32768), lambda x: x[:, :1], (32768,), whole, whole, ROWS),
    "packs": ((35, 131), whole, (131,), whole, whole, PACKS),
    "packs, column": ((35, 131), whole, (35, 1), whole, whole, PACKS),
    "packs, cropped": (
        (35, 131), lambda x: x[:, 1:-2], (35, 131), lambda y: y[:, 3:], lambda z: z[:, 2:-1], PACKS
    ),
    "packs, narrow": ((501, 3), whole, (3,), whole, whole, PACKS),
    "tiles": ((96, 96), lambda x: x.T, (96, 96), whole, whole, TILES),
    "tiles, not full": ((36, 52), lambda x: x.T, (52, 36), whole, lambda z: z.T, TILES),
    "tiles, three axes": (
        (3, 32, 48), lambda x: x.transpose(0, 2, 1), (3, 48, 32), whole,
        lambda z: z.reshape(3, 48, 32), TILES
    ),
    "strided": ((67, 65), lambda x: x[::2, ::-1], (67, 65), lambda y: y[::2], lambda z: z[::2], STRIDED),
    "tiles, odd": ((67, 65), lambda x: x.T, (65, 67), whole, lambda z: z.reshape(65, 67), TILES),
    "tiles, odd, several": (
        (3, 131, 203), lambda x: x.transpose(0, 2, 1), (203, 131), whole,
        lambda z: z.reshape(3, 203, 131), TILES
    ),
    "tiles, both turned": (
        (129, 67), lambda x: x.T, (129, 67), lambda y: y.T, lambda z: z.reshape(67, 129), TILES
    ),
    "tiles, misaligned": (
        (97, 97), lambda x: x[1:, 1:].T, (97, 97), lambda y: y[1:, :-1], lambda z: z[:-1, 1:], TILES
    ),
}  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise(name: str, dtype: str, place: ArrayDevice, layouts: list[str]) -> None:
    shape, of_x, y_shape, of_y, of_z, layout = ELEMENTWISE[name]
    x, y, z = numbers(shape, dtype), numbers(y_shape, dtype), numbers(shape, dtype)
    assign = kspec.ElementwiseKernel("T x, T y", "T z", "z = x * y + T(1)", "assigns")
    update = kspec.ElementwiseKernel("T x, T y", "T z", "if (x != y) z += x", "updates")
    target = place.array(z)
    args = of_x(place.array(x)), of_y(place.array(y))
    assign(*args, of_z(target))
    want = z.copy()
    of_z(want)[...] = of_x(x) * of_y(y) + np.ones((), dtype)
    np.testing.assert_array_equal(place.numpy(target), want)
    update(*args, of_z(target))
    of_z(want)[...] += np.where(of_x(x) != of_y(y), of_x(x), np.zeros((), dtype))
    np.testing.assert_array_equal(place.numpy(target), want)
    if not place.is_host:
        packs = dtype != "complex128"  # which fills an access alone
        assert set(layouts) == {layout if packs or layout == FLAT else STRIDED}


REDUCTIONS: dict[str, tuple[tuple[int, ...], Take, Any, str]] = {
    "lines": ((3000, 1100), whole, 1, LINES),
    "lines, one": ((300_001,), whole, None, LINES),
    "lines, one, misaligned": ((300_001,), lambda x: x[1:-2], None, LINES),
    "lines, few": ((3, 70_000), whole, 1, LINES),
    "lines, odd": ((333, 1001), whole, 1, LINES),
    "lines, several axes": ((16, 65, 128), whole, (0, 2), LINES),
    "short lines": ((5001, 16), whole, 1, SHORT_LINES),
    "tiny lines": ((5001, 5), whole, 1, SHORT_LINES),
    "staged lines, several lanes": ((5001, 48), whole, 1, SHORT_LINES),
    "tiny lines, with gaps": ((5001, 9), lambda x: x[:, 1:8], 1, SHORT_LINES),
    "staged lines": ((5001, 9), whole, 1, SHORT_LINES),
    "staged lines, misaligned": ((5002, 17), lambda x: x[1:], 1, SHORT_LINES),
    "staged lines, long": ((3001, 320), whole, 1, SHORT_LINES),
    "columns": ((1001, 320), whole, 0, COLUMNS),
    "columns, odd": ((1001, 333), whole, 0, COLUMNS),
    "columns, tall": ((40_000, 32), whole, 0, COLUMNS),
    "columns, wide": ((2, 1_100_000), whole, 0, COLUMNS),
    "columns, cropped": ((501, 333), lambda x: x[:, 3:], 0, COLUMNS),
    "columns, the middle": ((17, 65, 128), whole, 1, COLUMNS),
    "columns, few": ((5003, 3), whole, 0, COLUMNS),
    "columns, two": ((10_001, 2), whole, 0, COLUMNS),
    "columns, few, misaligned": ((5003, 7), lambda x: x[1:], 0, COLUMNS),
    "columns, few, several times": ((4, 3001, 5), whole, 1, COLUMNS),
    "columns, odd, read as one": ((5002, 33), whole, 0, COLUMNS),
    "columns, even, read as one": ((2003, 62), whole, 0, COLUMNS),
    "columns, a view": ((128, 700), lambda x: x.T, 1, COLUMNS),
    "strided": ((100_001,), lambda x: x[::2], None, STRIDED),
    "strided, backwards": ((100_001,), lambda x: x[::-1], None, STRIDED),
    "strided, both": ((200, 600), lambda x: x[::2, ::3], 1, STRIDED),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name: str, dtype: str, place: ArrayDevice, layouts: list[str]) -> None:
    shape, of_x, axis, layout = REDUCTIONS[name]
    x, y = numbers(shape, dtype), numbers(shape[::-1], dtype).reshape(shape)
    total = kspec.ReductionKernel("T x", "T y", "x", "a + b", "y = a + T(1)", None, "totals")
    dot = kspec.ReductionKernel("T x, T y", "T z", "x * y", "a + b", "z = a", "0", "products")
    one, two = of_x(place.array(x)), of_x(place.array(y))
    with np.errstate(over="ignore"):
        got = place.numpy(total(one, axis=axis))
        np.testing.assert_array_equal(got, of_x(x).sum(axis, dtype=dtype) + np.ones((), dtype))
        np.testing.assert_array_equal(
            place.numpy(dot(one, two, axis=axis)), (of_x(x) * of_x(y)).sum(axis, dtype=dtype)
        )
    if not place.is_host and dtype == "int32":
        assert set(layouts) == {layout}


@pytest.mark.parametrize("name", REDUCTIONS)
def test_positions_in_every_layout(name: str, place: ArrayDevice) -> None:
    """`_J` and `_i` are those of C order, whoever folds what."""
    shape, of_x, axis, _ = REDUCTIONS[name]
    x = numbers(shape, "int32")
    kernel = kspec.ReductionKernel(
        "int32 x", "int64 y", "(long long)x * _J + _i", "a + b", "y = a", "0", "positions"
    )
    view = of_x(x)
    axes = range(view.ndim) if axis is None else (axis,) if isinstance(axis, int) else axis
    kept = [k for k in range(view.ndim) if k not in axes]
    rows = view.transpose(*kept, *axes).reshape([view.shape[k] for k in kept] + [-1])
    length, outputs = rows.shape[-1], rows.reshape(-1, rows.shape[-1]).shape[0]
    index = np.arange(outputs).reshape(rows.shape[:-1])
    want = (rows.astype("int64") * np.arange(length)).sum(-1) + index * length
    got = place.numpy(kernel(of_x(place.array(x)), axis=axis))
    np.testing.assert_array_equal(got, want)
