"""Modules on GPUs: unloaded when nothing refers to them, and never while a graph may."""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Iterator
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import kspec
from kspec.runtime import driver
from kspec.runtime.driver import module as driver_module
from kspec.runtime.driver.module import DriverModule
from kspec.runtime.modules import cuda
from kspec.runtime.modules.cuda import CudaKernel
from kspec.runtime.raw.sizes import make_launch
from kspec.runtime.schedules.marshal import PackedParameters

SUCCESS = SimpleNamespace(value=0)
MOST = 4


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let few modules wait for being unloaded, and find what refers to them without help."""
    gc.collect()
    gc.disable()
    monkeypatch.setattr(driver_module, "_MOST_DROPPED", MOST)
    monkeypatch.setattr(driver_module, "_dropped", deque())
    yield
    gc.enable()


class TestImitated:
    """A driver that only counts."""

    @pytest.fixture(autouse=True)
    def unloaded(self, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
        unloaded: list[Any] = []
        fake = SimpleNamespace(
            cuModuleLoadData=lambda code: (SUCCESS, code.decode().rstrip("\0")),
            cuModuleUnload=lambda module: (unloaded.append(module), (SUCCESS,))[1],
        )
        monkeypatch.setattr(driver, "_bindings", lambda: fake)
        monkeypatch.setattr(driver, "on_device", lambda ordinal: nullcontext())
        monkeypatch.setattr(driver, "whatever_is_captured", nullcontext)
        return unloaded

    def test_many_at_a_time(self, unloaded: list[Any]) -> None:
        used = DriverModule(0, b"used")
        for number in range(MOST + 1):
            assert not unloaded
            DriverModule(0, b"%d" % number)
        assert unloaded == ["0", "1", "2", "3"]
        used.stay()
        del used
        for _ in range(3 * MOST):
            DriverModule(0, b"more")
        assert "used" not in unloaded and len(unloaded) == 4 * MOST

    @pytest.mark.parametrize(
        ("stream", "captured", "stays"),
        [(0, False, False), (1, False, False), (64, False, False), (64, True, True)],
    )
    def test_one_launch(
        self, stream: int, captured: bool, stays: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(cuda, "launch_once", lambda *given: None)
        monkeypatch.setattr(cuda.driver_streams, "is_capturing", lambda *given: captured)
        kernel = self.kernel(monkeypatch)
        kernel.launch(make_launch((1,), (1,), stream=stream), PackedParameters([]))
        del kernel
        assert len(driver_module._dropped) == (not stays)

    @pytest.mark.parametrize(("stream", "stays"), [(0, False), (1, False), (2, True), (64, True)])
    def test_repeated_launches(
        self, stream: int, stays: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(cuda, "prepare_resizable", lambda *given: (None, None))
        kernel = self.kernel(monkeypatch)
        kernel.prepare(make_launch((1,), (1,), stream=stream), PackedParameters([]))
        del kernel
        assert len(driver_module._dropped) == (not stays)

    def test_a_handle(self, monkeypatch: pytest.MonkeyPatch) -> None:
        kernel = self.kernel(monkeypatch)
        assert kernel.ptr == 7
        del kernel
        assert not driver_module._dropped

    def kernel(self, monkeypatch: pytest.MonkeyPatch) -> CudaKernel:
        monkeypatch.setattr(cuda.driver_module, "parameter_sizes", lambda *given: ())
        monkeypatch.setattr(CudaKernel, "_checked", lambda self, launch, params: launch)
        return CudaKernel(DriverModule(0, b"code"), "f", 7)


def text(number: int) -> str:
    return (
        f'extern "C" __global__ void add_{number}(float* x)'
        f" {{ x[blockIdx.x * blockDim.x + threadIdx.x] += {number}; }}"
    )


@pytest.mark.gpu
class TestOnAGpu:
    """Kernels are made anew and dropped; the results say that none went too early."""

    def others(self, count: int = 3 * MOST) -> None:
        x = kspec.zeros(64, "float32", device="cuda:0")
        for number in range(count):
            kernel = kspec.RawKernel(text(number), f"add_{number}")
            for _ in range(3):
                kernel((2,), (32,), (x,))
        assert (kspec.asnumpy(x) == 3 * sum(range(count))).all()

    @pytest.mark.parametrize("repeats", [1, 5])
    def test_raw_kernels(self, repeats: int) -> None:
        x = kspec.zeros(64, "float32", device="cuda:0")
        for number in range(5 * MOST):
            kernel = kspec.RawKernel(text(number), f"add_{number}")
            for _ in range(repeats):
                kernel((2,), (32,), (x,))
            assert len(driver_module._dropped) <= MOST
        assert len(driver_module._dropped) >= 2  # without the garbage collector
        assert (kspec.asnumpy(x) == repeats * sum(range(5 * MOST))).all()

    def test_a_captured_graph(self) -> None:
        cupy = pytest.importorskip("cupy")
        stream = cupy.cuda.Stream(non_blocking=True)
        for launches in (0, 1, 5):  # before the capture: the last ones are not looked at
            x = cupy.zeros(64, "float32")
            kernel = kspec.RawKernel(text(100 + launches), f"add_{100 + launches}")
            with stream:
                kernel.compile()
                for _ in range(launches):
                    kernel((2,), (32,), (x,))
                stream.begin_capture()
                kernel((2,), (32,), (x,))
                graph = stream.end_capture()
            del kernel
            self.others()
            for _ in range(3):
                graph.launch(stream)
            stream.synchronize()
            assert (x == (launches + 3) * (100 + launches)).all()

    def test_what_runs_is_finished(self) -> None:
        slow = """extern "C" __global__ void slow(float* x) {
          long long end = clock64() + 200000000;
          while (clock64() < end) {}
          x[threadIdx.x] = 5;
        }"""
        x = kspec.zeros(32, "float32", device="cuda:0")
        kspec.RawKernel(slow, "slow")((1,), (32,), (x,))
        self.others()
        assert (kspec.asnumpy(x) == 5).all()

    def test_a_variable(self) -> None:
        module = kspec.RawModule(code="__device__ float held[4];")
        array = module.get_global("held", device="cuda:0").array(4, "float32")
        array[...] = [1, 2, 3, 4]
        del module
        self.others()
        np.testing.assert_array_equal(kspec.asnumpy(array), [1, 2, 3, 4])
