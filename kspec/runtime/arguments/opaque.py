"""Arguments that are neither arrays nor numbers: textures, pointers and structs, kspec's or CuPy's.

>>> from kspec.runtime.memory.symbol import Symbol
>>> kind_of(Symbol("table", 2**40, 64, Device("cuda", 1), None)), kind_of(3.0)
('pointer', '')

CuPy's are known by the names of their classes, so that CuPy need not be imported.
"""

from __future__ import annotations

import functools

from kspec.runtime.driver.device import Device
from kspec.runtime.memory.symbol import Symbol
from kspec.runtime.texture import CUDAarray, SurfaceObject, TextureObject

TEXTURE, SURFACE, TEXTURE_ARRAY = "TextureObject", "SurfaceObject", "CUDAarray"
POINTER, STRUCT = "pointer", "struct"
HANDLES = (TEXTURE, SURFACE)

_OWN: dict[type, str] = {
    TextureObject: TEXTURE,
    SurfaceObject: SURFACE,
    CUDAarray: TEXTURE_ARRAY,
    Symbol: POINTER,
}
_CUPY = {
    ("cupy.cuda.texture", "TextureObject"): TEXTURE,
    ("cupy.cuda.texture", "SurfaceObject"): SURFACE,
    ("cupy.cuda.texture", "CUDAarray"): TEXTURE_ARRAY,
    ("cupy.cuda.memory", "MemoryPointer"): POINTER,
    # The address of bytes on the host that the kernel takes by value: `ndarray.mdspan`'s result.
    ("cupy.cuda.function", "CPointer"): STRUCT,
}


def kind_of(value: object) -> str:
    """Return the kind of a value, one of those above; "" for all else."""
    return _kind(type(value))  # type: ignore[arg-type]  # types are hashable


@functools.lru_cache(maxsize=256)
def _kind(kind: type) -> str:
    for one in kind.__mro__:
        found = _OWN.get(one) or _CUPY.get((one.__module__, one.__name__))
        if found:
            return found
    return ""


def is_cupys(value: object) -> bool:
    """Return whether a value is of one of CuPy's classes above, or of a class derived from one."""
    return _is_cupys(type(value))  # type: ignore[arg-type]


@functools.lru_cache(maxsize=256)
def _is_cupys(kind: type) -> bool:
    return any((one.__module__, one.__name__) in _CUPY for one in kind.__mro__)


def device_of(value: object) -> Device | None:
    """Return the device of a value of these kinds; None if it does not say so.

    CuPy's textures and surfaces do not, but are on a CUDA device: `needs_cuda`.
    """
    if isinstance(value, Symbol):
        return value.place
    if isinstance(value, TextureObject | SurfaceObject):
        return value.device
    if kind_of(value) == POINTER:
        return Device("cuda", value.device_id)  # type: ignore[attr-defined]
    return None


def needs_cuda(value: object) -> bool:
    """Return whether a value is on some CUDA device that it does not name."""
    return is_cupys(value) and device_of(value) is None


def is_address(value: object) -> bool:
    """Return whether a value stands for memory: an object with an integer ``ptr``."""
    return kind_of(value) in ("", POINTER) and isinstance(getattr(value, "ptr", None), int)
