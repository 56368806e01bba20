"""Schedules of segments: columns and bounds in, layout, geometry and packed plan out.

The layouts are ``SegmentLines`` and ``SegmentColumns`` of ``kspec/layout.cuh``; this module packs
``kspec::SegmentPlan``. The bounds are not read here: blocks have equally many elements, whatever
segments they are of.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import replace

from kspec import config
from kspec.dataclass import dataclass
from kspec.model import dtypes
from kspec.model.stages import pack_size, segment_columns, segment_lines, strided_capacity
from kspec.runtime.driver.device import Gpu
from kspec.runtime.memory import ArrayView
from kspec.runtime.schedules import Axes, marshal
from kspec.runtime.schedules.elementwise_schedule import Member
from kspec.runtime.schedules.scan_schedule import (
    COLUMN_THREADS,
    HOST_ELEMENTS,
    SIDE,
    TICKETS,
    Division,
    LookBack,
    ScanSchedule,
    aligned_shift,
    column_tile,
    fitting_pack,
)

# Offset of the address of the bounds in the plan.
BOUNDS = 24
_CHUNK = 32  # kspec::CHUNK
_THREADS = 768  # of a multiprocessor: kspec::MinBlocks
_SHARED = 2 / 3  # of its memory, at most, if elements are gathered through the L1 cache
_LONGEST = 128  # tiles of a stretch
_WORK = 16  # kspec::SEGMENT_WORK: of a segment's end, in elements


@dataclass(frozen=True)
class SegmentTile:
    """``kspec::SegmentTile``: elements that a block has in hand, and the bounds beside them.

    Attributes
    ----------
    accumulator : int
        Bytes of an accumulator.
    pack : int
        Elements of a pack; 1: there are none.
    inputs : tuple of int
        Bytes of an element of each input.
    """

    accumulator: int
    pack: int
    inputs: tuple[int, ...]

    @property
    def threads(self) -> int:
        """Number of threads."""
        return 128 if self.accumulator > 96 or self._several else 256

    @property
    def size(self) -> int:
        """Number of elements."""
        held = self.pack * (self._copied + self._made) if self.pack > 1 else 4 * self._made
        middle = 64 if self._several else 48
        fitting = 7 if held <= 32 else 5 if held <= middle else 3 if held <= 128 else 1
        return (
            self.threads
            * self.pack
            * min(fitting, 1 if self.pack > 8 else 3 if self.pack > 4 else 7)
        )

    @property
    def shared(self) -> int:
        """Bytes of dynamic shared memory."""
        near = 4 * self.threads + 1
        ends = near * (8 + 2 * 4) + 4 * (self.size // 32 + 3)
        return sum(-(-one // 16) * 16 for one in (ends, self.size * self._made)) + (
            self.size * self._copied
        )

    @property
    def block(self) -> int:
        """Bytes of all shared memory of a block, at most: carries of warps, and its part, too."""
        return self.shared + (self.threads // 32 + 2) * _carry(self.accumulator) + 40

    def blocks(self, gpu: Gpu, gathers: bool) -> int:
        """Return the number of blocks that a multiprocessor is to have at the same time.

        `gathers`: whether operations read raw arrays, too.
        """
        share = _SHARED if gathers else 1
        return min(gpu.blocks_with(self.block, share), _THREADS // self.threads)

    @property
    def _several(self) -> bool:
        return len(self.inputs) > 1

    @property
    def _copied(self) -> int:
        return 2 * sum(self.inputs) if self.pack > 1 else 0

    @property
    def _made(self) -> int:
        in_place = self.pack > 1 and self.inputs[0] == self.accumulator
        return 0 if in_place else self.accumulator


@dataclass(frozen=True)
class Parts(Division):
    """Each block has a stretch of tiles, and leaves ``kspec::SegmentPart``; `tiles` are stretches.

    Attributes
    ----------
    work : int
        Of each: one for an element, and more for the end of a segment.
    """

    work: int = 0

    @classmethod
    def of(cls, tiles: int, size: int, segments: int, accumulator: int, resident: int) -> Parts:
        """Divide tiles of so many elements, and segments, in stretches.

        Each of the blocks that are resident at the same time has as many of them as the others.
        """
        rounds = -(-tiles // (resident * _LONGEST))
        stretches = min(tiles, rounds * resident)
        return cls(stretches, accumulator, work=-(-(tiles * size + _WORK * segments) // stretches))

    @property
    def chunks(self) -> int:
        """Number of sets of stretches that are joined by themselves."""
        return -(-self.tiles // _CHUNK)

    @property
    def front(self) -> int:
        """Bytes in front of the parts: counters of blocks, and of chunks."""
        return -(-8 * (self.chunks + 1) // TICKETS) * TICKETS

    @property
    def nbytes(self) -> int:
        """Bytes of it all, at most."""
        if self.tiles == 1:
            return 0
        return self.front + self.part * (self.tiles + self.chunks)

    @property
    def part(self) -> int:
        """Bytes of one, at most."""
        return 2 * _carry(self.accumulator) + 16


def _carry(accumulator: int) -> int:
    """Return the bytes of a ``kspec::Carry``, at most."""
    return -(-(accumulator + 4) // 16) * 16


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
    gathers : bool
        Whether operations read raw arrays, too.
    """

    columns: Axes
    length: int
    steps: tuple[int, ...]
    bounds: ArrayView
    gathers: bool = False

    @property
    def segments(self) -> int:
        """Number of segments."""
        return self.bounds.shape[0] - 1


def choose_segments(
    segmented: Segmented,
    inputs: Sequence[Member],
    accumulator_size: Callable[[], int],
    gpu: Gpu | None,
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
    gpu : Gpu or None
        None: the host device, with one thread a block, and segments for each.
    """
    columns, length = segmented.columns, segmented.length
    if gpu is None:
        work = 1 + length * columns.size // HOST_ELEMENTS
        blocks = max(1, min(segmented.segments, 4 * config.host_threads(), work))
        return _packed(segmented, 1, LookBack(1, chains=blocks))
    accumulator = accumulator_size()
    if columns.size > 1:
        tiles = max(1, -(-length // column_tile(accumulator)))
        look_back = LookBack(tiles, accumulator, -(-columns.size // SIDE), SIDE)
        return _packed(segmented, COLUMN_THREADS, look_back)
    rows = [() for _ in inputs]
    pack = fitting_pack(accumulator, pack_size(one.pack_width for one in inputs))
    shift = aligned_shift(rows, segmented.steps, length, inputs, pack)
    sizes = tuple(one.itemsize for one in inputs)
    tile = SegmentTile(accumulator, pack if shift >= 0 else 1, sizes)
    if tile.block > gpu.shared_memory:
        tile, shift = replace(tile, pack=1), -1
    tiles = max(1, -(-(length + max(shift, 0)) // tile.size))
    blocks = tile.blocks(gpu, segmented.gathers)
    resident = gpu.multiprocessors * blocks
    parts = Parts.of(tiles, tile.size, segmented.segments, accumulator, resident)
    schedule = _packed(segmented, tile.threads, parts, shift, tile.shared)
    if parts.blocks < resident:
        return schedule
    return replace(schedule, carveout=gpu.carveout_of(blocks, tile.block))


def _packed(
    segmented: Segmented,
    threads: int,
    division: Division,
    shift: int = -1,
    shared: int = 0,
) -> ScanSchedule:
    columns, bounds = segmented.columns, segmented.bounds
    dtype = dtypes.lookup(bounds.dtype)
    head = struct.pack("3q", columns.size, segmented.length, segmented.segments)
    head += struct.pack("Pq2i", bounds.ptr, bounds.strides[0], dtype.itemsize, dtype.kind == "i")
    head += struct.pack("2i", shift >= 0, max(shift, 0))
    head += struct.pack("4q", division.chains, division.tiles, division.groups, division.work)
    ndim = len(columns.extents)
    tail = struct.pack(f"{len(segmented.steps)}q", *segmented.steps)
    tail += marshal.pack_axes(columns, strided_capacity(ndim))
    layout = segment_columns(ndim) if columns.size > 1 else segment_lines(ndim)
    return ScanSchedule(layout, threads, head, tail, division, shared)
