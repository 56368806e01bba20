"""Samples of elementwise kernels: raw inputs that the operation reads between their elements.

A declared `Sample` may list several boundaries; `bind_samples` takes one of them for a call.

>>> bind_samples("warp", (Sample("x", 1, ("nearest", "wrap"), axes=2),), boundary="wrap")
(BoundSample(param='x', boundary='wrap', value=0),)

Windowed inputs are sampled within their window, which has their boundary
(`kspec.model.neighbours.windows`).
"""

from __future__ import annotations

from collections.abc import Sequence

from kspec.dataclass import dataclass
from kspec.model.neighbours.windows import BOUNDARIES, VALID, Window, check_boundary

ORDERS = (0, 1, 3)
SAMPLE_BOUNDARIES = tuple(one for one in BOUNDARIES if one != VALID)


@dataclass(frozen=True)
class Sample:
    """Declared samples of a raw input.

    Attributes
    ----------
    param : str
        The input.
    order : int
        Order of the spline: 0, 1 or 3.
    boundaries : tuple of str
        Possible boundaries; the first one unless a call says otherwise.
    value : bool, int or float
        Elements outside where the boundary is "constant".
    axes : int
        Dimensions of the array.
    """

    param: str
    order: int
    boundaries: tuple[str, ...]
    value: bool | int | float = 0
    axes: int = 1


@dataclass(frozen=True)
class BoundSample:
    """The samples of an input in a call: one boundary."""

    param: str
    boundary: str
    value: bool | int | float = 0


def bind_samples(
    kernel: str,
    samples: Sequence[Sample],
    windows: Sequence[Window] = (),
    *,
    boundary: str | None = None,
) -> tuple[BoundSample, ...]:
    """Return the samples of a call.

    Parameters
    ----------
    kernel : str
        Its name, for messages.
    samples : sequence of Sample
        As declared.
    windows : sequence of Window
        Windows of the kernel, which have the same keyword argument.
    boundary : str, optional
        Boundary of all inputs that list it; default: the first one of each. An input that has no
        choice keeps its own.

    Raises
    ------
    ArgumentTypeError
        If an input with a choice does not list the boundary, or if no input does.
    """
    listed = [*(one.boundaries for one in samples), *(one.boundaries for one in windows)]
    known = any(boundary in one for one in listed)
    return tuple(
        BoundSample(one.param, _boundary(kernel, one, boundary, known), one.value)
        for one in samples
    )


def _boundary(kernel: str, sample: Sample, asked: str | None, known: bool) -> str:
    if asked is None or (known and len(sample.boundaries) == 1):
        return sample.boundaries[0]
    check_boundary(kernel, sample.param, sample.boundaries, asked)
    return asked
