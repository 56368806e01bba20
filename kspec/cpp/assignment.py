"""Statements in, out comes whether they set a variable in every case before they can read it.

>>> assigns_first("z", "T d = x - y; z = d * d;"), assigns_first("z", "if (x > 0) z = x;")
(True, False)
>>> assigns_first("z", "if (x > 0) z = x; else { z = 0; }")
True

`kspec.render.context` asks: outputs that an operation sets need not be loaded.  Like
`kspec.cpp.fragments` this reads tokens, not C++: where macros or the text leave a doubt, the
answer is the one that costs time and no correctness.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from enum import Enum

from kspec.cpp.brackets import group_end
from kspec.cpp.expansion import Expansion
from kspec.cpp.tokens import Token, tokens_of

_NO_MACROS = Expansion()
# Words that leave a statement's place, so that what follows may not run.
_LEAVING = frozenset({"return", "continue", "break", "goto"})
_LOOPS = frozenset({"for", "while", "switch"})
_MEMBER = frozenset({".", "->"})
_UNROLL = re.compile(r"\s*(?:#|%:)\s*pragma\s+unroll\b[^\n]*")
# What a statement follows; behind another sign, an assignment is a value too.
_BEFORE_STATEMENT = frozenset({";", "{", "}", ")", "else", "do"})


class _Does(Enum):
    """The first use of the variable by some statements."""

    NOTHING = 0
    SETS = 1
    MAY_READ = 2  # or may leave, or set in some cases only


def assigns_first(name: str, fragment: str, expansion: Expansion = _NO_MACROS) -> bool:
    """Return whether statements set `name` in every case before they can read it.

    True only where that is plain to see: a statement ``name = ...;`` that does not mention `name`
    on its right, or an ``if`` with an ``else`` that both begin so, with no way around it, and no
    macro that may stand for either.

    >>> assigns_first("y", "T t = OLD; y = t + x;", Expansion.of("#define OLD y"))
    False
    """
    try:
        return _Statements(name, expansion, [*tokens_of(fragment)]).run() is _Does.SETS
    except RecursionError:  # hundreds of blocks in each other
        return False


def only_assigns(name: str, fragment: str, expansion: Expansion = _NO_MACROS) -> bool:
    """Return whether statements have elements ``name(...)`` on the left of ``=`` and nowhere else.

    True only where that is plain to see, as for `assigns_first`.  ``#pragma unroll`` does no harm.

    >>> only_assigns("x", "x(0) = 1; x(1) = 2;"), only_assigns("x", "x(0) += 1;")
    (True, False)
    """
    tokens = [one for one in tokens_of(fragment) if not _UNROLL.fullmatch(one.text)]
    hidden = expansion.hidden(one.text for one in tokens if one.kind == "word")
    if hidden is None or name in hidden or any(one.kind == "directive" for one in tokens):
        return False
    for place, token in enumerate(tokens):
        before = tokens[place - 1].text if place else ";"
        if token.text != name or token.kind != "word" or before in (*_MEMBER, "::"):
            continue
        end = group_end(tokens, place + 1)
        opening = [one.text for one in tokens[place + 1 : place + 2]]
        behind = [one.text for one in tokens[end : end + 1]]
        if before not in _BEFORE_STATEMENT or (opening, behind) != (["("], ["="]):
            return False
    return True


class _Statements:
    """Statements that are read from left to right."""

    def __init__(self, name: str, expansion: Expansion, tokens: Sequence[Token]) -> None:
        self.name, self.expansion, self.tokens = name, expansion, tokens
        self.place = 0

    def run(self) -> _Does:
        """Return the first use of the variable."""
        does = _Does.NOTHING
        while does is _Does.NOTHING and self.place < len(self.tokens):
            does = self._statement()
        return does

    def _statement(self) -> _Does:
        first = self._peek()
        if first == "{":
            return _Statements(self.name, self.expansion, self._group()[1:-1]).run()
        if first == "if":
            return self._if()
        if first in _LOOPS:
            self.place += 1
            return _unless_nothing(self._use_by(self._group()), self._statement())
        if first == "do":
            self.place += 1
            return _unless_nothing(self._statement())  # its condition is a statement for itself
        return self._simple()

    def _if(self) -> _Does:
        self.place += 2 if self._peek(1) == "constexpr" else 1
        condition, then, other = self._use_by(self._group()), self._statement(), _Does.NOTHING
        if self._peek() == "else":
            self.place += 1
            other = self._statement()
        return then if then is other and condition is _Does.NOTHING else _Does.MAY_READ

    def _simple(self) -> _Does:
        """Return the use by a statement that ends with a semicolon, or with the text."""
        start = self.place
        while self.place < len(self.tokens) and self._peek() != ";":
            self.place = group_end(self.tokens, self.place)
        self.place += 1
        statement = self.tokens[start : self.place]
        is_set = [one.text for one in statement[:2]] == [self.name, "="]
        looked = self._use_by(statement[2:] if is_set else statement)
        return _Does.SETS if is_set and looked is _Does.NOTHING else looked

    def _use_by(self, tokens: Sequence[Token]) -> _Does:
        """Return whether tokens can have to do with the variable."""
        hidden = self.expansion.hidden(one.text for one in tokens if one.kind == "word")
        members = {b.start for a, b in itertools.pairwise(tokens) if a.text in _MEMBER}
        own = {one.text for one in tokens if one.start not in members}
        if (
            hidden is None
            or not hidden.union(own).isdisjoint({self.name, *_LEAVING})
            or any(one.kind == "directive" for one in tokens)
        ):
            return _Does.MAY_READ
        return _Does.NOTHING

    def _group(self) -> Sequence[Token]:
        """Take the brackets that follow, with all that is in them."""
        start, self.place = self.place, group_end(self.tokens, self.place)
        return self.tokens[start : self.place]

    def _peek(self, ahead: int = 0) -> str:
        place = self.place + ahead
        return self.tokens[place].text if place < len(self.tokens) else ""


def _unless_nothing(*parts: _Does) -> _Does:
    """Return the use by parts that need not run, or run again."""
    return _Does.NOTHING if {*parts} == {_Does.NOTHING} else _Does.MAY_READ
