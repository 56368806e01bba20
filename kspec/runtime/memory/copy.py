"""Copies of memory between any two devices, in the order of two streams.

The streams are those that the source is made on and that the copy is used on. Only they wait,
unless one of the devices is the host.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from kspec.runtime.driver import memory as driver_memory
from kspec.runtime.driver import stream as driver_streams
from kspec.runtime.driver.device import Device
from kspec.runtime.memory import ArrayView

_MAX_PITCH = 2**31 - 1  # bytes from one row to the next, of every CUDA device so far


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


def copy_elements(to: ArrayView, stream: int, source: ArrayView, other: int) -> None:
    """Copy the elements of an array to one of the same shape and dtype, whatever their strides.

    Parameters
    ----------
    to, stream
        The array that is written to, and the stream that it is used on.
    source, other
        As of `copy_bytes`.
    """
    if not to.size:
        return
    if to.is_c_contiguous and source.is_c_contiguous:
        copy_bytes(to.ptr, to.device, stream, source, other)
    elif to.device.is_host and source.device.is_host:
        _host_bytes(to)[...] = _host_bytes(source)
    elif to.device.is_host or source.device.is_host:
        for part, piece in _runs(to, source):
            copy_bytes(part.ptr, to.device, stream, piece, other)
    else:
        _copy_rows(to, stream, source, other)


def _host_bytes(view: ArrayView) -> npt.NDArray[Any]:
    """Return an array of NumPy over memory of the host; elements are bytes, aligned or not."""
    low, high = view.bounds
    memory = memoryview((ctypes.c_char * (high - low)).from_address(low))
    element = np.dtype(f"V{view.itemsize}")
    return np.ndarray(view.shape, element, memory, view.ptr - low, view.strides)


def _runs(to: ArrayView, source: ArrayView) -> Iterator[tuple[ArrayView, ArrayView]]:
    """Yield the parts of two arrays in which elements follow each other in both."""
    if to.is_c_contiguous and source.is_c_contiguous:
        yield to, source
        return
    for number in range(to.shape[0]):
        yield from _runs(_at(to, number), _at(source, number))


def _at(view: ArrayView, number: int) -> ArrayView:
    """Return one item along the first axis."""
    ptr = view.ptr + number * view.strides[0]
    return replace(view, ptr=ptr, shape=view.shape[1:], strides=view.strides[1:])


def _copy_rows(to: ArrayView, stream: int, source: ArrayView, other: int) -> None:
    """Copy between CUDA devices: rows of equal distances at once."""
    apart = (to.device, stream) != (source.device, other)
    if apart:
        driver_streams.wait_for_stream(to.device.ordinal, stream, other, source.device.ordinal)
    for part, piece in _planes(to, source):
        ordinal, rows = to.device.ordinal, part.shape[0] if part.shape else 1
        width = part.size // rows * part.itemsize
        if rows == 1:
            driver_memory.copy_async(ordinal, part.ptr, piece.ptr, width, stream)
            continue
        places = (part.ptr, part.strides[0]), (piece.ptr, piece.strides[0])
        driver_memory.copy_rows_async(ordinal, *places, width, rows, stream)
    if apart:
        driver_streams.wait_for_stream(source.device.ordinal, other, stream, to.device.ordinal)


def _planes(to: ArrayView, source: ArrayView) -> Iterator[tuple[ArrayView, ArrayView]]:
    """Yield the parts of two arrays that are rows at a positive distance, in both."""
    if not to.shape or (_is_plane(to) and _is_plane(source)):
        yield to, source
        return
    for number in range(to.shape[0]):
        yield from _planes(_at(to, number), _at(source, number))


def _is_plane(view: ArrayView) -> bool:
    row = _at(view, 0)
    width = row.size * row.itemsize
    pitch = view.strides[0]
    return row.is_c_contiguous and (view.shape[0] == 1 or width <= pitch <= _MAX_PITCH)
