"""Arguments that are the same, or share memory with others that are written to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kspec.errors import FusionError
from kspec.fused.copies import copy
from kspec.runtime.interop import library_of
from kspec.runtime.views import ArrayView
from kspec.runtime.writing import share_memory


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
    """Return where the elements of those arguments are that are arrays, by position."""
    return {
        k: library.view(one)
        for k, one in enumerate(args)
        if (library := library_of(one)) is not None
    }


def meet(views: Mapping[int, ArrayView], written: Sequence[int]) -> bool:
    """Return whether an argument that is written to shares memory with another, or may."""
    bounds = {k: view.bounds for k, view in views.items()}
    return any(
        k != other and bounds[k][0] < high and low < bounds[k][1]
        for k in (written if len(bounds) > 1 else ())
        for other, (low, high) in bounds.items()
    )


def set_apart(
    args: tuple[Any, ...], written: Sequence[int], name: str, names: Sequence[str]
) -> tuple[Any, ...]:
    """Return the arguments with copies of those that overlap with others that are written to.

    `name` is that of the function, `names` those of its arguments, for messages.

    Raises
    ------
    FusionError
        If two that are written to overlap.
    """
    found = list(args)
    same = first_of_same(args)
    for position in written:
        target = library_of(args[position]).view(args[position])  # type: ignore[union-attr]
        for k, one in enumerate(args):
            library = library_of(one)
            if library is None or same[k] == same[position]:
                continue
            if share_memory(target, library.view(one)):
                if k in written:
                    raise FusionError(
                        f"{name}: arguments {names[position]} and {names[k]} are written to, and "
                        "overlap; pass copies"
                    )
                found[k] = copy(one)
    return tuple(found)
