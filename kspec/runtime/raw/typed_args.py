"""Arguments of a raw launch against declared C parameters: checked, converted, packed.

The neighbour `kspec.runtime.raw.untyped_args` packs undeclared arguments by CuPy's rules.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kspec.errors import ArgumentTypeError, UnboundPlaceholderError, UnsupportedDTypeError, counted
from kspec.model import dtypes
from kspec.model.dtypes import DType
from kspec.model.raw.c_params import HANDLES
from kspec.model.signature import CParam
from kspec.runtime.arguments.opaque import STRUCT, is_address, kind_of
from kspec.runtime.driver.device import Device
from kspec.runtime.libraries.aliasing import check_writable
from kspec.runtime.memory import dtype_name, numpy_dtype
from kspec.runtime.raw.untyped_args import RawArgument
from kspec.runtime.schedules import marshal

# The dtypes of types that are none by themselves: placeholders, and the structs of a spec.
Types = Mapping[str, str]

_NOT_FLOATS = (int, complex, np.integer, np.bool_, np.complexfloating)


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
            f"{name} takes {counted(len(params), 'parameter')} ({listed}), not {len(args)}"
        )
    return tuple(
        RawArgument(name, number, value, param.name, pointer=param.pointer)
        for number, (param, value) in enumerate(zip(params, args, strict=True))
    )


def bind_parameters(
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
            users = ", ".join(param.name for param in params if param.type == letter)
            raise UnboundPlaceholderError(
                f"{name}: no array decides the type {letter} (of {users}); "
                "numbers do not, so pass an array"
            )
    return {letter: bound[letter] for letter in letters}


def number_type(param: CParam, types: Types) -> str:
    """Return the dtype that an argument is converted to; "" for pointers and structs."""
    row = _row(param, types)
    return row.name if row is not None and not row.fields and not param.pointer else ""


def pack_declared(param: CParam, operand: RawArgument, types: Types, device: Device) -> bytes:
    """Return an argument's bytes as a declared parameter of a launch on `device` has them.

    Raises
    ------
    ArgumentTypeError
        If it is not what is declared.
    OverflowError, ValueError
        If a number does not fit the parameter.
    """
    where, row = operand.where, _row(param, types)
    if param.pointer:
        return _pack_pointer(param, operand, row, device)
    view = operand.view
    if param.type in HANDLES:
        return _pack_handle(where, param, operand.value)
    if row is None or row.fields:
        return _pack_struct(where, param, operand.value, row)
    if view is not None and view.size != 1:
        raise ArgumentTypeError(
            f"{where} is declared {param}, so it must be a number, not an array"
        )
    if view is not None and not view.device.is_host:
        raise ArgumentTypeError(
            f"{where} is declared {param}, so it must be a number; that of an array on "
            f"{view.device} is not known before the launch: copy it to the host"
        )
    value = operand.value.item() if view is not None else operand.value
    if not marshal.is_number(value):
        raise ArgumentTypeError(
            f"{where} is declared {param}, so it must be a number, not {type(value).__name__}"
        )
    _check_whole(where, param, row, value)
    return marshal.convert_scalar(value, row.name, f"{where} is declared {param}")


def _check_whole(where: str, param: CParam, row: DType, value: Any) -> None:
    """Refuse floats where an integer is declared, and fractions where arrays make it one.

    NaN and infinity are refused by their conversion.
    """
    if row.kind not in "iu" or isinstance(value, _NOT_FLOATS):
        return
    number = float(value)
    if not math.isfinite(number) or (param.is_placeholder and number.is_integer()):
        return
    what = f"{param.type} is {row.name}, so" if param.is_placeholder else "so"
    raise ArgumentTypeError(
        f"{where} is declared {param}, {what} it must be an integer, not {value}; convert it "
        "first, by int() or round()"
    )


def _row(param: CParam, types: Types) -> DType | None:
    if param.type in types:
        return dtypes.lookup(types[param.type])
    return dtypes.from_ctype(param.type)


def _pack_pointer(param: CParam, operand: RawArgument, row: DType | None, device: Device) -> bytes:
    view, where = operand.view, operand.where
    if operand.value is None and param.nullable:
        return struct.pack("P", 0)
    if operand.value is None:
        raise ArgumentTypeError(
            f"{where} is declared {param}, so it must be an array, not None; "
            f"declare '{param} = nullptr' to allow a null pointer"
        )
    if view is None:
        if is_address(operand.value):
            return struct.pack("P", operand.value.ptr)
        raise ArgumentTypeError(
            f"{where} is declared {param}, so it must be an array, "
            f"not {type(operand.value).__name__}"
        )
    if view.device != device:
        raise ArgumentTypeError(
            f"{where} is a NumPy array next to CUDA arrays; move it to {device} first"
        )
    if row is not None and view.dtype != row.name:
        raise ArgumentTypeError(
            f"{where} is declared {param} ({row.name}), but the array has dtype {view.dtype}"
        )
    if not param.const and operand.library is not None:
        check_writable(where, operand.library, view)
    if not view.is_c_contiguous:
        raise ArgumentTypeError(
            f"{where} is a pointer, so the array must be C-contiguous; pass a contiguous copy"
        )
    return struct.pack("P", view.ptr)


def _pack_handle(where: str, param: CParam, value: Any) -> bytes:
    """Pass the handle of a texture or surface object, CuPy's too."""
    wanted = HANDLES[param.type]
    if kind_of(value) == wanted:
        return struct.pack("Q", value.ptr)
    raise ArgumentTypeError(
        f"{where} is declared {param}, so it must be a {wanted}, not {type(value).__name__}"
    )


def _pack_struct(where: str, param: CParam, value: Any, row: DType | None) -> bytes:
    """Pass a structured scalar, or a size-one structured array, byte for byte.

    The layout of a struct that the spec declares is compared; a tuple of its fields is accepted.
    The bytes of CuPy's structs follow in `with_structs`.
    """
    if kind_of(value) == STRUCT:
        return b""
    if row is not None and isinstance(value, tuple):
        try:
            return np.array(value, numpy_dtype(row.name)).tobytes()
        except (TypeError, ValueError, OverflowError) as error:
            kind = ArgumentTypeError if isinstance(error, TypeError) else type(error)
            raise kind(f"{where} is declared {param}, {row.name}: {error}") from None
    if not isinstance(value, np.void | np.ndarray) or value.size != 1:
        found = "an array" if hasattr(value, "shape") else type(value).__name__
        raise ArgumentTypeError(
            f"{where} is declared {param}; pass a structured NumPy scalar of the same layout, "
            f"not {found}"
        )
    if row is not None:
        try:
            found = dtype_name(value.dtype)
        except UnsupportedDTypeError as error:
            raise UnsupportedDTypeError(f"{where}: {error}") from None
        if found != row.name:
            raise ArgumentTypeError(
                f"{where} is declared {param} ({row.name}), but its dtype is {found}"
            )
    return value.tobytes()
