"""Calls that only kernels have: indices, barriers, memory, atomics, shuffles, printf."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np

from kspec.ir.control import Allocate, Print
from kspec.ir.nodes import BuiltinCall, Const, Element, Expression, Name
from kspec.ir.types import BufferType, is_memory
from kspec.jit import types
from kspec.jit.call_site import CallSite
from kspec.jit.syntax import indexing
from kspec.jit.values import Known, TupleValue, Value, convert, describe, kind_of
from kspec.model import dtypes

Handler = Callable[[CallSite], Value]
_NONE = Known(None)
_FULL = 0xFFFFFFFF
_ATOMIC_HEADER = "kspec/atomics.cuh"
_INTEGERS = ("int32", "uint32", "int64", "uint64")
_SMALL = ("int8", "uint8", "int16", "uint16")
_BITS = (*_INTEGERS, *_SMALL)
_NUMBERS = (*_BITS, "float16", "bfloat16", "float32", "float64")
# Which elements CUDA, or a header of ours, changes at once.
_ATOMIC_TYPES = {
    "atomic_add": (*_NUMBERS, "complex64", "complex128"),
    "atomic_sub": (*_NUMBERS, "complex64", "complex128"),
    "atomic_exch": _NUMBERS,
    "atomic_min": _NUMBERS,
    "atomic_max": _NUMBERS,
    "atomic_inc": ("uint32",),
    "atomic_dec": ("uint32",),
    "atomic_cas": _BITS,
    "atomic_and": _BITS,
    "atomic_or": _BITS,
    "atomic_xor": _BITS,
}
_SHUFFLED = (*_INTEGERS, "float16", "float32", "float64")
_FORMATS = {"int64": "%lld", "uint64": "%llu", "bool": "%s"}
_PRINTED = re.compile(r"%[-+ #0]*[\d*]*(?:\.[\d*]+)?(hh|h|ll|l|j|z|t|L)?([diouxXeEfFgGaAcsp%])")


def call(site: CallSite) -> Value:
    """Return the result of a function of ``jit`` for some values."""
    handler = _HANDLERS.get(site.function)
    if handler is None:
        handler = _atomic if site.function.startswith("atomic_") else _shuffle
    return handler(site)


def print_values(site: CallSite, sep: str, end: str) -> Value:
    """Print values as Python's ``print`` does, numbers as C has them."""
    texts: list[str] = []
    shown: list[Expression] = []
    for one in _flat(site.args):
        if isinstance(one, Known):
            texts.append(str(one.value).replace("%", "%%"))
            continue
        value = site.scalar(one)
        kind = kind_of(value)
        if kind == "c":
            part = dtypes.real_part(str(value.type))
            texts.append("(%g%+gj)")
            shown += [BuiltinCall("real", (value,), part), BuiltinCall("imag", (value,), part)]
            continue
        plain = {"i": "%d", "u": "%u"}.get(kind, "%g")
        texts.append(_FORMATS.get(str(value.type), plain))
        shown.append(value)
    text = sep.replace("%", "%%").join(texts) + end.replace("%", "%%")
    site.scope.out.append(Print(text, tuple(shown)))
    return _NONE


def _flat(args: Sequence[Value]) -> list[Value]:
    found: list[Value] = []
    for one in args:
        found += _flat(one.items) if isinstance(one, TupleValue) else [one]
    return found


def _printf(site: CallSite) -> Value:
    text = site.known("the format", site.args[0]) if site.args else None
    values = site.args[1:]
    if not isinstance(text, str) or site.keywords:
        raise site.problem(TypeError, "jit.printf takes a format, and numbers")
    words = [match for match in _PRINTED.finditer(text) if match[2] != "%"]
    if len(words) != len(values):
        message = f"the format has {len(words)} places for {len(values)} numbers"
        raise site.problem(TypeError, message)
    shown: list[Expression] = []
    pieces, end = [], 0
    for match, one in zip(words, values, strict=True):
        value = site.scalar(one)
        is_float = match[2] in "eEfFgGaA"
        if (kind_of(value) == "f") != is_float:
            raise site.problem(TypeError, f"{match[0]} does not print a {value.type}")
        wide = str(value.type) in ("int64", "uint64")
        size = "ll" if wide and not is_float else ""
        start, stop = match.span()
        length = match.span(1) if match[1] else (match.start(2), match.start(2))
        pieces += [text[end : length[0]], size, text[length[1] : stop]]
        end = stop
        assert start <= stop
        shown.append(value if value.type != "bool" else convert(value, "int32"))
    site.scope.out.append(Print("".join([*pieces, text[end:]]), tuple(shown)))
    return _NONE


def _grid(site: CallSite) -> Value:
    (value,) = site.bind("ndim")
    count = site.known("ndim", value)
    if not isinstance(count, int) or isinstance(count, bool):
        raise site.problem(TypeError, f"{site.callee}: ndim must be an integer")
    if count not in (1, 2, 3):
        raise site.problem(ValueError, f"{site.callee}: ndim must be 1, 2 or 3, not {count}")
    found = tuple(_place(site.function, axis) for axis in "xyz"[:count])
    return found[0] if count == 1 else TupleValue(found)


def _place(name: str, axis: str) -> Expression:
    def one(word: str) -> Expression:
        return BuiltinCall(f"{word}.{axis}", (), "uint32")

    if name == "gridsize":
        return BuiltinCall("multiply.c", (one("blockDim"), one("gridDim")), "uint32")
    first = BuiltinCall("multiply.c", (one("blockIdx"), one("blockDim")), "uint32")
    return BuiltinCall("add.c", (first, one("threadIdx")), "uint32")


def _laneid(site: CallSite) -> Value:
    site.bind()
    site.scope.program.headers.add("kspec/view.cuh")
    return BuiltinCall("laneid", (), "uint32")


def _barrier(site: CallSite) -> Value:
    site.bind()
    return BuiltinCall(site.function, (), "")


def mask_of(site: CallSite, value: Value) -> Expression:
    """Return a set of lanes, which must be known."""
    mask = site.known("the mask", value)
    if mask is None:
        mask = _FULL
    if not isinstance(mask, int | np.integer):
        message = f"{site.callee}: the mask must be an integer, not {describe(value)}"
        raise site.problem(TypeError, message)
    mask = int(mask)
    if not 0 <= mask <= _FULL:
        raise site.problem(ValueError, f"{site.callee}: the mask must lie in 0..2**32-1")
    return Const(mask, "uint32")


def _syncwarp(site: CallSite) -> Value:
    (value,) = site.bind("mask=")
    if isinstance(value, Known):
        return BuiltinCall("syncwarp", (mask_of(site, value),), "")
    mask = site.scalar(value)
    if kind_of(mask) not in "iu":
        message = f"{site.callee}: the mask must be an integer, not {mask.type}"
        raise site.problem(TypeError, message)
    return BuiltinCall("syncwarp", (convert(mask, "uint32"),), "")


def _shape(site: CallSite, value: Value) -> tuple[int, ...]:
    given = site.known("the size", value)
    extents = given if isinstance(given, tuple) else (given,)
    for one in extents:
        if isinstance(one, bool) or not hasattr(one, "__index__"):
            raise site.problem(TypeError, f"{site.callee}: {one!r} is not a number of elements")
        if one < 0:
            raise site.problem(ValueError, f"{site.callee}: {one} elements")
    return tuple(map(int, extents))


def _memory(site: CallSite) -> Value:
    is_shared = site.function == "shared_memory"
    words = ("dtype", "size", "alignment=") if is_shared else ("dtype", "shape")
    first, size, *more = site.bind(*words)
    kind = site.known("dtype", first)
    with site.scope.at(site.node):
        dtype = getattr(kind, "storage_dtype", None) or types.dtype_name(kind)
    alignment = site.known("alignment", more[0]) if more else None
    if alignment is not None and (
        not isinstance(alignment, int) or alignment <= 0 or alignment & (alignment - 1)
    ):
        raise site.problem(ValueError, f"{site.callee}: alignment must be a power of two")
    is_dynamic = is_shared and isinstance(size, Known) and size.value is None
    shape = None if is_dynamic else _shape(site, size)
    type_ = BufferType(dtype, shape)
    label = site.scope.fresh_name("shared" if is_shared else "local")
    space = "shared" if is_shared else "local"
    site.scope.hoisted.append(Allocate(label, type_, space, alignment or 0))
    site.scope.reserved.add(label)
    if not is_shared:
        site.scope.own.add(label)
    return Name(label, type_)


def _element(site: CallSite, array: Value, index: Value) -> Element:
    if not isinstance(array, Expression) or not is_memory(array.type):
        raise site.problem(TypeError, f"{site.callee}: {describe(array)} is not an array")
    indices = list(index.items) if isinstance(index, TupleValue) else [index]
    found = indexing.index_memory(site.scope, site.node, array, indices)
    if not isinstance(found, Element):
        raise site.problem(TypeError, f"{site.callee}: the index is that of a row")
    site.scope.mark_written(site.node, array)
    return found


def _atomic(site: CallSite) -> Value:
    words = ("array", "index", "value", "alt_value=")
    array, index, value, second = site.bind(*words)
    element = _element(site, array, index)
    allowed = _ATOMIC_TYPES[site.function]
    if element.type not in allowed:
        listed = ", ".join(allowed)
        message = f"{site.callee}: no such operation on {element.type}; on {listed}"
        raise site.problem(TypeError, message)
    values = [site.assignable(value, element.type)]
    is_cas = site.function == "atomic_cas"
    if is_cas != (not isinstance(second, Known) or second.value is not None):
        wanted = "a value to compare with and a new one" if is_cas else "one value"
        raise site.problem(TypeError, f"{site.callee} takes {wanted}")
    if is_cas:
        values.append(site.assignable(second, element.type))
    site.scope.program.headers.add(_ATOMIC_HEADER)
    return BuiltinCall(site.function, (element, *values), element.type)


def _shuffle(site: CallSite) -> Value:
    words = ("mask", "var", "val_id", "width=")
    mask, var, lane, width = site.bind(*words)
    value = site.scalar(var)
    if value.type not in _SHUFFLED:
        raise site.problem(TypeError, f"{site.callee}: no such operation on {value.type}")
    unsigned = site.function in ("shfl_up_sync", "shfl_down_sync")
    place = site.scalar(lane)
    if kind_of(place) not in "iu":
        raise site.problem(TypeError, f"{site.callee}: {place.type} is not a number of a lane")
    size: Expression = Const(32, "int32")
    if isinstance(width, Known):
        lanes = 32 if width.value is None else width.value
        if lanes not in (2, 4, 8, 16, 32):
            raise site.problem(ValueError, f"{site.callee}: width must be 2, 4, 8, 16 or 32")
        size = Const(int(lanes), "int32")
    else:
        size = convert(site.scalar(width), "int32")
    operand = convert(place, "uint32" if unsigned else "int32")
    operands = mask_of(site, mask), value, operand, size
    return BuiltinCall(site.function, operands, value.type)


def refuse_range(site: CallSite) -> Value:
    """Refuse ``range()`` outside of a for loop."""
    raise site.problem(TypeError, "range() stands behind 'in' of a for loop only")


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
    "range": refuse_range,
}
