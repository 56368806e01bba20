"""Python that C++ takes for something else: text of a field in, a fault for each slip out.

>>> [fault.message for fault in python_slips("operation", "y = 1/2 * x", {"x", "y"})]
["'1/2' is 0 in CUDA C++: integers give integers; write '1.0 / 2'"]

All of these compile, in CuPy too, and no value of theirs can be meant.  What does not compile is
explained by `kspec.compiler.python_words`.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Sequence

from kspec.cpp.brackets import CLOSING, OPENING, group_end, group_start, is_operand, operand_start
from kspec.cpp.flow import BY_VALUE
from kspec.cpp.fragments import code_of
from kspec.cpp.tokens import Token, spelled, tokens_of
from kspec.spec.faults import Fault

_LESS, _GREATER = frozenset(["<", "<="]), frozenset([">", ">="])
_LOGICAL = frozenset(["and", "or"])
# What ends the operands of comparisons and of logical operators.
_ENDS = frozenset([*",;?:=", "&&", "||", "==", "!=", "&", "|", "^", "<<", "return", *_LOGICAL])


def python_slips(field: str, text: str, names: Collection[str]) -> Iterator[Fault]:
    """Yield a fault for each slip of a Python author.

    Parameters
    ----------
    field : str
        The field of the spec.
    text : str
        Its CUDA C++.
    names : collection of str
        The parameters.
    """
    tokens = code_of(text)
    yield from (_fault(field, one, said) for one, said in _floor_divisions(text, names))
    for find in (_chains, _chosen_numbers, _zeros):
        yield from (_fault(field, one, said) for one, said in find(tokens))


def _fault(field: str, tokens: Sequence[Token], message: str) -> Fault:
    start = tokens[0].start
    return Fault((field,), message, start, tokens[-1].end - start)


def _floor_divisions(text: str, names: Collection[str]) -> Iterator[tuple[Sequence[Token], str]]:
    """Find ``x // 2``: a comment behind an operand that is an expression of known names itself."""
    tokens = [*tokens_of(text, comments=True)]
    for k, comment in enumerate(tokens):
        if comment.kind != "comment" or comment.text[:2] != "//" or not is_operand(tokens, k - 1):
            continue
        divisor = [*tokens_of(comment.text[2:].rstrip("; \t\r"))]
        if _is_expression(divisor, names):
            left = spelled(tokens[operand_start(tokens, k) : k])
            yield (
                [comment],
                f"'//' begins a comment in CUDA C++; write '{left} / {spelled(divisor)}', with "
                "floor() around it for floating-point numbers",
            )


def _is_expression(tokens: Sequence[Token], names: Collection[str]) -> bool:
    """Return whether tokens are numbers, names and marks in the order of an expression."""
    words = [one.text for one in tokens if one.kind == "word"]
    kinds = [one.kind for one in tokens]
    return (
        all(word in names or BY_VALUE.fullmatch(word) for word in words)
        and {*kinds} <= {"word", "number", "mark"}
        and not any({*pair} <= {"word", "number"} for pair in itertools.pairwise(kinds))
        and is_operand(tokens, len(tokens) - 1)
    )


def _comparisons(tokens: Sequence[Token]) -> list[int]:
    """Return the places of ``<`` and its like, without shifts."""
    found = []
    for k, token in enumerate(tokens):
        beside = (tokens[j] for j in (k - 1, k + 1) if 0 <= j < len(tokens))
        shifts = any(
            one.text == token.text == ">" and (one.end == token.start or one.start == token.end)
            for one in beside
        )
        if token.text in _LESS | _GREATER and not shifts:
            found.append(k)
    return found


def _chains(tokens: Sequence[Token]) -> Iterator[tuple[Sequence[Token], str]]:
    """Find ``a < b < c``; with marks of both directions there may be a template."""
    places = _comparisons(tokens)
    for k in places:
        same, other = (_LESS, _GREATER) if tokens[k].text in _LESS else (_GREATER, _LESS)
        second = _scan(tokens, k + 1)
        if second not in places or tokens[second].text not in same:
            continue
        start, end = _back(tokens, k), _scan(tokens, second + 1)
        statement = tokens[_statement_start(tokens, k) : _statement_end(tokens, k)]
        if any(one.text in other for one in statement) or not (start < k and second + 1 < end):
            continue
        first, middle = spelled(tokens[start:second]), spelled(tokens[k + 1 : second])
        rest = spelled(tokens[second:end])
        yield (
            tokens[start:end],
            f"'{first} {rest}' compares the 0 or 1 of '{first}' in CUDA C++; write "
            f"'{first} && {middle} {rest}'",
        )


def _statement_start(tokens: Sequence[Token], place: int) -> int:
    return max((k + 1 for k in range(place) if tokens[k].text in ";{}"), default=0)


def _statement_end(tokens: Sequence[Token], place: int) -> int:
    ends = (k for k in range(place, len(tokens)) if tokens[k].text in ";{}")
    return next(ends, len(tokens))


def _scan(tokens: Sequence[Token], place: int) -> int:
    """Return the index of the next comparison, or of the end of an operand of one."""
    while place < len(tokens):
        text = tokens[place].text
        if text in OPENING:
            place = group_end(tokens, place)
            continue
        if text in CLOSING or text in _ENDS or text in _LESS or text in _GREATER:
            break
        place += 1
    return place


def _back(tokens: Sequence[Token], end: int) -> int:
    """Return the index where the operand before a comparison or a logical operator begins."""
    start = end
    while start:
        text = tokens[start - 1].text
        if text in CLOSING:
            start = group_start(tokens, start - 1)
            continue
        if text in OPENING or text in _ENDS or text[-1:] == "=":
            break
        start -= 1
    return start


def _chosen_numbers(tokens: Sequence[Token]) -> Iterator[tuple[Sequence[Token], str]]:
    """Find ``x or 5``, which is the one or the other in Python and 0 or 1 in C++."""
    for k, token in enumerate(tokens):
        number = tokens[k + 1 : k + 2]
        after = tokens[k + 2].text if k + 2 < len(tokens) else ";"
        start = _back(tokens, k)
        if token.text not in _LOGICAL or not number or number[0].kind != "number":
            continue
        if after not in _ENDS | CLOSING or start != operand_start(tokens, k):
            continue
        value, other = spelled(tokens[start:k]), number[0].text
        chosen = (value, other) if token.text == "or" else (other, value)
        said = spelled(tokens[start : k + 2])
        better = f"{value} ? {chosen[0]} : {chosen[1]}"
        yield tokens[start : k + 2], f"'{said}' is 0 or 1 in CUDA C++; write '{better}'"


def _zeros(tokens: Sequence[Token]) -> Iterator[tuple[Sequence[Token], str]]:
    """Find ``1 / 2``, which is 0 in C++."""
    for k in range(1, len(tokens) - 1):
        above, below = tokens[k - 1].text, tokens[k + 1].text
        before = tokens[k - 2].text if k > 1 else ""
        whole = above.isdecimal() and below.isdecimal() and before not in ("*", "/", "%")
        if tokens[k].text == "/" and whole and 0 < int(above) < int(below):
            said = spelled(tokens[k - 1 : k + 2])
            better = f"{above}.0 / {below}"
            reason = "integers give integers"
            yield tokens[k - 1 : k + 2], f"'{said}' is 0 in CUDA C++: {reason}; write '{better}'"
