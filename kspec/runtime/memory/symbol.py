"""Memory that a module owns: the ``__constant__`` and ``__device__`` variables of raw CUDA source.

>>> from kspec.runtime.raw.kernel import RawModule
>>> code = '''__constant__ float coefficients[4];
... extern "C" __global__ void f(float* y) { y[threadIdx.x] = coefficients[threadIdx.x]; }'''
>>> symbol = RawModule(code=code).get_global("coefficients", device="host")
>>> symbol.array(4, "float32")[...] = [1, 2, 3, 4]

`kspec.runtime.raw.kernel` makes them; `kspec.runtime.memory.device_array` has the memory users
allocate.
"""

from __future__ import annotations

import functools
import math
import sys
from typing import TYPE_CHECKING, Any

from kspec.errors import ShapeError
from kspec.runtime.driver.device import Device
from kspec.runtime.memory import c_strides
from kspec.runtime.memory.device_array import DeviceArray, as_element_dtype, as_shape
from kspec.runtime.memory.handle import Handle

if TYPE_CHECKING:
    import numpy.typing as npt


class Symbol(Handle):
    """A global variable of a loaded module.

    Accepted as a kernel argument, where it passes its address.  A variable on a CUDA device that is
    asked for after CuPy was imported is a `cupy.cuda.MemoryPointer` as well; its `device` is
    CuPy's then, because CuPy's arrays take theirs from their pointer.

    Attributes
    ----------
    name : str
        As it was asked for.
    ptr : int
        Address of the variable.
    nbytes : int
        Its size.
    place : Device
        Where the module is loaded.
    device : Device or cupy.cuda.Device
        The same device.
    """

    def __init__(self, name: str, ptr: int, nbytes: int, place: Device, module: object) -> None:
        self.name = name
        self.nbytes = nbytes
        self.place = place
        self._address = ptr
        self._module = module  # keeps the variable alive

    @property
    def ptr(self) -> int:
        """Address of the variable."""
        return self._address

    @property
    def device(self) -> Any:
        """Device that the module is loaded on."""
        return self.place

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
        return DeviceArray(self, self._address, extents, strides, element, self.place)

    def __repr__(self) -> str:
        return f"<Symbol {self.name}: {self.nbytes} bytes on {self.place}>"


def symbol_of(name: str, ptr: int, nbytes: int, place: Device, module: object) -> Symbol:
    """Return a variable of a module, as a pointer of CuPy's too if CuPy can use it."""
    cuda = getattr(sys.modules.get("cupy"), "cuda", None)
    pointer = None if place.is_host else getattr(cuda, "MemoryPointer", None)
    kind = Symbol if pointer is None else _symbol_over(pointer)
    return kind(name, ptr, nbytes, place, module)


@functools.cache
def _symbol_over(pointer: Any) -> type[Symbol]:
    """Return the class of variables that are CuPy's pointers.

    CuPy's arrays take no other pointers: ``cupy.ndarray(shape, dtype, module.get_global(name))``.
    """

    def start(
        self: Symbol, name: str, ptr: int, nbytes: int, place: Device, module: object
    ) -> None:
        Symbol.__init__(self, name, ptr, nbytes, place, module)
        memory = sys.modules["cupy"].cuda.UnownedMemory(ptr, nbytes, module, place.ordinal)
        pointer.__init__(self, memory, 0)

    inherited = {"ptr": pointer.ptr, "device": pointer.device}
    return type("Symbol", (Symbol, pointer), {"__init__": start, "__doc__": None, **inherited})
