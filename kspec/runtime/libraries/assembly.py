"""Arrays assembled from parts of others, which may live on several devices.

>>> import numpy as np
>>> a, b = np.arange(4.0), np.arange(10.0, 18.0)
>>> assemble("x", (5,), [Part(a, (0,), ((2, 4),)), Part(b, (2,), ((0, 3),))], home=1)
array([ 2.,  3., 10., 11., 12.])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from kspec.dataclass import dataclass
from kspec.errors import ArgumentTypeError
from kspec.model.shapes import Shape
from kspec.runtime.libraries.lookup import Library, library_of, view_of
from kspec.runtime.libraries.stream_order import after_launch
from kspec.runtime.memory import ArrayView
from kspec.runtime.memory.copy import copy_elements


@dataclass(frozen=True)
class Part:
    """Elements of an array, and where they belong.

    Attributes
    ----------
    array : array
        Of any library.
    place : tuple of int
        Index of their first one in the result.
    taken : tuple of (int, int)
        First index and the one behind the last, along each axis of `array`; empty: all of it.
    """

    array: Any
    place: tuple[int, ...]
    taken: tuple[tuple[int, int], ...] = ()


def assemble(where: str, shape: Shape, parts: Sequence[Part], home: int) -> Any:
    """Return a new array of the library and on the device of one of the parts.

    Parameters and errors are those of `Assembly`.
    """
    assembly = Assembly(where, shape, parts, home)
    assembly.borrow()
    return assembly.finish()


class Assembly:
    """An array that is being assembled.

    What several arrays lend each other is copied before any of them is finished, so that no device
    waits for more than that.

    Parameters
    ----------
    where : str
        Its name in messages.
    shape : tuple of int
        Extents of the result.
    parts : sequence of Part
        All its elements, of one dtype.
    home : int
        Number of the part that the result is like.

    Raises
    ------
    ArgumentTypeError
        If a part has another dtype than the result, or elements that kernels cannot read.
    """

    def __init__(self, where: str, shape: Shape, parts: Sequence[Part], home: int) -> None:
        self._parts = [_Source.of(where, part) for part in parts]
        self._home = first = self._parts[home]
        other = next((one for one in self._parts if one.view.dtype != first.view.dtype), None)
        if other is not None:
            raise ArgumentTypeError(
                f"Type is mismatched. {where} is {first.view.dtype} here, and {other.view.dtype} "
                "in the part beside it"
            )
        self._device = first.view.device
        self._stream = first.library.stream(self._device)
        self._result = first.library.empty(shape, first.view.dtype, self._device)
        # Arrays of some libraries are made as kspec's own, and handed over when they are full.
        made = library_of(self._result)
        assert made is not None
        self._whole = made.view(self._result)

    def borrow(self) -> None:
        """Copy all parts but the one at home."""
        for part in self._parts:
            if part is not self._home:
                self._copy(part)

    def finish(self) -> Any:
        """Copy the part at home, and return the array."""
        self._copy(self._home)
        return self._home.library.finish(self._result, self._device, self._stream)

    def _copy(self, part: _Source) -> None:
        stops = zip(part.place, part.view.shape, strict=True)
        into = _taken(self._whole, [(start, start + extent) for start, extent in stops])
        device = part.view.device
        copy_elements(into, self._stream, part.view, part.library.stream(device))
        if device == self._device:
            after_launch(device, self._stream, [(part.library, part.owner)], given=False)


@dataclass(frozen=True)
class _Source:
    """A part as the runtime sees it."""

    view: ArrayView
    library: Library
    owner: Any
    place: tuple[int, ...]

    @staticmethod
    def of(where: str, part: Part) -> _Source:
        library = library_of(part.array)
        assert library is not None
        view = view_of(where, library, part.array)
        owner = part.array if view.owner is None else view.owner
        taken = _taken(view, part.taken) if part.taken else view
        return _Source(taken, library, owner, part.place)


def _taken(view: ArrayView, taken: Sequence[tuple[int, int]]) -> ArrayView:
    """Return the view of some indices along each axis."""
    starts = zip(view.strides, taken, strict=True)
    ptr = view.ptr + sum(stride * start for stride, (start, _) in starts)
    return replace(view, ptr=ptr, shape=tuple(stop - start for start, stop in taken))
