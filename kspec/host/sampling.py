"""The blocks of a grid that a review looks at: some runs of neighbours, which share sectors.

>>> sampled_runs(blocks=10, warps=8)
[(0, 10)]
>>> sampled_runs(blocks=100_000, warps=8)
[(12492, 12508), (37492, 37508), (62492, 62508), (87492, 87508)]

Where blocks do much, a run ends early: see `EVENTS`.
"""

from __future__ import annotations

EVENTS = 1 << 20  # accesses and basic blocks of threads that are kept, besides those of one block

_WARPS = 512  # that are looked at, in blocks of any size,
_BLOCKS = 16  # but not fewer than so many blocks
_RUNS = 4

Range = tuple[int, int]


def sampled_runs(blocks: int, warps: int) -> list[Range]:
    """Return first blocks of runs, and those behind their last, for blocks of so many warps."""
    wanted = max(_BLOCKS, _WARPS // warps)
    if blocks <= wanted:
        return [(0, blocks)]
    # In the middle of equal parts: blocks at the edge of a grid are few, and often do less.
    length = wanted // _RUNS
    firsts = [(2 * k + 1) * blocks // (2 * _RUNS) - length // 2 for k in range(_RUNS)]
    return [(first, first + length) for first in firsts]


def parts(blocks: int, runs: list[Range]) -> list[tuple[int, int, int]]:
    """Return all blocks as ranges in order, each with the number of its run, 0 between runs."""
    found = []
    at = 0
    for number, (first, last) in enumerate(runs, start=1):
        if at < first:
            found.append((at, first, 0))
        found.append((first, last, number))
        at = last
    return [*found, (at, blocks, 0)] if at < blocks else found
