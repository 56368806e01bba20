"""Arguments that are neither arrays nor numbers: textures, pointers and structs, kspec's or CuPy's.

>>> from kspec.runtime.memory.symbol import Symbol
>>> kind_of(Symbol("table", 2**40, 64, Device("cuda", 1), None)), kind_of(3.0)
('pointer', '')

All are known by the names of their classes, so that neither CuPy nor the modules of these need be
imported.
"""

from __future__ import annotations

import functools
from typing import Any

from kspec.runtime.driver.device import Device

TEXTURE, SURFACE, TEXTURE_ARRAY = "TextureObject", "SurfaceObject", "CUDAarray"
POINTER, STRUCT = "pointer", "struct"
HANDLES = (TEXTURE, SURFACE)

_OWN = {
    ("kspec.runtime.texture.objects", "TextureObject"): TEXTURE,
    ("kspec.runtime.texture.objects", "SurfaceObject"): SURFACE,
    ("kspec.runtime.texture.array", "CUDAarray"): TEXTURE_ARRAY,
    ("kspec.runtime.memory.symbol", "Symbol"): POINTER,
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
        name = one.__module__, one.__name__
        found = _OWN.get(name) or _CUPY.get(name)
        if found:
            return found
    return ""


@functools.lru_cache(maxsize=256)
def _own(kind: type) -> str:
    """Return the kind of a class of kspec's; empty for all others."""
    found = (_OWN.get((one.__module__, one.__name__)) for one in kind.__mro__)
    return next(filter(None, found), "")


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
    known: Any = value
    own = _own(type(value))  # type: ignore[arg-type]
    if own == POINTER:
        place: Device = known.place
        return place
    if own in HANDLES:
        device: Device | None = known.device
        return device
    return Device("cuda", known.device_id) if kind_of(value) == POINTER else None


def needs_cuda(value: object) -> bool:
    """Return whether a value is on some CUDA device that it does not name."""
    return is_cupys(value) and device_of(value) is None


def is_address(value: object) -> bool:
    """Return whether a value stands for memory: an object with an integer ``ptr``."""
    return kind_of(value) in ("", POINTER) and isinstance(getattr(value, "ptr", None), int)
