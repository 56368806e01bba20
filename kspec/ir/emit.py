"""Nodes in, CUDA C++ out: one line for each statement.

>>> from kspec.ir.nodes import BuiltinCall, Const, Let, Name
>>> x = Name("x", "float32")
>>> print(emit([Let("t0", BuiltinCall("multiply", (x, Const(2.0, "float32")), "float32"))]))
const float t0 = x * 2.0f;
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterable

from kspec.ir.builtins import BUILTINS
from kspec.ir.device import DEVICE
from kspec.ir.emit_memory import memory_text, place_text
from kspec.ir.memory import Element
from kspec.ir.nodes import Assign, BuiltinCall, Cast, Const, Expression, Let, Name, Statement
from kspec.ir.types import ctype
from kspec.model import dtypes

# C++ computes in wider types, so that a result is cut off where more is done with it.
_NARROW = frozenset({"int8", "uint8", "int16", "uint16", "float16", "bfloat16"})
_PARENTHESES = re.compile(r"\(.*\)")
_SUFFIXES = {"uint32": "u", "int64": "LL", "uint64": "ULL"}


def emit(statements: Iterable[Statement]) -> str:
    """Return statements as C++, one a line."""
    return "\n".join(map(emit_statement, statements))


def emit_statement(statement: Statement) -> str:
    """Return one statement as C++."""
    if isinstance(statement, Let):
        return f"const {ctype(statement.value.type)} {statement.name} = {initial(statement.value)};"
    assert isinstance(statement, Assign)
    return f"{statement.target.name} = {initial(statement.value)};"


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
    return memory_text(expression, emit_expression)


def emit_place(target: Expression) -> str:
    """Return the target of an assignment as C++."""
    if isinstance(target, Element):
        return place_text(target, emit_expression)
    return emit_expression(target)


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


def initial(value: Expression) -> str:
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
