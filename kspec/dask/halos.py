"""Windowed inputs on Dask arrays: each block with the elements that its neighbours lend it.

`kspec.model.neighbours.halos` says which elements these are.  Slices of neighbouring blocks are
tasks of their own, so that no more than the halo travels between workers.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Sequence
from typing import Any

import dask.array as da
from dask.array.core import unify_chunks
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph

from kspec.dask.blocks import ExtendTask
from kspec.dataclass import dataclass
from kspec.errors import ShapeError, counted
from kspec.model.neighbours.halos import Piece, pieces_of, thin_block
from kspec.model.neighbours.windows import VALID, BoundWindow

Chunks = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Input:
    """An input that is divided into blocks.

    Attributes
    ----------
    name : str
        Its parameter.
    array : dask array
        The whole of it.
    window : BoundWindow or None
        What is read of it, where that is more than one element.
    """

    name: str
    array: da.Array
    window: BoundWindow | None

    @property
    def windowed(self) -> dict[int, int]:
        """Number of each windowed axis among those of the window, by that among the array's."""
        count = len(self.window.reach) if self.window is not None else 0
        return {self.array.ndim - count + number: number for number in range(count)}

    def inside(self) -> da.Array:
        """Return the elements that have a result."""
        window = self.window
        if window is None or window.boundary != VALID:
            return self.array
        extents = self.array.shape[-len(window.reach) :]
        sides = zip(extents, window.reach, strict=True)
        return self.array[(..., *(slice(before, n - after) for n, (before, after) in sides))]


def extend(kernel: str, ndim: int, inputs: Sequence[Input]) -> tuple[list[da.Array], Chunks]:
    """Return arrays whose blocks are those of the result, extended by their halos.

    Parameters
    ----------
    kernel : str
        Its name, for messages.
    ndim : int
        Number of axes of the result.
    inputs : sequence of Input
        They broadcast. Those with a window become arrays of `kspec.dask.blocks.Extended`.

    Returns
    -------
    list of dask arrays, tuple of tuple of int
        The arrays, whose chunks cannot be compared any more, and the chunks of the result.

    Raises
    ------
    ShapeError
        If blocks are thinner than the reach.
    """
    axes = [range(ndim - one.array.ndim, ndim) for one in inputs]
    inside = [one.inside() for one in inputs]
    for number, extents in _chosen(inputs, inside, ndim).items():
        for k, (array, numbers) in enumerate(zip(inside, axes, strict=True)):
            axis = number - numbers.start
            if axis >= 0 and array.shape[axis] != 1 and array.chunks[axis] != extents:
                inside[k] = array.rechunk({axis: extents})
    rows = zip(inside, map(tuple, axes), strict=True)
    pairs = [item for row in rows for item in row]
    chunks, aligned = unify_chunks(*pairs)
    arrays = [
        array if one.window is None else _extended(kernel, one, chunks, numbers)
        for one, array, numbers in zip(inputs, aligned, axes, strict=True)
    ]
    return arrays, tuple(chunks[axis] for axis in range(ndim))


def check_known(kernel: str, inputs: Sequence[Input]) -> None:
    """Raise `ShapeError` if chunks have unknown sizes along a windowed axis."""
    for one in inputs:
        unknown = [axis for axis in one.windowed if math.isnan(one.array.shape[axis])]
        if unknown:
            raise ShapeError(
                f"{kernel}: {one.name} has chunks of unknown sizes along axis {unknown[0]}, where "
                "its blocks read their neighbours; call compute_chunk_sizes() on it first"
            )


def _chosen(
    inputs: Sequence[Input], inside: Sequence[da.Array], ndim: int
) -> dict[int, tuple[int, ...]]:
    """Return the chunks of the result along windowed axes, by the number of the axis.

    They are those of one windowed input: what is common to several may be too thin for a window.
    """
    chosen: dict[int, tuple[int, ...]] = {}
    for one, array in zip(inputs, inside, strict=True):
        for axis in one.windowed:
            number = ndim - array.ndim + axis
            if len(array.chunks[axis]) > len(chosen.get(number, ())):
                chosen[number] = array.chunks[axis]
    return chosen


def _extended(kernel: str, one: Input, chunks: dict[int, Any], numbers: Sequence[int]) -> da.Array:
    """Return a windowed input, divided as the result, its blocks with their halos."""
    window = one.window
    assert window is not None
    divided: dict[int, tuple[int, ...]] = {}
    pieces = []
    for axis, number in enumerate(numbers):
        if axis in one.windowed:
            reach = window.reach[one.windowed[axis]]
            divided[axis] = _with_margins(chunks[number], reach, window.boundary)
            check_thick(kernel, one.name, axis, divided[axis], reach, window.boundary)
            pieces.append(pieces_of(len(divided[axis]), reach, window.boundary))
        elif one.array.shape[axis] != 1 and not math.isnan(one.array.shape[axis]):
            divided[axis] = tuple(chunks[number])
    changed = {axis: row for axis, row in divided.items() if row != one.array.chunks[axis]}
    array = one.array.rechunk(changed) if changed else one.array
    return extended_blocks(f"{kernel}: argument {one.name}", array, pieces)


def check_thick(
    kernel: str, name: str, axis: int, extents: Sequence[int], reach: tuple[int, int], boundary: str
) -> None:
    """Raise `ShapeError` if a block of an input has too few elements for the ones beside it."""
    thin = thin_block(extents, reach, boundary)
    if thin is not None:
        block, needed = thin
        raise ShapeError(
            f"{kernel}: {name}: block {block} along axis {axis} has "
            f"{counted(extents[block], 'element')}, and its neighbours' windows need {needed}; use "
            f"thicker blocks: {name}.rechunk({{{axis}: ...}})"
        )


def _with_margins(chunks: Sequence[int], reach: tuple[int, int], boundary: str) -> tuple[int, ...]:
    """Return the extents of the blocks that have results of these extents in their middle."""
    extents = list(chunks)
    if boundary == VALID:
        extents[0] += reach[0]
        extents[-1] += reach[1]
    return tuple(extents)


def extended_blocks(where: str, array: da.Array, pieces: Sequence[Sequence[Piece]]) -> da.Array:
    """Return an array of `Extended` blocks; `pieces` are those along each of the last axes."""
    name = f"kspec-halos-{tokenize(where, array.name, pieces)}"
    split = array.ndim - len(pieces)
    tasks: dict[Any, Any] = {}
    for block in itertools.product(*(range(count) for count in array.numblocks)):
        row = [one[k] for one, k in zip(pieces, block[split:], strict=True)]
        parts = []
        for steps in itertools.product(*map(_steps, row)):
            there = [
                (k + step) % count
                for k, step, count in zip(
                    block[split:], steps, array.numblocks[split:], strict=True
                )
            ]
            key: Any = (array.name, *block[:split], *there)
            if any(steps):
                lent = (..., *map(_lent, row, steps))
                tasks[(name, *block, *steps)] = (operator.getitem, key, lent)
                key = (name, *block, *steps)
            parts.append((steps, key))
        task = ExtendTask(
            where,
            tuple(steps for steps, _ in parts),
            tuple(piece.before for piece in row),
            tuple(piece.margins for piece in row),
        )
        tasks[(name, *block)] = (task, *(key for _, key in parts))
    chunks = (
        *array.chunks[:split],
        *(
            tuple(piece.before + n + piece.after for piece, n in zip(one, extents, strict=True))
            for one, extents in zip(pieces, array.chunks[split:], strict=True)
        ),
    )
    graph = HighLevelGraph.from_collections(name, tasks, dependencies=[array])
    return da.Array(graph, name, chunks, meta=array._meta)


def _steps(piece: Piece) -> tuple[int, ...]:
    """Return the steps to the blocks along an axis that a piece takes elements of."""
    return (*((-1,) if piece.before else ()), 0, *((1,) if piece.after else ()))


def _lent(piece: Piece, step: int) -> slice:
    """Return the elements that the block at a step lends to a piece."""
    return (slice(None), slice(piece.after), slice(-piece.before, None))[step]
