"""Statements in, out comes whether they set a variable before they read it, or read it first.

>>> assigns_first("z", "T d = x - y; z = d * d;"), assigns_first("z", "if (x > 0) z = x;")
(True, False)
>>> assigns_first("z", "if (x > 0) z = x; else { z = 0; }")
True
>>> reads_first("z", "z += x;"), reads_first("z", "if (old) z += x; else z = x;")
(True, False)

`kspec.render.context` asks: outputs that an operation sets need not be loaded; and
`kspec.spec.outputs`: those that it reads first must be given.  Like
`kspec.cpp.fragments` this reads tokens, not C++: where macros or the text leave a doubt, the
answer is the one that costs time and no correctness.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from enum import Enum

from kspec.cpp.brackets import group_end
from kspec.cpp.declarations import parse_declaration
from kspec.cpp.expansion import Expansion
from kspec.cpp.flow import leaves, surely_reads
from kspec.cpp.tokens import Token, tokens_of

_NO_MACROS = Expansion()
# Words that leave a statement's place, so that what follows may not run.
_LEAVING = frozenset({"return", "continue", "break", "goto"})
_LOOPS = frozenset({"for", "while", "switch"})
# Operators that read what they assign to; the tokens of ``>>=`` are two.
_UPDATING = frozenset(["+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<="])
_COUNTING = frozenset(["++", "--"])
_MEMBER = frozenset({".", "->"})
_NO_TYPES = frozenset({*_LEAVING, "delete", "throw", "new", "else", "case"})
_UNROLL = re.compile(r"\s*(?:#|%:)\s*pragma\s+unroll\b[^\n]*")
# What a statement follows; behind another sign, an assignment is a value too.
_BEFORE_STATEMENT = frozenset({";", "{", "}", ")", "else", "do"})


class _Does(Enum):
    """The first use of the variable by some statements."""

    NOTHING = 0
    SETS = 1
    READS = 2
    HIDES = 3  # declares another variable of that name
    MAY_READ = 4  # or may leave, or set or read in some cases only


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


def reads_first(name: str, fragment: str, expansion: Expansion = _NO_MACROS) -> bool:
    """Return whether statements read `name` before they can set it.

    True only where that is plain to see: the first statement that mentions `name` reads it, however
    the conditions around it turn out.

    >>> reads_first("y", "auto t = y; y = t + x;"), reads_first("y", "y = old ? y + x : x;")
    (True, False)
    """
    try:
        return _Statements(name, expansion, [*tokens_of(fragment)]).run() is _Does.READS
    except RecursionError:
        return False


def never_assigns(name: str, fragment: str, expansion: Expansion = _NO_MACROS) -> bool:
    """Return whether statements leave `name` as it is, or set another variable of that name only.

    True only where that is plain to see.

    >>> [never_assigns("y", text) for text in ("T z = x * x", "T y = x * x", "f(x, y)")]
    [True, True, False]
    """
    try:
        does = _Statements(name, expansion, [*tokens_of(fragment)]).run()
    except RecursionError:
        return False
    return does is _Does.HIDES or leaves(name, fragment, expansion)


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
            does = _Statements(self.name, self.expansion, self._group()[1:-1]).run()
            return _Does.MAY_READ if does is _Does.HIDES else does
        if first == "if":
            return self._if()
        if first in _LOOPS:
            self.place += 1
            # The last part of a `for` runs after the body.
            header = self._use_by(self._group(), is_read=first != "for")
            return _looped(header, self._statement(), surely=first != "switch")
        if first == "do":
            self.place += 1  # its condition is a statement for itself
            return _looped(_Does.NOTHING, self._statement(), surely=True)
        return self._simple()

    def _if(self) -> _Does:
        self.place += 2 if self._peek(1) == "constexpr" else 1
        condition = self._use_by(self._group(), is_read=True)
        then, other = self._statement(), _Does.NOTHING
        if self._peek() == "else":
            self.place += 1
            other = self._statement()
        if condition is not _Does.NOTHING:
            return condition
        return then if then is other and then is not _Does.HIDES else _Does.MAY_READ

    def _simple(self) -> _Does:
        """Return the use by a statement that ends with a semicolon, or with the text."""
        start = self.place
        while self.place < len(self.tokens) and self._peek() != ";":
            self.place = group_end(self.tokens, self.place)
        statement = self.tokens[start : self.place]
        self.place += 1
        words = [one.text for one in statement]
        if words[:2] == [self.name, "="]:
            used = self._use_by(statement[2:], is_read=True)
            return _Does.SETS if used is _Does.NOTHING else used
        if self._updates(statement):
            used = self._use_by(statement[words.index(self.name) + 1 :], is_read=True)
            return _Does.READS if used is _Does.NOTHING else used
        if self.name in words and self._declares(statement):
            return _Does.HIDES
        is_assignment = "=" in words or not _UPDATING.isdisjoint(words)
        return self._use_by(statement, is_read=is_assignment)

    def _declares(self, statement: Sequence[Token]) -> bool:
        """Return whether a statement declares a variable of the same name, before it reads any."""
        words = {one.text for one in statement}
        found = parse_declaration(statement) if words.isdisjoint(self.expansion.bodies) else None
        if found is None or self.expansion.hidden(words) is None:
            return False
        if not _NO_TYPES.isdisjoint(found.type.split()):
            return False
        first = found.declarators[0]
        is_call = first.tokens[0].text == "("
        return first.name == self.name and not (first.is_function or is_call)

    def _updates(self, statement: Sequence[Token]) -> bool:
        """Return whether a statement updates the variable or an element of it: ``name[0] += x``."""
        words = [one.text for one in statement]
        start = len(_COUNTING.intersection(words[:1]))
        if words[start : start + 1] != [self.name]:
            return False
        end = start + 1
        while end < len(words) and words[end] in (".", "(", "["):
            end = end + 2 if words[end] == "." else group_end(statement, end)
        operator, operand = words[end : end + 1], words[end + 1 :]
        if start or not operator or operator[0] in _COUNTING:
            return len(operator) == 1 - start and not operand
        return operator[0] in _UPDATING or (operator[0] == ">" and operand[:1] == [">="])

    def _use_by(self, tokens: Sequence[Token], is_read: bool = False) -> _Does:
        """Return the use by tokens, of which `is_read` tells that they are evaluated as a value."""
        hidden = self.expansion.hidden(one.text for one in tokens if one.kind == "word")
        members = {b.start for a, b in itertools.pairwise(tokens) if a.text in _MEMBER}
        own = {one.text for one in tokens if one.start not in members}
        if (
            hidden is None
            or self.name in hidden
            or not hidden.union(own).isdisjoint(_LEAVING)
            or any(one.kind == "directive" for one in tokens)
        ):
            return _Does.MAY_READ
        if self.name not in own:
            return _Does.NOTHING
        conditional = tokens[0].text in self.expansion.bodies  # a macro may be, or hide, anything
        reads = is_read and not conditional and surely_reads(self.name, tokens, self.expansion)
        return _Does.READS if reads else _Does.MAY_READ

    def _group(self) -> Sequence[Token]:
        """Take the brackets that follow, with all that is in them."""
        start, self.place = self.place, group_end(self.tokens, self.place)
        return self.tokens[start : self.place]

    def _peek(self, ahead: int = 0) -> str:
        place = self.place + ahead
        return self.tokens[place].text if place < len(self.tokens) else ""


def _looped(header: _Does, body: _Does, surely: bool) -> _Does:
    """Return the use by a loop or a switch; `surely`: its body begins at its beginning."""
    if header is _Does.READS or {header, body} == {_Does.NOTHING}:
        return header
    reads = surely and header is _Does.NOTHING and body is _Does.READS
    return _Does.READS if reads else _Does.MAY_READ
