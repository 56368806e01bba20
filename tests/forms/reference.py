"""Scans and segments in NumPy, one element after the other.

An accumulator is a tuple of arrays, a struct's members, and an operator takes two such tuples:
the elements before, and those that follow.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Values = tuple[Array, ...]
Operator = Callable[[Values, Values], Values]

DTYPES: dict[str, Any] = {
    **{
        name: np.dtype(name)
        for name in (
            *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
            *("float16", "float32", "float64", "complex64", "complex128"),
        )
    },
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
}
_HALVES = ("float16", "bfloat16")  # sums of these are single-precision


def integers(*shape: int, dtype: Any = "int64", seed: int = 0) -> Array:
    """Return whole numbers, whose sums are exact."""
    return np.random.default_rng(seed).integers(-9, 10, shape).astype(dtype)


def numbers(dtype: str, *shape: int, seed: int = 0) -> Array:
    """Return numbers of any dtype, which have no sign if it has none; few of them are not 0."""
    drawn = np.random.default_rng(seed).integers(0, 12, shape)
    values = np.where(drawn < 3, drawn, 0)
    if DTYPES[dtype].kind == "c":
        return (values + 1j * np.roll(values, 1)).astype(dtype)
    return values.astype(DTYPES[dtype])


def plus(a: Values, b: Values) -> Values:
    return tuple(one + other for one, other in zip(a, b, strict=True))


def scan(
    operator: Operator,
    values: Values,
    identity: Sequence[Any],
    *,
    axis: int = -1,
    exclusive: bool = False,
    reverse: bool = False,
) -> Values:
    """Return the accumulator of each element and those before it, or only of those before it."""
    rows = [np.moveaxis(one, axis, 0) for one in values]
    results = [np.empty_like(one) for one in rows]
    total = before = tuple(
        np.full((1, *one.shape[1:]), first, one.dtype)
        for one, first in zip(rows, identity, strict=True)
    )
    order = range(len(rows[0]))
    for number, k in enumerate(reversed(order) if reverse else order):
        element = tuple(one[k : k + 1] for one in rows)
        before, total = total, operator(total, element) if number else element
        for result, value in zip(results, before if exclusive else total, strict=True):
            result[k] = value[0]
    return tuple(np.moveaxis(result, 0, axis) for result in results)


def segments(
    operator: Operator, values: Values, identity: Sequence[Any], bounds: Sequence[int]
) -> Values:
    """Return the accumulators of the elements from each bound to the next, along the first axis."""
    shape = (len(bounds) - 1, *values[0].shape[1:])
    results = tuple(
        np.full(shape, first, one.dtype) for one, first in zip(values, identity, strict=True)
    )
    for k, (begin, end) in enumerate(itertools.pairwise(bounds)):
        if begin == end:
            continue
        total = tuple(one[begin : begin + 1] for one in values)
        for n in range(begin + 1, end):
            total = operator(total, tuple(one[n : n + 1] for one in values))
        for result, value in zip(results, total, strict=True):
            result[k] = value[0]
    return results


def by_key(
    operator: Operator, values: Values, identity: Sequence[Any], keys: Array, n: int
) -> tuple[Values, Array]:
    """Return the accumulators of the rows of each key, and how many rows each has."""
    order, counts = sorted_rows(keys, n)
    ends = np.concatenate([[0], np.cumsum(counts)])
    found = segments(operator, tuple(one[order] for one in values), identity, ends.tolist())
    return found, counts


def sorted_rows(keys: Array, n: int) -> tuple[Array, Array]:
    """Return the numbers of the rows with keys in range(n), key by key, and how many each has."""
    kept = np.array([k for k, key in enumerate(keys.tolist()) if 0 <= key < n], "int64")
    own = keys[kept].astype("int64")
    return kept[np.argsort(own, kind="stable")], np.bincount(own, minlength=n)


def sums_by_key(x: Array, keys: Array, n: int) -> Array:
    """Return the sums of keys, rounded as kernels do."""
    (total,), _ = by_key(plus, (_widened(x),), (0,), keys, n)
    return total.astype(x.dtype)


def scanned_sum(x: Array, **keywords: Any) -> Array:
    """Return the scan of a sum, rounded as kernels do: when it is written."""
    (total,) = scan(plus, (_widened(x),), (0,), **keywords)
    return total.astype(x.dtype)


def sums(x: Array, bounds: Sequence[int]) -> Array:
    """Return the sums of segments, rounded as kernels do."""
    (total,) = segments(plus, (_widened(x),), (0,), bounds)
    return total.astype(x.dtype)


def _widened(x: Array) -> Array:
    return x.astype("float32") if x.dtype.name in _HALVES else x


BOUNDS = ("short", "long", "empty", "one", "none", "mixed", "inside")


def bounds(extent: int, kind: str, seed: int = 0) -> Array:
    """Return sorted bounds of segments.

    Parameters
    ----------
    kind : str
        ``short``: of about 7 elements, ``long``: three of them, ``empty``: mostly empty,
        ``one``: of all elements, ``none``: no segment, ``mixed``: of all lengths, with many
        that are empty in one place, ``inside``: between elements that belong to no segment.
    """
    drawn = np.random.default_rng(seed)

    def some(count: int) -> Array:
        return drawn.integers(0, extent + 1, count)

    if kind == "one":
        return np.array([0, extent])
    if kind == "none":
        return np.array([extent // 2])
    if kind == "inside":
        low, high = extent // 5, extent - extent // 4
        found = [low, *drawn.integers(low, high + 1, extent // 30 + 2), high]
    elif kind == "mixed":
        often = np.full(300, extent // 3)
        found = [0, *some(extent // 50 + 1), *some(2), *often, extent]
    else:
        count = {"short": extent // 7, "long": 2, "empty": 3 * extent + 9}[kind]
        found = [0, *some(count), extent]
    return np.sort(np.array(found))
