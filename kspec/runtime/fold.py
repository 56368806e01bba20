"""How a reduction shares its work: collapsed axes in, layout, geometry and packed plan out.

The layouts are those of ``kspec/layout.cuh``; what is packed here are the structures of
``kspec/reduce.cuh``.  The choice depends on strides, alignment, sizes and the device alone, so
equal calls give equal bits.

* ``Lines``: each output folds contiguous elements; 2^lanes threads share it.
* ``Columns``: neighbouring outputs are neighbours in memory; threads take packs of outputs.
* ``Strided``: everything else, and the host device.

With too few outputs to fill the device, `splits` blocks share an output and the last of them adds
the partial results.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kspec import config
from kspec.runtime import marshal
from kspec.runtime.layout import Axes
from kspec.runtime.walk import Member
from kspec.stages import COLUMNS, LINES, SHORT_LINES, pack_size, strided, strided_capacity

MAX_ACCUMULATOR = 192  # bytes; the static_assert in reduce.cuh
_MASK_BITS = 64  # inputs that a bit mask has room for
_NARROW_LIMIT = 2**31  # outputs, or steps along several axes, that 32-bit indices count
_STRIDED_THREADS = 256  # kspec::MostThreads of each layout
_LINE_THREADS = 512
_COLUMN_THREADS = 512
_WIDE_THREADS = 128
_BLOCK = 256
_SHORT = 8  # packs of two outputs for each group of 4 threads at most: MOST_LANES of the kernel
_TINY = 14  # elements that a single thread folds one by one
_ELEMENTS_PER_LANE = 8  # fewer are not worth another thread
_HOST_SPLIT = 65536  # elements of one output that are worth another host thread
_MAX_SPLITS = 65535  # blocks along y

# Returns how many blocks of so many threads of a layout's kernel a device holds at once.
Resident = Callable[[str, int], int]


@dataclass(frozen=True)
class Fold:
    """How threads and blocks share a reduction.

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
    """

    layout: str
    tiles: int
    splits: int
    threads: int
    partials: int
    head: bytes
    tail: bytes

    @property
    def tickets(self) -> int:
        """Bytes of scratch memory that are zero before and after the launch."""
        return -(-4 * self.tiles // 256) * 256 if self.splits > 1 else 0

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
) -> Fold:
    """Return how a GPU folds `reduced.size` elements into each of `kept.size` outputs.

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
    """
    if _packs_fit(kept, reduced, inputs):
        pack = pack_size(one.pack_width for one in inputs)
        if _runs_along(reduced, inputs) and _is_whole(reduced, pack):
            if lines := _lines(kept, reduced, inputs, pack, multiprocessors, resident):
                return lines
        elif _runs_along(kept, inputs) and kept.extents[0] >= pack:
            return _columns(kept, reduced, inputs, pack, multiprocessors, resident)
    return _strided(kept, reduced, multiprocessors)


def choose_host(kept: Axes, reduced: Axes) -> Fold:
    """Return how the host device folds: one thread a block, and one chunk for each core."""
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
) -> Fold | None:
    """Return lines, or None if the packs of some input are not aligned with those of another."""
    outputs, length = kept.size, reduced.size
    packs = -(-length // pack)
    single = len(reduced.extents) == 1
    aligned, leader = _aligned(inputs, pack, (kept, 0), (reduced, 1)), -1
    moving = [k for k, one in enumerate(inputs) if reduced.strides[k][0]]
    if single and any(not aligned >> k & 1 for k in moving):
        leader = moving[0]
        aligned = _abreast(inputs, leader, pack, kept)
    splits, side, threads = 1, 1, _BLOCK
    if single and length <= _TINY and pack > 1:
        layout, side, threads = SHORT_LINES, 2, 128
        lanes, packs, leader = 0, 0, -1
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
    head = struct.pack("3q4i", outputs, length, packs, lanes, splits, leader, 0)
    tail = _pack_axes(kept, by_pack)
    return Fold(layout, tiles, splits, threads, outputs * splits, head, tail)


def _abreast(inputs: Sequence[Member], leader: int, pack: int, kept: Axes) -> int:
    """Return a bit for each input whose packs are aligned whenever those of the leader are."""
    first = inputs[leader]
    bits = 0
    for k, one in enumerate(inputs):
        pairs = zip((one.ptr, *kept.strides[k]), (first.ptr, *kept.strides[leader]), strict=True)
        apart = any((mine - other) % (pack * one.itemsize) for mine, other in pairs)
        if one.itemsize == first.itemsize and not apart:
            bits |= 1 << k
    return bits


def _columns(
    kept: Axes,
    reduced: Axes,
    inputs: Sequence[Member],
    pack: int,
    multiprocessors: int,
    resident: Resident,
) -> Fold:
    columns, length = kept.extents[0], reduced.size
    outer = kept.size // columns
    packs = -(-columns // pack)
    splits, threads = 1, _WIDE_THREADS
    across = min(threads, _COLUMN_THREADS // pack)  # shared memory has room for so many columns
    tiles = -(-packs // across)
    if length > 64 or tiles * outer < 4 * multiprocessors:
        across = min(32 if pack <= 4 else 16, packs)
        tiles = -(-packs // across)
        block = _COLUMN_THREADS if tiles * outer <= 2 else _BLOCK
        down = block // across
        threads = -(-across * down // 32) * 32
        fitting = resident(COLUMNS, threads) // (tiles * outer)
        splits = max(1, min(fitting, -(-length // (4 * down)), _MAX_SPLITS))
    aligned = _aligned(inputs, pack, (kept, 1), (reduced, 0)) if columns % pack == 0 else 0
    abreast = all(aligned >> k & 1 for k in range(len(inputs)) if kept.strides[k][0])
    outmost = 0
    if not abreast:
        moving = [k for k in range(len(inputs)) if kept.strides[k][0]]
        outmost = 2 if all(_is_stacked(reduced, k) for k in moving) else length
    head = struct.pack("3qQ4i", kept.size, length, columns, aligned, across, tiles, splits, abreast)
    head += struct.pack("q", outmost)
    partials = tiles * outer * splits * across * pack
    tail = _pack_axes(kept, reduced)
    return Fold(COLUMNS, tiles * outer, splits, threads, partials, head, tail)


def _is_stacked(reduced: Axes, k: int) -> bool:
    """Whether an input's first and last rows have all others between them, in other blocks.

    What lies between two rows of a view belongs to the array behind it, and may be read.
    """
    steps = reduced.strides[k]
    return all(step >= 16 for step in steps) or all(step <= -16 for step in steps)


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


def _strided(kept: Axes, reduced: Axes, multiprocessors: int) -> Fold:
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


def _first_step(axes: Axes) -> int:
    """Return the distance of neighbours along the innermost axis, over the first input."""
    return abs(axes.strides[0][0]) if axes.extents else 2**63


def _pack_strided(
    kept: Axes, reduced: Axes, lanes: int, rows: int, neighbours: bool, splits: int
) -> Fold:
    chunk = -(-max(1, reduced.size) // splits)
    splits = -(-max(1, reduced.size) // chunk)  # no split without elements
    ndim = max(len(kept.extents), len(reduced.extents))
    head = struct.pack("3q4i", kept.size, reduced.size, chunk, lanes, rows, neighbours, splits)
    tail = _pack_axes(kept, reduced, strided_capacity(ndim))
    tiles = -(-kept.size // rows)
    return Fold(strided(ndim), tiles, splits, lanes * rows, kept.size * splits, head, tail)


def _pack_axes(kept: Axes, reduced: Axes, capacity: int = strided_capacity(1)) -> bytes:
    return marshal.pack_axes(kept, capacity) + marshal.pack_axes(reduced, capacity)
