"""Functions of a program: the kernel itself, and the device functions that it calls.

A device function is made once for each combination of the types of its arguments, in front of
its callers.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kspec.ir.control import Function
from kspec.ir.nodes import Expression, FunctionCall, Name
from kspec.ir.types import Type, is_memory, is_record
from kspec.jit import operations, tables
from kspec.jit.capture import Captured, capture
from kspec.jit.scope import ProgramBuilder, Scope, Stop, cpp_name
from kspec.jit.syntax import assignments, expressions, statements
from kspec.jit.values import Known, Value, address, dereferenced

MAX_FUNCTIONS = 100
_BEING_MADE = object()


def parameter_names(captured: Captured) -> tuple[str, ...]:
    """Return the parameters of a function; refuse those that kernels do not have."""
    for one in captured.parameters.values():
        if one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD):
            raise NotImplementedError(
                f"{captured.name}: a kernel has no *{one.name}: list its parameters"
            )
    return tuple(captured.parameters)


def build_function(
    program: ProgramBuilder, captured: Captured, name: str, given: Sequence[Type], kernel: bool
) -> tuple[Function, Scope]:
    """Return a function of a program, for arguments of some types."""
    names = parameter_names(captured)
    params = [Name(cpp_name(one), type_) for one, type_ in zip(names, given, strict=True)]
    scope = Scope(program, captured, kernel=kernel, local=_assigned(captured.node))
    scope.variables.update(zip(names, params, strict=True))
    if captured not in program.captured:
        program.captured.append(captured)
    program.paths[name] = captured.path
    node = captured.node
    if isinstance(node, ast.Lambda):
        try:
            value = expressions.evaluate(scope, node.body)
            if kernel:
                statements._expression(scope, ast.Expr(node.body))
            else:
                statements.return_value(scope, node, value)
        except Stop:
            pass
    else:
        statements.build_block(scope, node.body)
    tables.refuse_writes(scope)
    for place, names_ in scope.escaping:
        if scope.memory_of(names_) & (scope.own | scope.copies):
            scope.problem(
                place,
                ValueError,
                f"{captured.name} returns memory of its own, which ends with it; return a number "
                "or the .copy() of a record, or let the caller pass the array",
            )
    returns = scope.returned[0] if scope.returned else None
    body = (*scope.hoisted, *scope.out)
    return Function(name, tuple(params), body, returns, kernel), scope


def _assigned(node: ast.AST) -> frozenset[str]:
    return frozenset(
        one.id
        for one in ast.walk(node)
        if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)
    )


def call_device(
    scope: Scope,
    node: ast.AST,
    python: Any,
    args: Sequence[Value],
    keywords: Mapping[str, Value],
) -> Value:
    """Return the call of a device function, which is made if there is none for these types."""
    captured = _captured(scope, node, python)
    operands = _operands(scope, node, captured, args, keywords)
    key = python, tuple(one.type for one in operands)
    program = scope.program
    made = program.made.get(key)
    if made is _BEING_MADE:
        raise scope.problem(
            node, ValueError, f"{captured.name} calls itself: kernels do not recurse"
        )
    if made is None:
        if len(program.made) >= MAX_FUNCTIONS:
            raise scope.problem(node, ValueError, f"more than {MAX_FUNCTIONS} device functions")
        made = _make(scope, node, captured, key)
    if made is False:
        raise Stop
    name, returns, written = made
    for k in written:
        scope.mark_written(node, operands[k])
    return dereferenced(FunctionCall(name, tuple(operands), "" if returns is None else returns))


def _captured(scope: Scope, node: ast.AST, python: Any) -> Captured:
    for one in scope.program.captured:
        if one.function is python:
            return one
    with scope.at(node):
        return capture(python)


def _make(scope: Scope, node: ast.AST, captured: Captured, key: Any) -> Any:
    program = scope.program
    program.made[key] = _BEING_MADE
    name = f"{cpp_name(captured.name.strip('<>'))}_{len(program.made)}"
    problems = len(program.problems)
    with scope.at(node):
        function, inside = build_function(program, captured, name, key[1], kernel=False)
    if len(program.problems) > problems:
        program.made[key] = False
        return False
    program.functions.append(function)
    written = [k for k, one in enumerate(function.params) if one.name in inside.written_names]
    program.made[key] = name, function.returns, written
    return program.made[key]


def _operands(
    scope: Scope,
    node: ast.AST,
    captured: Captured,
    args: Sequence[Value],
    keywords: Mapping[str, Value],
) -> list[Expression]:
    with scope.at(node):
        names = parameter_names(captured)
        signature = inspect.Signature(list(captured.parameters.values()))
        try:
            bound = signature.bind(*args, **keywords)
        except TypeError as error:
            raise TypeError(f"{captured.name}: {error}") from None
    found = []
    for name in names:
        parameter = captured.parameters[name]
        value = bound.arguments.get(name)
        if value is None:
            value = Known(parameter.default)
        if isinstance(value, Known) and isinstance(value.value, np.ndarray):
            value = tables.table_of(scope, node, value)
        dtype = parameter_type(scope, captured, name)
        if dtype is not None and not (
            not isinstance(value, Known) and is_memory(getattr(value, "type", ""))
        ):
            value = operations.assignable(scope, node, value, dtype)
        one = operations.held(scope, node, value)
        found.append(address(operations.stored(scope, one)) if is_record(one.type) else one)
    return found


def parameter_type(scope: Scope, captured: Captured, name: str) -> str | None:
    """Return the dtype that a parameter is annotated with."""
    arguments = captured.node.args
    for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        if one.arg == name:
            inside = Scope(scope.program, captured)
            return assignments.annotated_type(inside, one.annotation)
    return None


LANGUAGE = expressions.evaluate, call_device
