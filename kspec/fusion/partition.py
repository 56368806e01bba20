"""Partition of values into the fewest kernels, with the reasons why there are not fewer.

A kernel reads what is in memory and writes what has to be.  Functions of elements are computed
wherever they are needed, again if need be, for that costs less than to write and read them.  What
ends a kernel is a reduction, whose result is there when all of its elements are; reductions over
the same axes of the same shape that do not need each other share one pass, and what follows from
their results alone is computed at its end.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field

from kspec.dataclass import dataclass
from kspec.fusion.graph import (
    ArrayInput,
    Concatenation,
    Elementwise,
    Graph,
    Node,
    Reduce,
    Scalar,
    Stored,
    View,
    is_number,
)
from kspec.fusion.view_ops import Index


@dataclass(frozen=True)
class Output:
    """Something that the function gives back.

    Attributes
    ----------
    value : Node
        What it is.
    target : int or None
        The argument that is written to; None for a new array.
    part : tuple of (Concatenation, int) or None
        The value, and the number of its operand, that it is a part of.
    """

    value: Node
    target: int | None = None
    part: tuple[Concatenation, int] | None = None


@dataclass(frozen=True, eq=False)
class ReductionGroup:
    """Reductions of one kernel, or scans.

    Attributes
    ----------
    reductions : tuple of Reduce
        Over the same axes of values of one shape.
    results : list of Node
        What it leaves in memory: reductions, or functions of them alone.
    level : int
        Reductions that must have ended before it begins.
    """

    reductions: tuple[Reduce, ...]
    level: int
    results: list[Node] = field(default_factory=list)

    @property
    def axes(self) -> tuple[int, ...]:
        """The axes that are made one."""
        return self.reductions[0].axes

    @property
    def sizes(self) -> tuple[int, ...]:
        """Extents of the reduced value."""
        return self.reductions[0].input.sizes

    def values(self) -> Iterator[Node]:
        """Return the values computed for each element."""
        yield from (one.input for one in self.reductions)


@dataclass(frozen=True, eq=False)
class ElementwiseGroup:
    """Functions of elements of one kernel.

    Attributes
    ----------
    outputs : tuple of Output
        Of one shape.
    level : int
        Reductions that must have ended before it begins.
    """

    outputs: tuple[Output, ...]
    level: int

    def values(self) -> Iterator[Node]:
        """Return the values computed for each element."""
        yield from (one.value for one in self.outputs)


FusionGroup = ReductionGroup | ElementwiseGroup


@dataclass(frozen=True, eq=False)
class Partition:
    """The groups of a function in the order in which they run.

    Attributes
    ----------
    groups : tuple of FusionGroup
        Each becomes a kernel.
    outputs : tuple of Output
        Of the function.
    """

    groups: tuple[FusionGroup, ...]
    outputs: tuple[Output, ...]
    producers: Mapping[Node, Producer | None]

    def reads(self, group: FusionGroup) -> Iterator[Node]:
        """Return the reads of a group: values in memory, and numbers."""
        return _reads(group, self.producers.get)

    def producer(self, value: Node) -> Producer | None:
        """Return the group that leaves a value in memory, if one does."""
        return self.producers.get(value)


def partition(graph: Graph, outputs: Sequence[Output]) -> Partition:
    """Return the groups of a traced function."""
    return _Partitioner(graph, outputs).result()


def reachable(
    roots: Iterable[Node], known: Collection[Node] = (), through: type[Node] = Node
) -> list[Node]:
    """Return nodes and all they are computed from, operands first.

    Parameters
    ----------
    roots : iterable of Node
        The nodes.
    known : collection of Node, optional
        Nodes that are left out, with their operands.
    through : type, optional
        Class of the nodes whose operands are followed.
    """
    found: dict[Node, None] = {}
    pending = [(root, False) for root in reversed(list(roots))]
    while pending:
        value, done = pending.pop()
        if value in found or value in known:
            continue
        if done or not isinstance(value, through):
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
        self.levels: dict[Node, int] = {}
        for value in self.values:
            level = max((self.levels[one] for one in value.operands), default=0)
            self.levels[value] = level + isinstance(value, Reduce | Stored | Concatenation)
        self.reduction_groups = self._reduction_groups()
        self.group_of = {one: group for group in self.reduction_groups for one in group.reductions}
        self.producers: dict[Node, Producer | None] = {}
        for value in self.values:
            self.producers[value] = self._find_producer(value)

    def result(self) -> Partition:
        elements = self._elementwise_groups()
        groups: list[FusionGroup] = [*self.reduction_groups, *elements]
        for group in groups:
            for value in list(_reads(group, self.producer)):
                self._need(value, group)
        for one in self.outputs:
            if one.target is None:
                self._need(one.value)
        groups = [
            group for group in groups if not isinstance(group, ReductionGroup) or group.results
        ]
        groups.sort(
            key=lambda group: (group.level, isinstance(group, ElementwiseGroup), _writes(group))
        )
        return Partition(tuple(groups), self.outputs, self.producers)

    def _reduction_groups(self) -> list[ReductionGroup]:
        groups: dict[object, list[Reduce]] = {}
        for value in self.values:
            if isinstance(value, Reduce):
                level = self.levels[value] - 1
                key = type(value), level, value.axes, value.input.sizes
                groups.setdefault(key, []).append(value)
        return [ReductionGroup(tuple(ones), self.levels[ones[0]] - 1) for ones in groups.values()]

    def _elementwise_groups(self) -> list[ElementwiseGroup]:
        found: list[ElementwiseGroup] = []
        stored: dict[tuple[int, tuple[int, ...]], list[Output]] = {}
        for value in self.values:
            if isinstance(value, Stored) and self.producer(value.input) is None:
                key = self.levels[value.input], value.sizes
                stored.setdefault(key, []).append(Output(value.input))
            elif isinstance(value, Concatenation):
                for number, part in enumerate(value.operands):
                    key = self.levels[value] - 1, part.sizes
                    stored.setdefault(key, []).append(Output(part, part=(value, number)))
        for (level, _), ones in stored.items():
            found.append(ElementwiseGroup(tuple(ones), level))
        last = max(self.levels.values(), default=0)
        groups: dict[tuple[bool, tuple[int, ...]], list[Output]] = {}
        for one in self.outputs:
            if one.target is None and (self.producer(one.value) or _is_made(one.value)):
                continue
            # Arrays that are written to are written last: others may have to be read before.
            is_last = one.target is not None or self._can_wait(one.value)
            groups.setdefault((is_last, one.value.sizes), []).append(one)
        for (is_last, _), ones in groups.items():
            level = last if is_last else max(self.levels[one.value] for one in ones)
            found.append(ElementwiseGroup(tuple(ones), level))
        return found

    def _can_wait(self, value: Node) -> bool:
        """Whether a value can be computed where arguments of its shape are written to.

        Not if it needs what has been overwritten by then: an element of another place, or of an
        argument that another kernel writes to.
        """
        written = self.written
        if value.sizes not in written.values():
            return False
        return all(
            isinstance(one, ArrayInput) and written[one.position] == value.sizes
            for one in leaves([value], lambda inner: self.producer(inner) is not None)
            if self.producer(one) is None and arguments_of(one) & written.keys()
        )

    def producer(self, value: Node) -> Producer | None:
        """Return the group at whose end a value can be computed."""
        return self.producers[value]

    def _find_producer(self, value: Node) -> Producer | None:
        if isinstance(value, Reduce):
            return Producer(self.group_of[value], tuple(slice(None) for _ in value.shape))
        if isinstance(value, View) and value.ops:
            return self._producer_of_view(value)
        if not isinstance(value, Elementwise):
            return None
        found: Producer | None = None
        for one in value.operands:
            if is_number(one):
                continue
            producer = self.producer(one)
            if producer is None or (found is not None and producer != found):
                return None
            found = producer
        return found

    def _producer_of_view(self, value: View) -> Producer | None:
        """Return the producer of a view that only adds axes of extent 1."""
        index = value.ops[0].detail
        plain = len(value.ops) == 1 and value.ops[0].kind == "index"
        if not plain or any(entry is not None and entry != slice(None) for entry in index):
            return None
        return (
            Producer(self.group_of[value.input], index) if isinstance(value.input, Reduce) else None
        )

    def _need(self, value: Node, reader: FusionGroup | None = None) -> None:
        """Have reduction groups leave values that a group or the caller reads."""
        producer = self.producer(value)
        if producer is not None:
            if producer.group is not reader:
                self._leave(producer.group, value)
        elif isinstance(value, View | Stored):
            self._need(value.input)

    def _leave(self, group: ReductionGroup, value: Node) -> None:
        if value not in group.results:
            group.results.append(value)


@dataclass(frozen=True)
class Producer:
    """Kernel that computes a function of reductions, and its axes of extent 1."""

    group: ReductionGroup
    frame: Index


def _reads(group: FusionGroup, producer_of: Callable[[Node], Producer | None]) -> Iterator[Node]:
    def is_read(value: Node) -> bool:
        producer = producer_of(value)
        return producer is not None and producer.group is not group

    found = dict.fromkeys(leaves(group.values(), is_read))
    if isinstance(group, ReductionGroup):  # and the numbers that are needed at its end
        ends = leaves(group.results, lambda value: False)
        found |= dict.fromkeys(one for one in ends if isinstance(one, Scalar))
    return iter(found)


def leaves(roots: Iterable[Node], stops: Callable[[Node], bool]) -> Iterator[Node]:
    """Return the values in memory that others are computed from, and the numbers.

    Parameters
    ----------
    roots : iterable of Node
        What is computed.
    stops : callable
        Whether a function of elements is in memory.
    """
    seen: set[Node] = set()
    pending = list(roots)
    pending.reverse()
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        if isinstance(value, Elementwise) and not stops(value):
            pending += reversed(value.operands)
        else:
            yield value


def _is_made(value: Node) -> bool:
    """Return whether a value is an array that a kernel has made, or a view of all of one."""
    if isinstance(value, View):
        return isinstance(value.input, Stored | Reduce | Concatenation) and not any(
            op.kind == "broadcast" for op in value.ops
        )
    return isinstance(value, Stored | Concatenation)


def _writes(group: FusionGroup) -> bool:
    return isinstance(group, ElementwiseGroup) and any(
        one.target is not None for one in group.outputs
    )


def arguments_of(*values: Node) -> set[int]:
    """Return the positions of the arrays that values are computed from, or are views of."""
    return {one.position for one in reachable(values) if isinstance(one, ArrayInput)}
