"""Arguments of a raw launch against declared C parameters: checked, converted, packed.

The neighbour `kspec.runtime.raw_arguments` packs by CuPy's rules what nobody declared.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kspec import dtypes
from kspec.dtypes import DType
from kspec.errors import ArgumentTypeError, UnboundPlaceholderError
from kspec.runtime import marshal
from kspec.runtime.raw_arguments import RawArgument, is_address
from kspec.runtime.texture import SurfaceObject, TextureObject
from kspec.signature import CParam

_HANDLES: Mapping[str, type[TextureObject | SurfaceObject]] = {
    "cudaTextureObject_t": TextureObject,
    "cudaSurfaceObject_t": SurfaceObject,
}
# What stands for the types of parameters that are no dtypes: placeholders.
Types = Mapping[str, str]


def declared_arguments(
    name: str, params: Sequence[CParam], args: Sequence[Any]
) -> tuple[RawArgument, ...]:
    """Return the arguments of a call, as many as there are parameters.

    Raises
    ------
    ArgumentTypeError
        If there are more or fewer.
    """
    if len(args) != len(params):
        listed = ", ".join(map(str, params))
        raise ArgumentTypeError(
            f"{name} takes {len(params)} parameters ({listed}), but {len(args)} were given"
        )
    return tuple(
        RawArgument(number, value, pointer=param.pointer)
        for number, (param, value) in enumerate(zip(params, args, strict=True))
    )


def bind_types(
    name: str, params: Sequence[CParam], operands: Sequence[RawArgument]
) -> dict[str, str]:
    """Bind the placeholders of declared C parameters by the arrays given for them.

    Raises
    ------
    ArgumentTypeError
        If arrays disagree, or no array decides a placeholder (`UnboundPlaceholderError`).
    """
    letters = list(dict.fromkeys(param.type for param in params if param.is_placeholder))
    bound: dict[str, str] = {}
    for param, operand in zip(params, operands, strict=True):
        if param.is_placeholder and operand.view is not None:
            dtype = operand.view.dtype
            if bound.setdefault(param.type, dtype) != dtype:
                raise ArgumentTypeError(
                    f"Type is mismatched. {name}: {param.type} is {bound[param.type]}, but "
                    f"{param.name} has dtype {dtype}"
                )
    for letter in letters:
        if letter not in bound:
            raise UnboundPlaceholderError(f"{name}: no array decides the type {letter}")
    return {letter: bound[letter] for letter in letters}


def number_type(param: CParam, types: Types) -> str:
    """Return the dtype that an argument is converted to; "" for pointers and structs."""
    row = _row(param, types)
    return row.name if row is not None and not param.pointer else ""


def pack_declared(name: str, param: CParam, operand: RawArgument, types: Types) -> bytes:
    """Return an argument's bytes as a declared parameter has them.

    Raises
    ------
    ArgumentTypeError
        If it is not what is declared.
    OverflowError, ValueError
        If a number does not fit the parameter.
    """
    where = f"{name}: argument {param.name}"
    row = _row(param, types)
    if param.pointer:
        return _pack_pointer(where, param, operand, row)
    view = operand.view
    if view is not None and view.size != 1:
        raise ArgumentTypeError(
            f"{where} is declared {param}, so it must be a number, not an array"
        )
    if param.type in _HANDLES:
        return _pack_handle(where, param, operand.value)
    if row is None:
        return _pack_struct(where, param, operand.value)
    value = operand.value.item() if view is not None else operand.value
    if not marshal.is_number(value):
        raise ArgumentTypeError(
            f"{where} is declared {param}, so it must be a number, not {type(value).__name__}"
        )
    try:
        return marshal.convert_scalar(value, row.name)
    except (ArgumentTypeError, OverflowError, ValueError) as error:
        raise type(error)(f"{where} is declared {param}: {error}") from None


def _row(param: CParam, types: Types) -> DType | None:
    if param.type in types:
        return dtypes.lookup(types[param.type])
    return dtypes.from_ctype(param.type)


def _pack_pointer(where: str, param: CParam, operand: RawArgument, row: DType | None) -> bytes:
    view = operand.view
    if operand.value is None:
        return struct.pack("P", 0)
    if view is None:
        if is_address(operand.value):
            return struct.pack("P", operand.value.ptr)
        raise ArgumentTypeError(
            f"{where} is declared {param}, so it must be an array, "
            f"not {type(operand.value).__name__}"
        )
    if row is not None and view.dtype != row.name:
        raise ArgumentTypeError(
            f"{where} is declared {param} ({row.name}), but the array has dtype {view.dtype}"
        )
    if not param.const and view.readonly:
        raise ArgumentTypeError(f"{where} is written to, but the array is read-only")
    if not view.is_c_contiguous:
        raise ArgumentTypeError(
            f"{where} is a pointer, so the array must be C-contiguous; pass a contiguous copy"
        )
    return struct.pack("P", view.ptr)


def _pack_handle(where: str, param: CParam, value: Any) -> bytes:
    wanted = _HANDLES[param.type]
    if not isinstance(value, wanted):
        raise ArgumentTypeError(
            f"{where} is declared {param}, so it must be a {wanted.__name__}, "
            f"not {type(value).__name__}"
        )
    return struct.pack("Q", value.ptr)


def _pack_struct(where: str, param: CParam, value: Any) -> bytes:
    """Pass a structured scalar, or a size-one structured array, byte for byte."""
    if isinstance(value, np.void | np.ndarray):
        return value.tobytes()
    raise ArgumentTypeError(
        f"{where} is declared {param}; pass a structured NumPy scalar of the same layout"
    )
