"""Whether an expression does more than to compute: calls of functions, barriers, atomics."""

from __future__ import annotations

from kspec.ir.device import SIDE_EFFECTS
from kspec.ir.nodes import (
    BuiltinCall,
    Cast,
    Const,
    Element,
    Expression,
    Extent,
    FieldAccess,
    FunctionCall,
    Name,
    Subarray,
)


def pure(value: Expression) -> bool:
    """Return whether an expression does nothing but compute."""
    if isinstance(value, BuiltinCall):
        return value.function not in SIDE_EFFECTS and all(map(pure, value.args))
    if isinstance(value, FunctionCall):
        return value.function.startswith("complex<")
    if isinstance(value, Cast):
        return pure(value.operand)
    if isinstance(value, Element):
        return pure(value.memory) and all(map(pure, value.indices))
    if isinstance(value, FieldAccess):
        return pure(value.record)
    return isinstance(value, Const | Name | Extent | Subarray)
