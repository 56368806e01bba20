"""Statements in, out comes whether they only select: minima and maxima of the elements they read.

>>> names = Names(windows=("u",), outputs=("v",), types=(("T",),))
>>> only_selects("T low = min(u(-1), u(0)); v = max(low, u(1));", names)
True
>>> only_selects("v = min(u(-1), u(0)) + 1", names)
False

Such statements give each of two elements the same result as alone, so that one instruction may take
both.  `kspec.render.pairs` asks.  Like its neighbours this reads tokens, not C++: where the text
leaves a doubt, the answer is no.
"""

from __future__ import annotations

from collections.abc import Sequence

from kspec.cpp.brackets import group_end, split_at_commas
from kspec.cpp.expansion import Expansion
from kspec.cpp.tokens import Token, tokens_of
from kspec.dataclass import dataclass

_NO_MACROS = Expansion()
_CHOICES = frozenset({"min", "max"})
_SIGNS = frozenset("+-*")
_DEPTH = 64  # of calls in each other: no operation has as many


@dataclass(frozen=True)
class Names:
    """Names that statements may use.

    Attributes
    ----------
    windows, inputs, outputs : tuple of str
        Inputs that are read at offsets, other inputs, and outputs. All have the same type.
    types : tuple of tuple of str
        Spellings of that type, word by word; ``auto`` is one in any case.
    sizes : tuple of str
        Integers that the compiler knows.
    """

    windows: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    types: tuple[tuple[str, ...], ...] = ()
    sizes: tuple[str, ...] = ()


def only_selects(fragment: str, names: Names, expansion: Expansion = _NO_MACROS) -> bool:
    """Return whether statements consist of declarations and assignments of selected elements.

    An expression is a variable, a window at constant offsets, or ``min`` or ``max`` of two
    expressions.  Outputs are read after they are set only.

    >>> only_selects("v = v", Names(outputs=("v",)))
    False
    """
    tokens = [*tokens_of(fragment)]
    words = {token.text for token in tokens if token.kind == "word"}
    plain = words.isdisjoint(expansion.bodies) and expansion.hidden(words) is not None
    return plain and _Selection(names).select(tokens)


def with_auto(fragment: str, names: Names) -> str:
    """Return statements that only select, with ``auto`` in place of the type of their elements.

    >>> with_auto("const T a = u(1);  // T", Names(types=(("T",),)))
    'const auto a = u(1);  // T'
    """
    tokens = [*tokens_of(fragment)]
    words = [token.text for token in tokens]
    pieces, position, place = [], 0, 0
    while place < len(tokens):
        length = _type_length(words[place:], names)
        if length:
            pieces += [fragment[position : tokens[place].start], "auto"]
            position = tokens[place + length - 1].end
        place += length or 1
    return "".join([*pieces, fragment[position:]])


def _type_length(words: Sequence[str], names: Names) -> int:
    """Return the number of words at the beginning that spell the type of elements."""
    spellings = (one for one in (*names.types, ("auto",)) if (*words[: len(one)],) == one)
    return len(next(spellings, ()))


class _Selection:
    """Statements that are read from left to right, and the variables they have set."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.readable = {*names.inputs, *names.windows}
        self.writable = {*names.outputs}
        every = (*names.windows, *names.inputs, *names.outputs, *names.sizes, *_CHOICES)
        self.taken = {*every, *(word for one in names.types for word in one)}

    def select(self, tokens: Sequence[Token]) -> bool:
        """Return whether all statements only select, and set every output."""
        start = 0
        for place, token in enumerate(tokens):
            if token.text == ";":
                if start < place and not self._statement(tokens[start:place]):
                    return False
                start = place + 1
        # The last one need not end with a semicolon.
        ends = start == len(tokens) or self._statement(tokens[start:])
        return ends and self.readable.issuperset(self.names.outputs)

    def _statement(self, tokens: Sequence[Token]) -> bool:
        words = [token.text for token in tokens]
        const = words[0] == "const"
        length = _type_length(words[const:], self.names)
        if length:
            return all(
                self._declaration(part, const) for part in split_at_commas(tokens[const + length :])
            )
        return not const and words[0] in self.writable and self._assignment(tokens)

    def _declaration(self, tokens: Sequence[Token], const: bool) -> bool:
        if not tokens or tokens[0].kind != "word" or tokens[0].text in self.taken:
            return False
        self.taken.add(tokens[0].text)
        if not self._assignment(tokens):
            return False
        self.writable |= set() if const else {tokens[0].text}
        return True

    def _assignment(self, tokens: Sequence[Token]) -> bool:
        if len(tokens) < 3 or tokens[1].text != "=" or not self._selects(tokens[2:]):
            return False
        self.readable.add(tokens[0].text)
        return True

    def _selects(self, tokens: Sequence[Token], depth: int = 0) -> bool:
        """Return whether an expression is one element, or chosen from some."""
        if not tokens or depth > _DEPTH:
            return False
        name, bracket = tokens[0].text, tokens[1].text if len(tokens) > 1 else ""
        if len(tokens) == 1:
            return name in self.readable
        if name == "(" and group_end(tokens, 0) == len(tokens):
            return self._selects(tokens[1:-1], depth + 1)
        if bracket != "(" or group_end(tokens, 1) != len(tokens):
            return False
        items = split_at_commas(tokens[2:-1])
        if name in _CHOICES:
            return len(items) == 2 and all(self._selects(item, depth + 1) for item in items)
        return name in self.names.windows and all(map(self._is_offset, items))

    def _is_offset(self, tokens: Sequence[Token]) -> bool:
        return bool(tokens) and all(
            token.kind == "number" or token.text in _SIGNS or token.text in self.names.sizes
            for token in tokens
        )
