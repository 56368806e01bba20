"""Schedules of scans: axes in, layout, geometry and packed plan out.

The layouts are ``ScanLines``, ``ScanWaves``, ``ScanColumns`` and ``ScanWalks`` of
``kspec/layout.cuh``; this module packs ``kspec::ScanPlan``.  The choice depends on strides,
alignment, sizes and the device alone, and tiles are always joined in the same order, so equal
calls give equal bits.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

from kspec import config
from kspec.dataclass import dataclass
from kspec.model.stages import (
    pack_size,
    scan_columns,
    scan_lines,
    scan_walks,
    scan_waves,
    strided_capacity,
)
from kspec.runtime.driver.device import Gpu
from kspec.runtime.schedules import Axes, Strides, marshal
from kspec.runtime.schedules.elementwise_schedule import Member
from kspec.runtime.schedules.wave_schedule import Waves, choose_waves

_NARROW_LIMIT = 2**31  # elements that 32-bit indices count
SIDE = 32  # rows of a tile of columns
COLUMN_THREADS = 256
_WALKING = 96  # bytes of an accumulator, at most, for kspec::ColumnTile::WALKS
_WALKING_BLOCKS = 2  # of a multiprocessor, if there are enough rows for them
_FEW_ROWS = 8  # side by side, for which columns are not worth it
_PACK_BYTES = 128  # of the accumulators of a pack
_RUN_ABOVE = 32  # bytes of an accumulator, kspec::RUN_ABOVE
_RUN = 16  # elements, kspec::RunTile::ITEMS
TICKETS = 256  # bytes in front of the messages, in which blocks take their tiles
HOST_ELEMENTS = 65536  # that are worth another host thread


@dataclass(frozen=True)
class ScanTile:
    """``kspec::ScanTile``: threads of a block, and elements of each.

    Attributes
    ----------
    threads : int
        Threads.
    items : int
        Elements of a thread.
    pack : int
        Elements of one access.
    """

    threads: int
    items: int
    pack: int

    @classmethod
    def of(cls, accumulator: int, pack: int = 1) -> ScanTile:
        """Return the tile for accumulators of so many bytes; packs are taken if they fit."""
        if accumulator > _RUN_ABOVE:
            return cls(128 if accumulator > 96 else 256, _RUN, pack)
        pack = fitting_pack(accumulator, pack)
        items = 96 // accumulator if accumulator > 4 else 24
        if pack == 1:
            items = min(items, 8)
        return cls(256, max(items // pack, 1) * pack, pack)

    @property
    def size(self) -> int:
        """Elements."""
        return self.threads * self.items


def column_tile(accumulator: int) -> int:
    """Return the elements of a row in a ``kspec::ColumnTile``."""
    return _column_tile(accumulator, 16)


def walked_tile(accumulator: int) -> int:
    """Return the elements of a row in a ``kspec::WalkedTile``."""
    return _column_tile(accumulator, 12)


def high_tile(accumulator: int) -> int:
    """Return the elements of a row in a ``kspec::HighTile``."""
    sizes = 4, 8, 16, 32, accumulator
    words = next(2**k for k, size in enumerate(sizes) if accumulator <= size)
    return 8 * (64 // words if words > 1 else 80)


def _column_tile(accumulator: int, most: int) -> int:
    return 8 * (4 if accumulator > 16 else most // 2 if accumulator > 4 else most)


@dataclass(frozen=True)
class Division:
    """Tiles that follow each other, and the memory in which they exchange aggregates.

    Here nothing is exchanged, and each tile has a block.

    Attributes
    ----------
    tiles : int
        Tiles that follow each other.
    accumulator : int
        Bytes of an accumulator.
    chains : int
        Sets of such tiles.
    """

    tiles: int
    accumulator: int = 1
    chains: int = 1

    @property
    def groups(self) -> int:
        """Groups of the tiles of a set that exchange something else."""
        return 0

    @property
    def work(self) -> int:
        """Work of each block that finds its own tiles; 0: none does."""
        return 0

    @property
    def blocks(self) -> int:
        """Number of blocks."""
        return self.tiles * self.chains

    @property
    def front(self) -> int:
        """Bytes of tickets and counters, in front of the aggregates."""
        return 0

    @property
    def nbytes(self) -> int:
        """Bytes of it all, zero before the first launch."""
        return 0


@dataclass(frozen=True)
class LookBack(Division):
    """``kspec::LookBack``: tiles publish their aggregates, and read those of others.

    Attributes
    ----------
    columns : int
        Rows side by side in each set of tiles.
    """

    columns: int = 1

    @property
    def words(self) -> int:
        """Number of 32-bit words of a message."""
        return -(-self.accumulator // 4)

    @property
    def group(self) -> int:
        """Tiles of a group."""
        readers = COLUMN_THREADS // 32 - 1 if self.columns > 1 else 32
        return readers * (1 if self.words > 4 else 2 if self.words > 2 else 4)

    @property
    def groups(self) -> int:
        """Groups of a set."""
        return -(-self.tiles // self.group)

    @property
    def front(self) -> int:
        """Bytes of tickets."""
        return TICKETS

    @property
    def nbytes(self) -> int:
        """Bytes of it all, zero before the first launch; none if no tile follows another."""
        if self.tiles == 1:
            return 0
        messages = (self.tiles + self.groups) * self.columns * self.chains
        return self.front + 8 * self.words * messages


@dataclass(frozen=True)
class Walk(Division):
    """Each block has all tiles of a set, one after the other."""

    @property
    def blocks(self) -> int:
        """Number of blocks."""
        return self.chains


@dataclass(frozen=True)
class ScanSchedule:
    """Division of a scan among threads and blocks.

    Attributes
    ----------
    layout : str
        Tag of ``kspec/layout.cuh``.
    threads : int
        Threads of a block.
    head, tail : bytes
        The plan before and after its pointers to scratch memory.
    division : Division
        What that memory holds, and how many tiles there are.
    shared : int
        Bytes of dynamic shared memory.
    waves : Waves or None
        How blocks that stay divide these; None: each block has one.
    carveout : int or None
        Percentage of a multiprocessor's memory that is preferred as shared memory; None: as the
        driver chooses.
    """

    layout: str
    threads: int
    head: bytes
    tail: bytes
    division: Division
    shared: int = 0
    waves: Waves | None = None
    carveout: int | None = None

    @property
    def blocks(self) -> int:
        """Number of blocks."""
        return self.waves.blocks if self.waves else self.division.blocks

    @property
    def cooperative(self) -> bool:
        """Whether all blocks must be resident."""
        return self.waves is not None

    @property
    def scratch(self) -> int:
        """Bytes of scratch memory, all zero before the first launch."""
        return self.division.nbytes

    def pack(self, scratch: int) -> bytes:
        """Pack the plan with the address of its scratch memory, or 0."""
        carries = scratch + self.division.front if scratch else 0
        return self.head + struct.pack("2P", carries, scratch) + self.tail


@dataclass(frozen=True)
class Scanned:
    """The axes of a scan.

    Attributes
    ----------
    rows : Axes
        Collapsed axes beside the scanned one, over all operands.
    length : int
        Extent of the scanned axis.
    steps : tuple of int
        For each operand, its byte stride along that axis.
    exclusive, reverse : bool
        As in the call.
    loads_outputs : bool
        Whether the post-map may read old values of outputs, which packs of them do not have.
    """

    rows: Axes
    length: int
    steps: tuple[int, ...]
    exclusive: bool = False
    reverse: bool = False
    loads_outputs: bool = False

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.rows.size * self.length


def choose_scan(
    scanned: Scanned,
    members: Sequence[Member],
    accumulator_size: Callable[[], int],
    gpu: Gpu | None,
) -> ScanSchedule:
    """Return the schedule.

    Parameters
    ----------
    scanned : Scanned
        The axes.
    members : sequence of Member
        Inputs and outputs.
    accumulator_size : callable
        Returns the bytes of an accumulator; asked on GPUs.
    gpu : Gpu or None
        None: the host device, with one thread a block, and rows for each.
    """
    if gpu is None:
        wanted = min(scanned.rows.size, 4 * config.host_threads())
        blocks = min(wanted, 1 + scanned.size // HOST_ELEMENTS)
        return _packed(scanned, scan_lines, 1, LookBack(1, chains=blocks))
    accumulator = accumulator_size()
    if _is_beside(scanned):
        chains = -(-scanned.rows.size // SIDE)
        if accumulator <= _WALKING and chains >= _WALKING_BLOCKS * gpu.multiprocessors:
            tiles = -(-scanned.length // walked_tile(accumulator))
            walk = Walk(tiles, accumulator, chains)
            return _packed(scanned, scan_walks, COLUMN_THREADS, walk)
        tiles = -(-scanned.length // high_tile(accumulator))
        high = LookBack(tiles, accumulator, chains, SIDE)
        return _packed(scanned, scan_columns, COLUMN_THREADS, high)
    strides = scanned.rows.strides
    pack = pack_size(one.pack_width for one in members)
    tile = ScanTile.of(accumulator, pack)
    shift = -1
    if not scanned.loads_outputs:
        shift = aligned_shift(strides, scanned.steps, scanned.length, members, tile.pack)
    elements = scanned.size + max(shift, 0)
    if shift >= 0:
        waves = choose_waves(elements, accumulator, members, gpu)
        if waves is not None:
            held = waves.tile
            look_back = LookBack(-(-elements // held.size), accumulator)
            return _packed(
                scanned, scan_waves, held.threads, look_back, shift, held.size, waves=waves
            )
    if scanned.reverse or shift < 0:
        tile, shift = ScanTile.of(accumulator), -1
    look_back = LookBack(-(-(scanned.size + max(shift, 0)) // tile.size), accumulator)
    return _packed(scanned, scan_lines, tile.threads, look_back, shift, tile.size)


def _is_beside(scanned: Scanned) -> bool:
    """Whether neighbouring rows are neighbours in memory, rather than the elements of a row."""
    rows = scanned.rows
    if not rows.extents or rows.extents[0] < _FEW_ROWS:
        return False
    nearest = [abs(steps[0]) for steps in rows.strides]
    along = [abs(step) for step in scanned.steps]
    # The output, which is always an array of its own, decides.
    return nearest[-1] < along[-1]


def fitting_pack(accumulator: int, pack: int) -> int:
    """Return `pack` if a thread has registers for so many accumulators, otherwise 1."""
    return pack if pack * accumulator <= _PACK_BYTES else 1


def aligned_shift(
    rows: Sequence[Strides],
    steps: Sequence[int],
    length: int,
    members: Sequence[Member],
    pack: int,
) -> int:
    """Return the number of elements before the first one, from which packs are aligned.

    -1: there are no packs, for element number n of some operand is not number n in memory.

    Parameters
    ----------
    rows : sequence of tuple of int
        For each operand, its byte strides along the collapsed axes beside that of `steps`.
    steps : sequence of int
        For each operand, its byte stride along the axis.
    length : int
        Extent of the axis.
    members : sequence of Member
        The operands.
    pack : int
        Elements of a pack.
    """
    shifts = set()
    for row, step, one in zip(rows, steps, members, strict=False):
        if len(row) > 1 or one.ptr % one.itemsize:
            return -1
        if not step and not any(row):
            continue  # a number, or one element for all
        if (step, *row) != (one.itemsize, *[length * one.itemsize for _ in row]):
            return -1
        shifts.add(one.ptr // one.itemsize % pack)
    return shifts.pop() if len(shifts) == 1 and pack > 1 else -1


def _packed(
    scanned: Scanned,
    tag: Callable[[int], str],
    threads: int,
    division: Division,
    shift: int = -1,
    margin: int = 0,
    *,
    waves: Waves | None = None,
) -> ScanSchedule:
    rows, length = scanned.rows, scanned.length
    narrow = scanned.size + margin < _NARROW_LIMIT
    flags = scanned.exclusive, scanned.reverse, shift >= 0, max(shift, 0), narrow
    head = struct.pack("2q", rows.size, length)
    head += struct.pack("6i", *flags, division.chains)
    head += struct.pack("2I", *marshal.divisor(length))
    head += struct.pack("2q", division.tiles, division.groups)
    ndim = len(rows.extents)
    tail = struct.pack(f"{len(scanned.steps)}q", *scanned.steps)
    tail += marshal.pack_axes(rows, strided_capacity(ndim))
    shared = waves.tile.shared if waves else 0
    return ScanSchedule(tag(ndim), threads, head, tail, division, shared, waves)
