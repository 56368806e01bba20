"""The structs of a spec file: C++ types of raw sources, whose fields the spec declares.

::

    [structs.Point]
    x = "float32"
    y = "float32"

In goes such a table, out comes its dtype, which parameters of the file's raw kernels may have;
`kspec.render.structs` writes what checks it against the source.

>>> struct_dtype("Point", {"x": "float32", "n": "int32"})
('{x: float32, n: int32}', ())
"""

from __future__ import annotations

import keyword
from collections.abc import Iterator, Mapping
from dataclasses import field

from kspec.cpp.names import name_problem
from kspec.dataclass import dataclass
from kspec.model import dtypes
from kspec.model.raw.c_params import HANDLES
from kspec.spec.faults import Fault, FaultError
from kspec.spec.fields import dtype_of


@dataclass(frozen=True)
class Struct:
    """A struct of a spec file.

    Attributes
    ----------
    name : str
        Of the C++ type, and in Python.
    dtype : str
        Canonical text of its layout.
    line : int
        Where it is declared in the file.
    lines : mapping of str to int
        Where each of its fields is, if they have lines of their own.
    """

    name: str
    dtype: str
    line: int
    lines: Mapping[str, int] = field(repr=False)


def struct_dtype(name: str, value: object) -> tuple[str, tuple[Fault, ...]]:
    """Return the dtype of a struct, and what is wrong with its table."""
    faults = list(_name_faults(name))
    dtype = ""
    try:
        dtype = dtype_of(value)
    except FaultError as error:
        faults += error.faults
    else:
        faults += _field_faults(dtype)
    return dtype, tuple(fault.under(("structs", name)) for fault in faults)


def _name_faults(name: str) -> Iterator[Fault]:
    problem = name_problem(name)
    if not problem and keyword.iskeyword(name):
        problem = f"{name!r} is a Python keyword"
    if not problem and (len(name) == 1 or name in HANDLES or dtypes.from_ctype(name)):
        problem = f"{name!r} is a type already" if len(name) > 1 else f"{name!r} is a placeholder"
    if problem:
        yield Fault((), f"Invalid struct name: {problem}", at_key=True)


def _field_faults(dtype: str) -> Iterator[Fault]:
    fields = dtypes.lookup(dtype).fields
    if not fields:
        message = f"a struct is a table of its fields, such as {{ x = 'float32' }}, not {dtype!r}"
        yield Fault((), message)
    for one in fields:
        if one.member != one.name:
            yield Fault(
                (one.name,), f"{one.name!r} cannot be the name of a C++ member", at_key=True
            )
