"""Fixtures of devices: one test body for NumPy, CuPy and kspec's own arrays.

Tests make their arrays with ``device.array(numpy_array)``, index, slice and transpose them as
usual, and compare ``device.numpy(result)`` with NumPy.  CUDA devices carry the mark ``gpu`` and
are skipped where there is none.
"""

from __future__ import annotations

import importlib
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import kspec


@dataclass(frozen=True)
class ArrayDevice:
    """Arrays of one library on one device."""

    library: str
    place: str

    def __str__(self) -> str:
        return f"{self.library}-{self.place}"

    def array(self, values: npt.ArrayLike, dtype: npt.DTypeLike | None = None) -> Any:
        """Return a C-ordered copy of `values` on this device."""
        source = np.array(values, dtype, order="C")
        if self.library == "numpy":
            return source
        if self.library == "cupy":
            cupy = importlib.import_module("cupy")
            with cupy.cuda.Device(0):  # JAX leaves another GPU current
                return cupy.asarray(source)
        return kspec.asarray(source, device=self.place)

    def empty(self, shape: int | tuple[int, ...], dtype: npt.DTypeLike = "float64") -> Any:
        return self.array(np.full(shape, -77, dtype))

    def zeros(self, shape: int | tuple[int, ...], dtype: npt.DTypeLike = "float64") -> Any:
        return self.array(np.zeros(shape, dtype))

    def numpy(self, array: Any) -> npt.NDArray[Any]:
        """Return a NumPy copy; the test fails if `array` is of another library."""
        assert isinstance(array, self.kind), f"{type(array)} is not {self.kind}"
        if self.library == "numpy":
            return array.copy()
        if self.library == "cupy":
            return importlib.import_module("cupy").asnumpy(array)
        assert str(array.device) == self.place
        return kspec.asnumpy(array)

    @property
    def kind(self) -> type:
        """The class of this device's arrays."""
        if self.library == "numpy":
            return np.ndarray
        if self.library == "cupy":
            return importlib.import_module("cupy").ndarray
        return kspec.DeviceArray

    @property
    def is_host(self) -> bool:
        return self.place == "host"


HOST = ArrayDevice("numpy", "host")
OWN_HOST = ArrayDevice("kspec", "host")
CUPY = ArrayDevice("cupy", "cuda:0")
OWN_CUDA = ArrayDevice("kspec", "cuda:0")

_gpu = pytest.mark.gpu
DEVICES = [
    pytest.param(HOST, id=str(HOST)),
    pytest.param(OWN_HOST, id=str(OWN_HOST)),
    pytest.param(CUPY, id=str(CUPY), marks=_gpu),
    pytest.param(OWN_CUDA, id=str(OWN_CUDA), marks=_gpu),
]
# For tests of rules that do not depend on whose memory it is.
PLACES = [DEVICES[0], DEVICES[3]]


def ready(device: ArrayDevice) -> ArrayDevice:
    """Return a device; the test is skipped where its library is missing."""
    if device.library == "cupy":
        pytest.importorskip("cupy")
    return device


@pytest.fixture(params=DEVICES)
def every_device(request: pytest.FixtureRequest) -> ArrayDevice:
    """Each array library on each device: for tests of what differs between libraries."""
    return ready(request.param)


@pytest.fixture(params=["host", pytest.param("cuda", marks=_gpu)])
def device(request: pytest.FixtureRequest) -> ArrayDevice:
    """Each device, with a library that the test's name draws: half of the tests of a module."""
    found = [HOST, OWN_HOST] if request.param == "host" else [CUPY, OWN_CUDA]
    return ready(found[zlib.crc32(request.node.nodeid.encode()) % len(found)])


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest) -> ArrayDevice:
    """Each device once."""
    return ready(request.param)
