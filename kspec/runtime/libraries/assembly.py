"""Arrays assembled from parts of others, which may live on several devices.

>>> import numpy as np
>>> a, b = np.arange(4.0), np.arange(10.0, 18.0)
>>> assemble("x", (5,), [Part(a, (0,), ((2, 4),)), Part(b, (2,), ((0, 3),))], home=1)
array([ 2.,  3., 10., 11., 12.])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from kspec.errors import ArgumentTypeError
from kspec.model.shapes import Shape
from kspec.runtime.libraries.lookup import Library, library_of, view_of
from kspec.runtime.libraries.stream_order import after_launch
from kspec.runtime.memory.array_view import ArrayView
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
    libraries: list[Library] = []
    for part in parts:
        library = library_of(part.array)
        assert library is not None
        libraries.append(library)
    rows = zip(libraries, parts, strict=True)
    views = [view_of(where, library, part.array) for library, part in rows]
    others = [view.dtype for view in views if view.dtype != views[home].dtype]
    if others:
        raise ArgumentTypeError(
            f"Type is mismatched. {where} is {views[home].dtype} here, and {others[0]} in the part "
            "beside it"
        )
    library, device = libraries[home], views[home].device
    result = library.empty(shape, views[home].dtype, device)
    made = library_of(result)
    assert made is not None
    # Arrays of some libraries are made as kspec's own, and handed over when they are full.
    stream, whole = library.stream(device), made.view(result)
    for part, view, theirs in zip(parts, views, libraries, strict=True):
        source = _taken(view, part.taken) if part.taken else view
        stops = zip(part.place, source.shape, strict=True)
        into = _taken(whole, tuple((start, start + extent) for start, extent in stops))
        copy_elements(into, stream, source, theirs.stream(view.device))
    near = [
        (theirs, part.array if view.owner is None else view.owner)
        for part, view, theirs in zip(parts, views, libraries, strict=True)
        if view.device == device
    ]
    after_launch(device, stream, near, given=False)
    return library.finish(result, device, stream)


def _taken(view: ArrayView, taken: Sequence[tuple[int, int]]) -> ArrayView:
    """Return the view of some indices along each axis."""
    starts = zip(view.strides, taken, strict=True)
    ptr = view.ptr + sum(stride * start for stride, (start, _) in starts)
    return replace(view, ptr=ptr, shape=tuple(stop - start for start, stop in taken))
