"""Functions that make the elements along axes one."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from kspec.errors import ShapeError
from kspec.fusion import types
from kspec.fusion.functions.table import FUNCTIONS, MISSING, array_of, delivered, fused_function
from kspec.fusion.graph import Node
from kspec.fusion.refusals import refuse
from kspec.fusion.tracing.proxies import Proxy
from kspec.fusion.tracing.tracer import Tracer
from kspec.model import dtypes
from kspec.model.shapes import check_not_empty

_WITHOUT_IDENTITY = frozenset({"max", "min", "nanmax", "nanmin", "argmax", "argmin"})

_WITH_AXES = frozenset({"mean", "var", "std"})  # what NumPy looks for axes of, where there are none


def _reduced(
    tracer: Tracer,
    a: Any,
    axis: Any,
    keepdims: bool,
    out: Any,
    compute: Callable[[Node, tuple[int, ...]], Node],
    name: str,
) -> Any:
    x = array_of(tracer, a, name)
    ndim = len(x.value.shape)
    if ndim == 0 and name not in _WITH_AXES and axis in (0, -1):
        axis = None  # as for NumPy's numbers
    axes = tuple(range(ndim)) if axis is None else tuple(sorted(normalize_axis_tuple(axis, ndim)))
    result = tracer.wrap(_kept(tracer, compute(x.value, axes), axes, ndim) if keepdims
                         else compute(x.value, axes))  # fmt: skip
    if isinstance(out, Proxy) and out.value.sizes != result.value.sizes:
        raise ShapeError(
            f"{name}: out= has shape {out.value.sizes}, the result {result.value.sizes}"
        )
    return delivered((result,), (out,), name)


def _kept(tracer: Tracer, value: Node, axes: tuple[int, ...], ndim: int) -> Node:
    """Return a result with the axes that are gone, of extent 1."""
    if not value.shape and not ndim:
        return value
    return tracer.graph.index(value, tuple(None if k in axes else slice(None) for k in range(ndim)))


def _reduce(tracer: Tracer, function: str, value: Node, axes: tuple[int, ...], dtype: str) -> Node:
    """Return a reduction over axes; without axes the elements stay as they are."""
    if not axes:
        if function in ("argmax", "argmin"):
            return tracer.graph.apply("filled", (tracer.graph.constant(0, "int64"), value), "int64")
        return tracer.graph.cast(value, dtype)
    if function in _WITHOUT_IDENTITY:
        extents = [one.size for one in value.shape]
        if function in ("argmax", "argmin") and 0 in [extents[k] for k in axes]:
            raise ValueError(f"attempt to get {function} of an empty sequence")
        check_not_empty(function, extents, axes, ())  # NumPy refuses empty outputs too
    return tracer.graph.reduce(function, value, axes, dtype)


def _count(tracer: Tracer, value: Node, axes: tuple[int, ...], dtype: str) -> Node:
    return tracer.graph.count([value.shape[k] for k in axes], dtype)


def _refuse_where(name: str, where: Any, initial: Any) -> None:
    if where is not True or initial is not MISSING:
        refuse(f"{name}: where= and initial= are not fused; select with np.where first")


def _held(tracer: Tracer, dtype: str, out: Any) -> str:
    """Return the dtype of a sum for an output: one that holds both, as in NumPy."""
    if out is None:
        return dtype
    return types.common((dtype, tracer.operand(out, "out")[0].dtype))


def _define_total(name: str, function: str) -> None:
    def defined(
        tracer: Tracer,
        a: Any,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        keepdims: bool = False,
        initial: Any = MISSING,
        where: Any = True,
    ) -> Any:
        _refuse_where(name, where, initial)

        def compute(value: Node, axes: tuple[int, ...]) -> Node:
            to = types.total(value.dtype) if out is None else _held(tracer, value.dtype, out)
            if dtype is not None:
                to = types.dtype_name(dtype)
            if name.startswith("nan"):
                value = _without_nan(tracer, value, 0 if function == "sum" else 1)
            return _reduce(tracer, function, tracer.graph.cast(value, to), axes, to)

        return _reduced(tracer, a, axis, keepdims, out, compute, name)

    FUNCTIONS[name] = defined


def _define_extreme(name: str, function: str) -> None:
    def defined(
        tracer: Tracer,
        a: Any,
        axis: Any = None,
        out: Any = None,
        keepdims: bool = False,
        initial: Any = MISSING,
        where: Any = True,
        dtype: Any = None,
    ) -> Any:
        _refuse_where(name, where, initial)

        def compute(value: Node, axes: tuple[int, ...]) -> Node:
            return _reduce(tracer, function, value, axes, value.dtype)

        return _reduced(tracer, a, axis, keepdims, out, compute, name)

    FUNCTIONS[name] = defined


def _define_truth(name: str) -> None:
    def defined(
        tracer: Tracer,
        a: Any,
        axis: Any = None,
        out: Any = None,
        keepdims: bool = False,
        *,
        where: Any = True,
        dtype: Any = None,
    ) -> Any:
        _refuse_where(name, where, MISSING)

        def compute(value: Node, axes: tuple[int, ...]) -> Node:
            return _reduce(tracer, name, tracer.graph.cast(value, "bool"), axes, "bool")

        return _reduced(tracer, a, axis, keepdims, out, compute, name)

    FUNCTIONS[name] = defined


def _define_position(name: str, function: str, worst: float) -> None:
    def defined(
        tracer: Tracer,
        a: Any,
        axis: Any = None,
        out: Any = None,
        *,
        keepdims: bool = False,
        dtype: Any = None,
    ) -> Any:
        if axis is not None and not isinstance(axis, int | np.integer):
            raise TypeError(f"{name}: axis must be an integer or None")

        def compute(value: Node, axes: tuple[int, ...]) -> Node:
            if name.startswith("nan"):
                value = _without_nan(tracer, value, worst)
            return _reduce(tracer, function, value, axes, "int64")

        return _reduced(tracer, a, axis, keepdims, out, compute, name)

    FUNCTIONS[name] = defined


def _has_nan(dtype: str) -> bool:
    return dtypes.lookup(dtype).kind in "fc"


def _without_nan(tracer: Tracer, value: Node, number: float, of: Node | None = None) -> Node:
    """Return a value with a number where it, or another one, is NaN."""
    of = of or value
    if not _has_nan(of.dtype):
        return value
    graph = tracer.graph
    inputs = (
        graph.apply("isnan", (of,), "bool"),
        tracer.convert(graph.constant(number, "float64"), value.dtype),
        value,
    )
    return graph.apply("where", inputs, value.dtype)


def _wide(dtype: str) -> str:
    """Return the dtype that means are computed in: float32 for 16-bit floats."""
    row = dtypes.lookup(dtype)
    if row.kind in "biu":
        return "float64"
    return "float32" if row.itemsize < 4 else dtype


def _narrow(tracer: Tracer, dtype: str, wanted: Any, out: Any) -> str:
    if wanted is not None:
        return types.dtype_name(wanted)
    return _held(tracer, dtype if _has_nan(dtype) else "float64", out)


def _refuse_integers(name: str, given: bool) -> None:
    if given:
        refuse(f"{name}: dtype= of integers is not fused; convert the result with astype")


def _refuse_complex(name: str, *given: str) -> None:
    if any(dtypes.lookup(one).kind == "c" for one in given):
        refuse(f"{name}: dtype= of or for complex numbers is not fused; convert with astype")


def _mean_of(
    tracer: Tracer, value: Node, axes: tuple[int, ...], skipping: bool
) -> tuple[Node, Node]:
    """Return mean and count, in the wide type."""
    graph, wide = tracer.graph, _wide(value.dtype)
    real = dtypes.real_part(wide)
    if skipping:
        there = graph.apply("isnan", (value,), "bool")
        there = graph.apply("logical_not", (there,), "bool")
        count = _reduce(tracer, "sum", graph.cast(there, "int64"), axes, "int64")
        value = _without_nan(tracer, value, 0)
        number = graph.cast(count, real)
    else:
        number = _count(tracer, value, axes, real)
    total = graph.cast(_reduce(tracer, "sum", value, axes, value.dtype), wide)
    return graph.apply("divide", (total, graph.cast(number, wide)), wide), number


def _define_mean(name: str) -> None:
    def defined(
        tracer: Tracer,
        a: Any,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        keepdims: bool = False,
        *,
        where: Any = True,
    ) -> Any:
        _refuse_where(name, where, MISSING)

        def compute(value: Node, axes: tuple[int, ...]) -> Node:
            skipping = name == "nanmean" and _has_nan(value.dtype)
            to = _narrow(tracer, value.dtype, dtype, out)
            kept = _wide(to)
            if not _has_nan(to):  # that was asked for: the sum is one of integers
                _refuse_integers(name, skipping)
                kept = to
            found, _ = _mean_of(tracer, tracer.graph.cast(value, kept), axes, skipping)
            return tracer.graph.cast(found, to)

        return _reduced(tracer, a, axis, keepdims, out, compute, name)

    FUNCTIONS[name] = defined


def _define_spread(name: str) -> None:
    def defined(
        tracer: Tracer,
        a: Any,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        ddof: float = 0,
        keepdims: bool = False,
        *,
        where: Any = True,
        correction: Any = None,
    ) -> Any:
        _refuse_where(name, where, MISSING)
        if correction is not None and ddof:
            raise ValueError("ddof and correction can't be provided simultaneously.")
        graph = tracer.graph
        less = float(ddof if correction is None else correction)

        def compute(value: Node, axes: tuple[int, ...]) -> Node:
            narrow = _narrow(tracer, value.dtype, dtype, out)
            if dtype is not None:
                _refuse_integers(name, not _has_nan(narrow))
                _refuse_complex(name, value.dtype, narrow)
            to = dtypes.real_part(narrow)
            wide = graph.cast(value, _wide(narrow))
            real = _wide(to)
            skipping = name.startswith("nan") and _has_nan(value.dtype)
            if skipping or not axes or dtypes.lookup(wide.dtype).kind == "c":
                squares, number = _squares_in_two(tracer, wide, axes, skipping, real)
            else:  # of one pass over the elements
                squares = graph.reduce("squares", wide, axes, real)
                number = _count(tracer, value, axes, real)
            if less:
                number = graph.apply("subtract", (number, graph.constant(less, real)), real)
                number = _without_negative(tracer, number, skipping)
            found = graph.apply("divide", (squares, number), real)
            if name.endswith("std"):
                found = graph.apply("sqrt", (found,), real)
            return graph.cast(found, to)

        return _reduced(tracer, a, axis, keepdims, out, compute, name)

    FUNCTIONS[name] = defined


def _without_negative(tracer: Tracer, number: Node, skipping: bool) -> Node:
    """Return degrees of freedom: NumPy's none are 0, and NaN where elements are skipped."""
    graph, zero = tracer.graph, tracer.graph.constant(0.0, number.dtype)
    if not skipping:
        return graph.apply("maximum", (number, zero), number.dtype)
    there = graph.apply("greater", (number, zero), "bool")
    nothing = graph.constant(math.nan, number.dtype)
    return graph.apply("where", (there, number, nothing), number.dtype)


def _squares_in_two(
    tracer: Tracer, wide: Node, axes: tuple[int, ...], skipping: bool, real: str
) -> tuple[Node, Node]:
    """Return the sum of squared deviations from the mean, which is found first, and the count."""
    graph = tracer.graph
    mean, number = _mean_of(tracer, wide, axes, skipping)
    if axes:
        mean = _kept(tracer, mean, axes, len(wide.shape))
    difference = graph.apply("subtract", (wide, mean), wide.dtype)
    if skipping:
        difference = _without_nan(tracer, difference, 0, of=wide)
    if dtypes.lookup(wide.dtype).kind == "c":
        other = graph.apply("conjugate", (difference,), wide.dtype)
        square = graph.apply("multiply", (difference, other), wide.dtype)
        square = graph.apply("real", (square,), real)
    else:
        square = graph.apply("multiply", (difference, difference), real)
    return _reduce(tracer, "sum", square, axes, real), number


@fused_function
def ptp(tracer: Tracer, a: Any, axis: Any = None, out: Any = None, keepdims: bool = False) -> Any:
    """``np.ptp``."""

    def compute(value: Node, axes: tuple[int, ...]) -> Node:
        high = _reduce(tracer, "max", value, axes, value.dtype)
        low = _reduce(tracer, "min", value, axes, value.dtype)
        return tracer.ufunc("subtract", (tracer.wrap(high), tracer.wrap(low)))[0].value

    return _reduced(tracer, a, axis, keepdims, out, compute, "ptp")


@fused_function
def count_nonzero(tracer: Tracer, a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """``np.count_nonzero``."""

    def compute(value: Node, axes: tuple[int, ...]) -> Node:
        ones = tracer.graph.cast(tracer.graph.cast(value, "bool"), "int64")
        return _reduce(tracer, "sum", ones, axes, "int64")

    return _reduced(tracer, a, axis, keepdims, None, compute, "count_nonzero")


for _name, _of in {"sum": "sum", "prod": "prod", "nansum": "sum", "nanprod": "prod"}.items():
    _define_total(_name, _of)
for _name in ("max", "min", "nanmax", "nanmin"):
    _define_extreme(_name, _name)
for _name in ("any", "all"):
    _define_truth(_name)
for _name in ("argmax", "nanargmax"):
    _define_position(_name, "argmax", -math.inf)
for _name in ("argmin", "nanargmin"):
    _define_position(_name, "argmin", math.inf)
for _name in ("mean", "nanmean"):
    _define_mean(_name)
for _name in ("var", "std", "nanvar", "nanstd"):
    _define_spread(_name)
