"""One call in a kernel: where it stands, and what it is given.

Functions of kernels take a `CallSite`, and return the value of the call.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from kspec.dataclass import dataclass
from kspec.ir.nodes import Expression
from kspec.jit import operations
from kspec.jit.scope import Scope, Stop
from kspec.jit.values import Known, TupleValue, Value, describe


@dataclass(frozen=True)
class CallSite:
    """A call of a function, with the values of its arguments.

    Attributes
    ----------
    scope : Scope
        The function that contains it.
    node : ast.AST
        Its syntax.
    callee : str
        Name of the called function, for messages.
    args : sequence of Value
        Positional arguments.
    keywords : dict of str to Value
        The others.
    """

    scope: Scope
    node: ast.AST
    callee: str
    args: Sequence[Value]
    keywords: dict[str, Value]

    @property
    def function(self) -> str:
        """The name of the called function without its modules."""
        return self.callee.rpartition(".")[2]

    def problem(self, kind: type[Exception], message: str) -> Stop:
        """Record what is wrong with the call; to be raised."""
        return self.scope.problem(self.node, kind, message)

    def bind(self, *words: str) -> list[Value]:
        """Return arguments in the order of the parameters; those with ``=`` may be missing."""
        found: list[Value] = list(self.args)
        if len(found) > len(words):
            raise self.problem(TypeError, f"{self.callee} takes at most {len(words)} arguments")
        rest = dict(self.keywords)
        for word in words[len(found) :]:
            plain = word.rstrip("=")
            if plain in rest:
                found.append(rest.pop(plain))
            elif word.endswith("="):
                found.append(Known(None))
            else:
                raise self.problem(TypeError, f"{self.callee} needs an argument {plain}")
        if rest:
            raise self.problem(TypeError, f"{self.callee} has no parameter {next(iter(rest))}")
        return found

    def exactly(self, count: int) -> Sequence[Value]:
        """Return the positional arguments, which must be so many."""
        if len(self.args) != count:
            message = f"{self.callee}() takes {count} argument, not {len(self.args)}"
            raise self.problem(TypeError, message)
        return self.args

    def known(self, what: str, value: Value) -> Any:
        """Return something that must be known while compiling."""
        if isinstance(value, TupleValue):
            return tuple(self.known(what, one) for one in value.items)
        if not isinstance(value, Known):
            message = f"{self.callee}: {what} must be a constant, not {describe(value)}"
            raise self.problem(TypeError, message)
        return value.value

    def scalar(self, value: Value) -> Expression:
        """Return a value that must be a number of some dtype."""
        return operations.scalar(self.scope, self.node, value)

    def assignable(self, value: Value, dtype: str) -> Expression:
        """Return a value as it is stored in an element of a dtype, if it may be."""
        return operations.assignable(self.scope, self.node, value, dtype)

    def ufunc(self, name: str, *values: Value, dtype: str | None = None) -> Expression:
        """Return a ufunc of values, which computes in a dtype if one is given."""
        return operations.call_ufunc(self.scope, self.node, name, values, dtype=dtype)
