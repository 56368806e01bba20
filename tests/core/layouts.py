"""Layouts of arrays in memory: the same values, with other strides and other starts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def _core_first(values: Array, core: int) -> Array:
    ndim = values.ndim
    order = (*range(ndim - core, ndim), *range(ndim - core))
    return np.ascontiguousarray(values.transpose(order)).transpose(*np.argsort(order))


def _reversed(values: Array, core: int) -> Array:
    return np.ascontiguousarray(np.flip(values))[(slice(None, None, -1),) * values.ndim]


def _items_reversed(values: Array, core: int) -> Array:
    axes = tuple(range(values.ndim - core))
    back = (slice(None, None, -1),) * len(axes)
    return np.ascontiguousarray(np.flip(values, axes))[back]


def _spread(values: Array, core: int) -> Array:
    """Every other element of a larger array, along each axis."""
    whole = np.full([2 * n for n in values.shape], values.flat[0] if values.size else 0).astype(
        values.dtype
    )
    view = whole[(slice(None, None, 2),) * values.ndim]
    view[...] = values
    return view


def _padded(values: Array, core: int) -> Array:
    """Contiguous items in rows that have more."""
    split = values.ndim - core
    whole = np.zeros((*values.shape[:split], 3, *values.shape[split:]), values.dtype)
    whole[(slice(None),) * split + (1,)] = values
    return whole[(slice(None),) * split + (1,)]


def _cut(values: Array, core: int) -> Array:
    """The last elements of longer rows."""
    whole = np.zeros((*values.shape[:-1], values.shape[-1] + 1), values.dtype)
    whole[..., 1:] = values
    return whole[..., 1:]


def shifted(values: Array, elements: int) -> Array:
    """A contiguous array that begins so many elements behind an aligned address."""
    memory = np.zeros(values.size + 64, values.dtype)
    start = -memory.ctypes.data % 64 // memory.itemsize + elements
    view = memory[start : start + values.size].reshape(values.shape)
    view[...] = values
    return view


LAYOUTS: dict[str, Callable[[Array, int], Array]] = {
    "contiguous": lambda values, core: shifted(values, 0),
    "behind": lambda values, core: shifted(values, 1),
    "core first": _core_first,
    "fortran": lambda values, core: np.asfortranarray(values),
    "reversed": _reversed,
    "items reversed": _items_reversed,
    "spread": _spread,
    "padded": _padded,
    "cut": _cut,
}
