"""C++ text in, tokens out.

>>> [token.text for token in tokens_of('auto s = "a // b"; /* note */ x <<= 2;')]
['auto', 's', '=', '"a // b"', ';', 'x', '<<=', '2', ';']

A preprocessor directive is one token.  Digraphs are spelled as the marks that they stand for.
``>`` is always a token of its own, for it may close a template argument list.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

_TOKEN = re.compile(
    r"""(?P<plain>(?![uULR])[^\W\d][\w$]*)|(?P<bracket>[][(){};,])  # first what comes most often
      | (?P<comment>//(?:\\\r?\n|[^\n])*|/\*.*?(?:\*/|\Z))
      | (?P<string>(?:u8|[uUL])?(?:R"(?P<raw>[^()\\\s]{0,16})\(.*?\)(?P=raw)"|"(?:\\.|[^"\\\n])*"))
      | (?P<char>(?:u8|[uUL])?'(?:\\.|[^'\\\n])+')
      | (?P<directive>^[ \t]*(?:\#|%:)
          (?:\\\r?\n|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|(?!//|/\*)[^\n])*)
      | (?P<word>[^\W\d][\w$]*)
      | (?P<number>\.?\d(?:[eEpP][+-]|'(?=\w)|[\w.])*)
      | (?P<digraph><%|%>|<:(?!:[^:>])|:>)
      | (?P<mark><<<|<<=|<=>|->\*|\.\.\.|<<|<=|>=(?!=)|::|->|\+\+|--|&&|\|\||[=!]=|[-+*/%&|^]=|\#\#
          |[^\s\w\\]|\\(?!\r?\n))""",
    re.S | re.X | re.M,
)
# For groups that are not named for a kind; the one inside of "string" closes last.
_KINDS = {"plain": "word", "bracket": "mark", "raw": "string", "digraph": "mark"}
_DIGRAPHS = {"<%": "{", "%>": "}", "<:": "[", ":>": "]"}


class Token(NamedTuple):
    """A piece of text and where it stands.

    Attributes
    ----------
    kind : str
        ``string``, ``char``, ``directive``, ``word``, ``number``, ``mark`` or ``comment``.
    text : str
        Its spelling; that of a digraph is the mark that it stands for.
    start, end : int
        Its place in the text.
    """

    kind: str
    text: str
    start: int
    end: int


def tokens_of(
    text: str, comments: bool = False, start: int = 0, end: int | None = None
) -> Iterator[Token]:
    """Yield the tokens of a text.

    Parameters
    ----------
    text : str
        C++, whole or in pieces. A quote that is not closed is a ``mark``.
    comments : bool
        Whether comments are yielded too.
    start, end : int
        The part of the text that is read.
    """
    new = tuple.__new__  # Token() would take twice the time
    for match in _TOKEN.finditer(text, start, len(text) if end is None else end):
        group = match.lastgroup or ""
        if group != "comment" or comments:
            spelling = _DIGRAPHS[match[0]] if group == "digraph" else match[0]
            yield new(Token, (_KINDS.get(group, group), spelling, *match.span()))


def spelled(tokens: Sequence[Token]) -> str:
    r"""Return the text of tokens on one line, joined where they were.

    >>> spelled([*tokens_of("x>>2  // two")]), spelled([*tokens_of("a  ::\n b")])
    ('x>>2', 'a :: b')
    """
    pieces: list[str] = []
    end = tokens[0].start if tokens else 0
    for token in tokens:
        pieces += [token.text] if token.start == end else [" ", token.text]
        end = token.end
    return "".join(pieces)


def newlines(text: str) -> str:
    """Return the line ends of a text, to keep line numbers where it is replaced."""
    return "\n" * text.count("\n")
