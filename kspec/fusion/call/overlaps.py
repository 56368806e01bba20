"""Arguments that are the same, or share memory with others that are written to."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from kspec.runtime.libraries.aliasing import share_memory
from kspec.runtime.libraries.lookup import library_of
from kspec.runtime.memory import ArrayView

Overlaps = tuple[tuple[int, int], ...]


def first_of_same(args: Sequence[Any]) -> tuple[int, ...]:
    """Return for each argument the first one that has the same elements in memory."""
    first: dict[object, int] = {}
    found: list[int] = []
    for k, one in enumerate(args):
        library = library_of(one)
        view = None if library is None else library.view(one)
        key = k if view is None else (view.ptr, view.dtype, view.shape, view.strides, view.device)
        found.append(first.setdefault(key, k))
    return tuple(found)


def views_of(args: Sequence[Any]) -> dict[int, ArrayView]:
    """Return the views of the arguments that are arrays, by position."""
    return {
        k: library.view(one)
        for k, one in enumerate(args)
        if (library := library_of(one)) is not None
    }


def may_overlap(views: Mapping[int, ArrayView], written: Sequence[int]) -> bool:
    """Return whether an argument that is written to shares memory with another, or may."""
    bounds = {k: view.bounds for k, view in views.items()}
    return any(
        k != other and bounds[k][0] < high and low < bounds[k][1]
        for k in (written if len(bounds) > 1 else ())
        for other, (low, high) in bounds.items()
    )


def overlapping(args: Sequence[Any], same: Sequence[int]) -> Overlaps:
    """Return the pairs of arguments that share memory, though not as the same elements.

    If several are the same elements (`same`, as `first_of_same` finds them), the first stands
    for all.
    """
    views = {k: view for k, view in views_of(args).items() if same[k] == k}
    pairs = itertools.combinations(views, 2)
    return tuple((k, other) for k, other in pairs if share_memory(views[k], views[other]))
