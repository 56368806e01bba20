"""Keyword arguments of a call from JAX: checked, and as values that a program can be looked up by.

>>> from kspec.model.declaration import ElementwiseDeclaration, ReductionDeclaration
>>> from kspec.model.signature import Param, Signature
>>> signatures = Signature((Param("T", "x"),)), Signature((Param("T", "y"),))
>>> hashable_options(ReductionDeclaration("sum", *signatures), {"axis": [0, 1], "keepdims": 1})
{'axis': (0, 1), 'keepdims': True}
>>> option_names(ElementwiseDeclaration("power", *signatures, sizes=(("N", (2, 3)),)))
('size', 'dtype', 'raw_shapes', 'N')
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kspec.errors import ArgumentTypeError, ShapeError
from kspec.model.declaration import GeneratedDeclaration, ReductionDeclaration
from kspec.model.forms.kinds import REDUCE
from kspec.model.forms.options import FORM_OPTIONS, OptionKind
from kspec.model.infer import checked_size
from kspec.model.shapes import are_several, axis_index, flag, integer
from kspec.runtime.memory import dtype_name
from kspec.runtime.memory.device_array import as_element_dtype, as_shape

# The argument of a traced call that is not an option.
TRUTHS = "truths"


def option_names(declaration: GeneratedDeclaration, form: str = REDUCE) -> tuple[str, ...]:
    """Return the keyword arguments of a kernel, or of another form of a reduction.

    Raises
    ------
    ArgumentTypeError
        If an integer placeholder has the name of another one.
    """
    names: tuple[str, ...] = ("size", "dtype", "raw_shapes")
    if isinstance(declaration, ReductionDeclaration):
        names = (
            *(one.name for one in FORM_OPTIONS[form] if one.kind != OptionKind.INDICES),
            "dtype",
        )
    taken = (*names, TRUTHS)
    for name in declaration.call_options:
        if name in taken:
            raise ArgumentTypeError(
                f"{declaration.name}: size {name} has the name of a keyword argument in JAX; "
                "rename it"
            )
    return (*names, *declaration.call_options)


def hashable_options(
    declaration: GeneratedDeclaration, options: Mapping[str, Any], form: str = REDUCE
) -> dict[str, Any]:
    """Return the options of a call, each in the only way that it is written.

    Raises
    ------
    ArgumentTypeError
        If there is no such option, or it has the wrong type.
    ShapeError
        If extents are negative.
    """
    if not options:
        return {}
    kernel, names = declaration.name, option_names(declaration, form)
    kinds: dict[str, OptionKind | str] = {}
    if isinstance(declaration, ReductionDeclaration):
        kinds = {one.name: one.kind for one in FORM_OPTIONS[form]}
    for name in options:
        if name not in names:
            raise ArgumentTypeError(
                f"{kernel}() has no option {name!r} in JAX, but {', '.join(names)}"
            )
    kinds |= dict.fromkeys(declaration.size_names, _SIZE)
    return {
        name: _CONVERSIONS[kinds.get(name, name)](kernel, name, value)
        for name, value in options.items()
    }


def _size(kernel: str, name: str, value: Any) -> int | None:
    return None if value is None else _integer(kernel, f"size {name}", value)


def _integer(kernel: str, name: str, value: Any) -> int:
    number = integer(value)
    if number is None:
        raise ArgumentTypeError(
            f"{kernel}: {name} must be an integer when the program is traced, not "
            f"{type(value).__name__}; under jax.jit, name it in static_argnames"
        )
    return number


def _count(kernel: str, _: str, value: Any) -> int:
    return checked_size(kernel, value)


def _boundary(kernel: str, _: str, boundary: Any) -> str | None:
    if boundary is not None and not isinstance(boundary, str):
        raise ArgumentTypeError(
            f"{kernel}: boundary must be a string, not {type(boundary).__name__}"
        )
    return boundary


def _axis(kernel: str, _: str, axis: Any) -> int | tuple[int, ...] | None:
    if axis is None:
        return None
    if are_several(axis):
        return tuple(axis_index(one, kernel) for one in axis)
    return axis_index(axis, kernel)


def _truth(_: str, __: str, value: Any) -> bool:
    return bool(value)


def _integers(kernel: str, name: str, value: Any) -> int | tuple[int, ...]:
    several = tuple(value) if isinstance(value, tuple | list) else (value,)
    found = tuple(one for one in map(integer, several) if one is not None)
    if len(found) != len(several):
        raise ArgumentTypeError(
            f"{kernel}: {name} must be an integer or a tuple of integers when the program is "
            f"traced, not {type(value).__name__}; under jax.jit, name it in static_argnames"
        )
    return found if isinstance(value, tuple | list) else found[0]


def _dtype(_: str, __: str, dtype: Any) -> str | None:
    return None if dtype is None else dtype_name(as_element_dtype(dtype))


def _raw_shapes(kernel: str, _: str, shapes: Any) -> tuple[tuple[int, ...], ...] | None:
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


_SIZE = "one of sizes"
# By the type of an argument, or the name of one that not only reductions have.
_CONVERSIONS: dict[OptionKind | str, Callable[[str, str, Any], Any]] = {
    OptionKind.AXES: _axis,
    OptionKind.AXIS: _axis,
    OptionKind.BOUNDARY: _boundary,
    OptionKind.FLAG: flag,
    OptionKind.TRUTH: _truth,
    OptionKind.NUMBER: _integer,
    OptionKind.NUMBERS: _integers,
    _SIZE: _size,
    "boundary": _boundary,
    "dtype": _dtype,
    "size": _count,
    "raw_shapes": _raw_shapes,
}
