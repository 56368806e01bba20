"""Calls in, values out: Python's functions, types, ufuncs, device functions.

What ``jit`` itself has is in `kspec.jit.device_calls`.  A function that kernels do not have is
called while compiling if all of its arguments are known: it may return a constant, or a device
function.
"""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import FunctionType
from typing import Any

import numpy as np

from kspec.ir.builtins import BUILTINS, UNSUPPORTED
from kspec.ir.nodes import BuiltinCall, Cast, Extent, FunctionCall
from kspec.ir.types import ArrayType, BufferType, ObjectType, is_memory
from kspec.jit import cg, device_calls, operations, thrust, types
from kspec.jit.builtins import DeviceBuiltin, OnlyInKernels
from kspec.jit.call_site import CallSite
from kspec.jit.scope import Scope
from kspec.jit.syntax.local_functions import LocalFunction
from kspec.jit.values import (
    Known,
    Method,
    TupleValue,
    Value,
    convert,
    describe,
    kind_of,
    unwrapped,
    wrapped,
)
from kspec.model import dtypes

# Functions of `math` on unknown values, as ufuncs of floating-point numbers.
_SAME = """
    sqrt exp expm1 log2 log10 log1p sin cos tan sinh cosh tanh floor ceil trunc degrees radians
    isnan isinf isfinite copysign hypot fmod fabs ldexp nextafter cbrt exp2 log
"""
_MATH = {
    **{name: name for name in _SAME.split()},
    **{f"a{name}": f"arc{name}" for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
    **{"atan2": "arctan2", "pow": "power", "erf": "erf", "erfc": "erfc"},
    **{"gamma": "gamma", "lgamma": "gammaln"},
}
_LIBRARIES = frozenset({"numpy", "cupy", "cupyx", "scipy"})
# Those that return integers in Python.
_ROUNDING = {"floor", "ceil", "trunc"}
_NO_UFUNCS = {"erf", "erfc", "gamma", "gammaln"}
_CASTS = (int, float, bool, complex)
# Functions that are called on known values.
_FOLDED = (abs, min, max, round, len, int, float, bool, complex, divmod, sum, isinstance)


def call(scope: Scope, node: ast.Call) -> Value:
    """Return the value of a call."""
    target = scope.evaluate(node.func)
    args: list[Value] = []
    for one in node.args:
        if isinstance(one, ast.Starred):
            value = scope.evaluate(one.value)
            if not isinstance(value, TupleValue):
                raise scope.problem(one, ValueError, "Not supported in kernels: only tuples have *")
            args += value.items
        else:
            args.append(scope.evaluate(one))
    args = operations.in_order(scope, args)
    keywords: dict[str, Value] = {}
    for word in node.keywords:
        if word.arg is None:
            raise scope.problem(node, ValueError, "Not supported in kernels: ** in a call")
        keywords[word.arg] = scope.evaluate(word.value)
    function = target.value if isinstance(target, Known) else None
    name = target.name if isinstance(target, Method) else getattr(function, "__name__", "")
    site = CallSite(scope, node, name, args, keywords)
    if isinstance(target, Method):
        return _method(site, target)
    if not isinstance(target, Known):
        raise site.problem(TypeError, f"{describe(target)} cannot be called")
    return _called(site, function)


def _called(site: CallSite, function: Any) -> Value:
    """Return the result of a known function for some values."""
    if isinstance(function, DeviceBuiltin):
        return device_calls.call(replace(site, callee=f"jit.{function.name}"))
    made = getattr(function, "compile_call", None)
    if made is not None:  # functions and classes of kspec.jit's own
        return made(site)  # type: ignore[no-any-return]
    python = getattr(function, "device_function", None)
    if isinstance(function, LocalFunction):
        python = function
    if python is not None:
        return site.scope.call_device(site.node, python, site.args, site.keywords)
    if getattr(function, "is_kernel", False):
        raise site.problem(TypeError, "a kernel cannot call a kernel; use device=True")
    known = _known(site, function)
    if known is not None:
        return known
    handler = _PYTHON.get(function) if _hashable(function) else None
    if handler is not None:
        return handler(site)
    if isinstance(function, type) and (function in _CASTS or issubclass(function, np.generic)):
        return _cast(site, function)
    if isinstance(function, np.ufunc):
        return _ufunc(site, function.__name__)
    if getattr(function, "__module__", None) == "cupy" or _is_cupy_ufunc(function):
        name = getattr(function, "name", getattr(function, "__name__", "")).removeprefix("cupy_")
        if isinstance(getattr(np, name, None), np.ufunc):
            return _ufunc(site, name)
    if getattr(function, "__module__", None) == "math" and function.__name__ in _MATH:
        return _math(site, function.__name__, site.args)
    return _run(site, function)


def _run(site: CallSite, function: Any) -> Value:
    """Return the result of any function of known values: called now, by Python."""
    name = getattr(function, "__name__", repr(function))
    given = [unwrapped(one) for one in site.args]
    named = {word: unwrapped(one) for word, one in site.keywords.items()}
    if not callable(function):
        raise site.problem(TypeError, f"{describe(Known(function))} cannot be called")
    values = (*given, *named.values())
    is_python = isinstance(function, FunctionType) and not _is_of_library(function)
    if is_python and any(one is None or isinstance(one.value, LocalFunction) for one in values):
        return site.scope.call_device(site.node, function, site.args, site.keywords)
    if None in values:
        raise site.problem(
            TypeError,
            f"Invalid function call: {name} is not a function of kernels, and its arguments are "
            "not constants; write a Python function of it",
        )
    site.scope.program.run.append(function)
    try:
        result = function(
            *(one.value for one in given if one is not None),
            **{word: one.value for word, one in named.items() if one is not None},
        )
    except OnlyInKernels:  # it has indices, barriers or memory of kernels
        if not is_python:
            raise
        return site.scope.call_device(site.node, function, site.args, site.keywords)
    except Exception as error:
        message = f"{name}, called while compiling: {error}"
        raise site.problem(type(error), message) from error
    return wrapped(result)


def _is_of_library(function: FunctionType) -> bool:
    """Return whether a function is one of arrays, or of Python's own: not made for kernels."""
    root = (function.__module__ or "").partition(".")[0]
    return root in _LIBRARIES or root in sys.stdlib_module_names


def _is_cupy_ufunc(function: Any) -> bool:
    return type(function).__module__.startswith("cupy") and type(function).__name__ == "ufunc"


def _hashable(function: Any) -> bool:
    try:
        hash(function)
    except TypeError:
        return False
    return True


def _known(site: CallSite, function: Any) -> Value | None:
    """Return the result of a pure function of known values; None if there is none."""
    pure = (
        function in _FOLDED
        or getattr(function, "__module__", None) == "math"
        or isinstance(function, np.ufunc)
        or (isinstance(function, type) and issubclass(function, np.generic | np.dtype))
        if _hashable(function)
        else False
    )
    is_extreme = function in (min, max) and not site.keywords if pure else False
    if not pure or (is_extreme and _are_numbers(_compared(site.args))):
        return None  # the extremes of numbers have NumPy's rules
    given = [one.value for one in site.args if isinstance(one, Known)]
    named = {name: one.value for name, one in site.keywords.items() if isinstance(one, Known)}
    if len(given) < len(site.args) or len(named) < len(site.keywords):
        return None
    with site.scope.at(site.node), np.errstate(all="ignore"):
        result = function(*given, **named)
        if isinstance(result, tuple):
            return TupleValue(tuple(map(Known, result)))
        return Known(result)


def _cast(site: CallSite, kind: type) -> Value:
    args = site.args
    with site.scope.at(site.node):
        dtype = types.dtype_name(kind)
    if len(args) == 2 and types.kind(dtype) == "c":
        parts = [site.scalar(one) for one in args]
        for one in parts:
            if kind_of(one) == "c":
                message = f"{kind.__name__}(re, im) takes two real numbers, not {one.type}"
                raise site.problem(TypeError, message)
        both = tuple(convert(one, dtypes.real_part(dtype)) for one in parts)
        return FunctionCall(dtypes.lookup(dtype).ctype, both, dtype)
    if len(args) != 1:
        raise site.problem(TypeError, f"{kind.__name__}() takes one number here")
    one = site.scalar(args[0])
    if kind_of(one) == "c" and types.kind(dtype) in "iuf":
        message = f"a {one.type} cannot become {dtype}; take .real or .imag"
        raise site.problem(TypeError, message)
    return convert(one, dtype)


def _ufunc(site: CallSite, name: str) -> Value:
    args, dtype = site.args, None
    for word, value in site.keywords.items():
        if word != "dtype" or not isinstance(value, Known):
            raise site.problem(TypeError, f"np.{name} takes no {word} in kernels")
        with site.scope.at(site.node):
            dtype = types.dtype_name(value.value)
    ufunc = getattr(np, name)
    if len(args) != ufunc.nin:
        raise site.problem(ValueError, f"np.{name} takes {ufunc.nin} arguments")
    if name in UNSUPPORTED:
        raise site.problem(NotImplementedError, f"np.{name}: {UNSUPPORTED[name]}")
    if ufunc.nout > 1:
        parts = [f"{name}.{k}" for k in range(ufunc.nout)]
        return TupleValue(tuple(site.ufunc(one, *args) for one in parts))
    if name not in BUILTINS:
        raise site.problem(NotImplementedError, f"np.{name} is not in kernels")
    if name in ("logical_and", "logical_or", "logical_not", "logical_xor"):
        parts_ = tuple(convert(site.scalar(one), "bool") for one in args)
        return BuiltinCall(name, parts_, "bool")
    return site.ufunc(name, *args, dtype=dtype)


def _math(site: CallSite, name: str, args: Sequence[Value]) -> Value:
    ufunc = _MATH[name]
    if name == "log" and len(args) == 2:
        top = _math(site, "log", args[:1])
        return site.ufunc("divide", top, _math(site, "log", args[1:]))
    if any(types.kind(str(site.scalar(one).type)) == "c" for one in args):
        raise site.problem(TypeError, f"math.{name} takes no complex numbers; np.{ufunc}")
    if name in _ROUNDING:
        whole = site.ufunc(ufunc, *args)
        return whole if kind_of(whole) in "biu" else convert(whole, "int64")
    if ufunc in _NO_UFUNCS:
        one = site.scalar(args[0])
        type_ = str(one.type) if kind_of(one) == "f" else "float64"
        return BuiltinCall(ufunc, (convert(one, type_),), type_)
    if len(args) != getattr(np, ufunc).nin:
        raise site.problem(TypeError, f"math.{name}: {len(args)} arguments")
    if name in ("isnan", "isinf", "isfinite", "ldexp"):
        return site.ufunc(ufunc, *args)
    return site.ufunc(ufunc, *(_floating(site, one) for one in args))


def _floating(site: CallSite, value: Value) -> Value:
    if isinstance(value, Known):
        return Known(float(value.value))
    one = site.scalar(value)
    return one if kind_of(one) == "f" else convert(one, "float64")


def _extreme(name: str) -> Callable[..., Value]:
    def handler(site: CallSite) -> Value:
        if site.keywords:
            raise site.problem(TypeError, "min() and max() take no keywords in kernels")
        items = _compared(site.args)
        if len(items) < 2:
            raise site.problem(TypeError, "min() and max() take two or more numbers")
        result = items[0]
        for one in items[1:]:
            if isinstance(result, Known) and isinstance(one, Known):
                result = _known_extreme(site, name, result, one)
            else:
                result = site.ufunc(name, result, one)
        return result

    return handler


def _compared(args: Sequence[Value]) -> Sequence[Value]:
    """Return the values that ``min`` and ``max`` compare: their arguments, or the items of one."""
    if len(args) != 1:
        return args
    (only,) = args
    if isinstance(only, Known) and isinstance(only.value, list | tuple | np.ndarray):
        only = wrapped(tuple(only.value))
    return only.items if isinstance(only, TupleValue) else args


def _are_numbers(values: Sequence[Value]) -> bool:
    return all(isinstance(one, Known) and one.is_number for one in values)


def _known_extreme(site: CallSite, name: str, first: Known, second: Known) -> Known:
    """Return one of two constants, by the rules of unknown values: NumPy's."""
    for one in (first, second):
        if not one.is_number:
            raise site.problem(TypeError, f"{describe(one)} is not a number")
    a, b = first.value, second.value
    if a != a or b != b:  # the first NaN
        return first if a != a else second
    left, right = ((one.real, one.imag) for one in (a, b))
    return first if (left <= right if name == "minimum" else left >= right) else second


def _len(site: CallSite) -> Value:
    (one,) = site.exactly(1)
    if isinstance(one, TupleValue):
        return Known(len(one.items))
    if isinstance(one, Known | Method) or not is_memory(one.type):
        raise site.problem(TypeError, f"{describe(one)} has no length")
    if isinstance(one.type, BufferType):
        if not one.type.shape:
            raise site.problem(TypeError, f"{one.type} does not know its length")
        return Known(one.type.shape[0])
    assert isinstance(one.type, ArrayType)
    if one.type.ndim == 0:
        raise site.problem(TypeError, "an array without axes has no length")
    return Extent(one, "shape", 0)


def _round(site: CallSite) -> Value:
    args = site.args
    value = site.scalar(args[0])
    if len(args) == 1:
        if kind_of(value) in "biu":
            return value
        return convert(site.ufunc("rint", value), "int64")
    digits = args[1]
    if not isinstance(digits, Known) or kind_of(value) != "f":
        raise site.problem(TypeError, "round(x, n) takes a floating-point x, a known n")
    scale = Known(np.dtype(str(value.type)).type(10.0 ** int(digits.value)))
    scaled = site.ufunc("multiply", value, scale)
    whole = site.ufunc("rint", scaled)
    return site.ufunc("divide", whole, scale)


def _print(site: CallSite) -> Value:
    words: dict[str, str] = {"sep": " ", "end": "\n"}
    for name, value in site.keywords.items():
        if name not in words or not isinstance(value, Known) or not isinstance(value.value, str):
            raise site.problem(TypeError, f"print() takes no such {name} in kernels")
        words[name] = value.value
    return device_calls.print_values(site, words["sep"], words["end"])


def _where(site: CallSite) -> Value:
    test, first, second = site.exactly(3)
    flag = convert(site.scalar(test), "bool")
    a, b = (site.scalar(one) for one in (first, second))
    if a.type != b.type:
        pair = (str(a.type), str(b.type))
        common, _ = types.loop(site.scope.mode, "maximum", pair)
        a, b = (
            site.assignable(one, dtype) for one, dtype in zip((first, second), common, strict=True)
        )
    return BuiltinCall("where", (flag, a, b), a.type)


def _clip(site: CallSite) -> Value:
    value, low, high = site.exactly(3)
    return site.ufunc("minimum", site.ufunc("maximum", value, low), high)


def _divmod(site: CallSite) -> Value:
    pair = site.exactly(2)
    return TupleValue(tuple(site.ufunc(one, *pair) for one in ("floor_divide", "remainder")))


def _part(name: str) -> Callable[..., Value]:
    def handler(site: CallSite) -> Value:
        one = site.scalar(site.exactly(1)[0])
        return BuiltinCall(name, (one,), dtypes.real_part(str(one.type)))

    return handler


def _method(site: CallSite, method: Method) -> Value:
    if isinstance(method.owner.type, ObjectType):
        return cg.call_method(site, method)
    if isinstance(method.owner.type, ArrayType):
        return thrust.begin_or_end(site, method.owner, method.name)
    if method.name == "copy":
        site.exactly(0)
        return Cast(method.owner, str(method.owner.type))
    if method.name in ("conjugate", "conj"):
        return site.ufunc("conjugate", method.owner)
    raise site.problem(TypeError, f"{method.owner.type} has no method {method.name}")


_PYTHON: dict[Any, Callable[..., Value]] = {
    abs: lambda site: site.ufunc("absolute", *site.exactly(1)),
    min: _extreme("minimum"),
    max: _extreme("maximum"),
    len: _len,
    round: _round,
    print: _print,
    divmod: _divmod,
    pow: lambda site: site.ufunc("power", *site.exactly(2)),
    builtins.range: device_calls.refuse_range,
    np.where: _where,
    np.clip: _clip,
    np.abs: lambda site: site.ufunc("absolute", *site.exactly(1)),
    np.real: _part("real"),
    np.imag: _part("imag"),
}
