"""NumPy's functions on stand-ins: what each computes, from ufuncs, reductions and views.

A function here has NumPy's name and arguments, after a tracer. `call_ufunc` and `call_function` are
what NumPy's protocols end in, `call_kernel` what CuPy's does.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from kspec import dtypes
from kspec.fusion import types
from kspec.fusion.graph import Value
from kspec.fusion.tracer import Traced, Tracer, refuse
from kspec.ir.builtins import BUILTINS

Function = Callable[..., Any]
FunctionT = TypeVar("FunctionT", bound=Function)
FUNCTIONS: dict[str, Function] = {}
_CUPY_NAMES = {"true_divide": "divide", "mod": "remainder", "abs": "absolute", "conj": "conjugate"}
_MISSING: Any = object()


def call_ufunc(
    tracer: Tracer, name: str, method: str, inputs: Sequence[Any], keywords: dict[str, Any]
) -> Any:
    """Return what a ufunc is for stand-ins.

    Raises
    ------
    FusionError
        If it is one that is not fused.
    """
    keywords = {key: value for key, value in keywords.items() if key == "axis" or value is not None}
    out = keywords.pop("out", ())
    out = out if isinstance(out, tuple) else (out,)
    dtype = keywords.pop("dtype", None)
    if method == "reduce" and name in _REDUCTIONS_OF:
        keywords.setdefault("axis", 0)
        given = {"out": out[0]} if out else {}
        return FUNCTIONS[_REDUCTIONS_OF[name]](tracer, *inputs, dtype=dtype, **given, **keywords)
    if method != "__call__":
        refuse(f"np.{name}.{method} is not fused; call it outside of the function")
    where = keywords.pop("where", True)
    if keywords.pop("casting", "same_kind") != "same_kind" or keywords:
        refuse(f"np.{name}: only out=, where= and dtype= are fused")
    if name in ("matmul", "vecdot", "matvec", "vecmat"):
        refuse(f"np.{name} is not fused; call it outside of the function")
    if name not in types.SPECIAL and not hasattr(np, name):
        refuse(f"{name} is not fused; call it outside of the function")
    if out and len(inputs) > _arity(name):
        raise ValueError("cannot specify 'out' as both a positional and keyword argument")
    results = tracer.ufunc(name, tuple(inputs), dtype)
    if where is not True:
        if not out or out[0] is None:
            refuse(f"np.{name}: where= without out= leaves elements undefined; use np.where")
        results = tuple(
            FUNCTIONS["where"](tracer, where, one, old)
            for one, old in zip(results, out, strict=True)
        )
    return _delivered(results, out, name)


def call_function(
    tracer: Tracer, function: Function, args: Sequence[Any], keywords: dict[str, Any]
) -> Any:
    """Return what one of NumPy's functions is for stand-ins.

    Raises
    ------
    FusionError
        If it is one that is not fused.
    """
    name = function.__name__
    found = FUNCTIONS.get(_SYNONYMS.get(name, name))
    if found is None:
        refuse(f"{name} is not fused; call it outside of the function")
    given = {key: value for key, value in keywords.items() if value is not np._NoValue}
    try:
        inspect.signature(found).bind(tracer, *args, **given)
    except TypeError as error:
        refuse(f"{name}: {error}")
    return found(tracer, *args, **given)


def call_kernel(tracer: Tracer, kernel: Any, args: Sequence[Any], keywords: dict[str, Any]) -> Any:
    """Return what one of CuPy's ufuncs, or a kernel, is for stand-ins.

    Raises
    ------
    FusionError
        If it is one that is not fused.
    """
    name = getattr(kernel, "name", "").removeprefix("cupyx_scipy_special_").removeprefix("cupy_")
    name = _CUPY_NAMES.get(name, name)
    ufunc = getattr(np, name, None)
    if isinstance(ufunc, np.ufunc) or name in types.SPECIAL:
        count = _arity(name)
        inputs, out = args[:count], args[count:]
        return call_ufunc(tracer, name, "__call__", inputs, {"out": tuple(out), **keywords})
    if name in FUNCTIONS:
        return FUNCTIONS[name](tracer, *args, **keywords)
    refuse(f"the kernel {name} is not fused; call it outside of the function")


def _arity(name: str) -> int:
    return BUILTINS[name].arity if name in types.SPECIAL else int(getattr(np, name).nin)


def _delivered(results: tuple[Traced, ...], out: Sequence[Any], name: str) -> Any:
    if out:
        for result, target in zip(results, out, strict=True):
            if target is not None:
                if not isinstance(target, Traced):
                    refuse(f"{name}: out= must be an array that is passed to the function")
                target.assign(result, name)
        results = tuple(
            one if target is None else target for one, target in zip(results, out, strict=True)
        )
    return results[0] if len(results) == 1 else results


def _function(function: FunctionT) -> FunctionT:
    FUNCTIONS[function.__name__.rstrip("_")] = function
    return function


def _array(tracer: Tracer, given: Any, name: str) -> Traced:
    if isinstance(given, Traced):
        return given
    value, _ = tracer.operand(given, name)
    return tracer.wrap(value)


# Element by element


@_function
def where(tracer: Tracer, condition: Any, x: Any = _MISSING, y: Any = _MISSING) -> Traced:
    """``np.where`` with three arguments."""
    if x is _MISSING or y is _MISSING:
        refuse("np.where with one argument has a result of unknown size; give it three")
    test, _ = tracer.operand(condition, "where")
    pairs = [tracer.operand(one, "where") for one in (x, y)]
    dtype = types.common(tuple(kind for _, kind in pairs))
    inputs = [tracer.convert(test, "bool"), *[tracer.convert(value, dtype) for value, _ in pairs]]
    return tracer.wrap(tracer.graph.apply("where", inputs, dtype))


@_function
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
    result = _array(tracer, a, "clip")
    if low is not None:
        result = tracer.ufunc("maximum", (result, low), dtype)[0]
    if high is not None:
        result = tracer.ufunc("minimum", (result, high), dtype)[0]
    if result is a:
        result = result.copy()
    return _delivered((result,), (out,), "clip")


@_function
def around(tracer: Tracer, a: Any, decimals: int = 0, out: Any = None) -> Any:
    """``np.around``."""
    x = _array(tracer, a, "around")
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
    return _delivered((result,), (out,), "around")


def _rounded(tracer: Tracer, x: Traced) -> Traced:
    return tracer.ufunc("rint", (x,))[0]


@_function
def copyto(
    tracer: Tracer, dst: Any, src: Any, casting: str = "same_kind", where: Any = True
) -> None:
    """``np.copyto``."""
    if not isinstance(dst, Traced):
        refuse("copyto: the target must be an array that is passed to the function")
    if where is not True:
        old_kind = dst.value.dtype
        value, _ = tracer.operand(src, "copyto")
        src = FUNCTIONS["where"](
            tracer, where, tracer.wrap(tracer.convert(value, old_kind)), dst.copy()
        )
    dst.assign(src, "copyto")


@_function
def copy(tracer: Tracer, a: Any, order: str = "K", subok: bool = False) -> Traced:
    """``np.copy``."""
    return _array(tracer, a, "copy").copy()


@_function
def real(tracer: Tracer, val: Any) -> Traced:
    """``np.real``."""
    return _part(tracer, val, "real")


@_function
def imag(tracer: Tracer, val: Any) -> Traced:
    """``np.imag``."""
    return _part(tracer, val, "imag")


@_function
def angle(tracer: Tracer, z: Any, deg: bool = False) -> Traced:
    """``np.angle``."""
    x = _array(tracer, z, "angle")
    if dtypes.lookup(x.value.dtype).kind == "c":
        parts: tuple[Any, Any] = _part(tracer, x, "imag"), _part(tracer, x, "real")
    else:
        parts = 0, x
    result = tracer.ufunc("arctan2", parts)[0]
    return tracer.ufunc("multiply", (result, 180 / np.pi))[0] if deg else result


def _part(tracer: Tracer, given: Any, name: str) -> Traced:
    x = _array(tracer, given, name)
    if dtypes.lookup(x.value.dtype).kind != "c":
        return x if name == "real" else _full(tracer, x, 0, None)
    dtype = "float32" if x.value.dtype == "complex64" else "float64"
    return tracer.wrap(tracer.graph.apply(name, (x.value,), dtype))


@_function
def nan_to_num(
    tracer: Tracer,
    x: Any,
    copy: bool = True,
    nan: Any = 0.0,
    posinf: Any = None,
    neginf: Any = None,
) -> Traced:
    """``np.nan_to_num``."""
    a = _array(tracer, x, "nan_to_num")
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


@_function
def isclose(
    tracer: Tracer, a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Traced:
    """``np.isclose``."""
    x: Any = _array(tracer, a, "isclose")
    y: Any = _array(tracer, b, "isclose")
    near = (np.less_equal(np.absolute(x - y), atol + rtol * np.absolute(y)) & np.isfinite(y)) | (
        x == y
    )
    result: Traced = near | (np.isnan(x) & np.isnan(y)) if equal_nan else near
    return result


@_function
def zeros_like(tracer: Tracer, a: Any, dtype: Any = None, **_: Any) -> Traced:
    """``np.zeros_like``: zeros that have the shape when they meet the array."""
    return _full(tracer, a, 0, dtype)


@_function
def ones_like(tracer: Tracer, a: Any, dtype: Any = None, **_: Any) -> Traced:
    """``np.ones_like``."""
    return _full(tracer, a, 1, dtype)


@_function
def full_like(tracer: Tracer, a: Any, fill_value: Any, dtype: Any = None, **_: Any) -> Traced:
    """``np.full_like``."""
    return _full(tracer, a, fill_value, dtype)


def _full(tracer: Tracer, a: Any, number: Any, dtype: Any) -> Traced:
    x = _array(tracer, a, "full_like")
    name = types.dtype_name(x.dtype if dtype is None else dtype)
    value = tracer.convert(tracer.operand(number, "full_like")[0], name)
    return tracer.wrap(tracer.graph.apply("filled", (value, x.value), name))


# Views


@_function
def reshape(tracer: Tracer, a: Any, /, shape: Any = None, order: str = "C", **_: Any) -> Traced:
    """``np.reshape`` in C order."""
    if order not in ("C", "A"):
        refuse(f"reshape: order={order!r} is not fused")
    x = _array(tracer, a, "reshape")
    sizes = [int(one) for one in (shape if isinstance(shape, tuple | list) else (shape,))]
    known = int(np.prod([one for one in sizes if one != -1], dtype=np.int64))
    have = int(np.prod(x.value.sizes, dtype=np.int64))
    if sizes.count(-1) == 1 and known and have % known == 0:
        sizes[sizes.index(-1)] = have // known
    if -1 in sizes or int(np.prod(sizes, dtype=np.int64)) != have:
        raise ValueError(f"cannot reshape array of size {have} into shape {tuple(sizes)}")
    graph, wanted = tracer.graph, tuple(sizes)

    def back(value: Value) -> Value:
        return graph.reshape(value, x.value.sizes)

    return x.view(lambda value: graph.reshape(value, wanted), back)


@_function
def ravel(tracer: Tracer, a: Any, order: str = "C") -> Traced:
    """``np.ravel``."""
    return reshape(tracer, a, -1, order=order)


@_function
def transpose(tracer: Tracer, a: Any, axes: Any = None) -> Traced:
    """``np.transpose``."""
    x = _array(tracer, a, "transpose")
    ndim = len(x.value.shape)
    order = tuple(reversed(range(ndim))) if axes is None else normalize_axis_tuple(axes, ndim)
    if len(order) != ndim:
        raise ValueError("axes don't match array")
    graph = tracer.graph
    inverse = tuple(int(one) for one in np.argsort(order))
    return x.view(
        lambda value: graph.permute(value, order), lambda value: graph.permute(value, inverse)
    )


@_function
def swapaxes(tracer: Tracer, a: Any, axis1: int, axis2: int) -> Traced:
    """``np.swapaxes``."""
    x = _array(tracer, a, "swapaxes")
    order = list(range(x.ndim))
    first, second = (normalize_axis_index(one, x.ndim) for one in (axis1, axis2))
    order[first], order[second] = order[second], order[first]
    return transpose(tracer, x, order)


@_function
def moveaxis(tracer: Tracer, a: Any, source: Any, destination: Any) -> Traced:
    """``np.moveaxis``."""
    x = _array(tracer, a, "moveaxis")
    places = np.moveaxis(np.empty((1,) * x.ndim), source, destination)
    del places  # raises what NumPy raises
    sources = normalize_axis_tuple(source, x.ndim)
    targets = normalize_axis_tuple(destination, x.ndim)
    order = [axis for axis in range(x.ndim) if axis not in sources]
    for target, axis in sorted(zip(targets, sources, strict=True)):
        order.insert(target, axis)
    return transpose(tracer, x, order)


@_function
def expand_dims(tracer: Tracer, a: Any, axis: Any) -> Traced:
    """``np.expand_dims``."""
    x = _array(tracer, a, "expand_dims")
    axes = axis if isinstance(axis, tuple | list) else (axis,)
    places = normalize_axis_tuple(axes, x.ndim + len(axes))
    return x[tuple(None if k in places else slice(None) for k in range(x.ndim + len(axes)))]


@_function
def squeeze(tracer: Tracer, a: Any, axis: Any = None) -> Traced:
    """``np.squeeze``."""
    x = _array(tracer, a, "squeeze")
    sizes = x.value.sizes
    if axis is None:
        axes = tuple(k for k, size in enumerate(sizes) if size == 1)
    else:
        axes = normalize_axis_tuple(axis, x.ndim)
        if any(sizes[k] != 1 for k in axes):
            raise ValueError("cannot select an axis to squeeze out which has size not equal to one")
    return x[tuple(0 if k in axes else slice(None) for k in range(x.ndim))]


@_function
def flip(tracer: Tracer, m: Any, axis: Any = None) -> Traced:
    """``np.flip``."""
    x = _array(tracer, m, "flip")
    axes = tuple(range(x.ndim)) if axis is None else normalize_axis_tuple(axis, x.ndim)
    return x[tuple(slice(None, None, -1) if k in axes else slice(None) for k in range(x.ndim))]


@_function
def broadcast_to(tracer: Tracer, array: Any, shape: Any, subok: bool = False) -> Traced:
    """``np.broadcast_to``."""
    from kspec.fusion.graph import Dim

    x = _array(tracer, array, "broadcast_to")
    sizes = tuple(shape) if isinstance(shape, tuple | list) else (shape,)
    dims = x.value.shape
    wanted = tuple(
        dims[k - len(sizes)] if len(sizes) - k <= len(dims) and dims[k - len(sizes)].size == size
        else Dim(int(size))
        for k, size in enumerate(sizes)
    )  # fmt: skip
    tracer.graph.shaped = True
    return tracer.wrap(tracer.graph.broadcast(x.value, wanted))


# Reductions

_REDUCTIONS_OF = {
    "add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min",
    "logical_and": "all", "logical_or": "any",
}  # fmt: skip
_WITHOUT_IDENTITY = frozenset({"max", "min", "nanmax", "nanmin", "argmax", "argmin"})
_SYNONYMS = {"amax": "max", "amin": "min", "round": "around", "absolute": "abs"}


def _reduced(
    tracer: Tracer,
    a: Any,
    axis: Any,
    keepdims: bool,
    out: Any,
    compute: Callable[[Value, tuple[int, ...]], Value],
    name: str,
) -> Any:
    x = _array(tracer, a, name)
    ndim = len(x.value.shape)
    axes = tuple(range(ndim)) if axis is None else tuple(sorted(normalize_axis_tuple(axis, ndim)))
    result = tracer.wrap(_kept(tracer, compute(x.value, axes), axes, ndim) if keepdims
                         else compute(x.value, axes))  # fmt: skip
    return _delivered((result,), (out,), name)


def _kept(tracer: Tracer, value: Value, axes: tuple[int, ...], ndim: int) -> Value:
    """Return a result with the axes that are gone, of extent 1."""
    if not value.shape and not ndim:
        return value
    return tracer.graph.index(value, tuple(None if k in axes else slice(None) for k in range(ndim)))


def _fold(tracer: Tracer, function: str, value: Value, axes: tuple[int, ...], dtype: str) -> Value:
    """Return what axes are made one by; without axes the elements stay as they are."""
    if not axes:
        if function in ("argmax", "argmin"):
            return tracer.graph.apply("filled", (tracer.graph.constant(0, "int64"), value), "int64")
        return tracer.graph.cast(value, dtype)
    if function in _WITHOUT_IDENTITY and any(value.shape[k].size == 0 for k in axes):
        if function in ("argmax", "argmin"):
            raise ValueError(f"attempt to get {function} of an empty sequence")
        raise ValueError(
            f"zero-size array to reduction operation {function}, which has no identity"
        )
    return tracer.graph.reduce(function, value, axes, dtype)


def _count(tracer: Tracer, value: Value, axes: tuple[int, ...], dtype: str) -> Value:
    return tracer.graph.count([value.shape[k] for k in axes], dtype)


def _refuse_where(name: str, where: Any, initial: Any) -> None:
    if where is not True or initial is not _MISSING:
        refuse(f"{name}: where= and initial= are not fused; select with np.where first")


def _define_total(name: str, function: str) -> None:
    def defined(
        tracer: Tracer,
        a: Any,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        keepdims: bool = False,
        initial: Any = _MISSING,
        where: Any = True,
    ) -> Any:
        _refuse_where(name, where, initial)

        def compute(value: Value, axes: tuple[int, ...]) -> Value:
            to = types.total(value.dtype) if dtype is None else types.dtype_name(dtype)
            if name.startswith("nan"):
                value = _without_nan(tracer, value, 0 if function == "sum" else 1)
            return _fold(tracer, function, tracer.graph.cast(value, to), axes, to)

        return _reduced(tracer, a, axis, keepdims, out, compute, name)

    FUNCTIONS[name] = defined


def _define_extreme(name: str, function: str) -> None:
    def defined(
        tracer: Tracer,
        a: Any,
        axis: Any = None,
        out: Any = None,
        keepdims: bool = False,
        initial: Any = _MISSING,
        where: Any = True,
        dtype: Any = None,
    ) -> Any:
        _refuse_where(name, where, initial)

        def compute(value: Value, axes: tuple[int, ...]) -> Value:
            return _fold(tracer, function, value, axes, value.dtype)

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
        _refuse_where(name, where, _MISSING)

        def compute(value: Value, axes: tuple[int, ...]) -> Value:
            return _fold(tracer, name, tracer.graph.cast(value, "bool"), axes, "bool")

        return _reduced(tracer, a, axis, keepdims, out, compute, name)

    FUNCTIONS[name] = defined


def _define_position(name: str) -> None:
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

        def compute(value: Value, axes: tuple[int, ...]) -> Value:
            return _fold(tracer, name, value, axes, "int64")

        return _reduced(tracer, a, axis, keepdims, out, compute, name)

    FUNCTIONS[name] = defined


def _without_nan(tracer: Tracer, value: Value, number: int) -> Value:
    """Return a value with a number in place of NaN."""
    if dtypes.lookup(value.dtype).kind not in "fc":
        return value
    graph = tracer.graph
    inputs = (
        graph.apply("isnan", (value,), "bool"),
        tracer.convert(graph.constant(number, "int64"), value.dtype),
        value,
    )
    return graph.apply("where", inputs, value.dtype)


def _wide(dtype: str) -> str:
    """Return what means are computed in: 16-bit floats in 32 bits."""
    row = dtypes.lookup(dtype)
    if row.kind in "biu":
        return "float64"
    return "float32" if row.itemsize < 4 else dtype


def _narrow(dtype: str, wanted: Any) -> str:
    if wanted is not None:
        return types.dtype_name(wanted)
    return "float64" if dtypes.lookup(dtype).kind in "biu" else dtype


def _mean_of(
    tracer: Tracer, value: Value, axes: tuple[int, ...], skipping: bool
) -> tuple[Value, Value]:
    """Return mean and count, in the wide type."""
    graph, wide = tracer.graph, value.dtype
    real = {"complex64": "float32", "complex128": "float64"}.get(wide, wide)
    if skipping:
        there = graph.apply("isnan", (value,), "bool")
        there = graph.apply("logical_not", (there,), "bool")
        count = _fold(tracer, "sum", graph.cast(there, "int64"), axes, "int64")
        value = _without_nan(tracer, value, 0)
        number = graph.cast(count, real)
    else:
        number = _count(tracer, value, axes, real)
    total = _fold(tracer, "sum", value, axes, wide)
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
        _refuse_where(name, where, _MISSING)

        def compute(value: Value, axes: tuple[int, ...]) -> Value:
            to = _narrow(value.dtype, dtype)
            wide = tracer.graph.cast(value, _wide(to))
            found, _ = _mean_of(tracer, wide, axes, name == "nanmean")
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
        _refuse_where(name, where, _MISSING)
        graph = tracer.graph
        less = float(ddof if correction is None else correction)

        def compute(value: Value, axes: tuple[int, ...]) -> Value:
            to = _narrow(value.dtype, dtype)
            to = {"complex64": "float32", "complex128": "float64"}.get(to, to)
            wide = graph.cast(value, _wide(_narrow(value.dtype, dtype)))
            real = _wide(to)
            skipping = name.startswith("nan")
            if skipping or not axes or dtypes.lookup(wide.dtype).kind == "c":
                squares, number = _squares_in_two(tracer, wide, axes, skipping, real)
            else:  # of one pass over the elements
                squares = graph.reduce("squares", wide, axes, real)
                number = _count(tracer, value, axes, real)
            if less:
                number = graph.apply("subtract", (number, graph.constant(less, real)), real)
                number = graph.apply("maximum", (number, graph.constant(0.0, real)), real)
            found = graph.apply("divide", (squares, number), real)
            if name.endswith("std"):
                found = graph.apply("sqrt", (found,), real)
            return graph.cast(found, to)

        return _reduced(tracer, a, axis, keepdims, out, compute, name)

    FUNCTIONS[name] = defined


def _squares_in_two(
    tracer: Tracer, wide: Value, axes: tuple[int, ...], skipping: bool, real: str
) -> tuple[Value, Value]:
    """Return the sum of squared deviations from the mean, which is found first, and the count."""
    graph = tracer.graph
    mean, number = _mean_of(tracer, wide, axes, skipping)
    if axes:
        mean = _kept(tracer, mean, axes, len(wide.shape))
    difference = graph.apply("subtract", (wide, mean), wide.dtype)
    if dtypes.lookup(wide.dtype).kind == "c":
        other = graph.apply("conjugate", (difference,), wide.dtype)
        square = graph.apply("multiply", (difference, other), wide.dtype)
        square = graph.apply("real", (square,), real)
    else:
        square = graph.apply("multiply", (difference, difference), real)
    if skipping:
        square = _without_nan(tracer, square, 0)
    return _fold(tracer, "sum", square, axes, real), number


@_function
def ptp(tracer: Tracer, a: Any, axis: Any = None, out: Any = None, keepdims: bool = False) -> Any:
    """``np.ptp``."""

    def compute(value: Value, axes: tuple[int, ...]) -> Value:
        high = _fold(tracer, "max", value, axes, value.dtype)
        low = _fold(tracer, "min", value, axes, value.dtype)
        return tracer.graph.apply("subtract", (high, low), value.dtype)

    return _reduced(tracer, a, axis, keepdims, out, compute, "ptp")


@_function
def count_nonzero(tracer: Tracer, a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """``np.count_nonzero``."""

    def compute(value: Value, axes: tuple[int, ...]) -> Value:
        ones = tracer.graph.cast(tracer.graph.cast(value, "bool"), "int64")
        return _fold(tracer, "sum", ones, axes, "int64")

    return _reduced(tracer, a, axis, keepdims, None, compute, "count_nonzero")


for _name, _of in {"sum": "sum", "prod": "prod", "nansum": "sum", "nanprod": "prod"}.items():
    _define_total(_name, _of)
for _name in ("max", "min", "nanmax", "nanmin"):
    _define_extreme(_name, _name)
for _name in ("any", "all"):
    _define_truth(_name)
for _name in ("argmax", "argmin"):
    _define_position(_name)
for _name in ("mean", "nanmean"):
    _define_mean(_name)
for _name in ("var", "std", "nanvar", "nanstd"):
    _define_spread(_name)
FUNCTIONS["round"] = FUNCTIONS["around"]
FUNCTIONS["iscomplexobj"] = lambda tracer, x: dtypes.lookup(x.value.dtype).kind == "c"
FUNCTIONS["shape"] = lambda tracer, x: x.shape
FUNCTIONS["ndim"] = lambda tracer, x: x.ndim
FUNCTIONS["size"] = lambda tracer, x: x.size
