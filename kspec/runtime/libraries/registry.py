"""Array libraries that the runtime knows: how to view, make and queue work on their arrays.

A `Library` is one row: how to view its arrays, make new ones, and find its current stream.  A new
library is a new class here and an entry in `kspec.runtime.libraries.lookup`.  No library is ever
imported: an argument that is one of its arrays has imported it already.

>>> import numpy as np
>>> view = NumPy().view(np.zeros(3))
>>> view.shape, view.dtype, str(view.device)
((3,), 'float64', 'host')
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from kspec.errors import ArgumentTypeError, UnsupportedDTypeError
from kspec.model import dtypes
from kspec.runtime import driver
from kspec.runtime.driver.device import HOST, Device
from kspec.runtime.libraries.untraced import tell_torch
from kspec.runtime.memory import ArrayView, dtype_name, numpy_dtype

if TYPE_CHECKING:
    import numpy.typing as npt

MASKED = "masked arrays are not supported; pass array.filled(...)"


class Library(Protocol):
    """The runtime's interface to one array library.

    Attributes
    ----------
    name : str
        Its name.
    counts : bool
        Whether it wants to know what kernels write to.
    borrowed : bool
        Whether its arrays are borrowed: memory of another owner, which is ready on the stream that
        `stream` returns, and must not be given back before a kernel has run.
    read_only : str
        Message for arrays of it that cannot be written to, with the way out.
    """

    name: str
    counts: bool
    borrowed: bool
    read_only: str

    def recognises(self, kind: type) -> bool:
        """Whether objects of a type are arrays of this library."""

    def view(self, array: Any) -> ArrayView:
        """Return the place of the array's elements."""

    def empty(self, shape: tuple[int, ...], dtype: str, device: Device) -> Any:
        """Return a new C-ordered array of undefined elements."""

    def stream(self, device: Device) -> int:
        """Return the handle of the library's current stream on a device."""

    def numpy(self, array: Any) -> npt.NDArray[Any]:
        """Return a NumPy copy, once everything queued on the array's device has run."""

    def keep(self, arrays: Sequence[Any], device: Device, stream: int) -> None:
        """Keep memory from reuse until the work queued on a stream has run."""

    def finish(self, array: Any, device: Device, stream: int) -> Any:
        """Return the caller's form of an array of `empty` that was written to on a stream."""

    def wrote(self, array: Any) -> None:
        """Take note that a kernel has written to an array."""


class Plain:
    """Defaults of most libraries: memory of their own, arrays that are returned."""

    counts = False
    borrowed = False
    read_only = "the array is read-only; pass a copy, or another array that can be written to"

    def keep(self, arrays: Sequence[Any], device: Device, stream: int) -> None:
        """Keep the arrays until what is queued has run."""
        from kspec.runtime.memory.deferred_release import defer_release

        defer_release(device.ordinal, stream, arrays)

    def finish(self, array: Any, device: Device, stream: int) -> Any:
        """Return the array."""
        return array

    def wrote(self, array: Any) -> None:
        """Do nothing."""


class NumPy(Plain):
    """`numpy.ndarray`: the host device."""

    name = "numpy"

    def recognises(self, kind: type) -> bool:
        """Whether objects of a type are NumPy arrays."""
        return issubclass(kind, np.ndarray)

    def view(self, array: Any) -> ArrayView:
        """Return the place of the array's elements."""
        check_no_mask(array)
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
        check_no_mask(array)
        return np.array(array)


def check_no_mask(array: object, where: str = "") -> None:
    """Refuse masked arrays of NumPy's, whose masks kernels would not see."""
    masked = sys.modules.get("numpy.ma")  # importing it takes 10 ms
    if masked is not None and isinstance(array, masked.MaskedArray):
        raise UnsupportedDTypeError(f"{where}: {MASKED}" if where else MASKED)


class CuPy(Plain):
    """`cupy.ndarray`, on CuPy's current stream."""

    name = "cupy"

    def recognises(self, kind: type) -> bool:
        """Whether objects of a type are CuPy arrays."""
        cupy = sys.modules.get("cupy")
        return cupy is not None and issubclass(kind, cupy.ndarray)

    def view(self, array: Any) -> ArrayView:
        """Return the place of the array's elements."""
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
        return int(sys.modules["cupy"].cuda.get_current_stream(device.ordinal).ptr)

    def numpy(self, array: Any) -> npt.NDArray[Any]:
        """Return a copy, which CuPy makes of the elements only."""
        driver.synchronize(array.data.device_id)
        copied: npt.NDArray[Any] = array.get()
        return copied


class Torch(Plain):
    """`torch.Tensor`, on the CPU or on torch's current stream of its GPU."""

    name = "torch"
    counts = True

    def recognises(self, kind: type) -> bool:
        """Whether objects of a type are tensors."""
        torch = sys.modules.get("torch")
        found = torch is not None and issubclass(kind, torch.Tensor)
        if found:
            tell_torch()
        return found

    def view(self, array: Any) -> ArrayView:
        """Return the view of the tensor."""
        torch = sys.modules["torch"]
        _check_dense(torch, array)
        if array.requires_grad and torch.is_grad_enabled():
            raise ArgumentTypeError(
                "the tensor requires grad, and a plain call is not part of torch's graph: pass "
                ".detach(), or call the kernel as an operator that has a backward "
                "(kspec.torch.register)"
            )
        if array.is_conj() or array.is_neg():
            raise ArgumentTypeError(
                "the tensor is conjugate or negative by a flag only (x.conj()), which a kernel "
                "does not see: pass x.resolve_conj().resolve_neg()"
            )
        dtype = str(array.dtype).removeprefix("torch.")
        if not dtypes.is_known(dtype):
            raise UnsupportedDTypeError(
                f"Unsupported dtype {dtype!r}; kernels know {dtypes.names()}"
            )
        if array.device.type not in ("cpu", "cuda"):
            raise ArgumentTypeError(
                f"the tensor is on {array.device}; kernels run on CUDA devices and on the host: "
                'pass x.to("cuda") or x.cpu()'
            )
        device = HOST if array.device.type == "cpu" else Device("cuda", array.device.index)
        itemsize = array.element_size()
        strides = tuple(stride * itemsize for stride in array.stride())
        return ArrayView(_address(array), tuple(array.shape), strides, dtype, device)

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

    def keep(self, arrays: Sequence[Any], device: Device, stream: int) -> None:
        """Tell torch's allocator, which then asks before it uses the memory anew."""
        torch = sys.modules["torch"]
        theirs = torch.cuda.ExternalStream(stream, device=device.ordinal)
        for array in arrays:
            array.record_stream(theirs)

    def wrote(self, array: Any) -> None:
        """Tell autograd, which refuses to use what it saved before."""
        sys.modules["torch"].autograd.graph.increment_version(array)


def _check_dense(torch: Any, tensor: Any) -> None:
    """Refuse tensors without strided storage, and name the conversion."""
    way_out = ""
    if tensor.is_quantized:
        kind, way_out = "quantised", "x.dequantize(), or x.int_repr() for its integers"
    elif tensor.is_nested:
        kind, way_out = "nested", "x.to_padded_tensor(padding), or each of x.unbind()"
    elif tensor.layout is not torch.strided:
        kind = "sparse" if "sparse" in str(tensor.layout) else "not strided"
        way_out = "x.to_dense()"
    if way_out:
        raise ArgumentTypeError(f"the tensor is {kind} ({tensor.layout}): pass {way_out}")


def _address(tensor: Any) -> int:
    """Return the address of a tensor; refuse tensors that have no memory of their own."""
    try:
        address = int(tensor.data_ptr())
    except RuntimeError:
        address = 0
    if not address and tensor.numel():
        raise ArgumentTypeError(
            f"the {type(tensor).__name__} has no memory of its own, as under torch.compile, "
            "torch.func.vmap or in a fake mode: pass a plain tensor, or call the kernel as an "
            "operator (kspec.torch.register)"
        )
    return address


class Own(Plain):
    """`kspec.DeviceArray`, on the legacy default stream."""

    name = "kspec"

    def recognises(self, kind: type) -> bool:
        """Whether objects of a type are kspec's own arrays."""
        own = sys.modules.get("kspec.runtime.memory.device_array")
        return own is not None and issubclass(kind, own.DeviceArray)

    def view(self, array: Any) -> ArrayView:
        """Return the place of the array's elements."""
        return ArrayView(
            array._ptr, array.shape, array.strides, dtype_name(array.dtype), array.device
        )

    def empty(self, shape: tuple[int, ...], dtype: str, device: Device) -> Any:
        """Return a new array."""
        from kspec.runtime.memory.device_array import empty

        return empty(shape, numpy_dtype(dtype), device)

    def stream(self, device: Device) -> int:
        """Return 0, the legacy default stream."""
        return 0

    def numpy(self, array: Any) -> npt.NDArray[Any]:
        """Return a copy."""
        return copy_of(self.view(array))

    def keep(self, arrays: Sequence[Any], device: Device, stream: int) -> None:
        """Do nothing: their pool knows where memory is used (`device_array.use_on`)."""


def copy_of(view: ArrayView) -> npt.NDArray[Any]:
    """Return a NumPy copy of an array, once everything queued on its device has run."""
    from kspec.runtime.memory.device_array import fetch

    return fetch(view.ptr, view.shape, view.strides, numpy_dtype(view.dtype), view.device)
