"""Kernels that are launched as CUDA graphs: nothing may be seen of it but the time."""

from __future__ import annotations

import gc
import threading
import weakref
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import kspec
from kspec.runtime.callcache import param_buffer
from kspec.runtime.driver import graph as driver_graph

pytestmark = pytest.mark.gpu

ADD = kspec.ElementwiseKernel("float32 x, float32 a", "float32 y", "y = x + a", "add_graph")
NEXT = kspec.ElementwiseKernel("T x, T y", "T z", "z = x + y", "next_graph")
SUM = kspec.ReductionKernel("T x", "T y", "x", "a + b", "y = a", "0", "sum_graph")
HOLD = kspec.RawKernel(
    r"""extern "C" __global__ void hold(long long cycles) {
        for (long long begin = clock64(); clock64() - begin < cycles;) {}
    }""",
    "hold",
)
HOLD_UNTIL = kspec.RawKernel(
    r"""extern "C" __global__ void hold_until(const volatile int* go, long long most) {
        for (long long begin = clock64(); !*go && clock64() - begin < most;) __nanosleep(1000);
    }""",
    "hold_until",
)
MOST = 20_000_000_000  # cycles: ten seconds
SIZE = 1000


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Every block becomes a graph after its first launch."""
    monkeypatch.setenv("KSPEC_GRAPH_LAUNCH", "always")
    monkeypatch.setattr(param_buffer, "HOT", 1)
    monkeypatch.setattr(param_buffer, "_graphs", deque())
    yield pytest.importorskip("cupy")
    for kernel in (ADD, NEXT, SUM, HOLD, HOLD_UNTIL):
        kernel._call_cache.clear()
    gc.collect()


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was launched through graphs: "update" and "launch"."""
    notes: list[str] = []
    make = driver_graph.make_graph

    def noting(*given: Any) -> driver_graph.GraphStart:
        start = make(*given)
        return start._replace(
            launch=lambda: notes.append("launch") or start.launch(),
            update=lambda: notes.append("update") or start.update(),
        )

    monkeypatch.setattr(driver_graph, "make_graph", noting)
    return notes


def warm(call: Any) -> None:
    for _ in range(6):
        call()


def streams(cupy: Any) -> list[Any]:
    stream = cupy.cuda.Stream
    return [stream.null, stream(), stream(non_blocking=True), stream.ptds]


@contextmanager
def held(cupy: Any, stream: Any) -> Iterator[None]:
    """Let the device wait with a stream, however long the block takes, for ten seconds at most."""
    memory = cupy.cuda.alloc_pinned_memory(4)
    go = np.frombuffer(memory, np.int32, 1)
    go[0] = 0
    HOLD_UNTIL((1,), (1,), (memory.ptr, MOST), stream=stream)
    yield
    late = not stream.done
    go[0] = 1
    stream.synchronize()  # which reads the flag
    assert late, "something has waited for the device"


class TestDeepQueue:
    """Launches whose parameters change while many of them wait for the device."""

    @pytest.mark.unsanitized("under the tools, launches wait for a kernel that waits for the host")
    @pytest.mark.parametrize("number", range(4))
    def test_each_has_its_own_parameters(self, number: int, cupy: Any, launches: list[str]) -> None:
        x = cupy.arange(SIZE, dtype="float32")
        outputs = [cupy.full(SIZE, -1, "float32") for _ in range(300)]
        stream = streams(cupy)[number]
        with stream:
            warm(lambda: ADD(x, -1.0, outputs[0]))
            cupy.cuda.Device().synchronize()
            with held(cupy, stream):
                launches.clear()
                for k, out in enumerate(outputs):
                    assert ADD(x, float(k), out) is out
        for k, out in enumerate(outputs):
            np.testing.assert_array_equal(cupy.asnumpy(out), np.arange(SIZE) + np.float32(k))
        # All but the first launch of each block are launches of its graph, with other values.
        assert launches.count("launch") >= 300 - (param_buffer.MAX_BUFFERS - 1)
        assert launches.count("update") >= 300 - (param_buffer.MAX_BUFFERS - 1)

    @pytest.mark.unsanitized("under the tools, what makes and destroys graphs waits for the device")
    def test_graphs_are_destroyed_while_they_wait(
        self, cupy: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(param_buffer, "MAX_GRAPHS", 2)
        arrays = [cupy.arange(SIZE + k, dtype="float32") for k in range(6)]
        outputs = [[cupy.full_like(x, -1) for _ in range(20)] for x in arrays]
        for x, outs in zip(arrays, outputs, strict=True):
            warm(lambda x=x, outs=outs: ADD(x, -1.0, outs[0]))  # type: ignore[misc]
        cupy.cuda.Device().synchronize()
        # Graphs are made and destroyed meanwhile.
        with held(cupy, cupy.cuda.Stream.null):
            for k in range(20):
                for x, outs in zip(arrays, outputs, strict=True):
                    ADD(x, float(k), outs[k])
            ADD._call_cache.clear()
            gc.collect()
        for x, outs in zip(arrays, outputs, strict=True):
            for k, out in enumerate(outs):
                np.testing.assert_array_equal(cupy.asnumpy(out), cupy.asnumpy(x) + np.float32(k))

    @pytest.mark.threads
    def test_threads_on_streams_of_their_own(self, cupy: Any) -> None:
        """A soak: results of thousands of calls, on four streams and by eight threads."""
        wrong: list[Any] = []

        def work(number: int) -> None:
            stream = streams(cupy)[number % 4]
            rng = np.random.default_rng(number)
            with cupy.cuda.Device(0), stream:
                x = cupy.arange(SIZE, dtype="float32")
                for _ in range(15):
                    HOLD((1,), (1,), (2_000_000,), stream=stream)
                    values = rng.integers(0, 1000, 100)
                    outs = [ADD(x, float(value)) for value in values]
                    totals = [SUM(out) for out in outs[:20]]
                    stream.synchronize()
                    for value, out in zip(values, outs, strict=True):
                        if not np.array_equal(cupy.asnumpy(out), np.arange(SIZE) + value):
                            wrong.append((number, value))
                    for value, total in zip(values, totals, strict=False):
                        if float(total) != np.sum(np.arange(SIZE) + value):
                            wrong.append((number, value, float(total)))

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []


class TestChangingShapes:
    """Calls of which each has another number of elements."""

    @pytest.mark.parametrize("number", range(4))
    @pytest.mark.unsanitized("under the tools, launches wait for a kernel that waits for the host")
    def test_each_has_its_own_size(self, number: int, cupy: Any, launches: list[str]) -> None:
        x = cupy.arange(5000, dtype="float32")
        outputs = [cupy.full(5000, -1, "float32") for _ in range(200)]
        stream = streams(cupy)[number]
        with stream:
            for size in range(1, 60):
                ADD(x[:size], -1.0, outputs[0][:size])
            cupy.cuda.Device().synchronize()
            launches.clear()
            with held(cupy, stream):
                for k, out in enumerate(outputs):
                    ADD(x[: 300 + 20 * k], float(k), out[: 300 + 20 * k])
        for k, out in enumerate(outputs):
            got, size = cupy.asnumpy(out), 300 + 20 * k
            np.testing.assert_array_equal(got[:size], np.arange(size) + np.float32(k))
            assert (got[size:] == -1).all()
        assert launches.count("launch") >= 190
        assert launches.count("update") >= 190

    def test_while_a_stream_is_captured(self, cupy: Any, launches: list[str]) -> None:
        x, out = cupy.arange(5000, dtype="float32"), cupy.zeros(5000, "float32")
        stream = cupy.cuda.Stream()
        with stream:
            for size in range(1, 60):
                ADD(x[:size], 1.0, out[:size])
            launches.clear()
            stream.begin_capture()
            ADD(x[:3000], 2.0, out[:3000])
            ADD(x[:1001], 3.0, out[:1001])
            graph = stream.end_capture()
            ADD(x[:4096], 4.0, out[:4096])
            stream.synchronize()
            np.testing.assert_array_equal(cupy.asnumpy(out)[:4096], np.arange(4096) + 4)
            graph.launch()
            stream.synchronize()
        assert "launch" in launches
        expected = np.arange(4096) + np.repeat([3, 2, 4], [1001, 1999, 1096])
        np.testing.assert_array_equal(cupy.asnumpy(out)[:4096], expected)


class TestOrder:
    def test_a_loop_that_feeds_back(self, cupy: Any, launches: list[str]) -> None:
        x, y = cupy.ones(SIZE, "float32"), cupy.zeros(SIZE, "float32")
        for _ in range(500):
            y = NEXT(x, y)
        assert float(y.min()) == float(y.max()) == 500
        assert launches.count("launch") > 450

    def test_the_default_stream_waits_and_is_waited_for(self, cupy: Any) -> None:
        """As the legacy default stream and blocking ones do."""
        x = cupy.zeros(SIZE, "float32")
        warm(lambda: ADD(x, 1.0, x))
        x.fill(0)
        other = cupy.cuda.Stream()
        cupy.cuda.Device().synchronize()
        for _ in range(20):
            with other:
                HOLD((1,), (1,), (1_000_000,), stream=other)
                x *= 2
            ADD(x, 1.0, x)  # on the default stream
        expected = 0.0
        for _ in range(20):
            expected = np.float32(expected * 2 + 1)
        np.testing.assert_array_equal(cupy.asnumpy(x), np.full(SIZE, expected))

    def test_reductions_with_scratch_memory(self, cupy: Any, launches: list[str]) -> None:
        arrays = [cupy.full(2_000_000, k, "int64") for k in range(5)]
        out = cupy.zeros((), "int64")
        for _ in range(10):
            for k, x in enumerate(arrays):
                assert int(SUM(x, out)) == 2_000_000 * k
        assert launches.count("launch") > 40


class TestCapture:
    """A graph cannot be launched on a stream that is captured: its kernel is."""

    @pytest.mark.parametrize("number", [1, 2])
    def test_cupy(self, number: int, cupy: Any, launches: list[str]) -> None:
        x, y = cupy.arange(SIZE, dtype="float32"), cupy.zeros(SIZE, "float32")
        stream = streams(cupy)[number]
        with stream:
            warm(lambda: ADD(x, 1.0, y))
            launches.clear()
            stream.begin_capture()
            ADD(x, 2.0, y)
            ADD(y, 3.0, y)
            graph = stream.end_capture()
            ADD(x, 7.0, y)  # the same block, with other parameters
            stream.synchronize()
            np.testing.assert_array_equal(cupy.asnumpy(y), np.arange(SIZE) + 7)
            for k in range(3):
                x.fill(k)
                graph.launch(stream)
                stream.synchronize()
                np.testing.assert_array_equal(cupy.asnumpy(y), np.full(SIZE, k + 5))

    @pytest.mark.pools
    def test_torch(self, cupy: Any) -> None:
        torch = pytest.importorskip("torch")
        x, y = torch.ones(SIZE, device="cuda"), torch.zeros(SIZE, device="cuda")
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            warm(lambda: ADD(x, 1.0, y))
            NEXT(y, y)  # compiles it
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=side):
            ADD(x, 2.0, y)
            z = NEXT(y, y)
        x.fill_(5)
        graph.replay()
        torch.cuda.synchronize()
        assert float(z.min()) == float(z.max()) == 14

    @pytest.mark.unsanitized("the tools do what a capture forbids to other threads")
    def test_graphs_are_made_and_destroyed_meanwhile(self, cupy: Any) -> None:
        """By another thread, which must not spoil the capture."""
        x, y = cupy.arange(SIZE, dtype="float32"), cupy.zeros(SIZE, "float32")
        begun, done = threading.Event(), threading.Event()
        problems: list[str] = []
        a, b = cupy.ones(77, "float32"), cupy.zeros(77, "float32")

        def other() -> None:
            with cupy.cuda.Device(0):
                begun.wait(20)
                try:
                    for k in range(10):
                        ADD(a, float(k), b, stream=other_stream)
                    ADD._call_cache.clear()
                    gc.collect()
                except Exception as error:
                    problems.append(repr(error))
                finally:
                    done.set()

        other_stream = cupy.cuda.Stream(non_blocking=True)
        cupy.cuda.Device().synchronize()
        for _ in range(3):
            ADD(a, 1.0, b, stream=other_stream)  # compiled and loaded before
        thread = threading.Thread(target=other)
        thread.start()
        stream = cupy.cuda.Stream(non_blocking=True)
        with stream:
            warm(lambda: NEXT(x, x, y))
            stream.begin_capture()  # in the mode that forbids others the most
            NEXT(x, y, y)
            begun.set()
            assert done.wait(20)
            NEXT(x, y, y)
            graph = stream.end_capture()
            y.fill(0)
            graph.launch(stream)
        stream.synchronize()
        thread.join()
        assert problems == []
        np.testing.assert_array_equal(cupy.asnumpy(y), 2 * np.arange(SIZE))
        cupy.cuda.Device().synchronize()
        np.testing.assert_array_equal(cupy.asnumpy(b), np.full(77, 10))


class TestSwitch:
    @pytest.mark.parametrize(
        ("name", "value"), [("KSPEC_GRAPH_LAUNCH", "never"), ("CUDA_LAUNCH_BLOCKING", "1")]
    )
    def test_off(
        self,
        name: str,
        value: str,
        cupy: Any,
        launches: list[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setenv(name, value)
        x = cupy.zeros(SIZE, "float32")
        for _ in range(10):
            ADD(x, 1.0, x)
        assert float(x.min()) == 10
        assert launches == []

    def test_new_threads_have_no_context_yet(self, cupy: Any) -> None:
        x, y = cupy.ones(SIZE, "float32"), cupy.zeros(SIZE, "float32")
        warm(lambda: ADD(x, 1.0, y))
        problems: list[str] = []

        def work() -> None:
            try:
                ADD(x, 4.0, y)
            except Exception as error:
                problems.append(repr(error))

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert problems == []
        assert float(y.max()) == 5

    def test_bound_calls(self, cupy: Any, launches: list[str]) -> None:
        x = cupy.zeros(SIZE, "float32")
        step = ADD.bind(x, 1.0, x)
        for _ in range(50):
            step()
        assert float(x.min()) == float(x.max()) == 50
        assert launches == ["launch"] * 49

    def test_not_more_than_so_many(self, cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(param_buffer, "MAX_GRAPHS", 5)
        made: list[Any] = []
        monkeypatch.setattr(
            driver_graph,
            "_Graph",
            lambda *given, kind=driver_graph._Graph: _note(made, kind(*given)),
        )
        for size in range(1, 30):
            x = cupy.zeros(size, "float32")
            for k in range(8):
                ADD(x, float(k), x)
            assert float(x.max()) == sum(range(8))
        gc.collect()
        alive = [one for one in made if one() is not None]
        assert len(made) > 5
        assert len(alive) <= 5


def _note(made: list[Any], graph: Any) -> Any:
    made.append(weakref.ref(graph))
    return graph
