"""Where things are measured: the host device, or a GPU.

A machine makes arrays, waits, and times calls by its own clock: the host's, or events of the
device.  Operands on a GPU are CuPy's arrays if CuPy is there, else kspec's own.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import os
import platform
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np

import kspec
from benchmarks import cub
from benchmarks.operands import FULL_SIZE
from benchmarks.references import ArrayModuleOps, Ops, TorchOps
from benchmarks.timing import Call, Sample, garbage_collection_off, repetitions, summarise
from kspec.compiler.target import target_for_capability
from kspec.runtime import driver

_COPY_BYTES = 2**30
_HOST_COPY_BYTES = 2**26
_MOST = 15
# Launches that wait for a device; the host stops at more. Small arrays would need millions.
_QUEUE = 1000
# Random numbers are made in pieces, so that their float64 or int64 forms stay small.
_PIECE = 2**26


class Machine(Protocol):
    """What measurements need of a device."""

    kind: str
    name: str
    elements: int
    cache_bytes: int
    peers: dict[str, Any]
    missing: list[str]
    ops: Ops
    peak_flops: float
    arch: str

    def random(self, dtype: str, count: int, seed: int) -> Any:
        """Return random elements: floats from [0, 1), integers from [-100, 100)."""

    def array(self, values: Any) -> Any:
        """Return the elements of a NumPy array."""

    def empty(self, dtype: str, count: int) -> Any:
        """Return undefined elements."""

    def poison(self, array: Any) -> None:
        """Overwrite a contiguous array with bytes of ones: NaN, or a large integer."""

    def finish(self) -> None:
        """Wait for everything."""

    def time(self, calls: Sequence[Call], budget: float) -> Sample:
        """Time calls in turn, each on data of its own, for about `budget` seconds."""

    def copy_sample(self) -> tuple[int, Sample]:
        """Return the bytes that a copy reads and writes, and its time."""

    def free(self) -> None:
        """Give back memory that is only cached."""


def make_machine(kind: str, elements: int | None = None) -> Machine:
    """Return a machine.

    Parameters
    ----------
    kind : {"host", "cuda"}
        Which.
    elements : int, optional
        Elements of a case; default: what suits the machine.
    """
    return HostMachine(elements) if kind == "host" else CudaMachine(elements)


def find_peers(names: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """Return the modules that can be imported, and a line for each that cannot."""
    found: dict[str, Any] = {}
    missing = []
    for name in names:
        try:
            found[name] = importlib.import_module(name)
        except Exception as error:  # libraries without their driver raise all sorts
            first = str(error).splitlines()[0] if str(error) else type(error).__name__
            missing.append(f"{name} is left out: {first}")
    return found, missing


class HostMachine:
    """The host device beside NumPy."""

    kind = "host"
    peak_flops = 0.0  # not known
    arch = ""

    def __init__(self, elements: int | None = None) -> None:
        self.elements = elements or 2**20
        self.name = f"{_processor()}, {os.cpu_count()} cores"
        self.cache_bytes = _host_cache_bytes()
        self.peers: dict[str, Any] = {"numpy": np}
        self.missing: list[str] = []
        self.ops: Ops = ArrayModuleOps(np)

    def random(self, dtype: str, count: int, seed: int) -> Any:
        return random_numpy(dtype, count, seed)

    def array(self, values: Any) -> Any:
        return values

    def empty(self, dtype: str, count: int) -> Any:
        return np.empty(count, dtype)

    def poison(self, array: Any) -> None:
        array.view(np.uint8)[...] = 0xFF

    def finish(self) -> None:
        """Do nothing: the host device has finished when a call returns."""

    def time(self, calls: Sequence[Call], budget: float) -> Sample:
        for call in calls:
            call()
        start = time.perf_counter()
        calls[0]()
        once = time.perf_counter() - start
        seconds = []
        with garbage_collection_off():
            for number in range(repetitions(once, budget, _MOST)):
                call = calls[number % len(calls)]
                start = time.perf_counter()
                call()
                seconds.append(time.perf_counter() - start)
        return summarise(seconds)

    def copy_sample(self) -> tuple[int, Sample]:
        source = random_numpy("float32", _HOST_COPY_BYTES // 4, 0)
        target = np.empty_like(source)
        sample = self.time([lambda: np.copyto(target, source)], 0.2)
        return 2 * source.nbytes, sample

    def free(self) -> None:
        """Do nothing: nothing is cached."""


class CudaMachine:
    """The current GPU beside CuPy, torch and CUB.

    Work is queued on the legacy default stream, which is the current one of CuPy, of torch and
    of kspec's own arrays.
    """

    kind = "cuda"

    def __init__(self, elements: int | None = None) -> None:
        self._ordinal = driver.current_ordinal()
        self._driver = driver.bindings()
        self.peers, self.missing = find_peers(("cupy", "torch"))
        if "torch" in self.peers and not self.peers["torch"].cuda.is_available():
            del self.peers["torch"]
            self.missing.append("torch is left out: it was built without CUDA")
        self.name = driver.device_name(self._ordinal)
        count = driver.device_count()
        if count > 1:  # then every call asks which one is current
            self.name += f" (one of {count})"
        attribute = self._driver.CUdevice_attribute
        self.cache_bytes = self._attribute(attribute.CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)
        clock = 1e3 * self._attribute(attribute.CU_DEVICE_ATTRIBUTE_CLOCK_RATE)
        capability = driver.compute_capability(self._ordinal)
        self.arch = target_for_capability(*capability).arch
        if reason := cub.missing():
            self.missing.append(reason)
        else:
            self.peers["cub"] = cub.Cub(
                functools.partial(cub.load, self.arch),
                lambda nbytes: self.empty("uint8", nbytes),
                lambda array: address_of(array),
            )
        lanes = 64 if capability == (8, 0) else 128
        # A fused multiply-add, of float32, is two operations.
        self.peak_flops = 2 * lanes * clock * driver.multiprocessors(self._ordinal)
        with driver.on_device(self._ordinal):
            _, total = driver.check(self._driver.cuMemGetInfo())
            self._events = [driver.check(self._driver.cuEventCreate(0)) for _ in range(_MOST + 1)]
        self.elements = elements or (FULL_SIZE if total > 60e9 else FULL_SIZE // 8)
        self._scratch = kspec.empty(min(_COPY_BYTES, 4 * self.elements), "uint8", "cuda")
        self.ops: Ops = self._best_ops()

    def _attribute(self, which: Any) -> int:
        device = driver.check(self._driver.cuDeviceGet(self._ordinal))
        return int(driver.check(self._driver.cuDeviceGetAttribute(which, device)))

    def _best_ops(self) -> Ops:
        if "torch" in self.peers:
            return TorchOps(self.peers["torch"])
        if "cupy" in self.peers:
            return ArrayModuleOps(self.peers["cupy"])
        return _HostCopyOps(np)

    @contextmanager
    def _current(self) -> Iterator[None]:
        with driver.on_device(self._ordinal):
            yield

    def random(self, dtype: str, count: int, seed: int) -> Any:
        cupy = self.peers.get("cupy")
        if cupy is None:
            return self.array(random_numpy(dtype, count, seed))
        return _random(cupy, dtype, count, seed)

    def array(self, values: Any) -> Any:
        cupy = self.peers.get("cupy")
        return kspec.asarray(values, device="cuda") if cupy is None else cupy.asarray(values)

    def empty(self, dtype: str, count: int) -> Any:
        cupy = self.peers.get("cupy")
        return kspec.empty(count, dtype, "cuda") if cupy is None else cupy.empty(count, dtype)

    def poison(self, array: Any) -> None:
        self._fill(address_of(array), array.nbytes)

    def _fill(self, address: int, nbytes: int) -> None:
        if nbytes:
            with self._current():
                driver.check(self._driver.cuMemsetD8Async(address, 0xFF, nbytes, 0))

    def finish(self) -> None:
        driver.synchronize(self._ordinal)

    def time(self, calls: Sequence[Call], budget: float) -> Sample:
        for call in calls:
            call()
        self.finish()
        start = time.perf_counter()
        calls[0]()
        queued = time.perf_counter() - start
        self.finish()
        once = time.perf_counter() - start
        count = repetitions(once, budget, _MOST)
        turns = [calls[number % len(calls)] for number in range(count)]
        with garbage_collection_off(), self._current():
            self._hold(1.5 * count * queued)
            return summarise(self._between_events(turns))

    def _hold(self, seconds: float) -> None:
        """Keep the device busy while calls are queued behind.

        A device that waits for the host would count the host's time as the kernel's.  What
        keeps it busy also drops the operands from the cache.
        """
        bandwidth = 5e12  # of a fast device; on others the time is longer than it has to be
        turns = 1 + int(min(seconds, 0.05) * bandwidth / self._scratch.nbytes)
        for _ in range(min(turns, _QUEUE)):
            self._fill(self._scratch.ptr, self._scratch.nbytes)

    def _between_events(self, turns: Sequence[Call]) -> list[float]:
        events, check = self._events, driver.check
        check(self._driver.cuEventRecord(events[0], 0))
        for event, call in zip(events[1:], turns, strict=False):
            call()
            check(self._driver.cuEventRecord(event, 0))
        check(self._driver.cuEventSynchronize(events[len(turns)]))
        pairs = itertools.pairwise(events[: len(turns) + 1])
        return [1e-3 * float(check(self._driver.cuEventElapsedTime(*pair))) for pair in pairs]

    def copy_sample(self) -> tuple[int, Sample]:
        nbytes = self._scratch.nbytes
        source = self.random("uint8", nbytes, seed=99)
        address, target = address_of(source), self._scratch.ptr

        def copy() -> None:
            driver.check(self._driver.cuMemcpyDtoDAsync(target, address, nbytes, 0))

        with self._current():
            rounds = [self.time([copy], 0.1) for _ in range(3)]
        median = statistics.median(sample.median for sample in rounds)
        least = min(sample.minimum for sample in rounds)
        return 2 * nbytes, Sample(median, least, sum(sample.count for sample in rounds))

    def free(self) -> None:
        cupy, torch = self.peers.get("cupy"), self.peers.get("torch")
        if cupy is not None:
            cupy.get_default_memory_pool().free_all_blocks()
        if torch is not None:
            torch.cuda.empty_cache()


class _HostCopyOps(ArrayModuleOps):
    """NumPy, on copies of arrays that live on a GPU."""

    def of(self, array: Any) -> Any:
        return kspec.asnumpy(array) if isinstance(array, kspec.DeviceArray) else array


def random_numpy(dtype: str, count: int, seed: int) -> Any:
    """Return random elements as a NumPy array."""
    return _random(np, dtype, count, seed)


def _random(xp: Any, dtype: str, count: int, seed: int) -> Any:
    generator = xp.random.default_rng(1000 + seed)
    kind = np.dtype(dtype).kind
    if kind == "c":
        parts = {"complex64": "float32", "complex128": "float64"}[dtype]
        return _random(xp, parts, 2 * count, seed).view(dtype)
    out = xp.empty(count, dtype)
    for start in range(0, count, _PIECE):
        size = min(_PIECE, count - start)
        wide = np.float64 if dtype == "float64" else np.float32
        piece = generator.random(size, dtype=wide)
        if kind != "f":
            piece = piece * 200 - (0 if kind == "u" else 100)
        out[start : start + size] = piece.astype(dtype)
    return out


def address_of(array: Any) -> int:
    """Return where an array of kspec's or CuPy's starts."""
    return int(array.ptr if isinstance(array, kspec.DeviceArray) else array.data.ptr)


def _host_cache_bytes() -> int:
    """Return the size of the last cache, at most what operands can be rotated through quickly."""
    try:
        size = os.sysconf("SC_LEVEL3_CACHE_SIZE")
    except (ValueError, OSError):
        size = 0
    return min(size, 2**26) if size > 0 else 2**25


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:  # noqa: PTH123
            for text in lines:
                if text.startswith("model name"):
                    return text.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
