"""Windows in NumPy: SciPy's boundaries, and a correlation that can be read."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

BOUNDARIES = ("nearest", "reflect", "mirror", "wrap", "constant")
ALL = [*BOUNDARIES, "valid"]
_PADDED = {"nearest": "edge", "reflect": "symmetric", "mirror": "reflect"}

Array = npt.NDArray[Any]
Reach = Sequence[tuple[int, int]]


def integers(*shape: int, dtype: Any = "float64", seed: int = 0) -> Array:
    """Return whole numbers, whose sums are exact."""
    return np.random.default_rng(seed).integers(-9, 9, shape).astype(dtype)


def padded(array: Array, reach: Reach, boundary: str, value: Any = 0) -> Array:
    """Return an array padded as far as windows of its last axes reach."""
    widths = [(0, 0)] * (array.ndim - len(reach)) + list(reach)
    if boundary == "constant":
        return np.pad(array, widths, constant_values=value)
    mode: Any = _PADDED.get(boundary, boundary)
    return np.pad(array, widths, mode)


def neighbours(
    array: Array, reach: Reach, boundary: str, value: Any = 0
) -> dict[tuple[int, ...], Array]:
    """Return the shifted array of each offset: ``[-1, 0]`` has the elements one row above."""
    shape = array.shape[array.ndim - len(reach) :]
    if boundary == "valid":
        source = array
        shape = tuple(n - before - after for n, (before, after) in zip(shape, reach, strict=True))
    else:
        source = padded(array, reach, boundary, value)
    found = {}
    for offsets in itertools.product(*(range(-before, after + 1) for before, after in reach)):
        rows = zip(offsets, reach, shape, strict=True)
        where = tuple(slice(before + k, before + k + n) for k, (before, _), n in rows)
        found[offsets] = source[(..., *where)]
    return found


def correlate(array: Array, weights: Array, boundary: str, value: Any = 0) -> Array:
    """Return the sum of the neighbours by weights of odd extents, as SciPy's correlate does."""
    reach = [(n // 2, n // 2) for n in weights.shape]
    total = 0
    for offsets, shifted in neighbours(array, reach, boundary, value).items():
        place = tuple(k + n // 2 for k, n in zip(offsets, weights.shape, strict=True))
        total = total + weights[place] * shifted
    return np.asarray(total)
