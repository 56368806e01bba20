"""Segments over blocks of the first axis: bounds in, the bounds and pieces of each block out.

A segment is of the block in which it begins.  Where it goes on, the blocks that follow have further
pieces of it.

>>> first, second, third = cut_segments("total", np.array([0, 1, 5, 5]), (2, 2, 3))
>>> first.bounds, first.tail, first.followed_by
(array([0, 1, 2]), (1, 2), ((1, 2), (2, 1)))
>>> second.bounds, third.bounds, third.tail
(array([0]), array([1, 1]), None)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kspec.dataclass import dataclass
from kspec.errors import ArgumentTypeError, ShapeError
from kspec.runtime.libraries.lookup import asnumpy, library_of


@dataclass(frozen=True)
class SegmentCut:
    """The segments that begin in a block.

    Attributes
    ----------
    bounds : array of int64
        Where they begin and the last one ends, in elements of the block: its end at most.
    tail : tuple of (int, int) or None
        The elements of the last one, if it goes on in other blocks.
    followed_by : tuple of (int, int)
        The blocks in which it does, and how many of their first elements it has.
    """

    bounds: npt.NDArray[np.int64]
    tail: tuple[int, int] | None = None
    followed_by: tuple[tuple[int, int], ...] = ()

    @property
    def segments(self) -> int:
        """Number of segments."""
        return len(self.bounds) - 1


def host_bounds(kernel: str, indptr: Any) -> npt.NDArray[Any]:
    """Return the bounds of segments as an array of NumPy.

    Raises
    ------
    ArgumentTypeError
        If they are not an array.
    """
    if library_of(indptr) is None:
        raise ArgumentTypeError(
            f"{kernel}: indptr must be one array, of any library, with the bounds of all segments, "
            f"not {type(indptr).__name__}"
        )
    return asnumpy(indptr)


def cut_segments(kernel: str, indptr: npt.NDArray[Any], extents: Sequence[int]) -> list[SegmentCut]:
    """Return the segments of each block.

    Parameters
    ----------
    kernel : str
        Its name, for messages.
    indptr : array of integers
        Where segments begin, and the last one ends.
    extents : sequence of int
        Of the blocks along the first axis.

    Raises
    ------
    ShapeError
        If the bounds are not sorted, or not within the axis.
    """
    bounds = indptr.astype("int64")
    ends = np.cumsum(np.array(extents, "int64"))
    _check_bounds(kernel, bounds, int(ends[-1]))
    owners = np.minimum(np.searchsorted(ends, bounds[:-1], "right"), len(ends) - 1)
    found = []
    for block, extent in enumerate(extents):
        low, high = (int(np.searchsorted(owners, block, side)) for side in ("left", "right"))
        start = int(ends[block]) - extent
        if low == high:
            found.append(SegmentCut(np.zeros(1, "int64")))
            continue
        own = np.minimum(bounds[low : high + 1] - start, extent)
        stop = int(bounds[high])
        if stop <= ends[block]:
            found.append(SegmentCut(own))
            continue
        rest = range(block + 1, len(ends))
        counts = ((k, min(stop, int(ends[k])) - int(ends[k]) + extents[k]) for k in rest)
        follows = tuple((k, count) for k, count in counts if count > 0)
        found.append(SegmentCut(own, (int(own[-2]), extent), follows))
    return found


def _check_bounds(kernel: str, bounds: npt.NDArray[np.int64], extent: int) -> None:
    begin, end = bounds[:-1], bounds[1:]
    wrong = np.flatnonzero((begin < 0) | (end < begin) | (end > extent))
    if len(wrong):
        k = int(wrong[0])
        raise ShapeError(
            f"{kernel}: segment {k} goes from {begin[k]} to {end[k]}: indptr must be sorted, from "
            f"0 to {extent}"
        )
