"""Arrays of any library, copied to NumPy and to kspec's own.

>>> import numpy as np
>>> asnumpy(asarray(np.arange(3, dtype=np.float32), device="host"))
array([0., 1., 2.], dtype=float32)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kspec.errors import ArgumentTypeError
from kspec.runtime.driver.device import Device, parse_device
from kspec.runtime.libraries.lookup import library_of
from kspec.runtime.libraries.registry import check_no_mask
from kspec.runtime.memory.device_array import DeviceArray, as_element_dtype, from_numpy

if TYPE_CHECKING:
    import numpy.typing as npt


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
    check_no_mask(values)
    wanted = None if dtype is None else as_element_dtype(dtype)
    if isinstance(values, DeviceArray):
        same_dtype = wanted is None or wanted == values.dtype
        if same_dtype and (device is None or parse_device(device) == values.device):
            return values
    if not isinstance(values, np.ndarray) and library_of(values) is not None:
        values = asnumpy(values)
    return from_numpy(np.asarray(values, wanted), device)


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
