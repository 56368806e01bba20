"""Schedules begin here: strides in, the axes a kernel loops over out, by arithmetic on tuples.

Axes are stretched, dropped, ordered and merged.  The modules divide them among threads, and
`kspec.runtime.schedules.marshal` packs the result.

>>> collapse((2, 5), [(20, 4), (20, 4)])
Axes(extents=(10,), strides=((4,), (4,)))
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from kspec.dataclass import dataclass
from kspec.model.shapes import Shape

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
