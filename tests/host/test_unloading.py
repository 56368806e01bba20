"""Modules of kernels that nothing refers to any more are unloaded; those in use are not."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kspec
from kspec.host import modules, runtime
from kspec.locks import RecentMap
from kspec.runtime.modules import loader

TEXT = """
__device__ int counter[16];
extern "C" __global__ void count(int* x) { x[0] = atomicAdd(counter, 1) + 1; }
extern "C" __global__ void fail(int* x) { x[1 << 20] = 1; }
"""
PEEK = 'extern "C" __global__ void peek(const int* const* x, int* y) { y[0] = x[0][0]; }'
OTHER = 'extern "C" __global__ void other(int* x) { x[0] = 5; }\n'


def mapped() -> int:
    """Return how many modules are in the memory of this process."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return len({line.split(maxsplit=5)[5] for line in lines if "/module-" in line})


def settle() -> None:
    """Let loading a module unload what was dropped."""
    gc.collect()
    kspec.RawKernel(OTHER, "other")((1,), (1,), (np.zeros(1, np.int32),))


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("sanitize", [None, "none", "memory"])
def test_raw_kernels_made_anew(sanitize: str | None) -> None:
    x = np.zeros(1, np.int32)
    before = mapped()
    for _ in range(40):
        kernel = kspec.RawKernel(TEXT, "count")
        kernel((2,), (1,), (x,), sanitize=sanitize)
        kernel((1,), (1,), (x,), sanitize=sanitize)
        assert x[0] == 3  # variables of its own
    assert mapped() <= before + 4


@pytest.mark.usefixtures("no_collector")
def test_generated_kernels_made_anew() -> None:
    x = np.arange(5.0)
    loaded = len(loader._SHARED)
    for _ in range(20):
        kernel = kspec.ElementwiseKernel("T x", "T y", "y = x + 17", "seventeen_more")
        assert (kernel(x) == x + 17).all()
        total = kspec.ReductionKernel("T x", "T y", "x", "a + b", "y = a + 17", "0", "total_more")
        assert total(x) == x.sum() + 17
    assert len(loader._SHARED) <= loaded + 2


@pytest.mark.usefixtures("no_collector")
def test_loaders_are_no_cycles() -> None:
    raw = kspec.RawKernel(TEXT, "count")
    raw((1,), (1,), (np.zeros(1, np.int32),))
    generated = kspec.ElementwiseKernel("T x", "T y", "y = x + 18", "eighteen_more")
    generated(np.arange(3.0))
    references = [weakref.ref(raw._loader), weakref.ref(generated._loader)]
    del raw, generated
    assert [one() for one in references] == [None, None]


def test_many_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader, "_SHARED", RecentMap(2))
    settle()
    before, x = mapped(), np.arange(3)
    kept = kspec.ElementwiseKernel("T x", "T y", "y = x - 1", "minus_1")
    for k in range(1, 7):
        kernel = kspec.ElementwiseKernel("T x", "T y", f"y = x - {k}", f"minus_{k}")
        assert (kernel(x) == x - k).all() and (kept(x) == x - 1).all()
    settle()
    assert mapped() <= before + 4  # two recent ones, one in use, and the settling one
    assert (kept(x) == x - 1).all()


def test_variables_and_launches_keep_their_module() -> None:
    x = np.zeros(1, np.int32)
    module = kspec.RawModule(code=TEXT)
    array = module.get_global("counter", device="host").array(16, "int32")
    bound = module.get_function("count").bind((1,), (1,), (x,))
    view = np.asarray(array)
    del module, array
    settle()
    for _ in range(3):
        bound()
    assert x[0] == 3 and view[0] == 3
    del bound
    settle()
    view[1] = 7
    assert view[0] == 3


def test_an_instrumented_module_keeps_the_one_with_its_variables() -> None:
    x = np.zeros(1, np.int32)
    kernel = kspec.RawKernel(TEXT, "count")
    for sanitize in (None, "race", "memory", None):
        kernel((1,), (1,), (x,), sanitize=sanitize)
        settle()
    assert x[0] == 4


def test_memory_of_an_unloaded_module_is_closed() -> None:
    x, peek = np.zeros(1, np.int32), kspec.RawKernel(PEEK, "peek")
    module = kspec.RawModule(code=TEXT)
    address = np.array([module.get_global("counter", device="host").ptr], np.uint64)
    module.get_function("count")((1,), (1,), (x,))
    # Neither this kernel nor one that settles is loaded later: it might get the same addresses.
    peek((1,), (1,), (np.array([x.ctypes.data], np.uint64), x))
    del module
    gc.collect()
    with runtime.LAUNCHING:
        modules._unload_dropped(runtime.load_runtime())
    with pytest.raises(kspec.HostFault, match="illegal-address"):
        peek((1,), (1,), (address, x))


def test_places_of_faults_after_unloading() -> None:
    x = np.zeros(1, np.int32)
    for lines in (0, 3, 40, 1):
        text = "\n" * lines + TEXT
        with pytest.raises(kspec.HostFault) as caught:
            kspec.RawKernel(text, "fail")((1,), (1,), (x,))
        assert caught.value.kind == "illegal-address" and caught.value.line == lines + 4
        settle()


def test_threads_load_and_unload() -> None:
    def work(number: int) -> None:
        x = np.zeros(1, np.int32)
        for _ in range(10):
            kernel = kspec.RawKernel(TEXT, "count")
            for want in (4, 5):
                kernel((4 if want == 4 else 1,), (1,), (x,))
            assert x[0] == 5

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))


def test_a_module_dropped_during_a_launch_of_another() -> None:
    text = 'extern "C" __global__ void wait(volatile int* x) { x[1] = 1; while (!x[0]) x[2]++; }'
    flags, x = np.zeros(3, np.int32), np.zeros(1, np.int32)
    kernel = kspec.RawKernel(TEXT, "count")
    kernel((1,), (1,), (x,))
    thread = threading.Thread(target=kspec.RawKernel(text, "wait"), args=((1,), (1,), (flags,)))
    thread.start()
    while not flags[1]:
        pass
    del kernel
    gc.collect()  # which waits for no launch
    flags[0] = 1
    thread.join()
    settle()
    assert len(modules._dropped) <= 1  # what the settling itself has dropped


class Value:
    """An object that can be referred to weakly."""


def test_a_recent_map() -> None:
    made: list[Any] = []

    def make() -> Value:
        value = Value()
        made.append(weakref.ref(value))
        return value

    values: RecentMap[str, Value] = RecentMap(2)
    kept = values.get_or_make("a", make)
    assert values.get_or_make("a", make) is kept
    for key in "bcd":
        values.get_or_make(key, make)
    gc.collect()
    assert [one() is not None for one in made] == [True, False, True, True]
    assert values.get_or_make("a", make) is kept and len(values) == 2
    values.get_or_make("b", make)
    assert len(made) == 5
    gc.collect()
    assert len(values) == 2
    with pytest.raises(ZeroDivisionError):
        values.get_or_make("e", lambda: 1 // 0)
    assert isinstance(values.get_or_make("e", make), Value)
