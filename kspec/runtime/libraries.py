"""Array libraries that the runtime knows: how to view, make and queue work on their arrays.

A `Library` is one row: how to view its arrays, make new ones, and find its current stream.  A
new library is a new class here and an entry in `kspec.runtime.interop`.  No library is ever
imported: an argument that is one of its arrays has imported it already.

>>> import numpy as np
import numpy.typing as npt
>>> view = NumPy().view(np.zeros(3))
>>> view.shape, view.dtype, str(view.device)
((3,), 'float64', 'host')
"""

from __future__ import annotations

import sys
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from kspec import dtypes
from kspec.errors import ArgumentTypeError, UnsupportedDTypeError
from kspec.runtime import arrays, driver
from kspec.runtime.arrays import DeviceArray
from kspec.runtime.device import HOST, Device
from kspec.runtime.views import ArrayView, dtype_name, numpy_dtype


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

    def numpy(self, array: Any) -> npt.NDArray[Any]:
        """Return a NumPy copy, once everything queued on the array's device has run."""


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

    def numpy(self, array: Any) -> npt.NDArray[Any]:
        """Return a copy."""
        return np.array(array)


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

    def numpy(self, array: Any) -> npt.NDArray[Any]:
        """Return a copy, which CuPy makes of the elements only."""
        driver.synchronize(array.data.device_id)
        copied: npt.NDArray[Any] = array.get()
        return copied


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

    def numpy(self, array: Any) -> npt.NDArray[Any]:
        """Return a copy, without the history that autograd keeps."""
        plain = array.detach()
        if plain.device.type == "cuda":
            driver.synchronize(plain.device.index)
            plain = plain.cpu()  # the elements only
        resolved = plain.resolve_conj().resolve_neg()  # the view does not keep it alive
        return copy_of(self.view(resolved))


class Own:
    """`kspec.DeviceArray`, on the legacy default stream."""

    name = "kspec"

    def recognises(self, kind: type) -> bool:
        """Whether objects of a type are kspec's own arrays."""
        return issubclass(kind, DeviceArray)

    def view(self, array: Any) -> ArrayView:
        """Return where the array's elements are."""
        return ArrayView(
            array._ptr, array.shape, array.strides, dtype_name(array.dtype), array.device
        )

    def empty(self, shape: tuple[int, ...], dtype: str, device: Device) -> Any:
        """Return a new array."""
        return arrays.empty(shape, numpy_dtype(dtype), device)

    def stream(self, device: Device) -> int:
        """Return 0, the legacy default stream."""
        return 0

    def numpy(self, array: Any) -> npt.NDArray[Any]:
        """Return a copy."""
        return copy_of(self.view(array))


def copy_of(view: ArrayView) -> npt.NDArray[Any]:
    """Return a NumPy copy of an array, once everything queued on its device has run."""
    return arrays.fetch(view.ptr, view.shape, view.strides, numpy_dtype(view.dtype), view.device)
