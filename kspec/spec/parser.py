"""CuPy's parameter mini-language, and C parameter lists: text in, frozen data out.

>>> [param.type for param in parse_signature("T x, raw f4 y")]
['T', 'float32']
>>> [param.core for param in parse_signature("T A[n, n], T b[n]")]
[('n', 'n'), ('n',)]

``parse_signature(str(signature)) == signature``.  `kspec.model.signature` has the data classes,
`kspec.spec.models` calls this for every spec.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kspec.cpp.names import name_problem
from kspec.errors import SignatureSyntaxError, UnknownTypeError
from kspec.limits import PARAMS
from kspec.model import dtypes
from kspec.model.dimensions import MAX_CORE, DimensionError, dimension
from kspec.model.signature import Param, Signature
from kspec.model.stages import MAX_NDIM

_KEYWORDS = ("raw", "_non_const")
_WORD = re.compile(r"\S+")


def parse_signature(text: str) -> Signature:
    """Parse a parameter list such as ``"T x, raw float32 y"``.

    Parameters
    ----------
    text : str
        Parameters separated by commas; each is keywords (``raw``, ``_non_const``), a type
        and a name.  A type of one letter is a placeholder, any other a NumPy dtype name.  A name
        may have core dimensions in brackets, or the number of axes if it is ``raw``.

    Raises
    ------
    SignatureSyntaxError
        For the first parameter that is wrong; the message has a caret under it.
    UnknownTypeError
        If it is its type that is wrong.
    """
    signature, errors = scan_signature(text)
    if errors:
        raise errors[0]
    return signature


def scan_signature(text: str) -> tuple[Signature, tuple[SignatureSyntaxError, ...]]:
    """Parse like `parse_signature`, but return every error beside the parsed parameters."""
    if "{" in text:
        return Signature(), (_struct_in_signature(text),)
    if text.count(",") >= PARAMS:
        return Signature(), (SignatureSyntaxError(f"a kernel has at most {PARAMS} parameters"),)
    params: list[Param] = []
    errors: list[SignatureSyntaxError] = []
    for start, end in _items(text):
        try:
            params.append(_parse_param(text, start, end))
        except SignatureSyntaxError as error:
            errors.append(error)
    return Signature(tuple(params)), tuple(errors)


def _struct_in_signature(text: str) -> SignatureSyntaxError:
    start = text.index("{")
    length = max(text.rfind("}") + 1 - start, 1)
    message = (
        "a struct cannot be written here; write a placeholder, such as 'T p', for which arrays of "
        "structs may be passed (the 'types' of a spec file name those to precompile)"
    )
    return SignatureSyntaxError(message, text, start, length)


def _items(text: str) -> Iterator[tuple[int, int]]:
    """Yield start and end of each item between commas; no items in an empty text."""
    start = depth = 0
    for end, letter in enumerate(f"{text}," if text else ""):
        depth += (letter == "[") - (letter == "]")
        if letter == "," and (depth <= 0 or end == len(text)):
            yield start, end
            start, depth = end + 1, 0


def _parse_param(text: str, start: int, end: int) -> Param:
    bracket = text.find("[", start, end)
    stop = end if bracket < 0 else bracket
    words = [
        (match.group(), match.start() - start) for match in _WORD.finditer(text[:stop], start, stop)
    ]
    if not words:
        message = "empty parameter; is there a comma too many?" if "," in text else "no parameter"
        raise SignatureSyntaxError(message, text, min(start, max(0, len(text) - 1)))
    if len(words) < 2:
        word, offset = words[0]
        message = f"{word!r} is not a parameter; write a type and a name, such as 'T x'"
        raise SignatureSyntaxError(message, text, start + offset, len(word))
    *keywords, (type_, type_offset), (name, name_offset) = words
    _check_keywords(text, start, keywords, type_)
    problem = name_problem(name)
    if problem:
        message = f"{problem}; choose another parameter name"
        raise SignatureSyntaxError(message, text, start + name_offset, len(name))
    kept = {keyword for keyword, _ in keywords}
    resolved = _resolve_type(text, start + type_offset, type_)
    raw = "raw" in kept
    core = () if bracket < 0 else _parse_brackets(text, bracket, end)
    ndim = _parse_ndim(text, bracket, end, core) if raw and core else None
    return Param(resolved, name, raw, "_non_const" in kept, core=() if raw else core, ndim=ndim)


def _parse_brackets(text: str, start: int, end: int) -> tuple[str, ...]:
    """Return the items between brackets: core dimensions, or a number of axes."""
    close = text.find("]", start, end)
    if close < 0:
        raise SignatureSyntaxError("']' is missing", text, start)
    rest = text[close + 1 : end]
    if rest.strip():
        offset = close + 1 + len(rest) - len(rest.lstrip())
        message = "nothing can follow ']'; dimensions stand in one pair of brackets: 'T A[n, m]'"
        raise SignatureSyntaxError(message, text, offset, len(rest.strip()))
    found, place = [], start + 1
    for item in text[place:close].split(","):
        offset = place + len(item) - len(item.lstrip())
        try:
            found.append(dimension(item).text)
        except DimensionError as error:
            length = max(len(item.strip()), 1)
            raise SignatureSyntaxError(str(error), text, offset, length) from None
        place += len(item) + 1
    if len(found) > MAX_CORE:
        message = f"a parameter has at most {MAX_CORE} core dimensions, not {len(found)}"
        raise SignatureSyntaxError(message, text, start, close + 1 - start)
    return tuple(found)


def _parse_ndim(text: str, start: int, end: int, items: tuple[str, ...]) -> int:
    """Return the number of axes of a raw parameter."""
    if len(items) != 1 or not items[0].isdecimal() or int(items[0]) > MAX_NDIM:
        message = (
            f"a raw parameter has the number of its axes in brackets, at most {MAX_NDIM}: "
            "'raw T x[2]'"
        )
        raise SignatureSyntaxError(message, text, start, end - start)
    return int(items[0])


def _check_keywords(text: str, start: int, keywords: list[tuple[str, int]], type_: str) -> None:
    seen: set[str] = set()
    for keyword, offset in keywords:
        if keyword in _KEYWORDS and keyword not in seen:
            seen.add(keyword)
            continue
        if keyword in seen:
            message = f"keyword {keyword!r} is given twice"
        elif keyword == "const":
            message = "inputs are const already: drop 'const' (an input to modify is '_non_const')"
        else:
            message = f"unknown keyword {keyword!r}; expected 'raw' or '_non_const'"
            spelling = " ".join([word for word, _ in keywords if word not in _KEYWORDS] + [type_])
            message += _dtype_hint(spelling)
        raise SignatureSyntaxError(message, text, start + offset, len(keyword))


def _resolve_type(text: str, offset: int, type_: str) -> str:
    if len(type_) == 1:
        if type_.isascii() and type_.isalpha():
            return type_
        message = f"type placeholder {type_!r} must be a letter from A to Z or a to z"
        raise SignatureSyntaxError(message, text, offset)
    if type_.endswith("*"):
        message = (
            f"{type_!r} is a pointer; a parameter has its element type here"
            f" ('raw T x' for an array indexed by hand)"
        )
        raise SignatureSyntaxError(message, text, offset, len(type_))
    try:
        return dtypes.canonical_name(type_)
    except UnknownTypeError:
        raise UnknownTypeError(unknown_type(type_), text, offset, len(type_)) from None


def unknown_type(spelling: str) -> str:
    """Return a message for an unknown type that suggests a known one.

    >>> unknown_type("size_t"), unknown_type("flaot32")
    ("unknown type 'size_t'; types have NumPy's names, write 'uint64' for 'size_t'", \
"unknown type 'flaot32'; did you mean 'float32'?")
    """
    message = dtypes.unknown_type(spelling)
    if message.startswith("Unsupported"):
        return message
    hint = _dtype_hint(spelling)
    return f"unknown type {spelling!r}{hint}" if hint else message


def _dtype_hint(ctype: str) -> str:
    """Return advice for somebody who wrote a C type where a dtype belongs."""
    row = dtypes.from_ctype(ctype)
    return f"; types have NumPy's names, write {row.name!r} for {ctype!r}" if row else ""
