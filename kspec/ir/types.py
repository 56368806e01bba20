"""The types of values other than numbers: arrays, memory of a block or a thread, groups.

>>> print(ArrayType("float32", 2, contiguous=True), BufferType("int32", (16, 16)))
float32[2d, C] int32[16, 16]
>>> ctype(ArrayType("float32", 2, contiguous=True)), ctype("uint32")
('kspec::View<float, 2, true, int>', 'unsigned int')

Numbers and records have names of `kspec.model.dtypes` for types.
"""

from __future__ import annotations

from kspec.dataclass import dataclass
from kspec.model import dtypes


@dataclass(frozen=True)
class ArrayType:
    """An array of the caller's, or a part of one: ``kspec::View`` of ``kspec/view.cuh``.

    Attributes
    ----------
    dtype : str
        Of its elements.
    ndim : int
        Number of axes.
    contiguous : bool
        Whether elements follow each other in C order.
    wide : bool
        Whether offsets need 64 bits.
    """

    dtype: str
    ndim: int
    contiguous: bool = False
    wide: bool = False

    def __str__(self) -> str:
        return f"{self.dtype}[{self.ndim}d{', C' * self.contiguous}{', wide' * self.wide}]"


@dataclass(frozen=True)
class BufferType:
    """Elements in a row somewhere: shared memory, a local array, a field that is an array.

    Attributes
    ----------
    dtype : str
        Of the elements.
    shape : tuple of int or None
        Extents, in C order; None where the launch decides how many there are.
    """

    dtype: str
    shape: tuple[int, ...] | None = None

    def __str__(self) -> str:
        extents = ", ".join(map(str, self.shape)) if self.shape is not None else "?"
        return f"{self.dtype}[{extents}]"


@dataclass(frozen=True)
class RecordView:
    """A record in memory, as a variable or a parameter has it: its address.

    Attributes
    ----------
    dtype : str
        Of the record.
    """

    dtype: str

    def __str__(self) -> str:
        return f"view of {self.dtype}"


@dataclass(frozen=True)
class IteratorType:
    """A place in an array of one axis, or in a row of numbers: a class of ``kspec/sequential.cuh``.

    Attributes
    ----------
    dtype : str
        Of the elements.
    kind : {"Iterator", "Counting", "Constant"}
        Its class; only the first is of memory.
    """

    dtype: str
    kind: str = "Iterator"

    def __str__(self) -> str:
        return f"{self.kind.lower()}{'' if self.is_memory else ' iterator'} of {self.dtype}"

    @property
    def is_memory(self) -> bool:
        """Whether its elements can be written to."""
        return self.kind == "Iterator"


@dataclass(frozen=True)
class ObjectType:
    """An object of a C++ class that kernels call methods of.

    Attributes
    ----------
    name : str
        As C++ has it.
    """

    name: str

    def __str__(self) -> str:
        return self.name


Type = str | ArrayType | BufferType | RecordView | IteratorType | ObjectType


def ctype(type_: Type) -> str:
    """Return the C++ type of a variable."""
    if isinstance(type_, str):
        return dtypes.lookup(type_).ctype
    if isinstance(type_, ArrayType):
        element = dtypes.lookup(type_.dtype).ctype
        flat = "true" if type_.contiguous else "false"
        index = "ptrdiff_t" if type_.wide else "int"
        return f"kspec::View<{element}, {type_.ndim}, {flat}, {index}>"
    if isinstance(type_, BufferType | RecordView):
        return f"{dtypes.lookup(type_.dtype).ctype}*"
    if isinstance(type_, IteratorType):
        return f"kspec::{type_.kind}<{dtypes.lookup(type_.dtype).ctype}>"
    return type_.name


def is_record(type_: Type | None) -> bool:
    """Return whether a type is that of structs or raw bytes."""
    return isinstance(type_, str) and type_.startswith(("{", "V"))


def is_memory(type_: Type) -> bool:
    """Return whether a type has elements."""
    return isinstance(type_, ArrayType | BufferType)
