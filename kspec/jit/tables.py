"""Arrays and tuples outside of a kernel that it indexes: tables in constant memory.

An index that is known while compiling gives a number; any other one reads a table, which the text
of the program defines in front of its functions.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from kspec.ir.control import Table
from kspec.ir.nodes import Expression
from kspec.ir.types import BufferType
from kspec.jit import types
from kspec.jit.capture import MAX_BYTES
from kspec.jit.scope import Scope
from kspec.jit.values import Known, describe

_REFUSED = "constants of a kernel cannot be written to; pass the array as an argument"


def table_of(scope: Scope, node: ast.AST, owner: Known) -> Expression:
    """Return a known array or tuple as memory, which may be indexed by anything."""
    with scope.at(node):
        values, dtype = _values(scope.mode, owner)
    if not values.size:
        raise scope.problem(node, IndexError, f"{describe(owner)} has no elements")
    tables = scope.program.tables
    key = dtype, values.shape, values.tobytes()
    if key not in tables:
        if sum(len(one.data) for one in tables.values()) + values.nbytes > MAX_BYTES:
            raise scope.problem(
                node,
                ValueError,
                f"{describe(owner)} has {values.nbytes} bytes, and constant memory {MAX_BYTES}; "
                "pass it as an argument",
            )
        name = f"kspec_table_{len(tables)}"
        tables[key] = Table(name, BufferType(dtype, values.shape), key[2])
    return tables[key].memory


def refuse_writes(scope: Scope) -> None:
    """Record the places of a function where it writes to tables."""
    names = {one.name for one in scope.program.tables.values()}
    for name, node in scope.written.items():
        if scope.memory_of([name]) & names:
            scope.problem(node, TypeError, _REFUSED)


def _values(mode: str, owner: Known) -> tuple[npt.NDArray[Any], str]:
    """Return the elements in C order, and their dtype: NumPy's, or that of constants."""
    value = owner.value
    if isinstance(value, np.void):
        value = np.array([value], value.dtype)
    if isinstance(value, np.ndarray) and not isinstance(value, np.ma.MaskedArray | np.matrix):
        dtype = types.dtype_name(value.dtype)
        return np.array(value, value.dtype.newbyteorder("="), order="C"), dtype
    if not isinstance(value, tuple | list):
        raise TypeError(f"{describe(owner)} is indexed by constants only; pass it as an argument")
    found = [types.type_of_constant(mode, one) for one in _numbers(value)] or ["bool"]
    dtype = functools.reduce(lambda a, b: types.loop(mode, "maximum", (a, b))[1], found)
    return np.array(value, dtype), dtype


def _numbers(value: Any) -> Iterator[Any]:
    """Yield the numbers of nested tuples and lists."""
    for one in value:
        if isinstance(one, tuple | list):
            yield from _numbers(one)
        else:
            yield one
