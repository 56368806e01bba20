"""Half precision: float16 and bfloat16 computed in float32, and rounded where they are stored.

NumPy rounds the result of every function to the type of its operands. A kernel need not: it
computes in float32 and rounds what it stores, as the libraries for machine learning do, which is
faster and closer to the exact result. Rounded before are

* arrays that have to be in memory between kernels, and operands of other kernels;
* what ``astype`` asks to be of such a type;
* the operands of functions that are about the type itself, such as ``nextafter`` and ``isinf``.
"""

from __future__ import annotations

from collections.abc import Sequence

from kspec.fusion.graph import (
    Concatenation,
    Constant,
    Elementwise,
    Graph,
    Node,
    Reduce,
    Stored,
    View,
    Whole,
)
from kspec.fusion.partition import reachable
from kspec.fusion.types import computed_in, is_narrow

# Functions whose results say how a type's numbers lie, or which of them is beyond the largest.
_OF_THE_TYPE = frozenset(
    {
        *("rounded", "nextafter", "spacing", "nan_to_num", "element"),
        *("isfinite", "isinf", "isposinf", "isneginf"),
    }
)


def rounded_once(graph: Graph, results: Sequence[Node]) -> dict[Node, Node]:
    """Return values to store in place of results, so that narrow types are computed in float32.

    Parameters
    ----------
    graph : Graph
        Makes values.
    results : sequence of Node
        What a function leaves in memory, traced as rounded after each function of elements.
    """
    values = reachable(results)
    if not any(is_narrow(one.dtype) for one in values):
        return dict(zip(results, results, strict=True))
    widened = _Widening(graph, values).widened
    return {one: _rounded(graph, widened[one], one.dtype) for one in results}


class _Widening:
    """Values whose narrow types have become float32, by the values before.

    Parameters
    ----------
    graph : Graph
        Makes values.
    values : sequence of Node
        All values, operands first.

    Attributes
    ----------
    widened : dict of Node to Node
        A value of float32 for each one of a narrow type; the same type for the others.
    """

    def __init__(self, graph: Graph, values: Sequence[Node]) -> None:
        self._graph = graph
        self.widened: dict[Node, Node] = {}
        for one in values:
            self.widened[one] = self._widen(one)

    def _widen(self, value: Node) -> Node:
        graph = self._graph
        wide = computed_in(value.dtype)
        if isinstance(value, Constant):
            return graph.constant(value.value, wide)
        if isinstance(value, Whole):
            return graph.made_of(value, [self._narrow(value.input)], value.dtype)
        if isinstance(value, Concatenation):
            operands = [self._narrow(one) for one in value.operands]
            return graph.cast(graph.made_of(value, operands, value.dtype), wide)
        if isinstance(value, View | Stored) and not isinstance(value.input, Reduce):
            # In memory: of the type that it was traced with.
            source = self._narrow(value.input)
            return graph.cast(graph.made_of(value, (source,), source.dtype), wide)
        if isinstance(value, Elementwise) and _is_exact(value):
            operands = [self._narrow(one) for one in value.operands]
            return graph.cast(graph.made_of(value, operands, value.dtype), wide)
        if value.operands:
            operands = [self.widened[one] for one in value.operands]
            if isinstance(value, Elementwise) and value.function == "filled":
                operands[1] = value.operands[1]  # only its shape counts
            return graph.made_of(value, operands, wide)
        return graph.cast(value, wide)

    def _narrow(self, value: Node) -> Node:
        return _rounded(self._graph, self.widened[value], value.dtype)


def _is_exact(value: Elementwise) -> bool:
    """Return whether a function has operands and results of the types it was traced with."""
    return bool(value.definition) or value.function in _OF_THE_TYPE


def _rounded(graph: Graph, value: Node, dtype: str) -> Node:
    """Return a value in a type; what was of that type before is that again."""
    if value.dtype == dtype:
        return value
    if isinstance(value, Elementwise) and value.function == "cast":
        (source,) = value.operands
        if source.dtype == dtype:
            return source
    return graph.cast(value, dtype)
