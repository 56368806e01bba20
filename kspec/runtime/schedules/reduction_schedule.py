"""Schedules of reductions: collapsed axes in, layout, geometry and packed plan out.

The layouts are those of ``kspec/layout.cuh``; this module packs the structures of
``kspec/reduce.cuh``.  The choice depends on strides, alignment, sizes and the device alone, so
equal calls give equal bits.

* ``Lines``: each output folds contiguous elements; 2^lanes threads share it.
* ``Columns``: neighbouring outputs are neighbours in memory; threads take packs of outputs.
* ``Strided``: everything else, and the host device.

With too few outputs to fill the device, `splits` blocks share an output and the last of them adds
the partial results.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kspec import config
from kspec.model.stages import COLUMNS, LINES, SHORT_LINES, pack_size, strided, strided_capacity
from kspec.runtime.schedules import marshal
from kspec.runtime.schedules.elementwise_schedule import Member
from kspec.runtime.schedules.strides import Axes

MAX_ACCUMULATOR = 192  # bytes; the static_assert in reduce.cuh
_MASK_BITS = 64  # inputs that a bit mask has room for
_NARROW_LIMIT = 2**31  # outputs, or steps along several axes, that 32-bit indices count
_STRIDED_THREADS = 256  # kspec::MaxThreads of each layout
_LINE_THREADS = 512
_COLUMN_THREADS = 256
_COLUMN_ROOM = 512  # accumulators of a block side by side
_LARGE = 96  # bytes of an accumulator; of larger ones shared memory holds half as many
_WIDE_THREADS = 128
_FEW_ROWS = 64  # of any alignment, which are read element by element
_JOINED = 16  # partial results for each thread; more are joined in two rounds
_BLOCK = 256
_SHORT = 8  # packs of two outputs for each group of 4 threads at most: MOST_LANES of the kernel
_TINY = 4  # elements that a single thread folds one by one
_TINY_APART = 14  # the same where packs are not aligned
_IN_PACKS, _ONE_BY_ONE, _STAGED = range(3)  # kspec::ShortWay
_STAGED_BYTES, _STAGED_THREADS = 16384, 128  # of a block's rows in shared memory; at least so many
_STAGED_LANES = 32  # for each output at most
_BANKS = 128  # bytes of shared memory that are read at once
_CACHE_LINE = 128  # bytes
_ROUND = 4  # packs that a thread of lines has in flight: UNROLL of the kernel
_ELEMENTS_PER_LANE = 8  # fewer are not worth another thread
_HOST_SPLIT = 65536  # elements of one output that are worth another host thread
_MAX_SPLITS = 65535  # blocks along y

# Returns how many blocks of so many threads of a layout's kernel a device holds at once.
Resident = Callable[[str, int], int]


@dataclass(frozen=True)
class ReductionSchedule:
    """Division of a reduction among threads and blocks.

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


def choose(
    kept: Axes,
    reduced: Axes,
    inputs: Sequence[Member],
    multiprocessors: int,
    resident: Resident,
    accumulator: int = MAX_ACCUMULATOR,
) -> ReductionSchedule:
    """Return a GPU's schedule to fold `reduced.size` elements into each of `kept.size` outputs.

    Parameters
    ----------
    kept, reduced : Axes
        Collapsed axes; the inputs are the first operands of `kept`, and those of `reduced`.
    inputs : sequence of Member
        The inputs.
    multiprocessors : int
        Of the device.
    resident : callable
        Asked for the layout that is chosen.
    accumulator : int
        Its bytes, or at least as many.
    """
    if _packs_fit(kept, reduced, inputs):
        pack = pack_size(one.pack_width for one in inputs)
        if _runs_along(reduced, inputs) and _is_whole(reduced, pack):
            if lines := _lines(kept, reduced, inputs, pack, multiprocessors, resident):
                return lines
        elif _runs_along(kept, inputs):
            room = _COLUMN_ROOM if accumulator <= _LARGE else _COLUMN_ROOM // 2
            if columns := _columns(kept, reduced, inputs, pack, multiprocessors, resident, room):
                return columns
    return choose_strided(kept, reduced, multiprocessors)


def choose_host(kept: Axes, reduced: Axes) -> ReductionSchedule:
    """Return the host device's schedule: one thread a block, and one chunk for each core."""
    outputs, splits = kept.size, 1
    if outputs < config.host_threads():
        splits = max(1, min(4 * config.host_threads() // outputs, reduced.size // _HOST_SPLIT))
    return _pack_strided(kept, reduced, 1, 1, False, splits)


def _packs_fit(kept: Axes, reduced: Axes, inputs: Sequence[Member]) -> bool:
    narrow = kept.size < _NARROW_LIMIT and (
        len(reduced.extents) == 1 or reduced.size < _NARROW_LIMIT
    )
    few = max(len(kept.extents), len(reduced.extents)) <= strided_capacity(1)
    only_read = not any(one.written for one in inputs)
    return reduced.size > 1 and narrow and few and only_read and len(inputs) <= _MASK_BITS


def _runs_along(axes: Axes, inputs: Sequence[Member]) -> bool:
    """Whether the inputs' elements are neighbours, or the same, along the innermost axis."""
    if not axes.extents:
        return False
    steps = [(axes.strides[k][0], one.itemsize) for k, one in enumerate(inputs)]
    return any(step == size for step, size in steps) and all(
        step in (0, size) for step, size in steps
    )


def _is_whole(reduced: Axes, pack: int) -> bool:
    """Whether packs do not cross the end of the innermost axis while there are others."""
    return len(reduced.extents) == 1 or reduced.extents[0] % pack == 0


def _lines(
    kept: Axes,
    reduced: Axes,
    inputs: Sequence[Member],
    pack: int,
    multiprocessors: int,
    resident: Resident,
) -> ReductionSchedule | None:
    """Return lines, or None if the packs of some input are not aligned with those of another."""
    outputs, length = kept.size, reduced.size
    packs = -(-length // pack)
    single = len(reduced.extents) == 1
    aligned, leader = _aligned(inputs, pack, (kept, 0), (reduced, 1)), -1
    moving = [k for k, one in enumerate(inputs) if reduced.strides[k][0]]
    whole = all(aligned >> k & 1 for k in moving)
    if single and not whole:
        leader = moving[0]
        aligned = _abreast(inputs, leader, pack, kept)
    splits, side, threads, way = 1, 1, _BLOCK, _IN_PACKS
    rows = _staged_rows(kept, reduced, inputs, multiprocessors) if length > _TINY else 0
    if rows:
        layout, way, threads = SHORT_LINES, _STAGED, max(_STAGED_THREADS, rows)
        lanes, leader = (threads // rows - 1).bit_length(), -1
    elif single and pack > 1 and length <= (_TINY if whole else _TINY_APART):
        layout, side, threads = SHORT_LINES, 2, 128
        lanes, leader, way = 0, -1, _ONE_BY_ONE
    elif any(not aligned >> k & 1 for k in moving):
        return None
    elif packs <= _SHORT:
        layout, side = SHORT_LINES, 2
        lanes = (-(-packs // 2) - 1).bit_length()
    elif outputs < 16 * multiprocessors and packs >= 4096:
        layout, lanes, threads = LINES, 9, _LINE_THREADS
        splits = max(1, min(resident(layout, threads) // outputs, packs // 2048, _MAX_SPLITS))
    else:
        layout = LINES
        # Measured on an H200: rows of 64 packs and more want eight for each thread.
        each = 8 if packs >= 64 else 4 if leader < 0 and packs <= 16 else 6
        most = 7 if outputs >= 16 * multiprocessors else 8
        lanes = max(0, min(most, (packs // each).bit_length() - 1))
    tiles = -(-outputs // ((threads >> lanes) * side))
    by_pack = Axes(
        (reduced.extents[0] // pack, *reduced.extents[1:]),
        tuple((steps[0] * pack, *steps[1:]) for steps in reduced.strides),
    )
    each_round = _ROUND * splits << lanes
    last = (packs - 1) // each_round * each_round
    head = struct.pack("3q4i", outputs, length, last, lanes, splits, leader, way)
    tail = _pack_axes(kept, by_pack)
    return ReductionSchedule(layout, tiles, splits, threads, outputs * splits, head, tail)


def _staged_rows(kept: Axes, reduced: Axes, inputs: Sequence[Member], multiprocessors: int) -> int:
    """Return how many rows a block copies to shared memory; 0 if the kernel does better without."""
    if len(kept.extents) != 1 or len(reduced.extents) != 1:
        return 0
    arrays = [(k, one.itemsize) for k, one in enumerate(inputs) if one.ptr]
    length = reduced.extents[0]
    steps = [(kept.strides[k][0], reduced.strides[k][0]) for k, _ in arrays]
    if steps != [(length * size, size) for _, size in arrays]:
        return 0  # there are gaps between them
    rows = 2 * _STAGED_THREADS
    while rows * length * sum(size for _, size in arrays) > _STAGED_BYTES:
        rows //= 2
    lanes = max(1, _STAGED_THREADS // max(1, rows))
    if lanes > _STAGED_LANES or (lanes > 4 and kept.size < rows * multiprocessors):
        return 0
    # Blocks of long rows that share cache lines read them twice.
    if lanes > 8 and any(rows * length * size % _CACHE_LINE for _, size in arrays):
        return 0
    # Rows whose threads would read the same banks of shared memory; measured on an H100.
    if any(math.gcd(length * size, _BANKS) > 8 * lanes * size for _, size in arrays):
        return 0
    return rows


def _abreast(inputs: Sequence[Member], leader: int, pack: int, *axes: Axes) -> int:
    """Return a bit for each input whose packs are aligned whenever those of the leader are."""

    def places(k: int) -> list[int] | None:
        """Packs of its elements: the first, and the steps to others."""
        size = inputs[k].itemsize
        ways = [inputs[k].ptr, *(step for one in axes for step in one.strides[k])]
        return None if any(way % size for way in ways) else [way // size % pack for way in ways]

    first = places(leader)
    return sum(1 << k for k in range(len(inputs)) if first is not None and places(k) == first)


@dataclass(frozen=True)
class _Rows:
    """The rows of a reduction in columns, as the kernel reads them.

    Attributes
    ----------
    fold : int
        Rows that are read as one, so that its columns are whole packs.
    count : int
        Of rows that are read so.
    reduced : Axes
        Along them.
    shifted : int
        The input whose packs begin at aligned addresses; -1: all do at the first element.
    period : int
        Rows after which packs begin at the same columns.
    alone : int
        Rows at both ends that are read element by element where packs reach beyond them.
    """

    fold: int
    count: int
    reduced: Axes
    shifted: int = -1
    period: int = 1
    alone: int = 0


def _rows(
    kept: Axes, reduced: Axes, inputs: Sequence[Member], held: set[int], pack: int, room: int
) -> _Rows | None:
    """Return the schedule that reads rows in packs, or None if it is not possible.

    `held`: inputs that all rows share.  `room`: columns that a block has room for.
    """
    columns, length, single = kept.extents[0], reduced.size, len(reduced.extents) == 1
    ends = {k: one.itemsize for k, one in enumerate(inputs) if k not in held}
    fold = pack // math.gcd(columns, pack)
    gapless = single and all(
        (kept.strides[k][0], reduced.strides[k][0]) == (size, size * columns)
        for k, size in ends.items()
    )
    if not gapless or fold * columns > room or length < max(8 * room // columns, 4 * fold + 1):
        fold = 1
    if fold * columns < pack:
        return None
    count = length // fold
    if fold > 1:
        reduced = Axes((count,), tuple((step * fold,) for (step,) in reduced.strides))
    moving = [k for k in ends if kept.strides[k][0]]
    if not moving:
        return None
    aligned = _aligned(inputs, pack, (kept, 1), (reduced, 0))
    if all(aligned >> k & 1 for k in moving) and fold * columns % pack == 0:
        return _Rows(fold, count, reduced)
    if not single or not all(reduced.strides[k][0] for k in moving):
        return None
    if length < _FEW_ROWS and fold == 1:
        return _Rows(fold, count, reduced, alone=count)
    shifted = moving[0]
    abreast = _abreast(inputs, shifted, pack, kept, reduced)
    if not all(abreast >> k & 1 for k in moving):
        return None
    steps = {k: abs(reduced.strides[k][0]) // inputs[k].itemsize for k in moving}
    period = pack // math.gcd(pack, steps[shifted])
    if fold > 1:  # up to a pack without an element is before the first
        return _Rows(fold, (length * columns - pack + 1) // (columns * fold), reduced, shifted)
    return _Rows(1, count, reduced, shifted, period, min(-(-pack // min(steps.values())), count))


def _columns(
    kept: Axes,
    reduced: Axes,
    inputs: Sequence[Member],
    pack: int,
    multiprocessors: int,
    resident: Resident,
    room: int,
) -> ReductionSchedule | None:
    """Return columns, or None if packs do not fit them."""
    held = {k for k in range(len(inputs)) if not any(reduced.strides[k])}
    rows = _rows(kept, reduced, inputs, held, pack, room)
    if rows is None:
        return None
    columns, fold = kept.extents[0], rows.fold
    outer = kept.size // columns
    packs = -(-columns * fold // pack)
    beside = 1 if rows.shifted >= 0 and fold == 1 else 0  # shifted, a row has a pack more
    side = min(_WIDE_THREADS, room // pack)
    splits, threads, down, tiles = 1, _WIDE_THREADS, _WIDE_THREADS // side, -(-packs // side)
    if reduced.size > 64 or fold > 1 or beside or tiles * outer < 4 * multiprocessors:
        side = min(packs, _COLUMN_THREADS // rows.period - beside)
        if fold == 1:
            side = min(side, max(1, min(64, 256 // pack)))
        tiles = -(-packs // side)
        side = -(-packs // tiles)
        down = _COLUMN_THREADS // (side + beside) // rows.period * rows.period
        threads = -(-(side + beside) * down // 32) * 32
        fitting = resident(COLUMNS, threads) // (tiles * outer)
        splits = max(1, min(fitting, -(-rows.count // (4 * down)), _MAX_SPLITS))
    span = columns if fold > 1 else side * pack
    group = splits if splits * span <= _JOINED * threads else math.isqrt(splits - 1) + 1
    groups = -(-splits // group)
    head = struct.pack("4q", kept.size, reduced.size, columns, rows.count)
    head += struct.pack("Q2i", sum(1 << k for k in held), side + beside, down)
    head += struct.pack("5i", span, tiles, splits, group, fold)
    head += struct.pack("3i", rows.shifted, rows.period, rows.alone)
    head += struct.pack("2i", rows.count % (down * splits), 0)
    blocks = tiles * outer
    joins = groups + 1 if groups > 1 else 1
    tail = _pack_axes(kept, rows.reduced)
    return ReductionSchedule(
        COLUMNS, blocks, splits, threads, blocks * splits * span, head, tail, joins
    )


def _aligned(inputs: Sequence[Member], pack: int, *axes: tuple[Axes, int]) -> int:
    """Return a bit for each input whose packs are aligned: its address, and each stride.

    `axes`: axes, and how many of the innermost are steps within packs.
    """
    bits = 0
    for k, one in enumerate(inputs):
        steps = [step for some, inner in axes for step in some.strides[k][inner:]]
        if not any(step % (pack * one.itemsize) for step in (one.ptr, *steps)):
            bits |= 1 << k
    return bits


def choose_strided(kept: Axes, reduced: Axes, multiprocessors: int) -> ReductionSchedule:
    """Return a GPU's schedule for elements that may be anywhere."""
    outputs, length = kept.size, max(1, reduced.size)
    neighbours = _first_step(kept) < _first_step(reduced)
    lanes = 1
    while lanes < _STRIDED_THREADS and lanes * _ELEMENTS_PER_LANE < length:
        lanes *= 2
    rows = _STRIDED_THREADS // lanes
    if neighbours and rows < 32:
        # Coalesce over outputs: a warp of neighbours, the rest of the block along the axis.
        rows = min(32, 1 << (outputs - 1).bit_length())
        lanes = _STRIDED_THREADS // rows
    tiles = -(-outputs // rows)
    most = max(1, length // (lanes * _ELEMENTS_PER_LANE))
    splits = max(1, min(8 * multiprocessors // tiles, most, _MAX_SPLITS))
    return _pack_strided(kept, reduced, lanes, rows, neighbours, splits)


def choose_ordered(kept: Axes, reduced: Axes) -> ReductionSchedule:
    """Return a GPU's schedule for a few elements of each output, which a thread joins in order."""
    return _pack_strided(kept, reduced, 1, _STRIDED_THREADS, True, 1)


def _first_step(axes: Axes) -> int:
    """Return the distance of neighbours along the innermost axis, over the first input."""
    return abs(axes.strides[0][0]) if axes.extents else 2**63


def _pack_strided(
    kept: Axes, reduced: Axes, lanes: int, rows: int, neighbours: bool, splits: int
) -> ReductionSchedule:
    chunk = -(-max(1, reduced.size) // splits)
    splits = -(-max(1, reduced.size) // chunk)  # no split without elements
    ndim = max(len(kept.extents), len(reduced.extents))
    head = struct.pack("3q4i", kept.size, reduced.size, chunk, lanes, rows, neighbours, splits)
    tail = _pack_axes(kept, reduced, strided_capacity(ndim))
    tiles = -(-kept.size // rows)
    return ReductionSchedule(
        strided(ndim), tiles, splits, lanes * rows, kept.size * splits, head, tail
    )


def _pack_axes(kept: Axes, reduced: Axes, capacity: int = strided_capacity(1)) -> bytes:
    return marshal.pack_axes(kept, capacity) + marshal.pack_axes(reduced, capacity)
