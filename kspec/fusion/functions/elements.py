"""Functions of elements that stand at the same place: selections, rounding, parts of numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from kspec import dtypes
from kspec.fusion import types
from kspec.fusion.functions.table import (
    FUNCTIONS,
    MISSING,
    array_of,
    delivered,
    fused_function,
    mask_of,
)
from kspec.fusion.tracer import Traced, Tracer, refuse


@fused_function
def where(tracer: Tracer, condition: Any, x: Any = MISSING, y: Any = MISSING) -> Traced:
    """``np.where`` with three arguments."""
    if x is MISSING or y is MISSING:
        refuse("np.where with one argument has a result of unknown size; give it three")
    test, _ = tracer.operand(condition, "where")
    pairs = [tracer.operand(one, "where") for one in (x, y)]
    dtype = types.common(tuple(kind for _, kind in pairs))
    inputs = [tracer.convert(test, "bool"), *[tracer.convert(value, dtype) for value, _ in pairs]]
    return tracer.wrap(tracer.graph.apply("where", inputs, dtype))


@fused_function
def clip(
    tracer: Tracer,
    a: Any,
    a_min: Any = None,
    a_max: Any = None,
    out: Any = None,
    *,
    min: Any = None,
    max: Any = None,
    dtype: Any = None,
) -> Any:
    """``np.clip``."""
    low, high = (a_min if min is None else min), (a_max if max is None else max)
    result = array_of(tracer, a, "clip")
    if low is not None:
        result = tracer.ufunc("maximum", (result, low), dtype)[0]
    if high is not None:
        result = tracer.ufunc("minimum", (result, high), dtype)[0]
    if result is a:
        result = result.copy()
    return delivered((result,), (out,), "clip")


@fused_function
def around(tracer: Tracer, a: Any, decimals: int = 0, out: Any = None) -> Any:
    """``np.around``."""
    x = array_of(tracer, a, "around")
    kind = dtypes.lookup(x.value.dtype).kind
    if kind in "biu" and decimals >= 0:
        result = x.astype("float16" if kind == "b" else x.dtype)
    elif decimals == 0:
        result = _rounded(tracer, x)
    else:
        scale = 10.0 ** abs(decimals)
        first, second = ("multiply", "divide") if decimals > 0 else ("divide", "multiply")
        result = tracer.ufunc(first, (x, scale))[0]
        result = tracer.ufunc(second, (_rounded(tracer, result), scale))[0]
        if kind in "biu":
            result = result.astype(x.dtype)
    return delivered((result,), (out,), "around")


def _rounded(tracer: Tracer, x: Traced) -> Traced:
    return tracer.ufunc("rint", (x,))[0]


@fused_function
def copyto(
    tracer: Tracer, dst: Any, src: Any, casting: str = "same_kind", where: Any = True
) -> None:
    """``np.copyto``."""
    if not isinstance(dst, Traced):
        refuse("copyto: the target must be an array that is passed to the function")
    value, kind = tracer.operand(src, "copyto")
    to = dst.value.dtype
    held = types.common((to, kind)) if kind in types.WEAK else kind
    if not np.can_cast(np.dtype(held), np.dtype(to), casting):  # type: ignore[arg-type]
        refuse(f"copyto: {held} is not written into an array of {to} by casting={casting!r}")
    new = tracer.wrap(tracer.convert(value, to))
    if where is not True:
        new = FUNCTIONS["where"](tracer, mask_of(tracer, where, "copyto"), new, dst.copy())
    dst.assign(new, "copyto")


@fused_function
def copy(tracer: Tracer, a: Any, order: str = "K", subok: bool = False) -> Traced:
    """``np.copy``."""
    return array_of(tracer, a, "copy").copy()


@fused_function
def real(tracer: Tracer, val: Any) -> Traced:
    """``np.real``."""
    return _part(tracer, val, "real")


@fused_function
def imag(tracer: Tracer, val: Any) -> Traced:
    """``np.imag``."""
    return _part(tracer, val, "imag")


@fused_function
def angle(tracer: Tracer, z: Any, deg: bool = False) -> Traced:
    """``np.angle``."""
    x = array_of(tracer, z, "angle")
    if dtypes.lookup(x.value.dtype).kind == "c":
        parts: tuple[Any, Any] = _part(tracer, x, "imag"), _part(tracer, x, "real")
    else:
        parts = 0, x
    result = tracer.ufunc("arctan2", parts)[0]
    return tracer.ufunc("multiply", (result, 180 / np.pi))[0] if deg else result


def _part(tracer: Tracer, given: Any, name: str) -> Traced:
    x = array_of(tracer, given, name)
    if dtypes.lookup(x.value.dtype).kind != "c":
        return x if name == "real" else _full(tracer, x, 0, None)
    return tracer.wrap(tracer.graph.apply(name, (x.value,), dtypes.real_part(x.value.dtype)))


@fused_function
def nan_to_num(
    tracer: Tracer,
    x: Any,
    copy: bool = True,
    nan: Any = 0.0,
    posinf: Any = None,
    neginf: Any = None,
) -> Traced:
    """``np.nan_to_num``."""
    a = array_of(tracer, x, "nan_to_num")
    if dtypes.lookup(a.value.dtype).kind != "f":
        return a.copy()
    limits = np.finfo(a.dtype)
    choose = FUNCTIONS["where"]
    high = float(limits.max) if posinf is None else posinf
    low = float(limits.min) if neginf is None else neginf
    infinite, negative = np.isinf(a), np.less(a, 0)
    result = choose(tracer, infinite, choose(tracer, negative, low, high), a)
    found: Traced = choose(tracer, np.isnan(a), nan, result)
    return found.astype(a.dtype)


@fused_function
def isclose(
    tracer: Tracer, a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Traced:
    """``np.isclose``."""
    x: Any = array_of(tracer, a, "isclose")
    y: Any = array_of(tracer, b, "isclose")
    near = (np.less_equal(np.absolute(x - y), atol + rtol * np.absolute(y)) & np.isfinite(y)) | (
        x == y
    )
    result: Traced = near | (np.isnan(x) & np.isnan(y)) if equal_nan else near
    return result


@fused_function
def zeros_like(tracer: Tracer, a: Any, dtype: Any = None, **_: Any) -> Traced:
    """``np.zeros_like``: zeros that have the shape when they meet the array."""
    return _full(tracer, a, 0, dtype)


@fused_function
def ones_like(tracer: Tracer, a: Any, dtype: Any = None, **_: Any) -> Traced:
    """``np.ones_like``."""
    return _full(tracer, a, 1, dtype)


@fused_function
def full_like(tracer: Tracer, a: Any, fill_value: Any, dtype: Any = None, **_: Any) -> Traced:
    """``np.full_like``."""
    return _full(tracer, a, fill_value, dtype)


def _full(tracer: Tracer, a: Any, number: Any, dtype: Any) -> Traced:
    x = array_of(tracer, a, "full_like")
    name = types.dtype_name(x.dtype if dtype is None else dtype)
    value = tracer.convert(tracer.operand(number, "full_like")[0], name)
    return tracer.wrap(tracer.graph.apply("filled", (value, x.value), name))


FUNCTIONS["round"] = FUNCTIONS["around"]
