"""Windows of elementwise kernels: the neighbours of an element that the operation reads.

A declared `Window` may name integer placeholders; `bind_windows` makes numbers of them for a call.

>>> blur = Window("u", ((1, 1), ("R", "R")), ("reflect", "wrap"))
>>> (bound,), sizes = bind_windows("blur", (blur,), (("R", (1, 2)),), given={"R": 2})
>>> bound.reach, bound.boundary, sizes
(((1, 1), (2, 2)), 'reflect', (('R', 2),))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from kspec.dataclass import dataclass
from kspec.errors import ArgumentTypeError, ShapeError, counted
from kspec.model.shapes import integer

# Boundaries as in SciPy's ndimage, and "valid", with a smaller result and nothing outside. Their
# order is that of ``kspec/boundary.cuh``.
NEAREST, REFLECT, MIRROR, WRAP, CONSTANT, VALID = (
    "nearest",
    "reflect",
    "mirror",
    "wrap",
    "constant",
    "valid",
)
BOUNDARIES = (NEAREST, REFLECT, MIRROR, WRAP, CONSTANT, VALID)
MAX_SIZE = 2**31 - 1  # of an integer placeholder

Reach = tuple[tuple[int | str, int | str], ...]
# Integer placeholders of a kernel, each with the values that are precompiled.
Sizes = tuple[tuple[str, tuple[int, ...]], ...]
BoundSizes = tuple[tuple[str, int], ...]
NO_SIZES: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class Window:
    """Declared window of an input.

    Attributes
    ----------
    param : str
        The input.
    reach : tuple of (int or str, int or str)
        Elements before and after, along each of the last axes; names are integer placeholders.
    boundaries : tuple of str
        Possible boundaries; the first one unless a call says otherwise.
    value : bool, int or float
        Elements outside where the boundary is "constant".
    computed : bool
        Whether the operation computes some of its offsets.
    layered : bool
        Whether the operation is a sum that reads it layer by layer along its first axis.
    """

    param: str
    reach: Reach
    boundaries: tuple[str, ...]
    value: bool | int | float = 0
    computed: bool = False
    layered: bool = False

    @property
    def axes(self) -> int:
        """Number of windowed axes."""
        return len(self.reach)

    @property
    def ranges(self) -> tuple[str, ...]:
        """The offsets along each of the axes, for people.

        >>> Window("u", ((1, 2), (0, "R")), ("wrap",)).ranges
        ('-1 to 2', '0 to R')
        """
        return tuple(f"{f'-{before}' if before else 0} to {after}" for before, after in self.reach)

    def __str__(self) -> str:
        return f"{self.param}({', '.join(self.ranges)}; {', '.join(self.boundaries)})"


@dataclass(frozen=True)
class BoundWindow:
    """The window of an input in a call: numbers, and one boundary.

    Attributes
    ----------
    param, reach, boundary, value, layered
        As in `Window`.
    halos : tuple of (int, int), optional
        Elements at both ends of each windowed axis that are only neighbours of others; default:
        none, and the reach if the boundary is "valid".
    chosen : bool
        Whether the boundary is another one than the first that is declared.
    """

    param: str
    reach: tuple[tuple[int, int], ...]
    boundary: str
    value: bool | int | float = 0
    halos: tuple[tuple[int, int], ...] | None = None
    chosen: bool = False
    layered: bool = False

    @property
    def margins(self) -> tuple[tuple[int, int], ...]:
        """Numbers of elements without a result, before and after the others, along each axis."""
        if self.halos is not None:
            return self.halos
        return self.reach if self.boundary == VALID else ((0, 0),) * len(self.reach)

    def shape_inside(self, shape: Sequence[Any]) -> tuple[Any, ...]:
        """Return the shape of the elements that a call has a result for, given the array's.

        Raises
        ------
        ShapeError
            If the array has too few axes, or too few elements for a "valid" result.
        """
        axes = len(self.reach)
        if len(shape) < axes:
            raise ShapeError(
                f"argument {self.param} has {counted(len(shape), 'dimension')}, and its window "
                f"{axes}"
            )
        if not any(map(any, self.margins)):
            return tuple(shape)
        split = len(shape) - axes
        inside = []
        for extent, (before, after) in zip(shape[split:], self.margins, strict=True):
            if isinstance(extent, int) and extent < before + after:
                raise ShapeError(
                    f"argument {self.param} has shape {tuple(shape)}, which leaves nothing for "
                    f"boundary 'valid': its window takes {before + after} elements from an axis "
                    f"of {extent}"
                )
            inside.append(extent - before - after)
        return (*shape[:split], *inside)

    def shape_outside(self, shape: Sequence[Any]) -> tuple[Any, ...]:
        """Return the shape of an array, given that of the elements that a call has a result for."""
        if not any(map(any, self.margins)):
            return tuple(shape)
        split = len(shape) - len(self.reach)
        rows = zip(shape[split:], self.margins, strict=True)
        return (*shape[:split], *(extent + sum(sides) for extent, sides in rows))


def common_boundaries(declared: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Return the boundaries that calls may choose: those that all windows have.

    >>> common_boundaries([("wrap", "nearest"), ("nearest", "mirror")])
    ('nearest',)
    """
    return tuple(one for one in next(iter(declared), ()) if all(one in each for each in declared))


def bind_windows(
    kernel: str,
    windows: Sequence[Window],
    sizes: Sizes = (),
    *,
    boundary: str | None = None,
    given: Mapping[str, Any] = NO_SIZES,
) -> tuple[tuple[BoundWindow, ...], BoundSizes]:
    """Return the windows and integer placeholders of a call.

    Parameters
    ----------
    kernel : str
        Its name, for messages.
    windows : sequence of Window
        As declared.
    sizes : tuple of (str, tuple of int)
        Integer placeholders, as declared.
    boundary : str, optional
        Boundary of all windows; default: the first one of each.
    given : mapping of str to int
        Values of integer placeholders. One with a single precompiled value need not be given.

    Raises
    ------
    ArgumentTypeError
        For an unknown or missing placeholder, a value of another type than an integer, or a
        boundary that the kernel does not declare.
    ShapeError
        For a negative or a huge value.
    """
    names = [name for name, _ in sizes]
    for name in given:
        if name not in names:
            listed = f"; its sizes are {', '.join(names)}" if names else ""
            raise ArgumentTypeError(
                f"{kernel}() got an unexpected keyword argument {name!r}{listed}"
            )
    bound = tuple((name, _size(kernel, name, known, given)) for name, known in sizes)
    values = dict(bound)
    if boundary is not None and not windows:
        raise ArgumentTypeError(
            f"{kernel}: boundary is given, but the kernel has no windows or samples"
        )
    return tuple(
        BoundWindow(
            one.param,
            tuple((_number(before, values), _number(after, values)) for before, after in one.reach),
            outside,
            one.value,
            chosen=outside != one.boundaries[0],
            layered=one.layered,
        )
        for one in windows
        for outside in [_boundary(kernel, one, boundary)]
    ), bound


def _number(reach: int | str, values: Mapping[str, int]) -> int:
    return values[reach] if isinstance(reach, str) else reach


def _size(kernel: str, name: str, known: tuple[int, ...], given: Mapping[str, Any]) -> int:
    if name not in given:
        if len(known) == 1:
            return known[0]
        listed = f" (precompiled: {', '.join(map(str, known))})" if known else ""
        raise ArgumentTypeError(f"{kernel}: size {name} is missing; pass {name}=...{listed}")
    value = integer(given[name])
    if value is None:
        kind = type(given[name]).__name__
        raise ArgumentTypeError(f"{kernel}: size {name} must be an integer, not {kind}")
    if not 0 <= value <= MAX_SIZE:
        raise ShapeError(f"{kernel}: size {name} must be in [0, {MAX_SIZE}], not {value}")
    return value


def _boundary(kernel: str, window: Window, asked: str | None) -> str:
    if asked is None:
        return window.boundaries[0]
    check_boundary(kernel, window.param, window.boundaries, asked)
    return asked


def check_boundary(kernel: str, param: str, declared: Sequence[str], asked: object) -> None:
    """Raise `ArgumentTypeError` unless an input declares the boundary that a call asks for."""
    if not isinstance(asked, str):
        raise ArgumentTypeError(f"{kernel}: boundary must be a string, not {type(asked).__name__}")
    if asked not in declared:
        raise ArgumentTypeError(
            f"{kernel}: boundary {asked!r} is not declared for {param}, which has "
            f"{', '.join(map(repr, declared))}"
        )
