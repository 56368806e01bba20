"""Schedules of kernels with windows: how threads share the loop, and where tests are needed.

This module packs the structures of ``kspec/windows.cuh`` and ``neighbours.cuh``.  A tile lies
*inside* if all windows of its elements lie inside their arrays: its threads read without a test.
Rows are *packed* if they are made of aligned packs of elements in all arrays: then a load takes a
whole pack.  Otherwise a block copies what its windows read to shared memory, if that has room.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence

from kspec.dataclass import dataclass
from kspec.model import dtypes
from kspec.model.neighbours.windows import BOUNDARIES, BoundWindow
from kspec.model.shapes import Shape, size_of
from kspec.model.stages import pack_size, strided_capacity, windowed
from kspec.runtime.memory import ArrayView
from kspec.runtime.schedules import Axes, Strides, collapse, marshal
from kspec.runtime.schedules.elementwise_schedule import (
    ElementwiseSchedule,
    Member,
    host_threads,
)

_THREADS = 256  # of most blocks
_FOLDED = 2**30  # elements along an axis whose indices fold in 32 bits
_ROOM = 47 << 10  # bytes of shared memory


@dataclass(frozen=True)
class _WindowedAxes:
    """The windowed axes of a loop, innermost first."""

    extents: tuple[int, ...]
    strides: tuple[Strides, ...]
    begin: tuple[int, ...]
    end: tuple[int, ...]


@dataclass(frozen=True)
class _Tile:
    """Threads of a block, its elements along the windowed axes, innermost first, and bytes."""

    threads: int
    extents: tuple[int, ...]
    shared_mem: int = 0


def choose_windows(
    shape: Shape,
    strides: Sequence[Strides],
    members: Sequence[Member],
    windows: Sequence[BoundWindow],
    sizes: Sequence[int],
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
    members : sequence of Member
        The operands.
    windows : sequence of BoundWindow
        Windows of the call.
    sizes : sequence of int
        Bytes of an element of each window.
    keep_order, merge : bool
        As in `kspec.runtime.schedules.collapse`, of the axes without windows.
    on_host : bool
        Whether it is for the CPU.
    gathers : bool
        Whether it is an adjoint, whose threads on a GPU have one element each.
    """
    count = max(len(window.reach) for window in windows)
    split = len(shape) - count
    outer = collapse(shape[:split], [one[:split] for one in strides], keep_order, merge)
    axes = _windowed_axes(shape[split:], [one[split:] for one in strides], windows)
    pack = pack_size(member.pack_width for member in members)
    folds = _folds(shape, windows)
    packed = pack > 1 and folds and _is_packed(axes, outer, members, windows, pack)
    tile = _tile(windows, sizes, axes.extents, pack, pack if packed else 1)
    tiles = [-(-all_ // own) for all_, own in zip(axes.extents, tile.extents, strict=True)]
    chosen = any(window.chosen for window in windows)
    layout = windowed(count, len(outer.extents), chosen)
    elements = _pack(axes, tiles, outer, size_of(shape), packed, folds)
    if on_host:
        threads, block = host_threads(size_of(shape), single=False)
        return ElementwiseSchedule(layout, elements, threads, block)
    if gathers:
        return ElementwiseSchedule(layout, elements, size_of(shape), _THREADS)
    blocks = math.prod(tiles) * outer.size
    return ElementwiseSchedule(
        layout,
        elements,
        blocks * tile.threads,
        tile.threads,
        (blocks, 1, 1),
        shared_mem=tile.shared_mem,
    )


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


def _tile(
    windows: Sequence[BoundWindow], sizes: Sequence[int], extents: Shape, most: int, pack: int
) -> _Tile:
    """Return the tile of a block.

    The same as ``kspec::WindowTile``, or ``kspec::Stage``.  `extents`: of the windowed axes,
    innermost first; `most`: elements of a pack; `pack`: those that a load takes.
    """
    axes = max(len(window.reach) for window in windows)
    volume = max(_volume(window) for window in windows)
    high = max(max(map(max, window.reach[:-1]), default=0) for window in windows)
    across_planes = any(max(window.reach[-3]) > 0 for window in windows if len(window.reach) > 2)
    tall = high > 4
    large = volume > 64
    flat = axes == 2 and high < 1 and volume > 16 and not large
    narrow = axes == 2 and most > 8 and volume < 10
    plain = not (tall or large)
    heavy = axes == 2 and volume > 36 and high == 3 and plain
    deep = axes > 2 and plain
    layered = any(window.layered for window in windows)
    threads = 128 if flat or narrow or (deep and volume > 16) else _THREADS
    if layered:
        threads = _layered_threads(axes, volume, most)
    if pack == 1 and (axes == 1 or (axes == 2 and most <= 4)) and plain and not flat:
        staged = _stage(windows, sizes, extents, most, threads)
        if staged.shared_mem <= _ROOM:
            return staged
    lanes = threads if axes == 1 else 32
    if axes == 2:
        lanes = 64 if (pack > 1 or tall) and not (flat or narrow) else 128
        while pack > 1 and lanes > 32 and extents[0] <= lanes // 2 * pack:
            lanes //= 2
    if axes == 1 or large:
        rows = 1
    elif axes > 2:
        rows = 1 if pack > 8 else 2
    elif tall:
        rows = 32 // pack if pack > 4 else 10
    elif pack > 1:
        rows = 8 if narrow or (heavy and pack <= 8) else 4 if pack <= 8 else 2
    elif volume < 10:
        rows = 12
    else:
        rows = 8 if high > 0 else 4
    planes = (3 if pack == 2 else 4) if across_planes and not large and pack <= 4 else 1
    steps = 2 if axes == 2 and volume > 9 and plain and not (heavy or layered) else 1
    if layered:
        rows, planes = _layered(axes, volume, pack)
    own = (lanes * pack, threads // lanes * rows, planes, 1)[:axes]
    return _Tile(threads, (*own[:-1], own[-1] * steps))


def _layered_threads(axes: int, volume: int, most: int) -> int:
    """Return the threads of a block, as ``kspec::LayeredTile``."""
    if axes < 3:
        return _THREADS
    return 128 if most != 4 else _THREADS if 27 < volume < 65 else 320


def _layered(axes: int, volume: int, pack: int) -> tuple[int, int]:
    """Return the rows and planes of a thread, as ``kspec::LayeredTile``."""
    if axes > 2:
        return (1 if pack > 4 or volume > 64 else 2), (4 if volume > 64 else 6)
    few = volume > 81 if pack <= 4 else pack > 8 or volume > 25
    return (4 if few else 8), 1


def _stage(
    windows: Sequence[BoundWindow], sizes: Sequence[int], extents: Shape, most: int, threads: int
) -> _Tile:
    """Return the tile of blocks that copy what their windows read to shared memory."""
    axes, warps = len(extents), threads // 32
    columns = 4 if most > 2 else most
    rows = 1 if axes == 1 else 4 if max(map(_volume, windows)) > 36 else 6
    # The farthest that any of them reaches along both axes, innermost first.
    reach = [
        max(max(window.reach[-1 - axis]) for window in windows if axis < len(window.reach))
        for axis in range(axes)
    ] + [0] * (2 - axes)

    def room(across: int, size: int) -> int:
        own = 32 * columns * across, warps // across * rows
        wide, high = (n + 2 * far for n, far in zip(own, reach, strict=True))
        return (high * (((wide * size + 30) & -16) + 15) + 31) & -16

    widest, narrowest = (warps, warps) if axes == 1 else (2, 1)
    shared_mem = sum(max(room(widest, size), room(narrowest, size)) for size in sizes)
    across = widest if extents[0] > 32 * columns else narrowest
    if axes == 1:
        return _Tile(threads, (32 * columns * across,), shared_mem)
    # As few warps as the blocks need that there are in any case.
    blocks = -(-extents[1] // (warps // across * rows))
    down = -(-extents[1] // (blocks * rows))
    return _Tile(32 * across * down, (32 * columns * across, down * rows), shared_mem)


def _volume(window: BoundWindow) -> int:
    """Return the number of elements that an operation may read."""
    return math.prod(before + after + 1 for before, after in window.reach)


def _is_packed(
    axes: _WindowedAxes,
    outer: Axes,
    members: Sequence[Member],
    windows: Sequence[BoundWindow],
    pack: int,
) -> bool:
    """Return whether rows are made of aligned packs in all arrays; numbers are in none."""
    if any(
        number % pack for window in windows for number in (axes.extents[0], *window.margins[-1])
    ):
        return False
    for member, inner, others in zip(members, axes.strides, outer.strides, strict=True):
        if not member.ptr:
            continue
        if inner[0] != member.itemsize:
            return False
        if any(one % (pack * member.itemsize) for one in (member.ptr, *inner[1:], *others)):
            return False
    return True


def _folds(shape: Shape, windows: Sequence[BoundWindow]) -> bool:
    """Return whether one fold brings every neighbour inside its array: see ``kspec::fold``."""
    for window in windows:
        first = len(shape) - len(window.reach)
        sides = zip(window.reach, window.margins, strict=True)
        for axis, (ends, margins) in enumerate(sides, first):
            if not max(ends) < shape[axis] + sum(margins) < _FOLDED:
                return False
    return True


def _pack(
    axes: _WindowedAxes,
    tiles: Sequence[int],
    outer: Axes,
    size: int,
    packed: bool,
    folds: bool,
) -> bytes:
    """Pack ``Elements<Windows<W, OUTER>, OPERANDS>``."""
    count = len(axes.extents)
    parts = [
        struct.pack(f"{1 + 3 * count}q", size, *axes.extents, *axes.begin, *axes.end),
        *(struct.pack(f"{count}q", *one) for one in axes.strides),
        struct.pack(f"{count}I", *tiles),
        struct.pack(f"{2 * count}I", *(one for tile in tiles for one in marshal.divisor(tile))),
        struct.pack("2I", packed, folds),
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
    extents = tuple(reversed(view.shape[-count:]))
    data += struct.pack("i", BOUNDARIES.index(window.boundary))
    data = data.ljust(marshal.up(len(data), 8), b"\0")
    data += struct.pack(
        f"{4 * count}q",
        *extents,
        *(sides[0] for sides in reversed(window.margins)),
        *before,
        *after,
    )
    return data.ljust(marshal.up(len(data), max(8, row.alignment)), b"\0")
