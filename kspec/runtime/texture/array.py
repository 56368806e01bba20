"""Arrays that textures and surfaces read, in a layout only they know; copied from and to others."""

from __future__ import annotations

import ctypes
import weakref
from typing import Any

import numpy as np

from kspec.errors import ArgumentTypeError, DeviceMismatchError, NotSupportedError
from kspec.host import buffers
from kspec.model import dtypes
from kspec.runtime.driver import stream as driver_streams
from kspec.runtime.driver.device import Device, parse_device
from kspec.runtime.libraries.lookup import library_of
from kspec.runtime.libraries.registry import Library
from kspec.runtime.libraries.stream_order import stream_of_call
from kspec.runtime.memory import ArrayView
from kspec.runtime.memory.device_array import use_on
from kspec.runtime.memory.handle import Handle
from kspec.runtime.texture import driver_texture
from kspec.runtime.texture.channels import ChannelFormatDescriptor
from kspec.runtime.texture.constants import (
    cudaArrayCubemap,
    cudaArrayLayered,
    cudaArraySurfaceLoadStore,
    cudaArrayTextureGather,
)
from kspec.runtime.texture.driver_texture import Rows

_FLAGS = cudaArrayLayered | cudaArraySurfaceLoadStore | cudaArrayCubemap | cudaArrayTextureGather


class CUDAarray(Handle):
    """An array that textures and surfaces read, in a layout only they know.

    Parameters
    ----------
    desc : ChannelFormatDescriptor
        Its elements.
    width, height, depth : int
        Extents in elements; 0 for axes it does not have.
    flags : int
        ``cudaArraySurfaceLoadStore`` if a surface shall write it; on CUDA devices also
        ``cudaArrayLayered`` (`depth` layers), ``cudaArrayCubemap`` (six faces for each cube) and
        ``cudaArrayTextureGather``.
    device : {"host", "cuda", "cuda:N"}, optional
        Where; default: the current CUDA device if there is one, else the host.

    Raises
    ------
    ValueError
        For a width of 0, a depth without height, or flags that do not go with the extents.
    NotSupportedError
        For layers or cubes on the host device.
    """

    def __init__(
        self,
        desc: ChannelFormatDescriptor,
        width: int,
        height: int = 0,
        depth: int = 0,
        flags: int = 0,
        *,
        device: Device | str | None = None,
    ) -> None:
        if not isinstance(desc, ChannelFormatDescriptor):
            raise ArgumentTypeError(
                f"desc must be a ChannelFormatDescriptor, not {type(desc).__name__}"
            )
        if width <= 0 or height < 0 or depth < 0:
            raise ValueError(f"width {width}, height {height}, depth {depth}: width must be > 0")
        if depth and not height:
            raise ValueError("an array with a depth needs a height")
        _check_flags(flags, width, height, depth)
        self.desc = desc
        self.width, self.height, self.depth, self.flags = width, height, depth, flags
        self.ndim = 3 if depth else 2 if height else 1
        self.device = parse_device(device)
        self.channels = desc.channels()
        self._memory: Any = None  # on the host: the elements in C order
        if self.device.is_host:
            if flags & (cudaArrayLayered | cudaArrayCubemap):
                raise NotSupportedError("the host device has no layered arrays and no cubes")
            rows = max(1, height) * max(1, depth)
            self._memory = buffers.HostBuffer(width * rows * self.channels.itemsize)
            ctypes.memset(self._memory.ptr, 0, self._memory.nbytes)
            self.ptr = self._memory.ptr
            return
        ordinal = self.device.ordinal
        self.handle = driver_texture.create_array(
            ordinal, self.channels, width, height, depth, flags
        )
        self.ptr = int(self.handle)
        finalizer = weakref.finalize(self, driver_texture.destroy_array, ordinal, self.handle)
        finalizer.atexit = False

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the arrays it is copied from and to: the channels are part of the last axis."""
        row = self.width * self.channels.count
        return (self.depth, self.height, row)[3 - self.ndim :]

    def copy_from(self, arr: Any, stream: Any = None) -> None:
        """Copy all elements from an array.

        Parameters
        ----------
        arr : array
            Of `shape` and the channels' dtype; on the host or on the same device. Each row must be
            in one piece, except of NumPy arrays.
        stream : stream, optional
            Where the copy is queued; it is not waited for. Default: the current stream of the
            array's library, and it is waited for.

        Raises
        ------
        ValueError
            If shape, dtype or layout do not fit.
        ArgumentTypeError
            If it is not an array.
        DeviceMismatchError
            If it lives on another device.
        """
        library, view = self._viewed(arr)
        copied = isinstance(arr, np.ndarray) and not view.is_c_contiguous
        if copied:
            arr = np.ascontiguousarray(arr)
            view = library.view(arr)
        # Only this function keeps the copy alive.
        self._copy(arr, library, view, stream, into_array=True, wait=copied or stream is None)

    def copy_to(self, arr: Any, stream: Any = None) -> None:
        """Copy all elements to an array.

        Parameters
        ----------
        arr : array
            As for `copy_from`; each row must be in one piece.
        stream : stream, optional
            As for `copy_from`.

        Raises
        ------
        ValueError, ArgumentTypeError, DeviceMismatchError
            As for `copy_from`; also if it is read-only.
        """
        library, view = self._viewed(arr)
        if view.readonly:
            raise ArgumentTypeError("the array is written to, but it is read-only")
        self._copy(arr, library, view, stream, into_array=False, wait=stream is None)
        library.wrote(arr)

    def _viewed(self, arr: Any) -> tuple[Library, ArrayView]:
        library = library_of(arr)
        if library is None:
            raise ArgumentTypeError(f"expected an array, not {type(arr).__name__}")
        view = library.view(arr)
        if not view.device.is_host and view.device != self.device:
            raise DeviceMismatchError(f"the array lives on {view.device}, not on {self.device}")
        if view.shape != self.shape:
            raise ValueError(f"the array must have shape {self.shape}, not {view.shape}")
        if view.dtype != self.channels.dtype:
            raise ValueError(f"the array must have dtype {self.channels.dtype}, not {view.dtype}")
        return library, view

    def _copy(
        self,
        arr: Any,
        library: Library,
        view: ArrayView,
        stream: Any,
        *,
        into_array: bool,
        wait: bool,
    ) -> None:
        row = self.width * self.channels.itemsize
        rows = _rows_of(view, row)
        if rows is None:
            raise ValueError("the rows of the array are not in one piece: pass a C-contiguous one")
        handle = stream_of_call(stream, library, self.device, (library,))
        if self.device.is_host:
            self._copy_rows(view, row, into_array)
            return
        use_on(handle, arr)
        extents = row, max(1, self.height), max(1, self.depth)
        ordinal = self.device.ordinal
        driver_texture.copy_array(ordinal, self.handle, rows, extents, into_array, handle)
        if wait:
            driver_streams.synchronize_stream(ordinal, handle)

    def _copy_rows(self, view: ArrayView, row: int, into_array: bool) -> None:
        if view.is_c_contiguous:
            offsets, size = [0], self._memory.nbytes
        else:
            *outer, _ = view.strides
            offsets = [int(np.dot(index, outer)) for index in np.ndindex(*view.shape[:-1])]
            size = row
        for number, offset in enumerate(offsets):
            here, there = self.ptr + number * size, view.ptr + offset
            target, source = (here, there) if into_array else (there, here)
            ctypes.memmove(target, source, size)


def _check_flags(flags: int, width: int, height: int, depth: int) -> None:
    """Raise `ValueError` for flags that do not go with the extents."""
    if flags & ~_FLAGS:
        raise ValueError(f"unknown flags {flags & ~_FLAGS:#x}; the cudaArray constants are flags")
    layered, cube = flags & cudaArrayLayered, flags & cudaArrayCubemap
    if layered and not depth:
        raise ValueError("a layered array needs a depth, the number of its layers")
    if cube and (width != height or (depth % 6 if layered else depth != 6)):
        faces = "a multiple of 6" if layered else "6"
        raise ValueError(
            f"a cube has square faces and a depth of {faces}, not {width} x {height} x {depth}"
        )
    if flags & cudaArrayTextureGather and (depth or not height):
        raise ValueError("cudaArrayTextureGather is for arrays with a width and a height")


def _rows_of(view: ArrayView, row: int) -> Rows | None:
    """Return the rows of a view, `row` bytes each; None if copies cannot read them."""
    if view.shape[-1] > 1 and view.strides[-1] != dtypes.lookup(view.dtype).itemsize:
        return None
    depth, height, _ = (1, 1, *view.shape)[-3:]
    back, down, _ = (0, 0, *view.strides)[-3:]
    if height == 1:
        pitch, rows = (back if depth > 1 else row), 1
    elif depth == 1:
        pitch, rows = down, height
    else:
        pitch, rows = down, (back // down if down > 0 and back % down == 0 else 0)
    if pitch < row or rows < height:
        return None
    return Rows(view.ptr, view.device.is_host, pitch, rows)
