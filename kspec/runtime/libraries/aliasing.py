"""Checks of arrays that a kernel writes to: not read-only, not overlapping with others.

An array may be input and output at once if it is the same elements in both places: each is read
before it is written.  Where elements meet others, the result would depend on which thread comes
first, so such calls are refused.  Raw parameters, whose elements the kernel itself chooses, and raw
kernels are left to their author.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kspec.dataclass import dataclass
from kspec.errors import ArgumentTypeError, OverlapError
from kspec.model import dtypes
from kspec.runtime.libraries.registry import Library
from kspec.runtime.memory import ArrayView

if TYPE_CHECKING:
    import numpy.typing as npt

_MOST_WORK = 100_000  # steps of NumPy's exact answer, which can take forever
_MOST_ELEMENTS = 1 << 20


@dataclass(frozen=True)
class Place:
    """An array of a call.

    Attributes
    ----------
    name : str
        Its name.
    view : ArrayView
        Its elements.
    written : bool
        Whether they are written to.
    windowed : bool
        Whether threads also read the elements around theirs.
    core : int
        Number of core dimensions: a thread has all elements along them.
    in_place : bool
        Whether a thread reads them where they are, and may have written to some of them before.
    """

    name: str
    view: ArrayView
    written: bool
    windowed: bool = False
    core: int = 0
    in_place: bool = False

    @property
    def may_coincide(self) -> bool:
        """Whether it may be the very elements that are written to: a thread reads no others."""
        return not self.written and not self.windowed and not self.in_place

    @property
    def elements(self) -> tuple[Any, ...]:
        """A key that is equal for the same elements, divided among threads in the same way."""
        inner = self.view.shape[len(self.view.shape) - self.core :]
        return *elements(self.view), sum(extent != 1 for extent in inner)


def check_writable(where: str, library: Library, view: ArrayView) -> None:
    """Raise `ArgumentTypeError` if an array that is written to is read-only."""
    if view.readonly:
        raise ArgumentTypeError(f"{where} is written to, but {library.read_only}")


def check_overlaps(kernel: str, places: Sequence[Place]) -> None:
    """Raise `OverlapError` if the result would depend on the order of threads.

    Parameters
    ----------
    kernel : str
        Its name, for the message.
    places : sequence of Place
        All arrays whose elements it takes one by one.
    """
    for number, target in enumerate(places):
        if not target.written or not target.view.size:
            continue
        if _meets_itself(target.view):
            raise OverlapError(
                f"{kernel}: argument {target.name} is written to, but several of its elements are "
                "the same memory; pass an array in which each has its own"
            )
        for position, other in enumerate(places):
            # If both are written to, the later one is compared with the earlier.
            if position == number or (other.written and position > number):
                continue
            if share_memory(target.view, other.view) and not _is_same(target, other):
                advice, reason = "the same view, or a copy", ""
                if other.written:
                    advice = "arrays of their own"
                elif other.windowed:
                    advice, reason = "a copy", ", whose elements other threads read"
                elif other.in_place:
                    advice, reason = "a copy", ", whose core dimensions are read in place"
                elif other.core != target.core:
                    advice, reason = "a copy", ", whose core dimensions other threads read"
                raise OverlapError(
                    f"{kernel}: argument {target.name} is written to, and its memory overlaps "
                    f"with that of argument {other.name}{reason}; pass {advice} for {target.name} "
                    f"or {other.name}"
                )


def _is_same(target: Place, other: Place) -> bool:
    return other.may_coincide and target.elements == other.elements


def elements(view: ArrayView) -> tuple[Any, ...]:
    """Return a key that is equal for views of the same elements in the same order."""
    steps = [step for step in zip(view.shape, view.strides, strict=True) if step[0] != 1]
    return view.device, view.ptr, dtypes.lookup(view.dtype).itemsize, tuple(steps)


def share_memory(one: ArrayView, other: ArrayView) -> bool:
    """Return whether two arrays share memory; True if that takes too long to find out."""
    (low, high), (other_low, other_high) = one.bounds, other.bounds
    if one.device != other.device or low >= other_high or other_low >= high:
        return False
    if one.is_c_contiguous and other.is_c_contiguous:
        return True
    try:
        work: Any = _MOST_WORK  # the annotation has two of its values only
        return np.shares_memory(_shadow(one), _shadow(other), max_work=work)
    except np.exceptions.TooHardError:
        return True


def _meets_itself(view: ArrayView) -> bool:
    """Return whether two elements of an array share memory; False if it has too many to tell."""
    reach = dtypes.lookup(view.dtype).itemsize
    apart = True
    for stride, extent in sorted(
        (abs(stride), extent)
        for extent, stride in zip(view.shape, view.strides, strict=True)
        if extent > 1
    ):
        if not stride:
            return True
        apart = apart and stride >= reach
        reach += stride * (extent - 1)
    if apart or math.prod(view.shape) > _MOST_ELEMENTS:
        return False
    starts = np.zeros((), np.int64)
    for extent, stride in zip(view.shape, view.strides, strict=True):
        starts = np.add.outer(starts, stride * np.arange(extent))
    gaps = np.diff(np.sort(starts, axis=None))
    return bool((gaps < dtypes.lookup(view.dtype).itemsize).any())


class _Shadow:
    """An array's layout for NumPy, which reads none of its elements."""

    def __init__(self, view: ArrayView) -> None:
        self.__array_interface__ = {
            "data": (view.ptr, True),
            "shape": view.shape,
            "strides": view.strides,
            "typestr": f"|V{dtypes.lookup(view.dtype).itemsize}",
            "version": 3,
        }


def _shadow(view: ArrayView) -> npt.NDArray[Any]:
    return np.asarray(_Shadow(view))


class MayOverlap(Exception):
    """Arrays of a repeated call are so close to each other that it must be checked in full."""


class Distance(NamedTuple):
    """Distances of two addresses at which two arrays of a repeated call overlap.

    Attributes
    ----------
    written, other : int
        Numbers of the operands.
    low, high : int
        It is between these.
    same : bool
        Whether none at all is fine: then they are the same elements.
    """

    written: int
    other: int
    low: int
    high: int
    same: bool


def distances(places: Sequence[Place | None]) -> tuple[Distance, ...]:
    """Return the distances to check when arrays like these come from elsewhere in memory."""
    found = []
    for number, target in enumerate(places):
        for position, other in enumerate(places):
            if target is None or other is None or not target.written or position == number:
                continue
            if other.written and position > number:
                continue
            (low, high), (other_low, other_high) = target.view.bounds, other.view.bounds
            same = other.may_coincide and target.elements[2:] == other.elements[2:]
            found.append(
                Distance(
                    number,
                    position,
                    low - target.view.ptr - (other_high - other.view.ptr),
                    high - target.view.ptr - (other_low - other.view.ptr),
                    same,
                )
            )
    return tuple(found)
