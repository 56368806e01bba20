"""Which combinations of parameters `make test` runs: every value with every value of each other.

A test of three or more parametrizations has as many items as the product of their lengths. Nearly
all faults depend on one or two of the values, so the profile ``fast`` keeps as few items as hold
all pairs; ``ci`` and ``thorough`` run the whole product.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import combinations
from typing import TypeVar

import pytest

Combination = TypeVar("Combination", bound=Sequence[str])


def in_pairs(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Return the items that are to run, in their order."""
    functions: dict[str, dict[tuple[str, ...], pytest.Item]] = defaultdict(dict)
    for item in items:
        spec = getattr(item, "callspec", None)
        # One name for each parametrization, of however many arguments it is.
        functions[item.nodeid.partition("[")[0]][tuple(spec._idlist if spec else ())] = item
    kept = {
        function[one].nodeid for function in functions.values() for one in pairwise([*function])
    }
    return [item for item in items if item.nodeid in kept]


def pairwise(rows: Sequence[Combination]) -> list[Combination]:
    """Return a few of `rows` that hold every pair of values, of any two columns, that `rows` hold.

    >>> pairwise(["acx", "acy", "adx", "ady", "bcx", "bcy", "bdx", "bdy"])
    ['acx', 'ady', 'bcy', 'bdx']
    """
    if max(map(len, rows), default=0) < 3:
        return [*rows]
    left = {row: {*combinations(enumerate(row), 2)} for row in rows}
    kept = []
    while left:
        best = max(left, key=lambda row: len(left[row]))
        kept.append(best)
        held = left.pop(best)
        left = {row: missing for row, pairs in left.items() if (missing := pairs - held)}
    return sorted(kept, key=rows.index)
