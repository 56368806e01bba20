"""Functions of elements that stand at the same place: selections, rounding, parts of numbers."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from kspec.fusion import types
from kspec.fusion.functions.table import (
    FUNCTIONS,
    MISSING,
    array_of,
    define,
    fused_function,
    mask_of,
    write_outputs,
)
from kspec.fusion.refusals import refuse
from kspec.fusion.tracing.proxies import Proxy
from kspec.fusion.tracing.tracer import Tracer
from kspec.model import dtypes


@fused_function
def where(tracer: Tracer, condition: Any, x: Any = MISSING, y: Any = MISSING) -> Proxy:
    """``np.where`` with three arguments."""
    if x is MISSING or y is MISSING:
        refuse("np.where with one argument has a result of unknown size; give it three")
    test, _ = tracer.operand(condition, "where")
    pairs = [tracer.operand(one, "where") for one in (x, y)]
    dtype = types.common_dtype(tuple(kind for _, kind in pairs))
    inputs = [tracer.convert(test, "bool"), *[tracer.convert(value, dtype) for value, _ in pairs]]
    return tracer.wrap(tracer.graph.apply("where", inputs, dtype))


@fused_function
def select(tracer: Tracer, condlist: Any, choicelist: Any, default: Any = 0) -> Proxy:
    """``np.select``."""
    if len(condlist) != len(choicelist):
        raise ValueError("list of cases must be same length as list of conditions")
    if not len(condlist):
        raise ValueError("select with an empty condition list is not possible")
    for number, one in enumerate(condlist):
        if tracer.operand(one, "select")[1] not in ("bool", "truth"):
            raise TypeError(f"invalid entry {number} in condlist: should be boolean ndarray")
    pairs = [tracer.operand(one, "select") for one in (*choicelist, default)]
    dtype = types.common_dtype(tuple(kind for _, kind in pairs))
    *choices, found = [tracer.wrap(tracer.convert(value, dtype)) for value, _ in pairs]
    for test, choice in reversed(list(zip(condlist, choices, strict=True))):
        found = where(tracer, test, choice, found)
    return found


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
    if result.dtype.kind in "iu":  # bounds beyond its type hold nothing back
        limits = np.iinfo(result.dtype)
        low = None if type(low) is int and low <= limits.min else low
        high = None if type(high) is int and high >= limits.max else high
    if low is not None and high is not None and dtype is None:  # of the type of all three
        kinds = (tracer.operand(one, "clip")[1] for one in (result, low, high))
        dtype = types.common_dtype(tuple(kinds))
    if low is not None:
        result = tracer.ufunc("maximum", (result, low), dtype)[0]
    if high is not None:
        result = tracer.ufunc("minimum", (result, high), dtype)[0]
    if result is a:
        result = result.copy()
    return write_outputs((result,), (out,), "clip")


@fused_function
def around(tracer: Tracer, a: Any, decimals: int = 0, out: Any = None) -> Any:
    """``np.around``."""
    x = array_of(tracer, a, "around")
    kind = dtypes.lookup(x.value.dtype).kind
    if kind == "b" and decimals:
        refuse("around: decimals= of bool is not fused; convert it with astype")
    if kind in "biu" and decimals >= 0:
        result = x.astype("float16" if kind == "b" else x.dtype)
    elif decimals == 0:
        result = _rounded(tracer, x)
    else:
        scale = 10.0 ** abs(decimals)
        first, second = ("multiply", "divide") if decimals > 0 else ("divide", "multiply")
        # The scale is a number, next to which bfloat16 is float32; NumPy's steps keep the type.
        scaled = tracer.ufunc(first, (x, scale))[0]
        scaled = scaled if kind in "biu" else scaled.astype(x.dtype)
        result = tracer.ufunc(second, (_rounded(tracer, scaled), scale))[0].astype(x.dtype)
    return write_outputs((result,), (out,), "around")


def _rounded(tracer: Tracer, x: Proxy) -> Proxy:
    return tracer.ufunc("rint", (x,))[0]


@fused_function
def copyto(
    tracer: Tracer, dst: Any, src: Any, casting: str = "same_kind", where: Any = True
) -> None:
    """``np.copyto``."""
    if not isinstance(dst, Proxy):
        refuse("copyto: the target must be an array that is passed to the function")
    value, kind = tracer.operand(src, "copyto")
    to = dst.value.dtype
    held = types.common_dtype((to, kind)) if kind in types.WEAK else kind
    if not np.can_cast(np.dtype(held), np.dtype(to), casting):  # type: ignore[arg-type]
        refuse(f"copyto: {held} cannot be written into an array of {to} by casting={casting!r}")
    new = tracer.wrap(tracer.convert(value, to))
    if where is not True:
        new = FUNCTIONS["where"](tracer, mask_of(tracer, where, "copyto"), new, dst.copy())
    dst[...] = new


@fused_function
def copy(tracer: Tracer, a: Any, order: str = "K", subok: bool = False) -> Proxy:
    """``np.copy``."""
    return array_of(tracer, a, "copy").copy()


FUNCTIONS["real"] = lambda tracer, val: _part(tracer, val, "real")
FUNCTIONS["imag"] = lambda tracer, val: _part(tracer, val, "imag")


@fused_function
def angle(tracer: Tracer, z: Any, deg: bool = False) -> Proxy:
    """``np.angle``."""
    x = array_of(tracer, z, "angle")
    if dtypes.lookup(x.value.dtype).kind == "c":
        parts: tuple[Any, Any] = _part(tracer, x, "imag"), _part(tracer, x, "real")
    else:
        parts = 0, x
    result = tracer.ufunc("arctan2", parts)[0]
    return tracer.ufunc("multiply", (result, 180 / np.pi))[0] if deg else result


FUNCTIONS["angle_deg"] = lambda tracer, z: angle(tracer, z, deg=True)  # CuPy's kernel


def _part(tracer: Tracer, given: Any, name: str) -> Proxy:
    x = array_of(tracer, given, name)
    if x.weak:
        return _part_of_number(tracer, tracer.without_bool(x), name)
    if dtypes.lookup(x.value.dtype).kind != "c":
        return x if name == "real" else x.make_view(lambda _: _full(tracer, x, 0).value, None)
    dtype = dtypes.real_part(x.value.dtype)
    return x.make_view(lambda value: tracer.graph.apply(name, (value,), dtype), None)


def _part_of_number(tracer: Tracer, number: Proxy, name: str) -> Proxy:
    """Return a part of a Python number, which is another."""
    if number.weak == "complex":
        value = tracer.graph.apply(name, (number.value,), types.STRONG["float"])
        return Proxy(tracer, value, weak="float")
    if name == "real":
        return number
    return Proxy(tracer, tracer.graph.constant(0, number.value.dtype), weak=number.weak)


@fused_function
def sinc(tracer: Tracer, x: Any) -> Proxy:
    """``np.sinc``."""
    given = array_of(tracer, x, "sinc")
    turned = tracer.ufunc("multiply", (math.pi, tracer.wrap(given.value)))[0]
    is_zero = tracer.ufunc("equal", (turned, 0))[0]
    divisor = FUNCTIONS["where"](tracer, is_zero, 1, turned)
    wave = tracer.ufunc("divide", (*tracer.ufunc("sin", (divisor,)), divisor))[0]
    found: Proxy = FUNCTIONS["where"](tracer, is_zero, 1, wave)
    return found


@fused_function
def nan_to_num(
    tracer: Tracer,
    x: Any,
    copy: bool = True,
    nan: Any = 0.0,
    posinf: Any = None,
    neginf: Any = None,
) -> Proxy:
    """``np.nan_to_num``."""
    a = array_of(tracer, x, "nan_to_num")
    result, dtype = a.copy(), a.value.dtype
    if dtypes.lookup(dtype).kind in "fc":
        real = dtypes.real_part(dtype)
        most = _largest(real)
        given = nan, most if posinf is None else posinf, -most if neginf is None else neginf
        instead = [tracer.convert(tracer.operand(one, "nan_to_num")[0], real) for one in given]
        result = tracer.wrap(tracer.graph.apply("nan_to_num", (a.value, *instead), dtype))
    found: Proxy = write_outputs((result,), () if copy else (a,), "nan_to_num")
    return found


def _largest(dtype: str) -> float:
    kind = np.dtype(dtype)  # np.finfo knows NumPy's own alone
    return float(np.nextafter(np.array(np.inf, kind), np.array(0, kind)))


@fused_function
def isclose(
    tracer: Tracer, a: Any, b: Any, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: bool = False
) -> Proxy:
    """``np.isclose``, as which it leaves Python's numbers what they are."""
    x, y = a, _inexact(tracer, b)
    near = np.less_equal(abs(x - y), atol + rtol * abs(y)) & np.isfinite(y) | (x == y)
    result: Proxy = near | (np.isnan(x) & np.isnan(y)) if equal_nan else near
    return result


def _inexact(tracer: Tracer, given: Any) -> Any:
    """Return an operand that is not an integer: the smallest integer has no absolute value."""
    if not isinstance(given, Proxy | np.generic):
        return float(given) if isinstance(given, int) else given
    if isinstance(given, Proxy) and given.weak:
        weak = "complex" if given.weak == "complex" else "float"
        return Proxy(tracer, tracer.convert(given.value, types.STRONG[weak]), weak=weak)
    value, kind = tracer.operand(given, "isclose")
    return tracer.wrap(tracer.convert(value, types.common_dtype((kind, "float"))))


def _full(tracer: Tracer, a: Any, number: Any, dtype: Any = None, name: str = "full_like") -> Proxy:
    """Return a number that has an array's shape, or elements that fit it."""
    x = array_of(tracer, a, name)
    to = types.dtype_name(x.dtype if dtype is None else dtype)
    value = tracer.convert(tracer.operand(number, name)[0], to)
    if not value.shape:
        return tracer.wrap(tracer.graph.apply("filled", (value, x.value), to))
    made = _full(tracer, x, 0, to)
    made[...] = number
    return made


def _full_like(tracer: Tracer, given: dict[str, Any], name: str, number: int | None) -> Proxy:
    if given.get("shape") is not None:
        refuse(f"{name}: shape= is not fused; pass the function an array of that shape")
    value = given["fill_value"] if number is None else number
    return _full(tracer, next(iter(given.values())), value, given.get("dtype"), name)


for _name, _number in {"zeros_like": 0, "ones_like": 1, "empty_like": 0, "full_like": None}.items():
    define(_name, functools.partial(_full_like, name=_name, number=_number))
FUNCTIONS["round"] = FUNCTIONS["around"]
