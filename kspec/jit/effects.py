"""Whether an expression does more than to compute: calls of functions, barriers, atomics."""

from __future__ import annotations

from kspec.ir.device import EFFECTS
from kspec.ir.memory import Element, Extent, Invoke, Member, Part
from kspec.ir.nodes import Call, Cast, Const, Expression, Name


def pure(value: Expression) -> bool:
    """Return whether an expression does nothing but compute."""
    if isinstance(value, Call):
        return value.function not in EFFECTS and all(map(pure, value.args))
    if isinstance(value, Invoke):
        return value.function.startswith("complex<")
    if isinstance(value, Cast):
        return pure(value.operand)
    if isinstance(value, Element):
        return pure(value.memory) and all(map(pure, value.indices))
    if isinstance(value, Member):
        return pure(value.record)
    return isinstance(value, Const | Name | Extent | Part)
