"""Operations on values: numbers of a dtype, ufuncs by the rules of a mode, order of evaluation."""

from __future__ import annotations

import ast
from collections.abc import Sequence

import numpy as np

from kspec.ir.control import Declare
from kspec.ir.device import SIDE_EFFECTS
from kspec.ir.nodes import (
    BuiltinCall,
    Cast,
    Const,
    Element,
    Expression,
    FieldAccess,
    FunctionCall,
    Let,
    Name,
)
from kspec.ir.types import is_record
from kspec.jit import tables, types
from kspec.jit.scope import Scope
from kspec.jit.values import (
    Known,
    Method,
    TupleValue,
    Value,
    address,
    constant,
    convert,
    dereferenced,
    describe,
    is_record_in_memory,
    kind_of,
)
from kspec.model import dtypes

# C's arithmetic, in which signed numbers do not overflow; in mode "numpy" they wrap.
_C_ARITHMETIC = {"add", "subtract", "multiply", "negative"}
_C_INTEGERS = {"int32", "uint32", "int64", "uint64"}


def as_expression(
    scope: Scope, node: ast.AST, value: Value, dtype: str | None = None
) -> Expression:
    """Return a value as one of the IR: a constant, of a dtype if it is to have one."""
    if isinstance(value, Known) and value.is_number:
        with scope.at(node):
            wanted = dtype or types.type_of_constant(scope.mode, value.value)
            return constant(value.value, wanted, scope.mode)
    if isinstance(value, Known) and isinstance(value.value, np.void):
        memory = tables.table_of(scope, node, value)
        return Element(memory, (Const(0, "int32"),), types.dtype_name(value.value.dtype))
    if not isinstance(value, Expression):
        raise scope.problem(node, TypeError, f"{describe(value)} is not a number")
    return value


def held(scope: Scope, node: ast.AST, value: Value) -> Expression:
    """Return a value as variables hold it: the address of a record in memory."""
    one = as_expression(scope, node, value)
    return address(one) if is_record_in_memory(one) else one


def stored(scope: Scope, value: Expression) -> Name:
    """Return a copy of a record as a variable of its own, which has an address."""
    name = scope.fresh_name("copy")
    scope.out.append(Declare(name, value.type, value))
    scope.copies.add(name)
    return Name(name, value.type)


def scalar(scope: Scope, node: ast.AST, value: Value) -> Expression:
    """Return a value that must be a number of some dtype."""
    one = as_expression(scope, node, value)
    if not isinstance(one.type, str) or dtypes.lookup(one.type).kind not in "biufc":
        raise scope.problem(node, TypeError, f"{one.type} is not a number")
    return one


def assignable(scope: Scope, node: ast.AST, value: Value, dtype: str) -> Expression:
    """Return a value as it is stored in a variable or element of a dtype, if it may be."""
    one = as_expression(scope, node, value, dtype if isinstance(value, Known) else None)
    if one.type == dtype:
        return one
    if not isinstance(one.type, str) or not types.can_cast(one.type, dtype):
        advice = "assign its fields" if is_record(dtype) else f"write np.{dtype}(...)"
        raise scope.problem(
            node, TypeError, f"{one.type} cannot become {dtype} by itself; {advice}"
        )
    return convert(one, dtype)


def common_type(scope: Scope, found: Sequence[tuple[ast.expr, Value]]) -> str:
    """Return the dtype that several numbers become; plain constants take that of the others."""
    plain: list[Known] = []
    dtype = ""
    for node, value in found:
        if isinstance(value, Known) and type(value.value) in (bool, int, float):
            plain.append(value)
            continue
        one = str(scalar(scope, node, value).type)
        dtype = types.loop(scope.mode, "maximum", (dtype, one))[1] if dtype else one
    for value in plain:
        if not types.becomes(value.value, dtype):
            one = types.type_of_constant(scope.mode, value.value)
            dtype = types.loop(scope.mode, "maximum", (dtype, one))[1]
    return dtype


def call_ufunc(
    scope: Scope,
    node: ast.AST,
    name: str,
    values: Sequence[Value],
    sign: str = "",
    dtype: str | None = None,
) -> Expression:
    """Return a ufunc of values, of the types that the mode's rules give."""
    operands = [scalar(scope, node, one) for one in values]
    given = tuple(str(one.type) for one in operands)
    if dtype is not None:
        given = (dtype,) * len(given)
    try:
        inputs, output = types.loop(scope.mode, name, given)
    except TypeError:
        shown = f" {sign} ".join(given) if sign else f"{name}({', '.join(given)})"
        raise scope.problem(node, TypeError, f"no such operation: {shown}") from None
    args: list[Expression] = []
    for value, one, wanted in zip(values, operands, inputs, strict=True):
        known = isinstance(value, Known)
        if known and one.type != wanted and kind_of(one) in "biuf":
            with scope.at(node):
                assert isinstance(value, Known)
                args.append(constant(value.value, wanted, scope.mode))
        elif dtype is None and scope.mode == "cuda" and not types.can_cast(str(one.type), wanted):
            shown = f" {sign} ".join(given) if sign else f"{name}({', '.join(given)})"
            raise scope.problem(
                node,
                TypeError,
                f"{shown} computes in {wanted}, which {one.type} does not become by itself; "
                f"write np.{wanted}(...)",
            )
        else:
            args.append(convert(one, wanted))
    if name == "power" and types.kind(output) in "fc" and _is_two(values[1]):
        return BuiltinCall("square", (args[0],), output)
    if scope.mode == "cuda" and name in _C_ARITHMETIC and inputs[0] in _C_INTEGERS:
        name = f"{name}.c"
    return BuiltinCall(name, tuple(args), output)


def _is_two(value: Value) -> bool:
    return isinstance(value, Known) and value.value == 2


def in_order(scope: Scope, values: Sequence[Value]) -> list[Value]:
    """Return values that are computed from left to right, as in Python, if that matters."""
    found = list(values)
    effects = [k for k, one in enumerate(found) if not is_pure(one)]
    for k in effects[:-1]:
        found[k] = evaluate_once(scope, found[k])
    return found


def is_pure(value: Value) -> bool:
    """Return whether a value does nothing but compute: no calls, barriers, atomics."""
    match value:
        case TupleValue(items=parts):
            return all(map(is_pure, parts))
        case BuiltinCall(function=function, args=args):
            return function not in SIDE_EFFECTS and all(map(is_pure, args))
        case FunctionCall(function=function, args=args):
            return function.startswith("complex<") and all(map(is_pure, args))
        case Cast(operand=part) | FieldAccess(record=part):
            return is_pure(part)
        case Element(memory=memory, indices=indices):
            return is_pure(memory) and all(map(is_pure, indices))
    return True


def evaluate_once(scope: Scope, value: Value, always: bool = False) -> Value:
    """Return a value that is computed now, if it matters how often or when that is."""
    if isinstance(value, TupleValue):
        return TupleValue(tuple(evaluate_once(scope, one, always) for one in value.items))
    if isinstance(value, Known | Method) or (not always and is_pure(value)):
        return value
    if is_record(value.type) and not is_record_in_memory(value):
        return Cast(stored(scope, value), str(value.type))
    one = address(value) if is_record(value.type) else value
    name = scope.fresh_name("value" if always else "operand")
    scope.out.append(Let(name, one))
    scope.alias(name, one)
    return dereferenced(Name(name, one.type))
