"""Streams, and memory that must live until a kernel has run: with a driver that only takes notes."""

from __future__ import annotations

import gc
import weakref
from ctypes import c_void_p
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import kspec
from kspec.locks import OnceMap
from kspec.model.stages import RawSymbol
from kspec.runtime import driver
from kspec.runtime.driver import stream as driver_streams
from kspec.runtime.driver.device import HOST
from kspec.runtime.libraries import stream_order
from kspec.runtime.libraries.lookup import library_of
from kspec.runtime.libraries.registry import CuPy, Own, Torch
from kspec.runtime.memory import deferred_release
from tests.runtime.exporters import CudaInterface, Exporter
from tests.runtime.memory_driver import GPU, OTHER, SIDE, FakeDriver, memory

__all__ = ["memory"]


class TestHandles:
    @pytest.mark.parametrize(
        ("stream", "handle"),
        [
            (7, 7),
            (SimpleNamespace(ptr=7), 7),  # CuPy
            (SimpleNamespace(__cuda_stream__=lambda: (0, 7)), 7),  # cuda.core, torch
            (SimpleNamespace(__cuda_stream__=(0, 7)), 7),  # as it was at first
            (SimpleNamespace(cuda_stream=7), 7),  # torch before it had the protocol
            (SimpleNamespace(handle=c_void_p(7)), 7),  # Numba
            (SimpleNamespace(handle=c_void_p(0)), 0),
        ],
    )
    def test_of_every_library(self, stream: Any, handle: int) -> None:
        assert stream_order.stream_handle(stream) == handle

    @pytest.mark.parametrize("stream", [True, "0", 2.5, object(), SimpleNamespace(ptr="0")])
    def test_of_what_is_no_stream(self, stream: Any) -> None:
        with pytest.raises(kspec.ArgumentTypeError, match="stream must be a stream handle"):
            stream_order.stream_handle(stream)

    def test_of_a_protocol_to_come(self) -> None:
        with pytest.raises(kspec.ArgumentTypeError, match="version 1 of __cuda_stream__"):
            stream_order.stream_handle(SimpleNamespace(__cuda_stream__=lambda: (1, 7)))


class Elsewhere(CuPy):
    """A library with a current stream."""

    def __init__(self, current: int) -> None:
        self.current = current

    def stream(self, device: Any) -> int:
        return self.current


def waits(memory: FakeDriver) -> list[tuple[Any, ...]]:
    return [call for call in memory.take_calls() if call[0] in ("record", "wait")]


class TestOrder:
    def test_a_call_waits_for_all_libraries(self, memory: FakeDriver) -> None:
        first, second = Elsewhere(SIDE), Elsewhere(OTHER)
        libraries = [first, second, None, second, Own()]
        assert stream_order.stream_of_call(None, first, GPU, libraries) == SIDE
        assert waits(memory) == [
            ("record", 1, OTHER),
            ("wait", SIDE, 1),
            ("record", 2, 0),
            ("wait", SIDE, 2),
        ]

    def test_and_they_for_it(self, memory: FakeDriver) -> None:
        first, second = Elsewhere(SIDE), Elsewhere(OTHER)
        stream_order.after_launch(
            GPU, SIDE, [(first, "a"), (second, "b"), (second, "c")], given=False
        )
        assert waits(memory) == [("record", 1, SIDE), ("wait", OTHER, 1)]

    @pytest.mark.parametrize("stream", [0, driver_streams.LEGACY_STREAM])
    def test_one_stream_has_two_names(self, stream: int, memory: FakeDriver) -> None:
        assert (
            stream_order.stream_of_call(None, Elsewhere(stream), GPU, [Own(), Elsewhere(0)])
            == stream
        )
        stream_order.after_launch(GPU, stream, [(Own(), "a"), (Elsewhere(1), "b")], given=False)
        assert memory.calls == []

    def test_the_callers_stream_is_in_the_callers_order(self, memory: FakeDriver) -> None:
        assert stream_order.stream_of_call(SIDE, Elsewhere(OTHER), GPU, [Elsewhere(OTHER)]) == SIDE
        assert waits(memory) == []

    def test_what_was_handed_over_is_waited_for(self, memory: FakeDriver) -> None:
        library = library_of(Exporter(np.ones(3)))
        assert (
            stream_order.stream_of_call(SIDE, Elsewhere(SIDE), GPU, [Elsewhere(SIDE), library])
            == SIDE
        )
        assert waits(memory) == [("record", 1, 0), ("wait", SIDE, 1)]

    @pytest.mark.parametrize("captured", [SIDE, OTHER])
    def test_not_in_graphs(self, captured: int, memory: FakeDriver) -> None:
        memory.capturing = {captured}
        libraries = [Elsewhere(SIDE), Elsewhere(OTHER)]
        stream_order.stream_of_call(None, libraries[0], GPU, libraries)
        stream_order.after_launch(GPU, SIDE, [(one, "a") for one in libraries], given=False)
        assert waits(memory) == []

    def test_nothing_on_the_host(self, memory: FakeDriver) -> None:
        libraries = [Elsewhere(SIDE), Elsewhere(OTHER)]
        assert stream_order.stream_of_call(None, libraries[0], HOST, libraries) == SIDE
        stream_order.after_launch(HOST, SIDE, [(one, "a") for one in libraries], given=True)
        assert memory.calls == []


class Tensor:
    """Notes the streams that it is used on."""

    def __init__(self) -> None:
        self.used: list[Any] = []

    def record_stream(self, stream: Any) -> None:
        self.used.append(stream)


class TestKeeping:
    @pytest.fixture(autouse=True)
    def _fresh(self, memory: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(deferred_release, "_DEFERRED", OnceMap())

    def test_until_the_kernel_has_run(self, memory: FakeDriver) -> None:
        first, second = Exporter(np.ones(3)), Exporter(np.ones(3))
        gone = [weakref.ref(first), weakref.ref(second)]
        stream_order.after_launch(GPU, SIDE, [(Elsewhere(0), first)], given=True)
        stream_order.after_launch(GPU, SIDE, [(Elsewhere(0), second)], given=True)
        del first, second
        gc.collect()
        assert [one() is None for one in gone] == [False, False]
        memory.done = True
        stream_order.after_launch(GPU, SIDE, [(Elsewhere(0), "third")], given=True)
        gc.collect()
        assert [one() is None for one in gone] == [True, True]
        assert len(deferred_release.deferred_on(0)) == 0

    @pytest.mark.parametrize("given", [True, False])
    def test_what_was_handed_over_is_kept_on_any_stream(
        self, given: bool, memory: FakeDriver
    ) -> None:
        for array in Exporter(np.ones(3)), CudaInterface():
            library = library_of(array)
            assert library is not None
            stream_order.after_launch(GPU, 0, [(library, array)], given)
        assert len(deferred_release.deferred_on(0)) == 2

    def test_arrays_on_their_own_stream_are_their_librarys(self, memory: FakeDriver) -> None:
        stream_order.after_launch(GPU, SIDE, [(Elsewhere(SIDE), "a")], given=True)
        stream_order.after_launch(GPU, SIDE, [(Elsewhere(SIDE), "a")], given=False)
        stream_order.after_launch(GPU, SIDE, [(Own(), "a")], given=True)  # its pool knows
        assert len(deferred_release.deferred_on(0)) == 0
        assert memory.calls == []

    def test_torch_is_told(self, memory: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
        made = SimpleNamespace(
            cuda=SimpleNamespace(
                ExternalStream=lambda handle, device: (handle, device),
                current_stream=lambda ordinal: SimpleNamespace(cuda_stream=OTHER),
            )
        )
        monkeypatch.setitem(__import__("sys").modules, "torch", made)
        tensor = Tensor()
        stream_order.after_launch(GPU, SIDE, [(Torch(), tensor)], given=True)
        assert tensor.used == [(SIDE, 0)]
        assert len(deferred_release.deferred_on(0)) == 0

    def test_graphs_keep_nothing(self, memory: FakeDriver) -> None:
        memory.capturing = {SIDE}
        for given in True, False:
            library = library_of(Exporter(np.ones(3)))
            assert library is not None
            stream_order.after_launch(GPU, SIDE, [(library, "a"), (Elsewhere(OTHER), "b")], given)
        assert len(deferred_release.deferred_on(0)) == 0

    def test_finalizers_may_launch(self, memory: FakeDriver) -> None:
        """They run outside of the lock."""

        class Last:
            def __del__(self) -> None:
                deferred_release.defer_release(0, SIDE, ("after the last",))

        deferred_release.defer_release(0, SIDE, (Last(),))
        memory.done = True
        deferred_release.defer_release(0, SIDE, ("next",))
        gc.collect()
        deferred_release.defer_release(0, SIDE, ())
        assert len(deferred_release.deferred_on(0)) == 0


class TestCapture:
    """Nothing is compiled while a stream is captured."""

    @pytest.fixture(autouse=True)
    def _device(self, memory: FakeDriver, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
        monkeypatch.setenv("KSPEC_CACHE_DIR", str(tmp_path))
        monkeypatch.setattr(driver, "compute_capability", lambda ordinal: (9, 0))
        memory.capturing = {SIDE}

    KERNEL = 'extern "C" __global__ void captured() {}'

    def test_is_refused(self) -> None:
        loader = kspec.RawKernel(self.KERNEL, "captured")._loader
        with pytest.raises(kspec.SpecializationNotBuilt) as caught:
            loader.check_captured(RawSymbol("captured"), GPU, SIDE)
        assert str(caught.value).startswith(
            "captured is not compiled, and nothing is compiled while a stream is being captured: "
            "call the kernel once before, with arrays of the same dtypes, layout and alignment"
        )
        loader.check_captured(RawSymbol("captured"), GPU, OTHER)
        loader.check_captured(RawSymbol("captured"), HOST, SIDE)

    def test_what_is_compiled_is_only_loaded(self) -> None:
        kernel = kspec.RawKernel(self.KERNEL, "captured")
        try:
            kernel._loader.image(RawSymbol("captured"), GPU)
        except kspec.ToolNotFoundError as error:
            pytest.skip(str(error))
        again = kspec.RawKernel(self.KERNEL, "captured")
        again._loader.check_captured(RawSymbol("captured"), GPU, SIDE)

    def test_where_compiling_is_forbidden(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The error of a call without a capture comes."""
        monkeypatch.setenv("KSPEC_JIT", "never")
        loader = kspec.RawKernel(self.KERNEL, "captured")._loader
        loader.check_captured(RawSymbol("captured"), GPU, SIDE)
