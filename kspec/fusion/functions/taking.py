"""``np.take``: elements by index, which the function knows, or kernels read."""

from __future__ import annotations

from typing import Any

import numpy as np

from kspec.fusion.functions.joining import stack
from kspec.fusion.functions.table import FUNCTIONS, array_of, fused_function, write_outputs
from kspec.fusion.graph import Dim, Graph, Node, Shape
from kspec.fusion.refusals import refuse
from kspec.fusion.tracing.proxies import Proxy
from kspec.fusion.tracing.tracer import Tracer
from kspec.model.shapes import normalize_axes

_MOST = 32  # indices that a function may say by themselves: each is a part of the result


@fused_function
def take(
    tracer: Tracer,
    a: Any,
    indices: Any,
    axis: int | None = None,
    out: Any = None,
    mode: str = "raise",
) -> Any:
    """``np.take``."""
    if mode not in ("raise", "wrap", "clip"):
        raise ValueError(f"clipmode must be one of 'clip', 'raise', or 'wrap' (got {mode!r})")
    x, axis = along(tracer, array_of(tracer, a, "take"), axis, "take")
    if isinstance(indices, Proxy) or (hasattr(indices, "ndim") and not np.isscalar(indices)):
        taken = _by_kernel(tracer, x, indices, axis, mode)
    else:
        taken = _by_number(tracer, x, indices, axis, mode)
    return write_outputs((taken,), (out,), "take")


def along(tracer: Tracer, x: Proxy, axis: int | None, name: str) -> tuple[Proxy, int]:
    """Return an array and one of its axes; all in one row without one, and for numbers."""
    if axis is None or (not x.ndim and axis in (0, -1)):
        x, axis = FUNCTIONS["ravel"](tracer, x), 0
    (axis,) = normalize_axes(axis, x.ndim, name)
    return x, axis


def _by_number(tracer: Tracer, x: Proxy, indices: Any, axis: int, mode: str) -> Proxy:
    """Return elements whose indices the function says."""
    size = x.shape[axis]
    places = np.take(np.arange(size), indices, mode=mode)  # type: ignore[call-overload]
    if places.size > _MOST:
        refuse(
            f"take: {places.size} indices in a list are not fused; make an array of them around "
            "the function"
        )
    if not places.ndim:
        return x[(*(slice(None),) * axis, int(places), ...)].copy()
    if not places.size:
        chosen = x[(*(slice(None),) * axis, slice(0, 0))]
    else:
        found = [x[(*(slice(None),) * axis, int(place), ...)] for place in places.ravel()]
        chosen = stack(tracer, found, axis)
    sizes = chosen.value.sizes
    shape = (*sizes[:axis], *places.shape, *sizes[axis + 1 :])
    return tracer.wrap(tracer.graph.reshape(chosen.value, shape))


def _by_kernel(tracer: Tracer, x: Proxy, indices: Any, axis: int, mode: str) -> Proxy:
    """Return elements whose indices are read."""
    graph = tracer.graph
    index, _ = tracer.operand(indices, "take")
    if not np.can_cast(np.dtype(index.dtype), np.int64, "safe"):
        raise TypeError(
            f"Cannot cast array data from dtype('{index.dtype}') to dtype('int64') according to "
            "the rule 'safe'"
        )
    if mode == "raise":
        refuse(
            "take: a kernel cannot raise for indices out of bounds, which mode='raise' asks for; "
            "write mode='wrap' or mode='clip'"
        )
    dim = x.value.shape[axis]
    if not dim.size and 0 not in index.sizes:
        raise IndexError("cannot do a non-empty take from an empty axes.")
    place = _place(graph, x.value, axis, _within(tracer, index, dim, mode))
    return tracer.wrap(graph.element(x.value, place))


def _within(tracer: Tracer, index: Node, dim: Dim, mode: str) -> Node:
    """Return indices that are in bounds."""
    graph = tracer.graph
    index, count = tracer.convert(index, "int64"), graph.count((dim,))
    if mode == "wrap":
        return graph.apply("remainder", (index, count), "int64")
    last = graph.apply("subtract", (count, graph.constant(1, "int64")), "int64")
    above = graph.apply("maximum", (index, graph.constant(0, "int64")), "int64")
    return graph.apply("minimum", (above, last), "int64")


def _place(graph: Graph, array: Node, axis: int, index: Node) -> Node:
    """Return the numbers of elements in C order, given the index of each along an axis."""

    def times(one: Node, dims: Shape) -> Node:
        return graph.apply("multiply", (one, graph.count(dims)), "int64") if dims else one

    before, after = array.shape[:axis], array.shape[axis + 1 :]
    if not before and not after:
        return index
    number = graph.element_number((*before, *index.shape, *after))
    place = (*(slice(None),) * len(index.shape), *(None,) * len(after))
    found = times(graph.index(index, place), after)
    if after:
        column = graph.apply("remainder", (number, graph.count(after)), "int64")
        found = graph.apply("add", (found, column), "int64")
    if before:
        inner = graph.count((*index.shape, *after))
        row = graph.apply("floor_divide", (number, inner), "int64")
        found = graph.apply("add", (found, times(row, array.shape[axis:])), "int64")
    return found
