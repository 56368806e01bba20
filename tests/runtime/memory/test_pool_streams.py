"""Own arrays on several streams: memory is used again in the order that its users expect.

The first half looks at what the driver is asked, with a driver that only takes notes. The second
half needs a GPU: kernels that spin for a while show what overtakes them.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import kspec
from kspec import texture
from kspec.runtime import driver
from kspec.runtime.driver import memory as driver_memory
from kspec.runtime.driver import stream as driver_streams
from kspec.runtime.modules.loader import KernelLoader
from tests.runtime.libraries.test_array_access import FakeArray, FakeKernel, cupy
from tests.runtime.memory_driver import GPU, OTHER, SIDE, FakeDriver, memory

__all__ = ["cupy", "memory"]


@pytest.fixture
def launches(memory: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return what kernels were launched on the device that only takes notes."""
    kernel = FakeKernel()
    monkeypatch.setattr(KernelLoader, "kernel", lambda self, wanted, device, sanitize: kernel)
    monkeypatch.setattr(KernelLoader, "check_captured", lambda self, wanted, device, stream: None)
    return kernel.launches


def allocated(count: int = 100) -> kspec.DeviceArray:
    return kspec.empty(count, "float32", GPU)


def waits(calls: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [call for call in calls if call[0] in ("record", "wait", "synchronize")]


class TestLeaving:
    def test_the_first_use_waits(self, memory: FakeDriver) -> None:
        x = allocated()
        memory.calls.clear()
        x._memory.leave(SIDE)  # type: ignore[attr-defined]
        assert memory.take_calls() == [("record", 1, 0), ("wait", SIDE, 1)]
        del x
        assert memory.take_calls() == [("destroy", 1), ("free", 512)]

    def test_others_wait_for_the_same(self, memory: FakeDriver) -> None:
        block: Any = allocated()._memory
        for stream in (SIDE, SIDE, OTHER):
            block.leave(stream)
        assert waits(memory.calls) == [
            ("record", 1, 0),
            ("wait", SIDE, 1),
            ("wait", SIDE, 1),  # it may be another stream of the same handle
            ("wait", OTHER, 1),
        ]

    def test_until_it_is_over(self, memory: FakeDriver) -> None:
        block: Any = allocated()._memory
        block.leave(SIDE)
        memory.done = True
        memory.calls.clear()
        block.leave(OTHER)
        assert memory.take_calls() == [("destroy", 1)]
        block.leave(SIDE)
        assert memory.take_calls() == []
        del block
        assert memory.calls == [("free", 512)]

    def test_graphs_do_not_wait(self, memory: FakeDriver) -> None:
        """They may be launched on any stream."""
        block: Any = allocated()._memory
        memory.capturing = {SIDE}
        memory.calls.clear()
        block.leave(SIDE)
        block.leave(OTHER)
        assert memory.calls == [("record", 1, 0), ("synchronize", 1), ("destroy", 1)]

    def test_while_the_default_stream_can_not_be_used(self, memory: FakeDriver) -> None:
        block: Any = allocated()._memory
        memory.capturing = {SIDE, 0}
        memory.calls.clear()
        block.leave(SIDE)
        block.leave(OTHER)
        assert memory.calls == [("allocate", 1), ("free", 1)]  # which waits


# Calls of `TestUses`, and how many arrays of kspec's own they have.
ARRAYS = {
    "given": 3,
    "made": 3,
    "scalar": 2,
    "view": 3,
    "reduction": 2,
    "out": 2,
    "raw": 2,
    "bound": 3,
    "bound raw": 2,
}


class TestUses:
    """Who uses memory elsewhere says so, and nobody else."""

    @pytest.fixture(autouse=True)
    def _launches(self, launches: list[Any]) -> None:
        self.launches = launches
        # New ones, for they keep what they are launched with.
        self.add = kspec.ElementwiseKernel("T x, T y", "T z", "z = x + y", "add_pool")
        self.total = kspec.ReductionKernel("T x", "T y", "x", "a + b", "y = a", "0", "total_pool")
        self.raw = kspec.RawKernel("", "raw_pool")

    def calls(self) -> dict[str, Callable[..., Any]]:
        add, total, raw = self.add, self.total, self.raw
        x, y, z = allocated(), allocated(), allocated()
        return {
            "given": lambda **k: add(x, y, z, **k),
            "made": lambda **k: add(x, y, **k),
            "scalar": lambda **k: add(x, 2.5, z, **k),
            "view": lambda **k: add(x[::2], y[50:], z[:50], **k),
            "reduction": lambda **k: total(x, **k),
            "out": lambda **k: total(x, out=z.reshape(10, 10)[0, 0], **k),
            "raw": lambda **k: raw((1,), (1,), (x, 3, z), **k),
            "bound": lambda **k: add.bind(x, y, z, **k)(),
            "bound raw": lambda **k: raw.bind((1,), (1,), (x, z), **k)(),
        }

    @pytest.mark.parametrize("name", ARRAYS)
    @pytest.mark.parametrize("stream", [None, 0, driver_streams.LEGACY_STREAM])
    def test_at_home(self, name: str, stream: int | None, memory: FakeDriver) -> None:
        call = self.calls()[name]
        del call  # what it refers to stays home
        call = self.calls()[name]
        for _ in range(6):
            call(stream=stream)
        assert {one[0] for one in memory.calls} == {"allocate"}
        assert len(self.launches) == 6
        memory.calls.clear()
        call(stream=stream)
        assert memory.calls == []

    @pytest.mark.parametrize("name", ARRAYS)
    @pytest.mark.parametrize("hot", [0, 6])
    def test_elsewhere(self, name: str, hot: int, memory: FakeDriver) -> None:
        call = self.calls()[name]
        for _ in range(hot):
            call()
            call(stream=OTHER)
        memory.calls.clear()
        result = call(stream=SIDE)
        assert self.launches[-1][0].stream == SIDE
        told = [call for call in memory.calls if call[:2] == ("wait", SIDE)]
        assert len(told) == ARRAYS[name]
        del call, result
        gc.collect()
        assert kspec.memory_pool(GPU).used_bytes() == 0
        kspec.memory_pool(GPU).free_all_blocks()
        assert memory.sizes == {}

    @pytest.mark.parametrize("hot", [0, 6])
    def test_on_the_stream_of_another_library(
        self, hot: int, cupy: Any, memory: FakeDriver
    ) -> None:
        theirs, mine = FakeArray((100,), np.dtype("float32")), allocated()
        for _ in range(hot):
            self.add(theirs, mine)
            self.raw((1,), (1,), (theirs, mine))
        assert waits(memory.calls) == []
        cupy.current = SimpleNamespace(ptr=SIDE)
        self.add(theirs, mine)
        memory.calls.clear()
        for launch in (
            lambda: self.add(theirs, mine),
            lambda: self.raw((1,), (1,), (theirs, mine)),
        ):
            launch()
            events = [
                (call[0], call[-1] if call[0] == "record" else call[1])
                for call in waits(memory.take_calls())
            ]
            # What is queued there comes after what own arrays wait for, and that after it.
            assert ("record", 0) in events
            assert set(events[:-2]) == {("record", 0), ("wait", SIDE)}
            assert events[-2:] == [("record", SIDE), ("wait", 0)]

    def test_in_a_graph_nobody_waits(self, cupy: Any, memory: FakeDriver) -> None:
        theirs, mine = FakeArray((100,), np.dtype("float32")), allocated()
        self.add(theirs, mine)
        memory.done = True
        cupy.current = SimpleNamespace(ptr=SIDE)
        self.add(theirs, mine)
        memory.capturing = {SIDE}
        memory.calls.clear()
        for _ in range(5):
            self.add(theirs, mine)
        assert waits(memory.calls) == []

    def test_the_stream_of_each_thread_is_another(self, memory: FakeDriver) -> None:
        x = allocated()
        self.add(x, x, x, stream=driver_streams.PER_THREAD_STREAM)
        assert waits(memory.calls)[:2] == [("record", 1, 0), ("wait", 2, 1)]

    def test_what_is_not_used_stays(self, memory: FakeDriver) -> None:
        x, other = allocated(), allocated()
        address = other._ptr
        self.add(x, x, x, stream=SIDE)
        del other
        assert allocated()._ptr == address

    def test_outputs_do_not_come_back(self, memory: FakeDriver) -> None:
        x = allocated()
        memory.calls.clear()
        for _ in range(6):
            self.add(x, x, stream=SIDE)
        assert [call for call in memory.calls if call[0] in ("allocate", "free")] == [
            ("allocate", 512),
            ("free", 512),
        ] * 6


class Convertible:
    """Gives CuPy an array."""

    def __init__(self, array: kspec.DeviceArray) -> None:
        self.array = array

    def __cupy_get_ndarray__(self) -> kspec.DeviceArray:
        return self.array


def in_a_texture(array: kspec.DeviceArray) -> object:
    channels = texture.ChannelFormatDescriptor(32, 0, 0, 0, texture.cudaChannelFormatKindFloat)
    return texture.ResourceDescriptor(
        texture.cudaResourceTypeLinear, arr=array, chDesc=channels, sizeInBytes=64
    )


class TestShowing:
    """Who gets an address may use it on any stream, at once."""

    @pytest.mark.parametrize(
        "show",
        [
            lambda x: x.ptr,
            lambda x: x[3:].T.ptr,
            lambda x: x.__cuda_array_interface__,
            lambda x: x.__dlpack__(),
            lambda x: x.__dlpack__(stream=-1),
            in_a_texture,
            lambda x: kspec.runtime.libraries.lookup.library_of(Convertible(x)).view(
                Convertible(x)
            ),
        ],
        ids=["ptr", "view", "interface", "dlpack", "unsynchronized", "texture", "convertible"],
    )
    def test_ways(self, show: Callable[[Any], object], memory: FakeDriver) -> None:
        x = allocated()
        for _ in range(2):
            shown = show(x)
        assert memory.calls == [
            ("allocate", 512),
            ("record", 1, 0),
            ("synchronize", 1),
            ("destroy", 1),
        ]
        del shown
        memory.calls.clear()
        del x
        gc.collect()
        assert memory.calls == [("free", 512)]

    def test_copies_are_not_shown(
        self, memory: FakeDriver, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(driver_memory, "copy", lambda *given: None)
        x = allocated()
        x.__dlpack__(copy=True)
        kspec.asnumpy(x)
        x[...] = 1
        memory.calls.clear()
        del x
        assert memory.calls == []


SPINS = 600_000_000  # cycles: a third of a second
LATE = kspec.RawKernel(
    r"""
extern "C" __global__ void late(const int* from, int* to, long long cycles) {
  const long long begin = clock64();
  while (clock64() - begin < cycles) {
  }
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  to[i] = from[i];
}
""",
    "late",
)
FILL = kspec.ElementwiseKernel("int32 value", "int32 x", "x = value", "fill_pool")
ONE_MORE = kspec.ElementwiseKernel("int32 x", "int32 y", "y = x + 1", "one_more_pool")
COUNT = 1024


def late(source: Any, target: Any, cycles: int = SPINS, stream: Any = None) -> None:
    LATE((COUNT // 256,), (256,), (source, target, cycles), stream=stream)


class Stream:
    """A stream of the driver's."""

    def __init__(self, flags: int) -> None:
        with driver.on_device(0):  # threads have none by themselves
            self.ptr = int(driver.check(driver.bindings().cuStreamCreate(flags)))

    def is_idle(self) -> bool:
        (code,) = driver.bindings().cuStreamQuery(self.ptr)
        return bool(code == driver.bindings().CUresult.CUDA_SUCCESS)


NON_BLOCKING = 1


@pytest.mark.gpu
class TestOnAGpu:
    @pytest.fixture(autouse=True)
    def _warm(self) -> Iterator[None]:
        """Load the kernels, which would take longer than they spin, and empty the pool."""
        x = kspec.zeros(COUNT, "int32", "cuda")
        late(x, kspec.zeros(COUNT, "int32", "cuda"), 0)
        FILL(0, x)
        ONE_MORE(x)
        del x
        driver.synchronize(0)
        self.pool = kspec.memory_pool("cuda:0")
        before, self.pool.limit = self.pool.limit, 2**36
        yield
        driver.synchronize(0)
        self.pool.limit = before

    @pytest.fixture(params=[NON_BLOCKING, 0], ids=["apart", "blocking"])
    def stream(self, request: pytest.FixtureRequest) -> Iterator[Stream]:
        made = Stream(request.param)
        yield made
        driver.check(driver.bindings().cuStreamSynchronize(made.ptr))
        driver.check(driver.bindings().cuStreamDestroy(made.ptr))

    def ones(self) -> kspec.DeviceArray:
        return kspec.asarray(np.ones(COUNT, "int32"), device="cuda")

    def left_behind(self) -> tuple[kspec.DeviceArray, kspec.DeviceArray]:
        """Return memory that a kernel is going to read, and where it copies that to."""
        out = kspec.zeros(COUNT, "int32", "cuda")
        source = self.ones()
        address = source._ptr
        late(source, out)
        del source
        again = kspec.empty(COUNT, "int32", "cuda")
        assert again._ptr == address
        return again, out

    def test_used_again_at_home(self) -> None:
        again, out = self.left_behind()
        FILL(7, again)
        assert (kspec.asnumpy(out) == 1).all()
        assert (kspec.asnumpy(again) == 7).all()

    @pytest.mark.parametrize("hot", [0, 6])
    def test_used_again_elsewhere(self, hot: int, stream: Stream) -> None:
        for _ in range(hot):
            FILL(0, kspec.empty(COUNT, "int32", "cuda"), stream=stream)
        driver.synchronize(0)
        again, out = self.left_behind()
        FILL(7, again, stream=stream)
        assert not stream.is_idle()  # nobody waited on the host
        driver_streams.synchronize_stream(0, stream.ptr)
        assert (kspec.asnumpy(out) == 1).all()
        assert (kspec.asnumpy(again) == 7).all()

    @pytest.mark.parametrize("hot", [0, 6])
    def test_outputs_elsewhere(self, hot: int, stream: Stream) -> None:
        x = self.ones()
        for _ in range(hot):
            ONE_MORE(x, stream=stream)
        driver.synchronize(0)
        out = kspec.zeros(COUNT, "int32", "cuda")
        source = self.ones()
        late(source, out)
        address = source._ptr
        del source
        y = ONE_MORE(x, stream=stream)
        assert y._ptr == address
        driver_streams.synchronize_stream(0, stream.ptr)
        assert (kspec.asnumpy(out) == 1).all()
        assert (kspec.asnumpy(y) == 2).all()

    def test_zeros_are_there(self, stream: Stream) -> None:
        x, out = self.ones(), kspec.zeros(COUNT, "int32", "cuda")
        late(x, out)
        counted = kspec.zeros(COUNT, "int32", "cuda")
        ONE_MORE(counted, counted, stream=stream)
        assert (kspec.asnumpy(counted) == 1).all()

    def test_addresses_can_be_used_at_once(self, stream: Stream) -> None:
        again, out = self.left_behind()
        address = again.ptr
        driver.check(
            driver.bindings().cuMemsetD8Async(address, 7, 4 * COUNT, stream.ptr),
        )
        driver_streams.synchronize_stream(0, stream.ptr)
        assert (kspec.asnumpy(out) == 1).all()

    @pytest.mark.parametrize("count", [COUNT, 2**26])
    def test_freed_while_in_use(self, count: int, stream: Stream) -> None:
        out = kspec.zeros(COUNT, "int32", "cuda")
        source = kspec.asarray(np.ones(count, "int32"), device="cuda")
        late(source, out, stream=stream)
        assert not stream.is_idle()
        used = self.pool.used_bytes()
        del source
        assert stream.is_idle()  # the driver waits before it frees
        assert self.pool.used_bytes() < used
        FILL(7, kspec.empty(count, "int32", "cuda"))
        driver_streams.synchronize_stream(0, stream.ptr)
        assert (kspec.asnumpy(out) == 1).all()

    def test_graphs(self, stream: Stream) -> None:
        bindings = driver.bindings()
        x = self.ones()
        for _ in range(3):
            ONE_MORE(x, stream=stream)
            FILL(0, kspec.empty(COUNT, "int32", "cuda"), stream=stream)
        away = self.ones()
        FILL(1, away, stream=stream)
        driver.synchronize(0)
        again, out = self.left_behind()
        # Threads of libraries that were imported before may do what they like.
        mode = bindings.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        driver.check(bindings.cuStreamBeginCapture(stream.ptr, mode))
        try:
            FILL(7, again, stream=stream)
            y = ONE_MORE(again, stream=stream)
            del away  # is freed while the graph is made
        finally:  # or every later test of the process would fail
            ended = bindings.cuStreamEndCapture(stream.ptr)
        graph = driver.check(ended)
        launchable = driver.check(bindings.cuGraphInstantiate(graph, 0))
        other = Stream(NON_BLOCKING)
        driver.check(bindings.cuGraphLaunch(launchable, other.ptr))
        driver_streams.synchronize_stream(0, other.ptr)
        assert (kspec.asnumpy(out) == 1).all()
        assert (kspec.asnumpy(again) == 7).all()
        assert (kspec.asnumpy(y) == 8).all()
        driver.check(bindings.cuGraphExecDestroy(launchable))
        driver.check(bindings.cuGraphDestroy(graph))
        driver.check(bindings.cuStreamDestroy(other.ptr))

    def test_without_memory(self) -> None:
        free, total = driver.check(driver.bindings().cuMemGetInfo())
        self.pool.limit = total
        kspec.zeros(free * 6 // 10, "int8", "cuda")
        assert self.pool.free_bytes() >= free * 6 // 10
        x = kspec.zeros(free * 7 // 10, "int8", "cuda")
        assert self.pool.free_bytes() == 0
        assert not kspec.asnumpy(x[-100:]).any()
        with pytest.raises(kspec.DriverError, match="OUT_OF_MEMORY"):
            kspec.empty(total, "int8", "cuda")

    @pytest.mark.threads
    def test_threads(self) -> None:
        def work(number: int) -> bool:
            mine = Stream(NON_BLOCKING)
            right = True
            for step in range(100):
                x = kspec.asarray(np.full(COUNT, number, "int32"), device="cuda")
                for _ in range(5):
                    x = ONE_MORE(x)
                if step % 4 == 0:
                    driver.synchronize(0)
                    x = ONE_MORE(x, stream=mine)
                    driver_streams.synchronize_stream(0, mine.ptr)
                right &= bool((kspec.asnumpy(x) == number + 5 + (step % 4 == 0)).all())
            driver.check(driver.bindings().cuStreamDestroy(mine.ptr))
            return right

        gc.collect()
        before = self.pool.used_bytes()  # plans of calls in other tests keep some
        with ThreadPoolExecutor(8) as threads:
            assert all(threads.map(work, range(0, 80, 10)))
        gc.collect()
        assert self.pool.used_bytes() == before
