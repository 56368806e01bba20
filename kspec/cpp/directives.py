r"""C++ text in, its preprocessor directives out, and the headers that they name.

>>> text = '#define H "h.cuh"\n/* a */ # include /* b */ "x.cuh"\n#if __has_include(<y.cuh>)\n'
>>> [(one.word, one.operand) for one in directives_of(text)]
[('define', 'H "h.cuh"'), ('include', '"x.cuh"'), ('if', '__has_include(<y.cuh>)')]
>>> [name.text for name in header_names(text)]
['"x.cuh"', '<y.cuh>']

Comments, continued lines, digraphs and literals are read as a compiler reads them.  Conditions are
not evaluated: a directive counts even where the compiler skips it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kspec.cpp.names import leading_identifier
from kspec.cpp.tokens import newlines, tokens_of

_SPLICE = re.compile(r"\\[ \t]*\r?\n")
_LINE = re.compile(r"^[^\S\n]*(?:\#|%:|\?\?=)(?P<rest>(?:\\[ \t]*\r?\n|[^\n])*)", re.MULTILINE)
_LINE_DIRECTIVE = re.compile(r"^#line [^\n]*\n", re.MULTILINE)
_ESCAPED = re.compile(r"\\(.)")
_PARTS = re.compile(r"\s*(\w+)\s*(.*?)\s*", re.DOTALL)
_COMMENT = re.compile(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)
# A header's name, or a macro in its place.
_NAME = r'"[^"\n]+"|<[^>\n]+>'
INCLUDES = frozenset(["include", "include_next", "import"])
_INCLUDED = re.compile(rf"({_NAME}|\w+|.+)", re.DOTALL)
_CONDITIONS = frozenset(["if", "elif"])
_ASKED = re.compile(rf"\b__has_include(_next)?\s*\(\s*({_NAME})\s*\)")
_IS_NAME = re.compile(_NAME)
# Most texts have plain includes only: those are found without reading every token.
_WORDS = ("include", "import", "embed")
_PLAIN = re.compile(rf"#[ \t]*include[ \t]*({_NAME})")


class Directive(NamedTuple):
    """A line of the preprocessor.

    Attributes
    ----------
    word, operand : str
        Its name and the rest, without comments and in one line.
    start, end : int
        Its place in the text.
    """

    word: str
    operand: str
    start: int
    end: int

    def replaced(self, text: str, changes: Sequence[tuple[str, str]]) -> str:
        """Return the directive of a text with other parts, on as many lines."""
        raw = text[self.start : self.end]
        if not all(old in raw for old, _ in changes):
            raw = f"#{self.word} {self.operand}" + newlines(raw)
        for old, new in changes:
            raw = raw.replace(old, new)
        return raw


class HeaderName(NamedTuple):
    """A header that a directive names.

    Attributes
    ----------
    directive : Directive
        An ``#include`` or one of its relatives, or a condition with ``__has_include``.
    text : str
        The name in its quotes, or what stands in its place: a macro.
    is_next : bool
        Whether the search starts behind the directory of this file.
    """

    directive: Directive
    text: str
    is_next: bool

    @property
    def is_literal(self) -> bool:
        """Whether it is a name, and not a macro."""
        return self.text[0] in '"<'

    @property
    def name(self) -> str:
        """The name without its quotes."""
        return self.text[1:-1].strip()


def directives_of(text: str) -> tuple[Directive, ...]:
    """Return the directives of a text, in order."""
    code = _blanked(text)
    found = []
    for match in _LINE.finditer(code):
        parts = _PARTS.fullmatch(_SPLICE.sub("", match["rest"]))
        if parts is not None:
            end = match.start() + len(match[0].rstrip())
            found.append(Directive(parts[1], parts[2], match.start(), end))
    return tuple(found)


@functools.lru_cache(maxsize=256)
def header_names(text: str) -> tuple[HeaderName, ...]:
    """Return the headers that a text includes or asks for, in order."""
    code = _SPLICE.sub("", text)
    plain = [*_plain_includes(text)]
    if sum(map(code.count, _WORDS)) == len(plain) and "/*" not in text and 'R"' not in text:
        return tuple(HeaderName(one, one.operand, False) for one in plain)
    return tuple(name for one in directives_of(text) for name in _names(one))


def _plain_includes(text: str) -> Iterator[Directive]:
    """Yield the includes that have a line of their own, if there are no comments around them."""
    for match in _PLAIN.finditer(text):
        start = text.rfind("\n", 0, match.start()) + 1
        if not text[start : match.start()].strip(" \t"):
            yield Directive("include", match[1], start, match.end())


def _names(directive: Directive) -> list[HeaderName]:
    word, operand = directive.word, directive.operand
    if word in INCLUDES:
        match = _INCLUDED.match(operand)
        return [HeaderName(directive, match[1], word == "include_next")] if match else []
    if word == "embed":
        return [HeaderName(directive, f"embed {operand}", False)]
    if word in _CONDITIONS:
        found = _ASKED.finditer(operand)
        return [HeaderName(directive, match[2], match[1] is not None) for match in found]
    return []


def macro_definitions(text: str) -> tuple[tuple[str, str], ...]:
    """Return the macros that a text defines, each with its parameters and replacement."""
    if "define" not in _SPLICE.sub("", text):
        return ()
    defined = [one.operand for one in directives_of(text) if one.word == "define"]
    names = map(leading_identifier, defined)
    return tuple((name, one.removeprefix(name)) for name, one in zip(names, defined, strict=True))


def definitions(text: str) -> tuple[tuple[str, str], ...]:
    """Return the macros without parameters that a text defines, each with its replacement."""
    found = macro_definitions(text)
    return tuple((name, body.strip()) for name, body in found if not body.startswith("("))


def named_by(macro: str, definitions: Sequence[tuple[str, str]]) -> tuple[str, ...] | None:
    r"""Return the header names that a macro may stand for; None where that cannot be told.

    >>> named_by("H", (("H", "A"), ("A", '"a.cuh"'), ("A", "<b.cuh>")))
    ('"a.cuh"', '<b.cuh>')
    >>> named_by("NAME(3)", ())
    """
    found: dict[str, None] = {}
    pending, seen = [macro], set()
    while pending:
        word = pending.pop(0)
        if word in seen:
            continue
        seen.add(word)
        bodies = [body for name, body in definitions if name == word]
        if not bodies:
            return None
        for body in bodies:
            if _IS_NAME.fullmatch(body):
                found[body] = None
            else:
                pending.append(body)
    return tuple(found)


def line_directive(line: int, path: str) -> str:
    """Return the directive that says where the next line of a text comes from."""
    return f'#line {line} "{escaped(path)}"'


def without_line_directives(text: str) -> str:
    """Return a text without its ``#line`` directives."""
    return _LINE_DIRECTIVE.sub("", text)


def escaped(text: str) -> str:
    """Return a text as C++ spells it between quotes."""
    return text.replace("\\", "\\\\").replace('"', '\\"')


def unescaped(text: str) -> str:
    """Return the text that C++ spells so between quotes."""
    return _ESCAPED.sub(r"\1", text) if "\\" in text else text


def _blanked(text: str) -> str:
    """Return a text with spaces in place of comments, and of literals of several lines."""
    pieces, position = [], 0
    for kind, spelling, start, end in tokens_of(text, comments=True):
        if kind == "comment" or (kind == "string" and "\n" in spelling):
            blank = " " * (end - start)
        elif kind == "directive" and "/*" in spelling:
            blank = _COMMENT.sub(_blank, text[start:end])
        else:
            continue
        pieces += [text[position:start], blank]
        position = end
    return "".join([*pieces, text[position:]])


def _blank(match: re.Match[str]) -> str:
    return match[0] if match[0][0] == '"' else " " * len(match[0])
