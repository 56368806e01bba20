"""Elements that places beyond the ends of an axis stand for, by the boundary.

>>> import numpy as np
>>> places_inside(np.arange(-3, 6), 3, "mirror", np.where).tolist()
[1, 2, 1, 0, 1, 2, 1, 0, 1]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kspec.model.neighbours.windows import CONSTANT, MIRROR, NEAREST, REFLECT, WRAP


def places_inside(places: Any, extent: Any, boundary: str, where: Callable[..., Any]) -> Any:
    """Return the indices of the elements, as `scipy.ndimage` has them.

    Parameters
    ----------
    places : array of integers
        Places along an axis, of any library whose `where` is given.
    extent : int
        Number of elements of the axis.
    boundary : str
        Any but "valid". "constant" has those of "nearest"; their values are the caller's.
    where : callable
        ``numpy.where``, or that of the library.
    """
    if boundary in (NEAREST, CONSTANT) or not extent:
        return places.clip(0, max(extent - 1, 0))
    if boundary == WRAP:
        return places % extent
    if boundary == REFLECT:
        places = places % (2 * extent)
        return where(places < extent, places, 2 * extent - 1 - places)
    assert boundary == MIRROR
    places = places % max(2 * extent - 2, 1)
    return where(places < extent, places, 2 * extent - 2 - places)
