"""Raw kernels that specs declare: arguments checked against, and converted to, C parameters.

`RawCallable` is what a generated function calls; `kspec.RawKernel`, which checks nothing but the
number of bytes, is in `kspec.runtime.raw`.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from kspec import dtypes
from kspec.declaration import RawDeclaration
from kspec.dtypes import DType
from kspec.errors import ArgumentTypeError, UnboundPlaceholderError
from kspec.runtime import marshal
from kspec.runtime.callable import KernelCallable
from kspec.runtime.checked import checks_of_call
from kspec.runtime.launch import make_launch
from kspec.runtime.raw_arguments import (
    RawArgument,
    pack_undeclared,
    place_of,
    regions_of,
    stream_of,
)
from kspec.runtime.raw_call import PreparedRaw, RawCaller, RawRoutes
from kspec.signature import CParam
from kspec.stages import RawSymbol


class RawCallable(RawCaller, KernelCallable[RawDeclaration]):
    """A raw kernel that a spec declares."""

    _routes: RawRoutes
    _routes_class = RawRoutes

    @property
    def _params(self) -> Sequence[CParam] | None:
        return self.declaration.params

    def prepare(
        self,
        grid: tuple[int, ...],
        block: tuple[int, ...],
        args: Sequence[Any],
        shared_mem: int = 0,
        stream: Any = None,
        sanitize: str | None = None,
        order: str | None = None,
        timeout: float | None = None,
    ) -> PreparedRaw:
        """Check a call, with parameters and errors as those of the call."""
        name, params = self.__name__, self.declaration.params
        operands = tuple(RawArgument(number, value) for number, value in enumerate(args))
        device, library = place_of(name, operands)
        if params is None:
            parameters = tuple(pack_undeclared(name, operand, device) for operand in operands)
            bound: dict[str, str] = {}
            types = ("",) * len(operands)
        else:
            if len(args) != len(params):
                listed = ", ".join(map(str, params))
                raise ArgumentTypeError(
                    f"{name} takes {len(params)} parameters ({listed}), but {len(args)} were given"
                )
            bound = _bind(name, params, operands)
            parameters = tuple(
                _pack_declared(name, param, operand, bound)
                for param, operand in zip(params, operands, strict=True)
            )
            types = tuple(_number_type(param, bound) for param in params)
        checks = checks_of_call(name, device, self.checks, sanitize, order, timeout)
        handle, regions = stream_of(stream, library, device, operands), regions_of(checks, operands)
        launch = make_launch(grid, block, shared_mem, handle, checks, regions)
        symbol = RawSymbol(self._expression(bound))
        kernel = self._loader.kernel(symbol, device, checks.sanitize)
        return PreparedRaw(kernel, launch, device, operands, parameters, types)

    def _expression(self, bound: dict[str, str]) -> str:
        """Return the name expression for a binding: the one with these template arguments."""
        expressions = self.declaration.name_expressions
        if not bound:
            return expressions[0]
        wanted = [dtypes.lookup(dtype).ctype for dtype in bound.values()]
        for expression in expressions:
            _, _, arguments = expression.partition("<")
            if [part.strip() for part in arguments.rstrip("> ").split(",")] == wanted:
                return expression
        types = ", ".join(f"{letter}={dtype}" for letter, dtype in bound.items())
        raise ArgumentTypeError(
            f"{self.__name__} has no instance for {types}; it has {', '.join(expressions)}: add "
            f"one to name_expressions in the spec"
        )


def _bind(name: str, params: Sequence[CParam], operands: Sequence[RawArgument]) -> dict[str, str]:
    """Bind the placeholders of declared C parameters by the arrays given for them."""
    letters = list(dict.fromkeys(param.type for param in params if len(param.type) == 1))
    bound: dict[str, str] = {}
    for param, operand in zip(params, operands, strict=True):
        if param.type in letters and operand.view is not None:
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


def _row(param: CParam, bound: dict[str, str]) -> DType | None:
    if param.type in bound:
        return dtypes.lookup(bound[param.type])
    return dtypes.from_ctype(param.type)


def _number_type(param: CParam, bound: dict[str, str]) -> str:
    """Return the dtype that an argument is converted to; "" for pointers and structs."""
    row = _row(param, bound)
    return row.name if row is not None and not param.pointer else ""


def _pack_declared(name: str, param: CParam, operand: RawArgument, bound: dict[str, str]) -> bytes:
    where = f"{name}: argument {param.name}"
    row = _row(param, bound)
    view = operand.view
    if param.pointer:
        if operand.value is None:
            return struct.pack("P", 0)
        if view is None:
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
    if view is not None and view.size != 1:
        raise ArgumentTypeError(
            f"{where} is declared {param}, so it must be a number, not an array"
        )
    if row is None:
        return _pack_struct(where, param, operand.value)
    value = operand.value.item() if view is not None else operand.value
    if not marshal.is_number(value):
        raise ArgumentTypeError(
            f"{where} is declared {param}, so it must be a number, not {type(value).__name__}"
        )
    return marshal.convert_scalar(value, row.name)


def _pack_struct(where: str, param: CParam, value: Any) -> bytes:
    """Pass a structured scalar, or a size-one structured array, byte for byte."""
    if isinstance(value, np.void | np.ndarray):
        return value.tobytes()
    raise ArgumentTypeError(
        f"{where} is declared {param}; pass a structured NumPy scalar of the same layout"
    )
