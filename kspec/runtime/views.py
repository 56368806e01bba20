"""An array of any library as the runtime sees it: address, shape, strides, dtype, device.

`kspec.runtime.interop` makes views; `layout`, `dispatch` and `marshal` read them.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from kspec import dtypes
from kspec.errors import ToolNotFoundError, UnsupportedDTypeError
from kspec.runtime.device import Device


@dataclass(frozen=True, slots=True)
class ArrayView:
    """Somebody's array.

    Attributes
    ----------
    ptr : int
        Address of the first element.
    shape : tuple of int
        Extents.
    strides : tuple of int
        In bytes, one for each axis; any sign.
    dtype : str
        Canonical dtype name.
    device : Device
        Where it lives.
    readonly : bool
        Whether writing is forbidden.
    owner : object
        What lends the memory while the view lives, where the array itself does not.
    """

    ptr: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    device: Device
    readonly: bool = False
    owner: object = None

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def is_c_contiguous(self) -> bool:
        """Whether elements follow each other in C order."""
        return is_c_contiguous(self.shape, self.strides, dtypes.lookup(self.dtype).itemsize)


def is_c_contiguous(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> bool:
    """Return whether elements of this layout follow each other in C order."""
    if 0 in shape:
        return True
    expected = itemsize
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if extent != 1 and stride != expected:
            return False
        expected *= extent
    return True


def c_strides(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Return the byte strides of a new C-ordered array."""
    strides = []
    step = itemsize
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return tuple(reversed(strides))


@functools.cache
def numpy_dtype(name: str) -> np.dtype[Any]:
    """Return the NumPy dtype of a canonical name; bfloat16 comes from ml_dtypes."""
    if name != "bfloat16":
        return np.dtype(name)
    try:
        import ml_dtypes
    except ImportError as error:
        raise ToolNotFoundError("bfloat16 needs ml_dtypes: pip install ml_dtypes") from error
    bfloat16: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
    return bfloat16


@functools.cache
def dtype_name(dtype: np.dtype[Any]) -> str:
    """Return the canonical name of a NumPy dtype.

    Raises
    ------
    UnsupportedDTypeError
        If kernels do not support it (strings, objects, big-endian numbers, ...).
    """
    if not dtype.isnative:
        raise UnsupportedDTypeError(
            f"dtype {dtype.str!r} is not in native byte order; convert the array first"
        )
    if not dtypes.is_known(dtype.name):
        raise UnsupportedDTypeError(
            f"Unsupported dtype {dtype.name!r}; kernels know {dtypes.names()}"
        )
    return dtype.name
