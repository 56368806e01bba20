"""Shapes of calls: broadcasting, axes of reductions, and the shapes of their outputs.

Pure arithmetic on tuples.  Extents are integers; those of an array library that stand for unknown
ones (torch's symbols, Dask's NaN) pass through.

>>> broadcast_shapes([(2, 5), (5,)])
(2, 5)
>>> reduced_shape((4, 1024), normalize_axes(-1, 2), keepdims=True)
(4, 1)
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any, TypeGuard

from kspec.errors import ArgumentTypeError, ShapeError
from kspec.model.stages import MAX_NDIM

Shape = tuple[int, ...]


def size_of(shape: Sequence[int]) -> int:
    """Return the number of elements of a shape."""
    return math.prod(shape)


def check_ndim(where: str, ndim: int) -> None:
    """Raise `ShapeError` for an array with more axes than kernels take."""
    if ndim > MAX_NDIM:
        raise ShapeError(f"{where} has {ndim} dimensions; kernels take {MAX_NDIM}")


def refusal_to_broadcast(shapes: Sequence[Sequence[Any]]) -> str:
    """Return NumPy's message about shapes that do not broadcast."""
    listed = " ".join(str(tuple(shape)) for shape in shapes)
    return f"operands could not be broadcast together with shapes {listed}"


def broadcast_shapes(shapes: Sequence[Shape]) -> Shape:
    """Return the common shape by NumPy's rules.

    Raises
    ------
    ShapeError
        "operands could not be broadcast together with shapes ...".
    """
    ndim = max(map(len, shapes), default=0)
    result = [1] * ndim
    for shape in shapes:
        for axis, extent in enumerate(shape, start=ndim - len(shape)):
            if extent == 1 or extent == result[axis]:
                continue
            if result[axis] != 1:
                raise ShapeError(refusal_to_broadcast(shapes))
            result[axis] = extent
    return tuple(result)


def summed_axes(
    shape: Sequence[int], wanted: Sequence[int], core: int = 0
) -> tuple[tuple[int, ...], Shape]:
    """Return the sum that undoes broadcasting: of a gradient, for the input that was broadcast.

    Parameters
    ----------
    shape : sequence of int
        Of the gradient.
    wanted : sequence of int
        Of the input.
    core : int, default 0
        How many of the last axes are core dimensions, which do not broadcast.

    Returns
    -------
    axes : tuple of int
        Axes to sum, possibly none.
    shape : tuple of int
        Shape to give the sum.
    """
    more = len(shape) - len(wanted)
    axes = tuple(
        k
        for k, extent in enumerate(shape[: len(shape) - core])
        if k < more or (wanted[k - more] == 1 and extent != 1)
    )
    return axes, tuple(wanted)


def normalize_axes(
    axis: int | Sequence[int] | None, ndim: int, kernel: str = "a reduction"
) -> tuple[int, ...]:
    """Return the reduced axes, sorted, all in ``range(ndim)``.

    Errors begin with the name of the `kernel`.

    Raises
    ------
    numpy.exceptions.AxisError
        If an axis is out of range.
    ValueError
        If an axis is repeated.
    TypeError
        If an axis is not an integer.
    """
    if axis is None:
        return tuple(range(ndim))
    axes = tuple(axis) if are_several(axis) else (axis,)
    normal = []
    for one in axes:
        index = axis_index(one, kernel)
        if not -ndim <= index < ndim:
            from numpy.exceptions import AxisError  # nothing else here needs NumPy

            raise AxisError(index, ndim, kernel)
        normal.append(index % ndim)
    if len(set(normal)) != len(normal):
        raise ShapeError(f"{kernel}: duplicate value in 'axis': {axis!r}")
    return tuple(sorted(normal))


def are_several(axis: object) -> TypeGuard[Sequence[Any]]:
    """Return whether an argument is a sequence of axes, as opposed to one; text is neither."""
    return isinstance(axis, Sequence) and not isinstance(axis, str)


def axis_index(axis: object, kernel: str) -> int:
    """Return one axis as a number; raise `ArgumentTypeError` unless it is an integer."""
    index = integer(axis)
    if index is None:
        raise ArgumentTypeError(
            f"{kernel}: axis must be an integer or a tuple of integers, not {axis!r}"
        )
    return index


def integer(value: object) -> int | None:
    """Return an integer of any library as Python's; None for other values, and for booleans."""
    try:
        return None if isinstance(value, bool) else operator.index(value)  # type: ignore[arg-type]
    except TypeError:  # an array of several integers has __index__ too
        return None


def flag(kernel: str, name: str, value: object) -> bool:
    """Return an argument that is True or False, NumPy's too; `ArgumentTypeError` for others."""
    if not isinstance(value, bool):
        import numpy as np  # nothing else here needs NumPy

        if not isinstance(value, np.bool_):
            raise ArgumentTypeError(f"{kernel}: {name} must be True or False, not {value!r}")
    return bool(value)


def reduced_shape(shape: Sequence[int], reduced: Sequence[int], keepdims: bool) -> Shape:
    """Return the shape of a reduction's outputs; `reduced` are its normalized axes."""
    if keepdims:
        return tuple(1 if axis in reduced else extent for axis, extent in enumerate(shape))
    return tuple(extent for axis, extent in enumerate(shape) if axis not in reduced)


def kept_shape(shape: Sequence[int], axis: int | Sequence[int] | None) -> Shape:
    """Return the shape of a reduction's outputs with ``keepdims=True``.

    Outputs and their gradients broadcast against the inputs in this shape.
    """
    return reduced_shape(shape, normalize_axes(axis, len(shape)), keepdims=True)


def reduced_count(shape: Sequence[int], axis: int | Sequence[int] | None) -> int:
    """Return the number of elements that are reduced to each output."""
    return math.prod(shape[k] for k in normalize_axes(axis, len(shape)))


def check_not_empty(
    name: str, shape: Sequence[int], reduced: Sequence[int], kept: Sequence[int]
) -> None:
    """Raise `ShapeError` if outputs would be made of no elements, in a reduction without identity.

    Parameters
    ----------
    name : str
        The reduction.
    shape : sequence of int
        Shape of the loop.
    reduced : sequence of int
        Normalized axes.
    kept : sequence of int
        Shape of the outputs: without outputs, nothing is missing.
    """
    if any(_is_zero(shape[k]) for k in reduced) and not any(map(_is_zero, kept)):
        raise ShapeError(f"zero-size array to reduction operation {name} which has no identity")


def _is_zero(extent: Any) -> bool:
    """Whether an extent is known to be 0: symbols must not be asked."""
    return isinstance(extent, int) and extent == 0
