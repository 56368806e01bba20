"""Arrays of libraries nobody knows: they have a protocol and nothing else."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np


class Tensor(ctypes.Structure):
    """`DLTensor`."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class Managed(ctypes.Structure):
    """`DLManagedTensor`, from before versions."""

    _fields_ = (("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


class Versioned(ctypes.Structure):
    """`DLManagedTensorVersioned`."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", Tensor),
    )


_Destructor = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
# Called when nothing else is left of an exporter: they stay for as long as the process.
_destructors: list[Any] = []
_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, _Destructor)(
    ("PyCapsule_New", ctypes.pythonapi)
)


class Exporter:
    """Exports memory by DLPack, in either layout, and counts what is given back.

    Parameters
    ----------
    array : numpy.ndarray
        Whose elements.
    versioned : bool
        Whether it knows `max_version`.
    tensor, managed : dict
        Fields of the structures that are to differ.
    """

    def __init__(
        self,
        array: np.ndarray,
        versioned: bool = True,
        device: tuple[int, int] = (1, 0),
        tensor: dict[str, Any] | None = None,
        managed: dict[str, Any] | None = None,
    ) -> None:
        self.array = array
        self.device = device
        self.fields = {"code": {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}.get(array.dtype.kind, 4)}
        self.fields |= tensor or {}
        self.managed = managed or {}
        self.exported = self.deleted = 0
        self.asked: list[dict[str, Any]] = []
        if not versioned:
            self.__class__ = OldExporter

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, *, max_version: Any = None, stream: Any = None) -> object:
        self.asked.append({"max_version": max_version, "stream": stream})
        return self._capsule(versioned=max_version is not None)

    def _capsule(self, versioned: bool) -> object:
        array, ndim = self.array, self.array.ndim
        extents = (ctypes.c_int64 * ndim)(*array.shape)
        steps = (ctypes.c_int64 * ndim)(*(step // array.itemsize for step in array.strides))
        tensor = Tensor(
            array.ctypes.data, *self.device, ndim, 0, 8 * array.itemsize, 1, extents, steps
        )
        for name, value in self.fields.items():
            setattr(tensor, name, value)
        if versioned:
            managed: Any = Versioned(major=1, minor=0, tensor=tensor)
        else:
            managed = Managed(tensor)
        for name, value in self.managed.items():
            setattr(managed, name, value)
        alive: list[Any] = [extents, steps, managed]

        def delete(_: int) -> None:
            self.deleted += 1
            alive.clear()

        destructor = _Destructor(delete)
        _destructors.append(destructor)
        self.exported += 1
        name = b"dltensor_versioned" if versioned else b"dltensor"
        return _new(ctypes.addressof(managed), name, destructor)


class OldExporter(Exporter):
    """An exporter from before versions."""

    def __dlpack__(self, *, stream: Any = None) -> object:  # type: ignore[override]
        self.asked.append({"stream": stream})
        return self._capsule(versioned=False)


class Convertible:
    """Has an array of CuPy, or of whoever is given, and is none."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __cupy_get_ndarray__(self) -> Any:
        return self.array


class CudaInterface:
    """Has ``__cuda_array_interface__`` of these entries."""

    def __init__(self, **entries: Any) -> None:
        self.entries = {
            "shape": (2, 3),
            "typestr": "<f4",
            "data": (4096, False),
            "version": 3,
            **entries,
        }

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return self.entries
