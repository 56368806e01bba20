"""Common parts of the schedules of reductions: a sharing of the work in, packed bytes out.

A `Sharing` is a decision, made by a rule or found by measuring; a `Reader` knows which decisions a
kernel's layout can follow for given axes, and packs the structures of ``kspec/reduce.cuh``.  Here
is the one that takes any axes, with the layout ``Strided``, and the schedule of the host device;
`lines` and `columns` have the others.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from typing import Protocol

from kspec import config
from kspec.dataclass import dataclass
from kspec.model.stages import strided, strided_capacity
from kspec.runtime.schedules import Axes, marshal
from kspec.runtime.schedules.elementwise_schedule import Member

MAX_ACCUMULATOR = 192  # bytes; the static_assert in reduce.cuh
MAX_SPLITS = 65535  # blocks along y
_THREADS = 256  # kspec::MaxThreads of the layout
_ELEMENTS_PER_LANE = 8  # fewer are not worth another thread
_HOST_SPLIT = 65536  # elements of one output that are worth another host thread

# Returns how many blocks of so many threads of a layout's kernel a device holds at once.
Resident = Callable[[str, int], int]


@dataclass(frozen=True)
class Sharing:
    """Sharing of a reduction among threads and blocks, as far as it is free.

    Attributes
    ----------
    layout : str
        Tag of ``kspec/layout.cuh``.
    threads : int
        Of a block.
    splits : int
        Blocks that share an output.
    lanes : int
        2^lanes threads share an output; not of columns.
    side : int
        Threads side by side in a block of columns.
    way : {"packs", "elements", "staged"}
        How lines are read.
    """

    layout: str
    threads: int = 256
    splits: int = 1
    lanes: int = 0
    side: int = 0
    way: str = "packs"

    @property
    def choice(self) -> dict[str, int | str]:
        """The attributes that are not the default ones."""
        return {
            one.name: getattr(self, one.name)
            for one in fields(self)
            if getattr(self, one.name) != one.default
        }

    @classmethod
    def of(cls, choice: Mapping[str, int | str] | None) -> Sharing | None:
        """Return the sharing that `choice` is of, or None if there is none of this kspec's."""
        known = asdict(cls(""))
        if choice is None or any(type(known.get(key)) is not type(choice[key]) for key in choice):
            return None
        return cls(**{**known, **choice})


@dataclass(frozen=True)
class ReductionSchedule:
    """A sharing with its geometry and packed plan.

    Attributes
    ----------
    layout : str
        Tag of ``kspec/layout.cuh``.
    tiles, splits : int
        Blocks along x and y; `splits` of them share each output.
    threads : int
        Of a block.
    partials : int
        Accumulators in memory, when there is more than one split.
    head, tail : bytes
        ``kspec::Reduction`` before and after its pointers to scratch memory.
    joins : int
        Tickets of each block along x.
    """

    layout: str
    tiles: int
    splits: int
    threads: int
    partials: int
    head: bytes
    tail: bytes
    joins: int = 1

    @property
    def tickets(self) -> int:
        """Bytes of scratch memory that are zero before and after the launch."""
        return -(-4 * self.tiles * self.joins // 256) * 256 if self.splits > 1 else 0

    def scratch(self, accumulator: int) -> int:
        """Bytes of scratch memory, tickets first, for accumulators of so many bytes."""
        return self.tickets + self.partials * accumulator if self.splits > 1 else 0

    def pack(self, scratch: int) -> bytes:
        """Pack ``kspec::Reduction`` with the address of its scratch memory, or 0."""
        pointers = struct.pack("2P", scratch + self.tickets if scratch else 0, scratch)
        return self.head + pointers + self.tail


class Reader(Protocol):
    """A way to read the elements of a reduction, for axes that allow it."""

    def rule(self, multiprocessors: int, resident: Resident) -> Sharing | None:
        """Return the sharing that the rules prefer; None if another reader does better."""

    def options(self, multiprocessors: int, resident: Resident) -> Iterator[Sharing]:
        """Yield sharings that are worth measuring, all of which `fits` accepts."""

    def fits(self, sharing: Sharing) -> bool:
        """Whether the kernel can follow a sharing."""

    def schedule(self, sharing: Sharing) -> ReductionSchedule:
        """Return the schedule of a sharing that `fits` accepts."""


def is_power(number: int) -> bool:
    """Whether a number is a power of two."""
    return number > 0 and number & (number - 1) == 0


def aligned_inputs(inputs: Sequence[Member], pack: int, *axes: tuple[Axes, int]) -> int:
    """Return a bit for each input whose packs are aligned: its address, and each stride.

    `axes`: axes, and how many of the innermost are steps within packs.
    """
    bits = 0
    for k, one in enumerate(inputs):
        steps = [step for some, inner in axes for step in some.strides[k][inner:]]
        if not any(step % (pack * one.itemsize) for step in (one.ptr, *steps)):
            bits |= 1 << k
    return bits


def inputs_abreast(inputs: Sequence[Member], leader: int, pack: int, *axes: Axes) -> int:
    """Return a bit for each input whose packs are aligned whenever those of the leader are."""

    def places(k: int) -> list[int] | None:
        """Packs of its elements: the first, and the steps to others."""
        size = inputs[k].itemsize
        ways = [inputs[k].ptr, *(step for one in axes for step in one.strides[k])]
        return None if any(way % size for way in ways) else [way // size % pack for way in ways]

    first = places(leader)
    return sum(1 << k for k in range(len(inputs)) if first is not None and places(k) == first)


def pack_both(kept: Axes, reduced: Axes, capacity: int = strided_capacity(1)) -> bytes:
    """Pack the axes at the end of ``kspec::Reduction``."""
    return marshal.pack_axes(kept, capacity) + marshal.pack_axes(reduced, capacity)


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
