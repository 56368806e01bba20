"""Calls that only kernels have: indices, barriers, memory, atomics, shuffles, printf."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kspec.ir.control import Print, Reserve
from kspec.ir.nodes import BuiltinCall, Const, Element, Expression, Name
from kspec.ir.types import ArrayType, BufferType
from kspec.jit import operations, types
from kspec.jit.scope import Scope
from kspec.jit.syntax import indexing
from kspec.jit.values import Known, Method, TupleValue, Value, converted, described
from kspec.model import dtypes

Keywords = dict[str, Value]
Handler = Callable[[Scope, ast.AST, str, Sequence[Value], Keywords], Value]
_NONE = Known(None)
_FULL = 0xFFFFFFFF
_ATOMIC_HEADER = "kspec/jit_atomics.cuh"
_INTEGERS = ("int32", "uint32", "int64", "uint64")
# Which elements CUDA, or a header of ours, changes at once.
_ATOMIC_TYPES = {
    "atomic_add": (*_INTEGERS, "float16", "bfloat16", "float32", "float64"),
    "atomic_sub": (*_INTEGERS, "float32", "float64"),
    "atomic_exch": (*_INTEGERS, "float32", "float64"),
    "atomic_min": (*_INTEGERS, "float32", "float64"),
    "atomic_max": (*_INTEGERS, "float32", "float64"),
    "atomic_inc": ("uint32",),
    "atomic_dec": ("uint32",),
    "atomic_cas": (*_INTEGERS, "uint16"),
    "atomic_and": _INTEGERS,
    "atomic_or": _INTEGERS,
    "atomic_xor": _INTEGERS,
}
_SHUFFLED = (*_INTEGERS, "float16", "float32", "float64")
_FORMATS = {"int64": "%lld", "uint64": "%llu", "bool": "%s"}
_PRINTED = re.compile(r"%[-+ #0]*[\d*]*(?:\.[\d*]+)?(hh|h|ll|l|j|z|t|L)?([diouxXeEfFgGaAcsp%])")


def call(
    scope: Scope, node: ast.AST, name: str, args: Sequence[Value], keywords: Keywords
) -> Value:
    """Return the result of a function of ``jit`` for some values."""
    handler = _HANDLERS.get(name)
    if handler is None:
        handler = _atomic if name.startswith("atomic_") else _shuffle
    return handler(scope, node, name, args, keywords)


def named(
    scope: Scope, node: ast.AST, name: str, args: Sequence[Value], keywords: Keywords, *words: str
) -> list[Value]:
    """Return arguments in the order of the parameters; those with ``=`` may be missing."""
    found: list[Value] = list(args)
    if len(args) > len(words):
        raise scope.problem(node, TypeError, f"jit.{name} takes at most {len(words)} arguments")
    rest = dict(keywords)
    for word in words[len(args) :]:
        plain = word.rstrip("=")
        if plain in rest:
            found.append(rest.pop(plain))
        elif word.endswith("="):
            found.append(_NONE)
        else:
            raise scope.problem(node, TypeError, f"jit.{name} needs an argument {plain}")
    if rest:
        raise scope.problem(node, TypeError, f"jit.{name} has no parameter {next(iter(rest))}")
    return found


def known(scope: Scope, node: ast.AST, name: str, what: str, value: Value) -> Any:
    """Return something that must be known while compiling."""
    if isinstance(value, TupleValue):
        return tuple(known(scope, node, name, what, one) for one in value.items)
    if not isinstance(value, Known):
        raise scope.problem(
            node, TypeError, f"jit.{name}: {what} must be a constant, not {described(value)}"
        )
    return value.value


def print_values(scope: Scope, node: ast.AST, args: Sequence[Value], sep: str, end: str) -> Value:
    """Print values as Python's ``print`` does, numbers as C has them."""
    texts: list[str] = []
    shown: list[Expression] = []
    for one in _flat(args):
        if isinstance(one, Known):
            texts.append(str(one.value).replace("%", "%%"))
            continue
        value = operations.scalar(scope, node, one)
        kind = types.kind(str(value.type))
        if kind == "c":
            part = dtypes.real_part(str(value.type))
            texts.append("(%g%+gj)")
            shown += [BuiltinCall("real", (value,), part), BuiltinCall("imag", (value,), part)]
            continue
        plain = {"i": "%d", "u": "%u"}.get(kind, "%g")
        texts.append(_FORMATS.get(str(value.type), plain))
        shown.append(value)
    text = sep.replace("%", "%%").join(texts) + end.replace("%", "%%")
    scope.out.append(Print(text, tuple(shown)))
    return _NONE


def _flat(args: Sequence[Value]) -> list[Value]:
    found: list[Value] = []
    for one in args:
        found += _flat(one.items) if isinstance(one, TupleValue) else [one]
    return found


def _printf(
    scope: Scope, node: ast.AST, name: str, args: Sequence[Value], keywords: Keywords
) -> Value:
    text = known(scope, node, name, "the format", args[0]) if args else None
    if not isinstance(text, str) or keywords:
        raise scope.problem(node, TypeError, "jit.printf takes a format, and numbers")
    words = [match for match in _PRINTED.finditer(text) if match[2] != "%"]
    if len(words) != len(args) - 1:
        raise scope.problem(
            node, TypeError, f"the format has {len(words)} places for {len(args) - 1} numbers"
        )
    shown: list[Expression] = []
    pieces, end = [], 0
    for match, one in zip(words, args[1:], strict=True):
        value = operations.scalar(scope, node, one)
        is_float = match[2] in "eEfFgGaA"
        if (types.kind(str(value.type)) == "f") != is_float:
            raise scope.problem(node, TypeError, f"{match[0]} does not print a {value.type}")
        wide = str(value.type) in ("int64", "uint64")
        size = "ll" if wide and not is_float else ""
        start, stop = match.span()
        length = match.span(1) if match[1] else (match.start(2), match.start(2))
        pieces += [text[end : length[0]], size, text[length[1] : stop]]
        end = stop
        assert start <= stop
        shown.append(value if value.type != "bool" else converted(value, "int32"))
    scope.out.append(Print("".join([*pieces, text[end:]]), tuple(shown)))
    return _NONE


def _grid(
    scope: Scope, node: ast.AST, name: str, args: Sequence[Value], keywords: Keywords
) -> Value:
    (value,) = named(scope, node, name, args, keywords, "ndim")
    count = known(scope, node, name, "ndim", value)
    if not isinstance(count, int) or isinstance(count, bool):
        raise scope.problem(node, TypeError, f"jit.{name}: ndim must be an integer")
    if count not in (1, 2, 3):
        raise scope.problem(node, ValueError, f"jit.{name}: ndim must be 1, 2 or 3, not {count}")
    found = tuple(_place(name, axis) for axis in "xyz"[:count])
    return found[0] if count == 1 else TupleValue(found)


def _place(name: str, axis: str) -> Expression:
    def one(word: str) -> Expression:
        return BuiltinCall(f"{word}.{axis}", (), "uint32")

    if name == "gridsize":
        return BuiltinCall("multiply.c", (one("blockDim"), one("gridDim")), "uint32")
    first = BuiltinCall("multiply.c", (one("blockIdx"), one("blockDim")), "uint32")
    return BuiltinCall("add.c", (first, one("threadIdx")), "uint32")


def _laneid(
    scope: Scope, node: ast.AST, name: str, args: Sequence[Value], keywords: Keywords
) -> Value:
    named(scope, node, name, args, keywords)
    scope.program.headers.add("kspec/view.cuh")
    return BuiltinCall("laneid", (), "uint32")


def _barrier(
    scope: Scope, node: ast.AST, name: str, args: Sequence[Value], keywords: Keywords
) -> Value:
    named(scope, node, name, args, keywords)
    return BuiltinCall(name, (), "")


def mask_of(scope: Scope, node: ast.AST, name: str, value: Value) -> Expression:
    """Return a set of lanes, which must be known."""
    mask = known(scope, node, name, "the mask", value)
    if mask is None:
        mask = _FULL
    if not isinstance(mask, int | np.integer):
        raise scope.problem(
            node, TypeError, f"jit.{name}: the mask must be an integer, not {described(value)}"
        )
    mask = int(mask)
    if not 0 <= mask <= _FULL:
        raise scope.problem(node, ValueError, f"jit.{name}: the mask must lie in 0..2**32-1")
    return Const(mask, "uint32")


def _syncwarp(
    scope: Scope, node: ast.AST, name: str, args: Sequence[Value], keywords: Keywords
) -> Value:
    (value,) = named(scope, node, name, args, keywords, "mask=")
    if isinstance(value, Known):
        return BuiltinCall("syncwarp", (mask_of(scope, node, name, value),), "")
    mask = operations.scalar(scope, node, value)
    if types.kind(str(mask.type)) not in "iu":
        raise scope.problem(
            node, TypeError, f"jit.{name}: the mask must be an integer, not {mask.type}"
        )
    return BuiltinCall("syncwarp", (converted(mask, "uint32"),), "")


def _shape(scope: Scope, node: ast.AST, name: str, value: Value) -> tuple[int, ...]:
    given = known(scope, node, name, "the size", value)
    extents = given if isinstance(given, tuple) else (given,)
    for one in extents:
        if isinstance(one, bool) or not hasattr(one, "__index__"):
            raise scope.problem(node, TypeError, f"jit.{name}: {one!r} is not a number of elements")
        if one < 0:
            raise scope.problem(node, ValueError, f"jit.{name}: {one} elements")
    return tuple(map(int, extents))


def _memory(
    scope: Scope, node: ast.AST, name: str, args: Sequence[Value], keywords: Keywords
) -> Value:
    is_shared = name == "shared_memory"
    words = ("dtype", "size", "alignment=") if is_shared else ("dtype", "shape")
    first, size, *more = named(scope, node, name, args, keywords, *words)
    kind = known(scope, node, name, "dtype", first)
    with scope.at(node):
        dtype = getattr(kind, "storage_dtype", None) or types.dtype_name(kind)
    alignment = known(scope, node, name, "alignment", more[0]) if more else None
    if alignment is not None and (
        not isinstance(alignment, int) or alignment <= 0 or alignment & (alignment - 1)
    ):
        raise scope.problem(node, ValueError, f"jit.{name}: alignment must be a power of two")
    is_dynamic = is_shared and isinstance(size, Known) and size.value is None
    shape = None if is_dynamic else _shape(scope, node, name, size)
    type_ = BufferType(dtype, shape)
    label = scope.fresh("shared" if is_shared else "local")
    space = "shared" if is_shared else "local"
    scope.hoisted.append(Reserve(label, type_, space, alignment or 0))
    scope.reserved.add(label)
    return Name(label, type_)


def _element(scope: Scope, node: ast.AST, name: str, array: Value, index: Value) -> Element:
    if isinstance(array, Known | TupleValue | Method) or not isinstance(
        array.type, ArrayType | BufferType
    ):
        raise scope.problem(node, TypeError, f"jit.{name}: {described(array)} is not an array")
    indices = list(index.items) if isinstance(index, TupleValue) else [index]
    found = indexing.of_memory(scope, node, array, indices)
    if not isinstance(found, Element):
        raise scope.problem(node, TypeError, f"jit.{name}: the index is that of a row")
    scope.mark_written(array)
    return found


def _atomic(
    scope: Scope, node: ast.AST, name: str, args: Sequence[Value], keywords: Keywords
) -> Value:
    words = ("array", "index", "value", "alt_value=")
    array, index, value, second = named(scope, node, name, args, keywords, *words)
    element = _element(scope, node, name, array, index)
    allowed = _ATOMIC_TYPES[name]
    if element.type not in allowed:
        raise scope.problem(
            node,
            TypeError,
            f"jit.{name}: no such operation on {element.type}; on {', '.join(allowed)}",
        )
    values = [operations.assignable(scope, node, value, element.type)]
    is_cas = name == "atomic_cas"
    if is_cas != (not isinstance(second, Known) or second.value is not None):
        wanted = "a value to compare with and a new one" if is_cas else "one value"
        raise scope.problem(node, TypeError, f"jit.{name} takes {wanted}")
    if is_cas:
        values.append(operations.assignable(scope, node, second, element.type))
    scope.program.headers.add(_ATOMIC_HEADER)
    return BuiltinCall(name, (element, *values), element.type)


def _shuffle(
    scope: Scope, node: ast.AST, name: str, args: Sequence[Value], keywords: Keywords
) -> Value:
    words = ("mask", "var", "val_id", "width=")
    mask, var, lane, width = named(scope, node, name, args, keywords, *words)
    value = operations.scalar(scope, node, var)
    if value.type not in _SHUFFLED:
        raise scope.problem(node, TypeError, f"jit.{name}: no such operation on {value.type}")
    unsigned = name in ("shfl_up_sync", "shfl_down_sync")
    place = operations.scalar(scope, node, lane)
    if types.kind(str(place.type)) not in "iu":
        raise scope.problem(node, TypeError, f"jit.{name}: {place.type} is not a number of a lane")
    size: Expression = Const(32, "int32")
    if isinstance(width, Known):
        lanes = 32 if width.value is None else width.value
        if lanes not in (2, 4, 8, 16, 32):
            raise scope.problem(node, ValueError, f"jit.{name}: width must be 2, 4, 8, 16 or 32")
        size = Const(int(lanes), "int32")
    else:
        size = converted(operations.scalar(scope, node, width), "int32")
    operand = converted(place, "uint32" if unsigned else "int32")
    return BuiltinCall(name, (mask_of(scope, node, name, mask), value, operand, size), value.type)


def _range(
    scope: Scope, node: ast.AST, name: str, args: Sequence[Value], keywords: Keywords
) -> Value:
    raise scope.problem(node, TypeError, "range() stands behind 'in' of a for loop only")


_HANDLERS: dict[str, Handler] = {
    "grid": _grid,
    "gridsize": _grid,
    "laneid": _laneid,
    "syncthreads": _barrier,
    "threadfence": _barrier,
    "syncwarp": _syncwarp,
    "shared_memory": _memory,
    "local_array": _memory,
    "printf": _printf,
    "range": _range,
}
