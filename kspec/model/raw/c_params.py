"""Declared C parameters of raw kernels: text in, `CParam` out.

>>> [str(param) for param in parse_c_params("const float * x, unsigned n, float *y = nullptr")]
['const float* x', 'unsigned int n', 'float* y = nullptr']

Specs and the constructors of raw kernels declare them alike; `kspec.spec.parser` does the same for
CuPy's mini-language.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kspec.cpp.brackets import angle_end, group_end, outermost, split_at_commas
from kspec.cpp.declarations import QUALIFIERS
from kspec.cpp.names import integer_name, name_problem
from kspec.cpp.tokens import Token, tokens_of
from kspec.errors import SignatureSyntaxError
from kspec.limits import PARAMS
from kspec.model.signature import CParam

# Behind the name of a pointer that calls may leave out.
_NULL = ("=", "nullptr")
_IGNORED = QUALIFIERS | {"__grid_constant__"}

# Types whose arguments are objects with a handle, and the class of these.
HANDLES = {"cudaTextureObject_t": "TextureObject", "cudaSurfaceObject_t": "SurfaceObject"}


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
        _parse_c_param(text, start, tokens)
        for text in texts
        for start, tokens in _items(text, allow_none=isinstance(declared, str))
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


def _items(text: str, allow_none: bool) -> Iterator[tuple[int, list[Token]]]:
    """Yield the start and the tokens of each parameter."""
    if allow_none and text.strip() in ("", "void"):
        return
    tokens = [*tokens_of(text)]
    start = index = 0
    for part in split_at_commas(tokens):
        yield start, part
        index += len(part) + 1
        start = tokens[index - 1].end if index <= len(tokens) else start


def _parse_c_param(text: str, start: int, tokens: list[Token]) -> CParam:
    if not tokens:
        raise SignatureSyntaxError(
            "empty parameter; is there a comma too many?", text, min(start, max(0, len(text) - 1))
        )
    offset, length = tokens[0].start, tokens[-1].end - tokens[0].start
    nullable = tuple(token.text for token in tokens[-2:]) == _NULL and len(tokens) > len(_NULL)
    tokens = tokens[: -len(_NULL)] if nullable else tokens
    brackets = [token for token in outermost(tokens) if token.text == "["]
    bracket = tokens.index(brackets[0]) if brackets else len(tokens)
    array = bracket < len(tokens) and group_end(tokens, bracket) == len(tokens)
    left, name = tokens[: bracket - 1], tokens[bracket - 1] if bracket else tokens[0]
    outer = outermost(left)
    if (bracket < len(tokens) and not array) or (
        name.kind != "word" or all(token.text in _IGNORED for token in outer)
    ):
        shown = text[offset : offset + length]
        message = f"{shown!r} needs a type and a name, such as 'const float* x'"
        raise SignatureSyntaxError(message, text, offset, length)
    problem = name_problem(name.text)
    if problem:
        message = f"{problem}; a C parameter is a type and a name, such as 'const float* x'"
        raise SignatureSyntaxError(message, text, name.start, len(name.text))
    marks = [token.text for token in outer]
    stars = marks.count("*") + array
    if nullable and not stars:
        message = f"{name.text!r} is not a pointer; only pointers have '= nullptr'"
        raise SignatureSyntaxError(message, text, offset, length)
    const = stars > 0 and "const" in marks[: marks.index("*") if "*" in marks else len(marks)]
    ctype = _type_of(text, left, outer) + "*" * max(0, stars - 1)
    return CParam(ctype, name.text, pointer=stars > 0, const=const, nullable=nullable)


def _type_of(text: str, left: list[Token], outer: list[Token]) -> str:
    """Return the type before a name, without qualifiers and stars of its own."""
    offset, end = left[0].start, left[-1].end
    reference = next((token for token in outer if token.text in ("&", "&&")), None)
    if reference is not None:
        message = (
            "a declared parameter is a value or a pointer, not a reference; "
            "let the kernel take a pointer"
        )
        raise SignatureSyntaxError(message, text, reference.start)
    ignored = {token.start for token in outer if token.text in _IGNORED}
    words = [token for token in left if token.start not in ignored]
    while words and words[-1].text == "*":
        words.pop()
    name = _spelling(words)
    kinds = {token.kind for token in outer if token.text not in ("*", "::", "<")}
    opened = [index for index, token in enumerate(left) if token.text == "<" and token in outer]
    closed = all(angle_end(left, index) for index in opened)
    if not closed or kinds != {"word"} or "*" in (token.text for token in outermost(words)):
        shown = name or text[offset:end]
        raise SignatureSyntaxError(f"{shown!r} is not a C type", text, offset, end - offset)
    return normalize_ctype(name)


def _spelling(tokens: Sequence[Token]) -> str:
    """Return the text of a type with a space only where it must be, and after commas."""
    text, before = "", ""
    for token in tokens:
        kind = "word" if token.kind in ("word", "number") else token.text
        separate = before == "," or (kind == "word" and before in ("word", ">"))
        text += f" {token.text}" if separate else token.text
        before = kind
    return text


def normalize_ctype(ctype: str) -> str:
    """Return one spelling for all of C's ways to write an integer type.

    >>> normalize_ctype("long unsigned  int"), normalize_ctype("complex< float >")
    ('unsigned long', 'complex<float>')
    """
    return integer_name(ctype.split()) or _spelling([*tokens_of(ctype)])
