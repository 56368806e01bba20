"""Calls in, values out: Python's functions, types, ufuncs, device functions.

What ``jit`` itself has is in `kspec.jit.device_calls`.  A function that kernels do not have is
called while compiling if all of its arguments are known: it may return a constant, or a device
function.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kspec.ir.builtins import BUILTINS, UNSUPPORTED
from kspec.ir.nodes import BuiltinCall, Expression, Extent, FunctionCall
from kspec.ir.types import ArrayType, BufferType, ObjectType, is_memory
from kspec.jit import cg, device_calls, operations, thrust, types
from kspec.jit.builtins import DeviceBuiltin
from kspec.jit.scope import Scope
from kspec.jit.values import (
    Known,
    Method,
    TupleValue,
    Value,
    converted,
    described,
    unwrapped,
    wrapped,
)
from kspec.model import dtypes

Keywords = dict[str, Value]

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
    keywords: Keywords = {}
    for word in node.keywords:
        if word.arg is None:
            raise scope.problem(node, ValueError, "Not supported in kernels: ** in a call")
        keywords[word.arg] = scope.evaluate(word.value)
    if isinstance(target, Method):
        return _method(scope, node, target, args)
    if not isinstance(target, Known):
        raise scope.problem(node, TypeError, f"{described(target)} cannot be called")
    return called(scope, node, target.value, args, keywords)


def called(
    scope: Scope, node: ast.Call, function: Any, args: Sequence[Value], keywords: Keywords
) -> Value:
    """Return the result of a known function for some values."""
    if isinstance(function, DeviceBuiltin):
        return device_calls.call(scope, node, function.name, args, keywords)
    made = getattr(function, "compile_call", None)
    if made is not None:  # functions and classes of kspec.jit's own
        return made(scope, node, args, keywords)  # type: ignore[no-any-return]
    python = getattr(function, "device_function", None)
    if python is not None:
        return scope.call_device(node, python, args, keywords)
    if getattr(function, "is_kernel", False):
        raise scope.problem(node, TypeError, "a kernel cannot call a kernel; use device=True")
    known = _known(scope, node, function, args, keywords)
    if known is not None:
        return known
    handler = _PYTHON.get(function) if _hashable(function) else None
    if handler is not None:
        return handler(scope, node, args, keywords)
    if isinstance(function, type) and (function in _CASTS or issubclass(function, np.generic)):
        return _cast(scope, node, function, args)
    if isinstance(function, np.ufunc):
        return _ufunc(scope, node, function.__name__, args, keywords)
    if getattr(function, "__module__", None) == "cupy" or _is_cupy_ufunc(function):
        name = getattr(function, "name", getattr(function, "__name__", "")).removeprefix("cupy_")
        if isinstance(getattr(np, name, None), np.ufunc):
            return _ufunc(scope, node, name, args, keywords)
    if getattr(function, "__module__", None) == "math" and function.__name__ in _MATH:
        return _math(scope, node, function.__name__, args)
    return _run(scope, node, function, args, keywords)


def _run(
    scope: Scope, node: ast.AST, function: Any, args: Sequence[Value], keywords: Keywords
) -> Value:
    """Return the result of any function of known values: called now, by Python."""
    name = getattr(function, "__name__", repr(function))
    given = [unwrapped(one) for one in args]
    named = {word: unwrapped(one) for word, one in keywords.items()}
    if not callable(function):
        raise scope.problem(node, TypeError, f"{described(Known(function))} cannot be called")
    if None in given or None in named.values():
        raise scope.problem(
            node,
            TypeError,
            f"Invalid function call: {name} is not a function of kernels, and its arguments are "
            "not constants; decorate it with @jit.rawkernel(device=True) if it is yours",
        )
    scope.program.run.append(function)
    try:
        result = function(
            *(one.value for one in given if one is not None),
            **{word: one.value for word, one in named.items() if one is not None},
        )
    except Exception as error:
        message = f"{name}, called while compiling: {error}"
        raise scope.problem(node, type(error), message) from error
    return wrapped(result)


def _is_cupy_ufunc(function: Any) -> bool:
    return type(function).__module__.startswith("cupy") and type(function).__name__ == "ufunc"


def _hashable(function: Any) -> bool:
    try:
        hash(function)
    except TypeError:
        return False
    return True


def _known(
    scope: Scope, node: ast.AST, function: Any, args: Sequence[Value], keywords: Keywords
) -> Value | None:
    """Return the result of a pure function of known values; None if there is none."""
    pure = (
        function in _FOLDED
        or getattr(function, "__module__", None) == "math"
        or isinstance(function, np.ufunc)
        or (isinstance(function, type) and issubclass(function, np.generic | np.dtype))
        if _hashable(function)
        else False
    )
    if not pure or (function in (min, max) and not keywords and _are_numbers(_compared(args))):
        return None  # the extremes of numbers have NumPy's rules
    values = [*args, *keywords.values()]
    if not all(isinstance(one, Known) for one in values):
        return None
    with scope.at(node), np.errstate(all="ignore"):
        given = [one.value for one in args if isinstance(one, Known)]
        named = {name: one.value for name, one in keywords.items() if isinstance(one, Known)}
        result = function(*given, **named)
        if isinstance(result, tuple):
            return TupleValue(tuple(map(Known, result)))
        return Known(result)


def _cast(scope: Scope, node: ast.AST, kind: type, args: Sequence[Value]) -> Value:
    with scope.at(node):
        dtype = types.dtype_name(kind)
    if len(args) == 2 and kind is complex:
        part = "float64"
        real = converted(operations.scalar(scope, node, args[0]), part)
        imag = converted(operations.scalar(scope, node, args[1]), part)

        return FunctionCall("complex<double>", (real, imag), "complex128")
    if len(args) != 1:
        raise scope.problem(node, TypeError, f"{kind.__name__}() takes one number here")
    return cast_to(scope, node, args[0], dtype)


def cast_to(scope: Scope, node: ast.AST, value: Value, dtype: str) -> Expression:
    """Return a value as one of a dtype, as its user says."""
    one = operations.scalar(scope, node, value)
    if types.kind(str(one.type)) == "c" and types.kind(dtype) in "iuf":
        raise scope.problem(
            node, TypeError, f"a {one.type} cannot become {dtype}; take .real or .imag"
        )
    return converted(one, dtype)


def _ufunc(
    scope: Scope, node: ast.AST, name: str, args: Sequence[Value], keywords: Keywords
) -> Value:

    dtype = None
    for word, value in keywords.items():
        if word != "dtype" or not isinstance(value, Known):
            raise scope.problem(node, TypeError, f"np.{name} takes no {word} in kernels")
        with scope.at(node):
            dtype = types.dtype_name(value.value)
    ufunc = getattr(np, name)
    if len(args) != ufunc.nin:
        raise scope.problem(node, ValueError, f"np.{name} takes {ufunc.nin} arguments")
    if name in UNSUPPORTED:
        raise scope.problem(node, NotImplementedError, f"np.{name}: {UNSUPPORTED[name]}")
    if ufunc.nout > 1:
        parts = [f"{name}.{k}" for k in range(ufunc.nout)]
        return TupleValue(tuple(operations.call_ufunc(scope, node, one, args) for one in parts))
    if name not in BUILTINS:
        raise scope.problem(node, NotImplementedError, f"np.{name} is not in kernels")
    if name in ("logical_and", "logical_or", "logical_not", "logical_xor"):
        parts_ = tuple(converted(operations.scalar(scope, node, one), "bool") for one in args)
        return BuiltinCall(name, parts_, "bool")
    return operations.call_ufunc(scope, node, name, args, dtype=dtype)


def _math(scope: Scope, node: ast.AST, name: str, args: Sequence[Value]) -> Value:
    ufunc = _MATH[name]
    if name == "log" and len(args) == 2:
        top = _math(scope, node, "log", args[:1])
        return operations.call_ufunc(
            scope, node, "divide", (top, _math(scope, node, "log", args[1:]))
        )
    if any(types.kind(str(operations.scalar(scope, node, one).type)) == "c" for one in args):
        raise scope.problem(node, TypeError, f"math.{name} takes no complex numbers; np.{ufunc}")
    if name in _ROUNDING:
        return _to_integer(scope, node, operations.call_ufunc(scope, node, ufunc, args))
    if ufunc in _NO_UFUNCS:
        one = operations.scalar(scope, node, args[0])
        type_ = str(one.type) if types.kind(str(one.type)) == "f" else "float64"
        return BuiltinCall(ufunc, (converted(one, type_),), type_)
    if len(args) != getattr(np, ufunc).nin:
        raise scope.problem(node, TypeError, f"math.{name}: {len(args)} arguments")
    if name in ("isnan", "isinf", "isfinite", "ldexp"):
        return operations.call_ufunc(scope, node, ufunc, args)
    return operations.call_ufunc(scope, node, ufunc, [_floating(scope, node, a) for a in args])


def _floating(scope: Scope, node: ast.AST, value: Value) -> Value:
    if isinstance(value, Known):
        return Known(float(value.value))
    one = operations.scalar(scope, node, value)
    return one if types.kind(str(one.type)) == "f" else converted(one, "float64")


def _to_integer(scope: Scope, node: ast.AST, value: Expression) -> Expression:
    return value if types.kind(str(value.type)) in "biu" else converted(value, "int64")


def _abs(scope: Scope, node: ast.AST, args: Sequence[Value], keywords: Keywords) -> Value:
    return operations.call_ufunc(scope, node, "absolute", _exactly(scope, node, args, 1, "abs"))


def _exactly(
    scope: Scope, node: ast.AST, args: Sequence[Value], count: int, name: str
) -> Sequence[Value]:
    if len(args) != count:
        raise scope.problem(node, TypeError, f"{name}() takes {count} argument, not {len(args)}")
    return args


def _extreme(name: str) -> Callable[..., Value]:
    def handler(scope: Scope, node: ast.AST, args: Sequence[Value], keywords: Keywords) -> Value:
        if keywords:
            raise scope.problem(node, TypeError, "min() and max() take no keywords in kernels")
        items = _compared(args)
        if len(items) < 2:
            raise scope.problem(node, TypeError, "min() and max() take two or more numbers")
        result = items[0]
        for one in items[1:]:
            if isinstance(result, Known) and isinstance(one, Known):
                result = _known_extreme(scope, node, name, result, one)
            else:
                result = operations.call_ufunc(scope, node, name, (result, one))
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


def _known_extreme(scope: Scope, node: ast.AST, name: str, first: Known, second: Known) -> Known:
    """Return one of two constants, by the rules of unknown values: NumPy's."""
    for one in (first, second):
        if not one.is_number:
            raise scope.problem(node, TypeError, f"{described(one)} is not a number")
    a, b = first.value, second.value
    if a != a or b != b:  # the first NaN
        return first if a != a else second
    left, right = ((one.real, one.imag) for one in (a, b))
    return first if (left <= right if name == "minimum" else left >= right) else second


def _len(scope: Scope, node: ast.AST, args: Sequence[Value], keywords: Keywords) -> Value:
    (one,) = _exactly(scope, node, args, 1, "len")
    if isinstance(one, TupleValue):
        return Known(len(one.items))
    if isinstance(one, Known | Method) or not is_memory(one.type):
        raise scope.problem(node, TypeError, f"{described(one)} has no length")
    if isinstance(one.type, BufferType):
        if not one.type.shape:
            raise scope.problem(node, TypeError, f"{one.type} does not know its length")
        return Known(one.type.shape[0])
    assert isinstance(one.type, ArrayType)
    if one.type.ndim == 0:
        raise scope.problem(node, TypeError, "an array without axes has no length")
    return Extent(one, "shape", 0)


def _round(scope: Scope, node: ast.AST, args: Sequence[Value], keywords: Keywords) -> Value:
    value = operations.scalar(scope, node, args[0])
    if len(args) == 1:
        if types.kind(str(value.type)) in "biu":
            return value
        return converted(operations.call_ufunc(scope, node, "rint", (value,)), "int64")
    digits = args[1]
    if not isinstance(digits, Known) or types.kind(str(value.type)) != "f":
        raise scope.problem(node, TypeError, "round(x, n) takes a floating-point x, a known n")
    scale = Known(np.dtype(str(value.type)).type(10.0 ** int(digits.value)))
    scaled = operations.call_ufunc(scope, node, "multiply", (value, scale))
    whole = operations.call_ufunc(scope, node, "rint", (scaled,))
    return operations.call_ufunc(scope, node, "divide", (whole, scale))


def _print(scope: Scope, node: ast.AST, args: Sequence[Value], keywords: Keywords) -> Value:
    words: dict[str, str] = {"sep": " ", "end": "\n"}
    for name, value in keywords.items():
        if name not in words or not isinstance(value, Known) or not isinstance(value.value, str):
            raise scope.problem(node, TypeError, f"print() takes no such {name} in kernels")
        words[name] = value.value
    return device_calls.print_values(scope, node, args, words["sep"], words["end"])


def _where(scope: Scope, node: ast.AST, args: Sequence[Value], keywords: Keywords) -> Value:
    test, first, second = _exactly(scope, node, args, 3, "where")
    flag = converted(operations.scalar(scope, node, test), "bool")
    a, b = (operations.scalar(scope, node, one) for one in (first, second))
    if a.type != b.type:
        pair = (str(a.type), str(b.type))
        common, _ = types.loop(scope.mode, "maximum", pair)
        a, b = (
            operations.assignable(scope, node, one, dtype)
            for one, dtype in zip((first, second), common, strict=True)
        )
    return BuiltinCall("where", (flag, a, b), a.type)


def _range(scope: Scope, node: ast.AST, args: Sequence[Value], keywords: Keywords) -> Value:
    raise scope.problem(node, TypeError, "range() stands behind 'in' of a for loop only")


def _clip(scope: Scope, node: ast.AST, args: Sequence[Value], keywords: Keywords) -> Value:
    value, low, high = _exactly(scope, node, args, 3, "clip")
    raised = operations.call_ufunc(scope, node, "maximum", (value, low))
    return operations.call_ufunc(scope, node, "minimum", (raised, high))


def _divmod(scope: Scope, node: ast.AST, args: Sequence[Value], keywords: Keywords) -> Value:
    pair = _exactly(scope, node, args, 2, "divmod")
    return TupleValue(
        tuple(
            operations.call_ufunc(scope, node, name, pair) for name in ("floor_divide", "remainder")
        )
    )


def _pow(scope: Scope, node: ast.AST, args: Sequence[Value], keywords: Keywords) -> Value:
    return operations.call_ufunc(scope, node, "power", _exactly(scope, node, args, 2, "pow"))


def _part(name: str) -> Callable[..., Value]:
    def handler(scope: Scope, node: ast.AST, args: Sequence[Value], keywords: Keywords) -> Value:
        one = operations.scalar(scope, node, _exactly(scope, node, args, 1, name)[0])
        return BuiltinCall(name, (one,), dtypes.real_part(str(one.type)))

    return handler


def _method(scope: Scope, node: ast.AST, method: Method, args: Sequence[Value]) -> Value:
    if isinstance(method.owner.type, ObjectType):
        return cg.method(scope, node, method, args)
    if isinstance(method.owner.type, ArrayType):
        return thrust.ends_of(scope, node, method.owner, method.name)
    if method.name in ("conjugate", "conj"):
        return operations.call_ufunc(scope, node, "conjugate", (method.owner,))
    raise scope.problem(node, TypeError, f"{method.owner.type} has no method {method.name}")


_PYTHON: dict[Any, Callable[..., Value]] = {
    abs: _abs,
    min: _extreme("minimum"),
    max: _extreme("maximum"),
    len: _len,
    round: _round,
    print: _print,
    divmod: _divmod,
    pow: _pow,
    builtins.range: _range,
    np.where: _where,
    np.clip: _clip,
    np.abs: _abs,
    np.real: _part("real"),
    np.imag: _part("imag"),
}
