"""Functions of a program: the kernel itself, and the device functions that it calls.

A device function is made once for each combination of the types of its arguments, in front of
its callers.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from kspec.errors import JitError
from kspec.ir.control import Function
from kspec.ir.nodes import Expression, FunctionCall, Name
from kspec.ir.types import Type, is_memory, is_record
from kspec.jit import operations, tables
from kspec.jit.capture import Captured, capture
from kspec.jit.scope import ProgramBuilder, Scope, Stop, cpp_name
from kspec.jit.syntax import assignments, expressions, statements
from kspec.jit.syntax.local_functions import LocalFunction, assigned_names
from kspec.jit.values import Known, TupleValue, Value, address, dereferenced

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
    program: ProgramBuilder,
    captured: Captured,
    name: str,
    params: Sequence[Name],
    variables: Mapping[str, Value],
    kernel: bool,
) -> tuple[Function, Scope]:
    """Return a function of a program, whose variables have values when it begins."""
    scope = Scope(program, captured, kernel=kernel, local=assigned_names(captured.node))
    scope.variables.update(variables)
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


def parameters(captured: Captured, given: Sequence[Type]) -> dict[str, Name]:
    """Return the parameters of a function that is called with such arguments, by its names."""
    names = parameter_names(captured)
    return {name: Name(cpp_name(name), one) for name, one in zip(names, given, strict=True)}


def call_device(
    scope: Scope,
    node: ast.AST,
    python: Any,
    args: Sequence[Value],
    keywords: Mapping[str, Value],
) -> Value:
    """Return the call of a device function, which is made if there is none for these types."""
    captured = _captured(scope, node, python)
    passing = _Passing(scope, node, captured)
    for name, value in _bound(scope, node, captured, args, keywords).items():
        passing.add(name, value)
    if isinstance(python, LocalFunction):
        for name, value in python.around(scope, node).items():
            passing.add(name, value)
    operands = passing.operands
    source = captured.node if isinstance(python, LocalFunction) else python
    key = source, tuple(passing.key)
    program = scope.program
    made = program.made.get(key)
    if made is _BEING_MADE:
        raise scope.problem(
            node, ValueError, f"{captured.name} calls itself: kernels do not recurse"
        )
    if made is None:
        if len(program.made) >= MAX_FUNCTIONS:
            raise scope.problem(node, ValueError, f"more than {MAX_FUNCTIONS} device functions")
        made = _make(scope, node, captured, key, passing)
    if made is False:
        raise Stop
    name, returns, written = made
    for k in written:
        scope.mark_written(node, operands[k])
    return dereferenced(FunctionCall(name, tuple(operands), "" if returns is None else returns))


def _captured(scope: Scope, node: ast.AST, python: Any) -> Captured:
    if isinstance(python, LocalFunction):
        return python.captured
    for one in scope.program.captured:
        if one.function is python:
            return one
    try:
        return capture(python)
    except JitError as error:
        raise scope.problem(node, type(error), str(error)) from None


def _make(scope: Scope, node: ast.AST, captured: Captured, key: Any, passing: _Passing) -> Any:
    program = scope.program
    program.made[key] = _BEING_MADE
    name = f"{cpp_name(captured.name.strip('<>'))}_{len(program.made)}"
    problems = len(program.problems)
    with scope.at(node):
        params, variables = passing.params, passing.variables
        function, inside = build_function(program, captured, name, params, variables, kernel=False)
    if len(program.problems) > problems:
        program.made[key] = False
        return False
    program.functions.append(function)
    written = [k for k, one in enumerate(function.params) if one.name in inside.written_names]
    program.made[key] = name, function.returns, written
    return program.made[key]


class _Passing:
    """The arguments of a device function: numbers and memory as parameters, functions by name.

    Parameters
    ----------
    scope : Scope
        The caller.
    node : ast.AST
        The call.
    captured : Captured
        The device function.

    Attributes
    ----------
    operands : list of Expression
        The arguments of the call in C++.
    params : list of Name
        The parameters in C++.
    variables : dict of str to Value
        The variables with which it begins.
    key : list
        What it depends on.
    """

    def __init__(self, scope: Scope, node: ast.AST, captured: Captured) -> None:
        self._scope = scope
        self._node = node
        self._captured = captured
        self._within: list[Captured] = []
        self.operands: list[Expression] = []
        self.params: list[Name] = []
        self.variables: dict[str, Value] = {}
        self.key: list[Any] = []

    def add(self, name: str, value: Value) -> None:
        """Add a variable."""
        self.variables[name] = self._passed(name, value, name)

    def _passed(self, name: str, value: Value, place: str) -> Value:
        """Return a value as the device function has it."""
        if isinstance(value, TupleValue):
            self.key.append(len(value.items))
            items = enumerate(value.items)
            return TupleValue(tuple(self._passed(name, one, f"{place}_{k}") for k, one in items))
        if isinstance(value, Known) and isinstance(value.value, LocalFunction):
            return Known(self._function(value.value, place))
        if isinstance(value, Known) and not value.is_number and isinstance(value.value, Hashable):
            self.key.append(value.value)  # a function, a type, a module, None
            return value
        one = self._operand(name, value)
        made = Name(cpp_name(place), one.type)
        self.operands.append(one)
        self.params.append(made)
        self.key.append(one.type)
        return made

    def _function(self, function: LocalFunction, place: str) -> LocalFunction:
        """Return a local function as the device function has it, with the variables around it."""
        if function.captured in self._within:
            message = f"{function.captured.name} calls itself: kernels do not recurse"
            raise self._scope.problem(self._node, ValueError, message)
        self.key.append(function.captured.node)
        self._within.append(function.captured)
        bound = {
            name: self._passed("", value, f"{place}_{name}")
            for name, value in function.around(self._scope, self._node).items()
        }
        self._within.pop()
        return replace(function, bound=bound)

    def _operand(self, name: str, value: Value) -> Expression:
        scope, node = self._scope, self._node
        if isinstance(value, Known) and isinstance(value.value, np.ndarray):
            value = tables.table_of(scope, node, value)
        dtype = parameter_type(scope, self._captured, name)
        if dtype is not None and not (
            not isinstance(value, Known) and is_memory(getattr(value, "type", ""))
        ):
            value = operations.assignable(scope, node, value, dtype)
        one = operations.held(scope, node, value)
        return address(operations.stored(scope, one)) if is_record(one.type) else one


def _bound(
    scope: Scope,
    node: ast.AST,
    captured: Captured,
    args: Sequence[Value],
    keywords: Mapping[str, Value],
) -> dict[str, Value]:
    """Return the argument of each parameter."""
    with scope.at(node):
        names = parameter_names(captured)
        signature = inspect.Signature(list(captured.parameters.values()))
        try:
            bound = signature.bind(*args, **keywords)
        except TypeError as error:
            raise TypeError(f"{captured.name}: {error}") from None
    defaults = {name: Known(captured.parameters[name].default) for name in names}
    return {name: bound.arguments.get(name, defaults[name]) for name in names}


def parameter_type(scope: Scope, captured: Captured, name: str) -> str | None:
    """Return the dtype that a parameter is annotated with."""
    arguments = captured.node.args
    for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        if one.arg == name:
            inside = Scope(scope.program, captured)
            return assignments.annotated_type(inside, one.annotation)
    return None


LANGUAGE = expressions.evaluate, call_device
