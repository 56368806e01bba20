"""Access to arrays in generated code, and the cheapest way to make new ones, library by library.

An `Access` is a row of Python expressions with ``{x}`` for the array;
`kspec.runtime.callcache` puts them into the function that answers repeated calls. Every
property that a kernel or its checks depend on is in the key; other arrays are refused and checked
in full.

Only the classes themselves have a row, not their subclasses, which may mean something else.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import field, fields
from typing import Any

import numpy as np

from kspec.dataclass import dataclass
from kspec.runtime import driver
from kspec.runtime.driver.device import Device
from kspec.runtime.libraries.registry import CuPy, Library, Torch
from kspec.runtime.memory import c_strides, is_c_contiguous, numpy_dtype
from kspec.runtime.memory.device_array import DeviceArray, array_maker, use_on

Maker = Callable[[], Any]


@dataclass(frozen=True)
class Access:
    """Expressions about an array ``{x}``.

    Attributes
    ----------
    pointer : str
        Address of the first element, which the others know as ``{p}``.
    key : str
        Elements of a key: dtype, shape, device, and strides unless it is C-contiguous.
    exact : str
        The same with strides in any case, for kernels that read them.
    flat : str
        The same of arrays that are C-contiguous anyway: what a pointer to them depends on.
    bare : str
        Elements of a key for kernels that see nothing but the address.
    device : str
        Number of its device, which the others know as ``{d}``, if they use it.
    stream : str
        Handle of the library's current stream, where ``{x}`` lives.
    writable : str
        Element of a key for arrays that are written to.
    refused : str
        Condition under which the array is to be checked in full.
    scattered : str
        Condition under which the array is not C-contiguous, unless `flat` has the strides.
    uneven : str
        The same, where it takes longer than to put the strides in a key.
    told : str
        What ``use_on(handle, ...)`` tells of streams other than 0.
    wrote : str
        Statement that takes note that the array is written to.
    names : mapping of str to object
        What the expressions refer to.
    """

    pointer: str
    key: str
    exact: str
    flat: str
    bare: str
    device: str = ""
    stream: str = "0"
    writable: str = ""
    refused: str = ""
    scattered: str = ""
    uneven: str = ""
    told: str = ""
    wrote: str = ""
    names: Mapping[str, object] = field(default_factory=dict)

    def named(self, name: str) -> Access:
        """Return the expressions about the array that the variable ``a0``, ``a1`` ... holds."""
        words = {"x": name, "p": f"p{name[1:]}", "d": f"d{name[1:]}"}
        filled = {
            one.name: getattr(self, one.name).format(**words)
            for one in fields(self)
            if one.name != "names"
        }
        return Access(**filled, names=self.names)

    def lines(self, name: str) -> list[str]:
        """Return the lines that set the variables of the other expressions."""
        lines = [f"p{name[1:]} = {self.pointer}"]
        return [*lines, f"d{name[1:]} = {self.device}"] if self.device else lines


def access_of(kind: type) -> Access | None:
    """Return the row of a class of arrays, or None if its arrays are checked at every call."""
    if kind is np.ndarray:
        return _NUMPY
    if kind is DeviceArray:
        return _OWN
    for name, find in (("cupy", _cupy), ("torch", _torch)):
        module = sys.modules.get(name)
        if module is not None and kind is getattr(module, _CLASSES[name], None):
            return find()
    return None


def maker(library: Library, shape: tuple[int, ...], dtype: str, device: Device) -> Maker:
    """Return a function that makes new C-ordered arrays as ``library.empty`` does, but faster."""
    public = functools.partial(library.empty, shape, dtype, device)
    if library.name == "numpy":
        return functools.partial(np.empty, shape, numpy_dtype(dtype))
    if library.name == "kspec":
        return array_maker(shape, numpy_dtype(dtype), device)
    if library.name in _CLASSES and not device.is_host:
        private = _private_maker(library.name, device)
        if private is not None:
            make = private(shape, dtype)
            return _if_current(library, device, make, public) if driver.several_devices() else make
    return public


def shape_maker(library: Library, dtype: str, device: Device) -> Callable[[tuple[int, ...]], Any]:
    """Return a function that makes such arrays of any shape."""
    if library.name == "cupy" and not driver.several_devices() and _private_maker("cupy", device):
        return _cupy_shape_maker(dtype)
    return lambda shape: maker(library, tuple(shape), dtype, device)()


def _if_current(library: Library, device: Device, private: Maker, public: Maker) -> Maker:
    """Return the private constructor of arrays if the device is current, else the public one."""
    cuda, ordinal = sys.modules[library.name].cuda, device.ordinal
    current = cuda.runtime.getDevice if library.name == "cupy" else cuda.current_device
    return lambda: private() if current() == ordinal else public()


@functools.cache
def _private_maker(name: str, device: Device) -> Callable[..., Maker] | None:
    """Return the way around a library's public function, if this version has it as we know it."""
    library, private = _PRIVATE[name]
    example = (2, 3), "float32"
    try:
        with driver.on_device(device.ordinal) if driver.several_devices() else nullcontext():
            same = _properties(private(*example)()) == _properties(library.empty(*example, device))
    except Exception:  # what a library raises where it has changed is its own
        return None
    return private if same else None


def _properties(array: Any) -> tuple[Any, ...]:
    """Return properties that must not depend on the constructor of an array."""
    strides = array.stride() if hasattr(array, "data_ptr") else array.strides
    return type(array), tuple(array.shape), tuple(strides), array.dtype, array.device


def numpy_address(array: Any) -> int:
    """Return ``array.ctypes.data``, which takes five times as long."""
    try:
        return ctypes.addressof(ctypes.c_char.from_buffer(array))
    except (TypeError, ValueError, BufferError):
        return int(array.ctypes.data)  # read-only, strided, empty, or a dtype of ml_dtypes


_STRIDED = "{x}.dtype, {x}.shape, {x}.strides"
_NUMPY = Access(
    "address({x})",
    _STRIDED,
    _STRIDED,
    "{x}.dtype",
    "{x}.dtype",
    writable="{x}.flags.writeable",
    scattered="not {x}.flags.c_contiguous",
    names={"address": numpy_address},
)
_OWN_PLACE = "{x}.device.kind, {x}.device.ordinal"
_OWN_KEY = f"{_STRIDED}, {_OWN_PLACE}"
_OWN = Access(
    "{x}._ptr",
    _OWN_KEY,
    _OWN_KEY,
    _OWN_KEY,
    f"{{x}}.dtype, {_OWN_PLACE}",
    uneven="not is_contiguous({x}.shape, {x}.strides, {x}.dtype.itemsize)",
    told="{x}",
    names={"use_on": use_on, "is_contiguous": is_c_contiguous},
)
_CLASSES = {"cupy": "ndarray", "torch": "Tensor"}


@functools.cache
def _cupy() -> Access:
    cupy = sys.modules["cupy"]
    several = driver.several_devices()
    place = ", {d}" if several else ""
    # The flag is CuPy's own; strides say the same.
    private = hasattr(cupy.ndarray, "_c_contiguous")
    flag = "{x}._c_contiguous or " if private else ""
    return Access(
        "{x}.data.ptr",
        f"{{x}}.dtype, {{x}}.shape, {flag}{{x}}.strides{place}",
        _STRIDED + place,
        "{x}.dtype" + place,
        "{x}.dtype" + place,
        device="{x}.data.device_id" if several else "",
        stream=f"current_stream({'{d}' if several else ''}).ptr",
        scattered=f"not {{x}}.{'_' if private else 'flags.'}c_contiguous",
        names={"current_stream": cupy.cuda.get_current_stream},
    )


@functools.cache
def _torch() -> Access:
    torch = sys.modules["torch"]
    bare = "{x}.dtype, {d}"
    raw = getattr(torch._C, "_cuda_getCurrentRawStream", None)  # the public way makes an object
    return Access(
        "{x}.data_ptr()",
        "{x}.dtype, {x}.shape, {x}.is_contiguous() or {x}.stride(), {d}",
        "{x}.dtype, {x}.shape, {x}.stride(), {d}",
        bare,
        bare,
        device="{x}.get_device()",
        stream="(torch_stream({d}) if {d} >= 0 else 0)",
        # The sign may be kept as a flag (x.conj().imag); tensors of the meta device have no memory.
        refused="{x}.requires_grad or {x}.is_neg() or not {p}",
        scattered="not {x}.is_contiguous()",
        wrote="wrote(({x},))",
        names={"torch_stream": raw or _public_stream, "wrote": _version_counter()},
    )


def _version_counter() -> Callable[[Sequence[Any]], object]:
    """Return a function that tells autograd of writes, in half of the public way's time."""
    torch, public = sys.modules["torch"], Torch()
    try:
        private: Callable[[Sequence[Any]], object] = torch._C._increment_version
        example = torch.empty(0)
        private((example,))
        if example._version == 1:
            return private
    except Exception:  # what torch raises where it has changed is its own
        pass

    def one_by_one(tensors: Sequence[Any]) -> None:
        for one in tensors:
            public.wrote(one)

    return one_by_one


def _public_stream(ordinal: int) -> int:
    return int(sys.modules["torch"].cuda.current_stream(ordinal).cuda_stream)


def _cupy_shape_maker(dtype: str) -> Callable[[tuple[int, ...]], Any]:
    """Make arrays without the arguments that `cupy.ndarray` looks for."""
    kind: Any = sys.modules["cupy"].ndarray
    new, start, element = kind.__base__.__new__, kind._init, numpy_dtype(dtype)

    def make(shape: tuple[int, ...]) -> Any:
        array = new(kind)
        start(array, shape, element)
        return array

    return make


def _cupy_maker(shape: tuple[int, ...], dtype: str) -> Maker:
    return functools.partial(_cupy_shape_maker(dtype), shape)


def _torch_maker(shape: tuple[int, ...], dtype: str) -> Maker:
    """Make tensors by the function that compiled code of torch uses."""
    torch = sys.modules["torch"]
    make = torch._C._dynamo.guards._empty_strided_cuda
    return functools.partial(make, shape, c_strides(shape, 1), getattr(torch, dtype))


_PRIVATE: dict[str, tuple[Library, Callable[..., Maker]]] = {
    "cupy": (CuPy(), _cupy_maker),
    "torch": (Torch(), _torch_maker),
}
