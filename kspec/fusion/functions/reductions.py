"""Reductions: NumPy's functions that combine the elements along axes.

Each has the parameters of NumPy's function, read from it, and a function that computes its node.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from kspec.dataclass import dataclass
from kspec.errors import ShapeError
from kspec.fusion import types
from kspec.fusion.functions.table import array_of, define, write_outputs
from kspec.fusion.graph import Node
from kspec.fusion.refusals import refuse
from kspec.fusion.tracing.proxies import Proxy
from kspec.fusion.tracing.tracer import Tracer
from kspec.model import dtypes
from kspec.model.shapes import check_not_empty, normalize_axes

_WITHOUT_IDENTITY = frozenset({"max", "min", "nanmax", "nanmin", "argmax", "argmin"})
_WITH_AXES = frozenset({"mean", "var", "std"})  # NumPy raises for axes of numbers
Axes = tuple[int, ...]


@dataclass(frozen=True)
class _Reduction:
    """One call of a reduction.

    Attributes
    ----------
    tracer : Tracer
        Of the fused function.
    name : str
        NumPy's name of the reduction.
    options : dict of str to object
        Its arguments by the names of NumPy's parameters, those that were given.
    """

    tracer: Tracer
    name: str
    options: dict[str, Any]

    @property
    def dtype(self) -> str | None:
        """The dtype that was asked for."""
        dtype = self.options.get("dtype")
        return None if dtype is None else types.dtype_name(dtype)

    @property
    def skips_nan(self) -> bool:
        """Whether elements that are NaN are left out."""
        return self.name.startswith("nan")

    def held(self, dtype: str) -> str:
        """Return the dtype of a sum for an output: one that holds both, as in NumPy."""
        out = self.options.get("out")
        if out is None:
            return dtype
        return types.common_dtype((dtype, self.tracer.operand(out, "out")[0].dtype))

    def reduce(self, function: str, value: Node, axes: Axes, dtype: str) -> Node:
        """Return a reduction over axes; without axes the elements stay as they are."""
        graph = self.tracer.graph
        if not axes:
            if function in ("argmax", "argmin"):
                return graph.apply("filled", (graph.constant(0, "int64"), value), "int64")
            return graph.cast(value, dtype)
        if function in _WITHOUT_IDENTITY:
            extents = [one.size for one in value.shape]
            if function in ("argmax", "argmin") and 0 in [extents[k] for k in axes]:
                raise ValueError(f"attempt to get {function} of an empty sequence")
            check_not_empty(function, extents, axes, ())  # NumPy refuses empty outputs too
        return graph.reduce(function, value, axes, dtype)

    def count(self, value: Node, axes: Axes, dtype: str) -> Node:
        """Return the number of elements along axes."""
        return self.tracer.graph.count([value.shape[k] for k in axes], dtype)

    def result(self, compute: Compute) -> Any:
        """Return the result, written to ``out=`` if that was given."""
        x = array_of(self.tracer, self.options["a"], self.name)
        axis, out = self.options.get("axis"), self.options.get("out")
        ndim = len(x.value.shape)
        if ndim == 0 and self.name not in _WITH_AXES and axis in (0, -1):
            axis = None  # as for NumPy's numbers
        axes = normalize_axes(axis, ndim, self.name)
        value = compute(self, x.value, axes)
        if self.options.get("keepdims"):
            value = _kept(self.tracer, value, axes, ndim)
        result = self.tracer.wrap(value)
        if isinstance(out, Proxy) and out.value.sizes != result.value.sizes:
            raise ShapeError(
                f"{self.name}: out= has shape {out.value.sizes}, the result {result.value.sizes}"
            )
        return write_outputs((result,), (out,), self.name)


Compute = Callable[[_Reduction, Node, Axes], Node]


def _call(tracer: Tracer, options: dict[str, Any], name: str, compute: Compute) -> Any:
    """Return the result of a reduction."""
    if options.pop("where", True) is not True or "initial" in options:
        refuse(f"{name}: where= and initial= are not fused; select with np.where first")
    return _Reduction(tracer, name, options).result(compute)


def _kept(tracer: Tracer, value: Node, axes: Axes, ndim: int) -> Node:
    """Return a result with the axes that are gone, of extent 1."""
    if not value.shape and not ndim:
        return value
    return tracer.graph.index(value, tuple(None if k in axes else slice(None) for k in range(ndim)))


def _total(call: _Reduction, value: Node, axes: Axes, function: str) -> Node:
    has_out = call.options.get("out") is not None
    to = call.dtype or (call.held(value.dtype) if has_out else types.sum_dtype(value.dtype))
    if call.skips_nan:
        value = _without_nan(call.tracer, value, 0 if function == "sum" else 1)
    return call.reduce(function, call.tracer.graph.cast(value, to), axes, to)


def _extreme(call: _Reduction, value: Node, axes: Axes) -> Node:
    return call.reduce(call.name, value, axes, value.dtype)


def _truth(call: _Reduction, value: Node, axes: Axes) -> Node:
    return call.reduce(call.name, call.tracer.graph.cast(value, "bool"), axes, "bool")


def _position(call: _Reduction, value: Node, axes: Axes, function: str, worst: float) -> Node:
    if not isinstance(call.options.get("axis"), int | np.integer | None):
        raise TypeError(f"{call.name}: axis must be an integer or None")
    if call.skips_nan:
        value = _without_nan(call.tracer, value, worst)
    return call.reduce(function, value, axes, "int64")


def _ptp(call: _Reduction, value: Node, axes: Axes) -> Node:
    pair = (call.reduce(function, value, axes, value.dtype) for function in ("max", "min"))
    return call.tracer.ufunc("subtract", tuple(map(call.tracer.wrap, pair)))[0].value


def _count_nonzero(call: _Reduction, value: Node, axes: Axes) -> Node:
    graph = call.tracer.graph
    return call.reduce("sum", graph.cast(graph.cast(value, "bool"), "int64"), axes, "int64")


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
    return "float64" if row.kind in "biu" else types.computed_in(dtype)


def _narrow(call: _Reduction, dtype: str) -> str:
    """Return the dtype of a mean."""
    return call.dtype or call.held(dtype if _has_nan(dtype) else "float64")


def _refuse_integers(name: str, given: bool) -> None:
    if given:
        refuse(f"{name}: dtype= of integers is not fused; convert the result with astype")


def _mean_and_count(call: _Reduction, value: Node, axes: Axes, skipping: bool) -> tuple[Node, Node]:
    """Return mean and count, in the wide type."""
    graph, wide = call.tracer.graph, _wide(value.dtype)
    real = dtypes.real_part(wide)
    if skipping:
        there = graph.apply("isnan", (value,), "bool")
        there = graph.apply("logical_not", (there,), "bool")
        count = call.reduce("sum", graph.cast(there, "int64"), axes, "int64")
        value = _without_nan(call.tracer, value, 0)
        number = graph.cast(count, real)
    else:
        number = call.count(value, axes, real)
    total = graph.cast(call.reduce("sum", value, axes, value.dtype), wide)
    return graph.apply("divide", (total, graph.cast(number, wide)), wide), number


def _mean(call: _Reduction, value: Node, axes: Axes) -> Node:
    graph = call.tracer.graph
    skipping = call.skips_nan and _has_nan(value.dtype)
    to = _narrow(call, value.dtype)
    kept = _wide(to)
    if not _has_nan(to):  # that was asked for: the sum is one of integers
        _refuse_integers(call.name, skipping)
        kept = to
    found, _ = _mean_and_count(call, graph.cast(value, kept), axes, skipping)
    return graph.cast(found, to)


def _spread(call: _Reduction, value: Node, axes: Axes) -> Node:
    """Return a variance, or its square root for the name of a standard deviation."""
    graph = call.tracer.graph
    ddof, correction = call.options.get("ddof", 0), call.options.get("correction")
    if correction is not None and ddof:
        raise ValueError("ddof and correction can't be provided simultaneously.")
    less = float(ddof if correction is None else correction)
    narrow = _narrow(call, value.dtype)
    if call.dtype is not None:
        _refuse_integers(call.name, not _has_nan(narrow))
        if "c" in (dtypes.lookup(value.dtype).kind, dtypes.lookup(narrow).kind):
            refuse(
                f"{call.name}: dtype= of or for complex numbers is not fused; convert with astype"
            )
    to = dtypes.real_part(narrow)
    wide = graph.cast(value, _wide(narrow))
    real = _wide(to)
    skipping = call.skips_nan and _has_nan(value.dtype)
    if skipping or not axes or dtypes.lookup(wide.dtype).kind == "c":
        squares, number = _squares_in_two(call, wide, axes, skipping, real)
    else:  # of one pass over the elements
        squares = graph.reduce("squares", wide, axes, real)
        number = call.count(value, axes, real)
    if less:
        number = graph.apply("subtract", (number, graph.constant(less, real)), real)
        number = _without_negative(call.tracer, number, skipping)
    found = graph.apply("divide", (squares, number), real)
    if call.name.endswith("std"):
        found = graph.apply("sqrt", (found,), real)
    return graph.cast(found, to)


def _without_negative(tracer: Tracer, number: Node, skipping: bool) -> Node:
    """Return degrees of freedom: NumPy's none are 0, and NaN where elements are skipped."""
    graph, zero = tracer.graph, tracer.graph.constant(0.0, number.dtype)
    if not skipping:
        return graph.apply("maximum", (number, zero), number.dtype)
    there = graph.apply("greater", (number, zero), "bool")
    nothing = graph.constant(math.nan, number.dtype)
    return graph.apply("where", (there, number, nothing), number.dtype)


def _squares_in_two(
    call: _Reduction, wide: Node, axes: Axes, skipping: bool, real: str
) -> tuple[Node, Node]:
    """Return the sum of squared deviations from the mean, which is found first, and the count."""
    graph = call.tracer.graph
    mean, number = _mean_and_count(call, wide, axes, skipping)
    if axes:
        mean = _kept(call.tracer, mean, axes, len(wide.shape))
    difference = graph.apply("subtract", (wide, mean), wide.dtype)
    if skipping:
        difference = _without_nan(call.tracer, difference, 0, of=wide)
    if dtypes.lookup(wide.dtype).kind == "c":
        other = graph.apply("conjugate", (difference,), wide.dtype)
        square = graph.apply("multiply", (difference, other), wide.dtype)
        square = graph.apply("real", (square,), real)
    else:
        square = graph.apply("multiply", (difference, difference), real)
    return call.reduce("sum", square, axes, real), number


_COMPUTATIONS: dict[str, Compute] = {
    **{name: functools.partial(_total, function=name) for name in ("sum", "prod")},
    **{f"nan{name}": functools.partial(_total, function=name) for name in ("sum", "prod")},
    **dict.fromkeys(("max", "min", "nanmax", "nanmin"), _extreme),
    **dict.fromkeys(("any", "all"), _truth),
    **dict.fromkeys(
        ("argmax", "nanargmax"), functools.partial(_position, function="argmax", worst=-math.inf)
    ),
    **dict.fromkeys(
        ("argmin", "nanargmin"), functools.partial(_position, function="argmin", worst=math.inf)
    ),
    **dict.fromkeys(("mean", "nanmean"), _mean),
    **dict.fromkeys(("var", "std", "nanvar", "nanstd"), _spread),
    "ptp": _ptp,
    "count_nonzero": _count_nonzero,
}
# CuPy's reductions are all called with a dtype.
_DTYPE = inspect.Parameter("dtype", inspect.Parameter.KEYWORD_ONLY, default=None)
for _name, _compute in _COMPUTATIONS.items():
    define(_name, functools.partial(_call, name=_name, compute=_compute), [_DTYPE], ["mean"])
