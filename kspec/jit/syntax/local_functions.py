"""Functions inside of kernels: lambdas, and ``def`` in the body of another function.

They are device functions whose parameters are followed by the variables that they read of the
function around them, as these are when it is called.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
from collections.abc import Iterator, Mapping
from typing import ClassVar

from kspec.dataclass import dataclass
from kspec.jit.capture import Captured
from kspec.jit.scope import Scope
from kspec.jit.values import Known, Value, describe

_KINDS = inspect.Parameter


@dataclasses.dataclass
class CapturedInside(Captured):
    """A function in the body of another one, whose globals and closure are its own.

    Attributes
    ----------
    own : dict of str to inspect.Parameter
        Its parameters.
    """

    own: Mapping[str, inspect.Parameter] = dataclasses.field(default_factory=dict)

    @property
    def name(self) -> str:
        """Name of the function."""
        return getattr(self.node, "name", "<lambda>")

    @property
    def parameters(self) -> Mapping[str, inspect.Parameter]:
        """Its parameters."""
        return self.own


@dataclass(frozen=True, eq=False)
class LocalFunction:
    """A function in the body of another one, as a value.

    Attributes
    ----------
    captured : Captured
        Its source.
    free : tuple of str
        The variables around it that it reads.
    bound : mapping of str to Value or None
        Their values, in a device function that it was passed to; None where they are variables.
    """

    captured: CapturedInside
    free: tuple[str, ...]
    bound: Mapping[str, Value] | None = None
    described: ClassVar[str] = "function"

    def around(self, scope: Scope, node: ast.AST) -> dict[str, Value]:
        """Return the values of the variables around it, where it is called or passed on."""
        if self.bound is not None:
            return dict(self.bound)
        named = (ast.copy_location(ast.Name(name, ast.Load()), node) for name in self.free)
        return {one.id: scope.read(one) for one in named}


def local_function(scope: Scope, node: ast.Lambda | ast.FunctionDef) -> Known:
    """Return a function that is defined in the body of another one."""
    if isinstance(node, ast.FunctionDef) and node.decorator_list:
        raise scope.problem(
            node.decorator_list[0], NotImplementedError, "functions inside a kernel are plain ones"
        )
    outer = scope.captured
    own = dict(_parameters(scope, node))
    captured = CapturedInside(outer.function, node, outer.path, outer.lines, own=own)
    known = scope.variables.keys() | scope.local
    return Known(LocalFunction(captured, tuple(sorted(_free_names(node) & known))))


def _free_names(function: ast.Lambda | ast.FunctionDef) -> frozenset[str]:
    """Return the names that a function reads and neither assigns nor has as parameters."""
    found: set[str] = set()
    pending: list[ast.AST] = [function.body] if isinstance(function, ast.Lambda) else []
    pending += function.body if isinstance(function, ast.FunctionDef) else []
    while pending:
        one = pending.pop()
        if isinstance(one, ast.Name):
            found.add(one.id)
        if isinstance(one, ast.Lambda | ast.FunctionDef):
            found |= _free_names(one)
            pending += one.args.defaults
        else:
            pending += ast.iter_child_nodes(one)
    args = function.args
    own = {one.arg for one in (*args.posonlyargs, *args.args, *args.kwonlyargs)}
    return frozenset(found - own - assigned_names(function))


def _parameters(
    scope: Scope, node: ast.Lambda | ast.FunctionDef
) -> Iterator[tuple[str, inspect.Parameter]]:
    args = node.args
    if args.vararg or args.kwarg:
        one = args.vararg or args.kwarg
        assert one is not None
        message = f"a function inside a kernel has no *{one.arg}: list its parameters"
        raise scope.problem(node, NotImplementedError, message)
    plain = [*args.posonlyargs, *args.args]
    defaults = [None] * (len(plain) - len(args.defaults)) + list(args.defaults)
    kinds = (
        *[_KINDS.POSITIONAL_ONLY] * len(args.posonlyargs),
        *[_KINDS.POSITIONAL_OR_KEYWORD] * len(args.args),
        *[_KINDS.KEYWORD_ONLY] * len(args.kwonlyargs),
    )
    for arg, kind, default in zip(
        [*plain, *args.kwonlyargs], kinds, [*defaults, *args.kw_defaults], strict=True
    ):
        value = _KINDS.empty if default is None else _constant(scope, default)
        yield arg.arg, inspect.Parameter(arg.arg, kind, default=value)


def _constant(scope: Scope, node: ast.expr) -> object:
    value = scope.evaluate(node)
    if not isinstance(value, Known):
        message = f"a default inside a kernel must be a constant, not {describe(value)}"
        raise scope.problem(node, TypeError, message)
    return value.value


def assigned_names(function: ast.AST) -> frozenset[str]:
    """Return the names that a function assigns, without those of functions inside of it."""
    found: set[str] = set()
    pending = list(ast.iter_child_nodes(function))
    while pending:
        one = pending.pop()
        if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store):
            found.add(one.id)
        if isinstance(one, ast.FunctionDef):
            found.add(one.name)
        elif not isinstance(one, ast.Lambda):
            pending += ast.iter_child_nodes(one)
    return frozenset(found)
