"""Windows of a reduction's form: the axes along which they slide.

>>> bind_window("total", size=3, axis=(0, -1), boundary="nearest", step=(1, 2), ndim=2)[1]
SlidingAxis(axis=1, size=3, step=2, before=1)
"""

from __future__ import annotations

from kspec.dataclass import dataclass
from kspec.errors import ArgumentTypeError, ShapeError, counted
from kspec.model.neighbours.windows import MIRROR, NEAREST, REFLECT, VALID, WRAP
from kspec.model.shapes import integer, normalize_axes
from kspec.model.stages import MAX_AXES

# What lies beyond the ends of an axis, for windows: as for those of elementwise kernels, or
# nothing, so that windows have fewer elements there.
SHRINK = "shrink"
BOUNDARIES = (VALID, NEAREST, REFLECT, MIRROR, WRAP, SHRINK)


@dataclass(frozen=True)
class SlidingAxis:
    """One axis along which windows slide.

    Attributes
    ----------
    axis : int
        Its number.
    size : int
        Elements of a window along it.
    step : int
        From one window to the next.
    before : int
        Elements in front of the one that a window is at.
    """

    axis: int
    size: int
    step: int
    before: int


@dataclass(frozen=True)
class WindowPiece:
    """Some of the windows along an axis, on an array that has the elements they read.

    Attributes
    ----------
    axis : int
        The axis.
    first : int
        The element of the array that the first of them is at.
    count : int
        How many there are.
    """

    axis: int
    first: int
    count: int


def bind_window(
    kernel: str, size: object, axis: object, boundary: object, step: object, ndim: int
) -> tuple[SlidingAxis, ...]:
    """Return the axes along which the windows of a call slide, outermost first.

    Parameters
    ----------
    kernel : str
        Its name.
    size, axis, boundary, step : object
        As in the call: each but the boundary is an integer, or several.
    ndim : int
        Dimensions of the loop.

    Raises
    ------
    ArgumentTypeError
        If something is not an integer, or the boundary is unknown.
    ShapeError
        If a size or a step is not positive, or there are not as many of them as axes.
    numpy.exceptions.AxisError
        If an axis is out of range.
    """
    if boundary not in BOUNDARIES:
        raise ArgumentTypeError(
            f"{kernel}: boundary is {boundary!r}; expected one of {', '.join(BOUNDARIES)}"
        )
    sizes, axes, steps = (
        _integers(kernel, name, given)
        for name, given in (("size", size), ("axis", axis), ("step", step))
    )
    for name, given in (("size", sizes), ("step", steps)):
        if len(given) not in (1, len(axes)):
            raise ShapeError(
                f"{kernel}: {name} has {len(given)} numbers, and windows slide along "
                f"{counted(len(axes), 'axis')}"
            )
        if min(given) < 1:
            raise ShapeError(f"{kernel}: {name} must be 1 or more, not {min(given)}")
    if len(axes) > MAX_AXES:
        raise ShapeError(f"{kernel}: windows slide along {MAX_AXES} axes at most, not {len(axes)}")
    normal = [normalize_axes(one, ndim, kernel)[0] for one in axes]
    if len(set(normal)) != len(normal):
        raise ShapeError(f"{kernel}: an axis is given twice: {tuple(axes)}")
    sizes, steps = (one * (len(axes) // len(one)) for one in (sizes, steps))
    rows = sorted(zip(normal, sizes, steps, strict=True))
    centred = boundary != VALID
    return tuple(SlidingAxis(k, size, step, centred * (size // 2)) for k, size, step in rows)


def _integers(kernel: str, name: str, given: object) -> list[int]:
    several = given if isinstance(given, tuple | list) else [given]
    found = [one for one in map(integer, several) if one is not None]
    if len(found) != len(several) or not found:
        raise ArgumentTypeError(
            f"{kernel}: {name} must be an integer or a tuple of integers, not {given!r}"
        )
    return found
