"""How arrays are read and made by plans; CuPy and torch are imitated, a driver is not needed."""

from __future__ import annotations

import ast
import functools
import gc
import itertools
import re
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from types import ModuleType, SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import kspec
from kspec.model.declaration import RawDeclaration
from kspec.model.raw.c_params import parse_c_params
from kspec.runtime import callcache as call_cache
from kspec.runtime import driver
from kspec.runtime.callcache import param_buffer
from kspec.runtime.driver import memory as driver_memory
from kspec.runtime.driver import stream as driver_streams
from kspec.runtime.driver.device import HOST, Device
from kspec.runtime.driver.graph import GraphStart
from kspec.runtime.driver.launch import LaunchOptions
from kspec.runtime.kernels.elementwise import ElementwiseCallable
from kspec.runtime.libraries import array_access
from kspec.runtime.libraries.registry import CuPy, NumPy, Own, Torch
from kspec.runtime.memory import deferred_release
from kspec.runtime.modules.loader import KernelLoader
from kspec.runtime.raw.declared import RawCallable

GPU = Device("cuda", 0)
ADDRESSES = itertools.count(2**40, 2**28)


class Base:
    """`cupy._core.core._ndarray_base`."""

    _c_contiguous = True

    def _init(self, shape: tuple[int, ...], dtype: Any) -> None:
        shadow = np.empty(shape, dtype)
        self.shape, self.strides, self.dtype = shadow.shape, shadow.strides, shadow.dtype
        self.data = SimpleNamespace(ptr=next(ADDRESSES), device_id=0)
        self.device = "<CUDA Device 0>"


class FakeArray(Base):
    """`cupy.ndarray`."""

    def __new__(cls, shape: tuple[int, ...], dtype: Any) -> FakeArray:
        self = super().__new__(cls)
        self._init(shape, dtype)
        return self

    def view(self, shape: tuple[int, ...], strides: tuple[int, ...], offset: int = 0) -> FakeArray:
        made = FakeArray(shape, self.dtype)
        made.strides, made._c_contiguous = strides, False
        made.data = SimpleNamespace(ptr=self.data.ptr + offset, device_id=0)
        return made


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    module: Any = ModuleType("cupy")
    module.ndarray = FakeArray
    module.empty = FakeArray
    module.current, module.ordinal = SimpleNamespace(ptr=0), 0
    module.cuda = SimpleNamespace(
        get_current_stream=lambda device=0: module.current,
        Device=lambda ordinal: nullcontext(),
        runtime=SimpleNamespace(getDevice=lambda: module.ordinal),
    )
    monkeypatch.setitem(sys.modules, "cupy", module)
    monkeypatch.setattr(driver, "several_devices", lambda: False)
    monkeypatch.setattr(driver, "multiprocessors", lambda ordinal: 132)
    for cached in (array_access._cupy, array_access._private_maker):
        cached.cache_clear()
    yield module
    for cached in (array_access._cupy, array_access._private_maker):
        cached.cache_clear()


class FakeKernel:
    """Remembers launches: the stream, grid and block, and the bytes of all parameters.

    Also what is kept until they have run, as `kspec.runtime.memory.deferred_release.DeferredRelease` does.
    """

    name = "fake"
    parameter_sizes = points = None

    def __init__(self) -> None:
        self.launches: list[Any] = []
        self.prepared = 0
        self.graphs = False
        self.of_graphs = 0
        self.kept: list[Any] = []

    def keep(self, stream: int, objects: Any) -> None:
        self.kept.append((stream, tuple(objects)))

    def launch(self, launch: Any, params: Any) -> None:
        self._start(launch, params)

    def prepare(self, launch: Any, params: Any) -> Any:
        self.prepared += 1
        return functools.partial(self._start, launch, params)

    def prepare_resizable(self, launch: Any, params: Any) -> Any:
        size = [launch]

        def resize(*extents: int) -> None:
            size[0] = replace(launch, grid=extents[:3], block=extents[3:])

        return (lambda: self._start(size[0], params)), resize

    def becomes_graph(self, launch: Any) -> bool:
        return self.graphs

    def make_graph(self, launch: Any, params: Any, plain: Any) -> GraphStart:
        """Return a graph, which launches what it was last updated with."""
        size, held = [launch], [(launch, values_of(params))]

        def resize(*extents: int) -> None:
            size[0] = replace(launch, grid=extents[:3], block=extents[3:])

        def update() -> int:
            held[0] = size[0], values_of(params)
            return 0

        def start() -> int:
            self.launches.append(held[0])
            self.of_graphs += 1
            return 0

        return GraphStart(start, update, resize)

    def relaunch(self, start: Any, code: int) -> None:
        raise AssertionError(code)

    def _start(self, launch: Any, params: Any) -> int:
        self.launches.append((launch, values_of(params)))
        return 0


def values_of(params: Any) -> list[bytes]:
    """Return the bytes of all parameters."""
    parts = zip(params.offsets, params.sizes, strict=True)
    return [params.memory.raw[offset : offset + size] for offset, size in parts]


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return the arguments of calls that were checked in full, a living list."""
    calls: list[Any] = []
    prepare = ElementwiseCallable.prepare

    def spy(self: Any, args: Any, *rest: Any, **keywords: Any) -> Any:
        calls.append(args)
        return prepare(self, args, *rest, **keywords)

    monkeypatch.setattr(ElementwiseCallable, "prepare", spy)
    return calls


@pytest.fixture
def fake(cupy: Any, monkeypatch: pytest.MonkeyPatch) -> FakeKernel:
    kernel = FakeKernel()
    monkeypatch.setattr(KernelLoader, "kernel", lambda self, wanted, device, sanitize: kernel)
    monkeypatch.setattr(KernelLoader, "check_captured", lambda self, wanted, device, stream: None)
    monkeypatch.setattr(driver_streams, "is_capturing", lambda ordinal, stream: False)
    monkeypatch.setattr(deferred_release, "deferred_on", lambda ordinal: kernel)
    return kernel


def array(*shape: int, dtype: str = "float32") -> FakeArray:
    return FakeArray(shape, np.dtype(dtype))


def kernel_of(inputs: str, outputs: str, operation: str = "", **more: Any) -> Any:
    """Return a kernel, which sets all outputs by default."""
    names = re.findall(r"\w+(?=,|$)", outputs)
    return kspec.ElementwiseKernel(
        inputs, outputs, operation or "".join(f"{name} = 0;" for name in names), **more
    )


CALLS = [
    ("T x, T y", "T z", (array(3, 4), array(4), array(3, 4))),
    ("T x, T y", "T z", (array(64), 2.5, array(64))),
    ("T x, int8 y", "T z", (array(64), -3, array(64))),
    ("complex128 x, T y", "complex128 z", (1.5, array(8), array(8, dtype="complex128"))),
    ("T x, S y", "T z", (array(8), array(8, dtype="int16"), array(8))),
    ("raw T x, T y", "T z", (array(5, 6), array(8), array(8))),
    (
        "T x, raw int32 y, T a",
        "raw T z, T w",
        (array(8), array(3, dtype="int32"), 2, array(9), array(8)),
    ),
    ("T x", "T y", (array(9).view((4,), (8,)), array(9).view((4,), (-4,), 12))),
    ("T x", "T y", (array(9).view((8,), (4,), 4), array(8))),
]


def declared_raw(params: str) -> RawCallable:
    return RawCallable(RawDeclaration("f", ("f",), parse_c_params(params)), KernelLoader([]))


class TestRaw:
    """Raw kernels with CuPy's arrays."""

    @pytest.mark.parametrize(
        "args",
        [
            (array(4), 3, 2.5, True, 1j, None),
            (
                array(4),
                np.int8(-3),
                np.float16(2.5),
                np.bool_(True),
                np.complex64(1j),
                np.uint64(7),
            ),
            (array(4), array(9).view((4,), (8,)), array(3, dtype="int32"), np.longdouble(1)),
            (2.0, array(0), ml_dtypes.bfloat16(2)),
        ],
    )
    def test_hits_pack_what_misses_pack(self, args: Any, fake: FakeKernel) -> None:
        kernel = kspec.RawKernel("", "f")
        for _ in range(6):
            kernel((3, 2), (64,), args, shared_mem=32)
        kernel.prepare((3, 2), (64,), args, LaunchOptions(shared_mem=32)).run()
        assert fake.prepared == 1
        assert fake.launches == [fake.launches[0]] * 7

    def test_signs_of_zero(self, fake: FakeKernel) -> None:
        kernel, x = kspec.RawKernel("", "f"), array(4)
        for value in (0.0, 1.0, 0.0, -0.0, 0.0, -0.0, 0j, -0j, 1j, complex(0, 1), complex(-0.0, 1)):
            args = x, value
            kernel((1,), (1,), args)
            kernel.prepare((1,), (1,), args).run()
            assert fake.launches[-1] == fake.launches[-2]
        assert fake.prepared == 2  # of floats, of complex numbers

    def test_shapes_do_not_matter(self, fake: FakeKernel) -> None:
        kernel = kspec.RawKernel("", "f")
        for x in (array(4), array(5, 6), array(9).view((3,), (-8,), 12), array(0)) * 2:
            kernel((1,), (1,), (x, np.float32(1)))
        assert fake.prepared == 1
        assert len({values[0] for _, values in fake.launches}) == 4

    @pytest.mark.parametrize("dtype", ["float32", "complex128"])
    def test_declared(self, dtype: str, fake: FakeKernel, monkeypatch: pytest.MonkeyPatch) -> None:
        ctype = {"float32": "float", "complex128": "complex<double>"}[dtype]
        kernel = declared_raw(
            f"const {ctype}* x, {ctype}* y, {ctype} a, unsigned int n, void* p = nullptr"
        )
        for shape in ((4,), (4, 2), (7,)) * 2:
            args = array(*shape, dtype=dtype), array(*shape, dtype=dtype), 2.5, 9, None
            kernel((1,), (1,), args)
            kernel.prepare((1,), (1,), args).run()
            assert fake.launches[-1] == fake.launches[-2]
        assert fake.prepared == 1
        scattered = array(9, dtype=dtype).view((2,), (64,)), *args[1:]
        with pytest.raises(kspec.ArgumentTypeError, match="C-contiguous"):
            kernel((1,), (1,), scattered)

    def test_streams(self, cupy: Any, fake: FakeKernel, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(driver_streams, "is_stream_of", lambda ordinal, handle: True)
        kernel, x = kspec.RawKernel("", "f"), array(4)
        for handle in (0, 7, 9, 7, 0, 9) * 3:
            cupy.current = SimpleNamespace(ptr=handle)
            kernel((1,), (1,), (x,))
            kernel((1,), (1,), (x,), stream=handle + 1)
            assert [launch.stream for launch, _ in fake.launches[-2:]] == [handle, handle + 1]
            # Memory that was dropped is used anew in the order of CuPy's own stream.
            wanted = [] if handle == 0 else [(handle + 1, (x,))]
            assert fake.kept == wanted
            fake.kept.clear()

    def test_cooperative_launches_are_checked(self, fake: FakeKernel) -> None:
        kernel = kspec.RawKernel("", "f", enable_cooperative_groups=True)
        for _ in range(5):
            kernel((1,), (1,), (array(4),))
        assert fake.prepared == 0
        assert all(launch.cooperative for launch, _ in fake.launches)

    def test_arrays_of_the_host_are_values(self, fake: FakeKernel) -> None:
        kernel, x = kspec.RawKernel("", "f"), array(4)
        for k in range(5):
            kernel((1,), (1,), (x, np.array([k], "int32")))
            assert fake.launches[-1][1][1] == k.to_bytes(4, "little")
        with pytest.raises(kspec.ArgumentTypeError, match="next to CUDA arrays"):
            kernel((1,), (1,), (x, np.zeros(2)))


class TestCupy:
    @pytest.mark.parametrize(("inputs", "outputs", "args"), CALLS)
    def test_hits_pack_what_misses_pack(
        self, inputs: str, outputs: str, args: Any, fake: FakeKernel
    ) -> None:
        kernel = kernel_of(inputs, outputs)
        for _ in range(6):
            kernel(*args)
        assert fake.prepared == 1  # for all calls from the fourth on
        assert fake.launches == [fake.launches[0]] * 6

    def test_what_the_kernel_sees_of_an_array(self, fake: FakeKernel) -> None:
        kernel = kernel_of("T x", "T y", "y = _raw_x[0]")
        args = array(4, 6), array(4, 6)
        for _ in range(5):
            kernel(*args)
        other = array(4, 6), array(4, 6)
        kernel(*other)
        kernel.prepare(other).run()
        assert fake.prepared == 1
        assert fake.launches[-1] == fake.launches[-2] != fake.launches[0]

    def test_values_and_addresses_change(self, fake: FakeKernel) -> None:
        kernel = kernel_of("T x, T a", "T y")
        for value in (1.0, 2.0, -0.0, 0.0, 3.0):
            x, y = array(32), array(32)
            kernel(x, value, y)
            kernel.prepare((x, value, y)).run()
            assert fake.launches[-1] == fake.launches[-2]
        assert fake.prepared == 1

    def test_alignment_and_strides_are_in_the_key(self, fake: FakeKernel) -> None:
        kernel, base = kernel_of("T x", "T y"), array(64)
        views = [base.view((16,), (4,), offset) for offset in (0, 4, 8, 16, 4, 0)]
        views += [base.view((16,), (8,)), base.view((4, 4), (16, 4)), base.view((4, 4), (4, 16))]
        for x in views * 4:
            y = FakeArray(x.shape, x.dtype)
            kernel(x, y)
            kernel.prepare((x, y)).run()
            assert fake.launches[-1] == fake.launches[-2]

    def test_streams(self, cupy: Any, fake: FakeKernel, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(driver_streams, "is_stream_of", lambda ordinal, stream: True)
        kernel, x, y = kernel_of("T x", "T y"), array(8), array(8)
        for handle in (0, 0x70, 0x80, 0x70, 0) * 3:
            cupy.current = SimpleNamespace(ptr=handle)
            kernel(x, y)
            kernel(x, y, stream=SimpleNamespace(ptr=0x90))
        assert [launch.stream for launch, _ in fake.launches] == [
            one for handle in (0, 0x70, 0x80, 0x70, 0) * 3 for one in (handle, 0x90)
        ]
        assert fake.prepared == 4

    def test_outputs_are_made_the_short_way(self, cupy: Any, fake: FakeKernel) -> None:
        made: list[Any] = []
        cupy.empty = lambda *given: made.append(given) or FakeArray(*given)
        kernel, x = kernel_of("T x", "T y"), array(2, 8)
        for _ in range(5):
            y = kernel(x)
            assert (type(y), y.shape, y.dtype) == (FakeArray, (2, 8), np.float32)
        assert made.count(((2, 8), np.dtype("float32"))) == 3  # the calls without a plan


class TestFamilies:
    """Calls whose shapes nobody has seen before."""

    @pytest.mark.parametrize("dtypes", [("float32", "float32"), ("int8", "float64")])
    @pytest.mark.parametrize("block_size", [None, 96])
    @pytest.mark.parametrize("graphs", [False, True])
    def test_they_launch_what_full_checks_launch(
        self,
        dtypes: tuple[str, str],
        block_size: int | None,
        graphs: bool,
        fake: FakeKernel,
        full: list[Any],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(param_buffer, "HOT", 5)
        monkeypatch.setattr(param_buffer, "_graphs", deque())
        fake.graphs = graphs
        kernel = kernel_of("T x, U a", "U y")
        sizes = [*range(1, 40), 255, 256, 257, 4095, 4096, 10**6 + 3]
        for size in sizes:
            args = array(size, dtype=dtypes[0]), 2.5, array(size, dtype=dtypes[1])
            kernel(*args, block_size=block_size)
        assert len(full) < 12
        for size in sizes:
            args = array(size + 40, dtype=dtypes[0]), 2.5, array(size + 40, dtype=dtypes[1])
            kernel(*args, block_size=block_size)
            kernel.prepare(args, block_size=block_size).run()
            assert fake.launches[-1] == fake.launches[-2]
        assert (fake.of_graphs > 40) is graphs

    def test_a_graph_gives_way_to_the_kernel(
        self, fake: FakeKernel, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(param_buffer, "HOT", 1)
        monkeypatch.setattr(param_buffer, "_graphs", deque())
        fake.graphs = True
        kernel = kernel_of("T x", "T y")
        for size in range(1, 60):
            args = array(size), array(size)
            kernel(*args)
            if size == 50:
                assert fake.of_graphs > 20
                while param_buffer._graphs:
                    param_buffer._give_way()
                fake.of_graphs = 0
            kernel.prepare(args).run()
            assert fake.launches[-1] == fake.launches[-2]
        assert 0 < fake.of_graphs < 9

    def test_outputs_are_made(self, fake: FakeKernel, full: list[Any]) -> None:
        kernel = kernel_of("T x", "T y, int8 z")
        for size in range(1, 60):
            y, z = kernel(array(size, 3))
            assert (y.shape, y.dtype, z.shape, z.dtype) == ((size, 3), "float32", (size, 3), "int8")
            assert y.data.ptr.to_bytes(8, "little") in fake.launches[-1][1]
        assert len(full) < 12

    def test_what_is_no_member_is_checked(self, fake: FakeKernel, full: list[Any]) -> None:
        kernel = kernel_of("T x", "T y")
        for size in range(1, 40):
            kernel(array(size), array(size))
        base = array(4000)
        others = [
            (array(0), array(0)),
            (base.view((50,), (4,), 4), array(50)),
            (base.view((51,), (8,)), array(51)),
            (array(1), array(52)),
            (base.view((53,), (0,)), array(53)),
            (base.view((9, 6), (4, 36)), array(9, 6)),
        ]
        for args in others:
            full.clear()
            fake.launches.clear()
            kernel(*args)
            assert full == [args]
            kernel.prepare(args).run()
            assert fake.launches[:1] == fake.launches[1:]
        for args in ((array(60), array(61)), (array(60), array(60, dtype="int8"))):
            with pytest.raises(kspec.KspecError):
                kernel(*args)

    def test_kernels_that_see_the_axes(self, fake: FakeKernel, full: list[Any]) -> None:
        kernel = kernel_of("T x", "T y", "y = _ind.get()[0]", reduce_dims=False)
        for size in range(1, 30):
            kernel(array(size, 3), array(size, 3))
        assert len(full) == 29

    def test_what_comes_again_gets_a_plan(self, fake: FakeKernel, full: list[Any]) -> None:
        kernel = kernel_of("T x", "T y")
        for size in range(1, 40):
            kernel(array(size), array(size))
        for _ in range(4):
            kernel(array(77), array(77))
        assert sum(args[0].shape == (77,) for args in full) == 1
        full.clear()
        fake.prepared = 0
        kernel(array(77), array(77))
        assert (full, fake.prepared) == ([], 0)

    def test_not_all_of_too_many_shapes(
        self, fake: FakeKernel, full: list[Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What comes again finds its plan gone: most of such calls stay cheap."""
        monkeypatch.setattr(call_cache, "MAX_PLANS", 20)
        kernel = kernel_of("T x", "T y")
        for _ in range(4):
            for size in range(1, 101):
                kernel(array(size), array(size))
        assert len(full) < 80


class TestScratch:
    """Reductions whose blocks meet in memory."""

    @pytest.fixture
    def memory(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
        calls: list[str] = []

        def note(name: str, result: int | None = None) -> None:
            monkeypatch.setattr(driver_memory, name, lambda *given: calls.append(name) or result)

        for name in ("zero_async", "free_async", "free"):
            note(name)
        note("allocate", 2**30)
        note("allocate_async", 2**31)
        monkeypatch.setattr(FakeKernel, "resident_blocks", lambda self, threads: 500, raising=False)
        yield calls
        gc.collect()  # what plans keep is freed while this is no driver

    def total(self) -> Any:
        return kspec.ReductionKernel("T x", "T y", "x", "a + b", "y = a", "0", "sum_fake")

    def test_a_plan_keeps_its_own(self, fake: FakeKernel, memory: list[str]) -> None:
        kernel, x = self.total(), array(2_000_000)
        for _ in range(4):
            kernel(x)
        assert memory.count("allocate") == 1
        assert memory.count("allocate_async") == 3  # the calls without a plan
        memory.clear()
        for _ in range(5):
            kernel(x)
        assert memory == []
        (launch, first), (_, last) = fake.launches[0], fake.launches[-1]
        assert launch.grid[1] > 1
        changed = [
            k for k in range(0, len(first[0]), 8) if first[0][k : k + 8] != last[0][k : k + 8]
        ]
        assert len(changed) == 2  # the pointers to scratch memory
        assert first[1:-1] == last[1:-1]

    def test_small_ones_need_none(self, fake: FakeKernel, memory: list[str]) -> None:
        kernel, x = self.total(), array(20, 50)
        for _ in range(6):
            kernel(x, axis=1)
        assert memory == []
        assert fake.prepared == 1

    def test_not_while_a_graph_is_made(
        self, fake: FakeKernel, memory: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(driver_streams, "is_stream_of", lambda ordinal, stream: True)
        capturing: list[int] = []
        monkeypatch.setattr(
            driver_streams, "is_capturing", lambda ordinal, stream: stream in capturing
        )
        kernel, x = self.total(), array(2_000_000)
        for _ in range(6):
            kernel(x, stream=0x70)
        memory.clear()
        capturing.append(0x70)
        kernel(x, stream=0x70)
        assert memory == ["allocate_async", "zero_async", "free_async"]

    def test_not_on_streams_of_threads(self, fake: FakeKernel, memory: list[str]) -> None:
        kernel, x = self.total(), array(2_000_000)
        for _ in range(6):
            kernel(x, stream=driver_streams.PER_THREAD_STREAM)
        assert fake.prepared == 0
        assert memory.count("allocate_async") == 6


class TestMakers:
    @pytest.mark.parametrize("library", [NumPy(), Own()])
    def test_the_public_ones(self, library: Any) -> None:
        make = array_access.maker(library, (2, 3), "int16", HOST)
        assert make() is not make()
        assert (make().shape, make().dtype) == ((2, 3), np.int16)

    def test_cupy_without_its_private_one(self, cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delattr(Base, "_init")
        cupy.empty = lambda shape, dtype: ("public", shape, dtype)
        assert array_access.maker(CuPy(), (3,), "int8", GPU)() == ("public", (3,), np.dtype("int8"))

    def test_cupy_with_another_private_one(self, cupy: Any) -> None:
        cupy.empty = lambda shape, dtype: FakeArray(shape, np.dtype("int64"))  # what it is not
        assert array_access.maker(CuPy(), (3,), "int8", GPU)().dtype == np.int64

    def test_several_devices(self, cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        """The private way is for the current one, which may change from call to call."""
        monkeypatch.setattr(driver, "several_devices", lambda: True)
        monkeypatch.setattr(driver, "on_device", lambda ordinal: nullcontext())
        make = array_access.maker(CuPy(), (3,), "int8", GPU)
        cupy.empty = lambda shape, dtype: "public"
        assert isinstance(make(), FakeArray)
        cupy.ordinal = 1
        assert make() == "public"

    def test_torch_without_its_private_one(self, monkeypatch: pytest.MonkeyPatch) -> None:
        torch: Any = ModuleType("torch")
        torch.empty = lambda shape, dtype, device: (shape, dtype, device)
        torch.int8 = "torch.int8"
        monkeypatch.setitem(sys.modules, "torch", torch)
        monkeypatch.setattr(driver, "several_devices", lambda: False)
        array_access._private_maker.cache_clear()
        made = array_access.maker(Torch(), (3, 2), "int8", GPU)()
        assert made == ((3, 2), "torch.int8", "cuda:0")
        array_access._private_maker.cache_clear()


def test_subclasses_have_no_row() -> None:
    class Mine(np.ndarray):
        pass

    assert array_access.access_of(np.ndarray) is not None
    assert array_access.access_of(kspec.DeviceArray) is not None
    for kind in (Mine, np.ma.MaskedArray, np.memmap, list, float):
        assert array_access.access_of(kind) is None


@pytest.mark.parametrize(
    "x",
    [
        np.zeros(3),
        np.zeros((4, 4))[:, 1],
        np.zeros(3)[::-1],
        np.zeros(0),
        np.zeros(()),
        np.broadcast_to(np.zeros(1), (4,)),
        np.zeros(3, "V4"),
    ],
)
def test_addresses(x: Any) -> None:
    assert array_access.numpy_address(x) == x.ctypes.data
    x.flags.writeable = False
    assert array_access.numpy_address(x) == x.ctypes.data


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("library", ["_cupy", "_torch"])
def test_a_stream_is_one_operand(
    library: str, several: bool, cupy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Routes write ``... if stream is None else stream_handle(stream)`` behind it."""
    torch: Any = ModuleType("torch")
    torch._C = SimpleNamespace()
    torch.autograd = SimpleNamespace(graph=SimpleNamespace(increment_version=None))
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setattr(driver, "several_devices", lambda: several)
    made = getattr(array_access, library).__wrapped__().named("a0").stream
    whole = ast.parse(f"{made} if given else other", mode="eval").body
    assert isinstance(whole, ast.IfExp)
    assert ast.unparse(whole.body) == ast.unparse(ast.parse(made, mode="eval").body)
