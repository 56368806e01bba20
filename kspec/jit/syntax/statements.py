"""Statements of Python in, statements of the IR out: branches, loops, returns, effects.

Assignments are in `kspec.jit.syntax.assignments`.  A statement with a problem is left out, so that
the ones behind it are looked at too.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from kspec.ir.control import (
    Assert,
    ExpressionStatement,
    For,
    If,
    Jump,
    KernelStatement,
    Return,
    SourceLine,
    While,
)
from kspec.ir.nodes import Const, Expression, Name
from kspec.jit import builtins as device
from kspec.jit import operations, types
from kspec.jit.scope import Scope, Stop, root_names
from kspec.jit.syntax import assignments, expressions
from kspec.jit.syntax.local_functions import local_function
from kspec.jit.values import (
    Known,
    Method,
    TupleValue,
    Value,
    convert,
    describe,
    is_record_in_memory,
    kind_of,
    without_fields,
    wrapped,
)

_FORBIDDEN: dict[type[ast.AST], tuple[type[Exception], str]] = {
    ast.AsyncFunctionDef: (NotImplementedError, "a kernel has no coroutines"),
    ast.ClassDef: (NotImplementedError, "a kernel has no classes"),
    ast.Delete: (NotImplementedError, "nothing is deleted in kernels"),
    ast.Import: (ValueError, "Not supported in kernels: import; import it beside"),
    ast.ImportFrom: (ValueError, "Not supported in kernels: import; import it beside"),
    ast.Global: (ValueError, "Not supported in kernels: global"),
    ast.Nonlocal: (ValueError, "Not supported in kernels: nonlocal"),
    ast.With: (ValueError, "Not supported in kernels: with"),
    ast.Try: (ValueError, "Not supported in kernels: try"),
    ast.Raise: (ValueError, "Not supported in kernels: raise; use assert"),
}


def build_block(scope: Scope, nodes: Sequence[ast.stmt]) -> None:
    """Add statements to a scope."""
    for node in nodes:
        mark = SourceLine(node.lineno)
        scope.out.append(mark)
        try:
            build_statement(scope, node)
        except Stop:
            assignments.poison(scope, node)
        if scope.out[-1] is mark:
            scope.out.pop()


def build_statement(scope: Scope, node: ast.stmt) -> None:
    """Add one statement to a scope."""
    handler = _HANDLERS.get(type(node))
    if handler is None:
        kind, message = _FORBIDDEN.get(
            type(node), (ValueError, f"Not supported in kernels: {type(node).__name__.lower()}")
        )
        raise scope.problem(node, kind, message)
    handler(scope, node)


def build_branch(scope: Scope, nodes: Sequence[ast.stmt]) -> tuple[KernelStatement, ...]:
    """Return the statements of a branch or loop."""
    outer, scope.out = scope.out, []
    scope.depth += 1
    try:
        build_block(scope, nodes)
        return tuple(scope.out)
    finally:
        scope.out = outer
        scope.depth -= 1


def _expression(scope: Scope, node: ast.Expr) -> None:
    if isinstance(node.value, ast.Constant):
        return  # a docstring, or ...
    of = expressions.condition if isinstance(node.value, ast.BoolOp) else expressions.evaluate
    value = of(scope, node.value)
    if isinstance(value, Expression) and not operations.is_pure(value):
        scope.out.append(ExpressionStatement(operations.held(scope, node, value)))


def _if(scope: Scope, node: ast.If) -> None:
    test = expressions.condition(scope, node.test)
    if isinstance(test, Known):
        build_block(scope, node.body if test.value else node.orelse)
        return
    body = build_branch(scope, node.body)
    scope.out.append(If(test, body, build_branch(scope, node.orelse)))


def _while(scope: Scope, node: ast.While) -> None:
    if node.orelse:
        raise scope.problem(node.orelse[0], NotImplementedError, "else of a while loop")
    before = len(scope.out)
    test = expressions.condition(scope, node.test)
    if len(scope.out) > before:
        raise scope.problem(node.test, NotImplementedError, "this condition needs a variable")
    if isinstance(test, Known):
        if not test.value:
            return
        test = Const(True, "bool")
    scope.loops += 1
    body = build_branch(scope, node.body)
    scope.loops -= 1
    scope.out.append(While(test, body))


def _for(scope: Scope, node: ast.For) -> None:
    if node.orelse:
        raise scope.problem(node.orelse[0], NotImplementedError, "else of a for loop")
    call = node.iter
    if isinstance(call, ast.Call):
        function = expressions.evaluate(scope, call.func)
        is_range = isinstance(function, Known) and function.value in (range, device.range)
        if is_range:
            _for_range(scope, node, call)
            return
    value = expressions.evaluate(scope, node.iter)
    if isinstance(value, TupleValue):
        fixed = operations.evaluate_once(scope, value, always=True)
        assert isinstance(fixed, TupleValue)
        _for_tuple(scope, node, fixed.items)
    elif isinstance(value, Known) and isinstance(value.value, tuple | range):
        _for_tuple(scope, node, [Known(one) for one in value.value])
    elif isinstance(value, Known | Method):
        raise scope.problem(
            node.iter, TypeError, f"{describe(value)} is neither a range nor a tuple"
        )
    else:
        raise scope.problem(
            node.iter, NotImplementedError, "loops over arrays: use range(len(x)) and x[i]"
        )


def _for_tuple(scope: Scope, node: ast.For, items: Sequence[Value]) -> None:
    """Repeat the body for each item: their types may differ."""
    word = next(_jumps(node.body), None)
    if word is not None:
        raise scope.problem(word, NotImplementedError, "break and continue in a loop over a tuple")
    for item in items:
        target = node.target
        if isinstance(target, ast.Tuple) and isinstance(item, Known):
            item = wrapped(item.value)
        for one, value in _pairs(target, item):
            is_new = isinstance(one, ast.Name) and not isinstance(scope.variables.get(one.id), Name)
            if isinstance(one, ast.Name) and is_new and isinstance(value, Known):
                scope.variables[one.id] = value  # stays known in the body
            else:
                assignments.assign(scope, one, value, node.iter)
        build_block(scope, node.body)


def _jumps(nodes: Iterable[ast.AST]) -> Iterator[ast.stmt]:
    """Yield the jumps of the loop that statements are in, not those of loops inside of them."""
    for node in nodes:
        if isinstance(node, ast.Break | ast.Continue):
            yield node
        elif isinstance(node, ast.For | ast.While):
            yield from _jumps(node.orelse)
        else:
            yield from _jumps(ast.iter_child_nodes(node))


def _pairs(target: ast.expr, item: Value) -> list[tuple[ast.expr, Value]]:
    """Return names and what they are given, if there are as many."""
    if isinstance(target, ast.Tuple) and isinstance(item, TupleValue):
        names = target.elts
        if len(names) == len(item.items):
            return list(zip(names, item.items, strict=True))
    return [(target, item)]


def _for_range(scope: Scope, node: ast.For, call: ast.Call) -> None:
    if not isinstance(node.target, ast.Name):
        raise scope.problem(node.target, ValueError, "Not supported in kernels: several counters")
    values = [expressions.evaluate(scope, one) for one in call.args]
    if not 1 <= len(values) <= 3:
        raise scope.problem(call, TypeError, "range() takes 1 to 3 arguments")
    start, stop, step = (
        (Known(0), values[0], Known(1)) if len(values) == 1 else (*values, Known(1))[:3]
    )
    dtype = _counter_type(scope, call, (start, stop, step))
    unroll = _unroll(scope, call, (start, stop, step))
    if isinstance(step, Known) and step.value == 0:
        raise scope.problem(call, ValueError, "range() arg 3 must not be zero")
    first, last, by = (_integer(scope, call, one, dtype) for one in (start, stop, step))
    name = node.target.id
    counter, body = assignments.loop_variable(scope, node, name, dtype)
    scope.loops += 1
    statements = build_branch(scope, node.body)
    scope.loops -= 1
    scope.out.append(For(counter, first, last, by, (*body, *statements), unroll))


def _counter_type(scope: Scope, node: ast.AST, values: Sequence[Value]) -> str:
    """Return the type of a loop's variable: that of the stop, where the step fits it."""
    found = []
    for one in values:
        value = operations.scalar(scope, node, one)
        if kind_of(value) not in "iu":
            raise scope.problem(node, TypeError, f"range() takes integers, not {value.type}")
        found.append(str(value.type))
    if scope.mode == "numpy":
        return "int64"
    stop, step = values[1], values[2]
    if isinstance(stop, Known) and not isinstance(values[0], Known) and found[0] == "int64":
        return "int64"  # a constant takes on the type of its other operand
    backwards = isinstance(step, Known) and step.value < 0
    if backwards and types.kind(found[1]) == "u":
        return "int64" if found[1] == "uint64" else "int32"
    return found[1]


def _integer(scope: Scope, node: ast.AST, value: Value, dtype: str) -> Expression:
    if isinstance(value, Known):
        return operations.as_expression(scope, node, value, dtype)
    return convert(operations.scalar(scope, node, value), dtype)


def _unroll(scope: Scope, node: ast.Call, values: Sequence[Value]) -> int | None:
    """Return the unrolling of a loop: 0 is complete."""
    for word in node.keywords:
        if word.arg != "unroll":
            raise scope.problem(node, TypeError, f"range() has no parameter {word.arg}")
        found = expressions.evaluate(scope, word.value)
        if not isinstance(found, Known) or not isinstance(found.value, bool | int | None):
            raise scope.problem(word.value, TypeError, "unroll must be True, False or a number")
        if found.value is None:
            return None
        if not all(isinstance(one, Known) for one in values):
            raise scope.problem(
                node, TypeError, "only loops whose range is made of constants are unrolled"
            )
        if found.value is True:
            return 0
        if found.value is False:
            return 1
        if not 0 < found.value < 2**31:
            raise scope.problem(word.value, ValueError, f"unroll is {found.value}")
        return int(found.value)
    return None


def _jump(word: str) -> Callable[[Scope, ast.stmt], None]:
    def handler(scope: Scope, node: ast.stmt) -> None:
        scope.out.append(Jump(word))

    return handler


def _return(scope: Scope, node: ast.Return) -> None:
    value: Value = Known(None) if node.value is None else expressions.evaluate(scope, node.value)
    nothing = isinstance(value, Known) and value.value is None
    if scope.kernel:
        if not nothing:
            raise scope.problem(node, ValueError, "a kernel returns nothing: store it in an array")
        scope.out.append(Return())
        return
    return_value(scope, node, None if nothing else value)


def return_value(scope: Scope, node: ast.AST, value: Value | None) -> None:
    """Let a device function return a value, always of one type."""
    first = scope.returned[0] if scope.returned else None
    if isinstance(value, TupleValue):
        raise scope.problem(
            node,
            TypeError,
            "a device function returns one value, not a tuple; store the others in an array",
        )
    if value is None:
        one = None
    elif isinstance(value, Known) and value.is_number and isinstance(first, str):
        if not types.can_cast(types.type_of_constant(scope.mode, value.value), first):
            raise scope.problem(
                node, ValueError, f"{scope.captured.name} returns {first}, and here {value.value!r}"
            )
        one = operations.as_expression(scope, node, value, first)
    else:
        one = operations.held(scope, node, value)
        if is_record_in_memory(value) and isinstance(without_fields(value), Name):
            one = operations.as_expression(scope, node, value)  # a variable ends here: its value
        if not isinstance(one.type, str):
            scope.escaping.append((node, frozenset(root_names(one))))
    type_ = None if one is None else one.type
    if scope.returned and type_ != first:
        raise scope.problem(
            node, ValueError, f"{scope.captured.name} returns {first}, and here {type_}"
        )
    scope.returned.append(type_)
    scope.out.append(Return(one))


def _assert(scope: Scope, node: ast.Assert) -> None:
    test = expressions.condition(scope, node.test)
    text = ast.unparse(node.test)
    if node.msg is not None:
        message = expressions.evaluate(scope, node.msg)
        if not isinstance(message, Known):
            raise scope.problem(node.msg, TypeError, "the message of an assert must be a constant")
        text = f"{text}: {message.value}"
    if isinstance(test, Known):
        if test.value:
            return
        raise scope.problem(node, ValueError, f"this never holds: {text}")
    scope.out.append(Assert(test, text))


def _function(scope: Scope, node: ast.FunctionDef) -> None:
    name = ast.copy_location(ast.Name(node.name, ast.Store()), node)
    assignments.assign(scope, name, local_function(scope, node), node)


def _pass(scope: Scope, node: ast.stmt) -> None:
    """Do nothing."""


_HANDLERS: dict[type[ast.stmt], Callable[[Scope, Any], None]] = {
    ast.Assign: assignments.build_assign,
    ast.AugAssign: assignments.build_augmented,
    ast.AnnAssign: assignments.build_annotated,
    ast.Expr: _expression,
    ast.If: _if,
    ast.While: _while,
    ast.For: _for,
    ast.Break: _jump("break"),
    ast.Continue: _jump("continue"),
    ast.FunctionDef: _function,
    ast.Pass: _pass,
    ast.Return: _return,
    ast.Assert: _assert,
}
