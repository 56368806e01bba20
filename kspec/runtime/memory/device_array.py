"""kspec's own array: a typed, strided view of memory on a CUDA or the host device.

For users without an array library, and for what the host device can check about memory that it
owns.  It computes nothing: it is made, viewed, passed to kernels and copied back.

>>> import numpy as np
>>> a = from_numpy(np.arange(6, dtype=np.float32), "host")
>>> to_numpy(a.reshape(2, 3).T[1])
array([1., 4.], dtype=float32)
"""

from __future__ import annotations

import ctypes
import math
import operator
from collections.abc import Callable, Iterable
from numbers import Number
from typing import TYPE_CHECKING, Any, Protocol, SupportsIndex

import numpy as np

from kspec.errors import UnsupportedDTypeError
from kspec.model import dtypes
from kspec.runtime import driver
from kspec.runtime.driver import memory as driver_memory
from kspec.runtime.driver import stream as driver_streams
from kspec.runtime.driver.device import Device, parse_device
from kspec.runtime.memory import (
    c_strides,
    dtype_name,
    is_c_contiguous,
    memory_bounds,
    numpy_dtype,
)
from kspec.runtime.memory.pool import PooledMemory, pool_of

if TYPE_CHECKING:
    import numpy.typing as npt

_ALIGNMENT = 16  # of host memory: that of the most aligned dtype


class Memory(Protocol):
    """Memory that is given back with its last reference."""

    @property
    def ptr(self) -> int:
        """Its address."""

    @property
    def nbytes(self) -> int:
        """Its size."""


class DeviceArray:
    """An n-dimensional array on a device.

    Made by `kspec.asarray`, `empty` and `zeros`; `kspec.asnumpy` copies it back.  Indexing with
    integers, slices, ``None`` and ``...`` gives views that share memory.

    Attributes
    ----------
    ptr : int
        Address of the first element. Once it was read, other code may use the memory on any
        stream while the array lives, so the pool does not take it back.
    shape, strides : tuple of int
        Extents, and distances in bytes.
    dtype : numpy.dtype
        Element type.
    device : Device
        Where it lives; ``str(device)`` is ``"host"`` or ``"cuda:0"``.
    """

    __slots__ = ("_memory", "_ptr", "device", "dtype", "shape", "strides")

    def __init__(
        self,
        memory: Memory,
        ptr: int,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        dtype: np.dtype[Any],
        device: Device,
    ) -> None:
        self._memory = memory
        self._ptr = ptr
        self.shape = shape
        self.strides = strides
        self.dtype = dtype
        self.device = device

    @property
    def ptr(self) -> int:
        """Address of the first element."""
        if isinstance(self._memory, PooledMemory):
            self._memory.show()
        return self._ptr

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements, gaps not counted."""
        return self.size * self.dtype.itemsize

    @property
    def T(self) -> DeviceArray:
        """View with the axes reversed."""
        return self.transpose()

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a 0-d array")
        return self.shape[0]

    def transpose(self, *axes: Any) -> DeviceArray:
        """Return a view with permuted axes, as integers or one tuple; without any, reversed."""
        shadow = self._shadow()
        return self._view(shadow, shadow.transpose(*axes))

    def reshape(self, *shape: Any) -> DeviceArray:
        """Return a view with another shape, as integers or one tuple; one extent may be -1.

        Raises
        ------
        ValueError
            If the sizes differ, or the elements do not follow each other in C order.
        """
        if not is_c_contiguous(self.shape, self.strides, self.dtype.itemsize):
            raise ValueError("only C-contiguous arrays can be reshaped without a copy")
        new = self._shadow().reshape(*shape).shape
        strides = c_strides(new, self.dtype.itemsize)
        return DeviceArray(self._memory, self._ptr, new, strides, self.dtype, self.device)

    def broadcast_to(self, shape: tuple[int, ...]) -> DeviceArray:
        """Return a view of another shape, which repeats elements.

        Raises
        ------
        ValueError
            If the shapes do not fit.
        """
        shadow = self._shadow()
        return self._view(shadow, np.broadcast_to(shadow, shape))

    def __getitem__(self, index: Any) -> DeviceArray:
        entries = index if isinstance(index, tuple) else (index,)
        for entry in entries:
            plain = entry is None or entry is Ellipsis or isinstance(entry, slice)
            # Indexing with an array is a copy in NumPy, even if it holds a single integer.
            many = isinstance(entry, bool | np.ndarray) or not hasattr(entry, "__index__")
            if not plain and many:
                raise IndexError(
                    f"arrays are indexed with integers, slices, None and ..., not {entry!r}"
                )
        # The ellipsis makes NumPy return a view where it would read a single element.
        complete = entries if Ellipsis in entries else (*entries, Ellipsis)
        shadow = self._shadow()
        return self._view(shadow, shadow[complete])

    def __setitem__(self, index: Any, value: Any) -> None:
        """Copy values into a view, by NumPy's rules of broadcasting and conversion.

        Raises
        ------
        ValueError
            If the view is not C-contiguous, or the values do not broadcast to its shape.
        """
        target = self[index]
        if not is_c_contiguous(target.shape, target.strides, self.dtype.itemsize):
            raise ValueError(
                "values can be assigned to C-contiguous views only; assign to more of the array, "
                "or copy it with kspec.asnumpy, change the copy and assign it as a whole"
            )
        source = np.empty(target.shape, self.dtype)
        source[...] = to_numpy(value) if isinstance(value, DeviceArray) else value
        _copy_in(target, source)

    def item(self) -> Any:
        """Return the only element as a Python number, copied from the device.

        Raises
        ------
        ValueError
            If there are more elements, or none.
        """
        if math.prod(self.shape) != 1:
            raise ValueError(f"an array of shape {self.shape} is not one number")
        return to_numpy(self).item()

    def __int__(self) -> int:
        return int(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())

    def __eq__(self, other: object) -> bool:
        # Identity would say False in silence where a number was meant.
        if isinstance(other, Number | np.generic | np.ndarray):
            raise TypeError("a DeviceArray computes nothing; compare kspec.asnumpy(array)")
        return self is other

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        text = np.array2string(to_numpy(self), separator=", ", prefix="DeviceArray(")
        return f"DeviceArray({text}, dtype={dtype_name(self.dtype)}, device={self.device})"

    def __reduce__(self) -> tuple[Any, ...]:
        # Copies and pickles have memory of their own.
        return from_numpy, (to_numpy(self), str(self.device))

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Version 3 of the protocol; missing on the host device."""
        if self.device.is_host:
            raise AttributeError("an array of the host device has no __cuda_array_interface__")
        # The stream 1 is the legacy default stream, which own arrays are written on.
        return {**self._interface(), "stream": 1}

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """NumPy's protocol, without a copy; missing on CUDA devices."""
        if not self.device.is_host:
            raise AttributeError("a CUDA array has no __array_interface__; use kspec.asnumpy")
        if self.dtype.names is not None or dtypes.lookup(dtype_name(self.dtype)).package:
            raise AttributeError(
                f"the protocol has no {self.dtype.name}; NumPy calls __array__ instead"
            )
        return self._interface()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """Serve NumPy on the host; refuse a hidden copy from a CUDA device."""
        if not self.device.is_host:
            raise TypeError(
                "a CUDA array is not converted to NumPy implicitly; use kspec.asnumpy(array)"
            )
        address = (ctypes.c_char * max(1, self._memory.nbytes)).from_address(self._memory.ptr)
        base = np.frombuffer(memoryview(address), np.uint8)
        offset = self._ptr - self._memory.ptr
        # As plain bytes: the protocol does not have every dtype.
        view = np.ndarray(self.shape, self._plain, base, offset, self.strides)
        # The NumPy array borrows the memory: it must keep this array alive.
        shared = np.asarray(_Borrowed(self, view)).view(self.dtype)
        return np.array(shared, dtype, copy=copy) if dtype or copy else shared

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: Any = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        """Export, without a copy unless asked for one; work queued on the device is waited for."""
        from kspec.runtime.memory import dlpack

        if dl_device not in (None, self.__dlpack_device__()):
            raise BufferError(f"the array lives on {self.device}; kspec.asnumpy copies it")
        if not self.device.is_host and stream != -1:
            driver.synchronize(self.device.ordinal)
        array = from_numpy(to_numpy(self), self.device) if copy else self
        return dlpack.export(array, array.ptr, array.shape, array.strides, array.dtype, self.device)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return DLPack's device type (1: CPU, 2: CUDA) and ordinal."""
        from kspec.runtime.memory import dlpack

        return dlpack.device_of(self.device)

    def _interface(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "strides": self.strides,
            "typestr": self.dtype.str,
            "data": (self.ptr, False),
            "version": 3,
            **({} if self.dtype.names is None else {"descr": self.dtype.descr}),
        }

    @property
    def _plain(self) -> np.dtype[Any]:
        """The dtype of elements as bytes."""
        return np.dtype(f"V{self.dtype.itemsize}")

    def _shadow(self) -> npt.NDArray[Any]:
        """Return a NumPy array of this layout over no real memory: for index arithmetic only."""
        base: npt.NDArray[Any] = np.empty((), self._plain)
        return np.lib.stride_tricks.as_strided(base, self.shape, self.strides)

    def _view(self, shadow: npt.NDArray[Any], view: npt.NDArray[Any]) -> DeviceArray:
        # NumPy moved the shadow's data pointer by exactly what ours has to move.
        moved = _address(view) - _address(shadow)
        return DeviceArray(
            self._memory, self._ptr + moved, view.shape, view.strides, self.dtype, self.device
        )


class _Borrowed:
    """Carries a NumPy view and what keeps its memory alive through `numpy.asarray`."""

    def __init__(self, owner: DeviceArray, view: npt.NDArray[Any]) -> None:
        self.owner = owner
        self.__array_interface__ = view.__array_interface__


def _address(array: npt.NDArray[Any]) -> int:
    return int(array.__array_interface__["data"][0])


def empty(
    shape: int | tuple[int, ...],
    dtype: npt.DTypeLike = "float64",
    device: Device | str | None = None,
) -> DeviceArray:
    """Return a new C-ordered array whose elements are undefined.

    Parameters
    ----------
    shape : int or tuple of int
        Extents.
    dtype : dtype, default float64
        Element type.
    device : {"host", "cuda", "cuda:N"}, optional
        Where; default: the current CUDA device if there is one, else the host.

    Raises
    ------
    UnsupportedDTypeError
        If kernels do not know the dtype.
    """
    extents = as_shape(shape)
    if any(extent < 0 for extent in extents):
        raise ValueError(f"negative dimensions are not allowed: {extents}")
    element = as_element_dtype(dtype)
    place = parse_device(device)
    nbytes = math.prod(extents) * element.itemsize
    if nbytes >= 2**63:
        raise MemoryError(f"no device has the {nbytes} bytes of {extents} elements")
    return array_maker(extents, element, place)()


def array_maker(
    shape: tuple[int, ...], dtype: np.dtype[Any], device: Device
) -> Callable[[], DeviceArray]:
    """Return a function that makes C-ordered arrays, which have nothing left to check."""
    nbytes = math.prod(shape) * dtype.itemsize
    strides = c_strides(shape, dtype.itemsize)
    if device.is_host:
        from kspec.host import buffers

        def make_on_host() -> DeviceArray:
            memory = buffers.HostBuffer(nbytes, _ALIGNMENT)
            return DeviceArray(memory, memory.ptr, shape, strides, dtype, device)

        return make_on_host
    bucket = pool_of(device.ordinal).bucket(nbytes)
    take, fresh, new = bucket.take, bucket.fresh, DeviceArray.__new__

    def make() -> DeviceArray:
        try:
            ptr = take()
        except IndexError:
            ptr = fresh()
        array = new(DeviceArray)  # the constructor takes 50 ns more, of 350
        array._memory = PooledMemory(bucket, ptr)
        array._ptr = ptr
        array.shape = shape
        array.strides = strides
        array.dtype = dtype
        array.device = device
        return array

    return make


def zeros(
    shape: int | tuple[int, ...],
    dtype: npt.DTypeLike = "float64",
    device: Device | str | None = None,
) -> DeviceArray:
    """Return a new C-ordered array of zeros; parameters as for `empty`."""
    array = empty(shape, dtype, device)
    clear(array)
    return array


def clear(array: DeviceArray, stream: int = 0) -> None:
    """Fill a C-contiguous array with zeros, on a GPU in the order of a stream."""
    if array.device.is_host:
        ctypes.memset(array._ptr, 0, array.nbytes)
    elif array.nbytes:
        driver_memory.zero_async(array.device.ordinal, array._ptr, array.nbytes, stream)


def from_numpy(source: npt.NDArray[Any], device: Device | str | None = None) -> DeviceArray:
    """Return a C-ordered copy of a NumPy array; `device` as for `empty`."""
    array = empty(source.shape, source.dtype, device)
    _copy_in(array, np.asarray(source, order="C"))
    return array


def _copy_in(array: DeviceArray, source: npt.NDArray[Any]) -> None:
    """Copy a C-ordered NumPy array into a C-contiguous one of the same dtype and shape."""
    if array.device.is_host:
        ctypes.memmove(array._ptr, source.ctypes.data, array.nbytes)
    else:
        driver_memory.copy(array.device.ordinal, array._ptr, source.ctypes.data, array.nbytes)


def to_numpy(array: DeviceArray) -> npt.NDArray[Any]:
    """Return a NumPy copy of an own array, once everything queued on its device has run."""
    return fetch(array._ptr, array.shape, array.strides, array.dtype, array.device)


def fetch(
    ptr: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    dtype: np.dtype[Any],
    device: Device,
) -> npt.NDArray[Any]:
    """Return a NumPy copy of anybody's memory, once everything queued on its device has run."""
    low, high = memory_bounds(ptr, shape, strides, dtype.itemsize)
    if low == high:
        return np.empty(shape, dtype)
    # Copy the whole span, then take the elements out of it.
    buffer = np.empty(high - low, np.uint8)
    if device.is_host:
        ctypes.memmove(buffer.ctypes.data, low, high - low)
    else:
        driver.synchronize(device.ordinal)
        driver_memory.copy(device.ordinal, buffer.ctypes.data, low, high - low)
    view: npt.NDArray[Any] = np.ndarray(shape, dtype, buffer, ptr - low, strides)
    return view.copy()


def use_on(stream: int, *values: object) -> None:
    """Take note that work with these arguments is going to be queued on a stream.

    Parameters
    ----------
    stream : int
        Handle. The work comes after the queued work of the last owners of the arrays' memory.
    *values : object
        Values other than arrays of kspec's do not matter.
    """
    if stream not in (0, driver_streams.LEGACY_STREAM):
        for value in values:
            if isinstance(value, DeviceArray) and isinstance(value._memory, PooledMemory):
                value._memory.leave(stream)


def show(value: object) -> None:
    """Take note that a value's memory may be used on any stream, if it is an array of kspec's."""
    if isinstance(value, DeviceArray) and isinstance(value._memory, PooledMemory):
        value._memory.show()


def as_shape(shape: SupportsIndex | Iterable[SupportsIndex]) -> tuple[int, ...]:
    """Return extents as a tuple of integers; raise `TypeError` for anything but integers."""
    # The second question takes 5 us.
    if not isinstance(shape, tuple) and isinstance(shape, SupportsIndex):
        return (operator.index(shape),)
    return tuple(map(operator.index, shape))


def as_element_dtype(dtype: npt.DTypeLike) -> np.dtype[Any]:
    """Return the NumPy dtype of array elements; raise `UnsupportedDTypeError` for all others."""
    given = _as_dtype(dtype)
    name = dtype_name(given)
    return given if given.names is not None else numpy_dtype(name)


def _as_dtype(dtype: npt.DTypeLike) -> np.dtype[Any]:
    if isinstance(dtype, str) and dtypes.is_known(dtype):
        return numpy_dtype(dtype)  # also where ml_dtypes is not imported
    try:
        return np.dtype(dtype)
    except TypeError as error:
        raise UnsupportedDTypeError(str(error)) from None
