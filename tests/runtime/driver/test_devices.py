"""Several GPUs: kernels run where their arrays live, and the current device stays what it was.

The tests marked ``gpu`` need two devices. The first class pretends to have a driver.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import kspec
from kspec.runtime import driver
from kspec.runtime.driver import module as driver_module
from kspec.runtime.driver.device import HOST, Device
from kspec.runtime.libraries.stream_order import stream_handle, stream_of_call

SUCCESS = SimpleNamespace(value=0)


class FakeDriver:
    """The contexts of one thread; those of device N are the number 100 + N."""

    def __init__(self, current: int) -> None:
        self.current = current

    def cuDeviceGet(self, ordinal: int) -> tuple[Any, int]:
        return SUCCESS, ordinal

    def cuDevicePrimaryCtxRetain(self, device: int) -> tuple[Any, int]:
        return SUCCESS, 100 + device

    def cuCtxGetCurrent(self) -> tuple[Any, int]:
        return SUCCESS, self.current

    def cuCtxSetCurrent(self, context: int) -> tuple[Any]:
        self.current = context
        return (SUCCESS,)

    def cuStreamGetCtx(self, stream: int) -> tuple[Any, int]:
        return SUCCESS, 100 + stream // 1000


class TestContexts:
    @pytest.fixture
    def fake(self, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], FakeDriver]:
        def make(current: int) -> FakeDriver:
            made = FakeDriver(current)
            monkeypatch.setattr(driver, "_bindings", lambda: made)
            retain = driver._primary_context.__wrapped__
            monkeypatch.setattr(driver, "_primary_context", retain)
            return made

        return make

    @pytest.mark.parametrize(
        ("before", "ordinal", "after"),
        [(100, 0, 100), (100, 1, 100), (101, 0, 101), (101, 1, 101), (0, 0, 100), (0, 1, 0)],
    )
    def test_the_current_one_is_restored(
        self, fake: Callable[[int], FakeDriver], before: int, ordinal: int, after: int
    ) -> None:
        made = fake(before)
        with driver.on_device(ordinal):
            assert made.current == 100 + ordinal
        assert made.current == after

    def test_streams_of_other_devices_are_refused(self, fake: Callable[[int], FakeDriver]) -> None:
        fake(100)
        gpu = Device("cuda", 1)
        for stream in (0, 1, 2, 1007):
            assert stream_of_call(stream, None, gpu) == stream
        with pytest.raises(
            kspec.DeviceMismatchError, match="the stream belongs to another device than cuda:1"
        ):
            stream_of_call(7, None, gpu)
        assert stream_of_call(7, None, HOST) == 7
        assert stream_handle(SimpleNamespace(ptr=7)) == 7


def gpus() -> int:
    return len(kspec.devices()) - 1


class Library:
    """How tests use one array library."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.module: Any = importlib.import_module(name)

    def array(self, values: np.ndarray, ordinal: int) -> Any:
        if self.name == "cupy":
            with self.module.cuda.Device(ordinal):
                return self.module.asarray(values)
        if self.name == "torch":
            return self.module.from_numpy(values).to(f"cuda:{ordinal}")
        return kspec.asarray(values, device=f"cuda:{ordinal}")

    def numpy(self, array: Any) -> np.ndarray:
        if self.name == "cupy":
            with array.device:
                return self.module.asnumpy(array)
        return array.cpu().numpy() if self.name == "torch" else kspec.asnumpy(array)

    def ordinal(self, array: Any) -> int:
        """Return where an array is."""
        if self.name == "cupy":
            return int(array.device.id)
        return int(array.device.index if self.name == "torch" else array.device.ordinal)

    def use(self, ordinal: int) -> None:
        """Make a device the current one."""
        if self.name == "cupy":
            self.module.cuda.Device(ordinal).use()
        elif self.name == "torch":
            self.module.cuda.set_device(ordinal)
        else:
            driver.check(
                driver.bindings().cuCtxSetCurrent(driver._primary_context(ordinal)),
            )

    def current(self) -> int:
        if self.name == "cupy":
            return int(self.module.cuda.runtime.getDevice())
        if self.name == "torch":
            return int(self.module.cuda.current_device())
        return driver.current_ordinal()


@pytest.fixture(params=["kspec", "cupy", "torch"])
def library(request: pytest.FixtureRequest) -> Any:
    """Each library, on a machine with two GPUs; the first is current again afterwards."""
    if gpus() < 2:
        pytest.skip("needs two GPUs")
    pytest.importorskip(request.param)
    one = Library(request.param)
    one.use(0)
    yield one
    one.use(0)


def add(name: str) -> kspec.ElementwiseKernel:
    return kspec.ElementwiseKernel("T x, T y", "T z", "z = x + y", name)


ADD = add("add_on_devices")
TOTAL = kspec.ReductionKernel("T x", "T y", "x", "a + b", "y = a", "0", "total_on_devices")
RAW = kspec.RawKernel('extern "C" __global__ void inc(float* x) { x[threadIdx.x] += 1; }', "inc")


@pytest.mark.gpu
class TestTwoDevices:
    @pytest.mark.parametrize("current", [0, 1])
    @pytest.mark.parametrize("ordinal", [0, 1])
    def test_kernels_follow_their_arrays(
        self, library: Library, current: int, ordinal: int
    ) -> None:
        values = np.arange(600_000, dtype="float32").reshape(300, 2000)
        x = library.array(values, ordinal)
        library.use(current)
        z = ADD(x, x)
        total = TOTAL(x, axis=1)
        everything = TOTAL(x)
        assert library.current() == driver.current_ordinal() == current
        assert [library.ordinal(one) for one in (z, total, everything)] == [ordinal] * 3
        np.testing.assert_array_equal(library.numpy(z), 2 * values)
        np.testing.assert_allclose(library.numpy(total), values.sum(axis=1), rtol=1e-5)
        np.testing.assert_allclose(library.numpy(everything), values.sum(), rtol=1e-5)
        assert library.current() == current

    def test_raw_kernels_too(self, library: Library) -> None:
        arrays = [library.array(np.zeros(64, "float32"), ordinal) for ordinal in (0, 1)]
        for current in (0, 1):
            library.use(current)
            for x in arrays:
                RAW((1,), (64,), (x,))
                assert library.current() == current
        for x in arrays:
            assert (library.numpy(x) == 2).all()

    def test_each_device_loads_the_module_once(
        self, library: Library, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        loaded: list[int] = []
        real = driver_module.load
        monkeypatch.setattr(
            driver_module,
            "load",
            lambda ordinal, code: (loaded.append(ordinal), real(ordinal, code))[1],
        )
        kernel = add(f"add_loaded_once_{library.name}")
        arrays = [library.array(np.ones(8, "float32"), ordinal) for ordinal in (0, 1)]
        for _ in range(3):
            for x in arrays:
                assert (library.numpy(kernel(x, x)) == 2).all()
        assert loaded == [0, 1]

    def test_mixed_devices(self, library: Library) -> None:
        here, there = (library.array(np.ones(8, "float32"), ordinal) for ordinal in (0, 1))
        message = "arguments live on different devices: x on cuda:0, y on cuda:1"
        with pytest.raises(kspec.ArgumentTypeError, match=message):
            ADD(here, there)
        with pytest.raises(kspec.ArgumentTypeError, match="x on cuda:1, z on cuda:0"):
            ADD(there, there, here)
        with pytest.raises(kspec.ArgumentTypeError, match="different devices"):
            TOTAL(here, out=there)
        with pytest.raises(kspec.ArgumentTypeError, match="different devices"):
            RAW((1,), (8,), (here, there))

    def test_a_thread_without_a_device(self, library: Library) -> None:
        x = library.array(np.ones(8, "float32"), 1)
        seen: list[Any] = []

        def work() -> None:
            z = ADD(x, x)
            seen.extend([driver.current_ordinal(), library.current(), library.ordinal(z)])
            seen.append((library.numpy(z) == 2).all())

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert seen == [0, 0, 1, True]

    @pytest.mark.threads
    def test_two_devices_at_once(self, library: Library) -> None:
        kernel = add(f"add_at_once_{library.name}")
        right: list[bool] = []

        def work(ordinal: int) -> None:
            x = library.array(np.full(1000, ordinal + 1, "float32"), ordinal)
            for _ in range(50):
                right.append(bool((library.numpy(kernel(x, x)) == 2 * ordinal + 2).all()))

        threads = [threading.Thread(target=work, args=(number % 2,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(right) == 400 and all(right)


@pytest.mark.gpu
class TestStreams:
    def test_of_the_arrays_device_are_used(self, library: Library) -> None:
        if library.name == "kspec":
            pytest.skip("has no streams")
        x = library.array(np.ones(1000, "float32"), 1)
        if library.name == "cupy":
            with library.module.cuda.Device(1):
                mine = library.module.cuda.Stream(non_blocking=True)
            with library.module.cuda.Device(0):
                other = library.module.cuda.Stream(non_blocking=True)
            handle = other
        else:
            mine = library.module.cuda.Stream(device=1)
            other = library.module.cuda.Stream(device=0)
            mine, handle = mine.cuda_stream, other.cuda_stream
        z = ADD(x, x, stream=mine)
        driver.synchronize(1)
        assert (library.numpy(z) == 2).all()
        for kernel, arguments in ((ADD, (x, x)), (TOTAL, (x,))):
            with pytest.raises(kspec.ArgumentTypeError, match="another device than cuda:1"):
                kernel(*arguments, stream=handle)
        with pytest.raises(kspec.ArgumentTypeError, match="another device than cuda:1"):
            RAW((1,), (8,), (x,), stream=handle)
