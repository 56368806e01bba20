"""Whose array an argument is, and copies of arrays of any library.

>>> import numpy as np
>>> library = library_of(np.zeros(3))
>>> library.name, str(library.view(np.zeros(3)).device)
('numpy', 'host')
>>> asnumpy(asarray(np.arange(3, dtype=np.float32), device="host"))
array([0., 1., 2.], dtype=float32)

`kspec.runtime.libraries.registry` and `protocol_libraries` have the libraries, `protocols` what
serves all others; `order` says which stream a call is queued on.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from kspec.errors import ArgumentTypeError
from kspec.runtime.driver.device import Device, parse_device
from kspec.runtime.libraries.registry import (
    CuPy,
    Library,
    NumPy,
    Own,
    Plain,
    Torch,
    check_no_mask,
)
from kspec.runtime.libraries.untraced import untraced
from kspec.runtime.memory import ArrayView

if TYPE_CHECKING:
    import numpy.typing as npt

    from kspec.runtime.libraries.protocols import CudaArrayInterface
    from kspec.runtime.memory.device_array import DeviceArray

__all__ = [
    "Library",
    "asarray",
    "asnumpy",
    "default_library",
    "library_of",
    "overriding",
    "view_of",
]


class CuPyConvertible(Plain):
    """Any object with CuPy's ``__cupy_get_ndarray__``; outputs are CuPy arrays."""

    name = "cupy convertible"

    def recognises(self, kind: type) -> bool:
        """Whether objects of a type have an array to give."""
        return getattr(kind, "__cupy_get_ndarray__", None) is not None

    def view(self, array: Any) -> ArrayView:
        """Return the view of its array."""
        from kspec.runtime.memory.device_array import show

        inner = array.__cupy_get_ndarray__()
        library = library_of(inner)
        if library is None or library is self:
            raise ArgumentTypeError(
                f"__cupy_get_ndarray__ of this {type(array).__name__} returns a "
                f"{type(inner).__name__}, not an array"
            )
        view = library.view(inner)
        show(inner)
        return replace(view, owner=(inner, view.owner))

    def empty(self, shape: tuple[int, ...], dtype: str, device: Device) -> Any:
        """Return a new array of the library that fits the device."""
        return self._library(device).empty(shape, dtype, device)

    def stream(self, device: Device) -> int:
        """Return that library's current stream."""
        return self._library(device).stream(device)

    def numpy(self, array: Any) -> npt.NDArray[Any]:
        """Return a copy of its array."""
        inner = array.__cupy_get_ndarray__()
        return self._library(self.view(array).device).numpy(inner)

    def _library(self, device: Device) -> Library:
        return NumPy() if device.is_host else CuPy()


# The first that recognises a type wins; protocols come after the libraries that have them, and
# CuPy's own, which says more, before the general ones.
_LIBRARIES: tuple[Library, ...] = (NumPy(), Own(), CuPy(), Torch())


@functools.cache
def _interface() -> CudaArrayInterface:
    from kspec.runtime.libraries.protocols import CudaArrayInterface

    return CudaArrayInterface()


@functools.cache
def _further_libraries() -> tuple[Library, ...]:
    """Return the libraries behind those, which numbers and arrays of others are looked up in."""
    from kspec.runtime.libraries.protocol_libraries import Jax, Numba
    from kspec.runtime.libraries.protocols import DLPACK

    return (Jax(), Numba(), CuPyConvertible(), _interface(), DLPACK)


@functools.lru_cache(maxsize=256)
def _library_of_type(kind: type) -> Library | None:
    for library in _LIBRARIES:
        if library.recognises(kind):
            return library
    return next((library for library in _further_libraries() if library.recognises(kind)), None)


def library_of(value: object) -> Library | None:
    """Return the library of an array, or None for other values."""
    if isinstance(value, np.generic):
        return None  # NumPy scalars have array interfaces, but are scalars
    library = _library_of_type(type(value))  # type: ignore[arg-type]  # types are hashable
    return _interface() if library is None and _interface().is_set_on(value) else library


def view_of(where: str, library: Library, value: Any) -> ArrayView:
    """Return the view of an argument; errors name the argument.

    Parameters
    ----------
    where : str
        Its name in messages.
    library : Library
        Whose array it is.
    value : object
        The array.
    """
    try:
        return library.view(value)
    except ArgumentTypeError as error:
        raise type(error)(f"{where}: {error}") from error.__cause__
    except Exception as error:  # of whose array it is
        error.add_note(f"for {where}")
        raise


def default_library(device: Device) -> Library:
    """Return the library that makes outputs of calls without arrays: NumPy, or kspec on a GPU."""
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


@untraced
def asarray(
    values: Any, dtype: npt.DTypeLike | None = None, device: Device | str | None = None
) -> DeviceArray:
    """Return a C-ordered copy of `values` on a device.

    Parameters
    ----------
    values : array_like
        An array of any library, or anything `numpy.asarray` accepts; a `DeviceArray` is returned
        as it is when dtype and device already fit, and copied otherwise. Copies of arrays on GPUs
        go through the memory of the host.
    dtype : dtype, optional
        Default: that of `values`.
    device : {"host", "cuda", "cuda:N"}, optional
        Default: the current CUDA device if there is one, else the host.

    Raises
    ------
    ArgumentTypeError
        For what kernels take no elements of: a masked array, a sparse or a quantised tensor.
    """
    from kspec.runtime.memory.device_array import DeviceArray, as_element_dtype, from_numpy

    check_no_mask(values)
    wanted = None if dtype is None else as_element_dtype(dtype)
    if isinstance(values, DeviceArray):
        same_dtype = wanted is None or wanted == values.dtype
        if same_dtype and (device is None or parse_device(device) == values.device):
            return values
    if not isinstance(values, np.ndarray) and library_of(values) is not None:
        values = asnumpy(values)
    return from_numpy(np.asarray(values, wanted), device)


@untraced
def asnumpy(array: Any) -> npt.NDArray[Any]:
    """Return a NumPy copy of an array, once everything queued on its device has run.

    Parameters
    ----------
    array : array_like
        An array of any library on any device, a tensor that requires grad among them, or anything
        that `numpy.array` understands, so that code can be written for all of them.

    Raises
    ------
    ArgumentTypeError
        For other objects: an arbitrary one, a masked array, a sparse or a quantised tensor.
    ToolNotFoundError
        For bfloat16 and other small floats where ml_dtypes, which NumPy has them from, is missing.
    """
    library = library_of(array)
    if library is not None:
        return library.numpy(array)
    copied: npt.NDArray[Any] = np.array(array)
    if copied.dtype == object and copied.shape == ():
        raise ArgumentTypeError(
            f"{type(array).__name__} is not an array; pass an array of any library, a list or a "
            "number"
        )
    return copied
