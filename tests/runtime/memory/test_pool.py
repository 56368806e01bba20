"""The pool of own arrays' memory: what is kept, what goes back to the driver, and when."""

from __future__ import annotations

import gc
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import kspec
from kspec import config
from kspec.errors import DriverError
from kspec.runtime import driver
from kspec.runtime.driver.device import Device
from kspec.runtime.libraries.registry import Own
from kspec.runtime.memory import pool
from kspec.runtime.memory.pool import MemoryPool
from tests.projects import ROOT, run_python
from tests.runtime.memory_driver import GPU, SIDE, FakeDriver, memory

__all__ = ["memory"]

MB = 2**20


def allocated(nbytes: int) -> kspec.DeviceArray:
    return kspec.empty(nbytes, "int8", GPU)


class TestSizes:
    @pytest.mark.parametrize("exponent", range(45))
    def test_rounding(self, exponent: int) -> None:
        for nbytes in (2**exponent - 1, 2**exponent, 2**exponent + 1, 2**exponent * 4 // 3):
            size = pool.rounded(nbytes)
            assert nbytes <= size <= max(nbytes * 9 // 8, nbytes + 511)
            assert size - nbytes < 2 * MB
            assert size % 512 == 0
            assert pool.rounded(size) == size

    def test_few_sizes(self) -> None:
        assert len({pool.rounded(nbytes) for nbytes in range(1, MB, 100)}) < 90

    def test_exact_if_nothing_is_kept(
        self, memory: FakeDriver, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("KSPEC_POOL_LIMIT", "0")
        x = allocated(1000)
        del x
        assert memory.calls == [("allocate", 1000), ("free", 1000)]

    def test_nothing_is_no_memory(self, memory: FakeDriver) -> None:
        x, y = allocated(0), allocated(0)
        assert x.ptr == y.ptr == 0
        del x, y
        assert {name for name, *_ in memory.calls} <= {"record", "synchronize", "destroy"}


class TestKeeping:
    def test_memory_is_used_again(self, memory: FakeDriver) -> None:
        x = allocated(1000)
        address = x._ptr
        del x
        for nbytes in (900, 1024, 513):
            x = allocated(nbytes)
            assert x._ptr == address
            del x
        assert memory.calls == [("allocate", 1024)]

    def test_views_keep_it(self, memory: FakeDriver) -> None:
        x = allocated(1000)
        address, view = x._ptr, x[10:20].reshape(2, 5).T
        del x
        assert allocated(1000)._ptr != address
        del view
        assert allocated(1000)._ptr == address

    def test_what_comes_from_it(self, memory: FakeDriver) -> None:
        made = kspec.empty((3, 4), "float32", GPU)
        del made
        again = kspec.empty((4, 6), "int16", GPU)
        assert (again.shape, again.strides, again.dtype.name) == ((4, 6), (12, 2), "int16")
        assert again.device == GPU
        assert len(memory.calls) == 1

    def test_zeros_are_written_again(self, memory: FakeDriver) -> None:
        for _ in range(2):
            kspec.zeros(100, "int8", GPU)
        assert memory.calls == [("allocate", 512), ("zero", 100, 0), ("zero", 100, 0)]

    def test_each_device_has_its_own(self, memory: FakeDriver) -> None:
        kspec.empty(100, "int8", Device("cuda", 1))
        allocated(100)
        assert memory.calls == [("allocate", 512)] * 2
        assert kspec.memory_pool(GPU) is kspec.memory_pool(Device("cuda", 0))
        assert kspec.memory_pool(GPU) is not kspec.memory_pool(Device("cuda", 1))
        assert kspec.memory_pool(Device("cuda", 1)).total_bytes() == 512

    def test_figures(self, memory: FakeDriver) -> None:
        mine = kspec.memory_pool(GPU)
        x, y = allocated(1000), allocated(5 * MB)
        assert (mine.used_bytes(), mine.free_bytes()) == (5 * MB + 1024, 0)
        del y
        assert (mine.used_bytes(), mine.free_bytes()) == (1024, 5 * MB)
        assert mine.total_bytes() == sum(memory.sizes.values()) == 5 * MB + 1024
        assert repr(mine) == (
            f"<MemoryPool cuda:0: 1024 bytes used, {5 * MB} kept, at most {memory.total // 4}>"
        )
        memory.calls.clear()
        mine.free_all_blocks()
        assert memory.calls == [("free", 5 * MB)]
        assert (mine.used_bytes(), mine.free_bytes()) == (1024, 0)
        del x

    def test_makers(self, memory: FakeDriver) -> None:
        from kspec.runtime.libraries import array_access

        make = array_access.maker(Own(), (3, 4), "complex64", GPU)
        one, two = make(), make()
        assert one._ptr != two._ptr
        assert (one.shape, one.strides, one.dtype.name) == ((3, 4), (32, 8), "complex64")
        assert one.device == GPU
        addresses = {one._ptr, two._ptr}
        del one, two
        memory.calls.clear()
        one, two = make(), make()
        assert {one._ptr, two._ptr} == addresses
        assert memory.calls == []


class TestLimits:
    def test_a_quarter_of_the_device(self, memory: FakeDriver) -> None:
        assert kspec.memory_pool(GPU).limit == memory.total // 4

    def test_no_more_is_kept(self, memory: FakeDriver) -> None:
        mine = kspec.memory_pool(GPU)
        mine.limit = 10 * MB
        arrays = [allocated(3 * MB) for _ in range(6)]
        arrays.clear()
        assert mine.free_bytes() == 9 * MB
        allocated(20 * MB)
        assert mine.total_bytes() == 9 * MB

    def test_other_sizes_make_room(self, memory: FakeDriver) -> None:
        mine = kspec.memory_pool(GPU)
        mine.limit = 10 * MB
        for nbytes in (3 * MB, 2 * MB, 4 * MB):
            allocated(nbytes)
        assert mine.free_bytes() == 9 * MB
        memory.calls.clear()
        allocated(5 * MB)  # the two oldest go
        assert memory.calls == [("allocate", 5 * MB), ("free", 3 * MB), ("free", 2 * MB)]
        assert mine.free_bytes() == 9 * MB
        memory.calls.clear()
        allocated(4 * MB)
        allocated(5 * MB)
        assert memory.calls == []

    def test_room_that_is_not_used_is_taken_back(self, memory: FakeDriver) -> None:
        mine = kspec.memory_pool(GPU)
        mine.limit = 10 * MB
        allocated(6 * MB)
        kept = allocated(6 * MB)
        memory.calls.clear()
        allocated(7 * MB)  # in place of the one that may come back
        assert memory.calls == [("allocate", 7 * MB)]
        assert mine.free_bytes() == 7 * MB
        del kept
        assert mine.free_bytes() <= 10 * MB

    def test_a_lower_limit_gives_back(self, memory: FakeDriver) -> None:
        mine = kspec.memory_pool(GPU)
        allocated(3 * MB)
        mine.limit = 0
        assert mine.limit == mine.total_bytes() == 0
        allocated(100)
        assert mine.total_bytes() == 0
        with pytest.raises(ValueError, match="the limit is a number of bytes, not -1"):
            mine.limit = -1

    def test_from_the_environment(
        self, memory: FakeDriver, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("KSPEC_POOL_LIMIT", "1024")
        arrays = [allocated(500) for _ in range(3)]
        arrays.clear()
        assert kspec.memory_pool(GPU).free_bytes() == 1024

    def test_streams_of_threads(self, memory: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(config, "per_thread_default_stream", lambda: True)
        allocated(100)
        assert memory.calls == [("allocate", 512), ("free", 512)]


class TestWithoutMemory:
    def test_what_is_kept_goes_first(self, memory: FakeDriver) -> None:
        memory.total = 10 * MB
        kspec.memory_pool(GPU).limit = 10 * MB
        allocated(6 * MB)
        memory.calls.clear()
        x = allocated(7 * MB)
        assert memory.calls == [("allocate", 7 * MB), ("free", 6 * MB), ("allocate", 7 * MB)]
        text = f"CUDA_ERROR_OUT_OF_MEMORY: .*: cuda:0 has no {4 * MB} bytes left"
        with pytest.raises(DriverError, match=text) as caught:
            allocated(4 * MB)
        assert caught.value.__suppress_context__  # and nothing about an empty list
        del x
        assert allocated(4 * MB).size == 4 * MB

    def test_cycles_go_too(self, memory: FakeDriver) -> None:
        memory.total = 10 * MB
        ring: list[Any] = [allocated(6 * MB)]
        ring.append(ring)
        del ring
        assert allocated(7 * MB).size == 7 * MB

    def test_other_errors_are_not_hidden(
        self, memory: FakeDriver, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        allocated(100)
        lost = type("Code", (), {"value": 700, "name": "CUDA_ERROR_ILLEGAL_ADDRESS"})
        monkeypatch.setattr(memory, "cuMemAlloc", lambda nbytes: (lost, None), raising=False)
        with pytest.raises(DriverError, match="ILLEGAL_ADDRESS"):
            allocated(5000)
        assert kspec.memory_pool(GPU).free_bytes() == 512


class TestFinalizers:
    def test_in_the_garbage_collector(self, memory: FakeDriver) -> None:
        """Others in a cycle may use the memory after it was finalized."""
        seen: list[Any] = []

        class Owner:
            def __init__(self) -> None:
                self.mine = allocated(100)
                self.me = self

            def __del__(self) -> None:
                new = allocated(100)
                seen.append((self.mine._ptr, new._ptr))

        for _ in range(5):
            Owner()
        gc.collect()
        assert len(seen) == 5
        assert all(old != new for old, new in seen)
        assert kspec.memory_pool(GPU).used_bytes() == 0

    def test_who_is_brought_back_keeps_the_memory(self, memory: FakeDriver) -> None:
        alive: list[Any] = []

        class Phoenix:
            def __init__(self) -> None:
                self.mine = allocated(100)
                self.me = self

            def __del__(self) -> None:
                alive.append(self)

        Phoenix()
        gc.collect()
        assert allocated(100)._ptr != alive[0].mine._ptr
        assert kspec.memory_pool(GPU).used_bytes() == 512
        alive.pop().me = None
        assert kspec.memory_pool(GPU).used_bytes() == 0

    def test_while_the_pool_is_asked(self, memory: FakeDriver) -> None:
        mine = kspec.memory_pool(GPU)
        x = allocated(100)
        with mine._lock:  # a finalizer runs here, in this thread or another
            del x
        assert memory.calls == [("allocate", 512), ("free", 512)]
        assert mine.total_bytes() == 0

    def test_while_names_are_traced(self, memory: FakeDriver) -> None:
        """A debugger refers to everything that it shows."""

        def trace(frame: Any, event: str, argument: object) -> Any:
            shown.append(frame.f_locals)
            return trace

        shown: list[Any] = []
        x = allocated(100)
        before = sys.gettrace()
        sys.settrace(trace)
        del x
        sys.settrace(before)
        shown.clear()
        gc.collect()
        assert kspec.memory_pool(GPU).used_bytes() == 0

    def test_at_exit(self) -> None:
        code = """
import os, sys
os.dup2(1, 2)
import kspec
from kspec.runtime import driver
from kspec.runtime.driver import memory as driver_memory
from kspec.runtime.memory import pool
from kspec.runtime.driver.device import Device
driver_memory.allocate = lambda ordinal, nbytes: 4096
driver_memory.free = lambda ordinal, address: print("freed")
pool._pool_of = pool.functools.cache(lambda ordinal: pool.MemoryPool(ordinal, 1000))
kept = [kspec.empty(10, "int8", Device("cuda")), kspec.empty(10000, "int8", Device("cuda"))]
sys.kept = kept  # for longer than the modules live
"""
        assert run_python(code, ROOT) == ""

    @pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # Python 3.12: we know
    @pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
    def test_after_a_fork(self, memory: FakeDriver) -> None:
        x, away = allocated(100), allocated(100)
        away._memory.leave(SIDE)  # type: ignore[attr-defined]
        allocated(5000)
        mine = kspec.memory_pool(GPU)
        memory.calls.clear()
        mine._lock.acquire()  # by a thread that the child does not have
        child = os.fork()
        if child == 0:
            empty = mine.total_bytes() == mine.free_bytes() == 0
            del x, away
            quiet = memory.calls == []  # it is the parent's memory
            allocated(100)
            again = memory.calls == [("allocate", 512)] and mine.free_bytes() == 512
            os._exit(0 if empty and quiet and again else 1)
        mine._lock.release()
        assert os.waitpid(child, 0)[1] == 0
        assert mine.total_bytes() == 1024 + 5120
        assert memory.calls == []


def test_threads_never_share_memory(memory: FakeDriver) -> None:
    kspec.memory_pool(GPU).limit = 8192
    owners: dict[int, int] = {}

    def work(number: int) -> bool:
        right = True
        for step in range(3000):
            x = allocated(100 + 700 * ((number + step) % 3))
            right &= owners.setdefault(x._ptr, number) == number
            right &= owners.pop(x._ptr) == number
            if step % 50 == 0:
                kspec.memory_pool(GPU).free_all_blocks()
        return right

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as threads:
            assert all(threads.map(work, range(8)))
    finally:
        sys.setswitchinterval(before)
    mine = kspec.memory_pool(GPU)
    assert mine.used_bytes() == 0
    assert mine.total_bytes() == sum(memory.sizes.values())
    mine.free_all_blocks()
    assert memory.sizes == {}


def test_there_is_none_for_the_host() -> None:
    with pytest.raises(kspec.ArgumentTypeError, match="memory of the host device is not pooled"):
        kspec.memory_pool("host")
    if driver.why_unavailable():
        with pytest.raises(kspec.ToolNotFoundError):
            kspec.memory_pool()
    else:
        assert isinstance(kspec.memory_pool(), MemoryPool)
