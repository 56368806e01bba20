"""Schedules of elementwise kernels: collapsed axes in, layout and geometry out.

The layouts are those of ``kspec/layout.cuh``; this module packs the structures of
``kspec/elements.cuh``.  The choice depends on strides, alignment and sizes alone.

>>> x, y = Member(4, 4, ptr=4096, written=False), Member(4, 4, ptr=8192, written=True)
>>> choose(Axes((64,), ((4,), (4,))), (x, y), 64).layout
'kspec::Flat'
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from kspec import config
from kspec.dataclass import dataclass
from kspec.model.stages import FLAT, PACKS, ROWS, TILES, pack_size, strided, strided_capacity
from kspec.runtime.schedules import Axes, marshal

if TYPE_CHECKING:
    from kspec.model.tuning import Choice

_NARROW_LIMIT = 2**31  # elements that 32-bit indices count
_MASK_BITS = 64  # operands that a bit mask has room for
_HOST_CHUNK = 16384  # elements below which another host thread is not worth waking
_CUPY_BLOCK = 128  # threads of a block, where kernels may see them
_TILE = 4
_TILE_WARPS = (8 * 2, 4 * 4)  # tiles of a block along both axes; elements_cuda.cuh
_TILE_THREADS = 256
_ROW_THREADS = 128
# Threads of a block, and packs of each, where next to nothing is loaded: finding packs is the work.
_LIGHT_THREADS, _LIGHT_TURNS = 256, 2
_FLAT_THREADS = 256
_TUNED_THREADS = (64, 128, 256)  # of a block: what no kernel has too many registers for
_TILE_LEAST = 16  # shorter rows do not fill the sectors that a warp of tiles touches


@dataclass(frozen=True)
class Member:
    """One operand of the loop.

    Attributes
    ----------
    itemsize, pack_width : int
        Size of an element in memory, and of its part of a pack (`DType.pack_width`).
    ptr : int
        Address of the first element; 0 for a scalar.
    written : bool
        Whether it is an output.
    """

    itemsize: int
    pack_width: int
    ptr: int
    written: bool


@dataclass(frozen=True)
class ElementwiseSchedule:
    """A layout, its packed structure, and the threads it keeps busy.

    Attributes
    ----------
    layout : str
        Tag of ``kspec/layout.cuh``.
    elements : bytes
        ``kspec::Elements<layout, operands>``.
    threads : int
        Threads that have something to do.
    block : int
        Threads of a block, unless the caller wants another number.
    grid : tuple of int or None
        Blocks, where the layout fixes them and `block`; None: as many as `threads` needs.
    growth : Growth or None
        What another number of elements would change, if all operands moved and were aligned.
    shared_mem : int
        Dynamic shared memory of a block in bytes.
    """

    layout: str
    elements: bytes
    threads: int
    block: int
    grid: tuple[int, int, int] | None = None
    growth: Growth | None = None
    shared_mem: int = 0


class Growth(Protocol):
    """Growth of a flat schedule over aligned operands with the number of elements."""

    @property
    def lines(self) -> tuple[str, ...]:
        """Lines of Python that compute a launch from ``size``, at least one element.

        They set ``blocks``, ``threads``, those of each block, and ``tail``, the elements after the
        last pack. They may call `host_threads`.
        """

    def in_blocks(self, threads: int) -> Growth:
        """Return the same with blocks of so many threads."""


@dataclass(frozen=True)
class _CudaGrowth:
    pack: int
    block: int

    @property
    def lines(self) -> tuple[str, ...]:
        return (
            f"tail = size % {self.pack}",
            f"blocks, threads = 1, size // {self.pack} + tail",
            f"if threads > {self.block}:",
            f"    blocks, threads = -(-threads // {self.block}), {self.block}",
        )

    def in_blocks(self, threads: int) -> Growth:
        return _CudaGrowth(self.pack, threads)


@dataclass(frozen=True)
class _HostGrowth:
    single: bool
    block: int = _CUPY_BLOCK

    @property
    def lines(self) -> tuple[str, ...]:
        return (
            f"threads, block = host_threads(size, {self.single}, {self.block})",
            "blocks, threads, tail = -(-threads // block), block, 0",
        )

    def in_blocks(self, threads: int) -> Growth:
        return replace(self, block=threads)


def choose(
    axes: Axes,
    members: Sequence[Member],
    size: int,
    *,
    flat: bool = True,
    tiles: bool = True,
    wanted: Choice | None = None,
) -> ElementwiseSchedule:
    """Return a GPU's schedule of a loop.

    Parameters
    ----------
    axes : Axes
        Collapsed axes of the operands.
    members : sequence of Member
        The operands.
    size : int
        Number of elements.
    flat : bool
        Whether the number of axes does not matter.
    tiles : bool
        Whether elements may be visited in another order.
    wanted : mapping, optional
        One of `choices`, measured to be best for calls like this one; taken if it fits.
    """
    possible = _possible(axes, members, size, flat, tiles)
    best = next(iter(possible))
    if wanted is None:
        return possible[best]()
    schedule = possible.get(str(wanted.get("layout")), possible[best])()
    threads = wanted.get("threads")
    if schedule.grid is not None or threads not in _TUNED_THREADS:
        return schedule
    growth = schedule.growth.in_blocks(int(threads)) if schedule.growth else None
    return replace(schedule, block=int(threads), growth=growth)


def choices(
    axes: Axes, members: Sequence[Member], size: int, *, flat: bool = True, tiles: bool = True
) -> Iterator[Choice]:
    """Yield the choices worth measuring; `choose` can be told to want any of them."""
    for make in _possible(axes, members, size, flat, tiles).values():
        schedule = make()
        blocks = _TUNED_THREADS if schedule.grid is None else (schedule.block,)
        yield from (_choice(replace(schedule, block=threads)) for threads in blocks)


def own_choice(
    axes: Axes, members: Sequence[Member], size: int, *, flat: bool = True, tiles: bool = True
) -> Choice:
    """Return the choice of the rules, as one of `choices`."""
    return _choice(choose(axes, members, size, flat=flat, tiles=tiles))


def _choice(schedule: ElementwiseSchedule) -> Choice:
    """Return the choice that a schedule is of."""
    threads = {"threads": schedule.block} if schedule.grid is None else {}
    return {"layout": schedule.layout, **threads}


def _possible(
    axes: Axes, members: Sequence[Member], size: int, flat: bool, tiles: bool
) -> dict[str, Callable[[], ElementwiseSchedule]]:
    """Return a maker of the schedule of each layout that fits, the best one first."""
    anything = {strided(len(axes.extents)): lambda: _strided_schedule(axes, size, 2)}
    if len(members) > _MASK_BITS:
        return anything
    pack = pack_size(member.pack_width for member in members)
    in_order = _in_order(axes, members)
    if flat and _is_all_flat(axes, members, in_order):
        return {FLAT: lambda: _flat_schedule(members, in_order, size, pack)}
    narrow = size < _NARROW_LIMIT and len(axes.extents) <= strided_capacity(1)
    if pack == 1 or not axes.extents or not narrow:
        return anything
    if all(_is_row(axes, k, member) for k, member in enumerate(members)):
        aligned = _aligned(axes, members, in_order, pack)
        packs = {PACKS: lambda: _packs_schedule(axes, in_order, aligned, size, pack)}
        if not _makes_rows(axes, aligned, pack):
            return packs | anything
        light = not any(
            all(steps) for steps, one in zip(axes.strides, members, strict=True) if not one.written
        )
        return {ROWS: lambda: _rows_schedule(axes, size, axes.extents[0] // pack, light), **packs}
    if tiles and (other := _other_axis(axes, members)):
        return {TILES: lambda: _tiles_schedule(axes, other, members, size), **anything}
    return anything


def choose_single(
    axes: Axes, members: Sequence[Member], size: int, *, flat: bool = True, single: bool = False
) -> ElementwiseSchedule:
    """Return a GPU's schedule with one element a thread; if `single`, in CuPy's blocks."""
    in_order = _in_order(axes, members)
    if flat and len(members) <= _MASK_BITS and _is_all_flat(axes, members, in_order):
        schedule = _flat_schedule(members, in_order, size, 1)
    else:
        schedule = _strided_schedule(axes, size, 1)
    if not single:
        return schedule
    growth = schedule.growth.in_blocks(_CUPY_BLOCK) if schedule.growth else None
    return replace(schedule, block=_CUPY_BLOCK, growth=growth)


def choose_host(
    axes: Axes, members: Sequence[Member], size: int, *, flat: bool = True, single: bool = False
) -> ElementwiseSchedule:
    """Return a CPU's schedule of a loop: contiguous alike, or along the innermost axis.

    A thread takes many elements and is a block, or, if `single`, one.
    """
    in_order = _in_order(axes, members)
    alike = all(one or not member.ptr for one, member in zip(in_order, members, strict=True))
    if flat and alike and len(members) <= _MASK_BITS:
        schedule = _flat_schedule(members, in_order, size, 1)
    else:
        schedule = _strided_schedule(axes, size, 1)
    threads, block = host_threads(size, single)
    growth = _HostGrowth(single) if schedule.growth else None
    return replace(schedule, threads=threads, block=block, growth=growth)


def host_threads(size: int, single: bool, block: int = _CUPY_BLOCK) -> tuple[int, int]:
    """Return the number of threads that share a loop, and of those in a block."""
    if single:
        return size, min(size, block)
    threads = -(-size // _HOST_CHUNK)
    if threads > 1:  # to count cores takes as long as to add a few thousand numbers
        threads = min(threads, 4 * config.host_threads())  # a few a core balance the load
    return threads, 1


def _in_order(axes: Axes, members: Sequence[Member]) -> list[bool]:
    return [_is_flat(axes, k, member) for k, member in enumerate(members)]


def _is_all_flat(axes: Axes, members: Sequence[Member], in_order: Sequence[bool]) -> bool:
    """Whether every operand is contiguous in the order of the loop, or a single element."""
    still = (not any(axes.strides[k]) and not x.written for k, x in enumerate(members))
    return all(one or quiet for one, quiet in zip(in_order, still, strict=True))


def _is_flat(axes: Axes, k: int, member: Member) -> bool:
    """Whether an operand is an array that is contiguous in the order of the loop."""
    step = member.itemsize
    for extent, stride in zip(axes.extents, axes.strides[k], strict=True):
        if stride != step:
            return False
        step *= extent
    return bool(member.ptr)


def _is_row(axes: Axes, k: int, member: Member) -> bool:
    """Whether an operand's elements are neighbours, or all the same, along the innermost axis."""
    step = axes.strides[k][0]
    return step == member.itemsize or (step == 0 and not member.written)


def _flat_schedule(
    members: Sequence[Member], flat: Sequence[bool], size: int, pack: int
) -> ElementwiseSchedule:
    growth = _CudaGrowth(pack, _FLAT_THREADS)
    head, tail = _ends(members, flat, size, pack) if pack > 1 else (0, 0)
    aligned = [
        (member.ptr + head * member.itemsize) % (pack * member.itemsize) == 0 for member in members
    ]
    elements = struct.pack("qQQ2i", size, _mask(flat), _mask(aligned), head, tail)
    packs = (size - head - tail) // pack
    return ElementwiseSchedule(
        FLAT, elements, packs + size - packs * pack, _FLAT_THREADS, growth=growth
    )


def _ends(members: Sequence[Member], flat: Sequence[bool], size: int, pack: int) -> tuple[int, int]:
    """Return the numbers of elements before the first pack of a flat loop, and after the last."""
    first = next((member for member in members if member.written and member.ptr), None)
    # The first output's packs are aligned.
    head = -first.ptr // first.itemsize % pack if first is not None else 0
    tail = (size - head) % pack
    # Inputs beside it are read by the aligned blocks around a pack, all of which must be theirs.
    ahead = behind = 0
    for one, moving in zip(members, flat, strict=True):
        shift = (one.ptr + head * one.itemsize) % 16
        if moving and shift and pack * one.itemsize == 16:
            ahead = max(ahead, shift - head * one.itemsize)
            behind = max(behind, 16 - shift - tail * one.itemsize)
    head += pack if ahead > 0 else 0
    tail += pack if behind > 0 else 0
    return (head, tail) if head + tail <= size else (size, 0)


def _strided_schedule(axes: Axes, size: int, each: int) -> ElementwiseSchedule:
    """Return the schedule that takes any operands, `each` elements a thread."""
    ndim = len(axes.extents)
    packed = struct.pack("q", size) + marshal.pack_axes(axes, strided_capacity(ndim))
    return ElementwiseSchedule(strided(ndim), packed, -(-size // each), 128)


def _aligned(axes: Axes, members: Sequence[Member], flat: Sequence[bool], pack: int) -> list[bool]:
    """Return of each operand whether its packs are aligned, and those of each row whole."""
    return [
        all(
            one % (pack * member.itemsize) == 0
            for one in (member.ptr, *(() if flat[k] else axes.strides[k][1:]))
        )
        and (flat[k] or axes.extents[0] % pack == 0)
        for k, member in enumerate(members)
    ]


def _packs_schedule(
    axes: Axes, flat: Sequence[bool], aligned: Sequence[bool], size: int, pack: int
) -> ElementwiseSchedule:
    elements = _strided_schedule(axes, size, 1).elements
    elements += struct.pack("QQ", _mask(flat), _mask(aligned))
    return ElementwiseSchedule(PACKS, elements, size // pack + size % pack, 128)


def _makes_rows(axes: Axes, aligned: Sequence[bool], pack: int) -> bool:
    """Whether the packs of every operand line up with the rows, which fill blocks."""
    still = [not steps[0] for steps in axes.strides]
    lined_up = all(one or quiet for one, quiet in zip(aligned, still, strict=True))
    return lined_up and axes.extents[0] % pack == 0 and _fills_blocks(axes.extents[0] // pack)


def _fills_blocks(packs: int) -> bool:
    """Whether rows of so many packs leave few threads of their blocks idle."""
    return packs >= 16 and (packs & (packs - 1) == 0 or packs % _ROW_THREADS == 0 or packs >= 1024)


def _rows_schedule(axes: Axes, size: int, packs: int, light: bool) -> ElementwiseSchedule:
    threads, turns = (_LIGHT_THREADS, _LIGHT_TURNS) if light else (_ROW_THREADS, 1)
    elements = _strided_schedule(axes, size, 1).elements
    lanes = min((-(-packs // turns) - 1).bit_length(), _ROW_THREADS.bit_length() - 1)
    outer = Axes(axes.extents[1:], tuple(steps[1:] for steps in axes.strides))
    elements += marshal.pack_axes(outer, strided_capacity(1))
    elements += struct.pack("iIIi", lanes, packs, outer.size, turns)
    rows = -(-outer.size // (threads >> lanes))
    down = min(rows, 32768)
    grid = (-(-packs // (turns << lanes)), down, -(-rows // down))
    return ElementwiseSchedule(ROWS, elements, size, threads, grid)


def _other_axis(axes: Axes, members: Sequence[Member]) -> int:
    """Return the axis that some input runs along while the outputs run along the first; or 0."""
    if axes.extents[0] < _TILE_LEAST:
        return 0
    for axis in range(1, len(axes.extents)):
        runs = [axes.strides[k][axis] == member.itemsize for k, member in enumerate(members)]
        if any(runs) and axes.extents[axis] >= _TILE_LEAST:
            return axis if _tiles_fit(axes, axis, members) else 0
    return 0


def _moving(
    axes: Axes, other: int, members: Sequence[Member]
) -> Iterator[tuple[Member, Sequence[int], int]]:
    """Yield the operands that do not stand, their strides, and which of two axes they run along."""
    for k, member in enumerate(members):
        strides = axes.strides[k]
        if strides[0] or strides[other] or member.written:
            yield member, strides, 0 if strides[0] == member.itemsize else other


def _tiles_fit(axes: Axes, other: int, members: Sequence[Member]) -> bool:
    """Whether every operand runs along one of the axes, the outputs along the first, or stands."""
    return all(
        strides[along] == member.itemsize and not (member.written and along)
        for member, strides, along in _moving(axes, other, members)
    )


def _tiles_are_aligned(axes: Axes, other: int, members: Sequence[Member]) -> bool:
    """Whether every operand that moves does in aligned packs of four."""
    return all(
        one % min(_TILE * member.itemsize, 16) == 0
        for member, strides, along in _moving(axes, other, members)
        for one in (member.ptr, *strides[:along], *strides[along + 1 :])
    )


def _tiles_schedule(
    axes: Axes, other: int, members: Sequence[Member], size: int
) -> ElementwiseSchedule:
    order = [0, other, *(axis for axis in range(1, len(axes.extents)) if axis != other)]
    extents = [axes.extents[axis] for axis in order]
    strides = [[steps[axis] for axis in order] for steps in axes.strides]
    counts = [
        -(-extent // (_TILE * tiles))
        for extent, tiles in zip(extents[:2], _TILE_WARPS, strict=True)
    ]
    outer = Axes(tuple(extents[2:]), tuple(tuple(steps[2:]) for steps in strides))
    elements = struct.pack("3q", size, *extents[:2])
    elements += b"".join(struct.pack("2q", *steps[:2]) for steps in strides)
    elements += struct.pack("2I", *counts)
    elements += struct.pack("4I", *(one for count in counts for one in marshal.divisor(count)))
    whole = all(extent % _TILE == 0 for extent in extents[:2])
    elements += struct.pack("Q", not (whole and _tiles_are_aligned(axes, other, members)))
    elements += marshal.pack_axes(outer, strided_capacity(1))
    blocks = math.prod(counts) * outer.size
    return ElementwiseSchedule(
        TILES, elements, blocks * _TILE_THREADS, _TILE_THREADS, (blocks, 1, 1)
    )


def _mask(bits: Iterable[bool]) -> int:
    return sum(1 << k for k, bit in enumerate(bits) if bit)
