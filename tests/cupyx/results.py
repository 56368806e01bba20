"""What calls return, as NumPy's arrays, and how two of them differ."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Leaves = dict[str, npt.NDArray[Any]]
# Sums in another order, and products that one compiler contracts: relative to the largest value.
TOLERANCE = {"e": 1e-2, "f": 1e-4, "d": 1e-9, "F": 1e-4, "D": 1e-9}


def leaves(value: Any, path: str = "") -> Leaves:
    """Return the arrays in a result, by where they are in it."""
    if hasattr(value, "tocoo"):  # a sparse matrix; the order of its entries counts for nothing
        return {f"{path}.{value.format}": _numpy(value.toarray())}
    if isinstance(value, dict):
        items = [(f"{path}[{key!r}]", one) for key, one in value.items()]
    elif isinstance(value, tuple | list):
        items = [(f"{path}[{number}]", one) for number, one in enumerate(value)]
    else:
        return {path: _numpy(value)}
    return {key: leaf for where, one in items for key, leaf in leaves(one, where).items()}


def _numpy(value: Any) -> npt.NDArray[Any]:
    array = np.asarray(value.get() if hasattr(value, "get") else value)
    if array.dtype == object:
        if not all(isinstance(one, list | np.ndarray) for one in array.flat):
            raise TypeError(f"a result is a {type(value).__name__}, which cannot be compared")
        return np.concatenate([[len(one), *one] for one in array.flat])  # lists of neighbours
    return array


def difference(expected: Leaves, found: Leaves) -> str | None:
    """Return the first difference of two results in words, or None."""
    if expected.keys() != found.keys():
        return f"returned {sorted(found)}, CuPy {sorted(expected)}"
    for path, one in expected.items():
        other = found[path]
        where = f"result{path}: " if path else ""
        if other.dtype != one.dtype:
            return f"{where}dtype {other.dtype}, CuPy {one.dtype}"
        if other.shape != one.shape:
            return f"{where}shape {other.shape}, CuPy {one.shape}"
        wrong = ~_close(one, other)
        if wrong.any():
            at = tuple(map(int, np.argwhere(wrong)[0]))
            return (
                f"{where}{int(wrong.sum())} of {one.size} values, first at {at}: "
                f"{other[at]}, CuPy {one[at]}"
            )
    return None


def _close(one: npt.NDArray[Any], other: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    if one.dtype.char not in TOLERANCE:
        return np.asarray(one == other)
    tolerance = TOLERANCE[one.dtype.char]
    finite = np.abs(one[np.isfinite(one)])
    largest = float(finite.max()) if finite.size else 0.0
    return np.isclose(other, one, tolerance, tolerance * min(largest, 1.0), equal_nan=True)
