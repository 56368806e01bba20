"""Shards of windowed inputs, each with the elements that the shards beside it lend.

`kspec.model.neighbours.halos` says which elements these are, `kspec.runtime.libraries.assembly`
copies them between devices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from kspec.dataclass import dataclass
from kspec.errors import ShapeError, counted
from kspec.model.neighbours.halos import Piece, pieces_of, thin_block
from kspec.model.neighbours.windows import BoundWindow
from kspec.model.shapes import Shape
from kspec.runtime.kernels.identity import Kernel
from kspec.runtime.libraries.assembly import Assembly, Part
from kspec.runtime.libraries.lookup import library_of, view_of


@dataclass(frozen=True)
class ShardCall:
    """A call on a shard.

    Attributes
    ----------
    args : tuple
        The inputs, windowed ones with their halos.
    windows : tuple of BoundWindow
        What of them has no result here.
    """

    args: tuple[Any, ...]
    windows: tuple[BoundWindow, ...]


def extend_shards(
    kernel: Kernel,
    windows: Sequence[BoundWindow],
    calls: Sequence[tuple[Any, ...]],
    from_end: int,
) -> list[ShardCall]:
    """Return the calls on shards whose windows see the elements of the shards beside them.

    Parameters
    ----------
    kernel : kernel
        The kernel.
    windows : sequence of BoundWindow
        Those of the undivided call.
    calls : sequence of tuple
        The inputs of each shard.
    from_end : int
        The axis that is divided, from the last one of the loop: -1, -2...

    Raises
    ------
    ShapeError
        If shards are thinner than the reach, or differ along other axes.
    """
    args = [list(one) for one in calls]
    bound: list[list[BoundWindow]] = [[] for _ in calls]
    waiting: list[tuple[int, int, Assembly]] = []
    for window in windows:
        place = kernel.declaration.inputs.names.index(window.param)
        shards = [one[place] for one in calls]
        halos = _halos(kernel.__name__, window, shards, from_end)
        for number, (margins, assembly) in enumerate(halos):
            bound[number].append(replace(window, halos=margins))
            if assembly is not None:
                waiting.append((number, place, assembly))
    # All halos first: a device waits for the copies on another one, not for its shard.
    for _, _, assembly in waiting:
        assembly.borrow()
    for number, place, assembly in waiting:
        args[number][place] = assembly.finish()
    return [ShardCall(tuple(one), tuple(row)) for one, row in zip(args, bound, strict=True)]


Halos = tuple[tuple[tuple[int, int], ...], Assembly | None]


def _halos(kernel: str, window: BoundWindow, shards: Sequence[Any], from_end: int) -> list[Halos]:
    """Return the margins of each shard, and its array with the halos if it has any."""
    where, axes = f"{kernel}: argument {window.param}", len(window.reach)
    shapes = [_shape(where, one) for one in shards]
    if -from_end > axes or any(len(shape) < axes for shape in shapes):
        return [(window.margins, None)] * len(shards)  # the call refuses too few axes
    reach = window.reach[from_end]
    check_alike(f"{kernel}: {window.param}", shapes, from_end)
    extents = [shape[from_end] for shape in shapes]
    thin = thin_block(extents, reach, window.boundary)
    if thin is not None:
        number, needed = thin
        axis = len(shapes[number]) + from_end
        raise ShapeError(
            f"{kernel}: {window.param}: shard {number} along axis {axis} has "
            f"{counted(extents[number], 'element')}, and its neighbours' windows need {needed}; "
            "divide the array among fewer devices, or along another axis"
        )
    found: list[Halos] = []
    for number, piece in enumerate(pieces_of(len(shards), reach, window.boundary)):
        margins = list(window.margins)
        margins[from_end] = piece.margins
        assembly = None
        if piece.before or piece.after:
            parts, home = _parts(shards, shapes, number, piece, from_end)
            extent = piece.before + extents[number] + piece.after
            assembly = Assembly(where, with_extent(shapes[number], from_end, extent), parts, home)
        found.append((tuple(margins), assembly))
    return found


def _parts(
    shards: Sequence[Any], shapes: Sequence[Shape], number: int, piece: Piece, from_end: int
) -> tuple[list[Part], int]:
    """Return the parts that a shard is extended of, and which of them is the shard itself."""
    shape = shapes[number]
    start = (0,) * len(shape)
    parts = []
    if piece.before:
        left = (number - 1) % len(shards)
        stop = shapes[left][from_end]
        taken = (stop - piece.before, stop)
        parts.append(Part(shards[left], start, _ranges(shape, from_end, taken)))
    home = len(parts)
    parts.append(Part(shards[number], with_extent(start, from_end, piece.before)))
    if piece.after:
        right = (number + 1) % len(shards)
        place = with_extent(start, from_end, piece.before + shape[from_end])
        parts.append(Part(shards[right], place, _ranges(shape, from_end, (0, piece.after))))
    return parts, home


def _ranges(shape: Shape, axis: int, taken: tuple[int, int]) -> tuple[tuple[int, int], ...]:
    """Return the indices of all elements, but for one axis."""
    ranges = [(0, extent) for extent in shape]
    ranges[axis] = taken
    return tuple(ranges)


def with_extent(numbers: Shape, axis: int, number: int) -> Shape:
    """Return numbers with another one for an axis."""
    changed = list(numbers)
    changed[axis] = number
    return tuple(changed)


def _shape(where: str, shard: Any) -> Shape:
    """Return the shape of a shard; empty if it is not an array, which the call refuses."""
    library = library_of(shard)
    return () if library is None else view_of(where, library, shard).shape


def check_alike(where: str, shapes: Sequence[Shape], from_end: int) -> None:
    """Raise `ShapeError` if shards differ along axes that are not divided."""
    first = shapes[0]
    for number, shape in enumerate(shapes):
        if len(shape) != len(first) or with_extent(shape, from_end, 0) != with_extent(
            first, from_end, 0
        ):
            raise ShapeError(
                f"{where}: shard {number} has shape {shape}, and shard 0 {first}; shards differ "
                f"along the divided axis only, which is {from_end} (along=...)"
            )
