"""The tokens of C++ text, and questions about short runs of them.

>>> [token.text for token in tokens_of("int x; // no comment")]
['int', 'x', ';']

`kspec.compiler.rewrite` walks over them. A preprocessor directive is one token.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

TOKEN = re.compile(
    r"""(?P<comment>//(?:\\\n|[^\n])*|/\*.*?\*/)
      | (?P<string>(?:u8|[uUL])?(?:R"(?P<raw>[^()\\\s]{0,16})\(.*?\)(?P=raw)"|"(?:\\.|[^"\\\n])*"))
      | (?P<char>'(?:\\.|[^'\\\n])+')
      | (?P<directive>^[ \t]*\#(?:\\\n|/\*.*?\*/|(?!//)[^\n])*)
      | (?P<word>[A-Za-z_]\w*)
      | (?P<number>\.?\d(?:[eEpP][+-]|'(?=\w)|[\w.])*)
      | (?P<mark><<<|::|->|[^\s\w])""",
    re.S | re.X | re.M,
)
# Words followed by a parenthesis that belongs to them and not to a parameter list.
ATTRIBUTES = ("__align__", "alignas", "__attribute__", "__launch_bounds__", "__cluster_dims__")


@dataclass(frozen=True)
class Token:
    """A piece of text: kind ``string``, ``char``, ``directive``, ``word``, ``number``, ``mark``."""

    kind: str
    text: str
    start: int
    end: int


def tokens_of(text: str) -> Iterator[Token]:
    """Yield the tokens of a text without its comments."""
    for match in TOKEN.finditer(text):
        if match.lastgroup == "raw":  # the group inside "string" closes last
            yield Token("string", match.group(), match.start(), match.end())
        elif match.lastgroup != "comment":
            yield Token(match.lastgroup or "", match.group(), match.start(), match.end())


def newlines(text: str) -> str:
    """Return the line ends of a text, to keep line numbers where it is replaced."""
    return "\n" * text.count("\n")


def group_end(tokens: list[Token], start: int) -> int:
    """Return the index after the parenthesis that closes the one at `start`."""
    depth = 0
    for index in range(start, len(tokens)):
        depth += {"(": 1, ")": -1}.get(tokens[index].text, 0)
        if depth == 0:
            return index + 1
    return len(tokens)


def attribute_start(tokens: list[Token], end: int) -> int:
    """Return where the attribute that ends before `end` begins, or `end`."""
    depth = 0
    for index in range(end - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(tokens[index].text, 0)
        if depth == 0:
            return index - 1 if index and tokens[index - 1].text in ATTRIBUTES else end
    return end


def without_attributes(tokens: list[Token]) -> list[Token]:
    """Return the tokens without attributes such as ``__launch_bounds__(256)``."""
    kept: list[Token] = []
    index = 0
    while index < len(tokens):
        if tokens[index].text in ATTRIBUTES:
            index = group_end(tokens, index + 1)
        else:
            kept.append(tokens[index])
            index += 1
    return kept


def split_at_commas(tokens: list[Token]) -> list[list[Token]]:
    """Split at the commas outside all brackets."""
    parts: list[list[Token]] = [[]]
    depth = 0
    for token in tokens:
        depth += {"(": 1, "[": 1, "{": 1, "<": 1, ")": -1, "]": -1, "}": -1, ">": -1}.get(
            token.text, 0
        )
        if token.text == "," and depth == 0:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def name_index(tokens: list[Token]) -> int:
    """Return the index of the declared name: the last word before the dimensions, or -1."""
    depth, found = 0, -1
    for index, token in enumerate(tokens):
        if depth == 0 and token.text in ("[", "="):
            break
        depth += {"(": 1, "<": 1, ")": -1, ">": -1}.get(token.text, 0)
        if depth == 0 and token.kind == "word":
            found = index
    return found
