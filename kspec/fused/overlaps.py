"""Arguments that are the same, or share memory with others that are written to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kspec.errors import FusionError
from kspec.fused.copies import copy
from kspec.runtime.interop import library_of


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


def meet(args: Sequence[Any], written: Sequence[int]) -> bool:
    """Return whether an argument that is written to shares memory with another, or may."""
    bounds = {
        k: library.view(one).bounds
        for k, one in enumerate(args)
        if (library := library_of(one)) is not None
    }
    return any(
        k != other and bounds[k][0] < high and low < bounds[k][1]
        for k in (written if len(bounds) > 1 else ())
        for other, (low, high) in bounds.items()
    )


def set_apart(args: tuple[Any, ...], written: Sequence[int]) -> tuple[Any, ...]:
    """Return the arguments with copies of those that overlap with others that are written to.

    Raises
    ------
    FusionError
        If two that are written to overlap.
    """
    found = list(args)
    same = first_of_same(args)
    for position in written:
        target = library_of(args[position]).view(args[position])  # type: ignore[union-attr]
        low, high = target.bounds
        for k, one in enumerate(args):
            library = library_of(one)
            if library is None or same[k] == same[position]:
                continue
            view = library.view(one)
            other_low, other_high = view.bounds
            if view.device == target.device and low < other_high and other_low < high:
                if k in written:
                    raise FusionError(
                        f"arguments {position} and {k} are written to, and overlap; pass copies"
                    )
                found[k] = copy(one)
    return tuple(found)
