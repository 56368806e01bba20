"""Memory for launches, whose first bytes are zero: for one, in stream order, or for many."""

from __future__ import annotations

import ctypes
import weakref
from types import TracebackType

from kspec.runtime.driver import memory as driver_memory
from kspec.runtime.driver.device import Device


class Scratch:
    """Memory for one launch; ``with Scratch(device, stream, 1024, zeroed=16) as s``.

    On a CUDA device it is taken and given back in stream order, so concurrent launches on
    several streams never share it, and nothing waits.

    Attributes
    ----------
    ptr : int
        Its address, 256-byte aligned on CUDA; 0 when no bytes were asked for.
    """

    def __init__(self, device: Device, stream: int, nbytes: int, zeroed: int) -> None:
        self._device = device
        self._stream = stream
        self._nbytes = nbytes
        self._zeroed = zeroed
        self._kept: KeptScratch | None = None
        self.ptr = 0

    def __enter__(self) -> Scratch:
        if self._device.is_host:
            self._kept = KeptScratch(self._device, self._stream, self._nbytes, self._zeroed)
            self.ptr = self._kept.ptr
        elif self._nbytes:
            ordinal = self._device.ordinal
            self.ptr = driver_memory.allocate_async(ordinal, self._nbytes, self._stream)
            driver_memory.zero_async(ordinal, self.ptr, self._zeroed, self._stream)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.ptr and not self._device.is_host:
            driver_memory.free_async(self._device.ordinal, self.ptr, self._stream)
        self._kept = None


class CudaMemory:
    """Memory of a CUDA device, freed when collected."""

    def __init__(self, ordinal: int, nbytes: int) -> None:
        self.ordinal = ordinal
        self.ptr = driver_memory.allocate(ordinal, nbytes)
        # At interpreter exit the driver may be gone already, and the memory with it.
        weakref.finalize(self, driver_memory.free, ordinal, self.ptr).atexit = False


class KeptScratch:
    """Memory for launches of one kernel that follow each other on one stream.

    It is zeroed once: each launch leaves it as the next one needs it.

    Attributes
    ----------
    ptr : int
        Its address, 256-byte aligned; 0 when no bytes were asked for.
    """

    def __init__(self, device: Device, stream: int, nbytes: int, zeroed: int) -> None:
        self._memory: object = None
        self.ptr = 0
        if nbytes and device.is_host:
            buffer = ctypes.create_string_buffer(nbytes + 256)
            self.ptr = -(-ctypes.addressof(buffer) // 256) * 256
            self._memory = buffer
        elif nbytes:
            memory = CudaMemory(device.ordinal, nbytes)
            driver_memory.zero_async(device.ordinal, memory.ptr, zeroed, stream)
            self.ptr, self._memory = memory.ptr, memory
