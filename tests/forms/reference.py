"""Scans and segments in NumPy.

An accumulator is a tuple of arrays, a struct's members, and an operator takes two such tuples:
the elements before, and those that follow. Operators are associative, so stretches of elements are
joined side by side, each in order.
"""

from __future__ import annotations

import math
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
# Those that differ in the size of elements, in their accumulators, or in how they are converted.
FEW_DTYPES = ("bool", "int8", "uint16", "int64", "bfloat16", "float16", "float32", "complex128")
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
    rows = tuple(np.moveaxis(one, axis, 0)[:: -1 if reverse else 1] for one in values)
    results = []
    for row, total, first in zip(rows, _prefixes(operator, rows), identity, strict=True):
        result = np.empty_like(row)
        if exclusive:
            result[:1], result[1:] = first, total[:-1]
        else:
            result[...] = total
        results.append(np.moveaxis(result[:: -1 if reverse else 1], 0, axis))
    return tuple(results)


def _prefixes(operator: Operator, rows: Values) -> Values:
    """Return the accumulator of each row and those before it."""
    length = len(rows[0])
    width = max(4, math.isqrt(length))
    stretches = [tuple(one[::width] for one in rows)]  # so far: the first rows of all
    for k in range(1, min(width, length)):
        row = tuple(one[k::width] for one in rows)
        stretches.append(operator(_first(len(row[0]), stretches[-1]), row))
    if length > width:
        before = _prefixes(operator, stretches[-1])
        for k, first in enumerate(stretches):
            after = tuple(one[1:] for one in first)
            joined = operator(_first(len(after[0]), before), after)
            pairs = zip(first, joined, strict=True)
            stretches[k] = tuple(np.concatenate([one[:1], other]) for one, other in pairs)
    found = tuple(
        np.empty(one.shape, got.dtype) for one, got in zip(rows, stretches[-1], strict=True)
    )
    for k, stretch in enumerate(stretches):
        for one, other in zip(found, stretch, strict=True):
            one[k::width] = other
    return found


def _first(count: int, values: Values) -> Values:
    return tuple(one[:count] for one in values)


def segments(operator: Operator, values: Values, identity: Sequence[Any], bounds: Array) -> Values:
    """Return the accumulators of the elements from each bound to the next, along the first axis."""
    begins, extents = bounds[:-1], np.diff(bounds)
    results = []
    found = _folded(operator, values, begins[extents > 0], extents[extents > 0])
    for one, total, first in zip(values, found, identity, strict=True):
        result = np.full((len(extents), *one.shape[1:]), first, one.dtype)
        result[extents > 0] = total
        results.append(result)
    return tuple(results)


def _folded(operator: Operator, values: Values, begins: Array, extents: Array) -> Values:
    """Return the accumulators of segments that are not empty."""
    longest = int(extents.max(initial=1))
    if longest == 1:
        return tuple(one[begins] for one in values)
    width = max(4, math.isqrt(longest))
    counts = -(-extents // width)  # of stretches
    ends = np.cumsum(counts)
    place = width * (np.arange(counts.sum()) - np.repeat(ends - counts, counts))
    starts = np.repeat(begins, counts) + place
    lengths = np.minimum(width, np.repeat(extents, counts) - place)
    totals = tuple(one[starts] for one in values)
    for k in range(1, int(lengths.max())):
        (longer,) = np.nonzero(lengths > k)
        left = tuple(one[longer] for one in totals)
        joined = operator(left, tuple(one[starts[longer] + k] for one in values))
        for one, other in zip(totals, joined, strict=True):
            one[longer] = other
    return _folded(operator, totals, ends - counts, counts)


def by_key(
    operator: Operator, values: Values, identity: Sequence[Any], keys: Array, n: int
) -> tuple[Values, Array]:
    """Return the accumulators of the rows of each key, and how many rows each has."""
    order, counts = sorted_rows(keys, n)
    ends = np.concatenate([[0], np.cumsum(counts)])
    found = segments(operator, tuple(one[order] for one in values), identity, ends)
    return found, counts


def sorted_rows(keys: Array, n: int) -> tuple[Array, Array]:
    """Return the numbers of the rows with keys in range(n), key by key, and how many each has."""
    (kept,) = np.nonzero((keys >= 0) & (keys < n))
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


def sums(x: Array, bounds: Array | Sequence[int]) -> Array:
    """Return the sums of segments, rounded as kernels do."""
    (total,) = segments(plus, (_widened(x),), (0,), np.asarray(bounds, "int64"))
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
