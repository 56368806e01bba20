"""Arrays as DLPack capsules, exported and imported (https://dmlc.github.io/dlpack/latest/).

Only the unversioned layout is exported, because every consumer takes it;
`kspec.runtime.memory.device_array` is its only user.  Both layouts are imported, without taking
ownership: an unconsumed capsule gives its memory back when it is collected, so the holder of an
`Imported` borrows it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

import numpy as np

from kspec.dataclass import dataclass
from kspec.errors import ArgumentTypeError, UnsupportedDTypeError
from kspec.model import dtypes
from kspec.runtime.driver.device import HOST, Device
from kspec.runtime.memory import c_strides, dtype_name

_NAME = b"dltensor"  # consumers rename it to "used_dltensor" when they take ownership
_VERSIONED = b"dltensor_versioned"
_MAJOR = 1  # of the layout we know; minor versions only add device types and dtypes
_READ_ONLY, _IS_COPY = 1, 2
_LEGACY_STREAM = 1  # what consumers call the legacy default stream
_CPU, _CUDA = 1, 2
# Device types whose memory is ours to read, and those people may have beside them.
_DEVICES = {_CPU: "host", _CUDA: "cuda", 3: "host", 13: "cuda"}  # 3: pinned, 13: managed
_OTHER_DEVICES = {4: "OpenCL", 7: "Vulkan", 8: "Metal", 10: "ROCm", 14: "oneAPI", 15: "WebGPU"}
_KIND_CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
_OWN_CODES = {
    "bfloat16": 4,
    "float8_e3m4": 7,
    "float8_e4m3": 8,
    "float8_e4m3b11fnuz": 9,
    "float8_e4m3fn": 10,
    "float8_e4m3fnuz": 11,
    "float8_e5m2": 12,
    "float8_e5m2fnuz": 13,
    "float8_e8m0fnu": 14,
}


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


class _Versioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


_Deleter = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Managed))
_Destructor = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_Managed._fields_ = (("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", _Deleter))


def _python(name: str, result: Any, *arguments: Any) -> Any:
    """Return a function of Python's, of our own: anybody may change those of `pythonapi`."""
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


_new_capsule = _python(
    "PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, _Destructor
)
_is_valid = _python("PyCapsule_IsValid", ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)
_get_pointer = _python("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)
# The same functions for capsules that are Python objects.
_is_valid_object = _python("PyCapsule_IsValid", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
_get_pointer_of_object = _python(
    "PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p
)
_incref = _python("Py_IncRef", None, ctypes.py_object)
_decref = _python("Py_DecRef", None, ctypes.py_object)


class _Export:
    """Everything one capsule points to; referenced by the capsule until it is deleted."""

    def __init__(self, owner: object, managed: _Managed, *arrays: Any) -> None:
        self.owner = owner
        self.managed = managed
        self.arrays = arrays


def _delete_tensor(managed: Any) -> None:
    _decref(ctypes.cast(managed.contents.context, ctypes.py_object).value)


def _drop_capsule(capsule: int) -> None:
    # Only an unconsumed capsule still owns its tensor.
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
        If strides are not multiples of the element size, as DLPack requires, or for structs.
    """
    if any(stride % dtype.itemsize for stride in strides):
        raise BufferError("strides that are not multiples of the element size cannot be exported")
    extents = (ctypes.c_int64 * max(1, len(shape)))(*shape)
    steps = (ctypes.c_int64 * max(1, len(shape)))(*(step // dtype.itemsize for step in strides))
    row = dtypes.lookup(dtype_name(dtype))
    code = _type_code(row.name, row.kind)
    if code is None:
        raise BufferError(f"DLPack has no {row.name}")
    kind, ordinal = device_of(device)
    managed = _Managed(
        _Tensor(ptr, kind, ordinal, len(shape), code, 8 * row.itemsize, 1, extents, steps, 0)
    )
    export_record = _Export(owner, managed, extents, steps)
    managed.context = id(export_record)
    managed.deleter = _delete
    _incref(export_record)
    return _new_capsule(ctypes.addressof(managed), _NAME, _drop)


@dataclass(frozen=True)
class Imported:
    """An array that somebody else exported; `owner` lends its memory as long as it lives."""

    ptr: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    device: Device
    readonly: bool
    owner: object


def import_array(array: Any) -> Imported:
    """Return the elements of an object with ``__dlpack__`` and ``__dlpack_device__``.

    On CUDA devices the legacy default stream waits for what is queued on the exporter's stream.

    Raises
    ------
    ArgumentTypeError
        If it is on a device without kernels, or does not export itself. What else its methods
        raise is raised as it is.
    UnsupportedDTypeError
        If kernels do not know its dtype.
    """
    kind, ordinal = _place_of(array)
    if kind not in _DEVICES:
        name = _OTHER_DEVICES.get(kind, f"DLPack device type {kind}")
        raise ArgumentTypeError(
            f"this {type(array).__name__} is on {name}; kernels run on CUDA devices and the host"
        )
    device = HOST if _DEVICES[kind] == "host" else Device("cuda", ordinal)
    options = {} if device.is_host else {"stream": _LEGACY_STREAM}
    capsule = _exported(array, options)
    tensor, flags = _tensor_of(capsule, type(array).__name__)
    dtype = _dtype_of(tensor)
    shape = tuple(tensor.shape[: tensor.ndim]) if tensor.ndim else ()
    itemsize = dtypes.lookup(dtype).itemsize
    strides = c_strides(shape, itemsize)
    if tensor.ndim and tensor.strides:
        strides = tuple(step * itemsize for step in tensor.strides[: tensor.ndim])
    # What is written to a copy is lost, so a copy is read only too.
    readonly = bool(flags & (_READ_ONLY | _IS_COPY))
    ptr = (tensor.data or 0) + tensor.byte_offset
    return Imported(ptr, shape, strides, dtype, device, readonly, capsule)


def _place_of(array: Any) -> tuple[int, int]:
    """Return the device type and ordinal that an exporter says."""
    place = array.__dlpack_device__()
    try:
        kind, ordinal = map(int, place)
    except (TypeError, ValueError, OverflowError):
        raise ArgumentTypeError(
            f"__dlpack_device__ of this {type(array).__name__} returns {place!r}, not a device "
            "type and an ordinal"
        ) from None
    return kind, ordinal


def _exported(array: Any, options: Mapping[str, Any]) -> object:
    """Return a capsule: a versioned one, which can say "read only", if the exporter has them."""
    try:
        try:
            return array.__dlpack__(max_version=(_MAJOR, 0), **options)
        except TypeError:  # from before versions
            return array.__dlpack__(**options)
    except (BufferError, RuntimeError, ValueError) as error:
        raise ArgumentTypeError(
            f"this {type(array).__name__} does not export itself by DLPack: {error}"
        ) from error


def _tensor_of(capsule: Any, kind: str) -> tuple[_Tensor, int]:
    """Return the tensor of a capsule, and its flags."""
    if type(capsule).__name__ == "PyCapsule":
        if _is_valid_object(capsule, _VERSIONED):
            address = _get_pointer_of_object(capsule, _VERSIONED)
            versioned = ctypes.cast(address, ctypes.POINTER(_Versioned)).contents
            if versioned.major == _MAJOR:
                return versioned.tensor, versioned.flags
            raise ArgumentTypeError(
                f"this {kind} exports version {versioned.major}.{versioned.minor} of DLPack; "
                f"kspec reads versions 0 and {_MAJOR}"
            )
        if _is_valid_object(capsule, _NAME):
            address = _get_pointer_of_object(capsule, _NAME)
            return ctypes.cast(address, ctypes.POINTER(_Managed)).contents.tensor, 0
    raise ArgumentTypeError(f"__dlpack__ of this {kind} does not return an unused DLPack capsule")


def _type_code(name: str, kind: str) -> int | None:
    return _OWN_CODES.get(name, _KIND_CODES.get(kind))


def _dtype_of(tensor: _Tensor) -> str:
    """Return the canonical name of a tensor's dtype."""
    code, bits, lanes = tensor.code, tensor.bits, tensor.lanes
    for row in dtypes.TABLE:
        if lanes == 1 and code == _type_code(row.name, row.kind) and bits == 8 * row.itemsize:
            return row.name
    named = {known: name for name, known in _OWN_CODES.items()}
    name = named.get(code, f"with DLPack's code {code}, {bits} bits and {lanes} lanes")
    raise UnsupportedDTypeError(f"Unsupported dtype {name}; kernels know {dtypes.names()}")
