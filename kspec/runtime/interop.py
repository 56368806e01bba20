"""Whose array an argument is, and which stream a call is queued on.

>>> import numpy as np
import numpy.typing as npt
>>> library = library_of(np.zeros(3))
>>> library.name, str(library.view(np.zeros(3)).device)
('numpy', 'host')

`kspec.runtime.libraries` has the libraries, `kspec.runtime.protocols` what serves all others.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from kspec.errors import ArgumentTypeError, DeviceMismatchError
from kspec.runtime import driver
from kspec.runtime.arrays import show
from kspec.runtime.device import Device
from kspec.runtime.libraries import CuPy, Library, NumPy, Own, Torch
from kspec.runtime.protocols import DLPACK, CudaArrayInterface
from kspec.runtime.views import ArrayView

__all__ = [
    "Library",
    "default_library",
    "library_of",
    "overriding",
    "stream_handle",
    "stream_of_call",
]


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
_LIBRARIES: tuple[Library, ...] = (
    NumPy(),
    Own(),
    CuPy(),
    Torch(),
    CuPyConvertible(),
    CudaArrayInterface(),
    DLPACK,
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
    if not special and not device.is_host and any(one is DLPACK for one in libraries):
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
