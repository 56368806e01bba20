"""A kernel's tree in, the C++ function out that tells whether a run of blocks may run as loops.

It computes with ranges (``kspec_host/ranges.h``): for each index the least and the greatest value
that any thread of these blocks has.  If all elements between them exist, every access is legal; and
no integer has wrapped around, so that the loops may compute with 64 bits.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

from kspec.compiler.host.loops.spelling import narrow
from kspec.compiler.host.loops.tree import (
    Assignment,
    Braces,
    Conditional,
    Conversion,
    CoordinateUse,
    CountingLoop,
    Definition,
    EarlyReturn,
    ElementUse,
    KernelTree,
    KernelVariable,
    MathCall,
    NumberLiteral,
    OperatorUse,
    TreeExpression,
    TreeStatement,
    VariableUse,
    children,
    is_index,
    is_index_condition,
    is_integer,
    parts_of,
    statements_of,
    walk,
)

_HOST = "::kspec_host::"
_SHARED_BYTES = 40 * 1024
_SWAPPED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}


def fit_function(kernel: KernelTree) -> str:
    """Return the function ``kspec_fit`` of a kernel."""
    pointers = [one for one in (*kernel.variables, *kernel.shared) if one.kind != "value"]
    reaches = [f"{_HOST}Reach {_reach(one)};" for one in pointers]
    ends = [_end(one) for one in pointers]
    parameters = ", ".join([f"const {_HOST}BlockRun& kspec_run", *kernel.parameters])
    return "\n".join(
        [
            f"KSPEC_HOST_LOOPS {_HOST}LoopsFit kspec_fit({parameters}) {{",
            f"{_HOST}Fit kspec_fit;",
            *_room(kernel.shared),
            *_coordinates(kernel),
            *reaches,
            *_RangeWriter().statements(kernel.body),
            f"return kspec_fit.answer({' && '.join(ends) or 'true'});",
            "}",
        ]
    )


def _coordinates(kernel: KernelTree) -> list[str]:
    """Write the ranges of the coordinates in use."""
    used = {
        part: None
        for one in statements_of(kernel.body)
        for expression in parts_of(one)
        for part in walk(expression)
        if isinstance(part, CoordinateUse)
    }
    return [f"const auto {_name(one)} = kspec_run.{one.of}_{one.axis}();" for one in used]


def _room(shared: Sequence[KernelVariable]) -> Iterator[str]:
    """Write that the arrays fit in shared memory, with room between them."""
    sizes = [f"sizeof({one.type}) * {_count(one)}" for one in shared if one.extents]
    if sizes:
        yield f"kspec_fit.need({' + '.join(sizes)} <= {_SHARED_BYTES});"


def _count(variable: KernelVariable) -> str:
    return " * ".join(f"(unsigned long){narrow(one)}" for one in variable.extents)


def _reach(variable: KernelVariable) -> str:
    return f"kspec_reach_{variable.name}"


def _range(variable: KernelVariable) -> str:
    return f"kspec_range_{variable.name}"


def _name(coordinate: CoordinateUse) -> str:
    return f"kspec_coordinate_{coordinate.of}_{coordinate.axis}"


def _end(variable: KernelVariable) -> str:
    reach = _reach(variable)
    if variable.kind == "pointer":
        return f"{reach}.is_in_memory(kspec_run, {variable.name})"
    if not variable.extents:
        return f"{reach}.is_below(kspec_run.dynamic_bytes / sizeof({variable.type}))"
    return f"{reach}.is_below({_count(variable)})"


def range_text(expression: TreeExpression) -> str:
    """Return the C++ text of the range of an index."""
    match expression:
        case NumberLiteral(text):
            return f"{_HOST}range_of({text})"
        case VariableUse(variable):
            if variable.kind == "value":
                return f"{_HOST}range_of({variable.name})"
            return _range(variable)
        case CoordinateUse():
            return _name(expression)
        case MathCall(name, (left, right)):
            return f"{_HOST}range_{name}({range_text(left)}, {range_text(right)})"
        case OperatorUse(operator, (one,)):
            return f"({operator}{range_text(one)})"
        case OperatorUse(operator, (left, right)):
            return f"({range_text(left)} {operator} {range_text(right)})"
        case Conversion(kind, operand):
            return f"{_HOST}range_as<{kind}>({range_text(operand)})"
    raise AssertionError(expression)


def _condition_text(expression: TreeExpression) -> str:
    """Return the text of a condition about indices, whose value is a ``Certainty``."""
    assert isinstance(expression, OperatorUse)
    operands = expression.operands
    inner = _condition_text if expression.operator in ("&&", "||", "!") else range_text
    if len(operands) == 1:
        return f"(!{inner(operands[0])})"
    return f"({inner(operands[0])} {expression.operator} {inner(operands[1])})"


class _RangeWriter:
    """Writes what a run of blocks has to fulfil, in the order of the statements."""

    def statements(self, statements: Sequence[TreeStatement]) -> Iterator[str]:
        for one in statements:
            if not isinstance(one, Conditional | CountingLoop | EarlyReturn):
                for expression in parts_of(one):
                    yield from self.needs(expression)
            yield from self.statement(one)

    def statement(self, statement: TreeStatement) -> Iterator[str]:
        match statement:
            case Definition(variable):
                yield from self.conversion(variable.type, variable.initial)
                if variable.is_index and variable.initial is not None:
                    value = f"{_HOST}range_as<{variable.type}>({range_text(variable.initial)})"
                    yield f"const auto {_range(variable)} = {value};"
            case Assignment(target, operator, value):
                yield from self.conversion(target.variable.type, value)
                if operator in ("/=", "%="):
                    yield from self.division(target, value)
                elif operator in ("<<=", ">>="):
                    yield from self.shift(value)
            case EarlyReturn(condition):
                yield f"kspec_fit.expect(!{_condition_text(condition)});"
                yield from self.needs(condition)
            case Conditional():
                yield from self.branches(statement)
            case CountingLoop():
                yield from self.loop(statement)
            case Braces(body):
                yield from self.scope(body)

    def scope(self, body: Sequence[TreeStatement]) -> Iterator[str]:
        yield "{"
        yield from self.statements(body)
        yield "}"

    def branches(self, statement: Conditional) -> Iterator[str]:
        yield from self.needs(statement.condition)
        if statement.is_guard:
            yield f"kspec_fit.expect({_condition_text(statement.condition)});"
            yield from self.scope(statement.then)
            return
        yield from self.where(statement.condition, self.scope(statement.then))
        if statement.otherwise:
            yield from self.scope(statement.otherwise)

    def where(self, condition: TreeExpression, text: Iterator[str]) -> Iterator[str]:
        """Write a text for the threads in which a condition holds."""
        narrowed = list(_narrowings(condition))
        for name, value in narrowed:
            # Two steps: a variable is in scope in its own initial value.
            yield f"{{ const auto kspec_narrow = {value};"
            yield f"if (kspec_narrow.is_possible()) {{ const auto {name} = kspec_narrow;"
        yield from text
        yield "}}" * len(narrowed)

    def loop(self, loop: CountingLoop) -> Iterator[str]:
        for part in loop.parts:
            yield from self.needs(part)
        name = "counted_up" if loop.comparison[0] == "<" else "counted_down"
        how = {"+": "STEP_ADDS", "-": "STEP_ADDS", "*": "STEP_SCALES", "/": "STEP_SCALES"}
        step = how.get(loop.change[0], "STEP_SHIFTS")
        first = f"{_HOST}range_as<{loop.variable.type}>({range_text(loop.first)})"
        arguments = f"{first}, {range_text(loop.bound)}, {range_text(loop.step)}"
        equal = "true" if loop.comparison in ("<=", ">=") else "false"
        if loop.comparison == "!=":  # to 0, from above
            yield f"kspec_fit.expect({first} >= {_HOST}range_of(0));"
        yield f"{{ const auto {_range(loop.variable)} ="
        yield f"{_HOST}{name}({arguments}, {_HOST}{step}, {equal}, kspec_fit);"
        yield f"if ({_range(loop.variable)}.is_possible())"
        yield from self.scope(loop.body)
        yield "}"

    # ------------------------------------------------------------- expressions

    def needs(self, expression: TreeExpression) -> Iterator[str]:
        """Write what the expression needs so that it can be computed, and by any instructions."""
        match expression:
            case OperatorUse("&&", (left, right)):
                yield from self.needs(left)
                yield from self.where(left, self.needs(right))
                return
            case OperatorUse("?:", (condition, then, otherwise)):
                yield from self.needs(condition)
                yield from self.where(condition, self.needs(then))
                yield from self.needs(otherwise)
                return
            case OperatorUse("/" | "%", (left, right)):
                yield from self.division(left, right)
            case OperatorUse("<<" | ">>", (_, count)):
                yield from self.shift(count)
            case Conversion(kind, operand):
                yield from self.conversion(kind, operand)
            case ElementUse(variable):
                yield f"{_reach(variable)}.take({self.offset(expression)});"
        for part in children(expression):
            yield from self.needs(part)

    def offset(self, element: ElementUse) -> str:
        """Return the range of an element's place in its array; each index is in its own extent."""
        extents = element.variable.extents
        if not extents:
            return range_text(element.indices[0])
        pairs = zip(element.indices, extents, strict=True)
        inner = [f"{range_text(index)}.within({narrow(extent)})" for index, extent in pairs]
        return functools.reduce(
            lambda outer, pair: f"{_HOST}nested({outer}, {narrow(pair[1])}, {pair[0]})",
            zip(inner[1:], extents[1:], strict=True),
            inner[0],
        )

    def division(self, left: TreeExpression, right: TreeExpression) -> Iterator[str]:
        """A division of integers faults; it would be known in which loop, not in which thread."""
        floating = _any_floating([left, right])
        if not is_index(right):
            yield f"kspec_fit.need({floating});"
        elif not isinstance(right, NumberLiteral) or not right.text.strip("0xXuUlL"):
            yield f"kspec_fit.divides({range_text(right)}, {floating});"

    def shift(self, count: TreeExpression) -> Iterator[str]:
        """Shifts by more bits than there are differ among instructions."""
        if is_index(count):
            yield f"kspec_fit.shifts({range_text(count)});"
        else:
            yield "kspec_fit.need(false);"

    def conversion(self, kind: str, value: TreeExpression | None) -> Iterator[str]:
        """So do conversions of large floating numbers to integers."""
        if value is not None:
            floats = _any_floating([value])
            if floats != "false":
                yield f"kspec_fit.need({_HOST}is_floating<{kind}> || !({floats}));"


def _any_floating(expressions: Sequence[TreeExpression]) -> str:
    """Return C++ text: whether a floating number is among the operands of expressions."""
    found = dict.fromkeys(text for one in expressions for text in _floating(one))
    return " || ".join(found) or "false"


def _floating(expression: TreeExpression) -> Iterator[str]:
    match expression:
        case NumberLiteral(text):
            if not is_integer(text):
                yield "true"
        case VariableUse(variable) | ElementUse(variable):
            yield f"{_HOST}is_floating<{variable.type}>"
        case Conversion(kind):
            yield f"{_HOST}is_floating<{kind}>"
        case MathCall(name, arguments):
            if name not in ("min", "max"):
                yield "true"
            else:
                for one in arguments:
                    yield from _floating(one)
        case OperatorUse("?:", (_, then, otherwise)):
            yield from _floating(then)
            yield from _floating(otherwise)
        case OperatorUse(operator, operands):
            if operator not in ("<", "<=", ">", ">=", "==", "!=", "&&", "||", "!"):
                for one in operands:
                    yield from _floating(one)


def _narrowings(condition: TreeExpression) -> Iterator[tuple[str, str]]:
    """Yield the names of ranges that a condition bounds, and the texts of their narrower values."""
    if not isinstance(condition, OperatorUse):
        return
    if condition.operator == "&&":
        for one in condition.operands:
            yield from _narrowings(one)
    elif condition.operator in (*_SWAPPED, "==") and is_index_condition(condition):
        left, right = condition.operands
        operator = condition.operator
        for one, relation, other in (
            (left, operator, right),
            (right, _SWAPPED.get(operator, operator), left),
        ):
            if isinstance(one, CoordinateUse) or (
                isinstance(one, VariableUse) and one.variable.kind in ("local", "loop")
            ):
                name = range_text(one)
                equal = "true" if relation[1:] else "false"
                for function, signs in (("below", "<="), ("above", ">=")):
                    if relation[0] in signs:
                        yield name, f"{_HOST}{function}({name}, {range_text(other)}, {equal})"
