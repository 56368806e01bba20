"""Reductions of elements that may be anywhere: the layout ``Strided``, and the host device's."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from kspec import config
from kspec.dataclass import dataclass
from kspec.model.stages import strided, strided_capacity
from kspec.runtime.schedules.reductions.sharing import (
    MAX_SPLITS,
    ReductionSchedule,
    Resident,
    Sharing,
    pack_both,
)
from kspec.runtime.schedules.strides import Axes

_THREADS = 256  # kspec::MaxThreads of the layout
_ELEMENTS_PER_LANE = 8  # fewer are not worth another thread
_HOST_SPLIT = 65536  # elements of one output that are worth another host thread


@dataclass(frozen=True)
class StridedReader:
    """Elements anywhere.

    Attributes
    ----------
    kept, reduced : Axes
        Collapsed axes.
    """

    kept: Axes
    reduced: Axes

    @property
    def _length(self) -> int:
        return max(1, self.reduced.size)

    @property
    def _has_neighbours(self) -> bool:
        """Whether neighbouring outputs are nearer to each other than their elements."""
        return _first_step(self.kept) < _first_step(self.reduced)

    def _most_splits(self, lanes: int) -> int:
        return max(1, min(self._length // (_ELEMENTS_PER_LANE << lanes), MAX_SPLITS))

    def rule(self, multiprocessors: int, resident: Resident | None = None) -> Sharing:
        """Return a sharing for any axes."""
        lanes = 1
        while lanes < _THREADS and lanes * _ELEMENTS_PER_LANE < self._length:
            lanes *= 2
        rows = _THREADS // lanes
        if self._has_neighbours and rows < 32:
            # Coalesce over outputs: a warp of neighbours, the rest of the block along the axis.
            rows = min(32, 1 << (self.kept.size - 1).bit_length())
        return self._split((_THREADS // rows).bit_length() - 1, 8 * multiprocessors)

    def _split(self, lanes: int, blocks: int) -> Sharing:
        """Return the sharing with about so many blocks."""
        tiles = -(-self.kept.size // (_THREADS >> lanes))
        splits = max(1, min(blocks // tiles, self._most_splits(lanes)))
        return Sharing(strided(self._ndim), _THREADS, splits, lanes)

    @property
    def _ndim(self) -> int:
        return max(len(self.kept.extents), len(self.reduced.extents))

    def options(self, multiprocessors: int, resident: Resident) -> Iterator[Sharing]:
        """Yield sharings that are worth measuring."""
        blocks = [multiprocessors * times for times in (4, 8, 16)]
        found = [self._split(lanes, one) for lanes in range(9) for one in blocks]
        return iter(dict.fromkeys(found))

    def fits(self, sharing: Sharing) -> bool:
        """Whether the kernel can follow a sharing."""
        return (
            (sharing.layout, sharing.threads) == (strided(self._ndim), _THREADS)
            and (sharing.side, sharing.way) == (0, "packs")
            and 0 <= sharing.lanes < 9
            and 1 <= sharing.splits <= self._most_splits(sharing.lanes)
        )

    def schedule(self, sharing: Sharing) -> ReductionSchedule:
        """Return the schedule of a sharing."""
        lanes = 1 << sharing.lanes
        rows = sharing.threads // lanes
        return _pack(self.kept, self.reduced, lanes, rows, self._has_neighbours, sharing.splits)


def choose_strided(kept: Axes, reduced: Axes, multiprocessors: int) -> ReductionSchedule:
    """Return a GPU's schedule for elements that may be anywhere."""
    reader = StridedReader(kept, reduced)
    return reader.schedule(reader.rule(multiprocessors))


def choose_host(kept: Axes, reduced: Axes) -> ReductionSchedule:
    """Return the host device's schedule: one thread a block, and one chunk for each core."""
    outputs, splits = kept.size, 1
    if outputs < config.host_threads():
        splits = max(1, min(4 * config.host_threads() // outputs, reduced.size // _HOST_SPLIT))
    return _pack(kept, reduced, 1, 1, False, splits)


def choose_ordered(kept: Axes, reduced: Axes) -> ReductionSchedule:
    """Return a GPU's schedule for a few elements of each output, which a thread joins in order."""
    return _pack(kept, reduced, 1, _THREADS, True, 1)


def _first_step(axes: Axes) -> int:
    """Return the distance of neighbours along the innermost axis, over the first input."""
    return abs(axes.strides[0][0]) if axes.extents else 2**63


def _pack(
    kept: Axes, reduced: Axes, lanes: int, rows: int, neighbours: bool, splits: int
) -> ReductionSchedule:
    chunk = -(-max(1, reduced.size) // splits)
    splits = -(-max(1, reduced.size) // chunk)  # no split without elements
    ndim = max(len(kept.extents), len(reduced.extents))
    head = struct.pack("3q4i", kept.size, reduced.size, chunk, lanes, rows, neighbours, splits)
    tail = pack_both(kept, reduced, strided_capacity(ndim))
    tiles = -(-kept.size // rows)
    return ReductionSchedule(
        strided(ndim), tiles, splits, lanes * rows, kept.size * splits, head, tail
    )
