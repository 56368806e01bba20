"""Dask graphs of the other forms of reductions.

Along a divided axis, a block of a scan has three tasks: one reduces it to accumulators, one joins
these to those of all blocks before, one scans it.  Segments are of the block in which they begin;
other blocks reduce their pieces of them.  Keys are reduced to accumulators in each block, which are
joined in a tree.  Windows get the elements that they read of other blocks (`kspec.dask.halos`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import dask.array as da
from dask.array.core import unify_chunks
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph

from kspec.dask.form_blocks import (
    AggregateTask,
    FinishKeysTask,
    JoinTask,
    KeysTask,
    RollTask,
    ScanTask,
    SegmentsTask,
)
from kspec.dask.graphs import (
    Arguments,
    abstract_inputs,
    arguments_of,
    broadcast,
    divided_params,
    named_shapes,
    outputs_of,
    with_outputs,
)
from kspec.dask.halos import check_thick, extended_blocks
from kspec.dataclass import dataclass
from kspec.errors import ShapeError
from kspec.model.forms.kinds import BY_KEY, SCAN, SEGMENTS, WINDOW
from kspec.model.forms.outputs import infer_by_key, infer_scan, infer_segments, infer_window
from kspec.model.forms.sliding import SlidingAxis, WindowPiece
from kspec.model.infer import Abstract, reduction_loop
from kspec.model.neighbours.halos import Piece, pieces_of
from kspec.runtime.arguments.binding import Call
from kspec.runtime.kernels.forms.cuts import cut_segments, host_bounds
from kspec.runtime.kernels.forms.options import form_arguments
from kspec.runtime.kernels.forms.pieces import divide_windows, reach_of
from kspec.runtime.kernels.identity import identity_of
from kspec.runtime.kernels.reduction import ReductionCallable

Block = tuple[int, ...]
Chunks = tuple[tuple[Any, ...], ...]


def form_blocks(
    kernel: ReductionCallable, form: str, args: Sequence[Any], given: Mapping[str, Any]
) -> Any:
    """Return the outputs of a form of a reduction.

    Parameters
    ----------
    kernel, form
        The reduction, and which of its forms.
    args : sequence
        As of `kspec.dask.apply`.
    given : mapping of str to object
        Keywords of the form.
    """
    inputs, options = form_arguments(kernel, form, args, given)
    kernel.declaration.check_made_outputs()
    found, call = arguments_of(kernel, inputs)
    kernel.check_scalars(call)
    found, result = _FORMS[form](kernel, found, call, options)
    return outputs_of(kernel, found, result)


Result = tuple[Arguments, da.Array]


def _scan(
    kernel: ReductionCallable, found: Arguments, call: Call, options: Mapping[str, Any]
) -> Result:
    exclusive, reverse = options["exclusive"], options["reverse"]
    inferred = infer_scan(
        kernel.declaration,
        abstract_inputs(found, call),
        axis=options["axis"],
        exclusive=exclusive,
        broadcast=broadcast,
    )
    found = with_outputs(found, call, inferred)
    (axis,) = inferred.reduced
    loop = _Loop.of(kernel, found)
    given = identity_of(kernel), found.rest
    scan, join = ScanTask(*given, axis, exclusive, reverse), JoinTask(*given)
    aggregate = AggregateTask(*given, axis, reverse=reverse)
    name = loop.name(kernel, scan)
    last, step = len(loop.chunks[axis]) - 1, -1 if reverse else 1

    def before(block: Block) -> Any:
        """Return the key of the accumulators of all blocks before one; None if it is the first."""
        place = last - block[axis] if reverse else block[axis]
        if place == 0:
            return None
        if place == 1:
            return f"{name}-aggregate", *_moved(block, axis, -step)
        return f"{name}-carry", *block

    tasks: dict[Any, Any] = {}
    for block in loop.blocks():
        carry, keys = before(block), loop.keys(block)
        tasks[(name, *block)] = (scan, carry, *keys)
        if block[axis] != (0 if reverse else last):
            tasks[(f"{name}-aggregate", *block)] = (aggregate, *keys)
        if carry is not None and carry[0] == f"{name}-carry":
            there = _moved(block, axis, -step)
            tasks[carry] = (join, before(there), (f"{name}-aggregate", *there))
    return found, loop.array(name, tasks, loop.chunks, found)


def _segments(
    kernel: ReductionCallable, found: Arguments, call: Call, options: Mapping[str, Any]
) -> Result:
    given = options["indptr"]
    indptr = host_bounds(kernel.__name__, given.compute() if isinstance(given, da.Array) else given)
    bounds = Abstract(indptr.shape, indptr.dtype.name)
    inputs = abstract_inputs(found, call)
    inferred = infer_segments(kernel.declaration, inputs, bounds, broadcast=broadcast)
    found = with_outputs(found, call, inferred)
    loop = _Loop.of(kernel, found)
    loop.check_known(kernel, 0, "segments are cut where blocks end")
    cuts = cut_segments(kernel.__name__, indptr, loop.chunks[0])
    given = identity_of(kernel), found.rest
    name = loop.name(kernel, SegmentsTask(*given, indptr))
    tasks: dict[Any, Any] = {}
    for block in loop.blocks():
        number, *others = block
        cut = cuts[number]
        parts = [] if cut.tail is None else [(number, cut.tail)]
        parts += [(k, (0, count)) for k, count in cut.followed_by]
        pieces = []
        for k, taken in parts:
            piece = f"{name}-piece", number, k, *others
            keys = loop.keys((k, *others))
            tasks[piece] = (AggregateTask(*given, 0, taken), *keys)
            pieces.append(piece)
        tasks[(name, *block)] = (SegmentsTask(*given, cut.bounds), pieces, *loop.keys(block))
    chunks = (tuple(cut.segments for cut in cuts), *loop.chunks[1:])
    return found, loop.array(name, tasks, chunks, found)


def _window(
    kernel: ReductionCallable, found: Arguments, call: Call, options: Mapping[str, Any]
) -> Result:
    inputs = abstract_inputs(found, call)
    inferred, sliding = infer_window(kernel.declaration, inputs, **options, broadcast=broadcast)
    found = with_outputs(found, call, inferred)
    loop = _Loop.of(kernel, found)
    boundary = options["boundary"]
    windows: dict[int, list[WindowPiece]] = {}
    for one in sliding:
        loop.check_known(kernel, one.axis, "windows read neighbours of their blocks")
        rows = divide_windows(loop.chunks[one.axis], one, boundary)
        windows[one.axis] = [piece for _, piece in rows]
    extended = loop.extended(kernel, found, sliding, boundary)
    given = identity_of(kernel), found.rest, tuple(options.items())
    name = loop.name(kernel, RollTask(*given, ()))
    tasks: dict[Any, Any] = {}
    for block in loop.blocks():
        pieces = tuple(row[block[axis]] for axis, row in windows.items())
        tasks[(name, *block)] = (RollTask(*given, pieces), *extended.keys(block))
    chunks = tuple(
        tuple(piece.count for piece in windows[axis]) if axis in windows else row
        for axis, row in enumerate(loop.chunks)
    )
    return found, extended.array(name, tasks, chunks, found)


def _by_key(
    kernel: ReductionCallable, found: Arguments, call: Call, options: Mapping[str, Any]
) -> Result:
    keys, n = da.asanyarray(options["keys"]), options["n"]
    inputs = abstract_inputs(found, call)
    rows = reduction_loop(kernel.declaration, inputs, broadcast)[:1]
    unknown = any(map(math.isnan, rows)) and keys.ndim == 1  # as many as blocks will show
    inferred = infer_by_key(
        kernel.declaration,
        inputs,
        Abstract(rows if unknown else keys.shape, keys.dtype.name),
        n=n,
        broadcast=broadcast,
    )
    found = with_outputs(found, call, inferred)
    loop = _Loop.of(kernel, found)
    if any(map(math.isnan, loop.chunks[0])):
        if keys.numblocks != (len(loop.chunks[0]),):
            loop.check_known(kernel, 0, "the keys are divided differently")
    else:
        keys = keys.rechunk(loop.chunks[:1])
    given = identity_of(kernel), found.rest
    aggregate, join, finish = (
        KeysTask(*given, inferred.shape[0], options["deterministic"]),
        JoinTask(*given),
        FinishKeysTask(*given),
    )
    loop = replace(loop, others=(keys,))
    name = loop.name(kernel, aggregate)
    chunks = ((inferred.shape[0],), *loop.chunks[1:])
    tasks: dict[Any, Any] = {}
    for block in replace(loop, chunks=chunks).blocks():
        parts: list[Any] = []
        for number in range(len(loop.chunks[0])):
            key = f"{name}-part", 0, number, *block[1:]
            blocks = loop.keys((number, *block[1:]))
            tasks[key] = (aggregate, (keys.name, number), *blocks)
            parts.append(key)
        for level in itertools.count(1):
            if len(parts) <= _JOINED:
                break
            groups = [parts[k : k + _JOINED] for k in range(0, len(parts), _JOINED)]
            parts = [(f"{name}-part", level, k, *block[1:]) for k in range(len(groups))]
            tasks |= {key: (join, *group) for key, group in zip(parts, groups, strict=True)}
        tasks[(name, *block)] = (finish, *parts)
    return found, loop.array(name, tasks, chunks, found)


_JOINED = 8  # parts of keys that a task joins
_FORMS: dict[str, Callable[..., Result]] = {
    SCAN: _scan,
    SEGMENTS: _segments,
    BY_KEY: _by_key,
    WINDOW: _window,
}


@dataclass(frozen=True)
class _Loop:
    """The blocks of all arrays of a call, divided alike.

    Attributes
    ----------
    arrays : tuple of dask arrays
        The arrays.
    chunks : tuple of tuple of int
        Extents of the blocks along each axis of the broadcast shape.
    others : tuple of dask arrays
        What tasks read beside them.
    """

    arrays: tuple[da.Array, ...]
    chunks: Chunks
    others: tuple[da.Array, ...] = ()

    @staticmethod
    def of(kernel: ReductionCallable, found: Arguments) -> _Loop:
        """Return the blocks of a call."""
        with named_shapes(kernel, found):
            chunks, arrays = unify_chunks(*found.indexed())
        return _Loop(tuple(arrays), tuple(tuple(chunks[axis]) for axis in range(found.ndim)))

    def name(self, kernel: ReductionCallable, task: Any) -> str:
        """Return the name of the result: equal for equal calls."""
        token = tokenize(task, [one.name for one in (*self.arrays, *self.others)])
        return f"kspec-{kernel.__name__}-{token}"

    def blocks(self) -> Iterator[Block]:
        """Yield the number of each block along each axis."""
        yield from itertools.product(*(range(len(row)) for row in self.chunks))

    def keys(self, block: Block) -> list[Any]:
        """Return the blocks of the arrays that belong to a block of the result."""
        return [
            (one.name, *self._numbers(one, block[len(self.chunks) - one.ndim :]))
            for one in self.arrays
        ]

    def _numbers(self, array: da.Array, block: Block) -> Block:
        rows = zip(block, array.numblocks, strict=True)
        return tuple(0 if count == 1 else number for number, count in rows)

    def array(self, name: str, tasks: Mapping[Any, Any], chunks: Chunks, found: Arguments) -> Any:
        """Return the array whose blocks tasks make."""
        graph = HighLevelGraph.from_collections(
            name, tasks, dependencies=(*self.arrays, *self.others)
        )
        return da.Array(graph, name, chunks, meta=found.meta(0, len(chunks)))

    def check_known(self, kernel: ReductionCallable, axis: int, reason: str) -> None:
        """Raise `ShapeError` if chunks have unknown sizes along an axis."""
        if any(math.isnan(extent) for extent in self.chunks[axis]):
            raise ShapeError(
                f"{kernel.__name__}: chunks have unknown sizes along axis {axis}, and {reason}; "
                "call compute_chunk_sizes() on the array first"
            )

    def extended(
        self,
        kernel: ReductionCallable,
        found: Arguments,
        sliding: Sequence[SlidingAxis],
        boundary: str,
    ) -> _Loop:
        """Return arrays whose blocks have the elements that their windows read of others."""
        reaches = {one.axis: reach_of(one) for one in sliding}
        arrays = []
        for param, array in zip(divided_params(kernel, found), self.arrays, strict=True):
            skipped = len(self.chunks) - array.ndim
            rows: list[tuple[Piece, ...]] = []
            for axis, extents in enumerate(array.chunks):
                reach = reaches.get(axis + skipped, (0, 0))
                if extents != self.chunks[axis + skipped]:  # one element, for all blocks
                    reach = (0, 0)
                check_thick(kernel.__name__, param.name, axis, extents, reach, boundary)
                rows.append(pieces_of(len(extents), reach, boundary))
            where = f"{kernel.__name__}: argument {param.name}"
            arrays.append(extended_blocks(where, array, rows))
        return _Loop(tuple(arrays), self.chunks)


def _moved(block: Block, axis: int, step: int) -> Block:
    """Return the block some steps further along an axis."""
    return (*block[:axis], block[axis] + step, *block[axis + 1 :])
