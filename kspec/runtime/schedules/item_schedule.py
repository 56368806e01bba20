"""Schedules of kernels with core dimensions: how threads reach their items.

This module packs the structures of ``kspec/items.cuh`` and ``kspec/core.cuh``.  An item is what a
thread has of an operand: the elements of its core dimensions.

>>> A = ItemMember(4, 4096, False, (3, 3), (12, 4))
>>> A.nbytes, A.access, A.pitch
(36, 4, 36)
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from kspec.dataclass import dataclass
from kspec.errors import LaunchError
from kspec.model.shapes import Shape, size_of
from kspec.model.stages import groups, items, strided_capacity
from kspec.runtime.memory import ArrayView
from kspec.runtime.schedules import Axes, Strides, marshal
from kspec.runtime.schedules.elementwise_schedule import ElementwiseSchedule, host_threads

_WARP = 32
_WARPS = 4  # of a block, if they have shared memory enough
_GROUP_WARPS = 8  # the same where a warp has an item
_SHARED = 48 * 1024  # bytes that every device grants a block
_MASK_BITS = 64  # operands that a bit mask has room for; the others take the general way
_MOST_ELEMENTS, _MOST_BYTES = 64, 512  # of a small item


@dataclass(frozen=True)
class ItemMember:
    """One operand of the loop.

    Attributes
    ----------
    itemsize : int
        Size of an element in memory.
    ptr : int
        Address of the first element; 0 for a scalar.
    written : bool
        Whether it is written to.
    shape, strides : tuple of int
        Extents of the core dimensions, and their strides in bytes; none: it has no core dimensions.
    is_new : bool
        Whether it is a new output, whose contents do not matter.
    is_struct : bool
        Whether elements are structs, whose gaps are not to be written.
    """

    itemsize: int
    ptr: int
    written: bool
    shape: Shape = ()
    strides: Strides = ()
    is_new: bool = False
    is_struct: bool = False

    @property
    def nbytes(self) -> int:
        """Size of an item."""
        return self.itemsize * size_of(self.shape)

    @property
    def is_small(self) -> bool:
        """Whether threads have copies of items: ``kspec::CoreOf::IS_SMALL``."""
        return is_small(self.itemsize, self.shape)

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements of an item follow each other."""
        step = self.itemsize
        for extent, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if extent != 1 and stride != step:
                return False
            step *= extent
        return True

    @property
    def shared_bytes(self) -> int:
        """Size of an item in shared memory: that of ``kspec::SharedItem``."""
        if not self.shape:
            return 0
        last = max(self.shape[-1], 1)
        row = last | 1 if len(self.shape) > 1 else last
        return marshal.up(size_of(self.shape) // last * row * self.itemsize, 16)

    @property
    def is_transposed(self) -> bool:
        """Whether items are matrices whose columns are contiguous rather than their rows."""
        return len(self.shape) == 2 and abs(self.strides[0]) < abs(self.strides[1])

    @property
    def access(self) -> int:
        """Bytes of an access to an item: ``kspec::CoreOf::ACCESS``."""
        if self.is_struct or not self.nbytes:
            return 1
        return next(one for one in (16, 8, 4, 2, 1) if self.nbytes % one == 0)

    @property
    def pitch(self) -> int:
        """Distance of items in shared memory: ``kspec::CoreOf::PITCH``."""
        return self.nbytes + (0 if self.nbytes // self.access % 2 else self.access)


def is_small(itemsize: int, shape: Shape) -> bool:
    """Return whether threads have copies of items with a shape and a size of elements."""
    count = size_of(shape)
    return count <= _MOST_ELEMENTS and count * itemsize <= _MOST_BYTES


def choose_items(
    axes: Axes, members: Sequence[ItemMember], size: int, *, on_host: bool
) -> ElementwiseSchedule:
    """Return the schedule of a loop over items.

    Parameters
    ----------
    axes : Axes
        Collapsed axes of the loop.
    members : sequence of ItemMember
        The operands.
    size : int
        Number of items.
    on_host : bool
        Whether a CPU runs it.
    """
    capacity = strided_capacity(len(axes.extents))
    layout = items(len(axes.extents))
    packed = staged = 0
    places = [0] * len(members)
    room = {False: 0, True: 0}  # inputs are read before outputs are written, to the same memory
    if not on_host and len(members) <= _MASK_BITS:
        for number, member in enumerate(members):
            if not _is_packed(axes, number, member):
                continue
            packed |= 1 << number
            bytes_of_warp = _WARP * member.pitch
            fits = room[member.written] + bytes_of_warp <= _SHARED
            if _gains(axes, number, member) and fits:
                staged |= 1 << number
                places[number] = room[member.written]
                room[member.written] += bytes_of_warp
    shared = max(room.values())
    elements = struct.pack("q", size) + marshal.pack_axes(axes, capacity)
    elements += struct.pack("2Q2i", staged, packed, shared, _first_new(members))
    elements += struct.pack(f"{len(members)}i", *places)
    elements = elements.ljust(marshal.up(len(elements), 8), b"\0")
    if on_host:
        threads, block = host_threads(size, single=False)
        return ElementwiseSchedule(layout, elements, threads, block)
    warps = min(_WARPS, _SHARED // shared) if shared else _WARPS
    block = _WARP * warps
    grid = (-(-size // block), 1, 1)
    return ElementwiseSchedule(layout, elements, size, block, grid, shared_mem=warps * shared)


def _first_new(members: Sequence[ItemMember]) -> int:
    """Return the number of the first output that was made for the call.

    Outputs are the last operands, and all of them are new or none.
    """
    return next((k for k, member in enumerate(members) if member.is_new), len(members))


def _is_packed(axes: Axes, number: int, member: ItemMember) -> bool:
    """Return whether threads can load and store items by whole accesses."""
    if not member.shape or not member.nbytes or not member.is_small or member.is_struct:
        return False
    if not member.is_contiguous:
        return False
    addresses = (member.ptr, *axes.strides[number])
    return not any(address % member.access for address in addresses)


def _gains(axes: Axes, number: int, member: ItemMember) -> bool:
    """Return whether a warp copies such items: one or two accesses a thread are as fast."""
    if member.nbytes <= 2 * member.access or member.ptr % 16:
        return False
    step = member.nbytes
    for extent, stride in zip(axes.extents, axes.strides[number], strict=True):
        if stride != step:
            return False
        step *= extent
    return True


def choose_groups(
    kernel: str, axes: Axes, members: Sequence[ItemMember], size: int, threads: int
) -> ElementwiseSchedule:
    """Return the schedule of a loop in which a group of threads has each item.

    `kernel` is its name, for the message; the others are those of `choose_items`.

    Raises
    ------
    LaunchError
        If the items of one group do not fit the shared memory of a block.
    """
    capacity = strided_capacity(len(axes.extents))
    places, room = [], 0
    for member in members:
        places.append(room)
        room += member.shared_bytes
    if room > _SHARED:
        raise LaunchError(
            f"{kernel}: an item of each argument takes {room} bytes of shared memory, and a block "
            f"has {_SHARED}"
        )
    count = 1 if threads > _WARP else min(_GROUP_WARPS, _SHARED // room if room else _GROUP_WARPS)
    count = max(1, min(count, size))
    across = transposed = 0
    for number, member in enumerate(members[:_MASK_BITS]):
        across |= _is_across(axes, number, member) << number
        transposed |= member.is_transposed << number
    elements = struct.pack("q", size) + marshal.pack_axes(axes, capacity)
    elements += struct.pack("2Q2i", across, transposed, room, _first_new(members))
    elements += struct.pack(f"{1 + len(members)}i", count, *places)
    elements = elements.ljust(marshal.up(len(elements), 8), b"\0")
    blocks, block = -(-size // count), threads * count
    return ElementwiseSchedule(
        groups(len(axes.extents), threads),
        elements,
        blocks * block,
        block,
        (blocks, 1, 1),
        shared_mem=count * room,
    )


def _is_across(axes: Axes, number: int, member: ItemMember) -> bool:
    """Return whether an operand's neighbours in memory are elements of neighbouring items."""
    if not axes.extents or not member.shape:
        return False
    inside = min(abs(step) for step in member.strides)
    return 0 < abs(axes.strides[number][0]) < inside


def pack_core(view: ArrayView, count: int) -> bytes:
    """Pack ``Core<Access, D...>``: an address, and the strides of the core dimensions."""
    return struct.pack(f"P{count}q", view.ptr, *view.strides[len(view.strides) - count :])
