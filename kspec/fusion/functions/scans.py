"""Scans: NumPy's functions that combine each element with all before it along an axis."""

from __future__ import annotations

from typing import Any

from kspec.fusion import types
from kspec.fusion.functions.table import array_of, fused_function, write_outputs
from kspec.fusion.functions.taking import along
from kspec.fusion.tracing.tracer import Tracer


def _scan(
    tracer: Tracer,
    a: Any,
    axis: int | None = None,
    dtype: Any = None,
    out: Any = None,
    *,
    function: str,
    name: str,
) -> Any:
    x, axis = along(tracer, array_of(tracer, a, name), axis, name)
    to = types.sum_dtype(x.value.dtype) if dtype is None else types.dtype_name(dtype)
    value = tracer.graph.scan(function, tracer.graph.cast(x.value, to), axis, to)
    return write_outputs((tracer.wrap(value),), (out,), name)


@fused_function
def cumsum(tracer: Tracer, a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    """``np.cumsum``."""
    return _scan(tracer, a, axis, dtype, out, function="sum", name="cumsum")


@fused_function
def cumprod(tracer: Tracer, a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    """``np.cumprod``."""
    return _scan(tracer, a, axis, dtype, out, function="prod", name="cumprod")
