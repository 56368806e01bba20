"""Samples: images warped by a smooth field, beside CuPy's map_coordinates.

Coordinates are arrays, as in a registration of images: the index of each element and a smooth
random displacement. Weights of order 3 combine the elements themselves, in both libraries
(``prefilter=False``).
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.cases import Case
from benchmarks.kernels import Text
from benchmarks.operands import Operand, Shape, array, square
from benchmarks.references import Ops
from benchmarks.stencil_cases import SECTION

F32 = "float32"
_WAVES = 4
_LENGTHS = (128, 1024)  # elements of a wave
_AMPLITUDE = 8.0  # elements


def _warped(axis: int, shape: Shape) -> Any:
    """Return the coordinates along an axis of a warped image."""
    random = np.random.default_rng(axis)
    waves = [
        np.sin(2 * np.pi * (at / length + phase))
        for at, length, phase in (
            (np.arange(extent)[:, None], random.uniform(*_LENGTHS, _WAVES), random.random(_WAVES))
            for extent in shape
        )
    ]
    displacement = (waves[0] @ waves[1].T).astype(F32) * np.float32(_AMPLITUDE / _WAVES)
    index = np.arange(shape[axis], dtype=F32)
    return displacement + (index[:, None] if axis == 0 else index)


_COORDINATES = tuple(functools.partial(_warped, axis) for axis in range(2))


def _inputs(n: int) -> list[Operand]:
    shape = square(n)
    return [array(F32, shape), *(Operand(F32, shape, values=one) for one in _COORDINATES)]


def _weights(order: int, rest: Any) -> tuple[Any, ...]:
    """Return the weights of the elements around a place, `rest` behind the lower one."""
    other = 1 - rest
    if order == 0:
        return (1.0,)
    if order == 1:
        return (other, rest)
    return (
        other * other * other / 6,
        (rest * rest * (rest - 2) * 3 + 4) / 6,
        (other * other * (other - 2) * 3 + 4) / 6,
        rest * rest * rest / 6,
    )


def _taps(ops: Ops, order: int, at: Any, extent: int) -> Iterator[tuple[Any, Any]]:
    """Yield the indices of elements that samples combine along an axis, and their weights."""
    at = ops.wide(at)
    lower = ops.floor(at + 0.5 if order == 0 else at)
    first = ops.narrow(lower, "int64") - order // 2
    for k, weight in enumerate(_weights(order, at - lower)):
        yield (first + k).clip(0, extent - 1), weight


def _sample(order: int) -> Text:
    def reference(ops: Ops, u: Any, *at: Any) -> Any:
        taps = (_taps(ops, order, one, extent) for one, extent in zip(at, u.shape, strict=True))
        total: Any = 0.0
        for (row, of_row), (column, of_column) in itertools.product(*taps):
            total = total + of_row * of_column * ops.wide(u[row, column])
        return total

    def cupy(module: Any, u: Any, at: Any, outputs: Any) -> Any:
        from cupyx.scipy.ndimage import map_coordinates

        output = outputs[0]
        return map_coordinates(u, at, output=output, order=order, mode="nearest", prefilter=False)

    return Text(
        "elementwise",
        ("raw T u, T y, T x", "T v", "v = u.sample(y, x)", f"sample_{order}"),
        reference,
        options={"samples": {"u": {"order": order, "boundary": "nearest"}}},
        flops=2 * (order + 1) ** 2,
        cupy=cupy,
        cupy_inputs=_stacked,
    )


def _stacked(module: Any, u: Any, *at: Any) -> tuple[Any, Any]:
    return u, module.stack(at)


def _case(order: int, limit: float | None = None) -> Case:
    name, times = f"sample, order {order}", {"CuPy": limit}
    # 4096 elements squared on a large GPU.
    return Case(name, _sample(order), _inputs, scale=1 / 16, section=SECTION, times=times)


CASES = (_case(1, 1.2), _case(0), _case(3))
