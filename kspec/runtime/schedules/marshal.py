"""Arguments in, parameter bytes out, packed by *declared* type.

Each function packs one structure of ``kspec/include/kspec/*.cuh``, field for field; a test holds
the sizes against what the compiler says.  `PackedParameters` is what a launch takes.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import math
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kspec.errors import ArgumentTypeError
from kspec.model import dtypes
from kspec.model.dtypes import DType
from kspec.model.shapes import Shape, size_of
from kspec.runtime.memory import ArrayView, numpy_dtype
from kspec.runtime.schedules import Axes, Strides

_ALIGNMENT = 16  # that of the most aligned parameter, complex128
_NARROW_LIMIT = 2**31


class PackedParameters:
    """The parameters of one launch in memory, and the array of their addresses.

    Attributes
    ----------
    address : int
        Address of a ``void*[]``, as `cuLaunchKernel` takes it.
    sizes : tuple of int
        Size of each parameter in bytes.
    memory : ctypes array
        What holds everything.
    offsets : tuple of int
        Where each parameter is in it: neighbours are their sizes apart, rounded up to 16 bytes.
    """

    def __init__(self, parameters: Sequence[bytes]) -> None:
        self.sizes = tuple(map(len, parameters))
        rooms = [up(size, _ALIGNMENT) for size in self.sizes]
        table = up(8 * len(rooms), _ALIGNMENT)
        starts = tuple(itertools.accumulate(rooms, initial=table))
        # ctypes aligns buffers to 8 bytes: shift the start up to the next multiple of 16.
        self.memory = ctypes.create_string_buffer(starts[-1] + _ALIGNMENT)
        base = ctypes.addressof(self.memory)
        shift = -base % _ALIGNMENT
        self.address = base + shift
        self.offsets = tuple(shift + start for start in starts[:-1])
        addresses = [base + offset for offset in self.offsets]
        struct.pack_into(f"{len(addresses)}P", self.memory, shift, *addresses)
        for address, parameter in zip(addresses, parameters, strict=True):
            ctypes.memmove(address, parameter, len(parameter))


# Offset of a value in a buffer, its number, and what writes it there.
Field = tuple[int, int, Callable[..., None]]


def packer(formats: Sequence[str], parameters: Sequence[bytes]) -> Callable[..., None]:
    """Return a function that writes a value into each parameter: ``pack(memory, begin, *values)``.

    Parameters
    ----------
    formats : sequence of str
        What changes at the beginning of each parameter, for `struct`; empty: all its bytes.
    parameters : sequence of bytes
        The parameters.
    """
    full = [form or f"{len(data)}s" for form, data in zip(formats, parameters, strict=True)]
    rooms = [up(len(data), _ALIGNMENT) for data in parameters]
    sizes = list(map(struct.calcsize, full))
    if sizes == list(map(len, parameters)):
        padded = zip(full, sizes, rooms, strict=True)
        return struct.Struct(
            "".join(f"{one}{room - size}x" for one, size, room in padded)
        ).pack_into
    starts = itertools.accumulate(rooms, initial=0)
    rows = enumerate(zip(starts, full, strict=False))
    return field_packer([(start, k, struct.Struct(one).pack_into) for k, (start, one) in rows])


def field_packer(fields: Sequence[Field]) -> Callable[..., None]:
    """Return a function that writes values one by one, and leaves what is between them."""

    def pack(memory: Any, begin: int, *values: Any) -> None:
        for start, number, write in fields:
            write(memory, begin + start, values[number])

    return pack


def is_number(value: object) -> bool:
    """Return whether a value can be converted to a parameter: a Python or NumPy number."""
    if isinstance(value, bool | int | float | complex):
        return True
    # By kind: a timedelta64 is an np.number and none here, the scalars of ml_dtypes are none.
    return isinstance(value, np.generic) and (
        value.dtype.kind in "biufc" or dtypes.is_known(value.dtype.name)
    )


def is_scalar(value: object) -> bool:
    """Return whether a value can be converted to a parameter: a number, or a NumPy struct."""
    return is_number(value) or isinstance(value, np.void)


def convert_scalar(value: object, dtype: str, where: str = "") -> bytes:
    """Return a Python or NumPy scalar as bytes of a dtype, by NumPy's assignment rules.

    A number given to a struct sets each of its fields; a struct gives its fields in their order.
    Raw bytes are copied from anything, truncated or filled up with zeros.  Messages begin with
    `where`: which argument of which kernel it is.

    Raises
    ------
    OverflowError
        If an integer does not fit (or, as in CuPy, has more than 64 bits).
    ValueError
        For NaN given to an integer.
    ArgumentTypeError
        For a complex number given to a real parameter, or a value that is not a number.
    """
    try:
        return _converted(value, dtype)
    except (ArgumentTypeError, OverflowError, ValueError) as error:
        if not where:
            raise
        raise type(error)(f"{where}: {error}") from None


def _converted(value: object, dtype: str) -> bytes:
    row = dtypes.lookup(dtype)
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        raise OverflowError(f"Python int {value} is too large for a kernel parameter")
    if row.kind == "V" and not row.fields:
        return np.asarray(value).tobytes()[: row.itemsize].ljust(row.itemsize, b"\0")
    if isinstance(value, np.void) and not (row.fields and value.dtype.names):
        kind = "struct" if value.dtype.names else "raw bytes"
        raise ArgumentTypeError(f"cannot pass {kind} {value!r} as {dtype}")
    slot: np.ndarray[Any, Any] = np.zeros((), numpy_dtype(dtype))
    checked = _checkable(value, row)
    try:
        slot[()] = checked
    except TypeError as error:
        raise ArgumentTypeError(f"cannot pass {value!r} as {dtype}: {error}") from None
    return slot.tobytes()


# Formats of `struct` for dtypes, and the largest Python int and float that it packs as NumPy does:
# beyond, and for other values, NumPy warns or raises.
_FLOATS = {
    "float16": ("e", 65504, 65504.0),
    "float32": ("f", 2**53, 3.4028234663852886e38),
    "float64": ("d", 2**53, math.inf),
}
_INTEGERS = dict(zip(("int8", "int16", "int32", "int64"), "bhiq", strict=True))
_UNSIGNED = dict(zip(("uint8", "uint16", "uint32", "uint64"), "BHIQ", strict=True))


def converter(kind: type, dtype: str, where: str = "") -> Callable[[Any], bytes]:
    """Return `convert_scalar` for values of one class.

    It is faster where the class is Python's own, or has that dtype.
    """
    general = functools.partial(convert_scalar, dtype=dtype, where=where)
    if issubclass(kind, np.number | np.bool_) and np.dtype(kind).name == dtype:
        copied: Callable[[Any], bytes] = kind.tobytes
        return copied
    low: float
    high: float
    if kind in (bool, int, float) and dtype in _FLOATS:
        code, *limits = _FLOATS[dtype]
        high = limits[kind is float]
        low = -high
    elif kind in (bool, int) and dtype in _INTEGERS:
        code, high = _INTEGERS[dtype], 2 ** (8 * dtypes.lookup(dtype).itemsize - 1) - 1
        low = -high - 1
    elif kind in (bool, int) and dtype in _UNSIGNED:
        code, low, high = _UNSIGNED[dtype], 0, 2 ** (8 * dtypes.lookup(dtype).itemsize) - 1
    else:
        return general
    pack = struct.Struct(code).pack

    def convert(value: Any) -> bytes:
        return pack(value) if low <= value <= high else general(value)

    return convert


def _checkable(value: object, row: DType) -> object:
    """Return a scalar as one that NumPy checks when it assigns it."""
    if isinstance(value, np.integer | np.bool_):
        value = value.item()  # NumPy integers wrap silently, Python's are checked
    elif (
        isinstance(value, np.generic)
        and not isinstance(value, np.void)
        and (row.kind in "iu" or (row.fields and not isinstance(value, np.complexfloating)))
    ):
        value = float(value)  # so do NumPy's floats in unsigned integers, NaN becomes a number
    if row.package:
        if isinstance(value, np.complexfloating):
            value = float(value)  # warns that the imaginary part is lost, which ml_dtypes does not
        elif isinstance(value, int):
            value = float(value)  # ml_dtypes takes no integers beyond 63 bits
    return value


def pack_handle(handle: int) -> bytes:
    """Pack ``In<cudaTextureObject_t>``: no array, but the handle as its value."""
    return struct.pack("PQ", 0, handle)


def pack_input(view: ArrayView | None, scalar: bytes, dtype: str) -> bytes:
    """Pack ``In<T>``: the address of an array, or null and the scalar's bytes."""
    row = dtypes.lookup(dtype)
    value = scalar or bytes(row.itemsize)
    return _padded(
        struct.pack("P", view.ptr if view else 0).ljust(value_offset(row), b"\0") + value,
        max(8, row.alignment),
    )


def value_offset(row: DType) -> int:
    """Return the offset of the value of a scalar in ``In<T>``."""
    return up(8, row.alignment)


def pack_pointer(view: ArrayView) -> bytes:
    """Pack ``Out<T>`` or ``InOut<T>``."""
    return struct.pack("P", view.ptr)


def pack_raw(view: ArrayView) -> bytes:
    """Pack the ``Array<T, NDIM>`` of a raw argument."""
    return pack_array(view.ptr, view.shape, view.strides, view.is_c_contiguous)


def pack_sampled(view: ArrayView, boundary: int, value: bytes) -> bytes:
    """Pack the ``Sampled<T, NDIM, ORDER>`` of a raw argument that is read between its elements."""
    data = _padded(pack_raw(view), _ALIGNMENT) + value
    data = data.ljust(up(len(data), 4), b"\0") + struct.pack("i", boundary)
    return _padded(data, _ALIGNMENT)


def pack_array(ptr: int, shape: Shape, strides: Strides, contiguous: bool) -> bytes:
    """Pack ``Array<T, NDIM>``."""
    room, size = max(1, len(shape)), size_of(shape)
    return struct.pack(
        f"Pq{room}q{room}qi4x", ptr, size, *(shape or (0,)), *(strides or (0,)), contiguous
    )


def pack_axes(axes: Axes, capacity: int) -> bytes:
    """Pack ``Axes<AXES, OPERANDS>``."""
    unused = capacity - len(axes.extents)
    divisors = [number for extent in axes.extents for number in divisor(extent)]
    parts = [
        struct.pack("ii", len(axes.extents), axes.size < _NARROW_LIMIT),
        struct.pack(f"{capacity}q", *axes.extents, *[1] * unused),
        struct.pack(f"{2 * capacity}I", *divisors, *[0] * 2 * unused),
    ]
    parts += [struct.pack(f"{capacity}q", *steps, *[0] * unused) for steps in axes.strides]
    return b"".join(parts)


def divisor(extent: int) -> tuple[int, int]:
    """Return magic and shift of ``kspec::Divisor``.

    Wide loops divide in 64 bits and empty ones not at all: theirs may be anything.
    """
    if not 1 <= extent < _NARROW_LIMIT:
        return 0, 0
    shift = (extent - 1).bit_length()
    return ((1 << 32) * ((1 << shift) - extent)) // extent + 1, shift


def up(size: int, alignment: int) -> int:
    """Return a size rounded up to a multiple."""
    return -(-size // alignment) * alignment


def _padded(data: bytes, alignment: int) -> bytes:
    return data.ljust(up(len(data), alignment), b"\0")
