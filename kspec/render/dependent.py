"""Code that was written for known types in, code that a C++ template may contain out.

>>> with_dependent_words("using I = decltype(x)::index_t; I k = p.at<0>(); T::part v = x[k];")
'using I = typename decltype(x)::index_t; I k = p.template at<0>(); typename T::part v = x[k];'

In a template the members of a parameter's type are unknown: a qualified name is a value, and ``<``
after a member less-than, unless a word says otherwise. CuPy's fragments are not in a template.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from kspec.cpp.brackets import angle_end, group_end
from kspec.cpp.tokens import Token, tokens_of

_FIELD_BY_NUMBER = re.compile(r"(\.|->)(\s*at\s*<[^<>;()]*>\s*\()")
_QUALIFIERS = frozenset(["const", "constexpr", "static", "volatile"])
_OPERATORS = frozenset(
    ["and", "and_eq", "bitand", "bitor", "not_eq", "or", "or_eq", "xor", "xor_eq"]
)
_CASTS = frozenset(["const_cast", "dynamic_cast", "reinterpret_cast", "static_cast"])
_POINTERS = frozenset(["*", "&", "&&"])
_NOT_BEFORE = frozenset(
    ["typename", "template", "class", "struct", "enum", "::", ".", "->", "namespace"]
)
_BEFORE_STATEMENTS = frozenset(";{}")
_CLOSED = frozenset([")", "]", ">"])
_NOTHING = Token("mark", ";", 0, 0)


def with_dependent_words(text: str) -> str:
    """Return a fragment with ``typename`` and ``template`` where a C++ template needs them."""
    text = _FIELD_BY_NUMBER.sub(r"\1template \2", text)
    if "::" not in text:
        return text
    tokens = [*tokens_of(text)]
    pieces, position, index = [], 0, 0
    while index < len(tokens):
        end = _dependent_end(tokens, index)
        if end and _is_type(tokens, index, end):
            pieces.append(text[position : tokens[index].start])
            position = tokens[index].start
            pieces.append("typename ")
        index = end or index + 1
    return "".join([*pieces, text[position:]])


def as_type(text: str) -> str:
    """Return the same of a type.

    >>> as_type("T::value_type"), as_type("float")
    ('typename T::value_type', 'float')
    """
    return with_dependent_words(f"{text} a")[:-2]


def _dependent_end(tokens: Sequence[Token], start: int) -> int:
    """Return the index after a qualified name that may depend on a type placeholder, else 0."""
    if start and tokens[start - 1].text in _NOT_BEFORE:
        return 0
    first, index, parts = tokens[start].text, start, 0
    dependent = first == "decltype" or (len(first) == 1 and first.isupper())
    while index < len(tokens) and tokens[index].kind == "word":
        after = index + 1
        if first == "decltype" and index == start:
            after = group_end(tokens, after) if after < len(tokens) else after
        elif _text(tokens, after) == "<":
            after = angle_end(tokens, after) or after
            dependent = dependent or (after > index + 1 and _text(tokens, after) == "::")
        parts += 1
        if _text(tokens, after) != "::":
            return after if dependent and parts > 1 else 0
        index = after + 1 + (_text(tokens, after + 1) == "template")
    return 0


def _is_type(tokens: Sequence[Token], start: int, end: int) -> bool:
    """Return whether a qualified name can only be a type where it stands."""
    after = tokens[end] if end < len(tokens) else _NOTHING
    begin = start
    while begin and tokens[begin - 1].text in _QUALIFIERS:
        begin -= 1
    before = [token.text for token in tokens[max(0, begin - 3) : begin]]
    last = before[-1] if before else ";"
    if after.kind == "word" and after.text not in _OPERATORS:
        return True
    if last == "typedef" or (last == "=" and before[0] == "using"):
        return True
    if last == "<":
        return before[-2] in _CASTS
    if after.text in _POINTERS:
        follows = tokens[end + 1].kind if end + 1 < len(tokens) else ""
        return follows == "word" and (begin < start or last in _BEFORE_STATEMENTS)
    if (
        last == "(" and after.text == ")" and end + 1 < len(tokens)
    ):  # a cast, or `if (T::flag) y = 1`
        opener = before[-2] if len(before) > 1 else ";"
        is_group = opener == "return" or not (opener.isidentifier() or opener in _CLOSED)
        return is_group and tokens[end + 1].kind in ("word", "number")
    return False


def _text(tokens: Sequence[Token], index: int) -> str:
    return tokens[index].text if index < len(tokens) else ""
