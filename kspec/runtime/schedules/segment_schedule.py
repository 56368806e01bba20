"""Schedules of segments: columns and bounds in, layout, geometry and packed plan out.

The layouts are ``SegmentLines`` and ``SegmentColumns`` of ``kspec/layout.cuh``; this module packs
``kspec::SegmentPlan``. The bounds are not read here: blocks have equally many elements, whatever
segments they are of.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kspec import config
from kspec.model import dtypes
from kspec.model.stages import segment_columns, segment_lines, strided_capacity
from kspec.runtime.memory.array_view import ArrayView
from kspec.runtime.schedules import marshal
from kspec.runtime.schedules.elementwise_schedule import Member
from kspec.runtime.schedules.scan_schedule import (
    COLUMN_THREADS,
    HOST_ELEMENTS,
    SIDE,
    LookBack,
    ScanSchedule,
    column_tile,
    line_tile,
)
from kspec.runtime.schedules.strides import Axes

# Offset of the address of the bounds in the plan.
BOUNDS = 24


@dataclass(frozen=True)
class Segmented:
    """The axes of segments.

    Attributes
    ----------
    columns : Axes
        Collapsed axes behind the first, over all operands.
    length : int
        Elements of the first axis.
    steps : tuple of int
        For each input its byte stride from element to element, for each output from segment to
        segment.
    bounds : ArrayView
        Where segments begin, and the last one ends.
    """

    columns: Axes
    length: int
    steps: tuple[int, ...]
    bounds: ArrayView

    @property
    def segments(self) -> int:
        """Number of segments."""
        return self.bounds.shape[0] - 1


def choose_segments(
    segmented: Segmented,
    inputs: Sequence[Member],
    accumulator_size: Callable[[], int],
    *,
    on_host: bool,
) -> ScanSchedule:
    """Return the schedule.

    Parameters
    ----------
    segmented : Segmented
        The axes.
    inputs : sequence of Member
        The inputs.
    accumulator_size : callable
        Returns the bytes of an accumulator; asked on GPUs.
    on_host : bool
        Whether it is the host device's: one thread a block, and segments for each.
    """
    columns, length = segmented.columns, segmented.length
    if on_host:
        work = 1 + length * columns.size // HOST_ELEMENTS
        blocks = max(1, min(segmented.segments, 4 * config.host_threads(), work))
        return _packed(segmented, 1, LookBack(1, chains=blocks))
    accumulator = accumulator_size()
    if columns.size > 1:
        tiles = max(1, -(-length // column_tile(accumulator)))
        look_back = LookBack(tiles, accumulator, -(-columns.size // SIDE), SIDE)
        return _packed(segmented, COLUMN_THREADS, look_back)
    rows = [() for _ in inputs]
    tile, shift = line_tile(accumulator, rows, segmented.steps, length, inputs)
    tiles = max(1, -(-(length + max(shift, 0)) // tile.size))
    return _packed(segmented, tile.threads, LookBack(tiles, accumulator), shift)


def _packed(
    segmented: Segmented, threads: int, look_back: LookBack, shift: int = -1
) -> ScanSchedule:
    columns, bounds = segmented.columns, segmented.bounds
    dtype = dtypes.lookup(bounds.dtype)
    head = struct.pack("3q", columns.size, segmented.length, segmented.segments)
    head += struct.pack("Pq2i", bounds.ptr, bounds.strides[0], dtype.itemsize, dtype.kind == "i")
    head += struct.pack("2i", shift >= 0, max(shift, 0))
    head += struct.pack("3q", look_back.chains, look_back.tiles, look_back.groups)
    ndim = len(columns.extents)
    tail = struct.pack(f"{len(segmented.steps)}q", *segmented.steps)
    tail += marshal.pack_axes(columns, strided_capacity(ndim))
    layout = segment_columns(ndim) if columns.size > 1 else segment_lines(ndim)
    return ScanSchedule(layout, threads, head, tail, look_back)
