"""Types that mean one thing to NumPy and another to C: a spec's table in, what to warn about out.

>>> [one.message for one in ambiguous_types({"inputs": "float x", "outputs": "float32 y"})]
["'float' is Python's float, float64, not C's; write 'float64', or 'float32' if that is meant"]

Nothing is wrong with such a spec, which is why `kspec.spec.rules` accepts it. The constructors take
the same names as CuPy does, without a word: code that comes from CuPy knows what they mean.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from kspec.model import dtypes
from kspec.spec.faults import Fault

# Names of dtypes that C has for other types, at least on some platforms: what they may be in C.
_IN_C = {"float": "float32", "int": "int32", "uint": "uint32", "long": "int32", "ulong": "uint32"}
_OF_PYTHON = ("float", "int")
_PARAMETER = re.compile(r"[^,]+")
_WORD = re.compile(r"\S+")

_Path = tuple[str | int, ...]


def ambiguous_types(table: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield the types of an elementwise or a reduction spec that are likely to be misread."""
    for side in ("inputs", "outputs"):
        for path, text in _strings((side,), table.get(side)):
            for parameter in _PARAMETER.finditer(text):
                words = list(_WORD.finditer(parameter[0]))
                if len(words) > 1 and words[-2][0] in _IN_C:
                    offset = parameter.start() + words[-2].start()
                    yield _warning(path, words[-2][0], offset)
    for path, text in _strings(("types",), table.get("types")):
        if text in _IN_C:
            yield _warning(path, text, 0)


def _strings(path: _Path, value: object) -> Iterator[tuple[_Path, str]]:
    """Yield every string of a value with the path to it."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _strings((*path, index), item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _strings((*path, key), item)


def _warning(path: _Path, spelling: str, offset: int) -> Fault:
    name, other = dtypes.canonical_name(spelling), _IN_C[spelling]
    owner = "Python's" if spelling in _OF_PYTHON else "NumPy's"
    message = (
        f"{spelling!r} is {owner} {spelling}, {name}, not C's; write {name!r}, or {other!r} if "
        "that is meant"
    )
    return Fault(path, message, offset, len(spelling))
