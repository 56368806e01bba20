"""Types that functions compute in: asked of NumPy, so that results are its results (NEP 50).

What bfloat16 and 8-bit floats become beside others is not: NumPy knows them from ml_dtypes, and
answers differently from version to version. They stay what they are beside bool, integers of 8 bits
and Python's integers and floats, and count as float32 beside everything else.

>>> loop("add", ("int8", "float"))
(('float64', 'float64'), ('float64',))
>>> loop("add", ("float32", "float"))
(('float32', 'float32'), ('float32',))

A type is the name of a dtype, or ``truth``, ``int``, ``float`` or ``complex`` of a Python bool or
number, which takes on the precision of its other operand. NumPy's scalars have dtypes.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from kspec.errors import UnknownTypeError
from kspec.ir.builtins import BUILTINS
from kspec.model import dtypes

WEAK: dict[str, type] = {"truth": bool, "int": int, "float": float, "complex": complex}
# What a Python number is by itself.
STRONG = {"truth": "bool", "int": "int64", "float": "float64", "complex": "complex128"}
_BY_TYPE = {python: name for name, python in WEAK.items()}
# What bfloat16 and its kin hold, by the rule above.
_HELD = frozenset({"bool", "int8", "uint8", "truth", "int", "float"})

# Functions of `cupyx.scipy.special`, `scipy.special` and `cupy.rsqrt`.
SPECIAL = frozenset(
    {
        *("rsqrt", "exp10", "xlogy", "xlog1py", "entr", "expit", "logit", "erf", "erfc"),
        *("erfinv", "erfcinv", "erfcx", "ndtr", "ndtri", "gamma", "gammaln"),
        *("j0", "j1", "y0", "y1", "i0", "i1"),
    }
)


def type_of_number(value: Any) -> str | None:
    """Return the type of a Python or NumPy scalar; None for anything else."""
    if type(value) in _BY_TYPE:
        return _BY_TYPE[type(value)]
    if isinstance(value, np.generic) and dtypes.is_known(value.dtype.name):
        return value.dtype.name
    return None


def dtype_name(spelling: Any) -> str:
    """Return the name of anything that NumPy takes for a dtype.

    Raises
    ------
    TypeError
        If kernels do not know it.
    """
    try:
        return dtypes.canonical_name(np.dtype(spelling).name)
    except UnknownTypeError as error:
        raise TypeError(str(error)) from None


@functools.cache
def loop(
    function: str, types: tuple[str, ...], dtype: str | None = None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the dtypes that a ufunc takes and returns for operands of some types.

    Parameters
    ----------
    function : str
        Its name.
    types : tuple of str
        Those of the operands.
    dtype : str, optional
        What it has to return, as by ``dtype=``.

    Raises
    ------
    TypeError
        If it takes no such operands.
    """
    if function in SPECIAL:
        own = _special(function, types if dtype is None else (dtype,) * len(types))
        return (own,) * len(types), (own,)
    ufunc = getattr(np, function)
    if function != "ldexp":  # whose second operand stays an integer
        types = _in_numpy(types)
    given = [np.dtype(bool) if one == "truth" else WEAK.get(one) or np.dtype(one) for one in types]
    wanted = None if dtype is None else np.dtype(dtype)
    signature = (*[None] * ufunc.nin, *[wanted] * ufunc.nout)
    found = ufunc.resolve_dtypes((*given, *[None] * ufunc.nout), signature=signature)
    names = [dtype_name(one) for one in found]
    return tuple(names[: ufunc.nin]), tuple(names[ufunc.nin :])


def _special(function: str, types: tuple[str, ...]) -> str:
    """Return the dtype of SciPy's functions of floats: float32 where it holds the operands."""
    if len(types) != BUILTINS[function].arity:
        raise ValueError(f"{function} takes {BUILTINS[function].arity} operands, not {len(types)}")
    dtype = common_dtype(types)
    if np.can_cast(np.dtype(dtype), np.float32):
        return "float32"
    if np.can_cast(np.dtype(dtype), np.float64):
        return "float64"
    raise TypeError(f"{function} takes real numbers, not {dtype}")


def _in_numpy(types: tuple[str, ...]) -> tuple[str, ...]:
    """Return types without dtypes that NumPy does not own, or one of these for all of them."""
    foreign = {one for one in types if one not in WEAK and dtypes.lookup(one).package}
    if not foreign:
        return types
    if len(foreign) == 1 and _HELD.issuperset({*types} - foreign):
        return (*foreign,) * len(types)
    return tuple("float32" if one in foreign else one for one in types)


@functools.cache
def common_dtype(types: tuple[str, ...]) -> str:
    """Return the dtype that values of some types have together."""
    types = _in_numpy(types)
    numbers: Sequence[Any] = [WEAK[one](0) if one in WEAK else np.dtype(one) for one in types]
    return dtype_name(np.result_type(*numbers))


def is_narrow(dtype: str) -> bool:
    """Return whether a type is a floating one of fewer than 32 bits."""
    row = dtypes.lookup(dtype)
    return row.kind == "f" and row.itemsize < 4


def computed_in(dtype: str) -> str:
    """Return the type in which kernels compute what is of a type: float32 for narrow ones."""
    return "float32" if is_narrow(dtype) else dtype


def rounded(value: bool | int | float | complex, dtype: str) -> bool | int | float | complex:
    """Return a number as an element of a type has it."""
    with np.errstate(all="ignore"):
        number: bool | int | float | complex = np.asarray(value).astype(np.dtype(dtype)).item()
    return number


@functools.cache
def sum_dtype(dtype: str) -> str:
    """Return the dtype of a sum or product of elements: small integers become wide."""
    row = dtypes.lookup(dtype)
    if row.kind in "biu" and row.itemsize <= 8:
        return "uint64" if row.kind == "u" else "int64"
    return dtype


def can_cast(source: str, target: str) -> bool:
    """Return whether NumPy's operators write one type into arrays of another."""
    return bool(np.can_cast(np.dtype(source), np.dtype(target), "same_kind"))
