"""Arrays of other libraries: recognised by type, viewed without a copy, made for outputs.

A `Library` is one row: how to view its arrays, make new ones, and find its current stream.  A
new library is a new class here and an entry in `_LIBRARIES`.  No library is ever imported: an
argument that is one of its arrays has imported it already.

>>> import numpy as np
>>> library = library_of(np.zeros(3))
>>> library.name, str(library.view(np.zeros(3)).device)
('numpy', 'host')
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from kspec import dtypes
from kspec.errors import ArgumentTypeError, DeviceMismatchError, UnsupportedDTypeError
from kspec.runtime import arrays, dlpack, driver
from kspec.runtime.arrays import DeviceArray
from kspec.runtime.device import HOST, Device
from kspec.runtime.views import ArrayView, c_strides, dtype_name, numpy_dtype


class Library(Protocol):
    """How the runtime talks to one array library."""

    name: str

    def recognises(self, kind: type) -> bool:
        """Whether objects of a type are arrays of this library."""

    def view(self, array: Any) -> ArrayView:
        """Return where the array's elements are."""

    def empty(self, shape: tuple[int, ...], dtype: str, device: Device) -> Any:
        """Return a new C-ordered array of undefined elements."""

    def stream(self, device: Device) -> int:
        """Return the handle of the library's current stream on a device."""


class NumPy:
    """`numpy.ndarray`: the host device."""

    name = "numpy"

    def recognises(self, kind: type) -> bool:
        """Whether objects of a type are NumPy arrays."""
        return issubclass(kind, np.ndarray)

    def view(self, array: Any) -> ArrayView:
        """Return where the array's elements are."""
        if isinstance(array, np.ma.MaskedArray):
            raise UnsupportedDTypeError("masked arrays are not supported; pass array.filled(...)")
        return ArrayView(
            array.ctypes.data,
            array.shape,
            array.strides,
            dtype_name(array.dtype),
            HOST,
            not array.flags.writeable,
        )

    def empty(self, shape: tuple[int, ...], dtype: str, device: Device) -> Any:
        """Return a new array."""
        return np.empty(shape, numpy_dtype(dtype))

    def stream(self, device: Device) -> int:
        """Return 0: the host device runs kernels at once."""
        return 0


class CuPy:
    """`cupy.ndarray`, on CuPy's current stream."""

    name = "cupy"

    def recognises(self, kind: type) -> bool:
        """Whether objects of a type are CuPy arrays."""
        cupy = sys.modules.get("cupy")
        return cupy is not None and issubclass(kind, cupy.ndarray)

    def view(self, array: Any) -> ArrayView:
        """Return where the array's elements are."""
        return ArrayView(
            array.data.ptr,
            array.shape,
            array.strides,
            dtype_name(array.dtype),
            Device("cuda", array.data.device_id),
        )

    def empty(self, shape: tuple[int, ...], dtype: str, device: Device) -> Any:
        """Return a new array from CuPy's pool."""
        cupy = sys.modules["cupy"]
        with cupy.cuda.Device(device.ordinal):
            return cupy.empty(shape, numpy_dtype(dtype))

    def stream(self, device: Device) -> int:
        """Return CuPy's current stream on the device."""
        cupy = sys.modules["cupy"]
        with cupy.cuda.Device(device.ordinal):
            return int(cupy.cuda.get_current_stream().ptr)


class Torch:
    """`torch.Tensor`, on the CPU or on torch's current stream of its GPU."""

    name = "torch"

    def recognises(self, kind: type) -> bool:
        """Whether objects of a type are tensors."""
        torch = sys.modules.get("torch")
        return torch is not None and issubclass(kind, torch.Tensor)

    def view(self, array: Any) -> ArrayView:
        """Return where the tensor's elements are."""
        torch = sys.modules["torch"]
        if array.layout is not torch.strided or array.is_quantized:
            raise ArgumentTypeError("sparse and quantised tensors are not supported; densify it")
        if array.requires_grad and torch.is_grad_enabled():
            raise ArgumentTypeError("the tensor requires grad, which would be lost; detach() it")
        if array.is_conj() or array.is_neg():
            raise ArgumentTypeError("the tensor is a lazy conjugate; call resolve_conj() on it")
        dtype = str(array.dtype).removeprefix("torch.")
        if not dtypes.is_known(dtype):
            raise UnsupportedDTypeError(
                f"Unsupported dtype {dtype!r}; kernels know {dtypes.names()}"
            )
        if array.device.type not in ("cpu", "cuda"):
            raise ArgumentTypeError(f"tensors on {array.device} are not supported")
        device = HOST if array.device.type == "cpu" else Device("cuda", array.device.index)
        itemsize = array.element_size()
        strides = tuple(stride * itemsize for stride in array.stride())
        return ArrayView(array.data_ptr(), tuple(array.shape), strides, dtype, device)

    def empty(self, shape: tuple[int, ...], dtype: str, device: Device) -> Any:
        """Return a new tensor."""
        torch = sys.modules["torch"]
        place = "cpu" if device.is_host else f"cuda:{device.ordinal}"
        return torch.empty(shape, dtype=getattr(torch, dtype), device=place)

    def stream(self, device: Device) -> int:
        """Return torch's current stream on the device."""
        if device.is_host:
            return 0
        return int(sys.modules["torch"].cuda.current_stream(device.ordinal).cuda_stream)


class Own:
    """`kspec.DeviceArray`, on the legacy default stream."""

    name = "kspec"

    def recognises(self, kind: type) -> bool:
        """Whether objects of a type are kspec's own arrays."""
        return issubclass(kind, DeviceArray)

    def view(self, array: Any) -> ArrayView:
        """Return where the array's elements are."""
        return ArrayView(
            array.ptr, array.shape, array.strides, dtype_name(array.dtype), array.device
        )

    def empty(self, shape: tuple[int, ...], dtype: str, device: Device) -> Any:
        """Return a new array."""
        return arrays.empty(shape, numpy_dtype(dtype), device)

    def stream(self, device: Device) -> int:
        """Return 0, the legacy default stream."""
        return 0


class CudaArrayInterface:
    """Any other object with ``__cuda_array_interface__``; outputs are kspec's own arrays."""

    name = "cuda array interface"

    def recognises(self, kind: type) -> bool:
        """Whether objects of a type export CUDA memory."""
        return hasattr(kind, "__cuda_array_interface__")

    def view(self, array: Any) -> ArrayView:
        """Return where the array's elements are; work on its stream is waited for."""
        try:
            interface = array.__cuda_array_interface__
        except AttributeError as error:  # an array on the CPU, for instance
            if _DLPACK.recognises(type(array)):
                return _DLPACK.view(array)
            kind = type(array).__name__
            raise ArgumentTypeError(
                f"this {kind} is no CUDA array ({error}); a NumPy array runs on the host device"
            ) from error
        if interface.get("mask") is not None:
            raise UnsupportedDTypeError("masked arrays are not supported")
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
            driver.synchronize_stream(ordinal, int(stream))
        return ArrayView(ptr, shape, tuple(strides), name, Device("cuda", ordinal), readonly)

    def empty(self, shape: tuple[int, ...], dtype: str, device: Device) -> Any:
        """Return a new array of kspec's."""
        return arrays.empty(shape, numpy_dtype(dtype), device)

    def stream(self, device: Device) -> int:
        """Return 0, the legacy default stream."""
        return 0


class DLPack:
    """Any other object with ``__dlpack__``, on the CPU or CUDA; outputs are kspec's own arrays."""

    name = "dlpack"

    def recognises(self, kind: type) -> bool:
        """Whether objects of a type export themselves by DLPack."""
        return hasattr(kind, "__dlpack__") and hasattr(kind, "__dlpack_device__")

    def view(self, array: Any) -> ArrayView:
        """Return where the array's elements are; the legacy default stream waits for them."""
        one = dlpack.import_array(array)
        return ArrayView(
            one.ptr, one.shape, one.strides, one.dtype, one.device, one.readonly, one.owner
        )

    def empty(self, shape: tuple[int, ...], dtype: str, device: Device) -> Any:
        """Return a new array of kspec's."""
        return arrays.empty(shape, numpy_dtype(dtype), device)

    def stream(self, device: Device) -> int:
        """Return 0, the legacy default stream."""
        return 0


class CuPyConvertible:
    """Any object with CuPy's ``__cupy_get_ndarray__``; outputs are CuPy arrays."""

    name = "cupy convertible"

    def recognises(self, kind: type) -> bool:
        """Whether objects of a type have an array to give."""
        return hasattr(kind, "__cupy_get_ndarray__")

    def view(self, array: Any) -> ArrayView:
        """Return where the elements of its array are."""
        inner = array.__cupy_get_ndarray__()
        library = library_of(inner)
        if library is None or library is self:
            raise ArgumentTypeError(
                f"__cupy_get_ndarray__ of this {type(array).__name__} returns no array, but a "
                f"{type(inner).__name__}"
            )
        view = library.view(inner)
        return replace(view, owner=(inner, view.owner))

    def empty(self, shape: tuple[int, ...], dtype: str, device: Device) -> Any:
        """Return a new array of the library that fits the device."""
        return self._library(device).empty(shape, dtype, device)

    def stream(self, device: Device) -> int:
        """Return that library's current stream."""
        return self._library(device).stream(device)

    def _library(self, device: Device) -> Library:
        return NumPy() if device.is_host else CuPy()


def _described(interface: dict[str, Any]) -> np.dtype[Any]:
    """Return the dtype of an exported array: that of its description if it is a struct."""
    dtype: np.dtype[Any] = np.dtype(interface["typestr"])
    description = interface.get("descr", ())
    if dtype.kind == "V" and len(description) > 1:
        # The format of .npy files has the same descriptions, with the gaps as unnamed fields.
        dtype = np.lib.format.descr_to_dtype(list(description))
    return dtype


_DLPACK = DLPack()
# The first that recognises a type wins; protocols come after the libraries that have them, and
# CuPy's own, which says more, before the general ones.
_LIBRARIES: tuple[Library, ...] = (
    NumPy(),
    Own(),
    CuPy(),
    Torch(),
    CuPyConvertible(),
    CudaArrayInterface(),
    _DLPACK,
)


@functools.lru_cache(maxsize=256)
def _library_of_type(kind: type) -> Library | None:
    return next((library for library in _LIBRARIES if library.recognises(kind)), None)


def library_of(value: object) -> Library | None:
    """Return the library a value is an array of, or None if it is no array."""
    if isinstance(value, np.generic):
        return None  # NumPy scalars have array interfaces, but are scalars
    return _library_of_type(type(value))  # type: ignore[arg-type]  # types are hashable


def default_library(device: Device) -> Library:
    """Return who makes the outputs of a call without any array: NumPy, or kspec on a GPU."""
    return NumPy() if device.is_host else Own()


@functools.lru_cache(maxsize=256)
def _overrides(kind: type) -> bool:
    return hasattr(kind, "__cupy_override_elementwise_kernel__")


def overriding(values: Iterable[object]) -> Any:
    """Return the first value whose class runs elementwise kernels itself, or None.

    That is CuPy's hook for arrays that are more than memory:
    ``value.__cupy_override_elementwise_kernel__(kernel, *args, **keywords)``.
    """
    return next((value for value in values if _overrides(type(value))), None)  # type: ignore[arg-type]


def stream_of_call(
    stream: object,
    library: Library | None,
    device: Device,
    libraries: Iterable[Library | None] = (),
) -> int:
    """Return the handle of the stream a call is queued on: the caller's, or the library's.

    Parameters
    ----------
    stream : stream or None
        What the caller gave.
    library : Library or None
        Whose current stream it is otherwise.
    device : Device
        Where the call runs.
    libraries : iterable of Library or None
        Of all arguments: arrays that came by DLPack are ready on the legacy default stream.

    Raises
    ------
    ArgumentTypeError
        If `stream` is none.
    DeviceMismatchError
        If it belongs to another device.
    """
    if stream is not None:
        handle = stream_handle(stream)
        if not device.is_host and not driver.is_stream_of(device.ordinal, handle):
            raise DeviceMismatchError(
                f"the stream belongs to another device than {device}, where the arrays live"
            )
    else:
        handle = library.stream(device) if library is not None else 0
    special = handle in (0, driver.LEGACY_STREAM)
    if not special and not device.is_host and any(one is _DLPACK for one in libraries):
        driver.wait_for_stream(device.ordinal, handle, driver.LEGACY_STREAM)
    return handle


def stream_handle(stream: object) -> int:
    """Return the handle of a stream given by the caller.

    Parameters
    ----------
    stream : int, or object with ``ptr`` or ``__cuda_stream__``
        A handle, a CuPy stream, a torch or cuda.core stream.

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
    if callable(protocol):
        return int(protocol()[1])
    raise ArgumentTypeError(
        f"stream must be a stream handle or an object with .ptr or __cuda_stream__, "
        f"not {type(stream).__name__}"
    )
