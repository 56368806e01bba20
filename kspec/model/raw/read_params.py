"""The C parameters of a kernel that declares none, as far as its text shows them.

>>> [str(one) for one in read_params("__global__ void k(const float* x, int& n, REAL a);", "k")]
['const float* x', 'int& n', 'REAL a']

Nothing is preprocessed: a parameter with a macro in it is unknown, and so are all parameters of a
kernel whose head comes out of a macro or a header.
"""

from __future__ import annotations

import re
from dataclasses import replace

from kspec.cpp.directives import macro_definitions
from kspec.cpp.kernel_heads import parameter_texts
from kspec.errors import SignatureSyntaxError
from kspec.model import dtypes
from kspec.model.raw.c_params import parse_c_params
from kspec.model.signature import CParam

_DECLARED = re.compile(
    r"\b(?:using|struct|class|union|enum)\s+(\w+)|\btypedef\b[^;{}]*?(\w+)\s*;|\}\s*(\w+)\s*;"
)
_WORD = re.compile(r"\w+")

ReadParams = tuple[CParam | None, ...]


def read_params(text: str, expression: str) -> ReadParams | None:
    """Return the parameters of a kernel, None in the place of those that cannot be read.

    Parameters
    ----------
    text : str
        Source of the kernel.
    expression : str
        Its name, or a name expression.

    Returns
    -------
    tuple of CParam or None
        None if the text does not show the kernel, or shows it with several numbers of parameters.
    """
    found = parameter_texts(text, expression)
    if not found or any(len(one) != len(found[0]) for one in found):
        return None
    macros = {name for name, _ in macro_definitions(text)}
    rows = [[_read(one, macros) for one in texts] for texts in found]
    return tuple(
        same[0] if len({*map(str, same)}) == 1 else None for same in zip(*rows, strict=True)
    )


def _read(text: str, macros: set[str]) -> CParam | None:
    if not macros.isdisjoint(_WORD.findall(text)):
        return None
    value, reference, name = text.rpartition("&")
    try:
        (param,) = parse_c_params([f"{value}*{name}" if reference else text])
    except SignatureSyntaxError:
        return None
    return replace(param, type=f"{param.type}&") if reference else param


def number_types(text: str, params: ReadParams) -> tuple[str, ...]:
    """Return the dtype of each parameter that is a number of a well-known type; "" for others.

    A type that the text itself declares is not well-known, whatever its name.
    """
    own = {name for names in _DECLARED.findall(text) for name in names}
    known = (one is not None and not one.pointer and one.type not in own for one in params)
    rows = [
        dtypes.from_ctype(one.type) if one is not None and is_known else None
        for one, is_known in zip(params, known, strict=True)
    ]
    return tuple("" if row is None else row.name for row in rows)
