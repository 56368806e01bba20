"""Which combinations of parameters `make test` runs: every value of each parametrization.

A test of several parametrizations has as many items as the product of their lengths. Most faults
depend on one value, so the profile ``fast`` keeps as few items as hold each of them once; ``ci``
and ``thorough`` run the whole product.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TypeVar

import pytest

Combination = TypeVar("Combination", bound=Sequence[str])


def few_of(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Return the items that are to run, in their order."""
    functions: dict[str, dict[tuple[str, ...], pytest.Item]] = defaultdict(dict)
    for item in items:
        spec = getattr(item, "callspec", None)
        # One name for each parametrization, of however many arguments it is.
        functions[item.nodeid.partition("[")[0]][tuple(spec._idlist if spec else ())] = item
    kept = {
        function[one].nodeid for function in functions.values() for one in each_value([*function])
    }
    return [item for item in items if item.nodeid in kept]


def each_value(rows: Sequence[Combination]) -> list[Combination]:
    """Return a few of `rows` that hold every value of every column.

    >>> each_value(["ac", "ad", "ae", "bc", "bd", "be"])
    ['ac', 'bd', 'ae']
    """
    if max(map(len, rows), default=0) < 2:
        return [*rows]
    missing = {(place, value) for row in rows for place, value in enumerate(row)}
    kept: list[Combination] = []
    while missing:
        best = max(rows, key=lambda row: len(missing & {*enumerate(row)}))
        kept.append(best)
        missing -= {*enumerate(best)}
    return kept
