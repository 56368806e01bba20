"""Elements, parts and fields as CUDA C++.

>>> from kspec.ir.emit import emit_expression
>>> from kspec.ir.memory import Element
>>> from kspec.ir.nodes import Name
>>> from kspec.ir.types import ArrayType
>>> x = Name("x", ArrayType("float32", 1, contiguous=True))
>>> emit_expression(Element(x, (Name("i", "int32"),), "float32"))
'x.data[i]'
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kspec.ir.memory import Element, Extent, FieldAccess, FunctionCall, Slice, Subarray
from kspec.ir.types import ArrayType, BufferType

if TYPE_CHECKING:
    from kspec.ir.nodes import Expression

Emit = Callable[["Expression"], str]
# What Python's `None` is for a slice with a negative step: beyond either end.
_BEYOND = "9223372036854775807LL"
_BEFORE = "(-9223372036854775807LL - 1)"


def memory_text(one: Expression, emit: Emit) -> str:
    """Return an expression about memory as C++; `emit` returns that of its parts."""
    if isinstance(one, Element):
        place = place_text(one, emit)
        of_user = isinstance(one.memory.type, ArrayType)
        return f"kspec::truth({place})" if one.type == "bool" and of_user else place
    if isinstance(one, Subarray):
        return _part(one, emit)
    if isinstance(one, Extent):
        axis = f"[{one.axis}]" if one.axis >= 0 else ""
        return f"{emit(one.array)}.{one.what}{axis}"
    if isinstance(one, FieldAccess):
        return f"{emit(one.record)}.{one.name}"
    assert isinstance(one, FunctionCall)
    return f"{one.function}({', '.join(map(emit, one.args))})"


def place_text(one: Element, emit: Emit) -> str:
    """Return an element as an assignable expression."""
    memory, indices = emit(one.memory), [emit(index) for index in one.indices]
    type_ = one.memory.type
    if isinstance(type_, ArrayType):
        if type_.ndim == 0:
            return f"(*{memory}.data)"
        if type_.ndim == 1 and type_.contiguous:
            return f"{memory}.data[{indices[0]}]"
        return f"{memory}({', '.join(indices)})"
    assert isinstance(type_, BufferType)
    return f"{memory}[{_offset(type_, indices)}]"


def _offset(type_: BufferType, indices: Sequence[str]) -> str:
    """Return the number of an element, or of the first one of a row."""
    if type_.shape is None:
        return indices[0]
    terms = []
    for axis, index in enumerate(indices):
        rest = math.prod(type_.shape[axis + 1 :])
        terms.append(index if rest == 1 else f"{index} * {rest}")
    return " + ".join(terms)


def _part(one: Subarray, emit: Emit) -> str:
    text = emit(one.memory)
    type_ = one.memory.type
    if isinstance(type_, BufferType):
        numbers = [emit(index) for index in one.indices if not isinstance(index, Slice)]
        return f"({text} + ({_offset(type_, numbers)}))"
    assert isinstance(type_, ArrayType)
    axis, flat = 0, type_.contiguous
    for index in one.indices:
        if not isinstance(index, Slice):
            text = f"{text}.row<{axis}>({emit(index)})"
            flat = flat and axis == 0
            continue
        if axis == 0 and flat and index.step is None:
            start = "0" if index.start is None else emit(index.start)
            stop = _BEYOND if index.stop is None else emit(index.stop)
            text = f"{text}.span({start}, {stop})"
        else:
            text = f"{text}.slice<{axis}>({_numbers(index, emit)})"
            flat = False
        axis += 1
    return text


def _numbers(slice_: Slice, emit: Emit) -> str:
    step = "1" if slice_.step is None else emit(slice_.step)
    backwards = f"({step}) < 0"
    known = step.strip("()-LU").isdecimal()
    ends = (_BEYOND, _BEFORE) if known and "-" in step else ("0", _BEYOND)
    texts = []
    for one, end, other in ((slice_.start, ends[0], _BEYOND), (slice_.stop, ends[1], _BEFORE)):
        if one is not None:
            texts.append(emit(one))
        else:
            texts.append(end if known else f"{backwards} ? {other} : {end}")
    return ", ".join([*texts, step])
