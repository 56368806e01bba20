"""Every array library that kernels can be called with, on the host and on the first GPU.

A test says which one it takes (`LIBRARIES` are all, with the mark ``gpu`` where they need one), makes
arrays by ``library.array(values)``, and gets NumPy copies by ``library.numpy(array)``. What is not
installed is skipped, and so is a dtype that a library does not have.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import kspec
from kspec.runtime.driver import memory as driver_memory
from tests.runtime.exporters import Exporter

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Library:
    """Arrays of one library in one place.

    Attributes
    ----------
    name, place : str
        Its own, and ``"host"`` or ``"cuda:0"``.
    module : str
        What must be installed.
    make : callable
        Returns an array, given the module and NumPy's array.
    kind : callable
        Returns the class that results have, given the module.
    writable : bool
        Whether kernels can write to its arrays.
    kinds : str
        The kinds of dtypes that it has, by NumPy's letters.
    """

    name: str
    place: str
    module: str
    make: Callable[[Any, Array], Any]
    kind: Callable[[Any], type]
    writable: bool = True
    kinds: str = "biufc"

    def __str__(self) -> str:
        return f"{self.name}-{self.place}"

    def ready(self) -> ModuleType:
        """Return the module; skip the test where it is missing, or has no such device."""
        module = pytest.importorskip(self.module)
        if self.module == "jax":
            _skip_without_device(module, self.place)
        return module

    def has(self, dtype: np.dtype[Any]) -> bool:
        """Whether there are arrays of a dtype."""
        return dtype.kind in self.kinds

    def array(self, values: npt.ArrayLike, dtype: npt.DTypeLike | None = None) -> Any:
        """Return a C-ordered copy."""
        return self.make(self.ready(), np.array(values, dtype, order="C"))

    def output(self, values: npt.ArrayLike, dtype: npt.DTypeLike | None = None) -> Any:
        """Return an array that kernels can write to: kspec's own where the library has none."""
        if self.writable:
            return self.array(values, dtype)
        return kspec.asarray(np.array(values, dtype), device=self.place)

    @property
    def result(self) -> type:
        """The class of results."""
        return self.kind(self.ready())

    def numpy(self, array: Any) -> Array:
        """Return a NumPy copy."""
        return kspec.asnumpy(array)


def _skip_without_device(jax: Any, place: str) -> None:
    if place != "host" and not any(one.platform == "gpu" for one in jax.devices()):
        pytest.skip("JAX has no CUDA device")


def _jax(platform: str) -> Callable[[Any, Array], Any]:
    def make(jax: Any, values: Array) -> Any:
        made = jax.device_put(values, jax.devices(platform)[0])
        if made.dtype != values.dtype:
            pytest.skip("JAX has 64 bits only with jax_enable_x64")
        return made

    return make


def _torch(place: str) -> Callable[[Any, Array], Any]:
    def make(torch: Any, values: Array) -> Any:
        if values.dtype.name == "bfloat16":
            bits = torch.tensor(values.view(np.int16), device=place)
            return bits.view(torch.bfloat16)
        return torch.tensor(values, device=place)

    return make


class CudaInterface:
    """Memory that says where it is by ``__cuda_array_interface__`` alone."""

    def __init__(self, values: Array) -> None:
        self._memory = kspec.asarray(values, device="cuda:0")

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return self._memory.__cuda_array_interface__


def _core_view(core: Any, values: Array) -> Any:
    """Return a `StridedMemoryView` of a buffer of cuda.core's."""
    views = importlib.import_module("cuda.core.utils").StridedMemoryView
    if not hasattr(views, "from_buffer") or not hasattr(views, "__dlpack__"):
        pytest.skip("this cuda.core has no views that export themselves")
    buffer = core_buffer(core, values)
    return views.from_buffer(buffer, values.shape, dtype=values.dtype)


def core_buffer(core: Any, values: Array) -> Any:
    """Return a buffer of cuda.core's with the bytes of an array."""
    device = core.Device(0)
    device.set_current()
    buffer = device.allocate(max(1, values.nbytes), stream=device.default_stream)
    device.default_stream.sync()
    driver_memory.copy(0, int(buffer.handle), values.ctypes.data, values.nbytes)
    return buffer


def _own(module: Any) -> type:
    return kspec.DeviceArray


def _numpy(module: Any) -> type:
    return np.ndarray


HOST = (
    Library("numpy", "host", "numpy", lambda np, x: x, _numpy, kinds="biufcV"),
    Library(
        "kspec", "host", "kspec", lambda _, x: kspec.asarray(x, device="host"), _own, kinds="biufcV"
    ),
    Library("torch", "host", "torch", _torch("cpu"), lambda torch: torch.Tensor),
    Library("jax", "host", "jax", _jax("cpu"), lambda jax: jax.Array, writable=False),
    Library("dlpack", "host", "kspec", lambda _, x: Exporter(x), _own),
)
CUDA = (
    Library(
        "kspec",
        "cuda:0",
        "kspec",
        lambda _, x: kspec.asarray(x, device="cuda:0"),
        _own,
        kinds="biufcV",
    ),
    Library(
        "cupy",
        "cuda:0",
        "cupy",
        lambda cupy, x: cupy.asarray(x),
        lambda cupy: cupy.ndarray,
        kinds="biufcV",
    ),
    Library("torch", "cuda:0", "torch", _torch("cuda:0"), lambda torch: torch.Tensor),
    Library("jax", "cuda:0", "jax", _jax("gpu"), lambda jax: jax.Array, writable=False),
    Library(
        "numba",
        "cuda:0",
        "numba.cuda",
        lambda cuda, x: cuda.to_device(x),
        lambda cuda: importlib.import_module("numba.cuda.cudadrv.devicearray").DeviceNDArray,
    ),
    Library("cuda.core", "cuda:0", "cuda.core", _core_view, _own),
    Library("interface", "cuda:0", "kspec", lambda _, x: CudaInterface(x), _own),
)
LIBRARIES = [
    *(pytest.param(one, id=str(one)) for one in HOST),
    *(pytest.param(one, id=str(one), marks=pytest.mark.gpu) for one in CUDA),
]
FIRST = {"host": HOST[0], "cuda:0": CUDA[0]}
