"""Declared C parameters of raw kernels: text in, `CParam` out.

>>> [str(param) for param in parse_c_params("const float * x, unsigned n")]
['const float* x', 'unsigned int n']

Specs and the constructors of raw kernels declare them alike; `kspec.spec.parser` does the same for
CuPy's mini-language.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from kspec.errors import SignatureSyntaxError
from kspec.limits import PARAMS
from kspec.names import name_problem
from kspec.signature import CParam

_QUALIFIERS = re.compile(r"\b(?:const|volatile|__restrict__|__restrict|__grid_constant__)\b")
_NAME = re.compile(r"([A-Za-z_]\w*)\s*(\[\s*\d*\s*\])?\s*\Z")
_TYPE = re.compile(r"(?:::)?[A-Za-z_]\w*(?:[\s:]+[A-Za-z_]\w*)*(?:\s*<.*>)?(?:::\w+)?")

# Types whose arguments are objects with a handle, and the class of these.
HANDLES = {"cudaTextureObject_t": "TextureObject", "cudaSurfaceObject_t": "SurfaceObject"}

# Every order and every optional word of C's integer types.
_INTEGER_WORDS = frozenset({"signed", "unsigned", "short", "long", "int", "char"})


def parse_c_params(declared: str | Sequence[str]) -> tuple[CParam, ...]:
    """Parse the C parameters of a raw kernel.

    Parameters
    ----------
    declared : str or sequence of str
        ``"const float* x, int n"``, or a list with one parameter per string.

    Raises
    ------
    SignatureSyntaxError
        For the first parameter that is wrong; the message has a caret under it.
    """
    texts = [declared] if isinstance(declared, str) else list(declared)
    if len(texts) > PARAMS or any(text.count(",") >= PARAMS for text in texts):
        raise SignatureSyntaxError(f"a kernel has at most {PARAMS} parameters")
    return tuple(
        _parse_c_param(text, start, end)
        for text in texts
        for start, end in _items(text, allow_none=isinstance(declared, str))
    )


def declared_params(declared: str | Sequence[str] | None) -> tuple[CParam, ...] | None:
    """Return the parameters of one kernel whose types are known; None if none are declared.

    Parameters
    ----------
    declared : str, sequence of str or None
        As for `parse_c_params`.

    Raises
    ------
    SignatureSyntaxError
        For a parameter that does not parse, two of one name, or a type placeholder.
    """
    if declared is None:
        return None
    params = parse_c_params(declared)
    seen: set[str] = set()
    for param in params:
        if param.name in seen:
            raise SignatureSyntaxError(f"two parameters are called {param.name!r}")
        if param.is_placeholder:
            raise SignatureSyntaxError(
                f"{param}: the type of a parameter of one kernel is known, such as "
                f"'float{'*' if param.pointer else ''} {param.name}'; specs have placeholders"
            )
        seen.add(param.name)
    return params


def _items(text: str, allow_none: bool) -> Iterator[tuple[int, int]]:
    """Yield start and end of each parameter; commas inside ``<>`` do not separate."""
    if allow_none and text.strip() in ("", "void"):
        return
    depth = start = 0
    for index, character in enumerate(text):
        depth += {"<": 1, ">": -1}.get(character, 0)
        if character == "," and depth == 0:
            yield start, index
            start = index + 1
    yield start, len(text)


def _parse_c_param(text: str, start: int, end: int) -> CParam:
    item = text[start:end]
    offset = start + len(item) - len(item.lstrip())
    length = len(item.strip())
    if not length:
        raise SignatureSyntaxError(
            "empty parameter; is there a comma too many?", text, min(start, max(0, len(text) - 1))
        )
    match = _NAME.search(item)
    left = item[: match.start()] if match else ""
    if match is None or not _QUALIFIERS.sub(" ", left).strip():
        message = f"{item.strip()!r} needs a type and a name, such as 'const float* x'"
        raise SignatureSyntaxError(message, text, offset, length)
    name = match[1]
    problem = name_problem(name)
    if problem:
        message = f"{problem}; a C parameter is a type and a name, such as 'const float* x'"
        raise SignatureSyntaxError(message, text, start + match.start(1), len(name))
    stars = left.count("*") + (match[2] is not None)
    ctype = _type_of(text, offset, length, left, max(0, stars - 1))
    pointee = left.split("*")[0]
    const = stars > 0 and re.search(r"\bconst\b", pointee) is not None
    return CParam(ctype, name, pointer=stars > 0, const=const)


def _type_of(text: str, offset: int, length: int, left: str, stars: int) -> str:
    """Return the type spelled in `left`, with `stars` levels of pointers kept."""
    words = " ".join(_QUALIFIERS.sub(" ", left).replace("*", " ").split())
    if "&" in left:
        message = "kernels take values and pointers, not references"
        raise SignatureSyntaxError(message, text, offset + max(0, left.lstrip().find("&")))
    if not _TYPE.fullmatch(words):
        raise SignatureSyntaxError(f"{words!r} is not a C type", text, offset, length)
    if not stars:
        return normalize_ctype(words)
    return normalize_ctype(words) + "*" * stars


def normalize_ctype(ctype: str) -> str:
    """Return one spelling for all of C's ways to write an integer type.

    >>> normalize_ctype("long unsigned  int"), normalize_ctype("complex< float >")
    ('unsigned long', 'complex<float>')
    """
    words = ctype.split()
    if not _INTEGER_WORDS.issuperset(words) or not words:
        joined = " ".join(words)
        return re.sub(r"\s*([<>,])\s*", r"\1", joined).replace(",", ", ")
    unsigned = "unsigned" in words
    if "char" in words:
        sign = "unsigned " if unsigned else "signed " if "signed" in words else ""
        return f"{sign}char"
    size = "short" if "short" in words else " ".join(["long"] * words.count("long")) or "int"
    return f"unsigned {size}" if unsigned else size
