"""The C++ text of expressions: as the kernel has them, and of indices in 64 bits."""

from __future__ import annotations

from kspec.compiler.host.loops.tree import (
    Conversion,
    CoordinateUse,
    ElementUse,
    MathCall,
    NumberLiteral,
    OperatorUse,
    TreeExpression,
    VariableUse,
)


def narrow(expression: TreeExpression) -> str:
    """Return the text of an expression, as the kernel has it."""
    match expression:
        case NumberLiteral(text):
            return text
        case VariableUse(variable):
            return variable.name
        case CoordinateUse(of, axis):
            return f"{of}.{axis}"
        case OperatorUse(operator, (one,)):
            return f"({operator} {narrow(one)})"
        case OperatorUse(operator, (left, right)):
            return f"({narrow(left)} {operator} {narrow(right)})"
        case OperatorUse(_, (condition, then, otherwise)):
            return f"({narrow(condition)} ? {narrow(then)} : {narrow(otherwise)})"
        case Conversion(kind, operand):
            return f"(({kind})({narrow(operand)}))"
        case ElementUse(variable, indices):
            return variable.name + "".join(f"[{wide(index)}]" for index in indices)
        case MathCall(name, arguments):
            return f"{name}({', '.join(map(narrow, arguments))})"
    raise AssertionError(expression)


def wide(expression: TreeExpression) -> str:
    """Return the text of an index in 64 bits: compilers see that it grows with the thread."""
    match expression:
        case VariableUse(variable) if variable.kind in ("local", "loop"):
            return f"kspec_wide_{variable.name}"
        case OperatorUse("+" | "-" | "*" as operator, (left, right)):
            return f"({wide(left)} {operator} {wide(right)})"
        case OperatorUse("-" | "+" as operator, (one,)):
            return f"({operator} {wide(one)})"
        case Conversion(_, operand):
            return wide(operand)
    return f"(long long)({narrow(expression)})"
