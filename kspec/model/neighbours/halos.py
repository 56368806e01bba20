"""Halos: elements that blocks of a divided axis take from the blocks beside them.

A block is computed from a *piece*: the end of the block before it, the block itself, and the
beginning of the next one.  Only the ends of the whole axis see the boundary.

>>> [(one.before, one.after) for one in pieces_of(3, (2, 1), "nearest")]
[(0, 1), (2, 1), (2, 0)]
>>> thin_block((4, 1, 4), (2, 1), "nearest")
(1, 2)
"""

from __future__ import annotations

from collections.abc import Sequence

from kspec.dataclass import dataclass
from kspec.model.neighbours.windows import MIRROR, VALID, WRAP


@dataclass(frozen=True)
class Piece:
    """The elements along an axis that a block is computed from.

    Attributes
    ----------
    before, after : int
        Elements of the blocks before and after it.
    margins : tuple of (int, int)
        Elements at either end that have no result in this block.
    """

    before: int
    after: int
    margins: tuple[int, int]


def pieces_of(count: int, reach: tuple[int, int], boundary: str) -> tuple[Piece, ...]:
    """Return the piece of each of `count` blocks along an axis."""
    around = count > 1 and boundary == WRAP
    found = []
    for number in range(count):
        before = reach[0] if number > 0 or around else 0
        after = reach[1] if number < count - 1 or around else 0
        margins = reach if boundary == VALID else (before, after)
        found.append(Piece(before, after, margins))
    return tuple(found)


def thin_block(
    extents: Sequence[int], reach: tuple[int, int], boundary: str
) -> tuple[int, int] | None:
    """Return the number of the first block that is too thin, and its least extent.

    None if the blocks, of these extents, are thick enough for the ones beside them to take their
    halos from one block, and for the boundary to find what it repeats.
    """
    if len(extents) == 1 or reach == (0, 0):
        return None
    before, after = reach
    around, last = boundary == WRAP, len(extents) - 1
    for number, extent in enumerate(extents):
        needed = max(before if number < last or around else 0, after if number > 0 or around else 0)
        if boundary == MIRROR:  # which does not repeat the first and the last element
            if number == 0:
                needed = max(needed, before + 1 - after)
            if number == last:
                needed = max(needed, after + 1 - before)
        if extent < needed:
            return number, needed
    return None
