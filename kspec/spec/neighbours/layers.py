"""An operation in, its terms out, if it is a sum: layer by layer, if it reads its window so.

>>> text = "v = 2 * u(-1, 0) + w[0] * u(0, -1) + u(0, 0) + u(0, 1) - w[1] * u(1, 0) - u(1, 2);"
>>> found = sum_of(text, "u", "v", ((1, 1), (1, 2)), Expansion())
>>> [[term.text for term in terms] for terms in found]
[['2 * u(-1, 0)'], ['w[0] * u(0, -1)', 'u(0, 0)', 'u(0, 1)'], ['w[1] * u(1, 0)', 'u(1, 2)']]

A layer of a window is what it has at one offset along its first axis: a row of two axes, a plane of
three.  ``kspec/layers.cuh`` adds the terms of a layer for all elements that it is near.  The
additions keep their order, and all sums are rounded alike.  Like `kspec.cpp.selection` this reads
tokens, not C++: where the text leaves a doubt, the answer is no.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from kspec.cpp.brackets import CLOSING, end_at
from kspec.cpp.expansion import Expansion
from kspec.cpp.tokens import Token, spelled, tokens_of
from kspec.dataclass import dataclass
from kspec.model.neighbours.windows import Reach
from kspec.spec.neighbours.windows import constant, is_alone, reads_of

_SIGNS = frozenset("+-")
# Between the signs: what binds as closely as a product, or closer.
_PRODUCTS = frozenset("*/%")
_MARKS = _PRODUCTS | {"(", "[", "<", ".", "::"}
_FEW = 9  # elements that fit into registers in any order


@dataclass(frozen=True)
class Term:
    """A term of a sum.

    Attributes
    ----------
    sign : str
        ``+`` or ``-``, which the first term may lack.
    text : str
        What is added or subtracted.
    factors : tuple of (str, str) or None
        The last two that are multiplied, for a product.
    is_plain : bool
        Whether it is a number, a variable, or one element of the window.
    """

    sign: str
    text: str
    factors: tuple[str, str] | None
    is_plain: bool


def sum_of(
    fragment: str, window: str, output: str, reach: Reach, expansion: Expansion
) -> tuple[tuple[Term, ...], ...]:
    """Return the terms of a sum that is assigned; none if the operation is another one.

    There is one group of them for each layer, or one for all where layers gain nothing.

    Parameters
    ----------
    fragment : str
        The operation.
    window, output : str
        What it reads at offsets, and what it assigns.
    reach : tuple of (int or str, int or str)
        Elements before and after along each axis of the window.
    expansion : Expansion
        Macros that may stand in the operation.
    """
    tokens = [*tokens_of(fragment)]
    if tokens and tokens[-1].text == ";":
        tokens.pop()
    words = [token.text for token in tokens if token.kind == "word"]
    plain = expansion.bodies.keys().isdisjoint(words) and expansion.hidden({*words}) is not None
    if not plain or words.count(output) != 1 or [one.text for one in tokens[:2]] != [output, "="]:
        return ()
    found = _terms(tokens[2:])
    if not found[0] or any(_mixes(one, window) for one in found):
        return ()
    terms = [_term(one, window) for one in found]
    extents = [before + 1 + after for before, after in _numbers(reach)]
    # No layer of a star has many elements.
    if _has_layers(extents, len(reach)) and 2 * words.count(window) >= math.prod(extents):
        parts = _parts(terms, window, _numbers(reach)[0][0])
        if len(parts) == extents[0]:
            return tuple(map(tuple, parts))
    return (tuple(terms),) if len(terms) > 1 else ()


def _numbers(reach: Reach) -> list[tuple[int, int]]:
    """Return the ends of a reach that are numbers on both sides, not names."""
    return [
        (before, after)
        for before, after in reach
        if isinstance(before, int) and isinstance(after, int)
    ]


def _has_layers(extents: Sequence[int], axes: int) -> bool:
    """Return whether a window has several layers, and more than registers hold in any case."""
    return (
        len(extents) == axes in (2, 3)
        and math.prod(extents) > _FEW
        and min(extents[0], extents[-1]) > 1  # columns have nothing in common
    )


def _parts(terms: Sequence[Term], window: str, before: int) -> list[list[Term]]:
    """Return the terms of each layer from `before` the element on; none in another order."""
    parts: list[list[Term]] = []
    for term in terms:
        found = _layers(term.text, window)
        if found is None or len(found) > 1:
            return []
        # A term that reads no layer may stand anywhere.
        layer = found.pop() + before if found else max(len(parts) - 1, 0)
        if layer not in (len(parts) - 1, len(parts)):
            return []
        if layer == len(parts):
            parts.append([])
        parts[-1].append(term)
    return parts


def _terms(tokens: Sequence[Token]) -> list[list[Token]]:
    """Return the terms of a sum with their signs; an empty one for another expression."""
    terms: list[list[Token]] = [[]]
    place = 0
    while place < len(tokens):
        token, end = tokens[place], end_at(tokens, place)
        if token.text in _SIGNS and _is_binary(terms[-1]):
            terms.append([])
        elif not _is_in_term(token) or (token.text == "<" and end == place + 1):  # less-than
            return [[]]
        terms[-1] += tokens[place:end]
        place = end
    return terms


def _term(tokens: Sequence[Token], window: str) -> Term:
    """Return a term that has its sign first."""
    sign = tokens[0].text if tokens[0].text in _SIGNS else ""
    rest = tokens[len(sign) :]
    operator, place = 0, 0
    while place < len(rest):
        if rest[place].text in _PRODUCTS and _is_binary(rest[:place]):
            operator = place
        place = end_at(rest, place)
    is_product = operator and rest[operator].text == "*"
    factors = spelled(rest[:operator]), spelled(rest[operator + 1 :])
    is_read = len(rest) > 1 and rest[0].text == window and end_at(rest, 1) == len(rest)
    return Term(sign, spelled(rest), factors if is_product else None, len(rest) == 1 or is_read)


def _mixes(tokens: Sequence[Token], window: str) -> bool:
    """Return whether brackets have both a product and a sum, which compilers may round once."""
    for place, token in enumerate(tokens):
        if token.text == "(" and not (place and tokens[place - 1].text == window):
            words = {one.text for one in tokens[place : end_at(tokens, place)]}
            if "*" in words and words & _SIGNS:
                return True
    return False


def _is_binary(before: Sequence[Token]) -> bool:
    """Return whether an operator has a left operand, given what stands before it."""
    return bool(before) and (before[-1].kind != "mark" or before[-1].text in CLOSING)


def _is_in_term(token: Token) -> bool:
    return token.kind in ("word", "number") or token.text in _MARKS or token.text in _SIGNS


def _layers(term: str, window: str) -> set[int] | None:
    """Return the offsets along the first axis that a term reads; None: not all are constant."""
    found = {constant(read.offsets[0][0], {}) for read in reads_of(window, term) if read.offsets}
    if is_alone(window, term):
        found.add(0)
    return None if None in found else {one for one in found if one is not None}
