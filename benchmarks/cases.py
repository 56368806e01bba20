"""What is measured: one row per kernel and shape, the same work in every library.

A `Case` makes its arguments with an array module (`numpy` or `cupy`) and names the kernel as
each library spells it; `benchmarks.__main__` times them side by side and checks the results.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import kspec

SQUARED_DIFF = ("T x, T y", "T z", "z = (x - y) * (x - y)", "squared_diff")
L2NORM = ("T x", "T y", "x * x", "a + b", "y = sqrt(a)", "0", "l2norm")

squared_diff = kspec.ElementwiseKernel(*SQUARED_DIFF)
l2norm = kspec.ReductionKernel(*L2NORM)


@dataclass(frozen=True)
class Case:
    """One measurement.

    Attributes
    ----------
    name : str
        What is computed, on which shape.
    shapes : tuple of shapes
        Of the inputs, float32.
    run : callable
        The kernel of kspec: ``run(*inputs)``.
    array_module : callable
        The same with an array module: ``array_module(xp, *inputs)``.
    bytes_moved : int
        Each input read once, each output written once.
    """

    name: str
    shapes: tuple[tuple[int, ...], ...]
    run: Callable[..., Any]
    array_module: Callable[..., Any]
    bytes_moved: int


def _difference(xp: Any, x: Any, y: Any) -> Any:
    return xp.square(x - y)


def _norm(axis: int | None) -> Callable[..., Any]:
    return lambda xp, x: xp.sqrt((x * x).sum(axis=axis))


def cases(elements: int) -> list[Case]:
    """Return the cases for about `elements` elements, a square number."""
    side = round(elements**0.5)
    n, square = side * side, (side, side)
    return [
        Case("squared_diff, contiguous", ((n,), (n,)), squared_diff, _difference, 12 * n),
        Case("squared_diff, row broadcast", (square, (side,)), squared_diff, _difference, 8 * n),
        Case("l2norm, full", ((n,),), l2norm, _norm(None), 4 * n),
        Case("l2norm, axis 1", (square,), lambda x: l2norm(x, axis=1), _norm(1), 4 * n),
        Case("l2norm, axis 0", (square,), lambda x: l2norm(x, axis=0), _norm(0), 4 * n),
        Case("squared_diff, 1000 elements", ((1000,), (1000,)), squared_diff, _difference, 12000),
        Case("l2norm, 1000 elements", ((1000,),), l2norm, _norm(None), 4000),
    ]
