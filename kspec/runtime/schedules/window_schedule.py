"""Schedules of kernels with windows: how threads share the loop, and where tests are needed.

This module packs the structures of ``kspec/windows.cuh``.  A tile lies *inside* if all windows of
its elements lie inside their arrays: its threads read without a test.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from kspec.model import dtypes
from kspec.model.neighbours.windows import BOUNDARIES, BoundWindow
from kspec.model.shapes import Shape, size_of
from kspec.model.stages import strided_capacity, windowed
from kspec.runtime.memory.array_view import ArrayView
from kspec.runtime.schedules import marshal
from kspec.runtime.schedules.elementwise_schedule import ElementwiseSchedule, host_threads
from kspec.runtime.schedules.strides import Axes, Strides, collapse

_THREADS, _LANES, _ROWS, _EACH = 256, 32, 8, 4  # kspec::WindowTile


@dataclass(frozen=True)
class _WindowedAxes:
    """The windowed axes of a loop, innermost first."""

    extents: tuple[int, ...]
    strides: tuple[Strides, ...]
    begin: tuple[int, ...]
    end: tuple[int, ...]


def choose_windows(
    shape: Shape,
    strides: Sequence[Strides],
    windows: Sequence[BoundWindow],
    *,
    keep_order: bool,
    merge: bool,
    on_host: bool,
    gathers: bool = False,
) -> ElementwiseSchedule:
    """Return the schedule of a loop with windows.

    Parameters
    ----------
    shape : tuple of int
        Extents of the loop, none of them 0.
    strides : sequence of tuple of int
        Byte strides of each operand along `shape`.
    windows : sequence of BoundWindow
        Windows of the call.
    keep_order, merge : bool
        As in `kspec.runtime.schedules.strides.collapse`, of the axes without windows.
    on_host : bool
        Whether it is for the CPU.
    gathers : bool
        Whether it is an adjoint, whose threads on a GPU have one element each.
    """
    count = max(len(window.reach) for window in windows)
    split = len(shape) - count
    outer = collapse(shape[:split], [one[:split] for one in strides], keep_order, merge)
    axes = _windowed_axes(shape[split:], [one[split:] for one in strides], windows)
    tiles = [-(-extent // tile) for extent, tile in zip(axes.extents, _tile(count), strict=True)]
    layout = windowed(count, len(outer.extents))
    elements = _pack(axes, tiles, outer, size_of(shape))
    if on_host:
        threads, block = host_threads(size_of(shape), single=False)
        return ElementwiseSchedule(layout, elements, threads, block)
    if gathers:
        return ElementwiseSchedule(layout, elements, size_of(shape), _THREADS)
    blocks = math.prod(tiles) * outer.size
    return ElementwiseSchedule(layout, elements, blocks * _THREADS, _THREADS, (blocks, 1, 1))


def _windowed_axes(
    shape: Shape, strides: Sequence[Strides], windows: Sequence[BoundWindow]
) -> _WindowedAxes:
    begin, end = [0] * len(shape), list(shape)
    for window in windows:
        first = len(shape) - len(window.reach)
        sides = zip(window.reach, window.margins, strict=True)
        for axis, ((before, after), (left, right)) in enumerate(sides, first):
            begin[axis] = max(begin[axis], before - left)
            end[axis] = min(end[axis], shape[axis] - (after - right))
    return _WindowedAxes(
        tuple(reversed(shape)),
        tuple(tuple(reversed(one)) for one in strides),
        tuple(reversed(begin)),
        tuple(reversed(end)),
    )


def _tile(count: int) -> tuple[int, ...]:
    """Return the extents of a block's tile, innermost first."""
    if count == 1:
        return (_THREADS,)
    tile = [_LANES, _ROWS, *[1] * (count - 2)]
    tile[-1] *= _EACH
    return tuple(tile)


def _pack(axes: _WindowedAxes, tiles: Sequence[int], outer: Axes, size: int) -> bytes:
    """Pack ``Elements<Windows<W, OUTER>, OPERANDS>``."""
    count = len(axes.extents)
    parts = [
        struct.pack(f"{1 + 3 * count}q", size, *axes.extents, *axes.begin, *axes.end),
        *(struct.pack(f"{count}q", *one) for one in axes.strides),
        struct.pack(f"{count}I", *tiles),
        struct.pack(f"{2 * count}I", *(one for tile in tiles for one in marshal.divisor(tile))),
        bytes(4 * (count % 2)),
        marshal.pack_axes(outer, strided_capacity(len(outer.extents))),
    ]
    return b"".join(parts)


def boundary_value(value: bool | int | float, dtype: str, where: str) -> bytes:
    """Return the elements outside of an array as bytes; messages begin with `where`."""
    return marshal.convert_scalar(value, dtype, f"{where}: value of its boundary" if where else "")


def pack_window(window: BoundWindow, view: ArrayView, where: str = "") -> bytes:
    """Pack ``Window<T, A>``; messages begin with `where`."""
    row = dtypes.lookup(view.dtype)
    count = len(window.reach)
    before = [sides[0] for sides in reversed(window.reach)]
    after = [sides[1] for sides in reversed(window.reach)]
    value = boundary_value(window.value, view.dtype, where)
    data = struct.pack("P", view.ptr).ljust(marshal.value_offset(row), b"\0") + value
    data = data.ljust(marshal.up(len(data), 4), b"\0")
    data += struct.pack("i", BOUNDARIES.index(window.boundary))
    data = data.ljust(marshal.up(len(data), 8), b"\0")
    data += struct.pack(
        f"{4 * count}q",
        *reversed(view.shape[-count:]),
        *(sides[0] for sides in reversed(window.margins)),
        *before,
        *after,
    )
    return data.ljust(marshal.up(len(data), max(8, row.alignment)), b"\0")
