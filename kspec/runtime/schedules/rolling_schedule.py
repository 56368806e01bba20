"""Schedules of sliding windows: axes in, layout, geometry and packed plan out.

The layout is ``Rolling`` of ``kspec/layout.cuh``: on a GPU a thread for each output, or a block for
neighbours along the last axis; on the host device some outputs for each thread.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence

from kspec import config
from kspec.dataclass import dataclass
from kspec.model.forms.sliding import SHRINK, SlidingAxis
from kspec.model.neighbours import windows
from kspec.model.shapes import Shape, size_of
from kspec.model.stages import rolling, strided_capacity
from kspec.runtime.driver.device import Gpu
from kspec.runtime.schedules import Axes, Strides, marshal
from kspec.runtime.schedules.scan_schedule import HOST_ELEMENTS

_THREADS = 256
_LARGEST = 32  # bytes of an accumulator, at most, for kspec::RollingTile::FITS
_SHORTEST = 128  # outputs of a row that are worth a block


@dataclass(frozen=True)
class RollingSchedule:
    """Division of sliding windows among threads and blocks.

    Attributes
    ----------
    layout : str
        Tag of ``kspec/layout.cuh``.
    blocks, threads : int
        How many, and threads of each.
    plan : bytes
        ``kspec::Reduction``.
    tile : int
        Windows of a block, if they are neighbours along the last axis; 0: a thread has one of all.
    """

    layout: str
    blocks: int
    threads: int
    plan: bytes
    tile: int = 0
    shared = 0
    scratch = 0
    cooperative = False
    carveout = None

    def pack(self, scratch: int) -> bytes:
        """Return the plan; it needs no scratch memory."""
        return self.plan


def choose_rolling(
    shape: Shape,
    out_shape: Shape,
    sliding: Sequence[SlidingAxis],
    boundary: str,
    inputs: Sequence[Strides],
    outputs: Sequence[Strides],
    accumulator_size: Callable[[], int],
    gpu: Gpu | None,
    *,
    ordered: bool,
) -> RollingSchedule:
    """Return the schedule.

    Parameters
    ----------
    shape, out_shape : tuple of int
        Of the loop, and of the outputs.
    sliding : sequence of SlidingAxis
        Axes along which windows slide, outermost first.
    boundary : str
        What lies beyond their ends.
    inputs, outputs : sequence of tuple of int
        Byte strides of each operand along all axes.
    accumulator_size : callable
        Returns the bytes of an accumulator; asked on GPUs.
    gpu : Gpu or None
        None: the host device.
    ordered : bool
        Whether the map asks where in a window an element is.
    """
    steps = {one.axis: one.step for one in sliding}
    moved = [
        tuple(stride * steps.get(axis, 1) for axis, stride in enumerate(strides))
        for strides in inputs
    ]
    ndim, count = len(shape), size_of(out_shape)
    length = math.prod(one.size for one in sliding)
    along = [tuple(reversed(strides)) for strides in (*moved, *outputs)]
    # With CONSTANT, ``kspec::index_outside`` says that there is no element.
    code = windows.BOUNDARIES.index(windows.CONSTANT if boundary == SHRINK else boundary)
    tile = accumulator = 0
    if not (gpu is None or ordered or count == 0) and _is_stretch(sliding, ndim):
        accumulator = accumulator_size()
        tile = _tile(out_shape[-1], length, accumulator)
    tiles = -(-out_shape[-1] // tile) if tile else 0
    plan = struct.pack("2q2iq", count, length, code, tile, tiles)
    for one in reversed(sliding):
        numbers = ndim - 1 - one.axis, one.size, one.step, one.before, shape[one.axis]
        plan += struct.pack(f"{5 + len(inputs)}q", *numbers, *(row[one.axis] for row in inputs))
    plan += marshal.pack_axes(Axes(out_shape[::-1], tuple(along)), strided_capacity(ndim))
    layout = rolling(len(sliding), ndim)
    if gpu is None:
        blocks = min(count, 4 * config.host_threads(), 1 + count * length // HOST_ELEMENTS)
        return RollingSchedule(layout, blocks, 1, plan)
    if tile:
        needed = -(-(tile + length - 1) // _items(accumulator))
        blocks = count // out_shape[-1] * tiles
        return RollingSchedule(layout, blocks, -(-needed // 32) * 32, plan, tile)
    return RollingSchedule(layout, -(-count // _THREADS), _THREADS, plan)


def _is_stretch(sliding: Sequence[SlidingAxis], ndim: int) -> bool:
    """Whether neighbouring windows share all elements but one, and are neighbours in memory."""
    return [(one.axis, one.step) for one in sliding] == [(ndim - 1, 1)]


def most_elements(accumulator: int) -> int:
    """Return the elements of a ``kspec::RollingTile``; 0: accumulators are too large for one."""
    return _THREADS * _items(accumulator) if accumulator <= _LARGEST else 0


def _items(accumulator: int) -> int:
    """Elements of a thread."""
    return 3 if accumulator > 16 else 5 if accumulator > 8 else 9 if accumulator > 4 else 15


def _tile(length: int, size: int, accumulator: int) -> int:
    """Windows of a block, for rows of `length` windows of so many elements; 0: of a thread."""
    elements = most_elements(accumulator)
    most = elements - size + 1
    if length < _SHORTEST or size == 0 or most <= elements // 2:
        return 0
    return min(length, most)
