"""Numbers that a fused function computes from numbers alone, for calls that return them.

>>> import operator
>>> evaluate(NumberExpression(operator.add, (NumberArgument(1), 2)), ("an array", 3))
5

Kernels compute such numbers for themselves. A call that returns one applies the same functions of
Python and NumPy to the numbers it was given, so it returns what they return, types included.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from kspec.dataclass import dataclass

Number = bool | int | float | complex | np.generic

COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
    "equal": operator.eq,
    "not_equal": operator.ne,
}
# Operators as Python has them, by the names of the ufuncs that they are of arrays.
OPERATORS: dict[str, Callable[..., Any]] = {
    **COMPARISONS,
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": operator.truediv,
    "floor_divide": operator.floordiv,
    "remainder": operator.mod,
    "divmod": divmod,
    "power": operator.pow,
    "left_shift": operator.lshift,
    "right_shift": operator.rshift,
    "bitwise_and": operator.and_,
    "bitwise_or": operator.or_,
    "bitwise_xor": operator.xor,
    "negative": operator.neg,
    "positive": operator.pos,
    "absolute": abs,
    "invert": operator.invert,
    "conjugate": operator.methodcaller("conjugate"),
}


@dataclass(frozen=True, eq=False)
class NumberArgument:
    """A number that the function is called with.

    Attributes
    ----------
    position : int
        Of the argument.
    """

    position: int


@dataclass(frozen=True, eq=False)
class NumberExpression:
    """A function of numbers.

    Attributes
    ----------
    function : callable
        Of Python or NumPy.
    operands : tuple
        Recipes of numbers, and what else it takes.
    keywords : mapping of str to object
        Likewise, by name.
    """

    function: Callable[..., Any]
    operands: tuple[Any, ...]
    keywords: Mapping[str, Any] = field(default_factory=dict)

    @property
    def computed(self) -> list[NumberExpression]:
        """The operands that are computed themselves."""
        operands = *self.operands, *self.keywords.values()
        return [one for one in operands if isinstance(one, NumberExpression)]


Recipe = NumberArgument | NumberExpression


def evaluate(recipe: Recipe, args: Sequence[Any]) -> Any:
    """Return a number, given the arguments of a call.

    Nothing is too deep: there is no recursion.
    """
    known: dict[NumberExpression, Any] = {}

    def look_up(one: Any) -> Any:
        if isinstance(one, NumberArgument):
            return args[one.position]
        return known[one] if isinstance(one, NumberExpression) else one

    pending = [recipe] if isinstance(recipe, NumberExpression) else []
    while pending:
        missing = [one for one in pending[-1].computed if one not in known]
        if missing:
            pending += missing
            continue
        one = pending.pop()
        if one not in known:
            keywords = {name: look_up(value) for name, value in one.keywords.items()}
            known[one] = one.function(*map(look_up, one.operands), **keywords)
    return look_up(recipe)
