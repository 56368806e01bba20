"""The tree of a kernel that can run as loops: expressions, statements, and their variables.

`kspec.compiler.host.loops.parse` builds the tree; the questions here are those of its writers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

_INTEGER = re.compile(r"(?:\d+|0[xX][\da-fA-F]+)[uUlL]*")


@dataclass(eq=False)
class KernelVariable:
    """A name of the kernel.

    Attributes
    ----------
    name : str
        As the text has it.
    kind : str
        ``"pointer"``, ``"value"`` (a parameter, or a constant of the template), ``"shared"``,
        ``"local"`` or ``"loop"`` (the variable of a ``for``).
    type : str
        C++ type; that of an element for pointers and shared arrays.
    extents : tuple
        Of a shared array; empty for dynamic shared memory.
    initial : expression or None
        The first value of a local.
    assigned : bool
        Whether it is assigned to, other than where it is declared.
    loop : CountingLoop or None
        The loop whose variable this is.
    """

    name: str
    kind: str
    type: str
    extents: tuple[TreeExpression, ...] = ()
    initial: TreeExpression | None = None
    assigned: bool = False
    loop: CountingLoop | None = None

    @property
    def is_index(self) -> bool:
        """Whether its value is known before the kernel runs, but for the thread's coordinates."""
        if self.kind == "local":
            return self.initial is not None and not self.assigned and is_index(self.initial)
        if self.kind == "loop":
            assert self.loop is not None
            return all(map(is_index, self.loop.parts))
        return self.kind == "value"

    @property
    def is_uniform(self) -> bool:
        """Whether it is the same for all threads of a block."""
        if not self.is_index:
            return False
        if self.kind == "local":
            assert self.initial is not None
            return is_uniform(self.initial)
        if self.kind == "loop":
            assert self.loop is not None
            return all(map(is_uniform, self.loop.parts))
        return True


class NumberLiteral(NamedTuple):
    """A literal."""

    text: str


class VariableUse(NamedTuple):
    """The value of a variable."""

    variable: KernelVariable


class CoordinateUse(NamedTuple):
    """``threadIdx.x`` and the like."""

    of: str
    axis: str


class OperatorUse(NamedTuple):
    """An operator with one, two or three (``?:``) operands."""

    operator: str
    operands: tuple[TreeExpression, ...]


class Conversion(NamedTuple):
    """A conversion to a type."""

    type: str
    operand: TreeExpression


class ElementUse(NamedTuple):
    """An element of an array."""

    variable: KernelVariable
    indices: tuple[TreeExpression, ...]


class MathCall(NamedTuple):
    """A call of a mathematical function."""

    name: str
    arguments: tuple[TreeExpression, ...]


TreeExpression: TypeAlias = (
    NumberLiteral | VariableUse | CoordinateUse | OperatorUse | Conversion | ElementUse | MathCall
)


class Definition(NamedTuple):
    """A local variable; its place in the text."""

    variable: KernelVariable
    place: int


class Assignment(NamedTuple):
    """``target = value`` with an operator such as ``+=``."""

    target: VariableUse | ElementUse
    operator: str
    value: TreeExpression
    place: int


class MeetingPoint(NamedTuple):
    """``__syncthreads()``."""


class Conditional(NamedTuple):
    """A condition.

    A guard is one that holds wherever the loops run, and needs no test there: those of most blocks
    are true in all of their threads.
    """

    condition: TreeExpression
    then: tuple[TreeStatement, ...]
    otherwise: tuple[TreeStatement, ...]
    is_guard: bool
    place: int


class EarlyReturn(NamedTuple):
    """``if (condition) return;``: false wherever the loops run."""

    condition: TreeExpression


@dataclass(eq=False)
class CountingLoop:
    """``for (T variable = first; variable < bound; variable += step)`` with other operators.

    The comparison ``!=`` is with 0; where it is not written, it is meant.
    """

    variable: KernelVariable
    first: TreeExpression
    comparison: str
    bound: TreeExpression
    change: str
    step: TreeExpression
    place: int
    body: tuple[TreeStatement, ...] = ()

    @property
    def parts(self) -> tuple[TreeExpression, TreeExpression, TreeExpression]:
        """The expressions of its head."""
        return self.first, self.bound, self.step


class Braces(NamedTuple):
    """Statements in braces."""

    body: tuple[TreeStatement, ...]


TreeStatement: TypeAlias = (
    Definition | Assignment | MeetingPoint | Conditional | EarlyReturn | CountingLoop | Braces
)


class KernelTree(NamedTuple):
    """A kernel that can run as loops.

    Attributes
    ----------
    name : str
        Without namespaces.
    template : str
        The head of a template, or nothing.
    types : tuple of str
        Its types.
    parameters : tuple of str
        Declarations of the parameters, without ``__restrict__``.
    variables : tuple of KernelVariable
        The parameters.
    shared : tuple of KernelVariable
        Arrays in shared memory.
    body : tuple
        Statements.
    functions : frozenset of str
        Names of functions and types that are meant to be CUDA's own.
    """

    name: str
    template: str
    types: tuple[str, ...]
    parameters: tuple[str, ...]
    variables: tuple[KernelVariable, ...]
    shared: tuple[KernelVariable, ...]
    body: tuple[TreeStatement, ...]
    functions: frozenset[str]


# Operators on ranges that kspec_host/ranges.h has.
INDEX_OPERATORS = frozenset(["+", "-", "*", "/", "%", "<<", ">>", "&"])
CONDITION_OPERATORS = frozenset(["<", "<=", ">", ">=", "==", "!=", "&&", "||", "!"])


def is_integer(text: str) -> bool:
    """Return whether a literal is an integer."""
    return _INTEGER.fullmatch(text) is not None


def children(expression: TreeExpression) -> tuple[TreeExpression, ...]:
    """Return the expressions directly inside of one."""
    match expression:
        case OperatorUse(_, operands):
            return operands
        case Conversion(_, operand):
            return (operand,)
        case ElementUse(_, indices):
            return indices
        case MathCall(_, arguments):
            return arguments
    return ()


def walk(expression: TreeExpression) -> Iterator[TreeExpression]:
    """Yield an expression and all inside of it."""
    yield expression
    for child in children(expression):
        yield from walk(child)


def is_index(expression: TreeExpression) -> bool:
    """Return whether an expression is an integer that follows from parameters and coordinates."""
    match expression:
        case NumberLiteral(text):
            return is_integer(text)
        case VariableUse(variable):
            return variable.is_index
        case CoordinateUse():
            return True
        case OperatorUse(operator, operands):
            return operator in INDEX_OPERATORS and all(map(is_index, operands))
        case MathCall("min" | "max", arguments):
            return len(arguments) == 2 and all(map(is_index, arguments))
        case Conversion(_, operand):
            return is_index(operand)
    return False


def is_index_condition(expression: TreeExpression) -> bool:
    """Return whether a condition is about such integers only."""
    if isinstance(expression, OperatorUse) and expression.operator in CONDITION_OPERATORS:
        logical = expression.operator in ("&&", "||", "!")
        return all(map(is_index_condition if logical else is_index, expression.operands))
    return False


def is_uniform(expression: TreeExpression) -> bool:
    """Return whether an index is the same for all threads of a block."""
    for part in walk(expression):
        if isinstance(part, CoordinateUse) and part.of == "threadIdx":
            return False
        if isinstance(part, VariableUse) and not part.variable.is_uniform:
            return False
    return is_index(expression)


def varies_by_block(expression: TreeExpression) -> bool:
    """Return whether an index or a condition about indices depends on the block."""
    for part in walk(expression):
        if isinstance(part, CoordinateUse) and part.of == "blockIdx":
            return True
        if isinstance(part, VariableUse):
            variable = part.variable
            inner = (variable.initial,) if variable.loop is None else variable.loop.parts
            if any(one is not None and varies_by_block(one) for one in inner):
                return True
    return False


def parts_of(statement: TreeStatement) -> tuple[TreeExpression, ...]:
    """Return the expressions of a statement, without those of statements inside of it."""
    match statement:
        case Definition(variable):
            return () if variable.initial is None else (variable.initial,)
        case Assignment(target, _, value):
            return (target, value)
        case Conditional(condition) | EarlyReturn(condition):
            return (condition,)
        case CountingLoop():
            return statement.parts
    return ()


def inside(statement: TreeStatement) -> tuple[TreeStatement, ...]:
    """Return the statements directly inside of one."""
    match statement:
        case Conditional(_, then, otherwise):
            return (*then, *otherwise)
        case CountingLoop():
            return statement.body
        case Braces(body):
            return body
    return ()


def statements_of(statements: Sequence[TreeStatement]) -> Iterator[TreeStatement]:
    """Yield statements and all inside of them."""
    for one in statements:
        yield one
        yield from statements_of(inside(one))


def has_barrier(*statements: TreeStatement) -> bool:
    """Return whether threads meet in statements."""
    return any(isinstance(one, MeetingPoint) for one in statements_of(statements))
