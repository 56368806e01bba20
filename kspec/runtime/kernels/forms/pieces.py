"""Windows of a reduction over an axis that is divided into blocks: which windows each block has.

A block has the windows that are at its elements, so each is made once, and it takes the elements
that they read of the blocks beside it (`kspec.model.neighbours.halos`).

>>> sliding = SlidingAxis(axis=0, size=3, step=2, before=0)
>>> [(piece.after, windows.first, windows.count)
...  for piece, windows in divide_windows((4, 3, 4), sliding, "valid")]
[(2, 0, 2), (2, 0, 2), (0, 1, 1)]
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from kspec.model.forms.sliding import SlidingAxis, WindowPiece
from kspec.model.neighbours.halos import Piece, pieces_of
from kspec.model.neighbours.windows import VALID


def reach_of(sliding: SlidingAxis) -> tuple[int, int]:
    """Return the numbers of elements before and after its own that a window reads."""
    return sliding.before, sliding.size - 1 - sliding.before


def divide_windows(
    extents: Sequence[int], sliding: SlidingAxis, boundary: str
) -> list[tuple[Piece, WindowPiece]]:
    """Return the elements that each block is computed from, and its windows among these.

    Parameters
    ----------
    extents : sequence of int
        Of the blocks.
    sliding : SlidingAxis
        The windows along the axis.
    boundary : str
        What lies beyond the ends of the axis.
    """
    pieces = pieces_of(len(extents), reach_of(sliding), boundary)
    *starts, extent = itertools.accumulate(extents, initial=0)
    end = extent - sliding.size + 1 if boundary == VALID else extent
    found = []
    for start, own, piece in zip(starts, extents, pieces, strict=True):
        number = -(-start // sliding.step)  # of its first window
        behind = -(-min(start + own, end) // sliding.step)
        first = number * sliding.step - start + piece.before
        windows = WindowPiece(sliding.axis, first, max(0, behind - number))
        found.append((piece, windows))
    return found
