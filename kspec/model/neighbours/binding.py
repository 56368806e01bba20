"""The neighbours that a call reads: what its keyword arguments make of a kernel's declaration.

>>> from kspec.model.neighbours.windows import Window
>>> from kspec.model.signature import Param, Signature
>>> blur = ElementwiseDeclaration(
...     "blur",
...     Signature((Param("T", "u"),)),
...     Signature((Param("T", "v"),)),
...     windows=(Window("u", (("R", "R"),), ("reflect", "wrap")),),
...     sizes=(("R", (1, 2)),),
... )
>>> bound = bind_neighbours(blur, "wrap", {"R": 2})
>>> (window,) = bound.windows
>>> window.reach, window.boundary, window.chosen
(((2, 2),), 'wrap', True)
>>> bound.sizes
(('R', 2),)
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from kspec.dataclass import dataclass
from kspec.model.declaration import ElementwiseDeclaration, GeneratedDeclaration
from kspec.model.neighbours.samples import BoundSample, bind_samples
from kspec.model.neighbours.windows import BoundSizes, BoundWindow, bind_windows


@dataclass(frozen=True)
class BoundNeighbours:
    """Windows and samples of a call, and the integer placeholders that it gives."""

    windows: tuple[BoundWindow, ...] = ()
    samples: tuple[BoundSample, ...] = ()
    sizes: BoundSizes = ()


def bind_neighbours(
    declaration: GeneratedDeclaration,
    boundary: str | None = None,
    sizes: Mapping[str, Any] = MappingProxyType({}),
) -> BoundNeighbours:
    """Return the windows, samples and integer placeholders of a call.

    Parameters
    ----------
    declaration : ElementwiseDeclaration or ReductionDeclaration
        The kernel. Reductions have none of them.
    boundary : str, optional
        Boundary of the inputs that list several.
    sizes : mapping of str to int or None
        Values of integer placeholders that arguments do not decide. One that is None was not given.

    Raises
    ------
    ArgumentTypeError, ShapeError
        As `bind_windows` and `bind_samples` do.
    """
    name = declaration.name
    if not isinstance(declaration, ElementwiseDeclaration):
        bind_windows(name, (), boundary=boundary, given=sizes)
        return BoundNeighbours()
    known = tuple(size for size, _ in declaration.given_sizes)
    windows = declaration.all_windows
    given = {one: value for one, value in sizes.items() if value is not None or one not in known}
    # Without windows, the boundary is for the samples only.
    outside = None if declaration.samples and not windows else boundary
    bound, values = bind_windows(
        name, windows, declaration.given_sizes, boundary=outside, given=given
    )
    samples = bind_samples(name, declaration.samples, windows, boundary=boundary)
    return BoundNeighbours(bound, samples, values)


def neighbours_of(
    declaration: GeneratedDeclaration, keywords: Mapping[str, Any]
) -> BoundNeighbours:
    """Return the neighbours of a call, given all of its keyword arguments."""
    sizes = declaration.shared_options(keywords)
    return bind_neighbours(declaration, sizes.pop("boundary", None), sizes)
