"""The table of element types: NumPy name, C++ spelling, size, alignment, kind.

>>> lookup("float32").ctype
'float'
>>> canonical_name("f4"), canonical_name("int"), canonical_name("{x: f4, n: int[2]}")
('float32', 'int64', '{x: float32, n: int64[2]}')

Names are NumPy's, also where C disagrees (``int`` is 64 bits wide, as `numpy.dtype` has it). A
structured dtype is named by its text (`kspec.model.structs`), so that every dtype is a string.
`kspec.model.signature` spells parameters with these rows, `kspec.runtime.schedules.marshal` packs
by them.
"""

from __future__ import annotations

import functools
import math
import re
from typing import TYPE_CHECKING

from kspec.dataclass import dataclass
from kspec.errors import UnknownTypeError

if TYPE_CHECKING:
    from kspec.model import structs


@dataclass(frozen=True)
class DType:
    """One element type.

    Attributes
    ----------
    name : str
        NumPy's (or ml_dtypes') name.
    ctype : str
        C++ spelling in generated code.
    itemsize, alignment : int
        In bytes, on the device; NumPy aligns complex numbers less strictly.
    kind : str
        ``b`` bool, ``i`` signed, ``u`` unsigned, ``f`` floating, ``c`` complex, ``V`` structs and
        raw bytes, ``t`` texture.
    accumulator : str
        C++ type that reductions accumulate in unless the spec names one.
    header : str
        Header of ours that defines `ctype`, or the empty string.
    package : str
        Package that NumPy needs for the dtype, or the empty string.
    fields : tuple of Field
        Of a struct; empty for everything else.
    """

    name: str
    ctype: str
    itemsize: int
    alignment: int
    kind: str
    accumulator: str
    header: str = ""
    package: str = ""
    fields: tuple[Field, ...] = ()

    @property
    def pack_width(self) -> int:
        """Bytes of an element in a pack (`stages.pack_size`); structs fill one alone."""
        return 16 if self.fields else self.itemsize


@dataclass(frozen=True)
class Field:
    """One member of a struct.

    Attributes
    ----------
    name : str
        As NumPy has it.
    member : str
        As C++ has it; ``field_2`` where NumPy's name is not a C++ identifier.
    dtype : DType
        Of one element.
    shape : tuple of int
        Extents of an array member; empty for a single value.
    offset : int
        In bytes.
    """

    name: str
    member: str
    dtype: DType
    shape: tuple[int, ...]
    offset: int

    @property
    def itemsize(self) -> int:
        """Bytes of all its elements."""
        return self.dtype.itemsize * math.prod(self.shape)


TABLE: tuple[DType, ...] = (
    DType("bool", "bool", 1, 1, "b", "bool"),
    DType("int8", "signed char", 1, 1, "i", "signed char"),
    DType("int16", "short", 2, 2, "i", "short"),
    DType("int32", "int", 4, 4, "i", "int"),
    DType("int64", "long long", 8, 8, "i", "long long"),
    DType("uint8", "unsigned char", 1, 1, "u", "unsigned char"),
    DType("uint16", "unsigned short", 2, 2, "u", "unsigned short"),
    DType("uint32", "unsigned int", 4, 4, "u", "unsigned int"),
    DType("uint64", "unsigned long long", 8, 8, "u", "unsigned long long"),
    # Half the bits hold half the sum: 16-bit floats accumulate in 32.
    DType("float16", "float16", 2, 2, "f", "float", "kspec/half.cuh"),
    DType("bfloat16", "bfloat16", 2, 2, "f", "float", "kspec/half.cuh", "ml_dtypes"),
    *(
        DType(name, name, 1, 1, "f", "float", "kspec/float8.cuh", "ml_dtypes")
        for name in (
            "float8_e4m3fn",
            "float8_e5m2",
            "float8_e4m3fnuz",
            "float8_e5m2fnuz",
            "float8_e4m3b11fnuz",
        )
    ),
    DType("float32", "float", 4, 4, "f", "float"),
    DType("float64", "double", 8, 8, "f", "double"),
    DType("complex64", "complex<float>", 8, 8, "c", "complex<float>", "kspec/complex.cuh"),
    DType("complex128", "complex<double>", 16, 16, "c", "complex<double>", "kspec/complex.cuh"),
)

# What a placeholder stands for when a texture object is passed: a type, but no dtype.
TEXTURE = DType("cudaTextureObject_t", "cudaTextureObject_t", 8, 8, "t", "")

_BY_NAME = {row.name: row for row in TABLE}
_BY_CTYPE = {row.ctype: row for row in TABLE}

# Spellings numpy.dtype() accepts beside the canonical ones (checked against it by a test).
_ALIASES = {
    "bool_": "bool",
    "byte": "int8",
    "ubyte": "uint8",
    "short": "int16",
    "ushort": "uint16",
    "intc": "int32",
    "uintc": "uint32",
    "int": "int64",
    "long": "int64",
    "longlong": "int64",
    "intp": "int64",
    "int_": "int64",
    "uint": "uint64",
    "ulong": "uint64",
    "ulonglong": "uint64",
    "uintp": "uint64",
    "half": "float16",
    "single": "float32",
    "double": "float64",
    "float": "float64",
    "csingle": "complex64",
    "cdouble": "complex128",
    "complex": "complex128",
    "b1": "bool",
    "i1": "int8",
    "i2": "int16",
    "i4": "int32",
    "i8": "int64",
    "u1": "uint8",
    "u2": "uint16",
    "u4": "uint32",
    "u8": "uint64",
    "f2": "float16",
    "f4": "float32",
    "f8": "float64",
    "c8": "complex64",
    "c16": "complex128",
}

# C and CUDA spellings of the same types, for the declared parameters of raw kernels.
_C_ALIASES = {
    "char": "int8",
    "int8_t": "int8",
    "uint8_t": "uint8",
    "int16_t": "int16",
    "uint16_t": "uint16",
    "int32_t": "int32",
    "uint32_t": "uint32",
    "int64_t": "int64",
    "uint64_t": "uint64",
    "unsigned": "uint32",
    "long": "int64",
    "unsigned long": "uint64",
    "size_t": "uint64",
    "ptrdiff_t": "int64",
    "half": "float16",
    "__half": "float16",
    "__nv_bfloat16": "bfloat16",
    "nv_bfloat16": "bfloat16",
    "__nv_fp8_e4m3": "float8_e4m3fn",
    "__nv_fp8_e5m2": "float8_e5m2",
    "cuFloatComplex": "complex64",
    "cuDoubleComplex": "complex128",
}


# NumPy's spellings of types that no kernel has.
_UNSUPPORTED = re.compile(
    r"c?longdouble|g|G|longfloat|(float|complex)(96|128|192|256)|[fc](12|16|24|32)"
    r"|(str|bytes|object|void|datetime64|timedelta64|unicode|string)_?(\[.*\])?"
    r"|[OSUaMmT]\d*(\[.*\])?|V0?"
)
_VOID = re.compile(r"V([1-9]\d*)")


def is_known(name: str) -> bool:
    """Return whether `name` is a canonical dtype name of the table."""
    return name in _BY_NAME


def lookup(name: str) -> DType:
    """Return the row of a canonical name; raise `UnknownTypeError` for any other."""
    row = _BY_NAME.get(name) or _made(name)
    if row is None or row.name != name:
        raise UnknownTypeError(f"unsupported dtype {name!r}; kernels know {names()}")
    return row


def canonical_name(spelling: str) -> str:
    """Return the canonical name of anything `numpy.dtype` accepts, native byte order only.

    A struct is spelled as `kspec.model.structs` has it: ``{x: f4, y: i4}``.

    Raises
    ------
    UnknownTypeError
        For a spelling that is not a dtype, or a dtype that kernels do not support.
    """
    bare = spelling[1:] if spelling[:1] in ("<", "=", "|") else spelling
    name = _ALIASES.get(bare, bare)
    if name in _BY_NAME:
        return name
    row = _made(bare)
    if row is None or row is TEXTURE:
        raise UnknownTypeError(unknown_type(spelling))
    return row.name


def unknown_type(spelling: str) -> str:
    """Return a message for a spelling that `canonical_name` does not know."""
    import difflib

    bare = spelling.lstrip("<>=|")
    if spelling[:1] == ">" and (bare in _ALIASES or bare in _BY_NAME):
        return (
            f"Unsupported dtype {spelling!r}: kernels compute in the machine's byte order; "
            f"write {_ALIASES.get(bare, bare)!r}, and convert big-endian arrays first"
        )
    if _UNSUPPORTED.fullmatch(bare):
        return f"Unsupported dtype {spelling!r}; kernels know {names()}"
    near = difflib.get_close_matches(spelling, _BY_NAME, 1)
    advice = f"did you mean {near[0]!r}?" if near else f"expected one of {names()}"
    return f"unknown type {spelling!r}; {advice}"


@functools.cache
def _made(spelling: str) -> DType | None:
    """Return the row of a dtype outside the table: a struct, ``V<n>`` (n raw bytes), a texture."""
    from kspec.model import structs

    if spelling == TEXTURE.name:
        return TEXTURE
    if spelling.lstrip().startswith("{"):
        return struct_dtype(structs.parse_struct(spelling))
    match = _VOID.fullmatch(spelling)
    if match is None:
        return None
    ctype = f"kspec::Void<{match[1]}>"
    return DType(spelling, ctype, int(match[1]), 1, "V", ctype, "kspec/struct.cuh")


def struct_dtype(struct: structs.StructText) -> DType:
    """Return the row of a struct: its layout checked, its name canonical.

    Raises
    ------
    UnknownTypeError
        If a field's type is unknown, or its offset, the size or the alignment is one that no
        C++ struct has; the message names the field.
    """
    from kspec.model import structs

    rows = [_field_dtype(field) for field in struct.fields]
    canonical, layout = structs.check_layout(
        struct,
        [row.name for row in rows],
        [row.itemsize for row in rows],
        [row.alignment for row in rows],
    )
    fields = tuple(
        Field(field.name, member, row, field.shape, offset)
        for field, member, row, offset in zip(
            struct.fields, structs.member_names(struct), rows, layout.offsets, strict=True
        )
    )
    ctype = structs.type_name(canonical, struct)
    header = "kspec/struct.cuh"
    return DType(canonical, ctype, layout.size, layout.alignment, "V", ctype, header, "", fields)


def _field_dtype(field: structs.FieldText) -> DType:
    try:
        return lookup(canonical_name(field.type))
    except UnknownTypeError as error:
        raise UnknownTypeError(f"field {field.name!r}: {error.message}") from None


def real_part(name: str) -> str:
    """Return the dtype of the parts of a complex one; any other is its own.

    >>> real_part("complex64"), real_part("float16")
    ('float32', 'float16')
    """
    return {"complex64": "float32", "complex128": "float64"}.get(name, name)


def headers(row: DType) -> tuple[str, ...]:
    """Return the headers of ours that a dtype needs, those of a struct's fields first."""
    inner = [header for field in row.fields for header in headers(field.dtype)]
    return tuple(dict.fromkeys([*inner, *([row.header] if row.header else ())]))


def from_ctype(ctype: str) -> DType | None:
    """Return the row a C++ type spelling stands for, or None (``void``, a struct, ...)."""
    words = " ".join(ctype.split())
    row = _BY_CTYPE.get(words.replace(" <", "<").replace("< ", "<").replace(" >", ">"))
    return row or _BY_NAME.get(_C_ALIASES.get(words, ""))


def spellings() -> tuple[str, ...]:
    """Return every name of a dtype that is not a struct, sorted."""
    return tuple(sorted({*_BY_NAME, *_ALIASES}))


def names() -> str:
    """Return all canonical names in one line, for messages."""
    return f"{', '.join(_BY_NAME)}, structs such as {{x: float32, n: int32}}, raw bytes such as V8"
