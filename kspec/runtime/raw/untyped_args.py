"""Arguments of a raw launch: what each is, where the call runs, and its bytes by CuPy's rules.

`kspec.runtime.raw.typed_args` does the same by declared parameters.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from kspec.errors import ArgumentTypeError, NotSupportedError
from kspec.host.kernels import Region
from kspec.model import dtypes
from kspec.model.infer import check_one_device
from kspec.runtime.arguments.checks import regions_of_call
from kspec.runtime.arguments.opaque import (
    HANDLES,
    STRUCT,
    TEXTURE_ARRAY,
    device_of,
    is_address,
    is_cupys,
    kind_of,
    needs_cuda,
)
from kspec.runtime.driver.device import Device, default_device
from kspec.runtime.libraries.lookup import Library, library_of, view_of
from kspec.runtime.libraries.registry import CuPy
from kspec.runtime.libraries.stream_order import stream_of_call
from kspec.runtime.memory import ArrayView
from kspec.runtime.memory.device_array import use_on


class RawArgument:
    """An argument by position, with its elements if it is an array.

    A structured NumPy array of one element is a C struct, passed by value, unless its parameter
    takes a `pointer`.

    Parameters
    ----------
    kernel : str
        Name of the kernel.
    number : int
        Its position.
    value : object
        What was given.
    name : str, optional
        That of its parameter, if parameters have names.
    pointer : bool, default False
        Whether its parameter is a pointer, or may be one.

    Attributes
    ----------
    label, where : str
        What messages call it, without and with the kernel.

    Raises
    ------
    ArgumentTypeError
        If it is an array that kernels do not take.
    """

    def __init__(
        self, kernel: str, number: int, value: Any, name: str = "", *, pointer: bool = False
    ) -> None:
        self.number = number
        self.label = f"argument {name or number}"
        self.where = f"{kernel}: {self.label}"
        self.value = value
        structured = (
            not pointer
            and isinstance(value, np.ndarray)
            and value.dtype.names is not None
            and value.size == 1
        )
        self.library: Library | None = None if structured else library_of(value)
        self.view: ArrayView | None = None
        if self.library is not None:
            self.view = view_of(self.where, self.library, value)


def listed_arguments(name: str, args: object) -> tuple[Any, ...]:
    """Return the arguments of a call one by one; an array stands for itself alone.

    CuPy would take an array's rows for the arguments.  The first of them has the array's address,
    so kernels of one parameter, which are called like that, get the same.

    Raises
    ------
    ArgumentTypeError
        If they are not listed.
    """
    if library_of(args) is not None:
        return (args,)
    if isinstance(args, str | bytes | Mapping) or not isinstance(args, Iterable):
        raise ArgumentTypeError(
            f"{name}: args must be a tuple of the arguments, not {type(args).__name__}; one "
            "argument alone is (argument,)"
        )
    return tuple(args)


def regions_of(modes: tuple[str, ...], operands: Sequence[RawArgument]) -> tuple[Region, ...]:
    """Return the memory that a checked kernel may touch."""
    named = ((one.label, one.value, one.view, False) for one in operands)
    return regions_of_call(modes, named) + handle_regions(modes, operands)


def handle_regions(modes: tuple[str, ...], operands: Sequence[RawArgument]) -> tuple[Region, ...]:
    """Return the memory of arguments that are not arrays, but have an address: symbols."""
    if not modes:
        return ()
    return tuple(
        Region(one.value.ptr, one.value.nbytes, one.label)
        for one in operands
        if points_to_memory(one)
    )


def points_to_memory(operand: RawArgument) -> bool:
    """Return whether an argument is not an array, but knows the memory it stands for."""
    value = operand.value
    return (
        operand.view is None and is_address(value) and type(getattr(value, "nbytes", None)) is int
    )


def may_write_to_read_only(kernel: Any, operands: Sequence[RawArgument]) -> bool:
    """Return whether a kernel of the host device may write to an array that is read-only."""
    return any(
        may_write and one.view is not None and one.view.readonly
        for one, may_write in zip(operands, kernel.writes_to, strict=False)
    )


_SOME_GPU = "a CUDA device"


def place_of(name: str, operands: Sequence[RawArgument]) -> tuple[Device, Library | None]:
    """Return the device of the call, which is that of its arrays."""
    arrays = [one for one in operands if one.view is not None and one.library is not None]
    cuda = [one for one in arrays if one.view is not None and not one.view.device.is_host]
    handles = [one for one in operands if one.view is None]
    # Next to CUDA arrays, NumPy arrays of one element are values (CuPy's rule).
    chosen = cuda or arrays
    places: dict[Device | str, str] = {}
    for one in sorted((*chosen, *handles), key=lambda one: one.number):
        place = device_of(one.value) if one.view is None else one.view.device
        if place is not None:
            places.setdefault(place, one.label)
        elif needs_cuda(one.value):
            places.setdefault(_SOME_GPU, one.label)
    known = [place for place in places if isinstance(place, Device)]
    if not any(place.is_host for place in known):  # it may be theirs
        places.pop(_SOME_GPU, None)
    check_one_device(name, [f"{label} on {place}" for place, label in places.items()])
    if chosen:
        return known[0], chosen[0].library
    cupys = any(is_cupys(one.value) for one in handles)
    return known[0] if known else default_device(), CuPy() if cupys else None


def stream_of(
    stream: object, library: Library | None, device: Device, operands: Sequence[RawArgument]
) -> int:
    """Return the handle of the stream of a launch: the caller's, or the library's current one."""
    libraries = (operand.library for operand in operands)
    handle = stream_of_call(stream, library, device, libraries)
    use_on(handle, *(operand.value for operand in operands))
    return handle


def pack_undeclared(operand: RawArgument, device: Device) -> bytes:
    """Return an argument's bytes by CuPy's rules (`kspec.RawKernel` lists them).

    Those of CuPy's structs follow in `with_structs`, what parameters take in
    `kspec.runtime.raw.fitting`.

    Raises
    ------
    ArgumentTypeError
        If no kernel can take it.
    OverflowError
        If an integer has more than 64 bits.
    """
    value, view, where = operand.value, operand.view, operand.where
    if view is not None:
        if view.device == device:
            return struct.pack("P", view.ptr)
        if view.size == 1:
            return ctypes.string_at(view.ptr, dtypes.lookup(view.dtype).itemsize)
        raise ArgumentTypeError(
            f"{where} is a NumPy array next to CUDA arrays; move it to {device} first"
        )
    if value is None:
        return struct.pack("P", 0)
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.size == 1):
        return value.tobytes()
    if isinstance(value, bool):
        return struct.pack("?", value)
    if isinstance(value, int):
        if not -(2**63) <= value < 2**64:
            raise OverflowError(f"{where}: Python int {value} has more than 64 bits")
        return struct.pack("Q" if value >= 2**63 else "q", value)
    if isinstance(value, float):
        return struct.pack("d", value)
    if isinstance(value, complex):
        return struct.pack("dd", value.real, value.imag)
    kind = kind_of(value)
    if kind in HANDLES or is_address(value):
        return struct.pack("P", value.ptr)
    if kind == STRUCT:
        return b""
    if kind == TEXTURE_ARRAY:
        raise ArgumentTypeError(
            f"{where} is a CUDAarray, which kernels read through a TextureObject or SurfaceObject"
        )
    raise ArgumentTypeError(
        f"{where}: cannot pass a {type(value).__name__} to a kernel; pass an array, a number or a "
        "NumPy scalar"
    )


def with_structs(
    operands: Sequence[RawArgument],
    parameters: tuple[bytes, ...],
    sizes: tuple[int, ...] | None,
) -> tuple[bytes, ...]:
    """Return packed parameters with the bytes of CuPy's structs, of which CuPy tells no size.

    Parameters
    ----------
    operands : sequence of RawArgument
        The arguments.
    parameters : tuple of bytes
        What they are packed to.
    sizes : tuple of int or None
        The kernel's own sizes of its parameters, which structs such as an ``mdspan`` have, too.

    Raises
    ------
    NotSupportedError
        If the driver does not know the sizes.
    ArgumentTypeError
        If a struct has no memory.
    """
    structs = [one for one in operands if kind_of(one.value) == STRUCT]
    if not structs:
        return parameters
    if sizes is None:
        raise NotSupportedError(
            f"{structs[0].where} is CuPy's {type(structs[0].value).__name__}, whose size only "
            "drivers of CUDA 12.4 and newer tell; pass its address and extents one by one"
        )
    packed = list(parameters)
    for one in structs:
        if one.number < len(sizes):  # a launch refuses too many
            packed[one.number] = struct_bytes(one.where, one.value, sizes[one.number])
    return tuple(packed)


def struct_bytes(where: str, value: Any, size: int) -> bytes:
    """Return the first bytes of CuPy's struct, as CUDA takes them."""
    if not value.ptr:
        raise ArgumentTypeError(f"{where}: this {type(value).__name__} points to no memory")
    return ctypes.string_at(value.ptr, size)
