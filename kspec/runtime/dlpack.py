"""Exporting an array as a DLPack capsule (https://dmlc.github.io/dlpack/latest/).

Structures and constants follow the header of DLPack 0.8, the unversioned layout that every
consumer takes.  `kspec.runtime.arrays` is the only user.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from kspec import dtypes
from kspec.runtime.device import Device

_NAME = b"dltensor"  # consumers rename it to "used_dltensor" when they take ownership
_CPU, _CUDA = 1, 2
_CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
_BFLOAT = 4


class _Tensor(ctypes.Structure):
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


class _Managed(ctypes.Structure):
    pass


_Deleter = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Managed))
_Destructor = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_Managed._fields_ = (("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", _Deleter))

_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = (ctypes.c_void_p, ctypes.c_char_p, _Destructor)
_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.restype = ctypes.c_int
_is_valid.argtypes = (ctypes.c_void_p, ctypes.c_char_p)
_get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_get_pointer.restype = ctypes.c_void_p
_get_pointer.argtypes = (ctypes.c_void_p, ctypes.c_char_p)
_incref, _decref = ctypes.pythonapi.Py_IncRef, ctypes.pythonapi.Py_DecRef
_incref.argtypes = _decref.argtypes = (ctypes.py_object,)
_incref.restype = _decref.restype = None


class _Export:
    """Everything one capsule points to; referenced by the capsule until it is deleted."""

    def __init__(self, owner: object, managed: _Managed, *arrays: Any) -> None:
        self.owner = owner
        self.managed = managed
        self.arrays = arrays


def _delete_tensor(managed: Any) -> None:
    _decref(ctypes.cast(managed.contents.context, ctypes.py_object).value)


def _drop_capsule(capsule: int) -> None:
    # Only a capsule nobody consumed still owns its tensor.
    if _is_valid(capsule, _NAME):
        pointer = ctypes.cast(_get_pointer(capsule, _NAME), ctypes.POINTER(_Managed))
        _delete_tensor(pointer)


# Module level: the C side may call them for as long as the process lives.
_delete = _Deleter(_delete_tensor)
_drop = _Destructor(_drop_capsule)


def device_of(device: Device) -> tuple[int, int]:
    """Return DLPack's device type and ordinal."""
    return (_CPU, 0) if device.is_host else (_CUDA, device.ordinal)


def export(
    owner: object,
    ptr: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    dtype: np.dtype[Any],
    device: Device,
) -> object:
    """Return a capsule named ``dltensor`` that keeps `owner` alive.

    Raises
    ------
    BufferError
        If strides are no multiples of the element size, which DLPack can not say.
    """
    if any(stride % dtype.itemsize for stride in strides):
        raise BufferError("strides that are no multiple of the element size can not be exported")
    extents = (ctypes.c_int64 * max(1, len(shape)))(*shape)
    steps = (ctypes.c_int64 * max(1, len(shape)))(*(step // dtype.itemsize for step in strides))
    row = dtypes.lookup(dtype.name)
    code = _BFLOAT if row.name == "bfloat16" else _CODES[row.kind]
    kind, ordinal = device_of(device)
    managed = _Managed(
        _Tensor(ptr, kind, ordinal, len(shape), code, 8 * row.itemsize, 1, extents, steps, 0)
    )
    export_record = _Export(owner, managed, extents, steps)
    managed.context = id(export_record)
    managed.deleter = _delete
    _incref(export_record)
    return _new_capsule(ctypes.addressof(managed), _NAME, _drop)
