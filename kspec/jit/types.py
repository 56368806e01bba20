"""Types that kernels compute in: those of CUDA's rules, or of NumPy's.

>>> loop("cuda", "add", ("int64", "float16"))
(('float16', 'float16'), 'float16')
>>> loop("numpy", "add", ("int64", "float16"))
(('float64', 'float64'), 'float64')
>>> type_of_constant("cuda", 0.5), type_of_constant("numpy", 0.5)
('float32', 'float64')
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from kspec.errors import UnknownTypeError, UnsupportedDTypeError
from kspec.model import dtypes
from kspec.runtime import memory

MODES = ("cuda", "numpy")
# In mode "cuda" two operands have the later one's type: any float is more than any integer.
_ORDER = """
    bool int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 bfloat16 float32 float64
    complex64 complex128
"""
_RANK = {name: rank for rank, name in enumerate(_ORDER.split())}
_PLAIN: dict[type, Any] = {int: np.int64, float: np.float64, bool: np.bool_, complex: np.complex128}
_LETTERS = {letter: np.dtype(letter).name for letter in "?bBhHiIlLqQefdFD"}


def type_of_constant(mode: str, value: Any) -> str:
    """Return the dtype of a number that the program says.

    Raises
    ------
    OverflowError
        For an integer that no type holds.
    TypeError
        For what is not a number.
    """
    if isinstance(value, np.generic):
        return dtype_name(value.dtype)
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        for name in ("int32", "int64", "uint64") if mode == "cuda" else ("int64", "uint64"):
            if fits(value, name):
                return name
        raise OverflowError(f"{value} has more than 64 bits")
    if isinstance(value, float):
        return "float32" if mode == "cuda" else "float64"
    if isinstance(value, complex):
        return "complex64" if mode == "cuda" else "complex128"
    raise TypeError(f"a {type(value).__name__} is not a number")


def fits(value: int, dtype: str) -> bool:
    """Return whether an integer type holds a number."""
    info = np.iinfo(dtype)
    return int(info.min) <= value <= int(info.max)


def becomes(value: bool | int | float, dtype: str) -> bool:
    """Return whether a plain number of the program may take on a dtype."""
    row = kind(dtype)
    if row in "iu":
        return isinstance(value, int) and fits(value, dtype)
    return isinstance(value, bool) if row == "b" else True


def holds(wide: str, narrow: str) -> bool:
    """Return whether an integer type holds all numbers of another."""
    return bool(np.can_cast(narrow, wide, "safe"))


def dtype_name(spelling: Any) -> str:
    """Return the canonical name of a dtype in any form that NumPy takes.

    Raises
    ------
    TypeError
        If kernels do not know it.
    """
    try:
        dtype = np.dtype(_PLAIN.get(spelling, spelling) if isinstance(spelling, type) else spelling)
        if dtype.kind == "V":
            return memory.dtype_name(dtype)
        return dtypes.canonical_name(dtype.name)
    except (UnknownTypeError, UnsupportedDTypeError) as error:
        raise TypeError(str(error)) from None


def kind(dtype: str) -> str:
    """Return the letter of a dtype's kind, as `kspec.model.dtypes` has it."""
    return dtypes.lookup(dtype).kind


@functools.cache
def can_cast(source: str, target: str) -> bool:
    """Return whether a value may become another type by itself: NumPy's "same kind"."""
    if source == target:
        return True
    if kind(source) == "V" or kind(target) == "V":
        return False
    if "bfloat16" in (source, target):
        source, target = (one.replace("bfloat16", "float16") for one in (source, target))
    return bool(np.can_cast(np.dtype(source), np.dtype(target), "same_kind"))


@functools.cache
def loop(mode: str, name: str, types: tuple[str, ...]) -> tuple[tuple[str, ...], str]:
    """Return the dtypes that a ufunc takes and returns for operands of some types.

    A number behind the name, as in ``frexp.1``, says which of its results.

    Raises
    ------
    TypeError
        If it takes no such operands.
    """
    ufunc = getattr(np, name.partition(".")[0])
    if mode == "numpy":
        found = ufunc.resolve_dtypes((*map(np.dtype, types), *[None] * ufunc.nout))
        names = [dtype_name(one) for one in found]
        return tuple(names[: ufunc.nin]), names[ufunc.nin + _part(name)]
    if "bfloat16" in types:
        return _bfloat16_loop(name, types)
    for inputs, output in _loops(name):
        if all(_RANK[one] <= _RANK[other] for one, other in zip(types, inputs, strict=True)):
            if all(kind(one) in "biu" for one in types) and kind(output) == "f":
                return ("float64",) * len(inputs), "float64"  # as the quotient of integers
            return inputs, output
    raise TypeError(f"{name} takes no {' and '.join(types)}")


def _bfloat16_loop(name: str, types: tuple[str, ...]) -> tuple[tuple[str, ...], str]:
    """Return the loop of float16, with bfloat16 in its place where no type is more than it."""
    if any(one == "float16" or _RANK[one] > _RANK["bfloat16"] for one in types):
        wider = tuple("float32" if one in ("bfloat16", "float16") else one for one in types)
        return loop("cuda", name, wider)
    inputs, output = loop("cuda", name, tuple(one.replace("bfloat16", "float16") for one in types))
    return tuple(one.replace("float16", "bfloat16") for one in inputs), output.replace(
        "float16", "bfloat16"
    )


def _part(name: str) -> int:
    """Return the number of a ufunc's result: ``frexp.1`` is the second."""
    return int(name.partition(".")[2] or 0)


@functools.cache
def _loops(name: str) -> tuple[tuple[tuple[str, ...], str], ...]:
    ufunc = getattr(np, name.partition(".")[0])
    found = []
    for text in ufunc.types:
        if set(text) <= {*_LETTERS, "-", ">"}:
            inputs, _, output = text.partition("->")
            found.append((tuple(_LETTERS[one] for one in inputs), _LETTERS[output[_part(name)]]))
    # NumPy compares signed with unsigned numbers in loops of their own.
    return tuple(one for one in found if len(set(one[0])) == 1 or name == "ldexp")
