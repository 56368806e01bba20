"""Values of expressions of a kernel: a value of the IR, or something known while compiling.

>>> constant(0.5, "float32", "cuda")
Const(value=0.5, type='float32')
"""

from __future__ import annotations

import types as python_types
from typing import Any

import numpy as np

from kspec.dataclass import dataclass
from kspec.ir.nodes import BuiltinCall, Cast, Const, Element, Expression, FieldAccess, Name
from kspec.ir.types import RecordView, is_record
from kspec.jit import types
from kspec.model import dtypes


@dataclass(frozen=True, eq=False)
class Known:
    """Something that is known while compiling: a number, a module, a function, a type, None.

    Attributes
    ----------
    value : object
        What it is.
    path : str
        Where it was found, if it is a module of the user's.
    """

    value: Any
    path: str = ""

    @property
    def is_number(self) -> bool:
        """Whether it is a number, which can be computed with."""
        return isinstance(self.value, bool | int | float | complex | np.number | np.bool_)


@dataclass(frozen=True, eq=False)
class TupleValue:
    """A tuple of values."""

    items: tuple[Value, ...]


@dataclass(frozen=True, eq=False)
class Method:
    """A method of a value, not called yet."""

    owner: Expression
    name: str


Value = Expression | Known | TupleValue | Method


def kind_of(value: Expression) -> str:
    """Return the letter of the kind of an expression's dtype."""
    return types.kind(str(value.type))


def wrapped(value: object) -> Value:
    """Return a known value; a tuple becomes one of known values."""
    return TupleValue(tuple(map(wrapped, value))) if isinstance(value, tuple) else Known(value)


def unwrapped(value: Value) -> Known | None:
    """Return something known, with tuples as Python's; None if a part of it is not known."""
    if not isinstance(value, TupleValue):
        return value if isinstance(value, Known) else None
    items = [unwrapped(one) for one in value.items]
    known = tuple(one.value for one in items if one is not None)
    return Known(known) if len(known) == len(items) else None


def dereferenced(value: Value) -> Value:
    """Return the record at an address; anything else is returned as it is.

    >>> from kspec.ir.nodes import Name
    >>> print(dereferenced(Name("r", RecordView("{a: float64}"))))
    r[()]
    """
    if isinstance(value, TupleValue):
        return TupleValue(tuple(map(dereferenced, value.items)))
    if isinstance(value, Known | Method) or not isinstance(value.type, RecordView):
        return value
    return Element(value, (), value.type.dtype)


def address(record: Expression) -> Expression:
    """Return the address of a record in memory; `dereferenced` undoes it."""
    if isinstance(record, Element) and isinstance(record.memory.type, RecordView):
        return record.memory
    return BuiltinCall("address", (record,), RecordView(str(record.type)))


def is_record_in_memory(value: Value) -> bool:
    """Return whether a value is a record that others can see, and no copy of one."""
    if isinstance(value, Known | TupleValue | Method) or not is_record(value.type):
        return False
    return isinstance(without_fields(value), Element | Name)


def without_fields(value: Value) -> Value:
    """Return the record that a value is a field of, or of a field of; itself if it is none."""
    while isinstance(value, FieldAccess):
        value = value.record
    return value


def constant(value: Any, dtype: str, mode: str) -> Const:
    """Return a number that the program says, as one of a dtype.

    Raises
    ------
    OverflowError
        If it does not fit.
    TypeError
        If it is of a kind that does not become that one by itself.
    """
    number = value.item() if isinstance(value, np.generic) else value
    row = types.kind(dtype)
    if mode == "cuda" and row in "fc" and type(value) in (float, complex):
        # CuPy's rule: a number without a type of its own has 32 bits, wherever it is stored.
        with np.errstate(over="ignore"):
            number = np.asarray(value, types.type_of_constant(mode, value)).item()
    if row in "iu" and isinstance(number, int):
        if not types.fits(int(number), dtype):
            raise OverflowError(f"{number} does not fit {dtype}")
        return Const(int(number), dtype)
    source = types.type_of_constant(mode, value)
    if not types.can_cast(source, dtype):
        raise TypeError(f"{number!r} ({source}) cannot become {dtype} by itself")
    if row == "b":
        return Const(bool(number), dtype)
    if row == "c":
        return Const(complex(number), dtype)
    return Const(float(number), dtype) if row == "f" else Const(int(number), dtype)


def convert(value: Expression, dtype: str) -> Expression:
    """Return a value as one of a dtype, in any case."""
    if value.type == dtype:
        return value
    if isinstance(value, Const):
        return _converted_constant(value, dtype)
    source = str(value.type)
    if dtype in ("bool", "float16", "bfloat16") and types.kind(source) == "c":
        value = BuiltinCall("real", (value,), dtypes.real_part(source))
    return Cast(value, dtype)


def _converted_constant(value: Const, dtype: str) -> Expression:
    with np.errstate(all="ignore"):
        try:
            if dtype == "bfloat16":
                return Const(float(value.value.real), dtype)
            number = np.asarray(value.value, np.dtype(value.type))
            if number.dtype.kind == "c" and np.dtype(dtype).kind not in "cb":
                number = number.real
            return Const(number.astype(np.dtype(dtype)).item(), dtype)
        except TypeError:
            return Cast(value, dtype)


def describe(value: Value) -> str:
    """Return the description of an operand, for messages."""
    if isinstance(value, Known):
        if value.is_number:
            return f"{value.value!r}"
        if isinstance(value.value, python_types.ModuleType):
            return f"module {value.value.__name__}"
        if value.value is None:
            return "None"
        return getattr(value.value, "described", type(value.value).__name__)
    if isinstance(value, TupleValue):
        return f"({', '.join(map(describe, value.items))}{',' * (len(value.items) == 1)})"
    if isinstance(value, Method):
        return f"method {value.name}"
    return str(value.type)
