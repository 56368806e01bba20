"""XLA's C interface for foreign functions (``xla/ffi/api/c_api.h``), as far as it is used here.

XLA calls a handler with the address of a `CallFrame`: buffers of the arguments and results,
attributes, and a table of functions that know the stream.  Handlers return the address of an
error, or None.

XLA promises that handlers written for a version of this interface are called for at least a year;
every structure begins with its size, which grows when something is added at its end.
"""

from __future__ import annotations

import ctypes
import functools
import struct
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

# The version that these structures have been written for.
MAJOR, MINOR = 0, 3

INVALID_ARGUMENT = 3
INTERNAL = 13

_METADATA = 1  # XLA_FFI_Extension_Metadata
RECORDABLE = 1  # XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE


_Pointer, _Size = ctypes.c_void_p, ctypes.c_size_t


class _Extension(ctypes.Structure):
    _fields_ = [("size", _Size), ("type", ctypes.c_int), ("next", _Pointer)]


class _Extensible(ctypes.Structure):
    """A structure that begins with its size, and the address of its extensions."""

    _fields_ = [("size", _Size), ("extension", ctypes.POINTER(_Extension))]


class _Version(_Extensible):
    _fields_ = [("major", ctypes.c_int), ("minor", ctypes.c_int)]


class _Metadata(ctypes.Structure):
    _fields_ = [("size", _Size), ("version", _Version), ("traits", ctypes.c_uint32)]


class _MetadataExtension(ctypes.Structure):
    _fields_ = [("base", _Extension), ("metadata", ctypes.POINTER(_Metadata))]


class _Buffers(_Extensible):
    _fields_ = [
        ("count", ctypes.c_int64),
        ("types", _Pointer),
        ("items", ctypes.POINTER(_Pointer)),
    ]


class _ByteSpan(ctypes.Structure):
    _fields_ = [("address", _Pointer), ("length", _Size)]


class _Attributes(_Extensible):
    _fields_ = [
        ("count", ctypes.c_int64),
        ("types", _Pointer),
        ("names", _Pointer),
        ("values", ctypes.POINTER(ctypes.POINTER(_ByteSpan))),
    ]


class _Api(_Extensible):
    _fields_ = [
        ("version", _Version),
        ("internal", _Pointer),
        ("create_error", _Pointer),
        ("get_error_message", _Pointer),
        ("destroy_error", _Pointer),
        ("register_handler", _Pointer),
        ("get_stream", _Pointer),
    ]


class CallFrame(_Extensible):
    """Arguments of a handler."""

    _fields_ = [
        ("api", ctypes.POINTER(_Api)),
        ("context", _Pointer),
        ("stage", ctypes.c_int),
        ("arguments", _Buffers),
        ("results", _Buffers),
        ("attributes", _Attributes),
    ]


class _ErrorArguments(_Extensible):
    _fields_ = [("message", ctypes.c_char_p), ("code", ctypes.c_int)]


class _StreamArguments(_Extensible):
    _fields_ = [("context", _Pointer), ("stream", _Pointer)]


# Size, extension, dtype, address, number of dimensions, address of the extents.
_BUFFER = struct.Struct("NPiPqP")
Handler = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)


class Buffer(NamedTuple):  # made for every array of every call, which dataclasses are slow at
    """An array of XLA's: C-ordered memory for the length of a call.

    Attributes
    ----------
    code : int
        XLA's number of its dtype.
    ptr : int
        Address of the first element.
    shape : tuple of int
        Extents.
    """

    code: int
    ptr: int
    shape: tuple[int, ...]


def answer_metadata(frame: CallFrame, traits: int) -> bool:
    """Return whether XLA only asks for a handler's version and traits, having answered.

    Parameters
    ----------
    frame : CallFrame
        The call.
    traits : int
        0, or `RECORDABLE`: XLA may record the handler's work into graphs of its own, and replay
        it without the handler.

    Raises
    ------
    RuntimeError
        If the interface has changed so that it cannot be used.
    """
    extension = frame.extension
    if not extension or extension.contents.type != _METADATA:
        return False
    # The first versions ask without showing their functions.
    major, minor = MAJOR, 1
    if frame.api:
        major, minor = frame.api.contents.version.major, frame.api.contents.version.minor
    if major != MAJOR:
        raise RuntimeError(
            f"XLA's foreign function interface has version {major}.{minor}, and kspec knows "
            f"{MAJOR}.{MINOR}; pass callback=True, or use a newer kspec"
        )
    metadata = ctypes.cast(extension, ctypes.POINTER(_MetadataExtension)).contents.metadata
    # What older versions than ours lack is nothing that is used here.
    metadata.contents.version.major = MAJOR
    metadata.contents.version.minor = min(MINOR, minor)
    metadata.contents.traits = traits
    return True


def buffers(side: Any) -> Iterator[Buffer]:
    """Yield the buffers of a call's arguments or results."""
    for address in side.items[: side.count]:
        memory = ctypes.string_at(address, _BUFFER.size)
        _, _, code, ptr, ndim, extents = _BUFFER.unpack(memory)
        yield Buffer(code, ptr or 0, _extents(ndim).unpack(ctypes.string_at(extents, 8 * ndim)))


def text_attribute(frame: CallFrame) -> bytes:
    """Return the value of the only attribute, which is a string."""
    text = frame.attributes.values[0].contents
    return ctypes.string_at(text.address, text.length)


def stream_of(frame: CallFrame) -> tuple[int, int | None]:
    """Return the handle of the stream that a call is queued on, and an error or None."""
    arguments = _StreamArguments(ctypes.sizeof(_StreamArguments), None, frame.context, None)
    error = _function(frame.api.contents.get_stream)(ctypes.byref(arguments))
    return arguments.stream or 0, error


def make_error(frame: CallFrame, code: int, message: str) -> int | None:
    """Return an error that a handler can return; it belongs to whom it is returned to."""
    text = message.encode("utf-8", "replace")
    arguments = _ErrorArguments(ctypes.sizeof(_ErrorArguments), None, text, code)
    return _function(frame.api.contents.create_error)(ctypes.byref(arguments))


@functools.cache
def _function(address: int) -> Callable[[Any], int | None]:
    return ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(address)


@functools.cache
def _extents(ndim: int) -> struct.Struct:
    return struct.Struct(f"{ndim}q")
