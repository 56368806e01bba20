"""Copies of memory between any two devices, in the order of two streams.

The streams are those that the source is made on and that the copy is used on. Only they wait,
unless one of the devices is the host.
"""

from __future__ import annotations

import ctypes

from kspec.runtime.driver import memory as driver_memory
from kspec.runtime.driver import stream as driver_streams
from kspec.runtime.driver.device import Device
from kspec.runtime.memory.array_view import ArrayView


def copy_bytes(to: int, device: Device, stream: int, source: ArrayView, other: int) -> None:
    """Copy a C-ordered array to an address.

    Parameters
    ----------
    to : int
        The address.
    device, stream
        Where it is, and the stream that the copy is used on.
    source : ArrayView
        What is copied; what is queued on its stream afterwards may write to its memory.
    other : int
        Stream that it is made on.
    """
    nbytes = source.size * source.itemsize
    if not nbytes:
        return
    if device.is_host and source.device.is_host:
        ctypes.memmove(to, source.ptr, nbytes)
    elif device.is_host:
        driver_streams.synchronize_stream(source.device.ordinal, other)
        driver_memory.copy(source.device.ordinal, to, source.ptr, nbytes)
    elif source.device.is_host:
        driver_streams.synchronize_stream(device.ordinal, stream)
        driver_memory.copy(device.ordinal, to, source.ptr, nbytes)
    else:
        ordinal, origin = device.ordinal, source.device.ordinal
        apart = (device, stream) != (source.device, other)
        if apart:
            driver_streams.wait_for_stream(ordinal, stream, other, origin)
        driver_memory.copy_async(ordinal, to, source.ptr, nbytes, stream)
        if apart:
            driver_streams.wait_for_stream(origin, other, stream, ordinal)
