"""Partition of values into the fewest kernels, with the reasons why there are not fewer.

A kernel reads what is in memory and writes what has to be.  Functions of elements are computed
wherever they are needed, again if need be, for that costs less than to write and read them.  What
ends a kernel is a reduction, whose result is there when all of its elements are; reductions over
the same axes of the same shape that do not need each other share one pass, and what follows from
their results alone is computed at its end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kspec.fusion.graph import (
    Apply,
    Argument,
    Graph,
    Reduce,
    Scalar,
    Stored,
    Value,
    View,
    is_number,
)
from kspec.fusion.steps import Index


@dataclass(frozen=True)
class Output:
    """Something that the function gives back.

    Attributes
    ----------
    value : Value
        What it is.
    target : int or None
        The argument that is written to; None for a new array.
    """

    value: Value
    target: int | None = None


@dataclass(frozen=True, eq=False)
class Pass:
    """Reductions of one kernel.

    Attributes
    ----------
    reductions : tuple of Reduce
        Over the same axes of values of one shape.
    results : list of Value
        What it leaves in memory: reductions, or functions of them alone.
    level : int
        Passes that must have ended before it begins.
    """

    reductions: tuple[Reduce, ...]
    level: int
    results: list[Value] = field(default_factory=list)

    @property
    def axes(self) -> tuple[int, ...]:
        """The axes that are made one."""
        return self.reductions[0].axes

    @property
    def sizes(self) -> tuple[int, ...]:
        """Extents of the reduced value."""
        return self.reductions[0].input.sizes

    def values(self) -> Iterator[Value]:
        """Return the values computed for each element."""
        yield from (one.input for one in self.reductions)


@dataclass(frozen=True, eq=False)
class Elements:
    """Functions of elements of one kernel.

    Attributes
    ----------
    outputs : tuple of Output
        Of one shape.
    level : int
        Passes that must have ended before it begins.
    """

    outputs: tuple[Output, ...]
    level: int

    def values(self) -> Iterator[Value]:
        """Return the values computed for each element."""
        yield from (one.value for one in self.outputs)


Part = Pass | Elements


@dataclass(frozen=True, eq=False)
class Partition:
    """The parts of a function in the order in which they run.

    Attributes
    ----------
    parts : tuple of Part
        Each becomes a kernel.
    outputs : tuple of Output
        Of the function.
    """

    parts: tuple[Part, ...]
    outputs: tuple[Output, ...]
    homes: Mapping[Value, Home | None]

    def reads(self, part: Part) -> Iterator[Value]:
        """Return the reads of a part: values in memory, and numbers."""
        return _reads(part, self.homes.get)

    def home(self, value: Value) -> Home | None:
        """Return the pass that leaves a value in memory, if one does."""
        return self.homes.get(value)


def partition(graph: Graph, outputs: Sequence[Output]) -> Partition:
    """Return the parts of a traced function."""
    return _Partitioner(graph, outputs).result()


def reachable(roots: Iterable[Value]) -> list[Value]:
    """Return values and all they are made from, operands first."""
    found: dict[Value, None] = {}
    pending = [(root, False) for root in reversed(list(roots))]
    while pending:
        value, done = pending.pop()
        if value in found:
            continue
        if done:
            found[value] = None
        else:
            pending.append((value, True))
            pending += [(one, False) for one in reversed(value.operands)]
    return list(found)


class _Partitioner:
    def __init__(self, graph: Graph, outputs: Sequence[Output]) -> None:
        self.graph = graph
        self.outputs = tuple(outputs)
        self.written = {one.target: one.value.sizes for one in outputs if one.target is not None}
        self.values = reachable(one.value for one in outputs)
        self.levels: dict[Value, int] = {}
        for value in self.values:
            level = max((self.levels[one] for one in value.operands), default=0)
            self.levels[value] = level + isinstance(value, Reduce | Stored)
        self.passes = self._passes()
        self.pass_of = {one: part for part in self.passes for one in part.reductions}
        self.homes: dict[Value, Home | None] = {}
        for value in self.values:
            self.homes[value] = self._find_home(value)

    def result(self) -> Partition:
        elements = self._elements()
        parts: list[Part] = [*self.passes, *elements]
        for part in parts:
            for value in list(_reads(part, self.home)):
                self._need(value, part)
        for one in self.outputs:
            if one.target is None:
                self._need(one.value)
        parts = [part for part in parts if not isinstance(part, Pass) or part.results]
        parts.sort(key=lambda part: (part.level, isinstance(part, Elements), _writes(part)))
        return Partition(tuple(parts), self.outputs, self.homes)

    def _passes(self) -> list[Pass]:
        groups: dict[object, list[Reduce]] = {}
        for value in self.values:
            if isinstance(value, Reduce):
                level = self.levels[value] - 1
                groups.setdefault((level, value.axes, value.input.sizes), []).append(value)
        return [Pass(tuple(ones), self.levels[ones[0]] - 1) for ones in groups.values()]

    def _elements(self) -> list[Elements]:
        found: list[Elements] = []
        stored: dict[tuple[int, tuple[int, ...]], list[Output]] = {}
        for value in self.values:
            if isinstance(value, Stored) and self.home(value.input) is None:
                key = self.levels[value.input], value.sizes
                stored.setdefault(key, []).append(Output(value.input))
        for (level, _), ones in stored.items():
            found.append(Elements(tuple(ones), level))
        last = max(self.levels.values(), default=0)
        groups: dict[tuple[bool, tuple[int, ...]], list[Output]] = {}
        for one in self.outputs:
            if one.target is None and (self.home(one.value) or _is_made(one.value)):
                continue
            # Arrays that are written to are written last: others may have to be read before.
            is_last = one.target is not None or self._can_wait(one.value)
            groups.setdefault((is_last, one.value.sizes), []).append(one)
        for (is_last, _), ones in groups.items():
            level = last if is_last else max(self.levels[one.value] for one in ones)
            found.append(Elements(tuple(ones), level))
        return found

    def _can_wait(self, value: Value) -> bool:
        """Whether a value can be computed where arguments of its shape are written to.

        Not if it needs what has been overwritten by then: an element of another place, or of an
        argument that another kernel writes to.
        """
        written = self.written
        if value.sizes not in written.values():
            return False
        return all(
            isinstance(one, Argument) and written[one.position] == value.sizes
            for one in leaves([value], lambda inner: self.home(inner) is not None)
            if self.home(one) is None and arguments_of(one) & written.keys()
        )

    def home(self, value: Value) -> Home | None:
        """Return the pass at whose end a value can be computed."""
        return self.homes[value]

    def _find_home(self, value: Value) -> Home | None:
        if isinstance(value, Reduce):
            return Home(self.pass_of[value], tuple(slice(None) for _ in value.shape))
        if isinstance(value, View):
            return self._home_of_view(value)
        if not isinstance(value, Apply):
            return None
        found: Home | None = None
        for one in value.inputs:
            if is_number(one):
                continue
            home = self.home(one)
            if home is None or (found is not None and home != found):
                return None
            found = home
        return found

    def _home_of_view(self, value: View) -> Home | None:
        """Return the home of a view that only adds axes of extent 1."""
        index = value.steps[0].detail
        plain = len(value.steps) == 1 and value.steps[0].kind == "index"
        if not plain or any(entry is not None and entry != slice(None) for entry in index):
            return None
        return Home(self.pass_of[value.input], index) if isinstance(value.input, Reduce) else None

    def _need(self, value: Value, reader: Part | None = None) -> None:
        """Have passes leave what a part or the caller reads."""
        home = self.home(value)
        if home is not None:
            if home.part is not reader:
                self._leave(home.part, value)
        elif isinstance(value, View | Stored):
            self._need(value.input)

    def _leave(self, part: Pass, value: Value) -> None:
        if value not in part.results:
            part.results.append(value)


@dataclass(frozen=True)
class Home:
    """Kernel that computes a function of reductions, and its axes of extent 1."""

    part: Pass
    frame: Index


def _reads(part: Part, home_of: Callable[[Value], Home | None]) -> Iterator[Value]:
    def is_read(value: Value) -> bool:
        home = home_of(value)
        return home is not None and home.part is not part

    found = dict.fromkeys(leaves(part.values(), is_read))
    if isinstance(part, Pass):  # and the numbers that are needed at its end
        ends = leaves(part.results, lambda value: False)
        found |= dict.fromkeys(one for one in ends if isinstance(one, Scalar))
    return iter(found)


def leaves(roots: Iterable[Value], stops: Callable[[Value], bool]) -> Iterator[Value]:
    """Return the values in memory that others are computed from, and the numbers.

    Parameters
    ----------
    roots : iterable of Value
        What is computed.
    stops : callable
        Whether a function of elements is in memory.
    """
    seen: set[Value] = set()
    pending = list(roots)
    pending.reverse()
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        if isinstance(value, Apply) and not stops(value):
            pending += reversed(value.inputs)
        else:
            yield value


def _is_made(value: Value) -> bool:
    """Return whether a value is an array that a kernel has made, or a view of all of one."""
    if isinstance(value, View):
        return isinstance(value.input, Stored | Reduce) and not any(
            step.kind == "broadcast" for step in value.steps
        )
    return isinstance(value, Stored)


def _writes(part: Part) -> bool:
    return isinstance(part, Elements) and any(one.target is not None for one in part.outputs)


def arguments_of(value: Value) -> set[int]:
    """Return the arguments that a value in memory is a view of."""
    return {one.position for one in reachable([value]) if isinstance(one, Argument)}
