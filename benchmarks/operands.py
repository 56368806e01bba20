"""Shapes, views and memory: what the arrays of a case look like.

An `Operand` is data: the shape of a contiguous base array and how it is indexed and transposed.
The functions above the line turn a number of elements into a shape, so that the same case runs on
a GPU, on the host and, tiny, in tests.  `Pool` holds random data that operands are views of.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

Shape = tuple[int, ...]
FULL_SIZE = 2**28
# Bases start on addresses like those of a fresh allocation.
_ALIGNMENT = 256


def line(n: int) -> Shape:
    """Return one axis."""
    return (n,)


def square(n: int, short_of: int = 0) -> Shape:
    """Return about n elements with equal extents: 16384² at full size, `short_of` less."""
    side = math.isqrt(n)
    if side > 1024:
        side -= side % 64  # whole packs of every dtype in a row
    return (side - short_of, side - short_of)


def rows_of(n: int, length: int) -> Shape:
    """Return as many rows of `length` as fit."""
    return (max(1, n // length), length)


def rows_in(n: int, count: int) -> Shape:
    """Return `count` rows, as long as fit."""
    return (count, max(1, n // count))


def bits(n: int, *weights: int) -> Shape:
    """Return powers of two: at ``2**sum(weights)`` elements, ``2**weight`` along each axis."""
    total = math.log2(n) / sum(weights)
    return tuple(2 ** max(1, int(weight * total + 1e-9)) for weight in weights)


def like(n: int, *extents: int) -> Shape:
    """Return `extents`, of at most `FULL_SIZE` elements in all, shrunk alike to fit n."""
    factor = (n / FULL_SIZE) ** (1 / len(extents))
    return tuple(max(3, math.floor(extent * factor)) for extent in extents)


# ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Operand:
    """An array: a C-ordered base, of which `index` is taken and whose axes are permuted.

    Attributes
    ----------
    dtype : str
        NumPy's name.
    shape : tuple of int
        Of the base.
    index : tuple of slices, integers and None
        Taken from the base first.
    axes : tuple of int or None
        Permutation of what is left.
    values : callable or None
        Makes the elements of the base, given its shape; None: they are random.
    """

    dtype: str
    shape: Shape
    index: tuple[Any, ...] = ()
    axes: tuple[int, ...] | None = None
    values: Callable[[Shape], Any] | None = None

    def view(self, base: Any) -> Any:
        """Return the operand as a view of a 1-D array with at least `count` elements."""
        return self._arrange(base[: self.count].reshape(self.shape))

    @property
    def count(self) -> int:
        """Elements of the base."""
        return math.prod(self.shape)

    @property
    def view_shape(self) -> Shape:
        """Shape of the operand itself."""
        # For index arithmetic only: no memory behind it.
        shadow = np.broadcast_to(np.empty((), self.dtype), self.shape)
        return tuple(self._arrange(shadow).shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the operand itself: what a kernel has to read or write once."""
        return math.prod(self.view_shape) * np.dtype(self.dtype).itemsize

    def _arrange(self, array: Any) -> Any:
        if self.index:
            array = array[self.index]
        return array if self.axes is None else array.transpose(self.axes)

    def __str__(self) -> str:
        text = f"{self.dtype}[{', '.join(map(str, self.shape))}]"
        if self.index:
            text += f"[{', '.join(map(_index_text, self.index))}]"
        return text if self.axes is None else f"{text}.transpose{self.axes}"


def array(
    dtype: str, shape: Shape, index: Any = (), axes: tuple[int, ...] | None = None
) -> Operand:
    """Return an operand; `index` as `numpy.s_` gives it."""
    return Operand(dtype, shape, index if isinstance(index, tuple) else (index,), axes)


def transposed(dtype: str, shape: Shape) -> Operand:
    """Return the transpose of a C-ordered array of the reversed shape: its shape is `shape`."""
    return Operand(dtype, shape[::-1], (), tuple(reversed(range(len(shape)))))


def _index_text(entry: Any) -> str:
    if not isinstance(entry, slice):
        return str(entry)
    parts = ["" if part is None else str(part) for part in (entry.start, entry.stop, entry.step)]
    return ":".join(parts if entry.step is not None else parts[:2])


class Memory(Protocol):
    """What makes one-dimensional arrays on a device."""

    def random(self, dtype: str, count: int, seed: int) -> Any:
        """Return random elements."""

    def array(self, values: Any) -> Any:
        """Return the elements of a NumPy array."""

    def empty(self, dtype: str, count: int) -> Any:
        """Return undefined elements."""


class Pool:
    """Random data, made once for each dtype and position, of which operands are views.

    Making a gigabyte of random numbers takes longer than what is measured with it; the inputs of
    one call come from different positions, so they never share memory.
    """

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._bases: dict[tuple[str, int], Any] = {}

    def inputs(self, operands: Sequence[Operand], sets: int) -> list[tuple[Any, ...]]:
        """Return `sets` tuples of arrays, each on memory of its own."""
        steps = [_step(operand) for operand in operands]
        bases = [
            self._base(operand.dtype, position, sets * step)
            if operand.values is None
            else self._filled(operand, sets, step)
            for position, (operand, step) in enumerate(zip(operands, steps, strict=True))
        ]
        return [
            tuple(
                operand.view(base[number * step :])
                for operand, base, step in zip(operands, bases, steps, strict=True)
            )
            for number in range(sets)
        ]

    def _base(self, dtype: str, position: int, count: int) -> Any:
        base = self._bases.get((dtype, position))
        if base is None or base.shape[0] < count:
            self._bases.pop((dtype, position), None)
            base = self._memory.random(dtype, count, seed=position)
            self._bases[dtype, position] = base
        return base

    def _filled(self, operand: Operand, sets: int, step: int) -> Any:
        assert operand.values is not None
        one = np.zeros(step, operand.dtype)
        one[: operand.count] = operand.values(operand.shape).reshape(-1)
        return self._memory.array(np.tile(one, sets))


def _step(operand: Operand) -> int:
    """Return the elements from one set to the next, a multiple of the alignment."""
    return -(-operand.count // _ALIGNMENT) * _ALIGNMENT


Operands = Callable[[int], Sequence[Operand]]
