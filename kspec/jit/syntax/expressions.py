"""Expressions of Python in, values out: names, literals, operators, conditions, attributes.

``x + 1`` of an int64 variable becomes ``BuiltinCall("add.c", (x, Const(1, "int64")), "int64")``;
what is known while compiling stays known, and operators on it are Python's own.  Indexing is in
`kspec.jit.syntax.indexing`, calls are in `kspec.jit.syntax.calls`.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np

from kspec.ir.nodes import BuiltinCall, Const, Expression
from kspec.ir.types import is_memory
from kspec.jit import operations, thrust, types
from kspec.jit.scope import Scope, Stop
from kspec.jit.syntax import attributes, calls, indexing
from kspec.jit.syntax.local_functions import local_function
from kspec.jit.values import (
    Known,
    TupleValue,
    Value,
    address,
    convert,
    dereferenced,
    describe,
    is_record_in_memory,
    kind_of,
)
from kspec.model import dtypes

# Operators: Python's function for known values, and the ufunc.
_BINARY: dict[type[ast.operator], tuple[Callable[[Any, Any], Any], str, str]] = {
    ast.Add: (operator.add, "add", "+"),
    ast.Sub: (operator.sub, "subtract", "-"),
    ast.Mult: (operator.mul, "multiply", "*"),
    ast.Div: (operator.truediv, "divide", "/"),
    ast.FloorDiv: (operator.floordiv, "floor_divide", "//"),
    ast.Mod: (operator.mod, "remainder", "%"),
    ast.Pow: (operator.pow, "power", "**"),
    ast.LShift: (operator.lshift, "left_shift", "<<"),
    ast.RShift: (operator.rshift, "right_shift", ">>"),
    ast.BitAnd: (operator.and_, "bitwise_and", "&"),
    ast.BitOr: (operator.or_, "bitwise_or", "|"),
    ast.BitXor: (operator.xor, "bitwise_xor", "^"),
}
_UNARY: dict[type[ast.unaryop], tuple[Callable[[Any], Any], str]] = {
    ast.USub: (operator.neg, "negative"),
    ast.UAdd: (operator.pos, "positive"),
    ast.Invert: (operator.invert, "invert"),
}
_COMPARE: dict[type[ast.cmpop], tuple[Callable[[Any, Any], Any], str, str]] = {
    ast.Eq: (operator.eq, "equal", "=="),
    ast.NotEq: (operator.ne, "not_equal", "!="),
    ast.Lt: (operator.lt, "less", "<"),
    ast.LtE: (operator.le, "less_equal", "<="),
    ast.Gt: (operator.gt, "greater", ">"),
    ast.GtE: (operator.ge, "greater_equal", ">="),
}
# Expressions that kernels do not have, and what to write instead.
_ABSENT: dict[type[ast.AST], str] = {
    ast.List: "lists: use a tuple, or jit.local_array(dtype, shape)",
    ast.Dict: "dicts",
    ast.Set: "sets",
    ast.JoinedStr: "f-strings: use print(a, b)",
    ast.ListComp: "comprehensions: use a loop",
    ast.SetComp: "comprehensions: use a loop",
    ast.DictComp: "comprehensions: use a loop",
    ast.GeneratorExp: "comprehensions: use a loop",
    ast.NamedExpr: "assignments in expressions: assign in a line of its own",
    ast.Starred: "starred expressions",
    ast.Slice: "slices outside of an index",
}


def evaluate(scope: Scope, node: ast.expr) -> Value:
    """Return the value of an expression."""
    handler = _HANDLERS.get(type(node))
    if handler is not None:
        return handler(scope, node)
    if isinstance(node, ast.Lambda):
        return local_function(scope, node)
    what = _ABSENT.get(type(node), type(node).__name__)
    raise scope.problem(node, ValueError, f"Not supported in kernels: {what}")


def number(scope: Scope, node: ast.expr) -> Expression:
    """Return an expression that must be a number, or a record."""
    return operations.as_expression(scope, node, evaluate(scope, node))


def condition(scope: Scope, node: ast.expr) -> Known | Expression:
    """Return an expression as a bool; what is known stays so."""
    if isinstance(node, ast.BoolOp):
        return _logical(scope, node)
    value = evaluate(scope, node)
    with scope.at(node):
        truth = _truth(value)
    return _test(scope, node, value) if truth is None else Known(truth)


def _test(scope: Scope, node: ast.expr, value: Value) -> Expression:
    """Return the truth of a number."""
    one = operations.scalar(scope, node, value)
    if kind_of(one) == "c":
        raise scope.problem(node, TypeError, f"{one.type} is not a condition")
    return convert(one, "bool")


def _binary(scope: Scope, node: ast.BinOp) -> Value:
    left, right = operations.in_order(scope, _both(scope, node.left, node.right))
    return binary(scope, node, node.op, left, right)


def _both(scope: Scope, first: ast.expr, second: ast.expr) -> tuple[Value, Value]:
    """Return two operands; if both have problems, both are reported."""
    try:
        left = evaluate(scope, first)
    except Stop:
        evaluate(scope, second)
        raise
    return left, evaluate(scope, second)


@contextmanager
def _lazily(scope: Scope, node: ast.AST) -> Iterator[None]:
    """Refuse what is computed in a statement of its own where it may not be computed at all."""
    before = len(scope.out)
    yield
    if len(scope.out) > before:
        del scope.out[before:]
        raise scope.problem(
            node, NotImplementedError, "this may not be computed at all: use an if statement"
        )


def binary(scope: Scope, node: ast.AST, op: ast.operator, left: Value, right: Value) -> Value:
    """Return the result of an operator for two values."""
    if type(op) not in _BINARY:
        raise scope.problem(node, TypeError, "kernels have no operator @")
    python, name, sign = _BINARY[type(op)]
    if isinstance(left, Known) and isinstance(right, Known):
        return _folded(scope, node, python, left, right)
    if isinstance(left, TupleValue) and isinstance(right, TupleValue) and sign == "+":
        return TupleValue(left.items + right.items)
    moved = thrust.iterator_arithmetic(scope, node, sign, left, right)
    if moved is not None:
        return moved
    for one in (left, right):
        if isinstance(one, Expression) and is_memory(one.type):
            raise scope.problem(
                node, TypeError, f"{describe(left)} {sign} {describe(right)}: index the array"
            )
    return operations.call_ufunc(scope, node, name, (left, right), sign)


def _folded(scope: Scope, node: ast.AST, python: Callable[..., Any], *values: Known) -> Known:
    """Return Python's result for known numbers or strings."""
    for one in values:
        if not one.is_number and not isinstance(one.value, str):
            raise scope.problem(node, TypeError, f"{describe(one)} is not a number")
    with scope.at(node), np.errstate(all="ignore"):
        try:
            return Known(python(*(one.value for one in values)))
        except ArithmeticError as error:
            raise ValueError(str(error)) from None


def _unary(scope: Scope, node: ast.UnaryOp) -> Value:
    if isinstance(node.op, ast.Not):
        return _negated(condition(scope, node.operand))
    value = evaluate(scope, node.operand)
    python, name = _UNARY[type(node.op)]
    if isinstance(value, Known):
        return _folded(scope, node, python, value)
    return operations.call_ufunc(scope, node, name, (value,))


def _compare(scope: Scope, node: ast.Compare) -> Value:
    values = operations.in_order(
        scope, [evaluate(scope, one) for one in (node.left, *node.comparators)]
    )
    parts: list[Value] = []
    for k, op in enumerate(node.ops):
        # What stands between two signs is looked at twice, but computed once.
        if 0 < k < len(values) - 1 or (k == 0 and len(node.ops) > 1):
            values[k + 1] = operations.evaluate_once(scope, values[k + 1])
        parts.append(_compared(scope, node, op, values[k], values[k + 1]))
    return _all_of(parts)


def _negated(test: Value) -> Value:
    """Return the opposite of a known truth value, or of an expression that is a bool."""
    if isinstance(test, Known):
        return Known(not test.value)
    return BuiltinCall("logical_not", (test,), "bool")  # type: ignore[arg-type]


def _all_of(parts: Sequence[Value]) -> Value:
    result: Value = Known(True)
    for part in parts:
        if isinstance(part, Known):
            if not part.value:
                return part
        elif isinstance(result, Known):
            result = part
        else:
            result = BuiltinCall("logical_and", (result, part), "bool")  # type: ignore[arg-type]
    return result


def _compared(scope: Scope, node: ast.AST, op: ast.cmpop, left: Value, right: Value) -> Value:
    if isinstance(op, ast.Is | ast.IsNot):
        known = isinstance(left, Known) and isinstance(right, Known)
        for one in (left, right):
            if isinstance(one, Known) and one.value is None and not known:
                return Known(isinstance(op, ast.IsNot))  # nothing else is None
        if isinstance(left, Known) and isinstance(right, Known):
            return Known((left.value is right.value) == isinstance(op, ast.Is))
        raise scope.problem(node, TypeError, "'is' compares with None only; use ==")
    if isinstance(op, ast.In | ast.NotIn):
        return _contained(scope, node, op, left, right)
    python, name, sign = _COMPARE[type(op)]
    if isinstance(left, Known) and isinstance(right, Known):
        with scope.at(node):
            return Known(python(left.value, right.value))
    if isinstance(left, TupleValue) and isinstance(right, TupleValue) and sign in ("==", "!="):
        if len(left.items) != len(right.items):
            return Known(sign == "!=")
        pairs = zip(left.items, right.items, strict=True)
        same = _all_of([_compared(scope, node, ast.Eq(), a, b) for a, b in pairs])
        return same if sign == "==" else _negated(same)
    mixed = _mixed_integers(scope, node, left, right)
    if mixed is not None:
        return BuiltinCall(name, mixed, "bool")
    return operations.call_ufunc(scope, node, name, (left, right), sign)


def _mixed_integers(
    scope: Scope, node: ast.AST, left: Value, right: Value
) -> tuple[Expression, Expression] | None:
    """Return a signed and an unsigned operand, which compare by value."""
    if isinstance(left, Known) or isinstance(right, Known):
        known, other = (left, right) if isinstance(left, Known) else (right, left)
        assert isinstance(known, Known)
        if not isinstance(known.value, int | np.integer) or isinstance(other, TupleValue | Known):
            return None
        one = operations.scalar(scope, node, other)
        if kind_of(one) not in "iu" or types.fits(int(known.value), str(one.type)):
            return None
    first, second = operations.scalar(scope, node, left), operations.scalar(scope, node, right)
    kinds = {kind_of(one): str(one.type) for one in (first, second)}
    if kinds.keys() != {"i", "u"} or types.holds(kinds["i"], kinds["u"]):
        return None
    return first, second


def _contained(scope: Scope, node: ast.AST, op: ast.cmpop, left: Value, right: Value) -> Value:
    if not isinstance(right, TupleValue):
        raise scope.problem(node, TypeError, "'in' looks into tuples only")
    result: Value = Known(False)
    for item in right.items:
        same = _compared(scope, node, ast.Eq(), left, item)
        if isinstance(same, Known):
            if same.value:
                result = same
                break
        elif isinstance(result, Known):
            result = same
        else:
            result = BuiltinCall("logical_or", (result, same), "bool")  # type: ignore[arg-type]
    return result if isinstance(op, ast.In) else _negated(result)


def _logical(scope: Scope, node: ast.BoolOp) -> Known | Expression:
    """Return ``and`` and ``or`` where only the truth matters."""
    is_and = isinstance(node.op, ast.And)
    parts: list[Expression] = []
    for number, one in enumerate(node.values):
        with _lazily(scope, one) if number else nullcontext():
            test = condition(scope, one)
        if not isinstance(test, Known):
            parts.append(test)
        elif bool(test.value) != is_and:  # decides, unless what stands before does
            if not parts:
                return test
            parts.append(Const(not is_and, "bool"))
            break
    return _joined(is_and, parts) if parts else Known(is_and)


def _joined(is_and: bool, parts: Sequence[Expression]) -> Expression:
    result = parts[0]
    for part in parts[1:]:
        result = BuiltinCall("logical_and" if is_and else "logical_or", (result, part), "bool")
    return result


def _boolean(scope: Scope, node: ast.BoolOp) -> Value:
    """Return ``and`` and ``or``: one of the operands, as in Python."""
    is_and = isinstance(node.op, ast.And)
    found: list[tuple[ast.expr, Value]] = []
    for number, one in enumerate(node.values):
        with _lazily(scope, one) if number else nullcontext():
            value = evaluate(scope, one)
        with scope.at(one):
            truth = _truth(value)
        if truth is not None and truth != is_and:
            found.append((one, value))
            break
        if truth is None or one is node.values[-1]:
            found.append((one, value))
    if len(found) == 1:
        return found[0][1]
    if all(_is_bool(value) for _, value in found):
        tests = [operations.as_expression(scope, one, value) for one, value in found]
        return _joined(is_and, [one for one in tests if one != Const(is_and, "bool")])
    dtype = operations.common_type(scope, found)
    result = operations.assignable(scope, *found[-1], dtype)
    for number, (one, value) in reversed([*enumerate(found)][:-1]):
        with _lazily(scope, one) if number else nullcontext():
            part = operations.scalar(scope, one, operations.evaluate_once(scope, value))
        kept = operations.assignable(scope, one, part, dtype)
        arms = (result, kept) if is_and else (kept, result)
        result = BuiltinCall("where", (_test(scope, one, part), *arms), dtype)
    return result


def _truth(value: Value) -> bool | None:
    """Return the truth of a value; None if it is not known."""
    if isinstance(value, Known | TupleValue):
        return bool(value.value if isinstance(value, Known) else value.items)
    return None


def _is_bool(value: Value) -> bool:
    if isinstance(value, Known):
        return isinstance(value.value, bool)
    return isinstance(value, Expression) and value.type == "bool"


def _if_expression(scope: Scope, node: ast.IfExp) -> Value:
    test = condition(scope, node.test)
    if isinstance(test, Known):
        return evaluate(scope, node.body if test.value else node.orelse)
    with _lazily(scope, node):
        first, second = _both(scope, node.body, node.orelse)
    if isinstance(first, TupleValue) and isinstance(second, TupleValue):
        if len(first.items) != len(second.items):
            raise scope.problem(node, TypeError, "the two tuples have different lengths")
        pairs = zip(first.items, second.items, strict=True)
        return TupleValue(tuple(select(scope, node, test, a, b) for a, b in pairs))
    return select(scope, node, test, first, second)


def _like(scope: Scope, node: ast.AST, value: Value, other: Value) -> Expression:
    """Return a value of the IR, a known one of the dtype that the other has."""
    dtype = None
    if isinstance(value, Known) and not isinstance(other, Known):
        type_ = operations.as_expression(scope, node, other).type
        dtype = type_ if isinstance(type_, str) else None
    return operations.as_expression(scope, node, value, dtype)


def select(scope: Scope, node: ast.AST, test: Expression, first: Value, second: Value) -> Value:
    """Return one of two values of one type."""
    a, b = _like(scope, node, first, second), _like(scope, node, second, first)
    if a.type != b.type:
        names = [one.type for one in (a, b) if isinstance(one.type, str)]
        rows = map(dtypes.lookup, names or ["float64"])
        wider = max(rows, key=lambda row: ("buifc".index(row.kind), row.itemsize)).name
        message = f"one arm is {a.type}, the other {b.type}; convert one, as by np.{wider}(...)"
        raise scope.problem(node, TypeError, message)
    if is_record_in_memory(a) and is_record_in_memory(b):
        a, b = address(a), address(b)
    return dereferenced(BuiltinCall("where", (test, a, b), a.type))


_HANDLERS: dict[type[ast.AST], Callable[[Scope, Any], Value]] = {
    ast.Constant: lambda scope, node: Known(node.value),
    ast.Name: Scope.read,
    ast.Tuple: lambda scope, node: TupleValue(tuple(evaluate(scope, one) for one in node.elts)),
    ast.BinOp: _binary,
    ast.UnaryOp: _unary,
    ast.Compare: _compare,
    ast.BoolOp: _boolean,
    ast.IfExp: _if_expression,
    ast.Attribute: lambda scope, node: attributes.attribute(
        scope, node, evaluate(scope, node.value)
    ),
    ast.Subscript: indexing.subscript,
    ast.Call: calls.call,
}
