"""Order of kernels: the stream of a call, the work it waits for, and the work that waits for it.

A call is queued on the stream that the caller names, or on the current one of the library that its
first array is of.  Arrays of other libraries may have work behind them on other streams:

* without a stream of the caller's, the launch waits for the current streams of all libraries in the
  call, and they for the launch: a call is in order with everything before and after it;
* with one, the caller says when arrays are ready, as in CuPy; only memory that was handed over by
  a protocol, on the stream that the protocol has, is waited for;
* whatever the stream, memory is not used anew before the kernel has run.

While a graph is made of the stream, its order is the graph's, and the launcher of the graph keeps
the arrays alive.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from kspec.errors import ArgumentTypeError, DeviceMismatchError
from kspec.runtime.driver import stream as driver_streams
from kspec.runtime.driver.device import Device
from kspec.runtime.libraries.lookup import library_of
from kspec.runtime.libraries.registry import Library

DEFAULT_STREAMS = (0, driver_streams.LEGACY_STREAM)


def stream_of_call(
    stream: object,
    library: Library | None,
    device: Device,
    libraries: Iterable[Library | None] = (),
) -> int:
    """Return the handle of the stream a call is queued on, once that waits for what it must.

    Parameters
    ----------
    stream : stream or None
        What the caller gave.
    library : Library or None
        Whose current stream it is otherwise.
    device : Device
        Where the call runs.
    libraries : iterable of Library or None
        Of all arguments.

    Raises
    ------
    ArgumentTypeError
        If `stream` is none.
    DeviceMismatchError
        If it belongs to another device.
    """
    if stream is not None:
        handle = stream_handle(stream)
        if not device.is_host and not driver_streams.is_stream_of(device.ordinal, handle):
            raise DeviceMismatchError(
                f"the stream belongs to another device than {device}, where the arrays live"
            )
    else:
        handle = library.stream(device) if library is not None else 0
    if device.is_host:
        return handle
    for one in dict.fromkeys(libraries):
        if one is not None and (stream is None or one.borrowed):
            follow(device.ordinal, handle, one.stream(device))
    return handle


def follow(ordinal: int, stream: int, other: int) -> None:
    """Let a stream wait for another one, unless they are the same or become part of graphs."""
    if stream == other or (stream in DEFAULT_STREAMS and other in DEFAULT_STREAMS):
        return
    if driver_streams.is_capturing(ordinal, stream) or driver_streams.is_capturing(ordinal, other):
        return
    driver_streams.wait_for_stream(ordinal, stream, other)


def after_launch(
    device: Device, stream: int, arrays: Iterable[tuple[Library, Any]], given: bool
) -> None:
    """Take care of memory that a launch which was just queued uses.

    Parameters
    ----------
    device : Device
        Where it runs.
    stream : int
        What it was queued on.
    arrays : iterable of (Library, object)
        Its arrays, or what lends their memory.
    given : bool
        Whether the caller has named the stream.
    """
    if device.is_host:
        return
    groups: dict[Library, list[Any]] = {}
    for library, array in arrays:
        groups.setdefault(library, []).append(array)
    for library, group in groups.items():
        theirs = library.stream(device)
        if library.borrowed:
            library.keep(group, device, stream)
        elif stream != theirs and not (stream in DEFAULT_STREAMS and theirs in DEFAULT_STREAMS):
            if not given:
                follow(device.ordinal, theirs, stream)
            elif not driver_streams.is_capturing(device.ordinal, stream):
                library.keep(group, device, stream)


def after_plan(device: Device, stream: int, arrays: Sequence[Any]) -> None:
    """Do the same after a repeated call on a stream that the caller has named."""
    known = ((library_of(one), one) for one in arrays)
    pairs = ((library, one) for library, one in known if library is not None)
    after_launch(device, stream, pairs, given=True)


def stream_handle(stream: object) -> int:
    """Return the handle of a stream given by the caller.

    Parameters
    ----------
    stream : int, or object with ``ptr``, ``__cuda_stream__`` or ``cuda_stream``
        A handle, a stream of CuPy, torch, cuda.core or Numba, or a graph builder of cuda.core.

    Raises
    ------
    ArgumentTypeError
        For anything else.
    """
    if isinstance(stream, int) and not isinstance(stream, bool):
        return stream
    pointer = getattr(stream, "ptr", None)
    if isinstance(pointer, int):
        return pointer
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        # It was an attribute before it became a method.
        version, handle = protocol() if callable(protocol) else protocol
        if version != 0:
            raise ArgumentTypeError(
                f"stream speaks version {version} of __cuda_stream__; kspec knows version 0: pass "
                "the handle as an integer"
            )
        return int(handle)
    for name in ("cuda_stream", "handle"):  # older ones of torch, and of Numba
        number = getattr(stream, name, None)
        number = getattr(number, "value", number)  # a ctypes pointer, which is None for 0
        if isinstance(number, int) or (number is None and hasattr(stream, name)):
            return number or 0
    raise ArgumentTypeError(
        f"stream must be a stream handle or an object with .ptr or __cuda_stream__, "
        f"not {type(stream).__name__}"
    )
