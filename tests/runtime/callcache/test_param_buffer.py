"""Buffers of parameters: what they hold, and when their kernels become graphs; no GPU is needed."""

from __future__ import annotations

import gc
import struct
import threading
import weakref
from collections import deque
from typing import Any

import pytest

from kspec.errors import DriverError, KspecError
from kspec.model.stages import Image
from kspec.runtime.callcache import param_buffer
from kspec.runtime.callcache.param_buffer import ParameterBuffer, ParameterBuffers
from kspec.runtime.driver import module as driver_module
from kspec.runtime.driver.graph import GraphStart
from kspec.runtime.driver.launch import Launch
from kspec.runtime.kernels.bound import Bound
from kspec.runtime.modules.cuda import CudaModule

LAUNCH = Launch((1, 1, 1), (32, 1, 1))


class FakeKernel:
    """Notes the launches: of the kernel, or of a graph with the value it was updated with last."""

    def __init__(self) -> None:
        self.notes: list[Any] = []
        self.codes: list[int] = []
        self.graphs = True
        self.refused = False
        self.alive: weakref.WeakSet[Any] = weakref.WeakSet()

    def prepare(self, launch: Launch, params: Any) -> Any:
        def start() -> int:
            self.notes.append(("kernel", value_of(params)))
            return self.codes.pop(0) if self.codes else 0

        return start

    def becomes_graph(self, launch: Launch) -> bool:
        return self.graphs

    def make_graph(self, launch: Launch, params: Any, plain: Any) -> GraphStart:
        if self.refused:
            raise DriverError("CUDA_ERROR_NOT_SUPPORTED", "no graph", 801)
        kept = [value_of(params)]

        def start() -> int:
            self.notes.append(("graph", kept[0]))
            return 0

        def update() -> int:
            kept[0] = value_of(params)
            self.notes.append(("update", kept[0]))
            return self.codes.pop(0) if self.codes else 0

        self.alive.add(start)
        return GraphStart(start, update, lambda *size: None)

    def relaunch(self, start: Any, code: int) -> None:
        self.notes.append(("relaunch", code))


def value_of(params: Any) -> int:
    value: int = struct.unpack_from("q", params.memory, params.offsets[1])[0]
    return value


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(param_buffer, "HOT", 3)
    monkeypatch.setattr(param_buffer, "MAX_GRAPHS", 2)
    monkeypatch.setattr(param_buffer, "_graphs", deque())


@pytest.fixture
def kernel() -> FakeKernel:
    return FakeKernel()


def buffers_of(kernel: Any) -> ParameterBuffers:
    make = lambda: ([b"first", struct.pack("q", -1)], None)  # noqa: E731
    return ParameterBuffers(kernel, LAUNCH, make, struct.Struct("q").pack_into, first=1)


def call(buffers: ParameterBuffers, value: int, doubtful: bool = False) -> ParameterBuffer:
    """Do as call code does."""
    now = (value,)
    one = buffers.free.pop(now, None)
    if one is None:
        one = buffers.adapt(now)
    elif doubtful:
        buffers.hold(one, now)
    code = one.launch()
    if code:
        buffers.relaunch(one, code)
    if buffers.free.setdefault(now, one) is not one:
        buffers.spare(one)
    return one


class TestValues:
    def test_they_are_packed_when_they_change(self, kernel: FakeKernel) -> None:
        kernel.graphs = False
        buffers = buffers_of(kernel)
        packed: list[int] = []
        pack = buffers.pack
        buffers.pack = lambda memory, begin, value: (  # type: ignore[assignment, return-value]
            packed.append(value),
            pack(memory, begin, value),
        )
        used = {id(call(buffers, value)) for value in (5, 5, 6, 6, 6, 5)}
        assert len(used) == 1
        assert packed == [5, 6, 5]
        assert kernel.notes == [("kernel", value) for value in (5, 5, 6, 6, 6, 5)]

    def test_equal_ones_may_differ(self, kernel: FakeKernel) -> None:
        kernel.graphs = False
        buffers = buffers_of(kernel)
        one = call(buffers, 5)
        one.params.memory[one.params.offsets[1]] = 9
        call(buffers, 5, doubtful=True)
        assert kernel.notes == [("kernel", 5), ("kernel", 5)]

    def test_what_can_not_be_packed_is_not_held(self, kernel: FakeKernel) -> None:
        buffers = buffers_of(kernel)
        one = call(buffers, 5)
        with pytest.raises(struct.error):
            buffers.adapt(("text",))
        assert one not in buffers.free.values()

    def test_codes_are_dealt_with(self, kernel: FakeKernel) -> None:
        kernel.codes = [201]
        call(buffers_of(kernel), 5)
        assert kernel.notes == [("kernel", 5), ("relaunch", 201)]


class TestGraphs:
    def test_after_some_launches(self, kernel: FakeKernel) -> None:
        buffers = buffers_of(kernel)
        for _ in range(5):
            call(buffers, 5)
        assert kernel.notes == [("kernel", 5)] * 3 + [("graph", 5)] * 2

    def test_they_take_new_values(self, kernel: FakeKernel) -> None:
        buffers = buffers_of(kernel)
        for _ in range(3):
            call(buffers, 5)
        for _ in range(param_buffer.MAX_BUFFERS - 1):
            buffers.fresh()  # in use by other threads
        call(buffers, 6)
        assert kernel.notes[3:] == [("update", 6), ("graph", 6)]

    def test_values_in_turn_need_no_updates(
        self, kernel: FakeKernel, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(param_buffer, "MAX_GRAPHS", 4)
        buffers = buffers_of(kernel)
        for _ in range(12):
            for value in (5, 6, 7, 8):
                call(buffers, value)
        kernel.notes.clear()
        for _ in range(3):
            for value in (5, 6, 7, 8):
                call(buffers, value)
        assert kernel.notes == [("graph", value) for value in (5, 6, 7, 8)] * 3

    def test_many_values_update_a_few_blocks(self, kernel: FakeKernel) -> None:
        buffers = buffers_of(kernel)
        used = set()
        for value in range(100):
            used.add(call(buffers, value))
            assert kernel.notes[-1] in (("kernel", value), ("graph", value))
        assert len(used) <= 4

    def test_doubtful_values_are_updated(self, kernel: FakeKernel) -> None:
        buffers = buffers_of(kernel)
        for _ in range(20):
            call(buffers, 5, doubtful=True)
        assert kernel.notes[-2:] == [("update", 5), ("graph", 5)]

    def test_not_if_a_launch_failed(self, kernel: FakeKernel) -> None:
        buffers = buffers_of(kernel)
        kernel.codes = [0, 0, 201, 0]
        for _ in range(5):
            call(buffers, 5)
        assert [note for note, _ in kernel.notes] == ["kernel"] * 3 + ["relaunch", "kernel"] + [
            "graph"
        ]

    def test_an_update_that_fails_is_an_error(
        self, kernel: FakeKernel, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def relaunch(start: Any, code: int) -> None:
            raise DriverError(f"CUDA_ERROR_{code}", "because", code)

        monkeypatch.setattr(kernel, "relaunch", relaunch)
        buffers = buffers_of(kernel)
        for _ in range(4):
            one = call(buffers, 5)
        for _ in range(param_buffer.MAX_BUFFERS - 1):
            buffers.fresh()  # in use by other threads
        kernel.codes = [700]
        with pytest.raises(DriverError, match="CUDA_ERROR_700: because"):
            buffers.adapt((6,))
        assert one not in buffers.free.values()

    def test_kernels_that_can_not(self, kernel: FakeKernel) -> None:
        kernel.refused = True
        buffers = buffers_of(kernel)
        for _ in range(30):
            call(buffers, 5)
        assert kernel.notes == [("kernel", 5)] * 30


class TestBound:
    def test_the_oldest_gives_way(self, kernel: FakeKernel) -> None:
        several = [buffers_of(kernel) for _ in range(3)]
        for buffers in several:
            for _ in range(4):
                call(buffers, 5)
        kernel.notes.clear()
        for buffers in several:
            call(buffers, 5)
        assert kernel.notes == [("kernel", 5), ("graph", 5), ("graph", 5)]
        gc.collect()
        assert len(kernel.alive) == 2

    def test_who_comes_back_waits_longer(self, kernel: FakeKernel) -> None:
        several = [buffers_of(kernel) for _ in range(3)]
        for buffers in several:
            for _ in range(4):
                call(buffers, 5)
        kernel.notes.clear()
        for _ in range(13):
            call(several[0], 5)
        assert kernel.notes == [("kernel", 5)] * 12 + [("graph", 5)]

    def test_a_wrong_switch_is_an_error_of_the_first_call(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(driver_module, "load", lambda ordinal, code: None)
        monkeypatch.delenv("CUDA_LAUNCH_BLOCKING", raising=False)
        monkeypatch.setenv("KSPEC_GRAPH_LAUNCH", "off")
        with pytest.raises(KspecError, match="KSPEC_GRAPH_LAUNCH='off': expected one of auto"):
            CudaModule(Image("cubin", "unknown", b"", {}), 0)

    def test_bound_calls_at_the_same_time_share_their_blocks(self, kernel: FakeKernel) -> None:
        made: list[Any] = []
        inside: list[int] = []

        def prepare(launch: Launch, params: Any) -> Any:
            def start() -> int:
                if not inside:  # as another thread does meanwhile
                    inside.append(1)
                    bound()
                    inside.clear()
                return 0

            made.append(params)
            return start

        kernel.graphs = False
        kernel.prepare = prepare  # type: ignore[method-assign]
        bound = Bound(buffers_of(kernel), lambda: None, None)
        for _ in range(5):
            bound()
        assert len(made) == 2

    def test_blocks_are_not_kept(self, kernel: FakeKernel) -> None:
        buffers = buffers_of(kernel)
        for _ in range(4):
            one = call(buffers, 5)
        reference = weakref.ref(one)
        gc.disable()  # without the help of the collector
        try:
            del one, buffers
            assert reference() is None
            assert not kernel.alive
        finally:
            gc.enable()

    def test_blocks_of_equal_values_are_not_lost(self, kernel: FakeKernel) -> None:
        """Two threads with the same values have two buffers between them, for ever."""
        buffers = buffers_of(kernel)
        one = buffers.adapt((5,))
        for _ in range(50):
            other = buffers.free.pop((5,), None) or buffers.adapt((5,))
            assert other is not one
            for block_ in (one, other):
                if buffers.free.setdefault((5,), block_) is not block_:
                    buffers.spare(block_)
            one = buffers.free.pop((5,))
        assert buffers._made == 2

    def test_threads(self, kernel: FakeKernel, monkeypatch: pytest.MonkeyPatch) -> None:
        """Buffers lose and regain their graphs while others launch them."""
        monkeypatch.setattr(param_buffer, "MAX_GRAPHS", 1)
        several = [buffers_of(kernel) for _ in range(4)]

        def work(number: int) -> None:
            for k in range(300):
                call(several[(number + k) % 4], k % 3)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        launches = [value for note, value in kernel.notes if note in ("kernel", "graph")]
        assert sorted(launches) == sorted([k % 3 for k in range(300)] * 6)
