"""Schedules of reductions by key: columns and keys in, layout, geometry and packed plan out.

The layouts are ``KeyCells``, ``KeyBins``, ``KeyRuns``, ``KeyGroups`` and ``KeySorted`` of
``kspec/layout.cuh``; this module packs ``kspec::KeyPlan``. The keys are not read here.

* ``KeyCells``: all threads update the accumulators of keys, in any order.
* ``KeyBins``: each thread has accumulators of a few keys, for known operations of numbers.
* ``KeyRuns``: elements keep their order; each warp has accumulators of a few keys.
* ``KeyGroups``: elements keep their order; rows are grouped by key, and warps have accumulators of
  a group. For many keys that have some elements each.
* ``KeySorted``: elements keep their order; rows are sorted by key.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace

from kspec import config
from kspec.dataclass import dataclass
from kspec.errors import NotSupportedError
from kspec.model.dtypes import DType, lookup
from kspec.model.stages import (
    key_bins,
    key_cells,
    key_groups,
    key_runs,
    key_sorted,
    strided_capacity,
)
from kspec.runtime.driver.device import Gpu
from kspec.runtime.memory import ArrayView
from kspec.runtime.schedules import Axes, marshal
from kspec.runtime.schedules.scan_schedule import HOST_ELEMENTS

KEYS = 24  # offset of the address of the keys in the plan
PROGRESS = 256  # bytes of scratch memory that are zero before the first launch
_SHARED = 32768  # kspec::KEY_SHARED
_BATCH = 8  # elements that a thread has in flight
_SORTED = 4096  # kspec::SORTED
_BITS = 10  # of a digit, at most: kspec::DIGITS has so many
_ROWS = 16  # kspec::KeySegments::ROWS
# Keys of a group, groups at most, rows that are counted together, rows that are reduced together,
# bytes of shared memory: kspec::KeyGrouping.
_GROUP, _GROUPS, _STRETCH, _RANGE, _GROUPING = 1024, 1024, 32768, 32768, 106560
_GROUPED_THREADS = 512
_GROUPED_CHUNK = 2**26  # rows that are grouped at once
_SOME = 4  # rows of a key, on average, for which grouping is worth it
_FEWEST_GROUPED = 2**21  # rows, likewise
_COPIES = 8  # of the accumulators of few keys in a block, at most: one for each warp
_CELLS_THREADS = 768  # kspec::MaxThreads, of one block on a multiprocessor
_DENSE = 1.5  # elements of a block for each accumulator, for which it is worth having its own
_BLOCKS = 3  # on a multiprocessor: kspec::MinBlocks
_TURNS = 16  # tiles of a block, where these may be any: all blocks end at about the same time
_FEWEST = 96  # threads with accumulators of their own that are worth it
_STATIC = 1024  # bytes of shared memory that a block has besides, or the driver keeps, at most
_CHUNK = 2**24  # elements that are sorted at once
_MOST_KEYS = 2**32 - 2  # that are sorted: 32 bits hold their number
# Operations of ``kspec::Join`` on whole numbers of 32 and 64 bits that GPUs have; and all those
# whose result, on whole numbers of any size, is the same in any order.
_ATOMIC = ("SUM", "LEAST", "LARGEST", "ALL_BITS", "ANY_BIT", "ODD_BITS")
_ANY_ORDER = (*_ATOMIC, "PRODUCT", "BOTH", "EITHER")


@dataclass(frozen=True)
class Keyed:
    """The axes of a reduction by key.

    Attributes
    ----------
    columns : Axes
        Collapsed axes behind the first, over all operands.
    length : int
        Elements of the first axis.
    count : int
        Number of keys.
    steps : tuple of int
        For each input its byte stride from row to row, for each output from key to key.
    keys : ArrayView
        The keys.
    """

    columns: Axes
    length: int
    count: int
    steps: tuple[int, ...]
    keys: ArrayView

    @property
    def slots(self) -> int:
        """Number of accumulators."""
        return self.count * self.columns.size

    @property
    def elements(self) -> int:
        """Number of elements."""
        return self.length * self.columns.size


@dataclass(frozen=True)
class Joined:
    """The operation that joins elements, and its accumulators.

    Attributes
    ----------
    size : int
        Bytes of an accumulator.
    row : DType or None
        Its type; None: of the user's.
    operation : str
        Name in ``kspec::Join``; empty: another.
    counted : bool
        Whether the number of elements of each output is counted.
    """

    size: int
    row: DType | None = None
    operation: str = ""
    counted: bool = True

    @property
    def is_whole(self) -> bool:
        """Whether the result is the same in any order."""
        return self.row is not None and self.row.kind in "biu" and self.operation in _ANY_ORDER

    @property
    def is_atomic(self) -> bool:
        """Whether there is an atomic operation: ``kspec::AtomicJoin``."""
        if self.row is None or self.row.itemsize not in (4, 8):
            return False
        known = {"f": ("SUM",), "i": _ATOMIC, "u": _ATOMIC}
        return self.operation in known.get(self.row.kind, ())


@dataclass(frozen=True)
class KeySchedule:
    """Division of a reduction by key among threads and blocks.

    Attributes
    ----------
    layout : str
        Tag of ``kspec/layout.cuh``.
    blocks, threads : int
        How many, and threads of each.
    head, tail : bytes
        The plan before and after its pointers to scratch memory.
    parts : tuple of int
        Bytes that each of these pointers has.
    shared : int
        Bytes of dynamic shared memory.
    """

    layout: str
    blocks: int
    threads: int
    head: bytes
    tail: bytes
    parts: tuple[int, ...]
    shared: int = 0
    cooperative = False
    carveout = None

    @property
    def scratch(self) -> int:
        """Bytes of scratch memory."""
        return sum(self.parts)

    def pack(self, scratch: int) -> bytes:
        """Pack the plan with the address of its scratch memory, or 0."""
        places = [scratch + sum(self.parts[:k]) if scratch else 0 for k in range(len(self.parts))]
        return self.head + struct.pack(f"{len(places)}P", *places) + self.tail


def key_threads(accumulator: int) -> int:
    """Return the threads of a block."""
    return 128 if accumulator > 64 else 256


def counted_size(accumulator: int, number: int) -> int:
    """Return the bytes of accumulators, and a number of so many bytes, in a struct, at most."""
    return _up(accumulator + number, 8 if accumulator <= 8 else 16)


def choose_keys(
    keyed: Keyed,
    how: Joined,
    accumulator_size: Callable[[], int],
    gpu: Gpu | None,
    *,
    deterministic: bool,
) -> KeySchedule:
    """Return the schedule.

    Parameters
    ----------
    keyed : Keyed
        The axes.
    how : Joined
        The operation, with the bytes of an accumulator at most.
    accumulator_size : callable
        Returns the bytes of an accumulator; asked on GPUs.
    gpu : Gpu or None
        None: the host device, with one thread a block, and keys for each.
    deterministic : bool
        Whether elements have to keep their order.

    Raises
    ------
    NotSupportedError
        If there are too many keys to sort by.
    """
    if gpu is None:
        work = 1 + keyed.elements // HOST_ELEMENTS
        blocks = max(1, min(keyed.count, config.host_threads(), work))
        cells = counted_size(2 * how.size, 8) * keyed.slots
        return _packed(keyed, _Division(blocks, 1, (0, cells, 0, 0, 0, 0)), key_runs)
    how = replace(how, size=accumulator_size())
    blocks = _BLOCKS * gpu.multiprocessors
    if how.is_atomic and keyed.columns.size == 1:
        bins = _bins(keyed, how, gpu)
        if bins is not None:
            return _packed(keyed, bins, key_bins)
    own = _order_few(keyed, how, blocks)
    if how.is_atomic and (how.is_whole or not deterministic):
        few = _cells_few(keyed, how, blocks)
        return _packed(keyed, few or _cells_held(keyed, how, gpu), key_cells)
    if own is not None:
        return _packed(keyed, own, key_runs)
    if how.is_whole or not deterministic:
        return _packed(keyed, _cells(keyed, how, blocks), key_cells)
    groups = _order_groups(keyed, how, gpu)
    if groups is not None:
        return _packed(keyed, groups, key_groups)
    return _packed(keyed, _order_many(keyed, how, blocks), key_sorted)


@dataclass(frozen=True)
class _Division:
    blocks: int
    threads: int
    parts: tuple[int, ...]
    tiles: int = 1
    copies: int = 0
    held: int = 0
    chunk: int = 0
    passes: int = 0
    bits: int = 0
    shared: int = 0


def _tiles(keyed: Keyed, threads: int, most: int) -> int:
    """Return the tiles of elements, of at least two batches each."""
    return max(1, min(most, -(-keyed.elements // (2 * _BATCH * threads))))


def _few(keyed: Keyed, threads: int, blocks: int, size: int, copies: int) -> _Division:
    """Return the plan of few keys, whose accumulators are left in memory by each tile."""
    tiles = _tiles(keyed, threads, blocks)
    blocks = max(tiles, min(blocks, -(-keyed.slots // 32)))
    cells = tiles * keyed.slots * counted_size(size, 8)
    return _Division(blocks, threads, (PROGRESS, cells, 0, 0, 0, 0), tiles, copies)


def _order_few(keyed: Keyed, how: Joined, blocks: int) -> _Division | None:
    threads = key_threads(how.size)
    each = keyed.slots * counted_size(how.size, 4)
    while threads > 64 and threads // 32 * each > _SHARED:
        threads //= 2
    if threads // 32 * each > _SHARED:
        return None
    return _few(keyed, threads, blocks, how.size, 1)


def _cells_few(keyed: Keyed, how: Joined, blocks: int) -> _Division | None:
    each = keyed.slots * (how.size + 4)
    if each > _SHARED:
        return None
    copies = max(1, min(_COPIES, _SHARED // max(each, 1)))
    return replace(_few(keyed, key_threads(how.size), blocks, how.size, copies), shared=_SHARED)


def _bins(keyed: Keyed, how: Joined, gpu: Gpu) -> _Division | None:
    """Return the plan of accumulators of each thread, if there is room for those of enough."""
    each = (keyed.slots + 1) * (how.size + 4 * how.counted)
    threads = min(256, (gpu.shared_memory - _STATIC) // each // 32 * 32)
    if threads < _FEWEST:
        return None
    shared = max(threads * each, threads * counted_size(how.size, 8))  # of the second phase, too
    # Threads have so many elements in flight that there are registers for one block.
    return replace(_few(keyed, threads, gpu.multiprocessors, how.size, 1), shared=shared)


def _cells(keyed: Keyed, how: Joined, blocks: int) -> _Division:
    threads, slots = key_threads(how.size), keyed.slots
    size = 4 if how.size <= 4 else _up(how.size, 8 if how.size <= 8 else 16)
    parts = PROGRESS, slots * size, 8 * slots, 4 * slots, 0, 0
    return _Division(blocks, threads, parts, _tiles(keyed, threads, _TURNS * blocks))


def _cells_held(keyed: Keyed, how: Joined, gpu: Gpu) -> _Division:
    """Return the plan of many numbers; blocks have some, too, if they add to each often enough."""
    threads, blocks = _CELLS_THREADS, gpu.multiprocessors
    plan = replace(_cells(keyed, how, blocks), threads=threads)
    tiles, each = _tiles(keyed, threads, blocks), how.size + 4 * how.counted
    held = min(keyed.slots, max(0, gpu.shared_memory - _STATIC) // each)
    if not held or keyed.elements < _DENSE * tiles * keyed.slots:
        return replace(plan, tiles=_tiles(keyed, threads, _TURNS * blocks))
    return replace(plan, tiles=tiles, held=held, shared=held * each)


def _order_groups(keyed: Keyed, how: Joined, gpu: Gpu) -> _Division | None:
    """Return the plan of rows of one column that are grouped by key, if there are enough."""
    if keyed.columns.size > 1 or how.size > 8 or keyed.count >= _GROUP * _GROUPS:
        return None
    if keyed.length < max(_FEWEST_GROUPED, _SOME * keyed.count):
        return None
    resident = min(2, gpu.shared_memory // (_GROUPING + _STATIC))
    if not resident:
        return None
    chunk = min(_up(keyed.length, 4), _GROUPED_CHUNK)
    size = counted_size(how.size, 8)
    sorting = 4 * (2 * chunk + _GROUPS * (-(-chunk // _STRETCH) + 1))
    edges = 2 * -(-chunk // _RANGE) * _GROUP * size
    parts = PROGRESS, keyed.slots * size, 0, 0, sorting, edges
    blocks = gpu.multiprocessors * resident
    return _Division(blocks, _GROUPED_THREADS, parts, chunk=chunk, shared=_GROUPING)


def _order_many(keyed: Keyed, how: Joined, blocks: int) -> _Division:
    if keyed.count > _MOST_KEYS:
        raise NotSupportedError(
            f"n is {keyed.count}: in the order of elements there are at most {_MOST_KEYS} outputs; "
            "pass deterministic=False"
        )
    threads, columns = key_threads(how.size), keyed.columns.size
    # A multiple of 4: threads take four numbers at once.
    chunk = min(_up(max(1, keyed.length), 4), _up(-(-_CHUNK // columns), _SORTED))
    bits = max(1, keyed.count.bit_length())
    passes = -(-bits // _BITS)
    bits = -(-bits // passes)
    side = 1
    while side < 32 and side < columns:
        side *= 2
    down = -(-chunk // (threads // side * _ROWS))
    size = counted_size(how.size, 8)
    sorting = 4 * (4 * chunk + 2**bits * (_up(-(-chunk // _SORTED), 4) + 1))
    parts = PROGRESS, keyed.slots * size, 0, 0, sorting, 2 * down * columns * size
    return _Division(blocks, threads, parts, chunk=chunk, passes=passes, bits=bits)


def _packed(keyed: Keyed, plan: _Division, tag: Callable[[int], str]) -> KeySchedule:
    columns, keys = keyed.columns, keyed.keys
    dtype = lookup(keys.dtype)
    head = struct.pack("3q", columns.size, keyed.length, keyed.count)
    head += struct.pack("Pq2i", keys.ptr, keys.strides[0], dtype.itemsize, dtype.kind == "i")
    head += struct.pack("2q", plan.tiles, plan.chunk)
    head += struct.pack("4i", plan.copies, plan.held, plan.passes, plan.bits)
    ndim = len(columns.extents)
    tail = struct.pack(f"{len(keyed.steps)}q", *keyed.steps)
    tail += marshal.pack_axes(columns, strided_capacity(ndim))
    parts = tuple(_up(nbytes, 256) for nbytes in plan.parts)
    return KeySchedule(tag(ndim), plan.blocks, plan.threads, head, tail, parts, plan.shared)


def _up(nbytes: int, multiple: int) -> int:
    return -(-nbytes // multiple) * multiple
