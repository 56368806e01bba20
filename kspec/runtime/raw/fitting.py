"""Undeclared arguments of a raw launch against what is known of the kernel's parameters.

Their C types are known where the kernel's text shows them (`kspec.model.raw.read_params`), their
sizes from the compiled kernel, and on the host device it knows also which of them are pointers.
`kspec.runtime.raw.untyped_args` packs arguments without such knowledge.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from kspec.dataclass import dataclass
from kspec.errors import ArgumentTypeError
from kspec.model import dtypes
from kspec.model.dtypes import DType
from kspec.model.raw.read_params import ReadParams, number_types, read_params
from kspec.model.signature import CParam
from kspec.runtime.arguments.opaque import STRUCT, kind_of
from kspec.runtime.driver.device import Device
from kspec.runtime.memory import ArrayView, numpy_dtype
from kspec.runtime.modules import LoadedKernel
from kspec.runtime.raw.untyped_args import RawArgument

_ADDRESS = 8  # bytes of a pointer
_LETTERS = dict(zip((1, 2, 4, 8), "bhiq", strict=True))
INTEGERS = frozenset("?bhilqBHILQ")  # formats of `struct`
_KINDS = dict(zip("biufc", ("a bool", *["an integer"] * 2, "a float", "complex"), strict=True))
# Doubles, and what they are given for by mistake.
_NARROW = {
    float: np.dtype(np.float32),
    np.float64: np.dtype(np.float32),
    complex: np.dtype(np.complex64),
    np.complex128: np.dtype(np.complex64),
}


@dataclass(frozen=True)
class ReadTypes:
    """The types of a kernel's parameters as its text shows them.

    Attributes
    ----------
    params : tuple of CParam or None
        The parameters; empty if the text does not show them.
    types : tuple of str
        Dtypes of numbers, "" for all else.
    has_text : bool
        Whether there is a text: compiled files have none.
    """

    params: ReadParams = ()
    types: tuple[str, ...] = ()
    has_text: bool = False

    @classmethod
    def of(cls, text: str | None, expression: str) -> ReadTypes:
        """Return the types in a text for the kernel of a name expression."""
        if text is None:
            return cls()
        params = read_params(text, expression) or ()
        return cls(params, number_types(text, params), True)

    def param(self, number: int) -> CParam | None:
        """Return a parameter; None if it is not known."""
        return self.params[number] if number < len(self.params) else None

    def type(self, number: int) -> str:
        """Return the dtype of a number; "" if it is not known, or no number."""
        return self.types[number] if number < len(self.types) else ""

    def packed_type(self, number: int) -> str:
        """Return the same, and of pointers the dtype of addresses."""
        param = self.param(number)
        return "uint64" if param is not None and param.pointer else self.type(number)

    def may_write(self, number: int) -> bool:
        """Return whether a kernel may write to an array: unless it is a pointer to what is const.

        Arrays of parameters that are not known count as written to.
        """
        param = self.param(number)
        return param is None or not param.pointer or param.is_written

    def takes_address(self, number: int) -> bool:
        """Return whether a structured array of one element is an array like all others.

        It is a value of a parameter that is read as one. Where nothing can be read, `fitted` has
        the compiled kernel's word.
        """
        param = self.param(number)
        return self.has_text if param is None else param.pointer


def fitted(
    operands: Sequence[RawArgument],
    packed: Sequence[bytes],
    read: ReadTypes,
    kernel: LoadedKernel,
    device: Device,
) -> tuple[bytes, ...]:
    """Return packed arguments as a kernel's parameters take them.

    Integers get the width of their parameters. Everything else must have it.

    Raises
    ------
    ArgumentTypeError
        If an argument is of another kind or size than its parameter.
    OverflowError
        If an integer does not fit.
    """
    count, sizes, pointers = len(operands), kernel.parameter_sizes, kernel.points
    if len(sizes or operands) != count:  # a launch says so
        return tuple(packed)
    rows = zip(operands, packed, sizes or [None] * count, pointers or [None] * count, strict=True)
    return tuple(
        Slot.of(operand.where, read, k, size, points).take(operand, data, device)
        for k, (operand, data, size, points) in enumerate(rows)
    )


@dataclass(frozen=True)
class Slot:
    """A parameter, as far as it is known.

    Attributes
    ----------
    where : str
        What messages call the argument.
    param : CParam or None
        As the text has it.
    row : DType or None
        The type of a number, if it is known.
    size : int or None
        Its bytes, if they are known.
    is_pointer : bool or None
        Whether it is a pointer, if that is known.
    """

    where: str
    param: CParam | None
    row: DType | None
    size: int | None
    is_pointer: bool | None

    @classmethod
    def of(
        cls, where: str, read: ReadTypes, number: int, size: int | None, points: bool | None
    ) -> Slot:
        """Return a parameter of text and compiled kernel; the latter is right where they differ."""
        param, dtype = read.param(number), read.type(number)
        row = dtypes.lookup(dtype) if dtype else None
        if row is not None and (points or size not in (None, row.itemsize)):
            row = None
        if points is None and param is not None and (param.pointer or row is not None):
            points = param.pointer
        if size is None:
            size = row.itemsize if row is not None else _ADDRESS if points else None
        return cls(where, param, row, size, points)

    def take(self, operand: RawArgument, data: bytes, device: Device) -> bytes:
        """Return the bytes of an argument, which are `data` by its own type."""
        value, view = operand.value, operand.view
        if kind_of(value) == STRUCT:
            return data
        if view is not None and view.device == device:
            return self._take_array(operand, view, data)
        if view is not None:  # one element, next to CUDA arrays
            if self.is_pointer:
                raise ArgumentTypeError(
                    f"{self.where} is a NumPy array next to CUDA arrays; move it to {device} first"
                )
            value = np.frombuffer(data, numpy_dtype(view.dtype))[0]
        if isinstance(value, bool | int | np.integer | np.bool_) and not _is_time(value):
            return self._take_integer(value, data)
        if isinstance(value, float | complex | np.generic | np.ndarray):
            return self._take_value(value, data)
        if self.row is not None and (value is None or self.row.kind not in "iu"):
            raise self._refused(_named(value), advice=_KINDS[self.row.kind])
        return self._sized(value, data)

    def _take_array(self, operand: RawArgument, view: ArrayView, data: bytes) -> bytes:
        """Return an array's address, or the element of a structured one that is a value."""
        if self.row is not None:
            raise self._refused("an array", advice=f"{_KINDS[self.row.kind]}, such as x.item()")
        by_value = self.is_pointer is False and bool(dtypes.lookup(view.dtype).fields)
        if by_value and isinstance(operand.value, np.ndarray) and view.size == 1:
            return self._sized(operand.value, operand.value.tobytes())
        if by_value or self.size not in (None, _ADDRESS):
            raise self._refused("an array", advice="one element, such as x[0]")
        return data

    def _take_integer(self, value: Any, data: bytes) -> bytes:
        row, size, number = self.row, self.size, int(value)
        if row is not None and row.kind in "fc":
            if number == 0:  # which has the same bytes
                return bytes(row.itemsize)
            raise self._refused(_named(value), advice=_converted(value, row))
        if self.is_pointer and (isinstance(value, bool) or len(data) != _ADDRESS):
            raise self._refused(_named(value), advice="an array, an address or None")
        if size is None:
            return data
        if size > _ADDRESS:
            raise self._refused(f"{_named(value)} of {len(data)} bytes")
        bits, kind = 8 * size, "u" if self.is_pointer else row.kind if row is not None else ""
        low = 0 if kind in ("u", "b") else -(2 ** (bits - 1))
        high = 1 if kind == "b" else 2 ** (bits - (kind == "i")) - 1
        if not low <= number <= high:
            raise OverflowError(
                f"{self.where} is {number}, but the parameter {self}; it takes {low} to {high}"
            )
        return number.to_bytes(size, sys.byteorder, signed=number < 0)

    def _take_value(self, value: Any, data: bytes) -> bytes:
        """Return the bytes of a float, a complex number, a struct or another NumPy scalar."""
        row = self.row
        if self.is_pointer:
            raise self._refused(_named(value), advice="an array")
        if row is None or (row.kind in "iu" and _is_time(value)):
            return self._sized(value, data)
        found = np.asarray(value).dtype
        if found.name != row.name:
            is_real = found.kind == "f" or (dtypes.is_known(found.name) and found.kind not in "cV")
            converts = row.kind == "c" or (row.kind == "f" and is_real)
            if not converts:
                raise self._refused(_named(value), advice=_KINDS[row.kind])
            raise self._refused(_in_c(value), advice=_converted(value, row))
        return data

    def _sized(self, value: Any, data: bytes) -> bytes:
        """Return bytes that the parameter has as many of."""
        if self.size in (None, len(data)):
            return data
        narrow = _NARROW.get(type(value))
        if narrow is not None and narrow.itemsize == self.size:
            raise self._refused(_in_c(value), advice=f"numpy.{narrow}({value})")
        raise self._refused(f"{_named(value)} of {len(data)} bytes")

    def _refused(self, found: str, *, advice: str = "a value of its type") -> ArgumentTypeError:
        return ArgumentTypeError(
            f"{self.where} is {found}, but the parameter {self}; pass {advice}"
        )

    def __str__(self) -> str:
        param = self.param
        if param is not None and (self.row is not None or param.pointer):
            return f"is '{param}'"
        name = "" if param is None else f"'{param}' "
        return f"{name}{'is a pointer' if self.is_pointer else f'has {self.size} bytes'}"


def integer_format(format: str, dtype: str, size: int) -> str | None:
    """Return the format of `struct` that packs integers of one type into a parameter.

    It raises for those that do not fit. There is none for floats, bools and structs of such sizes.

    Parameters
    ----------
    format : str
        That of the argument's own type.
    dtype : str
        Of the parameter, if it is known.
    size : int
        Its bytes.
    """
    if dtype and dtypes.lookup(dtype).kind in "fc":  # 0 fits, and no other
        return None
    if format == "?":
        return f"?{size - 1}x" if size > 1 else "?"
    letter = _LETTERS.get(size)
    if letter is None or dtype == "bool":
        return None
    unsigned = dtype.startswith("u") or (not dtype and format.isupper())
    return letter.upper() if unsigned else letter


def _is_time(value: Any) -> bool:
    return isinstance(value, np.datetime64 | np.timedelta64)


def _named(value: Any) -> str:
    """Return the name of a value in messages."""
    if isinstance(value, np.generic | np.ndarray):
        return "a struct" if value.dtype.names else f"a numpy.{value.dtype}"
    of_python = type(value).__module__ == "builtins"
    return "None" if value is None else f"a {'Python ' * of_python}{type(value).__name__}"


def _in_c(value: Any) -> str:
    return f"{_named(value)}{', in C a double' * (type(value) in _NARROW)}"


def _converted(value: Any, row: DType) -> str:
    return f"{row.package or 'numpy'}.{row.name}({value})"
