"""Functions whose result consists of parts, each of other elements: joined, shifted, subtracted."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from kspec.fusion import types
from kspec.fusion.functions.table import FUNCTIONS, MISSING, array_of, fused_function, write_outputs
from kspec.fusion.graph import Dim, Node, Shape
from kspec.fusion.refusals import refuse
from kspec.fusion.tracing.proxies import Proxy
from kspec.fusion.tracing.tracer import Tracer
from kspec.fusion.view_ops import Index
from kspec.model.shapes import normalize_axes


@fused_function
def stack(
    tracer: Tracer,
    arrays: Any,
    axis: int = 0,
    out: Any = None,
    *,
    dtype: Any = None,
    casting: str = "same_kind",
) -> Any:
    """``np.stack``."""
    values = _operands(tracer, arrays, dtype, casting, "stack")
    if len({one.sizes for one in values}) > 1:
        raise ValueError("all input arrays must have the same shape")
    dims = values[0].shape
    (axis,) = normalize_axes(axis, len(dims) + 1, "stack")
    places: list[Index] = [
        (*_all(axis), number, *_all(len(dims) - axis)) for number in range(len(values))
    ]
    joined = _join(tracer, values, places, (*dims[:axis], Dim(len(values)), *dims[axis:]))
    return write_outputs((joined,), (out,), "stack")


@fused_function
def concatenate(
    tracer: Tracer,
    arrays: Any,
    axis: int | None = 0,
    out: Any = None,
    *,
    dtype: Any = None,
    casting: str = "same_kind",
) -> Any:
    """``np.concatenate``."""
    values = _operands(tracer, arrays, dtype, casting, "concatenate")
    if axis is None:
        values = [FUNCTIONS["ravel"](tracer, tracer.wrap(one)).value for one in values]
    if any(not one.shape for one in values):
        raise ValueError("zero-dimensional arrays cannot be concatenated")
    dims = values[0].shape
    (axis,) = normalize_axes(0 if axis is None else axis, len(dims), "concatenate")
    rests = {(len(one.shape), one.sizes[:axis], one.sizes[axis + 1 :]) for one in values}
    if len(rests) > 1:
        raise ValueError(
            "all the input array dimensions except for the concatenation axis must match exactly"
        )
    ends = list(itertools.accumulate(one.sizes[axis] for one in values))
    rest = len(dims) - axis - 1
    places = [
        (*_all(axis), slice(end - one.sizes[axis], end), *_all(rest))
        for one, end in zip(values, ends, strict=True)
    ]
    tracer.graph.shaped = True
    joined = _join(tracer, values, places, (*dims[:axis], Dim(ends[-1]), *dims[axis + 1 :]))
    return write_outputs((joined,), (out,), "concatenate")


FUNCTIONS["concat"] = concatenate


@fused_function
def hstack(tracer: Tracer, tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> Any:
    """``np.hstack``."""
    arrays = [_with_axes(tracer, one, 1) for one in tup]
    axis = 0 if arrays and arrays[0].ndim == 1 else 1
    return concatenate(tracer, arrays, axis, dtype=dtype, casting=casting)


@fused_function
def vstack(tracer: Tracer, tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> Any:
    """``np.vstack``."""
    arrays = [_with_axes(tracer, one, 2) for one in tup]
    return concatenate(tracer, arrays, 0, dtype=dtype, casting=casting)


def _with_axes(tracer: Tracer, given: Any, least: int) -> Proxy:
    """Return an array with axes of extent 1 in front, if it has fewer than some."""
    x = array_of(tracer, given, "stack")
    return x[(*(None,) * max(0, least - x.ndim), ...)] if x.ndim < least else x


@fused_function
def roll(tracer: Tracer, a: Any, shift: Any, axis: Any = None) -> Proxy:
    """``np.roll``."""
    x = array_of(tracer, a, "roll")
    if axis is None:
        flat: Proxy = FUNCTIONS["ravel"](tracer, x)
        return tracer.wrap(tracer.graph.reshape(roll(tracer, flat, shift, 0).value, x.value.sizes))
    # An axis may be there twice.
    axes = [normalize_axes(int(one), x.ndim, "roll")[0] for one in np.atleast_1d(axis)]
    shifts = [0] * x.ndim
    if np.ndim(shift) > 1 or np.ndim(axis) > 1:
        raise ValueError("'shift' and 'axis' should be scalars or 1D sequences")
    for one, number in np.broadcast(axes, shift):
        shifts[one] += int(number)
    value, graph = x.value, tracer.graph
    graph.shaped = True
    pieces = [list(_pieces(size, number)) for size, number in zip(value.sizes, shifts, strict=True)]
    parts = list(itertools.product(*pieces))
    if len(parts) == 1 or 0 in value.sizes:
        return x.copy()
    values = [graph.index(value, tuple(source for source, _ in part)) for part in parts]
    return _join(tracer, values, [tuple(to for _, to in part) for part in parts], value.shape)


def _pieces(size: int, shift: int) -> Iterator[tuple[slice, slice]]:
    """Return the parts of an axis: the place of each before, and after."""
    shift %= max(size, 1)
    if not shift:
        yield slice(None), slice(None)
        return
    yield slice(size - shift, size), slice(0, shift)
    yield slice(0, size - shift), slice(shift, size)


@fused_function
def diff(
    tracer: Tracer,
    a: Any,
    n: int = 1,
    axis: int = -1,
    prepend: Any = MISSING,
    append: Any = MISSING,
) -> Any:
    """``np.diff``."""
    if n == 0:
        return a
    if n < 0:
        raise ValueError(f"order must be non-negative but got {n!r}")
    x = array_of(tracer, a, "diff")
    if not x.ndim:
        raise ValueError("diff requires input that is at least one dimensional")
    (axis,) = normalize_axes(axis, x.ndim, "diff")
    ends = [None if one is MISSING else _end(tracer, x, one, axis) for one in (prepend, append)]
    if any(one is not None for one in ends):
        x = concatenate(tracer, [one for one in (ends[0], x, ends[1]) if one is not None], axis)
    size = x.shape[axis]
    count = max(size - n, 0)
    at = [(*_all(axis), slice(k, k + count)) for k in range(n + 1)]
    parts = [x[(*one, ...)] for one in at]
    for _ in range(n):
        parts = [_difference(tracer, *pair) for pair in itertools.pairwise(parts)]
    return parts[0]


def _end(tracer: Tracer, x: Proxy, given: Any, axis: int) -> Proxy:
    """Return the elements in front of an array or after it, with its axes."""
    end = array_of(tracer, given, "diff")
    if end.ndim:
        return end
    shape = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
    wide: Proxy = FUNCTIONS["broadcast_to"](tracer, end, shape)
    return wide


def _difference(tracer: Tracer, first: Proxy, second: Proxy) -> Proxy:
    name = "not_equal" if first.value.dtype == "bool" else "subtract"
    return tracer.ufunc(name, (second, first))[0]


def _operands(tracer: Tracer, arrays: Any, dtype: Any, casting: str, name: str) -> list[Node]:
    """Return values to be joined, of one dtype."""
    pairs = [tracer.operand(one, name) for one in arrays]
    if not pairs:
        raise ValueError(f"need at least one array to {name}")
    kinds = [types.STRONG.get(kind, kind) for _, kind in pairs]
    to = types.common_dtype(tuple(kinds)) if dtype is None else types.dtype_name(dtype)
    for kind in kinds:
        if not np.can_cast(np.dtype(kind), np.dtype(to), casting):  # type: ignore[arg-type]
            refuse(f"{name}: {kind} cannot become {to} by casting={casting!r}; use astype")
    return [tracer.convert(value, to) for value, _ in pairs]


def _join(tracer: Tracer, values: Sequence[Node], places: Sequence[Index], shape: Shape) -> Proxy:
    return tracer.wrap(tracer.graph.join(values, places, shape))


def _all(count: int) -> tuple[slice, ...]:
    return (slice(None),) * count
