"""The table of element types: NumPy name, C++ spelling, size, alignment, kind.

>>> lookup("float32").ctype
'float'
>>> canonical_name("f4"), canonical_name("int")
('float32', 'int64')

Names are NumPy's, also where C disagrees (``int`` is 64 bits wide, as `numpy.dtype` has it).
`kspec.signature` spells parameters with these rows, `kspec.runtime.marshal` packs by them.
"""

from __future__ import annotations

from dataclasses import dataclass

from kspec.errors import UnknownTypeError


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
        ``b`` bool, ``i`` signed, ``u`` unsigned, ``f`` floating, ``c`` complex.
    accumulator : str
        C++ type that reductions accumulate in unless the spec names one.
    header : str
        Header of ours that defines `ctype`, or the empty string.
    """

    name: str
    ctype: str
    itemsize: int
    alignment: int
    kind: str
    accumulator: str
    header: str = ""


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
    DType("bfloat16", "bfloat16", 2, 2, "f", "float", "kspec/half.cuh"),
    DType("float32", "float", 4, 4, "f", "float"),
    DType("float64", "double", 8, 8, "f", "double"),
    DType("complex64", "complex<float>", 8, 8, "c", "complex<float>", "kspec/complex.cuh"),
    DType("complex128", "complex<double>", 16, 16, "c", "complex<double>", "kspec/complex.cuh"),
)

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
    "cuFloatComplex": "complex64",
    "cuDoubleComplex": "complex128",
}


def is_known(name: str) -> bool:
    """Return whether `name` is a canonical dtype name of the table."""
    return name in _BY_NAME


def lookup(name: str) -> DType:
    """Return the row of a canonical name; raise `UnknownTypeError` for any other."""
    try:
        return _BY_NAME[name]
    except KeyError:
        raise UnknownTypeError(f"unsupported dtype {name!r}; kernels know {names()}") from None


def canonical_name(spelling: str) -> str:
    """Return the canonical name of anything `numpy.dtype` accepts, native byte order only.

    Raises
    ------
    UnknownTypeError
        For a spelling that is not a dtype, or a dtype that kernels do not support.
    """
    bare = spelling[1:] if spelling[:1] in "<=|" else spelling
    name = _ALIASES.get(bare, bare)
    if name not in _BY_NAME:
        raise UnknownTypeError(f"unknown type {spelling!r}; expected one of {names()}")
    return name


def from_ctype(ctype: str) -> DType | None:
    """Return the row a C++ type spelling stands for, or None (``void``, a struct, ...)."""
    words = " ".join(ctype.split())
    row = _BY_CTYPE.get(words.replace(" <", "<").replace("< ", "<").replace(" >", ">"))
    return row or _BY_NAME.get(_C_ALIASES.get(words, ""))


def names() -> str:
    """Return all canonical names in one line, for messages."""
    return ", ".join(_BY_NAME)
