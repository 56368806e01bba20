"""Shapes and strides in, the axes a kernel loops over out: pure arithmetic on tuples.

Broadcasting, dropping, ordering and merging axes.  `kspec.runtime.schedules.marshal` packs the
result.

>>> broadcast_shapes([(2, 5), (5,)])
(2, 5)
>>> collapse((2, 5), [(20, 4), (20, 4)])
Axes(extents=(10,), strides=((4,), (4,)))
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from numpy.exceptions import AxisError

from kspec.errors import ArgumentTypeError, ShapeError

Shape = tuple[int, ...]
Strides = tuple[int, ...]


@dataclass(frozen=True)
class Axes:
    """Collapsed axes of a loop, innermost first.

    Attributes
    ----------
    extents : tuple of int
        Number of steps along each axis; all greater than 1 where axes were merged.
    strides : tuple of tuple of int
        For each operand, its byte stride along each axis.
    """

    extents: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.extents)


def size_of(shape: Shape) -> int:
    """Return the number of elements of a shape."""
    return math.prod(shape)


def refusal_to_broadcast(shapes: Sequence[Sequence[Any]]) -> str:
    """Return NumPy's message for shapes that do not fit."""
    listed = " ".join(str(tuple(shape)) for shape in shapes)
    return f"operands could not be broadcast together with shapes {listed}"


def broadcast_shapes(shapes: Sequence[Shape]) -> Shape:
    """Return the common shape by NumPy's rules.

    Raises
    ------
    ShapeError
        "operands could not be broadcast together with shapes ...".
    """
    ndim = max(map(len, shapes), default=0)
    result = [1] * ndim
    for shape in shapes:
        for axis, extent in enumerate(shape, start=ndim - len(shape)):
            if extent == 1 or extent == result[axis]:
                continue
            if result[axis] != 1:
                raise ShapeError(refusal_to_broadcast(shapes))
            result[axis] = extent
    return tuple(result)


def broadcast_strides(shape: Shape, strides: Strides, target: Shape) -> Strides:
    """Return the strides of an operand stretched to `target`: 0 along stretched axes."""
    missing = len(target) - len(shape)
    return (0,) * missing + tuple(
        stride if extent == wanted else 0
        for extent, stride, wanted in zip(shape, strides, target[missing:], strict=True)
    )


def collapse(
    shape: Shape, strides: Sequence[Strides], keep_order: bool = True, merge: bool = True
) -> Axes:
    """Return the fewest axes that visit the same elements.

    Parameters
    ----------
    shape : tuple of int
        Extents of the loop, none of them 0.
    strides : sequence of tuple of int
        Byte strides of each operand along `shape`.
    keep_order : bool
        Visit elements in C order; otherwise axes are sorted so that the innermost is the one
        with the smallest strides, the last operand (an output) deciding first.
    merge : bool
        Drop axes of extent 1 and merge neighbours; otherwise all axes stay.
    """
    axes = [
        (extent, tuple(operand[axis] for operand in strides))
        for axis, extent in enumerate(shape)
        if extent != 1 or not merge
    ]
    axes.reverse()
    if strides and not keep_order:
        axes.sort(key=lambda axis: (abs(axis[1][-1]), sum(map(abs, axis[1]))))
    merged: list[tuple[int, tuple[int, ...]]] = []
    for extent, steps in axes:
        if merge and merged and _continues(merged[-1], steps):
            inner, inner_steps = merged[-1]
            merged[-1] = (inner * extent, inner_steps)
        else:
            merged.append((extent, steps))
    return Axes(
        tuple(extent for extent, _ in merged),
        tuple(tuple(steps[k] for _, steps in merged) for k in range(len(strides))),
    )


def _continues(inner: tuple[int, tuple[int, ...]], outer_steps: tuple[int, ...]) -> bool:
    """Whether the outer axis goes on where the inner one ends, for every operand."""
    extent, steps = inner
    return all(outer == step * extent for step, outer in zip(steps, outer_steps, strict=True))


def normalize_axes(axis: int | Sequence[int] | None, ndim: int) -> tuple[int, ...]:
    """Return the reduced axes, sorted, all in ``range(ndim)``.

    Raises
    ------
    numpy.exceptions.AxisError
        If an axis is out of range.
    ValueError
        If an axis is repeated.
    TypeError
        If an axis is not an integer.
    """
    if axis is None:
        return tuple(range(ndim))
    axes = tuple(axis) if isinstance(axis, Sequence) else (axis,)
    normal = []
    for one in axes:
        index = axis_index(one)
        if not -ndim <= index < ndim:
            raise AxisError(index, ndim)
        normal.append(index % ndim)
    if len(set(normal)) != len(normal):
        raise ShapeError(f"duplicate value in 'axis': {axis!r}")
    return tuple(sorted(normal))


def integer(value: object) -> int | None:
    """Return an integer of any library as Python's; None for what is none, and for truth values."""
    try:
        return None if isinstance(value, bool) else operator.index(value)  # type: ignore[arg-type]
    except TypeError:  # an array of several integers has __index__ too
        return None


def axis_index(axis: object) -> int:
    """Return one axis as a number; raise `ArgumentTypeError` unless it is an integer."""
    index = integer(axis)
    if index is None:
        raise ArgumentTypeError(f"axis must be an integer or a tuple of integers, not {axis!r}")
    return index
