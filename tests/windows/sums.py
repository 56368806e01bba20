"""Sums of all neighbours, written layer by layer, each with a weight of its own."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import kspec
from tests.windows.reference import ALL, Array, neighbours

Sides = tuple[int, int]
# Reaches of two and of three axes: narrow, wide and skewed ones, of odd and even extents.
REACHES: list[tuple[Sides, ...]] = [
    ((1, 1), (2, 2)),
    ((3, 3), (3, 3)),
    ((0, 2), (3, 1)),
    ((5, 5), (1, 0)),
    ((1, 1), (1, 1), (1, 1)),
    ((2, 0), (1, 2), (0, 3)),
    ((2, 2), (2, 2), (2, 2)),
]
VALUE = 3
# How far apart the two boundaries are that each reach is tested with.
SHIFTS = (0, 3)


def boundary_of(number: int, shift: int) -> str:
    """Return a boundary to test a reach with, by its number: each has two, and all have some."""
    return ALL[(number + shift) % len(ALL)]


def offsets(reach: Sequence[Sides]) -> Iterator[tuple[int, ...]]:
    return itertools.product(*(range(-before, after + 1) for before, after in reach))


def weight(number: int) -> int:
    return number * 7 % 11 - 4


@functools.cache
def sum_of_layers(reach: tuple[Sides, ...], mark: str = "") -> kspec.ElementwiseKernel:
    """Return the kernel of a sum; its weights are whole, `mark` says of which type."""
    terms = (
        f"{weight(k)}{mark} * u({', '.join(map(str, one))})" for k, one in enumerate(offsets(reach))
    )
    return kspec.ElementwiseKernel(
        "T u",
        "T v",
        "v = " + " + ".join(terms),
        "layers_" + "_".join(f"{before}{after}" for before, after in reach),
        windows={"u": {"reach": [*map(list, reach)], "boundary": ALL, "value": VALUE}},
    )


def sum_in_numpy(u: Array, reach: Sequence[Sides], boundary: str) -> Any:
    near = neighbours(u, reach, boundary, VALUE)
    total = sum(weight(k) * near[one] for k, one in enumerate(offsets(reach)))
    return np.asarray(total).astype(u.dtype)
