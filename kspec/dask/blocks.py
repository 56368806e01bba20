"""Functions that Dask's tasks call: blocks in, blocks out; no Dask.

Objects here are frozen, small and picklable, and their tokens are those of their contents: equal
calls make equal tasks.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from kspec.dataclass import dataclass
from kspec.model.neighbours.binding import BoundNeighbours
from kspec.model.neighbours.windows import BoundSizes
from kspec.runtime.arguments.binding import is_aligned
from kspec.runtime.kernels.elementwise import ElementwiseCallable
from kspec.runtime.kernels.identity import Identity
from kspec.runtime.kernels.partial_reduction import SplitReduction, split_of
from kspec.runtime.kernels.partials import Partial
from kspec.runtime.kernels.reduction import ReductionCallable
from kspec.runtime.libraries.assembly import Part, assemble
from kspec.runtime.libraries.lookup import library_of


class Placeholder(enum.Enum):
    """Markers in place of a task's inputs; None would be an argument, which calls refuse."""

    BLOCK = "block"


@dataclass(frozen=True)
class ElementwiseTask:
    """An elementwise call on blocks.

    Attributes
    ----------
    identity : Identity
        The kernel.
    rest : tuple
        Its inputs; `Placeholder.BLOCK` where a block belongs.
    sizes : tuple of (str, int)
        Integer placeholders.
    boundary : str or None
        Boundary of samples.
    """

    identity: Identity
    rest: tuple[Any, ...]
    sizes: BoundSizes = ()
    boundary: str | None = None

    def __call__(self, *blocks: Any) -> Any:
        """Return the block, or a tuple of them."""
        sizes: dict[str, Any] = dict(self.sizes)
        kernel = _elementwise(self.identity)
        return kernel(*filled(self.rest, blocks), boundary=self.boundary, **sizes)


@dataclass(frozen=True)
class Extended:
    """A block with elements of its neighbours.

    Attributes
    ----------
    array : array
        All elements.
    margins : tuple of (int, int)
        For each of the last axes, how many at its ends have no result in this block.
    """

    array: Any
    margins: tuple[tuple[int, int], ...]

    def __sizeof__(self) -> int:
        # Schedulers ask, to know what is worth moving.
        return int(getattr(self.array, "nbytes", 0)) + object.__sizeof__(self)


@dataclass(frozen=True)
class ExtendTask:
    """Elements of neighbouring blocks around one.

    Attributes
    ----------
    where : str
        Its name in messages.
    steps : tuple of tuple of int
        For each array of a call, the steps to its block along the last axes: -1, 0 or 1.
    before : tuple of int
        Along each of these axes, elements in front of the block itself.
    margins : tuple of (int, int)
        As in `Extended`.
    """

    where: str
    steps: tuple[tuple[int, ...], ...]
    before: tuple[int, ...]
    margins: tuple[tuple[int, int], ...]

    def __call__(self, *arrays: Any) -> Extended:
        """Return the block with its halos."""
        if len(arrays) == 1:
            return Extended(_aligned(arrays[0]), self.margins)
        home = self.steps.index((0,) * len(self.before))
        split = arrays[home].ndim - len(self.before)
        batch, extents = arrays[home].shape[:split], arrays[home].shape[split:]
        parts, ends = [], list(extents)
        for steps, array in zip(self.steps, arrays, strict=True):
            rows = zip(self.before, extents, steps, strict=True)
            place = [
                0 if step < 0 else before + (extent if step > 0 else 0)
                for before, extent, step in rows
            ]
            parts.append(Part(array, (*[0] * len(batch), *place)))
            shape = array.shape[len(batch) :]
            ends = [max(end, k + n) for end, k, n in zip(ends, place, shape, strict=True)]
        return Extended(assemble(self.where, (*batch, *ends), parts, home), self.margins)


@dataclass(frozen=True)
class WindowedTask:
    """A call of a kernel with windows on extended blocks.

    Attributes
    ----------
    identity, rest
        As in `ElementwiseTask`; blocks of windowed inputs are `Extended`.
    neighbours : BoundNeighbours
        Those of the undivided call.
    """

    identity: Identity
    rest: tuple[Any, ...]
    neighbours: BoundNeighbours

    def __call__(self, *blocks: Any) -> Any:
        """Return the block, or a tuple of them."""
        kernel = _elementwise(self.identity)
        arrays = [one.array if isinstance(one, Extended) else one for one in blocks]
        args = filled(self.rest, tuple(arrays))
        left = iter(blocks)
        halos = {}
        for param, value in zip(kernel.declaration.inputs, self.rest, strict=True):
            block = next(left) if value is Placeholder.BLOCK else None
            if isinstance(block, Extended):
                halos[param.name] = block.margins
        whole = self.neighbours
        windows = tuple(replace(one, halos=halos[one.param]) for one in whole.windows)
        return kernel.prepare_in(replace(whole, windows=windows), args).run()


@dataclass(frozen=True)
class PartialTask:
    """The first stage of a reduction along some axes."""

    identity: Identity
    rest: tuple[Any, ...]
    axis: tuple[int, ...]

    def __call__(self, *blocks: Any) -> Partial:
        """Return the partial result of a block."""
        return _split(self.identity).partial(filled(self.rest, blocks), self.axis)


@dataclass(frozen=True)
class CombineTask:
    """The stage in the middle."""

    identity: Identity
    rest: tuple[Any, ...]

    def __call__(self, partials: Any, axis: tuple[int, ...], keepdims: bool) -> Partial:
        """Return one partial of a tree of lists of them."""
        return _split(self.identity).combine(list(_flat(partials)), filled(self.rest))


@dataclass(frozen=True)
class FinishTask:
    """The last stage.

    Attributes
    ----------
    identity, rest
        As of the others.
    outputs : int or None
        How many outputs all blocks have together; None: the kernel does not ask.
    """

    identity: Identity
    rest: tuple[Any, ...]
    outputs: int | None = None

    def __call__(self, partials: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
        """Return the block of the result, or a tuple of them."""
        kept = axis if keepdims else ()
        split, rest = _split(self.identity), filled(self.rest)
        return split.finish(list(_flat(partials)), rest, kept, outputs=self.outputs)


@dataclass(frozen=True)
class SelectOutput:
    """One of several outputs, or the only one.

    Attributes
    ----------
    number : int or None
        Which one; None if the block is the output itself.
    """

    number: int | None

    def __call__(self, block: Any) -> Any:
        """Return it."""
        return block if self.number is None else block[self.number]


def pass_block(block: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
    """Return a block: the first step of a reduction of partial results."""
    return block


def _elementwise(identity: Identity) -> ElementwiseCallable:
    kernel = identity.kernel()
    assert isinstance(kernel, ElementwiseCallable)
    return kernel


def _split(identity: Identity) -> SplitReduction:
    kernel = identity.kernel()
    assert isinstance(kernel, ReductionCallable)
    return split_of(kernel)


def filled(rest: tuple[Any, ...], blocks: tuple[Any, ...] = ()) -> tuple[Any, ...]:
    """Return the inputs of a call; without blocks, those of a later stage."""
    left = iter(blocks)
    return tuple(
        _block(_only(next(left, None))) if one is Placeholder.BLOCK else _aligned(one)
        for one in rest
    )


def _flat(partials: Any) -> Iterator[Partial]:
    """Yield the partials of nested lists in order."""
    if isinstance(partials, Partial):
        yield partials
        return
    for one in partials:
        yield from _flat(one)


def _only(block: Any) -> Any:
    """Return the only block of lists: Dask has one for each core dimension, which has one chunk."""
    while isinstance(block, list):
        (block,) = block
    return block


def _block(value: Any) -> Any:
    """Return a block as kernels take it: NumPy makes scalars of zero-dimensional arrays."""
    return np.asarray(value) if isinstance(value, np.generic) else _aligned(value)


# What copies an array of libraries that leave it where the network has put it, or where it is in a
# struct: anywhere.
_COPIES = {"numpy": "copy", "torch": "clone"}


def _aligned(value: Any) -> Any:
    """Return an array whose elements kernels can read, or anything else as it is."""
    library = library_of(value)
    if library is None or library.name not in _COPIES:
        return value
    try:
        view = library.view(value)
    except Exception:  # the call says it better
        return value
    if view.device.is_host and not is_aligned(view):
        return getattr(value, _COPIES[library.name])()
    return value
