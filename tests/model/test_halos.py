"""Halos: what blocks of a divided axis take from the blocks beside them, in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from kspec.model.neighbours.halos import pieces_of, thin_block
from tests.windows.reference import padded

BOUNDARIES = ["nearest", "reflect", "mirror", "wrap", "constant"]


def divided(extents: tuple[int, ...]) -> list[np.ndarray]:
    return np.split(np.arange(1, sum(extents) + 1), np.cumsum(extents)[:-1])


@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("reach", [(0, 0), (1, 1), (2, 0), (0, 3), (2, 3)])
@pytest.mark.parametrize("extents", [(1,), (9,), (4, 4), (4, 3, 4), (3, 9, 4), (5, 4)])
def test_pieces_know_all_that_their_windows_read(
    extents: tuple[int, ...], reach: tuple[int, int], boundary: str
) -> None:
    """A padded piece has the elements of the padded array that its block reaches."""
    assert thin_block(extents, reach, boundary) is None
    blocks = divided(extents)
    whole = padded(np.concatenate(blocks), [reach], boundary, -1)
    start = 0
    for number, piece in enumerate(pieces_of(len(blocks), reach, boundary)):
        left = blocks[number - 1][-piece.before :] if piece.before else blocks[0][:0]
        right = blocks[(number + 1) % len(blocks)][: piece.after]
        joined = np.concatenate([left, blocks[number], right])
        assert piece.margins == (len(left), len(right))
        around = padded(joined, [reach], boundary, -1)
        stop = start + extents[number]
        seen = around[piece.before : piece.before + extents[number] + sum(reach)]
        np.testing.assert_array_equal(seen, whole[start : stop + sum(reach)])
        start = stop


def test_valid_pieces_have_margins_at_the_ends() -> None:
    first, middle, last = pieces_of(3, (2, 1), "valid")
    assert (first.before, first.after, first.margins) == (0, 1, (2, 1))
    assert (middle.before, middle.after, middle.margins) == (2, 1, (2, 1))
    assert (last.before, last.after, last.margins) == (2, 0, (2, 1))
    (only,) = pieces_of(1, (2, 1), "valid")
    assert (only.before, only.after, only.margins) == (0, 0, (2, 1))


@pytest.mark.parametrize(
    ("extents", "reach", "boundary", "expected"),
    [
        ((1,), (5, 5), "wrap", None),
        ((4, 1), (2, 1), "nearest", None),
        ((4, 1), (2, 1), "wrap", (1, 2)),
        ((1, 4), (2, 1), "nearest", (0, 2)),
        ((4, 1, 4), (1, 2), "constant", (1, 2)),
        ((2, 4), (2, 0), "reflect", None),
        ((2, 4), (2, 0), "mirror", (0, 3)),
        ((2, 4), (2, 1), "mirror", None),
        ((4, 2), (0, 2), "mirror", (1, 3)),
        ((4, 0, 4), (0, 0), "valid", None),
    ],
)
def test_thin_blocks(
    extents: tuple[int, ...],
    reach: tuple[int, int],
    boundary: str,
    expected: tuple[int, int] | None,
) -> None:
    assert thin_block(extents, reach, boundary) == expected
