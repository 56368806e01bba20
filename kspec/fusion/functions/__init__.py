"""NumPy's functions on proxies: what each computes, from ufuncs, reductions and views.

A function has NumPy's name and arguments, after a tracer. `call_ufunc` and `call_function` are
what NumPy's protocols end in, `call_kernel` what CuPy's does; `table` has what the others define,
`from_cupy` lets CuPy's functions find them while a function is traced.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kspec.fusion import inline, types
from kspec.fusion.functions import (  # these fill the table
    elements,
    joining,
    reductions,
    scans,
    taking,
    views,
)
from kspec.fusion.functions.table import FUNCTIONS, Function, mask_of, write_outputs
from kspec.fusion.refusals import refuse, refuse_call, refuse_unknown
from kspec.fusion.tracing.proxies import Proxy, record_recipe
from kspec.fusion.tracing.tracer import Tracer
from kspec.ir.builtins import BUILTINS

__all__ = [
    "FUNCTIONS",
    "call_function",
    "call_kernel",
    "call_named",
    "call_ufunc",
    "elements",
    "joining",
    "reductions",
    "scans",
    "taking",
    "views",
]

_CUPY_NAMES = {
    "true_divide": "divide", "mod": "remainder", "abs": "absolute", "conj": "conjugate",
    "fix": "trunc", "round_neg_uint": "round",
}  # fmt: skip
# Reductions that are methods of ufuncs.
_REDUCTIONS_OF = {
    "add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min",
    "logical_and": "all", "logical_or": "any",
}  # fmt: skip
_SYNONYMS = {"amax": "max", "amin": "min", "round": "around", "absolute": "abs"}


# Parameters that decide which kernels there are, and so are not proxies.
_KNOWN = frozenset(
    {
        *("axis", "axes", "axis1", "axis2", "source", "destination", "shape", "keepdims"),
        *("decimals", "ddof", "correction", "deg", "equal_nan", "dtype", "order", "copy"),
        *("shift", "n", "mode"),
    }
)


def call_ufunc(
    tracer: Tracer, name: str, method: str, inputs: Sequence[Any], keywords: dict[str, Any]
) -> Any:
    """Return the result of a ufunc for proxies.

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
        refuse_call(f"np.{name}.{method}")
    where = keywords.pop("where", True)
    if keywords.pop("casting", "same_kind") != "same_kind" or keywords:
        refuse(f"np.{name}: only out=, where= and dtype= are fused")
    if name in ("matmul", "vecdot", "matvec", "vecmat"):
        refuse_call(name, f"np.{name}")
    if name not in types.SPECIAL and not hasattr(np, name):
        refuse_call(name)
    if out and len(inputs) > _arity(name):
        raise ValueError("cannot specify 'out' as both a positional and keyword argument")
    results = tracer.ufunc(name, tuple(inputs), dtype)
    if where is not True:
        if not out or out[0] is None:
            refuse(f"np.{name}: where= without out= leaves elements undefined; use np.where")
        mask = mask_of(tracer, where, f"np.{name}")
        results = tuple(
            FUNCTIONS["where"](tracer, mask, one, old)
            for one, old in zip(results, out, strict=True)
        )
    return write_outputs(results, out, name)


def call_function(
    tracer: Tracer, function: Function, args: Sequence[Any], keywords: dict[str, Any]
) -> Any:
    """Return the result of one of NumPy's functions for proxies.

    Raises
    ------
    FusionError
        If it is one that is not fused.
    """
    given = {key: value for key, value in keywords.items() if value is not np._NoValue}
    return call_named(tracer, function.__name__, args, given)


def call_named(tracer: Tracer, name: str, args: Sequence[Any], keywords: dict[str, Any]) -> Any:
    """Return the result of a function of the table for proxies.

    Raises
    ------
    FusionError
        If there is none of that name, or it takes no such arguments.
    """
    found = FUNCTIONS.get(_SYNONYMS.get(name, name))
    if found is None:
        refuse_call(name)
    try:
        bound = inspect.signature(found).bind(tracer, *args, **keywords)
    except TypeError as error:
        refuse(f"{name}: {error}")
    for key, value in bound.arguments.items():
        entries = value if isinstance(value, tuple | list) else (value,)
        if key in _KNOWN and any(isinstance(one, Proxy) for one in entries):
            refuse_unknown(f"{name}: {key}=")
    return found(tracer, *args, **keywords)


def call_kernel(tracer: Tracer, kernel: Any, args: Sequence[Any], keywords: dict[str, Any]) -> Any:
    """Return the result of one of CuPy's ufuncs, or of a kernel of kspec's, for proxies.

    Raises
    ------
    FusionError
        If it is one that is not fused.
    """
    if hasattr(kernel, "declaration"):  # kspec's own, whatever it is called
        return inline.call_kernel(tracer, kernel, args, keywords)
    name = _name_of(kernel)
    keywords = {key: value for key, value in keywords.items() if value is not None}
    ufunc = getattr(np, name, None)
    if isinstance(ufunc, np.ufunc) or name in types.SPECIAL:
        inputs, out = args[: _arity(name)], args[_arity(name) :]
        out = tuple(out) or keywords.pop("out", ())
        made = call_ufunc(tracer, name, "__call__", inputs, {"out": out, **keywords})
        if isinstance(ufunc, np.ufunc):
            record_recipe(made, ufunc, inputs)
        return made
    if name in _WRITING and len(args) > getattr(kernel, "nin", len(args)):
        return FUNCTIONS["copyto"](tracer, *_WRITING[name](*args), **keywords)
    if name not in FUNCTIONS:
        refuse_call(f"the kernel {name}")
    made = call_named(tracer, name, args, keywords)
    if numpys := getattr(np, name, None):
        record_recipe(made, numpys, args, keywords)
    return made


# Kernels of `cupy.copyto`, and how its arguments follow from theirs; CuPy has looked at the types.
_WRITING: dict[str, Callable[..., tuple[Any, ...]]] = {
    "copy": lambda src, dst: (dst, src, "unsafe"),
    "where": lambda where, src, old, dst: (dst, src, "unsafe", where),
}


def _name_of(kernel: Any) -> str:
    """Return NumPy's name of one of CuPy's ufuncs or reductions."""
    name: str = getattr(kernel, "name", "")
    for prefix in ("cupyx_scipy_special_", "cupyx_scipy_", "cupy_"):
        name = name.removeprefix(prefix)
    for suffix in ("_with_dtype", "_complex_dtype"):
        name = name.removesuffix(suffix)
    return _CUPY_NAMES.get(name, name)


def _arity(name: str) -> int:
    return BUILTINS[name].arity if name in types.SPECIAL else int(getattr(np, name).nin)
