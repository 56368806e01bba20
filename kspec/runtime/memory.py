"""Memory that a module owns: the ``__constant__`` and ``__device__`` variables of raw CUDA source.

>>> from kspec.runtime.raw import RawModule
>>> code = '''__constant__ float coefficients[4];
... extern "C" __global__ void f(float* y) { y[threadIdx.x] = coefficients[threadIdx.x]; }'''
>>> symbol = RawModule(code=code).get_global("coefficients", device="host")
>>> symbol.array(4, "float32")[...] = [1, 2, 3, 4]

`kspec.runtime.raw` makes them; `kspec.runtime.arrays` has the memory users allocate.
"""

from __future__ import annotations

import math

import numpy.typing as npt

from kspec.errors import ShapeError
from kspec.runtime.arrays import DeviceArray, as_element_dtype, as_shape
from kspec.runtime.device import Device
from kspec.runtime.handle import Handle
from kspec.runtime.views import c_strides


class Symbol(Handle):
    """A global variable of a loaded module.

    Accepted as a kernel argument, where it passes its address.

    Attributes
    ----------
    name : str
        As it was asked for.
    ptr : int
        Address of the variable.
    nbytes : int
        Its size.
    device : Device
        Where the module is loaded.
    """

    def __init__(self, name: str, ptr: int, nbytes: int, device: Device, module: object) -> None:
        self.name = name
        self.ptr = ptr
        self.nbytes = nbytes
        self.device = device
        self._module = module  # keeps the variable alive

    def array(self, shape: int | tuple[int, ...], dtype: npt.DTypeLike) -> DeviceArray:
        """Return a C-ordered array over the variable's memory.

        Parameters
        ----------
        shape : int or tuple of int
            Extents; together at most the variable's size.
        dtype : dtype
            Element type.

        Raises
        ------
        ShapeError
            If the array would be larger than the variable.
        UnsupportedDTypeError
            If kernels do not know the dtype.
        """
        extents = as_shape(shape)
        element = as_element_dtype(dtype)
        wanted = math.prod(extents) * element.itemsize
        if min(extents, default=0) < 0 or wanted > self.nbytes:
            raise ShapeError(
                f"{self.name} has {self.nbytes} bytes; an array {extents} of {element.name} "
                f"needs {wanted}"
            )
        strides = c_strides(extents, element.itemsize)
        return DeviceArray(self, self.ptr, extents, strides, element, self.device)

    def __repr__(self) -> str:
        return f"<Symbol {self.name}: {self.nbytes} bytes on {self.device}>"
