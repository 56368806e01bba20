"""Tokens in, the ends of groups out: brackets, template argument lists, items between commas.

>>> from kspec.cpp.tokens import spelled, tokens_of
>>> [spelled(item) for item in split_at_commas([*tokens_of("a<b, c> x, y(1, 2)")])]
['a<b, c> x', 'y(1, 2)']
"""

from __future__ import annotations

from collections.abc import Sequence

from kspec.cpp.tokens import Token

_DEPTH = {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}
OPENING = frozenset("([{")
CLOSING = frozenset(")]}")
_KEYWORDS = frozenset(["return", "else", "case", "do"])  # before an operand


def group_end(tokens: Sequence[Token], start: int) -> int:
    """Return the index after the bracket that closes the one at `start`, at most their number."""
    depth = 0
    for index in range(start, len(tokens)):
        depth += _DEPTH.get(tokens[index].text, 0)
        if depth == 0:
            return index + 1
    return len(tokens)


def call_start(tokens: Sequence[Token]) -> int:
    """Return the index where an expression such as ``a[i].f().g`` begins that ends the tokens."""
    start = len(tokens) - 1
    while start > 1 and tokens[start - 1].text in (".", "->", "::"):
        before = start - 2
        while before > 0 and tokens[before].text in CLOSING:
            before = group_start(tokens, before) - 1
        if before < 0 or tokens[before].kind != "word":
            break
        start = before
    return start


def group_start(tokens: Sequence[Token], end: int) -> int:
    """Return the index of the bracket that the one at `end` closes, at least 0."""
    depth = 0
    for index in range(end, -1, -1):
        depth -= _DEPTH.get(tokens[index].text, 0)
        if depth == 0:
            return index
    return 0


def angle_end(tokens: Sequence[Token], start: int) -> int:
    """Return the index after the ``>`` that closes the ``<`` at `start`; 0 if that is less-than."""
    return _angle_end(tokens, start, True) or _angle_end(tokens, start, False)


def _angle_end(tokens: Sequence[Token], start: int, nested: bool) -> int:
    """Find the closing ``>``; a further ``<`` after a word opens a list only if `nested`."""
    depth, index = 0, start
    while index < len(tokens):
        text = tokens[index].text
        if text in OPENING:
            index = group_end(tokens, index)
            continue
        if text in CLOSING or text == ";":
            return 0
        if text == "<":
            depth += index == start or (nested and tokens[index - 1].kind == "word")
        elif text == ">":
            depth -= 1
            if depth == 0:
                return index + 1
        index += 1
    return 0


def end_at(tokens: Sequence[Token], start: int) -> int:
    """Return the index after the token at `start` and all that it opens."""
    text = tokens[start].text
    if text in OPENING:
        return group_end(tokens, start)
    if text == "<" and start and tokens[start - 1].kind == "word":
        return angle_end(tokens, start) or start + 1
    return start + 1


def split_at_commas(tokens: Sequence[Token]) -> list[list[Token]]:
    """Split at the commas outside of brackets and template argument lists."""
    parts: list[list[Token]] = [[]]
    index = 0
    while index < len(tokens):
        if tokens[index].text == ",":
            parts.append([])
            index += 1
            continue
        end = end_at(tokens, index)
        parts[-1] += tokens[index:end]
        index = end
    return parts


def outermost(tokens: Sequence[Token]) -> list[Token]:
    """Return the tokens outside of brackets and template argument lists, opening ones included."""
    found: list[Token] = []
    index = 0
    while index < len(tokens):
        found.append(tokens[index])
        index = end_at(tokens, index)
    return found


def is_operand(tokens: Sequence[Token], place: int) -> bool:
    """Return whether a token may end an operand."""
    if place < 0:
        return False
    token = tokens[place]
    return token.text in (")", "]") or (
        token.kind in ("word", "number") and token.text not in _KEYWORDS
    )


def operand_start(tokens: Sequence[Token], end: int) -> int:
    """Return the index where an operand such as ``a.f(x)[i]`` begins that ends before `end`."""
    start = end - 1
    while start > 0:
        if tokens[start].text in CLOSING:
            start = group_start(tokens, start)
            if not is_operand(tokens, start - 1):
                break
            start -= 1
        elif start > 1 and tokens[start - 1].text in (".", "->", "::"):
            start -= 2
        else:
            break
    return max(0, start)


def operand_end(tokens: Sequence[Token], start: int) -> int:
    """Return the index after an operand that begins at `start`, with its sign."""
    end = start + (start < len(tokens) and tokens[start].text in ("-", "+", "!"))
    if end < len(tokens) and tokens[end].text in OPENING:
        return group_end(tokens, end)
    end += 1
    while end < len(tokens) and tokens[end].text in (".", "->", "::", "(", "["):
        end = group_end(tokens, end) if tokens[end].text in OPENING else end + 2
    return min(end, len(tokens))


def expression_start(tokens: Sequence[Token], end: int) -> int:
    """Return the index where an expression begins that ends before `end`."""
    start = end
    while start and tokens[start - 1].text not in (*"=(,;{}[", "return", "+=", "-=", "*=", "/="):
        start = group_start(tokens, start - 1) if tokens[start - 1].text in CLOSING else start - 1
    return start


def expression_end(tokens: Sequence[Token], start: int) -> int:
    """Return the index after an expression that begins at `start`."""
    end = start
    while end < len(tokens) and tokens[end].text not in (*",;", *CLOSING):
        end = group_end(tokens, end) if tokens[end].text in OPENING else end + 1
    return end
