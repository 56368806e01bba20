"""Indices of proxies: what a user writes in brackets, as one entry for each axis."""

from __future__ import annotations

from typing import Any, SupportsIndex

import numpy as np

from kspec.errors import FusionIndexError
from kspec.fusion.graph import Node, is_number
from kspec.fusion.refusals import refuse, refuse_unknown
from kspec.fusion.view_ops import Index


def full_index(key: Any, value: Node) -> Index:
    """Return a basic index with an entry for each axis.

    Raises
    ------
    IndexError
        If it is not a basic index, or out of bounds.
    """
    entries = key if isinstance(key, tuple) else (key,)
    if sum(entry is Ellipsis for entry in entries) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    taken = sum(entry is not None and entry is not Ellipsis for entry in entries)
    ndim = len(value.shape)
    if taken > ndim:
        raise IndexError(f"too many indices: the array has {ndim} axes, {taken} were given")
    if not any(entry is Ellipsis for entry in entries):
        entries = (*entries, Ellipsis)
    found: list[int | slice | None] = []
    axis = 0
    for entry in entries:
        if entry is None:
            found.append(None)
        elif entry is Ellipsis:
            found += [slice(None)] * (ndim - taken)
            axis += ndim - taken
        elif isinstance(entry, slice):
            found.append(_normalised(entry, value.shape[axis].size))
            axis += 1
        else:
            found.append(_position(entry, axis, value.shape[axis].size))
            axis += 1
    return tuple(found)


def inverse_of(index: Index, value: Node) -> Index | None:
    """Return the index that undoes another one; None if that leaves elements out."""
    sizes = iter(value.sizes)
    found: list[int | slice | None] = []
    for entry in index:
        if entry is None:
            found.append(0)
            continue
        size = next(sizes)
        count = len(range(*entry.indices(size))) if isinstance(entry, slice) else 1
        if count != size:
            return None
        found.append(entry if isinstance(entry, slice) else None)
    return tuple(found)


def _normalised(entry: slice, size: int) -> slice:
    start, stop, step = entry.indices(size)
    if start < 0:  # backwards from in front of all elements: an index of -1 would be the last
        return slice(0, 0, 1)
    if (start, stop, step) == (0, size, 1) and entry.start in (None, 0) and entry.stop is None:
        return slice(None)
    if step == -1 and entry.start is None and entry.stop is None:
        return slice(None, None, -1)
    return slice(start, None if stop < 0 else stop, step)


def _position(entry: Any, axis: int, size: int) -> int:
    many = hasattr(entry, "shape") and not isinstance(entry, np.integer)
    if isinstance(entry, bool) or many or not isinstance(entry, SupportsIndex):
        traced = getattr(entry, "value", None)
        if isinstance(traced, Node) and is_number(traced):
            refuse_unknown("an index", FusionIndexError)
        kind = "an array" if hasattr(entry, "shape") else repr(entry)
        refuse(
            f"{kind} as an index is not fused: integers, slices, None and ... are; write "
            "np.take(x, indices, axis=0, mode='clip') for integers, np.where for truth values",
            FusionIndexError,
        )
    number = int(entry.__index__())
    if not -size <= number < size:
        raise IndexError(f"index {number} is out of bounds for axis {axis} with size {size}")
    return number
