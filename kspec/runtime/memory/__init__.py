"""Memory on devices: an array of any library as its address, shape, strides, dtype and device.

The modules have kspec's own arrays (`device_array`) and their pool.
`kspec.runtime.libraries.lookup` makes views; `layout`, `dispatch` and `marshal` read them.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from kspec.errors import ToolNotFoundError, UnknownTypeError, UnsupportedDTypeError
from kspec.model import dtypes
from kspec.model.dtypes import DType
from kspec.runtime.driver.device import Device

if TYPE_CHECKING:
    import numpy.typing as npt

    from kspec.model.structs import StructText

# CuPy's key of a dtype's metadata, for structs more aligned than their fields need.
_ALIGNMENT_KEY = "__cuda_alignment__"


@dataclass(frozen=True, slots=True)
class ArrayView:
    """Somebody's array.

    Attributes
    ----------
    ptr : int
        Address of the first element.
    shape : tuple of int
        Extents.
    strides : tuple of int
        In bytes, one for each axis; any sign.
    dtype : str
        Canonical dtype name.
    device : Device
        Where it lives.
    readonly : bool
        Whether writing is forbidden.
    owner : object
        What lends the memory while the view lives, where the array itself does not.
    """

    ptr: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    device: Device
    readonly: bool = False
    owner: object = None

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return dtypes.lookup(self.dtype).itemsize

    @property
    def bounds(self) -> tuple[int, int]:
        """Addresses of the first byte of the elements, and behind the last."""
        itemsize = dtypes.lookup(self.dtype).itemsize
        return memory_bounds(self.ptr, self.shape, self.strides, itemsize)

    @property
    def is_c_contiguous(self) -> bool:
        """Whether elements follow each other in C order."""
        return is_c_contiguous(self.shape, self.strides, self.itemsize)


def memory_bounds(
    ptr: int, shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int
) -> tuple[int, int]:
    """Return the addresses of the first byte of an array's elements, and behind the last."""
    if 0 in shape:
        return ptr, ptr
    spans = [(extent - 1) * stride for extent, stride in zip(shape, strides, strict=True)]
    low = sum(min(0, span) for span in spans)
    high = sum(max(0, span) for span in spans)
    return ptr + low, ptr + high + itemsize


def is_c_contiguous(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> bool:
    """Return whether elements of this layout follow each other in C order."""
    if 0 in shape:
        return True
    expected = itemsize
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if extent != 1 and stride != expected:
            return False
        expected *= extent
    return True


def c_strides(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Return the byte strides of a new C-ordered array."""
    strides = []
    step = itemsize
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return tuple(reversed(strides))


@functools.cache
def numpy_dtype(name: str) -> np.dtype[Any]:
    """Return the NumPy dtype of a canonical name; small floats come from ml_dtypes."""
    row = dtypes.lookup(name)
    if row.fields:
        return _numpy_struct(row)
    if not row.package:
        return np.dtype(name)
    try:
        import ml_dtypes

        small: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
        return small
    except (ImportError, AttributeError) as error:
        raise ToolNotFoundError(f"{name} needs ml_dtypes: pip install -U ml_dtypes") from error


def _numpy_struct(row: DType) -> np.dtype[Any]:
    formats = [(numpy_dtype(field.dtype.name), field.shape) for field in row.fields]
    layout: Any = {
        "names": [field.name for field in row.fields],
        "formats": formats,
        "offsets": [field.offset for field in row.fields],
        "itemsize": row.itemsize,
    }
    raised = row.alignment > max(field.dtype.alignment for field in row.fields)
    metadata: Any = {"metadata": {_ALIGNMENT_KEY: row.alignment}} if raised else {}
    struct: np.dtype[Any] = np.dtype(layout, align=True, **metadata)
    return struct


def dtype_name(dtype: np.dtype[Any]) -> str:
    """Return the canonical name of a NumPy dtype.

    Raises
    ------
    UnsupportedDTypeError
        If kernels do not support it: strings, objects, big-endian numbers, structs whose fields
        are not aligned as a device needs them.
    """
    # NumPy takes dtypes that differ in their metadata for equal, so a cache would mix them up.
    return _name(dtype) if dtype.names is None else _struct_name(dtype, ())


# By the kind of a dtype that no kernel knows: the way to one that they know.
_ADVICE = {
    "O": 'its elements are Python objects; pass x.astype("float64"), or another dtype',
    "M": 'pass x.view("int64"), its ticks',
    "m": 'pass x.view("int64"), its ticks',
}


@functools.cache
def _name(dtype: np.dtype[Any]) -> str:
    if not dtype.isnative:
        raise UnsupportedDTypeError(
            f"Unsupported dtype {dtype.str!r}: it is not in native byte order; pass "
            'x.astype(x.dtype.newbyteorder("="))'
        )
    if dtype.type is np.void and dtype.itemsize:
        return f"V{dtype.itemsize}"
    if not dtypes.is_known(dtype.name):
        advice = _ADVICE.get(dtype.kind, f"kernels know {dtypes.names()}")
        raise UnsupportedDTypeError(f"Unsupported dtype {dtype.name!r}; {advice}")
    return dtype.name


@functools.lru_cache(maxsize=1024)
def _checked_struct(text: StructText, path: tuple[str, ...]) -> str:
    try:
        return dtypes.struct_dtype(text).name
    except UnknownTypeError as error:
        where = f" (in field {'.'.join(path)})" if path else ""
        raise UnsupportedDTypeError(
            f"Unsupported dtype: {error.message}{where}; use an aligned dtype: "
            "np.dtype(..., align=True), or kspec.make_aligned_dtype(...), which knows that "
            "complex numbers need more than NumPy gives"
        ) from None


def _struct_name(dtype: np.dtype[Any], path: tuple[str, ...]) -> str:
    """Return the text of a struct; `path` leads to it from the outermost one."""
    from kspec.model.structs import FieldText, StructText

    fields = []
    for name, (field, offset, *_) in _fields(dtype):
        base, shape = field.subdtype or (field, ())
        if base.names is not None:
            type_ = _struct_name(base, (*path, name))
        else:
            try:
                type_ = _name(base)
            except UnsupportedDTypeError as error:
                where = ".".join((*path, name))
                raise UnsupportedDTypeError(f"field {where!r}: {error}") from None
        fields.append(FieldText(name, type_, shape, offset))
    if not fields:
        raise UnsupportedDTypeError("Unsupported dtype: a struct without fields")
    return _checked_struct(StructText(tuple(fields), dtype.itemsize, _raised(dtype)), path)


def _fields(dtype: np.dtype[Any]) -> list[tuple[str, Any]]:
    members: Any = dtype.fields
    return [(name, members[name]) for name in dtype.names or ()]


def _raised(dtype: np.dtype[Any]) -> int | None:
    """Return the alignment that a struct asks for, if it does."""
    metadata: Any = dtype.metadata or {}
    alignment: int | None = metadata.get(_ALIGNMENT_KEY)
    return alignment


def make_aligned_dtype(
    dtype: npt.DTypeLike, *, alignment: int = -1, recurse: bool = True
) -> np.dtype[Any]:
    """Return a dtype whose fields are where kernels need them.

    Parameters
    ----------
    dtype : dtype
        Usually structured; the order of its fields is kept, their offsets are not.
    alignment : int, default -1
        Alignment of the result in bytes, at most 16; -1: the largest of the fields'. A larger
        one is kept in the dtype's metadata, which NumPy loses in some operations.
    recurse : bool, default True
        Whether nested structs are laid out anew; otherwise they must be aligned already.

    Raises
    ------
    UnsupportedDTypeError
        If a field's type is one that kernels do not know.
    ValueError
        If `alignment` is less than the fields need, or impossible.
    """
    from kspec.model.structs import parse_struct

    given = np.dtype(dtype)
    name = _aligned_name(given, recurse) if given.names is not None else dtype_name(given)
    row = dtypes.lookup(name)
    if alignment in (-1, row.alignment):
        return numpy_dtype(name)
    if not row.fields:
        raise ValueError(f"{name} has alignment {row.alignment}; only structs can have another")
    text = replace(parse_struct(name), size=None, alignment=alignment)
    return numpy_dtype(dtypes.struct_dtype(text).name)


def _aligned_name(dtype: np.dtype[Any], recurse: bool) -> str:
    from kspec.model.structs import FieldText, StructText

    fields = []
    for name, (field, *_) in _fields(dtype):
        base, shape = field.subdtype or (field, ())
        again = recurse and base.names is not None
        # A nested struct that asked for more alignment keeps it.
        fields.append(
            FieldText(name, _aligned_name(base, recurse) if again else dtype_name(base), shape)
        )
    return dtypes.struct_dtype(StructText(tuple(fields), None, _raised(dtype))).name
