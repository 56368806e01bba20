"""Windowed inputs in references: arrays that are called with offsets, as in the operation.

>>> u = WindowedArray.of(np.array([1, 2, 4]), BoundWindow("u", ((1, 1),), "wrap"))
>>> u(1)
array([2, 4, 1])

`tests/windows/reference.py` says the same in other words, and SciPy's ndimage agrees with it.
"""

from __future__ import annotations

import operator
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from kspec.model.neighbours.places import places_inside
from kspec.model.neighbours.windows import CONSTANT, VALID, BoundWindow

Array = npt.NDArray[Any]


class WindowedArray(np.ndarray[Any, Any]):
    """An array, and the arrays of its elements' neighbours."""

    window: BoundWindow | None = None

    @classmethod
    def of(cls, array: Array, window: BoundWindow) -> WindowedArray:
        """Return an array that can be called; views and results of it cannot."""
        found = np.asarray(array).view(cls)
        found.window = window
        return found

    def __call__(self, *offsets: SupportsIndex) -> Array:
        """Return the neighbours at offsets along the windowed axes, outermost first.

        Raises
        ------
        TypeError
            If this is not a windowed input itself, or there is not one offset for each axis.
        IndexError
            If an offset is outside of the reach.
        """
        window = self.window
        if window is None:
            raise TypeError("only the input itself is read at offsets, no view and no result of it")
        axes = len(window.reach)
        if len(offsets) != axes:
            raise TypeError(f"{window.param} needs {axes} offsets, not {len(offsets)}")
        found = np.asarray(self)
        for axis, (step, (before, after)) in enumerate(zip(offsets, window.reach, strict=True)):
            offset = operator.index(step)
            if not -before <= offset <= after:
                raise IndexError(
                    f"offset {offset} of {window.param} is outside its reach along axis {axis}, "
                    f"which is [-{before}, {after}]"
                )
            found = _shifted(found, axis - axes, offset, before, after, window)
        return found


def _shifted(
    array: Array, axis: int, offset: int, before: int, after: int, window: BoundWindow
) -> Array:
    """Return the neighbours along one axis."""
    extent = array.shape[axis]
    if window.boundary == VALID:
        return np.take(array, np.arange(before, extent - after) + offset, axis)
    places = np.arange(extent) + offset
    outside = (places < 0) | (places >= extent)
    found: Array = np.take(array, places_inside(places, extent, window.boundary, np.where), axis)
    if window.boundary == CONSTANT and outside.any():
        np.moveaxis(found, axis, -1)[..., outside] = window.value
    return found
