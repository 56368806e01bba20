"""Arrays of libraries that the runtime does not know, by the protocols that they speak.

Each class is a `kspec.runtime.libraries.registry.Library`.  A protocol says where an array is, not
how to make another one, so outputs are kspec's own arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kspec.errors import ArgumentTypeError, UnsupportedDTypeError
from kspec.runtime import driver
from kspec.runtime.driver import stream as driver_streams
from kspec.runtime.driver.device import Device
from kspec.runtime.libraries.registry import MASKED, Own
from kspec.runtime.memory import ArrayView, c_strides, dlpack, dtype_name
from kspec.runtime.memory.deferred_release import defer_release


def speaks(kind: type, protocol: str) -> bool:
    """Return whether objects of a type have a protocol; None says that they do not."""
    return getattr(kind, protocol, None) is not None


class CudaArrayInterface(Own):
    """Any other object with ``__cuda_array_interface__``."""

    name = "cuda array interface"
    borrowed = True

    def keep(self, arrays: Sequence[Any], device: Device, stream: int) -> None:
        """Keep the arrays until what is queued has run."""
        defer_release(device.ordinal, stream, arrays)

    def recognises(self, kind: type) -> bool:
        """Whether objects of a type export CUDA memory."""
        return speaks(kind, "__cuda_array_interface__")

    def is_set_on(self, value: object) -> bool:
        """Whether an object exports CUDA memory though its class does not."""
        own = getattr(value, "__dict__", None)  # on classes it is not a dict
        return isinstance(own, dict) and own.get("__cuda_array_interface__") is not None

    def view(self, array: Any) -> ArrayView:
        """Return the view of the array; the legacy default stream waits for its stream."""
        try:
            interface = array.__cuda_array_interface__
        except AttributeError as error:  # an array on the CPU, for instance
            if DLPACK.recognises(type(array)):
                return DLPACK.view(array)
            kind = type(array).__name__
            raise ArgumentTypeError(
                f"this {kind} is not a CUDA array ({error}); a NumPy array runs on the host device"
            ) from error
        if interface.get("mask") is not None:
            raise UnsupportedDTypeError(MASKED)
        dtype = _described(interface)
        name = dtype_name(dtype)
        ptr, readonly = interface["data"]
        shape = tuple(interface["shape"])
        strides = interface.get("strides") or c_strides(shape, dtype.itemsize)
        ordinal = driver.device_of_pointer(ptr) if ptr else driver.current_ordinal()
        stream = interface.get("stream")
        if stream == 0:
            raise ArgumentTypeError(
                "stream 0 in __cuda_array_interface__ is ambiguous: 1 is the legacy default "
                "stream, 2 that of the thread"
            )
        if stream is not None:
            _follow(ordinal, int(stream))
        return ArrayView(ptr, shape, tuple(strides), name, Device("cuda", ordinal), readonly)


class DLPack(Own):
    """Any other object with ``__dlpack__``, on the CPU or CUDA."""

    name = "dlpack"
    borrowed = True

    def keep(self, arrays: Sequence[Any], device: Device, stream: int) -> None:
        """Keep what lends the memory until what is queued has run."""
        defer_release(device.ordinal, stream, arrays)

    def recognises(self, kind: type) -> bool:
        """Whether objects of a type export themselves by DLPack."""
        return speaks(kind, "__dlpack__") and speaks(kind, "__dlpack_device__")

    def view(self, array: Any) -> ArrayView:
        """Return the view of the array; the legacy default stream waits for them."""
        one = dlpack.import_array(array)
        return ArrayView(
            one.ptr, one.shape, one.strides, one.dtype, one.device, one.readonly, one.owner
        )


def _follow(ordinal: int, stream: int) -> None:
    """Let the legacy default stream wait for another one; the host, where that is not allowed."""
    if stream == driver_streams.LEGACY_STREAM:
        return
    with driver.on_device(ordinal), driver.whatever_is_captured():
        if driver_streams.is_default_stream_usable():
            driver_streams.wait_for_stream(ordinal, driver_streams.LEGACY_STREAM, stream)
        else:  # a stream that waits for it is being captured
            driver_streams.synchronize_stream(ordinal, stream)


def _described(interface: dict[str, Any]) -> np.dtype[Any]:
    """Return the dtype of an exported array: that of its description if it is a struct."""
    dtype: np.dtype[Any] = np.dtype(interface["typestr"])
    description = interface.get("descr", ())
    if dtype.kind == "V" and len(description) > 1:
        # The format of .npy files has the same descriptions, with the gaps as unnamed fields.
        dtype = np.lib.format.descr_to_dtype(list(description))
    return dtype


DLPACK = DLPack()
