"""Code in, HTML out, in which each sort of token has a class; the page has their colours.

>>> print(highlight("x = 1  # one", "python"))
x = <b class="num">1</b>  <b class="com"># one</b>

Pygments finds the tokens.  Its hundred sorts become the few that a reader tells apart, so one page
needs a line of colours for light and one for dark.  `kspec.build.package.markup` has the prose.
"""

from __future__ import annotations

import functools
import html
import itertools
from collections.abc import Iterator
from typing import Any

from pygments.lexers import get_lexer_by_name
from pygments.token import Comment, Generic, Keyword, Name, Number, String

from kspec.dataclass import dataclass

# Sort of token to its class; a sort that is not here has that of the next one above it, or none.
_CLASSES = {
    Comment: "com",
    Comment.Preproc: "pre",
    Comment.PreprocFile: "str",
    Generic.Prompt: "com",
    Generic.Output: "com",
    Keyword: "key",
    Keyword.Type: "type",
    Name.Builtin: "type",
    Name.Class: "name",
    Name.Decorator: "pre",
    Name.Function: "name",
    Name.Variable: "type",  # threadIdx and its like
    Number: "num",
    String: "str",
}
CLASSES = tuple(sorted(set(_CLASSES.values())))


@dataclass(frozen=True)
class Html:
    """Text that is HTML already: templates print it as it is, and escape strings."""

    text: str

    def __html__(self) -> str:
        return self.text

    def __str__(self) -> str:
        return self.text

    def __bool__(self) -> bool:
        return bool(self.text)


@dataclass(frozen=True)
class Code:
    """Code of a language: templates print it in colours."""

    text: str
    language: str

    def __html__(self) -> str:
        return highlight(self.text, self.language).text

    def __bool__(self) -> bool:
        return bool(self.text)


def escaped(text: str) -> str:
    """Return the HTML of a text that has no markup."""
    return html.escape(text, quote=False)


def highlight(code: str, language: str) -> Html:
    """Return code as HTML.

    Parameters
    ----------
    code : str
        Anything; where it is not of the language, it has no colours.
    language : str
        A name that Pygments knows, such as ``"cuda"``.
    """
    runs = itertools.groupby(_tokens(code, language), key=lambda token: token[0])
    parts = [(name, "".join(text for _, text in run)) for name, run in runs]
    if parts and not code.endswith("\n"):  # the lexer's last line always ends
        name, text = parts.pop()
        parts.append((name, text[:-1]))
    return Html("".join(_tagged(name, text) for name, text in parts if text))


def _tokens(code: str, language: str) -> Iterator[tuple[str, str]]:
    """Yield class and text of every token; blanks are without a class."""
    for sort, text in _lexer(language).get_tokens(code):
        yield _class_of(sort) if text.strip() else "", text


def _class_of(sort: Any) -> str:
    while sort not in _CLASSES:
        if sort.parent is None:
            return ""
        sort = sort.parent
    return _CLASSES[sort]


@functools.cache
def _lexer(language: str) -> Any:
    return get_lexer_by_name(language, stripnl=False)


def _tagged(name: str, text: str) -> str:
    return f'<b class="{name}">{escaped(text)}</b>' if name else escaped(text)
