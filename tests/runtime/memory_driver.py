"""A driver that has memory, events and streams, but no device: it only takes notes."""

from __future__ import annotations

import gc
import itertools
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from kspec.runtime import driver
from kspec.runtime.driver.device import Device
from kspec.runtime.memory import pool

GPU = Device("cuda", 0)
SIDE, OTHER = 0x70, 0x80  # streams


def _code(value: int, name: str = "") -> Any:
    return SimpleNamespace(value=value, name=name or f"CUDA_ERROR_{value}")


SUCCESS = _code(0)
OUT_OF_MEMORY = _code(2, "CUDA_ERROR_OUT_OF_MEMORY")
NOT_READY = _code(600)
IMPLICIT = _code(906)


class FakeDriver:
    """The driver's bindings.

    Attributes
    ----------
    calls : list of tuple
        What was called that allocates, frees, orders or waits.
    total : int
        Bytes of the device's memory.
    done : bool
        Whether events say that their work has run.
    capturing : set of int
        Streams that are being captured.
    """

    CUevent_flags = SimpleNamespace(CU_EVENT_DISABLE_TIMING=2)
    CUresult = SimpleNamespace(
        CUDA_ERROR_NOT_READY=NOT_READY, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT=IMPLICIT
    )
    CUstreamCaptureMode = SimpleNamespace(CU_STREAM_CAPTURE_MODE_RELAXED="relaxed")
    CUstreamCaptureStatus = SimpleNamespace(CU_STREAM_CAPTURE_STATUS_NONE=0)

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.total = 2**30
        self.sizes: dict[int, int] = {}
        self.done = False
        self.capturing: set[int] = set()
        self._thread = threading.local()
        self._addresses = itertools.count(2**40, 2**32)
        self._events = itertools.count(1)

    def take_calls(self) -> list[tuple[Any, ...]]:
        """Return the calls since the last time."""
        calls = self.calls[:]
        del self.calls[: len(calls)]
        return calls

    def cuDeviceGet(self, ordinal: int) -> tuple[Any, int]:
        return SUCCESS, ordinal

    def cuDevicePrimaryCtxRetain(self, device: int) -> tuple[Any, int]:
        return SUCCESS, 100 + device

    def cuCtxGetCurrent(self) -> tuple[Any, int]:
        return SUCCESS, 100

    def cuCtxSetCurrent(self, context: int) -> tuple[Any]:
        return (SUCCESS,)

    def cuCtxSynchronize(self) -> tuple[Any]:
        return (SUCCESS,)

    def cuStreamGetCtx(self, stream: int) -> tuple[Any, int]:
        return SUCCESS, 100

    def cuDeviceTotalMem(self, device: int) -> tuple[Any, int]:
        return SUCCESS, self.total

    def cuGetErrorString(self, error: Any) -> tuple[Any, bytes]:
        return SUCCESS, b"because"

    def cuThreadExchangeStreamCaptureMode(self, mode: str) -> tuple[Any, str]:
        before, self._thread.mode = self.mode, mode
        return SUCCESS, before

    @property
    def mode(self) -> str:
        """What captures forbid the calling thread."""
        return getattr(self._thread, "mode", "global")

    def cuMemAlloc(self, nbytes: int) -> tuple[Any, int | None]:
        assert self.mode == "relaxed"
        self.calls.append(("allocate", nbytes))
        if sum(list(self.sizes.values())) + nbytes > self.total:
            return OUT_OF_MEMORY, None
        address = next(self._addresses)
        self.sizes[address] = nbytes
        return SUCCESS, address

    def cuMemFree(self, address: int) -> tuple[Any]:
        assert self.mode == "relaxed"
        self.calls.append(("free", self.sizes.pop(address)))
        return (SUCCESS,)

    def cuMemsetD8Async(self, address: int, value: int, nbytes: int, stream: int) -> tuple[Any]:
        self.calls.append(("zero", nbytes, stream))
        return (SUCCESS,)

    def cuEventCreate(self, flags: int) -> tuple[Any, int]:
        return SUCCESS, next(self._events)

    def cuEventRecord(self, event: int, stream: int) -> tuple[Any]:
        assert stream not in self.capturing
        self.calls.append(("record", event, stream))
        return (SUCCESS,)

    def cuEventQuery(self, event: int) -> tuple[Any]:
        return (SUCCESS if self.done else NOT_READY,)

    def cuEventSynchronize(self, event: int) -> tuple[Any]:
        assert self.mode == "relaxed"
        self.calls.append(("synchronize", event))
        return (SUCCESS,)

    def cuEventDestroy(self, event: int) -> tuple[Any]:
        self.calls.append(("destroy", event))
        return (SUCCESS,)

    def cuStreamWaitEvent(self, stream: int, event: int, flags: int) -> tuple[Any]:
        assert stream not in self.capturing
        self.calls.append(("wait", stream, event))
        return (SUCCESS,)

    def cuStreamIsCapturing(self, stream: int) -> tuple[Any, int | None]:
        if stream == 0 and 0 in self.capturing:
            return IMPLICIT, None
        return SUCCESS, int(stream in self.capturing)


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDriver]:
    """The only device of this machine, with pools that are empty."""
    made = FakeDriver()
    monkeypatch.delenv("KSPEC_POOL_LIMIT", raising=False)
    monkeypatch.setattr(driver, "_bindings", lambda: made)
    monkeypatch.setattr(driver, "_primary_context", driver._primary_context.__wrapped__)
    monkeypatch.setattr(driver, "several_devices", lambda: False)
    monkeypatch.setattr(driver, "multiprocessors", lambda ordinal: 132)
    pool._pool_of.cache_clear()
    yield made
    gc.collect()  # what is left is freed while this is the driver
    pool._pool_of.cache_clear()
