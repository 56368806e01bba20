"""Expressions and the statements around them, each with its type.

>>> x = Name("x", "float32")
>>> print(Let("t0", BuiltinCall("multiply", (x, x), "float32")))
t0: float32 = multiply(x, x)
>>> from kspec.ir.types import ArrayType
>>> y = Name("y", ArrayType("float32", 2))
>>> print(Element(y, (Name("i", "int32"), Const(0, "int32")), "float32"), Extent(y, "shape", 1))
y[i, 0] y.shape[1]

Types are names of `kspec.model.dtypes`, or `kspec.ir.types`.  Nodes are frozen and compare by
value, so equal expressions are equal nodes.  Nothing converts by itself: a `Cast` says so.
`kspec.ir.check` says what is wrong with a node, `kspec.ir.emit` writes it as CUDA C++.

Branches, loops and functions, which only whole kernels have, are in `kspec.ir.control`.
"""

from __future__ import annotations

from kspec.dataclass import dataclass
from kspec.ir.types import ArrayType, BufferType, Type


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


@dataclass(frozen=True)
class Slice:
    """The elements ``start:stop:step`` of an axis, as Python counts them.

    Attributes
    ----------
    start, stop : Expression or None
        As the program has them.
    step : Expression or None
        None: 1.
    """

    start: Expression | None
    stop: Expression | None
    step: Expression | None

    def __str__(self) -> str:
        words = ["" if one is None else str(one) for one in (self.start, self.stop)]
        return ":".join([*words, *([] if self.step is None else [str(self.step)])])


@dataclass(frozen=True)
class Element:
    """One element, which can be read and assigned.

    Attributes
    ----------
    memory : Expression
        An array or a buffer; or a view of a record, which has no axes.
    indices : tuple of Expression
        One integer for each axis.
    type : str
        dtype of the element.
    """

    memory: Expression
    indices: tuple[Expression, ...]
    type: str

    def __str__(self) -> str:
        return f"{self.memory}[{', '.join(map(str, self.indices)) or '()'}]"


@dataclass(frozen=True)
class Subarray:
    """A part of an array, which shares its memory.

    Attributes
    ----------
    memory : Expression
        An array or a buffer.
    indices : tuple of Expression or Slice
        For the first axes.
    type : ArrayType or BufferType
        Of the part.
    """

    memory: Expression
    indices: tuple[Expression | Slice, ...]
    type: ArrayType | BufferType

    def __str__(self) -> str:
        return f"{self.memory}[{', '.join(map(str, self.indices))}]"


@dataclass(frozen=True)
class Extent:
    """A number about an array: ``x.shape[1]``, ``x.strides[0]``, ``x.size``.

    Attributes
    ----------
    array : Expression
        The array.
    what : {"shape", "strides", "size"}
        Which number.
    axis : int
        Of which axis; -1 for the size.
    """

    array: Expression
    what: str
    axis: int = -1

    type = "int64"

    def __str__(self) -> str:
        return f"{self.array}.{self.what}" + (f"[{self.axis}]" if self.axis >= 0 else "")


@dataclass(frozen=True)
class FieldAccess:
    """A field of a record.

    Attributes
    ----------
    record : Expression
        The record.
    name : str
        Of the member in C++.
    type : Type
        dtype of the field, or a buffer.
    """

    record: Expression
    name: str
    type: Type

    def __str__(self) -> str:
        return f"{self.record}.{self.name}"


@dataclass(frozen=True)
class FunctionCall:
    """A call of a function of the program, or of a method.

    Attributes
    ----------
    function : str
        Its name in C++.
    args : tuple of Expression
        Its arguments.
    type : Type or None
        Type of its result.
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
