"""The flow between basic blocks in, its loops out.

>>> [sorted(one.body) for one in find_loops([[1], [2], [1, 3], []])]
[[1, 2]]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kspec.dataclass import dataclass

Flow = Sequence[Sequence[int]]  # of each basic block, those that may follow; it begins at 0


@dataclass(frozen=True)
class NaturalLoop:
    """A loop: where it begins, its basic blocks, and those of them that go back."""

    header: int
    body: frozenset[int]
    latches: frozenset[int]


def find_loops(
    flow: Flow, visits: Mapping[tuple[int, int], int] | None = None
) -> list[NaturalLoop]:
    """Return the natural loops of a flow, outer ones before those in them.

    Parameters
    ----------
    flow : sequence of sequences
        Of each basic block those that may follow.
    visits : mapping, optional
        How often each way was taken.  It tells loops that begin together from one with several
        ways back: a way that is taken more often than the others is a loop in the loop.
    """
    if not flow:
        return []
    order = _order(flow)
    before: list[list[int]] = [[] for _ in flow]
    for one in order:
        for after in flow[one]:
            before[after].append(one)
    dominators = _dominators(order, before)
    backs: dict[int, list[tuple[int, frozenset[int]]]] = {}
    for one in order:
        for header in flow[one]:
            if dominators[one] >> header & 1:
                backs.setdefault(header, []).append((one, _body(header, one, before)))
    loops = [
        loop
        for header, ways in backs.items()
        for loop in _loops_at(header, ways, before[header], visits)
    ]
    return sorted(loops, key=lambda one: -len(one.body))


def nests(count: int, loops: Sequence[NaturalLoop]) -> list[tuple[int, ...]]:
    """Return for each basic block the numbers of the loops that it is in, outer ones first."""
    return [
        tuple(number for number, one in enumerate(loops) if block in one.body)
        for block in range(count)
    ]


def _order(flow: Flow) -> list[int]:
    """Return the basic blocks that are reached, those before others first where it is possible."""
    seen, left = {0}, []
    stack = [(0, iter(flow[0]))]
    while stack:
        one, following = stack[-1]
        after = next((block for block in following if block not in seen), None)
        if after is None:
            left.append(one)
            stack.pop()
        else:
            seen.add(after)
            stack.append((after, iter(flow[after])))
    return left[::-1]


def _dominators(order: Sequence[int], before: Flow) -> dict[int, int]:
    """Return the set of basic blocks, as bits, that each way to a basic block comes through."""
    every = sum(1 << one for one in order)
    found = dict.fromkeys(order, every)
    found[order[0]] = 1 << order[0]
    changed = True
    while changed:
        changed = False
        for one in order[1:]:
            common = every
            for way in before[one]:
                common &= found[way]
            if found[one] != common | 1 << one:
                found[one] = common | 1 << one
                changed = True
    return found


def _body(header: int, latch: int, before: Flow) -> frozenset[int]:
    body, left = {header}, [latch]
    while left:
        one = left.pop()
        if one not in body:
            body.add(one)
            left += before[one]
    return frozenset(body)


def _loops_at(
    header: int,
    ways: list[tuple[int, frozenset[int]]],
    before: Sequence[int],
    visits: Mapping[tuple[int, int], int] | None,
) -> Iterator[NaturalLoop]:
    """Yield the loops with a header: one, or one in another if `visits` tell them apart."""
    ways = sorted(ways, key=lambda way: len(way[1]))
    whole = frozenset().union(*(body for _, body in ways))
    yield NaturalLoop(header, whole, frozenset(latch for latch, _ in ways))
    if visits is None:
        return
    every = sum(visits.get((one, header), 0) for one in before)
    for count in range(1, len(ways)):
        inner = frozenset().union(*(body for _, body in ways[:count]))
        latches = frozenset(latch for latch, _ in ways[:count])
        back = sum(visits.get((latch, header), 0) for latch in latches)
        if inner < whole and back >= 2 * (every - back):
            yield NaturalLoop(header, inner, latches)
            return
