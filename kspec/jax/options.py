"""Keyword arguments of a call from JAX: checked, and as values that a program can be looked up by.

>>> hashable_options("l2norm", "reduction", {"axis": [0, 1], "keepdims": 1})
{'axis': (0, 1), 'keepdims': True}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kspec.errors import ArgumentTypeError, ShapeError
from kspec.model.infer import checked_size
from kspec.model.shapes import axis_index
from kspec.runtime.memory.array_view import dtype_name
from kspec.runtime.memory.device_array import as_element_dtype, as_shape

OPTIONS = {
    "elementwise": ("size", "dtype", "raw_shapes"),
    "reduction": ("axis", "keepdims", "dtype"),
}


def hashable_options(kernel: str, kind: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a call, each in the only way that it is written.

    Raises
    ------
    ArgumentTypeError
        If there is no such option, or it has the wrong type.
    ShapeError
        If extents are negative.
    """
    for name in options:
        if name not in OPTIONS[kind]:
            raise ArgumentTypeError(
                f"{kernel}() has no option {name!r} in JAX, but {', '.join(OPTIONS[kind])}"
            )
    return {name: _CONVERSIONS[name](kernel, value) for name, value in options.items()}


def _axis(_: str, axis: Any) -> int | tuple[int, ...] | None:
    if axis is None:
        return None
    return tuple(map(axis_index, axis)) if isinstance(axis, Sequence) else axis_index(axis)


def _keepdims(_: str, keepdims: Any) -> bool:
    return bool(keepdims)


def _dtype(_: str, dtype: Any) -> str | None:
    return None if dtype is None else dtype_name(as_element_dtype(dtype))


def _raw_shapes(kernel: str, shapes: Any) -> tuple[tuple[int, ...], ...] | None:
    if shapes is None:
        return None
    try:
        found = tuple(map(as_shape, shapes))
    except TypeError:
        raise ArgumentTypeError(
            f"{kernel}: raw_shapes must be a sequence of shapes, not {shapes!r}"
        ) from None
    if any(extent < 0 for shape in found for extent in shape):
        raise ShapeError(f"{kernel}: raw_shapes must not be negative, got {shapes!r}")
    return found


_CONVERSIONS: dict[str, Callable[[str, Any], Any]] = {
    "axis": _axis,
    "keepdims": _keepdims,
    "dtype": _dtype,
    "size": checked_size,
    "raw_shapes": _raw_shapes,
}
