"""Expressions of one element and the statements around them, each with its type.

>>> x = Name("x", "float32")
>>> print(Let("t0", BuiltinCall("multiply", (x, x), "float32")))
t0: float32 = multiply(x, x)

Types are names of `kspec.model.dtypes`, or `kspec.ir.types`.  Nodes are frozen and compare by
value, so equal expressions are equal nodes.  Nothing converts by itself: a `Cast` says so.
`kspec.ir.check` says what is wrong with a node, `kspec.ir.emit` writes it as CUDA C++.

What only whole kernels have, memory and control flow, is in `kspec.ir.memory` and
`kspec.ir.control`.
"""

from __future__ import annotations

from dataclasses import dataclass

from kspec.ir.memory import Element, Extent, FieldAccess, FunctionCall, Subarray
from kspec.ir.types import Type


@dataclass(frozen=True)
class Const:
    """A number that the program says.

    Attributes
    ----------
    value : bool, int, float or complex
        The number.
    type : str
        Its dtype.
    """

    value: bool | int | float | complex
    type: str

    def __str__(self) -> str:
        return f"{self.value!r}"


@dataclass(frozen=True)
class Name:
    """A variable or a parameter.

    Attributes
    ----------
    name : str
        An identifier of C++.
    type : Type
        Its dtype, or what else it is.
    """

    name: str
    type: Type

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Cast:
    """A value converted to another type, as NumPy's ``astype`` does.

    Attributes
    ----------
    operand : Expression
        The value.
    type : str
        What it becomes.
    """

    operand: Expression
    type: str

    def __str__(self) -> str:
        return f"{self.type}({self.operand})"


@dataclass(frozen=True)
class BuiltinCall:
    """A function of `kspec.ir.builtins` on values that have the types it takes.

    Attributes
    ----------
    function : str
        Its name in the table, or in that of `kspec.ir.device`.
    args : tuple of Expression
        Its arguments.
    type : Type
        dtype of its result.
    """

    function: str
    args: tuple[Expression, ...]
    type: Type

    def __str__(self) -> str:
        return f"{self.function}({', '.join(map(str, self.args))})"


Expression = (
    Const | Name | Cast | BuiltinCall | Element | Subarray | Extent | FieldAccess | FunctionCall
)


@dataclass(frozen=True)
class Let:
    """A variable that never changes.

    Attributes
    ----------
    name : str
        An identifier of C++.
    value : Expression
        What it is; its type is that of the variable.
    """

    name: str
    value: Expression

    def __str__(self) -> str:
        return f"{self.name}: {self.value.type} = {self.value}"


@dataclass(frozen=True)
class Assign:
    """A value stored where the caller sees it: in an output.

    Attributes
    ----------
    target : Name
        What is assigned.
    value : Expression
        Of the target's type.
    """

    target: Name
    value: Expression

    def __str__(self) -> str:
        return f"{self.target} = {self.value}"


Statement = Let | Assign
