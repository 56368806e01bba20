"""Expressions about memory: elements, parts and extents of arrays, fields of records.

>>> from kspec.ir.nodes import Const, Name
>>> from kspec.ir.types import ArrayType
>>> x = Name("x", ArrayType("float32", 2))
>>> print(Element(x, (Name("i", "int32"), Const(0, "int32")), "float32"), Extent(x, "shape", 1))
x[i, 0] x.shape[1]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kspec.ir.nodes import Expression
    from kspec.ir.types import ArrayType, BufferType, Type


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
        An array or a buffer.
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
