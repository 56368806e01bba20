"""A GPU made of host memory, and a CuPy made of NumPy and kspec: the CUDA path without CUDA.

Only what `benchmarks.machines.CudaMachine` asks of the driver is here; streams and events keep
order because everything happens at once.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import kspec
from benchmarks import machines
from benchmarks.cub import Cub


class FakeBindings:
    """The functions of ``cuda.bindings.driver``; every event is a millisecond after the last."""

    CUdevice_attribute = SimpleNamespace(
        CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE=1, CU_DEVICE_ATTRIBUTE_CLOCK_RATE=2
    )

    def __init__(self) -> None:
        self.calls: list[str] = []
        self._clock, self._handles = itertools.count(), itertools.count()
        self._recorded: dict[int, int] = {}

    def cuDeviceGet(self, ordinal: int) -> tuple[int, int]:
        return 0, ordinal

    def cuDeviceGetAttribute(self, which: int, device: int) -> tuple[int, int]:
        return 0, {1: 4096, 2: 1_980_000}[which]

    def cuMemGetInfo(self) -> tuple[int, int, int]:
        return 0, 140 * 2**30, 141 * 2**30

    def cuEventCreate(self, flags: int) -> tuple[int, int]:
        return 0, next(self._handles)

    def cuEventRecord(self, event: int, stream: int) -> tuple[int]:
        self.calls.append("record")
        self._recorded[event] = next(self._clock)
        return (0,)

    def cuEventSynchronize(self, event: int) -> tuple[int]:
        return (0,)

    def cuEventElapsedTime(self, start: int, end: int) -> tuple[int, float]:
        return 0, float(self._recorded[end] - self._recorded[start])

    def cuMemsetD8Async(self, address: int, value: int, nbytes: int, stream: int) -> tuple[int]:
        self.calls.append("memset")
        ctypes.memset(address, value, nbytes)
        return (0,)

    def cuMemcpyDtoDAsync(self, target: int, source: int, nbytes: int, stream: int) -> tuple[int]:
        self.calls.append("copy")
        ctypes.memmove(target, source, nbytes)
        return (0,)


def _check(result: tuple[Any, ...]) -> Any:
    error, *values = result
    assert error == 0
    return values[0] if len(values) == 1 else tuple(values)


@contextmanager
def _on_device(ordinal: int) -> Iterator[None]:
    yield


class FakeStream:
    """A stream of CuPy; what is captured has run when its graph is launched."""

    def __enter__(self) -> None: ...

    def __exit__(self, *error: object) -> None: ...

    def begin_capture(self) -> None: ...

    def end_capture(self) -> Any:
        return SimpleNamespace(launch=lambda stream: None)


def fake_cupy() -> Any:
    """Return NumPy with CuPy's classes."""
    cupy = SimpleNamespace(**vars(np))
    cupy.random = np.random  # which NumPy imports when it is first asked for
    cupy.__name__ = "cupy"
    cupy.ElementwiseKernel = kspec.ElementwiseKernel
    cupy.ReductionKernel = kspec.ReductionKernel
    cupy.RawKernel = kspec.RawKernel
    cupy.asnumpy = np.asarray
    cupy.get_default_memory_pool = lambda: SimpleNamespace(free_all_blocks=lambda: None)
    cupy.fuse = lambda: lambda function: function
    cupy.cuda = SimpleNamespace(Stream=lambda non_blocking: FakeStream())
    return cupy


class FakeCub:
    """A library of `benchmarks/cub.cu` that runs on host memory, and counts what it is asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.error = 0
        self.wrong = False

    def __getattr__(self, name: str) -> Any:
        if name not in _CUB:
            raise AttributeError(name)

        def function(memory: int | None, size: Any, *arguments: Any) -> int:
            *addresses, elements, rows, stream = arguments
            assert stream is None
            if memory is None:
                self.asked.append(name)
                size._obj.value = 0
            elif not self.error:
                _CUB[name](*addresses, elements, rows)
                if self.wrong:
                    ctypes.memset(addresses[-1], 0xFF, 4)
            return self.error

        return function


def _at(address: int, dtype: str, count: int) -> Any:
    nbytes = count * np.dtype(dtype).itemsize
    return np.frombuffer((ctypes.c_char * nbytes).from_address(address), dtype)


def _scan(dtype: str) -> Any:
    def scan(x: int, y: int, elements: int, rows: int) -> None:
        values = _at(x, dtype, elements).reshape(rows, -1)
        _at(y, dtype, elements)[...] = values.cumsum(axis=1, dtype="float64").ravel()

    return scan


def _sums(values: Any, bounds: int, y: int, rows: int, dtype: str = "int64") -> None:
    before = np.concatenate([[0], values.cumsum(dtype="float64")])
    _at(y, "float32", rows)[...] = np.diff(before[_at(bounds, dtype, rows + 1)])


def _segments(x: int, bounds: int, y: int, elements: int, rows: int) -> None:
    _sums(_at(x, "float32", elements), bounds, y, rows)


def _csr(value: int, column: int, x: int, bounds: int, y: int, elements: int, rows: int) -> None:
    columns = _at(column, "int32", elements)
    vector = _at(x, "float32", int(columns.max()) + 1)
    _sums(_at(value, "float32", elements) * vector[columns], bounds, y, rows, "int32")


_CUB = {
    "scan_float32": _scan("float32"),
    "scan_float64": _scan("float64"),
    "scan_rows_float32": _scan("float32"),
    "scan_rows_float16": _scan("float16"),
    "segments_float32": _segments,
    "csr_float32": _csr,
}


def fake_cub(library: FakeCub) -> Cub:
    """Return the peer with a library that is not CUB."""
    return Cub(
        lambda: library, lambda nbytes: np.empty(nbytes, "uint8"), lambda one: one.ctypes.data
    )


def install(monkeypatch: pytest.MonkeyPatch, *peers: str) -> FakeBindings:
    """Make `CudaMachine` believe in a GPU with the named peers."""
    bindings = FakeBindings()
    driver = SimpleNamespace(
        bindings=lambda: bindings,
        check=_check,
        current_ordinal=lambda: 0,
        device_count=lambda: 1,
        device_name=lambda ordinal: "Fake GPU",
        compute_capability=lambda ordinal: (9, 0),
        multiprocessors=lambda ordinal: 132,
        on_device=_on_device,
        synchronize=lambda ordinal: bindings.calls.append("synchronize"),
    )
    own = SimpleNamespace(
        empty=lambda shape, dtype, device: kspec.empty(shape, dtype, "host"),
        asarray=lambda values, device: kspec.asarray(values, device="host"),
        DeviceArray=kspec.DeviceArray,
        asnumpy=kspec.asnumpy,
    )
    monkeypatch.setattr(machines, "driver", driver)
    monkeypatch.setattr(machines, "kspec", own)
    monkeypatch.setattr(
        machines, "address_of", lambda array: getattr(array, "ptr", 0) or array.ctypes.data
    )
    found = {"cupy": fake_cupy()} if "cupy" in peers else {}
    missing = [f"{name} is left out: not here" for name in ("cupy", "torch") if name not in peers]
    monkeypatch.setattr(machines, "find_peers", lambda names: (found, missing))
    monkeypatch.setattr(machines.cub, "missing", lambda: "CUB is left out: not here")
    return bindings
