"""The tokens of a kernel in, its tree out, or None where it cannot be read as loops.

>>> from kspec.cpp.tokens import tokens_of
>>> head = [*tokens_of("__global__ void twice(float* x, int n)")]
>>> kernel = read_kernel(head, [*tokens_of("int i = threadIdx.x; if (i < n) x[i] *= 2;")])
>>> [type(one).__name__ for one in kernel.body]
['Definition', 'Conditional']

It reads a small part of C++ whose meaning the text alone tells: arithmetic on numbers, elements of
arrays, counting loops, and barriers that all threads reach.  Other kernels run thread by thread.
"""

from __future__ import annotations

from collections.abc import Sequence

from kspec.compiler.host.loops.expressions import ExpressionReader, NotReadError, read_type
from kspec.compiler.host.loops.heads import KernelHead
from kspec.compiler.host.loops.tree import (
    Assignment,
    Braces,
    Conditional,
    CoordinateUse,
    CountingLoop,
    Definition,
    EarlyReturn,
    ElementUse,
    KernelTree,
    KernelVariable,
    MeetingPoint,
    NumberLiteral,
    TreeExpression,
    TreeStatement,
    VariableUse,
    has_barrier,
    inside,
    is_index,
    is_index_condition,
    is_uniform,
    parts_of,
    statements_of,
    varies_by_block,
    walk,
)
from kspec.cpp.tokens import Token

_ASSIGNMENTS = frozenset(["=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="])
_COMPARISONS = frozenset(["<", "<=", ">", ">=", "!="])
_CHANGES = {"<": ("+=", "*=", "<<="), ">": ("-=", "/=", ">>="), "!": ("/=", ">>=")}
_ZERO: TreeExpression = NumberLiteral("0")


def read_kernel(head: Sequence[Token], body: Sequence[Token]) -> KernelTree | None:
    """Return the tree of a kernel, or None.

    Parameters
    ----------
    head : sequence of Token
        The declaration of the function, from a ``template`` on.
    body : sequence of Token
        What is between its braces.
    """
    try:
        return _BodyReader(body).kernel(KernelHead(head))
    except NotReadError:
        return None


class _BodyReader(ExpressionReader):
    """One pass over the tokens of a body."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        super().__init__(tokens)
        self.shared: list[KernelVariable] = []
        self.loops = 0

    def kernel(self, head: KernelHead) -> KernelTree:
        self.types = head.types
        self.scopes = [{}]
        for one in (*head.constants, *head.variables):
            self.declare(one)
        self.scopes.append({})
        body: list[TreeStatement] = []
        while self.at < len(self.tokens):
            body += self.statement(0)
        if any(one.assigned for one in (*head.constants, *head.variables)):
            raise NotReadError
        for statement in statements_of(body):
            _check(statement)
        _check_barriers(body)
        return KernelTree(
            head.name,
            head.template,
            tuple(head.types),
            tuple(head.parameters),
            tuple(head.variables),
            tuple(self.shared),
            tuple(body),
            frozenset(self.functions),
        )

    # ------------------------------------------------------------- statements

    def statement(self, depth: int) -> list[TreeStatement]:
        """Read a statement; `depth` counts the loops and conditions that it is in."""
        word = self.word()
        if word == ";":
            self.at += 1
            return []
        if word == "{":
            return [Braces(self.block(depth))]
        if word == "if":
            return [self.condition(depth)]
        if word == "for":
            return [self.loop()]
        if word == "__syncthreads":
            for expected in ("__syncthreads", "(", ")", ";"):
                self.take(expected)
            return [MeetingPoint()]
        if word in ("__shared__", "extern"):
            return self.shared_arrays()
        kind, end = read_type(self.tokens, self.at, self.types)
        if kind and end < len(self.tokens) and self.tokens[end].kind == "word":
            constant = "const" in {token.text for token in self.tokens[self.at : end]}
            self.at = end
            return self.locals(kind, constant)
        found = self.assignment()
        self.take(";")
        return [found]

    def block(self, depth: int) -> tuple[TreeStatement, ...]:
        self.take("{")
        self.scopes.append({})
        found: list[TreeStatement] = []
        while self.word() != "}":
            found += self.statement(depth)
        self.take("}")
        self.scopes.pop()
        return tuple(found)

    def body(self, depth: int) -> tuple[TreeStatement, ...]:
        """Read the statement that a condition or loop is about."""
        if self.word() == "{":
            return self.block(depth)
        self.scopes.append({})
        found = tuple(self.statement(depth))
        self.scopes.pop()
        return found

    def condition(self, depth: int) -> TreeStatement:
        place = self.place()
        for expected in ("if", "("):
            self.take(expected)
        condition = self.expression()
        self.take(")")
        top = not depth and not self.loops
        if self.leaves():
            if not top or not is_index_condition(condition):
                raise NotReadError
            return EarlyReturn(condition)
        start = self.at
        guard = top and is_index_condition(condition) and varies_by_block(condition)
        then = self.body(depth if guard else depth + 1)
        if self.word() != "else":
            return Conditional(condition, then, (), guard, place)
        if guard:  # read once more: what is inside is not at the top
            self.at = start
            then = self.body(depth + 1)
        self.take("else")
        return Conditional(condition, then, self.body(depth + 1), False, place)

    def leaves(self) -> bool:
        start = self.at
        braces = self.takes("{")
        if self.takes("return") and self.takes(";") and (not braces or self.takes("}")):
            if self.word() == "else":
                raise NotReadError
            return True
        self.at = start
        return False

    def loop(self) -> CountingLoop:
        place = self.place()
        for expected in ("for", "("):
            self.take(expected)
        kind, end = read_type(self.tokens, self.at, self.types)
        if not kind:
            raise NotReadError
        self.at = end
        variable = KernelVariable(self.take(), "loop", kind)
        self.take("=")
        first = self.expression()
        self.take(";")
        self.scopes.append({})
        self.declare(variable)
        if self.take() != variable.name:
            raise NotReadError
        comparison, bound = "!=", _ZERO
        if self.word() != ";":
            comparison = self.take(*_COMPARISONS)
            bound = self.expression()
        self.take(";")
        change, step = self.change(variable.name)
        self.take(")")
        if change not in _CHANGES[comparison[0]] or (comparison == "!=" and bound != _ZERO):
            raise NotReadError
        variable.loop = found = CountingLoop(
            variable, first, comparison, bound, change, step, place
        )
        if not all(map(is_index, found.parts)):
            raise NotReadError
        self.loops += 1
        found.body = self.body(1)
        self.loops -= 1
        self.scopes.pop()
        if variable.assigned or not all(map(is_index, found.parts)):
            raise NotReadError
        return found

    def change(self, name: str) -> tuple[str, TreeExpression]:
        """Read how a loop goes on."""
        if self.takes("++", "--"):
            operator = self.word(-1)
            self.take(name)
            return f"{operator[0]}=", NumberLiteral("1")
        self.take(name)
        if self.takes("++", "--"):
            return f"{self.word(-1)[0]}=", NumberLiteral("1")
        operator = self.take(*_ASSIGNMENTS)
        return operator, self.expression()

    def shared_arrays(self) -> list[TreeStatement]:
        dynamic = self.takes("extern")
        self.take("__shared__")
        if self.loops or len(self.scopes) != 2:
            raise NotReadError
        kind, self.at = read_type(self.tokens, self.at, self.types)
        if not kind:
            raise NotReadError
        while True:
            variable = KernelVariable(self.take(), "shared", kind)
            extents: list[TreeExpression] = []
            while self.takes("["):
                if not dynamic:
                    extents.append(self.expression())
                self.take("]")
            if dynamic == bool(extents) or not all(map(_is_constant, extents)):
                raise NotReadError
            variable.extents = tuple(extents)
            self.shared.append(self.declare(variable))
            if not self.takes(","):
                break
        self.take(";")
        return []

    def locals(self, kind: str, constant: bool) -> list[TreeStatement]:
        found: list[TreeStatement] = []
        while True:
            place = self.place()
            name = self.take()
            initial = self.expression() if self.takes("=") else None
            if constant and initial is None:
                raise NotReadError
            found.append(
                Definition(self.declare(KernelVariable(name, "local", kind, (), initial)), place)
            )
            if not self.takes(","):
                break
        self.take(";")
        return found

    def assignment(self) -> TreeStatement:
        place = self.place()
        if self.word() in ("++", "--"):
            operator = self.take()
            return self.assigned(self.unary(), f"{operator[0]}=", NumberLiteral("1"), place)
        target = self.unary()
        if self.word() in ("++", "--"):
            return self.assigned(target, f"{self.take()[0]}=", NumberLiteral("1"), place)
        operator = self.take(*_ASSIGNMENTS)
        return self.assigned(target, operator, self.expression(), place)

    def assigned(
        self, target: TreeExpression, operator: str, value: TreeExpression, place: int
    ) -> TreeStatement:
        if not isinstance(target, VariableUse | ElementUse):
            raise NotReadError
        target.variable.assigned = target.variable.assigned or isinstance(target, VariableUse)
        return Assignment(target, operator, value, place)


def _is_constant(extent: TreeExpression) -> bool:
    return is_index(extent) and not any(isinstance(part, CoordinateUse) for part in walk(extent))


def _check(statement: TreeStatement) -> None:
    """Raise where an index depends on a variable that is assigned to later."""
    if isinstance(statement, CountingLoop):
        known = all(map(is_index, statement.parts))
    elif isinstance(statement, EarlyReturn) or (
        isinstance(statement, Conditional) and statement.is_guard
    ):
        known = is_index_condition(statement.condition)
    else:
        known = True
    for expression in parts_of(statement):
        for part in walk(expression):
            known = known and (not isinstance(part, ElementUse) or all(map(is_index, part.indices)))
    if not known:
        raise NotReadError


def _check_barriers(statements: Sequence[TreeStatement]) -> None:
    """Raise where not all threads of a block meet at a barrier."""
    for one in statements:
        if isinstance(one, MeetingPoint) or not has_barrier(one):
            continue
        if isinstance(one, Conditional) and not one.is_guard:
            raise NotReadError
        if isinstance(one, CountingLoop) and not all(map(is_uniform, one.parts)):
            raise NotReadError
        _check_barriers(inside(one))
