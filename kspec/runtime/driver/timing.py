"""Times of a GPU between two events."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

from kspec.runtime import driver

_WARM_UP = 5
_CACHES = 4  # so many times the largest cache is overwritten before each run


class Stopwatch:
    """Measures the work that a function queues on the default stream, from cold caches.

    Parameters
    ----------
    ordinal : int
        The device.

    Notes
    -----
    Before each run something larger than the caches is written, which takes longer than it takes to
    queue the run: the time is that of the GPU alone.
    """

    def __init__(self, ordinal: int) -> None:
        self._ordinal = ordinal
        bindings = driver.bindings()
        attribute = bindings.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE
        with driver.on_device(ordinal):
            cache = driver.check(bindings.cuDeviceGetAttribute(attribute, ordinal))
            self._bytes = _CACHES * max(int(cache), 1 << 26)
            self._memory = driver.check(bindings.cuMemAlloc(self._bytes))
            self._events = [driver.check(bindings.cuEventCreate(0)) for _ in range(2)]

    def __enter__(self) -> Stopwatch:
        return self

    def __exit__(self, *error: object) -> None:
        bindings = driver.bindings()
        with driver.on_device(self._ordinal):
            driver.check(bindings.cuMemFree(self._memory))
            for event in self._events:
                driver.check(bindings.cuEventDestroy(event))

    def median(self, function: Callable[[], Any], runs: int) -> float:
        """Return the median of the times of some runs in seconds, after a few that do not count."""
        for _ in range(
            _WARM_UP
        ):  # a kernel's first calls are slower to queue than the memory to fill
            function()
        return statistics.median(self._time(function) for _ in range(runs))

    def _time(self, function: Callable[[], Any]) -> float:
        bindings = driver.bindings()
        with driver.on_device(self._ordinal):
            driver.check(bindings.cuMemsetD8Async(self._memory, 0, self._bytes, 0))
            driver.check(bindings.cuEventRecord(self._events[0], 0))
            function()
            driver.check(bindings.cuEventRecord(self._events[1], 0))
            driver.check(bindings.cuEventSynchronize(self._events[1]))
            milliseconds = driver.check(bindings.cuEventElapsedTime(*self._events))
        return float(milliseconds) / 1e3
