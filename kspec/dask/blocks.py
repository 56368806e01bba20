"""What Dask's tasks call: blocks in, blocks out; no Dask.

Objects here are frozen, small and picklable, and their tokens are those of what they hold: equal
calls make equal tasks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from kspec import dtypes
from kspec.runtime.identity import Identity
from kspec.runtime.parts import Part, SplitReduction, split_of
from kspec.runtime.reduction import ReductionCallable
from kspec.runtime.views import dtype_name


@dataclass(frozen=True)
class Apply:
    """An elementwise call on blocks.

    Attributes
    ----------
    identity : Identity
        The kernel.
    rest : tuple
        Its inputs; None where a block belongs.
    """

    identity: Identity
    rest: tuple[Any, ...]

    def __call__(self, *blocks: Any) -> Any:
        """Return the block, or a tuple of them."""
        return self.identity.kernel()(*_filled(self.rest, blocks))


@dataclass(frozen=True)
class Partial:
    """The first stage of a reduction along some axes."""

    identity: Identity
    rest: tuple[Any, ...]
    axis: tuple[int, ...]

    def __call__(self, *blocks: Any) -> Part:
        """Return what a block is reduced to."""
        return _split(self.identity).partial(_filled(self.rest, blocks), self.axis)


@dataclass(frozen=True)
class Combine:
    """The stage in the middle."""

    identity: Identity
    rest: tuple[Any, ...]

    def __call__(self, parts: Any, axis: tuple[int, ...], keepdims: bool) -> Part:
        """Return one part of a tree of lists of them."""
        return _split(self.identity).combine(list(_flat(parts)), self.rest)


@dataclass(frozen=True)
class Finish:
    """The last stage."""

    identity: Identity
    rest: tuple[Any, ...]

    def __call__(self, parts: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
        """Return the block of the result, or a tuple of them."""
        kept = axis if keepdims else ()
        return _split(self.identity).finish(list(_flat(parts)), self.rest, kept)


@dataclass(frozen=True)
class Output:
    """One of several outputs."""

    number: int

    def __call__(self, blocks: tuple[Any, ...]) -> Any:
        """Return it."""
        return blocks[self.number]


def same(block: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
    """Return a block: the first step of a reduction of what is reduced already."""
    return block


def _split(identity: Identity) -> SplitReduction:
    kernel = identity.kernel()
    assert isinstance(kernel, ReductionCallable)
    return split_of(kernel)


def _filled(rest: tuple[Any, ...], blocks: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the inputs of a call."""
    left = iter(blocks)
    return tuple(_usable(next(left)) if one is None else one for one in rest)


def _flat(parts: Any) -> Iterator[Part]:
    """Yield the parts of nested lists in order."""
    if isinstance(parts, Part):
        yield parts
        return
    for one in parts:
        yield from _flat(one)


def _usable(block: Any) -> Any:
    """Return a block as kernels take it.

    NumPy makes scalars of what has no axes, and what came over the network may begin anywhere.
    """
    if isinstance(block, np.generic):
        return np.asarray(block)
    if isinstance(block, np.ndarray) and type(block) is np.ndarray:
        alignment = dtypes.lookup(dtype_name(block.dtype)).alignment
        if block.ctypes.data % alignment:
            return block.copy()
    return block
