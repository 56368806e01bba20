"""Nodes in, CUDA C++ out: one line for each statement.

>>> from kspec.ir.nodes import BuiltinCall, Const, Let, Name
>>> x = Name("x", "float32")
>>> print(emit([Let("t0", BuiltinCall("multiply", (x, Const(2.0, "float32")), "float32"))]))
const float t0 = x * 2.0f;
>>> y = Name("y", ArrayType("float32", 1, contiguous=True))
>>> emit_expression(Element(y, (Name("i", "int32"),), "float32"))
'y.data[i]'
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterable, Sequence

from kspec.ir.builtins import BUILTINS
from kspec.ir.device import DEVICE
from kspec.ir.nodes import (
    BuiltinCall,
    Cast,
    Const,
    Element,
    Expression,
    Extent,
    FieldAccess,
    FunctionCall,
    Let,
    Name,
    Slice,
    Statement,
    Subarray,
)
from kspec.ir.types import ArrayType, BufferType, RecordView, ctype
from kspec.model import dtypes

# C++ computes in wider types, so that a result is cut off where more is done with it.
_NARROW = frozenset({"int8", "uint8", "int16", "uint16", "float16", "bfloat16"})
_PARENTHESES = re.compile(r"\(.*\)")
# What Python's `None` is for a slice with a negative step: beyond either end.
_BEYOND = "9223372036854775807LL"
_BEFORE = "(-9223372036854775807LL - 1)"
_SUFFIXES = {"uint32": "u", "int64": "LL", "uint64": "ULL"}


def emit(statements: Iterable[Statement]) -> str:
    """Return statements as C++, one a line."""
    return "\n".join(map(emit_statement, statements))


def emit_statement(statement: Statement) -> str:
    """Return one statement as C++."""
    if isinstance(statement, Let):
        type_ = statement.value.type
        # It is the address that never changes, not what is there.
        is_address = isinstance(type_, BufferType | RecordView)
        words = (ctype(type_), "const") if is_address else ("const", ctype(type_))
        target = f"{' '.join(words)} {statement.name}"
    else:
        target = statement.target.name
    return f"{target} = {emit_initializer(statement.value)};"


def emit_expression(expression: Expression) -> str:
    """Return an expression as C++ that any operator may stand beside."""
    if isinstance(expression, Name):
        return expression.name
    if isinstance(expression, Const):
        return literal(expression.value, expression.type)
    if isinstance(expression, Cast):
        return _cast(expression)
    if isinstance(expression, BuiltinCall):
        text, template = _call(expression), _template(expression)
        if expression.type in _NARROW and not template.startswith("kspec::"):
            return f"static_cast<{ctype(expression.type)}>({text})"
        return f"({text})" if _is_operator(template) else text
    return _memory(expression)


def emit_place(target: Expression) -> str:
    """Return the target of an assignment as C++."""
    if isinstance(target, Element):
        return _element(target)
    return emit_expression(target)


def _memory(one: Expression) -> str:
    """Return an expression about memory as C++."""
    if isinstance(one, Element):
        place = _element(one)
        of_user = isinstance(one.memory.type, ArrayType)
        return f"kspec::truth({place})" if one.type == "bool" and of_user else place
    if isinstance(one, Subarray):
        return _subarray(one)
    if isinstance(one, Extent):
        axis = f"[{one.axis}]" if one.axis >= 0 else ""
        return f"{emit_expression(one.array)}.{one.what}{axis}"
    if isinstance(one, FieldAccess):
        if isinstance(one.record, Element) and isinstance(one.record.memory.type, RecordView):
            return f"{emit_expression(one.record.memory)}->{one.name}"
        return f"{emit_expression(one.record)}.{one.name}"
    assert isinstance(one, FunctionCall)
    return f"{one.function}({', '.join(map(emit_expression, one.args))})"


def _element(one: Element) -> str:
    """Return an element as an assignable expression."""
    memory, indices = emit_expression(one.memory), [emit_expression(index) for index in one.indices]
    type_ = one.memory.type
    if isinstance(type_, RecordView):
        return f"(*{memory})"
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


def _subarray(one: Subarray) -> str:
    text = emit_expression(one.memory)
    type_ = one.memory.type
    if isinstance(type_, BufferType):
        numbers = [emit_expression(index) for index in one.indices if not isinstance(index, Slice)]
        return f"({text} + ({_offset(type_, numbers)}))"
    assert isinstance(type_, ArrayType)
    axis, flat = 0, type_.contiguous
    for index in one.indices:
        if not isinstance(index, Slice):
            text = f"{text}.row<{axis}>({emit_expression(index)})"
            flat = flat and axis == 0
            continue
        if axis == 0 and flat and index.step is None:
            start = "0" if index.start is None else emit_expression(index.start)
            stop = _BEYOND if index.stop is None else emit_expression(index.stop)
            text = f"{text}.span({start}, {stop})"
        else:
            text = f"{text}.slice<{axis}>({_slice(index)})"
            flat = False
        axis += 1
    return text


def _slice(slice_: Slice) -> str:
    step = "1" if slice_.step is None else emit_expression(slice_.step)
    backwards = f"({step}) < 0"
    known = step.strip("()-LU").isdecimal()
    ends = (_BEYOND, _BEFORE) if known and "-" in step else ("0", _BEYOND)
    texts = []
    for one, end, other in ((slice_.start, ends[0], _BEYOND), (slice_.stop, ends[1], _BEFORE)):
        if one is not None:
            texts.append(emit_expression(one))
        else:
            texts.append(end if known else f"{backwards} ? {other} : {end}")
    return ", ".join([*texts, step])


def literal(value: complex, dtype: str) -> str:
    """Return a number of a dtype as C++.

    >>> literal(float("-inf"), "float32"), literal(1, "float64"), literal(3, "int8")
    ('(-CUDART_INF_F)', '1.0', '(signed char)3')
    """
    row = dtypes.lookup(dtype)
    if row.kind == "b":
        return "true" if value else "false"
    if row.kind in "iu":
        return _integer(int(value.real), row)
    if row.kind == "c":
        part = dtypes.real_part(dtype)
        return f"{row.ctype}({literal(value.real, part)}, {literal(value.imag, part)})"
    if dtype == "float64":
        return _real(float(value.real), "")
    text = _real(_rounded(float(value.real)), "f")
    return text if dtype == "float32" else f"{row.ctype}({text})"


def emit_initializer(value: Expression) -> str:
    """Return the initial text of a variable of the value's type, which converts by itself."""
    return _call(value) if isinstance(value, BuiltinCall) else emit_expression(value)


def _call(call: BuiltinCall) -> str:
    return _template(call).format(*map(emit_expression, call.args))


def _template(call: BuiltinCall) -> str:
    row = BUILTINS.get(call.function)
    if row is None:
        return DEVICE[call.function].text
    return row.spelling(*(str(one.type) for one in call.args))


def _is_operator(template: str) -> bool:
    return template[0] in "+-~!&" or " " in _PARENTHESES.sub("", template)


def _cast(cast: Cast) -> str:
    source, target = dtypes.lookup(str(cast.operand.type)), dtypes.lookup(cast.type)
    text = emit_expression(cast.operand)
    if target.kind == "b":  # of a number: whether it is none
        return f"({text} != {literal(0, str(cast.operand.type))})"
    if source.kind == "c" and target.kind != "c":  # as NumPy: the real part
        text = f"({text}).real()"
    if target.kind == "c" and source.kind != "c":
        part = dtypes.lookup(dtypes.real_part(target.name)).ctype
        return f"{target.ctype}(static_cast<{part}>({text}))"
    return f"static_cast<{target.ctype}>({text})"


def _integer(value: int, row: dtypes.DType) -> str:
    if row.name == "int64" and value == -(2**63):
        return "(-9223372036854775807LL - 1)"
    if row.name == "int32" and value == -(2**31):
        return "(-2147483647 - 1)"
    text = f"{value}{_SUFFIXES.get(row.name, '')}"
    if row.itemsize < 4:
        return f"({row.ctype}){text}" if value >= 0 else f"({row.ctype})({text})"
    return text if value >= 0 else f"({text})"


def _real(value: float, suffix: str) -> str:
    if math.isnan(value):
        return f"CUDART_NAN{'_F' if suffix else ''}"
    text = (
        f"CUDART_INF{'_F' if suffix else ''}" if math.isinf(value) else _digits(abs(value), suffix)
    )
    return f"(-{text})" if math.copysign(1, value) < 0 else text


def _digits(value: float, suffix: str) -> str:
    """Return the fewest digits that give the number, after rounding where there is a suffix."""
    if suffix:
        texts = (f"{value:.{count}g}" for count in range(1, 10))
        value = float(next((one for one in texts if _rounded(float(one)) == value), value))
    return f"{value!r}{suffix}"


def _rounded(value: float) -> float:
    """Return the nearest number of 32 bits: the compiler would round the decimal digits."""
    if not math.isfinite(value):
        return value
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)
