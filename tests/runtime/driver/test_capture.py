"""Calls while a stream is captured: they become part of the graph, and work at every replay."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kspec

pytestmark = pytest.mark.gpu

ROWS = (60, 2000)
LONG = 3_000_000  # elements: several blocks share the output
NUMBERS = itertools.count()


def add(name: str = "add_captured") -> Any:
    return kspec.ElementwiseKernel("T x, T y", "T z", "z = x + y", name)


def total(name: str = "total_captured") -> Any:
    return kspec.ReductionKernel("T x", "T y", "x", "a + b", "y = a", "0", name)


def raw(name: str = "raw_captured") -> Any:
    code = f'extern "C" __global__ void {name}(const int* x, int* y, int n) {{'
    code += "int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = x[i] + 1; }"
    return kspec.RawKernel(code, name)


class CuPy:
    """Arrays and graphs of CuPy."""

    def __init__(self) -> None:
        self.module = pytest.importorskip("cupy")
        self.stream = self.module.cuda.Stream(non_blocking=True)

    def array(self, values: Any) -> Any:
        with self.stream:
            return self.module.asarray(values)

    def numpy(self, array: Any) -> Any:
        self.stream.synchronize()
        return self.module.asnumpy(array)

    def fill(self, array: Any, value: int) -> None:
        with self.stream:
            array.fill(value)

    def outside(self, call: Callable[[], Any]) -> Any:
        with self.stream:
            return call()

    def capture(self, call: Callable[[], Any]) -> tuple[Any, Callable[[], None]]:
        """Return what a captured call returned, and what replays it."""
        with self.stream:
            self.stream.begin_capture()
            try:
                result = call()
            finally:
                graph = self.stream.end_capture()
        return result, lambda: graph.launch(self.stream)


class Torch:
    """Those of torch, whose captures forbid unsafe calls in every thread."""

    def __init__(self) -> None:
        self.module = pytest.importorskip("torch")
        if not self.module.cuda.is_available():
            pytest.skip("no CUDA device")
        self.stream = self.module.cuda.Stream()

    def array(self, values: Any) -> Any:
        with self.module.cuda.stream(self.stream):
            return self.module.as_tensor(values, device="cuda")

    def numpy(self, array: Any) -> Any:
        self.module.cuda.synchronize()
        return array.cpu().numpy()

    def fill(self, array: Any, value: int) -> None:
        with self.module.cuda.stream(self.stream):
            array.fill_(value)

    def outside(self, call: Callable[[], Any]) -> Any:
        with self.module.cuda.stream(self.stream):
            return call()

    def capture(self, call: Callable[[], Any]) -> tuple[Any, Callable[[], None]]:
        self.module.cuda.synchronize()
        graph = self.module.cuda.CUDAGraph()
        with self.module.cuda.graph(graph, stream=self.stream):
            result = call()

        def replay() -> None:
            with self.module.cuda.stream(self.stream):
                graph.replay()

        return result, replay


class Core(CuPy):
    """Graph builders of cuda.core, on whose stream CuPy's arrays are."""

    def __init__(self) -> None:
        self.core = pytest.importorskip("cuda.core")
        if not hasattr(self.core, "Device"):
            pytest.skip("this cuda.core has no graphs")
        self.module = pytest.importorskip("cupy")
        device = self.core.Device(0)
        device.set_current()
        self.theirs = device.create_stream()
        self.stream = self.module.cuda.Stream.from_external(self.theirs)

    def capture(self, call: Callable[[], Any]) -> tuple[Any, Callable[[], None]]:
        builder = self.theirs.create_graph_builder().begin_building()
        try:
            with self.module.cuda.Stream.from_external(builder):
                result = call()
        finally:
            graph = builder.end_building().complete()
        return result, lambda: graph.launch(self.theirs)


@pytest.fixture(params=[CuPy, Torch, Core])
def library(request: pytest.FixtureRequest) -> Any:
    return request.param()


# What is called, given a kernel of a kind, an input and an output; the shape of the input; the
# result for an input of ones; whether the output is given.
Call = Callable[[Any, Any, Any], Any]
CALLS: dict[str, tuple[Callable[..., Any], Call, tuple[int, ...], int]] = {
    "elementwise, given": (add, lambda k, x, z: k(x, x, z), ROWS, 2),
    "elementwise, a number": (add, lambda k, x, z: k(x, 7, z), ROWS, 8),
    "reduction, given": (total, lambda k, x, z: k(x, z, axis=1), ROWS, 2000),
    "reduction, shared": (total, lambda k, x, z: k(x, z), (LONG,), LONG),
    "raw": (raw, lambda k, x, z: k((3000,), (40,), (x, z, 120_000)) or z, ROWS, 2),
}
ALLOCATING: dict[str, tuple[Callable[..., Any], Call, tuple[int, ...], int]] = {
    "elementwise": (add, lambda k, x, z: k(x, x), ROWS, 2),
    "reduction": (total, lambda k, x, z: k(x, axis=1), ROWS, 2000),
    "reduction, shared": (total, lambda k, x, z: k(x), (LONG,), LONG),
}
BOUND: dict[str, tuple[Callable[..., Any], Call, tuple[int, ...], int]] = {
    "elementwise": (add, lambda k, x, z: k.bind(x, x, z), ROWS, 2),
    "reduction": (total, lambda k, x, z: k.bind(x, z, axis=1), ROWS, 2000),
    "reduction, shared": (total, lambda k, x, z: k.bind(x, z), (LONG,), LONG),
    "raw": (raw, lambda k, x, z: k.bind((3000,), (40,), (x, z, 120_000)), ROWS, 2),
}


def arrays(library: Any, name: str, shape: tuple[int, ...]) -> tuple[Any, Any]:
    """Return an input of ones and an output for a call."""
    out: tuple[int, ...] = shape
    if name.startswith("reduction"):
        out = () if "shared" in name else shape[:1]
    return library.array(np.ones(shape, "int32")), library.array(np.zeros(out, "int32"))


def assert_replays(library: Any, replay: Any, x: Any, z: Any, name: str, one: int) -> None:
    """Replay with two other inputs, twice each."""
    for value in (3, 5):
        library.fill(x, value)
        wanted = {"elementwise, a number": value + 7, "raw": value + 1}.get(name, value * one)
        for _ in range(2):
            library.fill(z, -1)
            replay()
            result = library.numpy(z)
            assert (result.min(), result.max()) == (wanted, wanted)


@pytest.mark.parametrize("warm", [0, 1, 8], ids=["first call", "second call", "repeated call"])
@pytest.mark.parametrize("name", CALLS)
def test_given_outputs(name: str, warm: int, library: Any) -> None:
    """An image is loaded, or a plan is looked up: both become part of the graph."""
    make, call, shape, one = CALLS[name]
    unique = f"captured_{next(NUMBERS)}"
    kernel = make(unique)
    x, z = arrays(library, name, shape)
    library.outside(lambda: call(make(unique), x, z))  # compiles it, for an object of its own
    for _ in range(warm):
        library.outside(lambda: call(kernel, x, z))
    result, replay = library.capture(lambda: call(kernel, x, z))
    assert result is z
    assert_replays(library, replay, x, z, name, one)
    library.fill(x, 1)
    assert int(library.numpy(library.outside(lambda: call(kernel, x, z))).max()) == one


@pytest.mark.pools
@pytest.mark.parametrize("warm", [2, 8])
@pytest.mark.parametrize("name", ALLOCATING)
def test_allocated_outputs(name: str, warm: int, library: Any) -> None:
    make, call, shape, one = ALLOCATING[name]
    kernel = make()
    x, _ = arrays(library, name, shape)
    for _ in range(warm):
        library.outside(lambda: call(kernel, x, None))
    z, replay = library.capture(lambda: call(kernel, x, None))
    assert_replays(library, replay, x, z, name, one)


@pytest.mark.parametrize("name", BOUND)
def test_bound_calls(name: str, library: Any) -> None:
    make, bind, shape, one = BOUND[name]
    x, z = arrays(library, name, shape)
    step = library.outside(lambda: bind(make(), x, z))
    library.outside(step)
    _, replay = library.capture(step)
    assert_replays(library, replay, x, z, name, one)
    library.outside(step)
    assert (library.numpy(z) == (6 if name == "raw" else 5 * one)).all()


@pytest.mark.parametrize("name", BOUND)
def test_binding_meanwhile(name: str, library: Any) -> None:
    make, bind, shape, one = BOUND[name]
    x, z = arrays(library, name, shape)
    library.outside(lambda: bind(make(), x, z)())
    library.numpy(z)
    steps: list[Any] = []

    def call() -> None:
        steps.append(bind(make(), x, z))
        steps[0]()

    _, replay = library.capture(call)
    # What is not captured must not need that the graph has run.
    library.outside(steps[0])
    assert (library.numpy(z) == one).all()
    assert_replays(library, replay, x, z, name, one)


def test_own_arrays_come_and_go_meanwhile(library: Any) -> None:
    kernel = add()
    x, z = arrays(library, "elementwise", ROWS)
    library.outside(lambda: kernel(x, x, z))
    before = kspec.zeros(1000, "int32", "cuda:0")

    def call() -> Any:
        nonlocal before
        before = kspec.empty(2000, "int32", "cuda:0")
        del before
        return kernel(x, x, z)

    _, replay = library.capture(call)
    assert_replays(library, replay, x, z, "elementwise", 2)


def test_graphs_beside_each_other_share_no_memory() -> None:
    """Two graphs, bound and plain calls, all of the same kernel, on four streams."""
    cupy = pytest.importorskip("cupy")
    kernel = total()
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(4)]
    inputs = [cupy.full(4 * LONG, value, "int32") for value in (1, 2, 3, 4)]
    outputs = [cupy.zeros((), "int32") for _ in inputs]
    cupy.cuda.Device().synchronize()
    launches: list[Callable[[], Any]] = []
    for number in (0, 1):  # both captured on one stream
        with streams[0]:
            kernel(inputs[number], outputs[number])
            streams[0].begin_capture()
            kernel(inputs[number], outputs[number])
            graph = streams[0].end_capture()
        launches.append(lambda graph=graph, number=number: graph.launch(streams[number]))
    with streams[2]:
        launches.append(kernel.bind(inputs[2], outputs[2]))
    launches.append(lambda: kernel(inputs[3], outputs[3], stream=streams[3]))
    for _ in range(50):
        for out, stream in zip(outputs, streams, strict=True):
            with stream:
                out.fill(-1)
        for launch in launches:
            launch()
        cupy.cuda.Device().synchronize()
        assert [int(out) for out in outputs] == [4 * LONG * value for value in (1, 2, 3, 4)]


@pytest.mark.parametrize("name", CALLS)
def test_nothing_is_compiled_meanwhile(
    name: str, library: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A clear error, which leaves the capture as it was."""
    monkeypatch.setenv("KSPEC_CACHE_DIR", str(tmp_path))
    make, call, shape, one = CALLS[name]
    known, unknown = make(f"known_{next(NUMBERS)}"), make(f"unknown_{next(NUMBERS)}")
    x, z = arrays(library, name, shape)
    library.outside(lambda: call(known, x, z))

    def captured() -> Any:
        with pytest.raises(kspec.SpecializationNotBuilt, match="call the kernel once before"):
            call(unknown, x, z)
        return call(known, x, z)

    _, replay = library.capture(captured)
    assert_replays(library, replay, x, z, name, one)


@pytest.mark.parametrize("warm", [0, 8])
def test_builders_are_streams(warm: int) -> None:
    """A builder of cuda.core as ``stream=``, with kspec's own arrays."""
    core = pytest.importorskip("cuda.core")
    if not hasattr(core, "Device") or len(kspec.devices()) == 1:
        pytest.skip("this cuda.core has no graphs, or there is no CUDA device")
    device = core.Device(0)
    device.set_current()
    stream = device.create_stream()
    kernel, x = add(), kspec.asarray(np.ones(1000, "int32"), device="cuda:0")
    z = kspec.zeros(1000, "int32", "cuda:0")
    kernel(x, x, z)
    for _ in range(warm):
        kernel(x, x, z, stream=stream)
    stream.sync()
    builder = stream.create_graph_builder().begin_building()
    kernel(x, x, z, stream=builder)
    kernel(z, z, z, stream=builder)
    graph = builder.end_building().complete()
    z[...] = np.zeros(1000, "int32")
    graph.launch(stream)
    stream.sync()
    assert (kspec.asnumpy(z) == 4).all()


@pytest.mark.pools
def test_other_libraries_streams_are_left_alone(library: Any) -> None:
    """Own arrays are on the default stream, which no graph can wait for."""
    kernel = add()
    x, _ = arrays(library, "elementwise", ROWS)
    own = kspec.asarray(np.full(ROWS, 2, "int32"), device="cuda:0")
    for _ in range(4):
        z = library.outside(lambda: kernel(x, own))
    z, replay = library.capture(lambda: kernel(x, own))
    for value in (3, 5):
        library.fill(x, value)
        replay()
        assert (library.numpy(z) == value + 2).all()


def test_what_can_not_be_captured_says_so() -> None:
    """A call on the legacy default stream, which cannot take part."""
    cupy = pytest.importorskip("cupy")
    kernel = add()
    x = cupy.ones(100, "int32")
    kernel(x, x, x)
    stream = cupy.cuda.Stream()
    with stream:
        stream.begin_capture()
        try:
            with pytest.raises(kspec.DriverError, match="CUDA_ERROR_STREAM_CAPTURE_IMPLICIT"):
                kernel(x, x, x, stream=0)
        finally:
            with pytest.raises(Exception, match=r"(?i)capture"):
                stream.end_capture()
    kernel(x, x, x)
    assert int(x[0]) > 1
