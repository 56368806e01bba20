"""Counted loops of an operation: which offsets lie within the reach of a window in every turn.

>>> text = "for (int k = 1; k <= R; ++k) sum += u(-k) + u(k);"
>>> loops = counted_loops(text, {"u"}, Expansion())
>>> is_within("-k", ("R", "R"), {"R"}, loops), is_within("k + 1", ("R", "R"), {"R"}, loops)
(True, False)

Such reads need no check on the host device, which costs more than the read. Like `kspec.cpp.flow`
this reads tokens, not C++: where the text leaves a doubt, the answer is the one that costs time.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from kspec.cpp.brackets import group_end
from kspec.cpp.expansion import Expansion
from kspec.cpp.flow import changes
from kspec.cpp.fragments import code_of
from kspec.cpp.tokens import Token, tokens_of
from kspec.dataclass import dataclass

# A sum of multiples of names; the number without a name has the name "".
Sum = Mapping[str, int]

_SIGNED = frozenset(["int", "ptrdiff_t"])  # an unsigned one has no -k
_UP = frozenset(["<", "<="])
_COMPARED = frozenset(["<", "<=", ">", ">="])
_BY_VALUE = "abs"  # a function that leaves its argument alone


@dataclass(frozen=True)
class CountedLoop:
    """A ``for`` whose variable runs from one sum to another, and is not changed in between.

    Attributes
    ----------
    variable : str
        Its name.
    least, most : mapping of str to int
        Its values in the body lie between these.
    start, end : int
        Place of the body.
    """

    variable: str
    least: Sum
    most: Sum
    start: int
    end: int

    def holds(self, place: int) -> bool:
        """Return whether a place of the text is in the body."""
        return self.start <= place < self.end


def is_within(
    offset: str,
    reach: tuple[int | str, int | str],
    sizes: Collection[str],
    loops: Sequence[CountedLoop],
) -> bool:
    """Return whether an offset is within a reach, whatever the sizes are.

    False where that is not plain to see. The loops are those around it, outermost first.
    """
    found = sum_of(code_of(offset))
    if found is None:
        return False
    before, after = ({side: 1} if isinstance(side, str) else {"": side} for side in reach)
    least, most = found, found
    for loop in reversed(loops):  # bounds of inner ones may have variables of outer ones
        least, most = _extreme(least, loop, False), _extreme(most, loop, True)
    room = _added(least, before), _added(after, most, -1)
    return all(_is_positive(one, sizes) for one in room)


def _extreme(total: Sum, loop: CountedLoop, largest: bool) -> Sum:
    """Return a sum with the variable's value for which it is the largest, or the smallest."""
    factor = total.get(loop.variable, 0)
    rest = {name: one for name, one in total.items() if name != loop.variable}
    return _added(rest, loop.most if (factor > 0) is largest else loop.least, factor)


def _added(total: Sum, other: Sum, factor: int = 1) -> Sum:
    return {name: total.get(name, 0) + factor * other.get(name, 0) for name in {*total, *other}}


def _is_positive(total: Sum, sizes: Collection[str]) -> bool:
    """Return whether a sum is at least 0 whatever the sizes are; sizes are never negative."""
    return all(one == 0 or (one > 0 and (not name or name in sizes)) for name, one in total.items())


def sum_of(tokens: Sequence[Token]) -> Sum | None:
    """Return tokens as a sum; None for other expressions.

    >>> sum_of(code_of("2 * k - R + 1")) == {"k": 2, "R": -1, "": 1}
    True
    """
    total: Sum = {}
    place = 0
    while place < len(tokens):
        sign = {"+": 1, "-": -1}.get(tokens[place].text)
        if sign is None and place > 0:
            return None
        place += sign is not None
        end = place
        while end < len(tokens) and tokens[end].text not in ("+", "-"):
            end += 1
        term = _term(tokens[place:end])
        if term is None:
            return None
        total = _added(total, term, sign or 1)
        place = end
    return total or None


def _term(tokens: Sequence[Token]) -> Sum | None:
    words = [one.text for one in tokens if one.kind == "word"]
    numbers = [one.text for one in tokens if one.kind == "number"]
    marks = [one.text for one in tokens if one.kind not in ("word", "number")]
    if not all(one == "0" or (one.isdecimal() and one[0] != "0") for one in numbers):
        return None
    if len(words) > 1 or len(numbers) > 1 or marks != ["*"] * (len(tokens) // 2):
        return None
    if len(tokens) not in (1, 3) or (len(tokens) == 3 and tokens[1].text != "*"):
        return None
    return {words[0] if words else "": int(numbers[0]) if numbers else 1}


def counted_loops(text: str, reads: Collection[str], expansion: Expansion) -> list[CountedLoop]:
    """Return the counted loops of an operation, outer ones first; `reads` are windowed inputs."""
    directives = (one.text for one in tokens_of(text) if one.kind == "directive")
    if any(not one.lstrip("# \t").startswith("pragma") for one in directives):
        return []
    return list(_loops(code_of(text), text, reads, expansion))


def _loops(
    tokens: Sequence[Token], text: str, reads: Collection[str], expansion: Expansion
) -> Iterator[CountedLoop]:
    for place, token in enumerate(tokens[:-1]):
        if token.text != "for" or tokens[place + 1].text != "(":
            continue
        body = group_end(tokens, place + 1)
        end = _statement_end(tokens, body)
        head = _head(tokens[place + 2 : body - 1])
        if head is None or end > len(tokens) or body >= end:
            continue
        inside = tokens[body:end]
        variable = head[0]
        words = {one.text for one in tokens[place:end] if one.kind == "word"}
        start, stop = inside[0].start, inside[-1].end
        if (
            expansion.hidden(words.union(reads)) != frozenset()
            or _is_declared(variable, inside)
            or changes({variable}, _without_reads(text, inside, reads), expansion)
        ):
            continue
        yield CountedLoop(*head, start, stop)


def _head(tokens: Sequence[Token]) -> tuple[str, Sum, Sum] | None:
    """Return the variable of a loop, its least and its largest value."""
    parts = [*_parts(tokens)]
    if len(parts) != 3 or [len(one) > 2 for one in parts[:2]] != [True, True]:
        return None
    kind, variable, equals, *first = parts[0]
    name, compared, *last = parts[1]
    if (
        kind.text not in _SIGNED
        or equals.text != "="
        or name.text != variable.text
        or compared.text not in _COMPARED
    ):
        return None
    up = compared.text in _UP
    step = [one.text for one in parts[2]]
    single = "++" if up else "--"
    if step not in ([single, name.text], [name.text, single]):
        return None
    begin, end = sum_of(first), sum_of(last)
    if begin is None or end is None or name.text in begin or name.text in end:
        return None
    if compared.text in ("<", ">"):
        end = _added(end, {"": 1}, -1 if up else 1)
    return (name.text, begin, end) if up else (name.text, end, begin)


def _parts(tokens: Sequence[Token]) -> Iterator[Sequence[Token]]:
    """Yield the parts of a loop's head, which semicolons separate."""
    start = 0
    for place, token in enumerate(tokens):
        if token.text == ";":
            yield tokens[start:place]
            start = place + 1
    yield tokens[start:]


def _statement_end(tokens: Sequence[Token], place: int) -> int:
    """Return the index after a statement; more than their number if it does not end."""
    if place >= len(tokens):
        return len(tokens) + 1
    text = tokens[place].text
    if text == "{":
        return group_end(tokens, place)
    if text in ("for", "while", "if", "switch"):
        while place < len(tokens) and tokens[place].text != "(":
            place += 1
        place = _statement_end(tokens, group_end(tokens, min(place, len(tokens) - 1)))
        if text == "if" and place < len(tokens) and tokens[place].text == "else":
            return _statement_end(tokens, place + 1)
        return place
    while place < len(tokens) and tokens[place].text != ";":
        place = group_end(tokens, place)
    return min(place + 1, len(tokens))  # the last one need not end with a semicolon


def _is_declared(name: str, tokens: Sequence[Token]) -> bool:
    """Return whether a name may be that of another variable, too."""
    pairs = [*itertools.pairwise(tokens)]
    return any(
        (two.text == name and one.kind == "word")
        or (one.text == name and two.text == "{")
        or (one.text == "auto" and two.text in ("[", "&", "&&"))
        for one, two in pairs
    )


def _without_reads(text: str, tokens: Sequence[Token], reads: Iterable[str]) -> str:
    """Return a statement whose reads of windows are calls that take their arguments by value."""
    names = frozenset(reads)
    pieces, position = [], tokens[0].start
    for token in tokens:
        if token.kind == "word" and token.text in names:
            pieces += [text[position : token.start], _BY_VALUE]
            position = token.end
    return "".join([*pieces, text[position : tokens[-1].end]])
