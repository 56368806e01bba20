"""Buffers of calls of ever new shapes: each launch has the size of its call; no GPU is needed."""

from __future__ import annotations

import gc
import struct
import weakref
from collections import deque
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kspec
from kspec.runtime.callcache import param_buffer
from kspec.runtime.callcache.dynamic_shape import DynamicShapePlan, ResizableBuffer
from kspec.runtime.callcache.launch_plan import make_plan
from kspec.runtime.driver.graph import GraphStart
from kspec.runtime.driver.launch import Launch
from kspec.runtime.libraries.aliasing import MayOverlap
from kspec.runtime.schedules.elementwise_schedule import _CudaGrowth

COPY = kspec.ElementwiseKernel("float32 x", "float32 y", "y = x", "copy_of_new_shapes")
PACK, BLOCK = 4, 128
Size = tuple[int, ...]


class FakeKernel:
    """Notes what is launched, in which grid and block, and with which number of elements."""

    def __init__(self) -> None:
        self.notes: list[tuple[str, Size, int]] = []
        self.graphs: weakref.WeakSet[Any] = weakref.WeakSet()

    def prepare_resizable(self, launch: Launch, params: Any) -> Any:
        sizes: list[Size] = [(*launch.grid, *launch.block)]

        def start() -> int:
            self.notes.append(("kernel", sizes[-1], count_of(params)))
            return 0

        return start, lambda *size: sizes.append(size)

    def becomes_graph(self, launch: Launch) -> bool:
        return True

    def make_graph(self, launch: Launch, params: Any, plain: Any) -> GraphStart:
        sizes: list[Size] = [(*launch.grid, *launch.block)]
        taken = [(sizes[-1], count_of(params))]

        def start() -> int:
            self.notes.append(("graph", *taken[-1]))
            return 0

        def update() -> int:
            taken.append((sizes[-1], count_of(params)))
            return 0

        self.graphs.add(start)
        return GraphStart(start, update, lambda *size: sizes.append(size))

    def relaunch(self, start: Any, code: int) -> None:
        raise AssertionError("no launch has failed")


def count_of(params: Any) -> int:
    value: int = struct.unpack_from("q", params.memory, params.offsets[0])[0]
    return value


def size_of(count: int) -> Size:
    """Return grid and block of a number of elements: one thread for each pack and each rest."""
    threads = count // PACK + count % PACK
    return -(-threads // BLOCK), 1, 1, min(threads, BLOCK), 1, 1


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(param_buffer, "HOT", 2)
    monkeypatch.setattr(param_buffer, "_graphs", deque())


def plan_of(kernel: Any) -> DynamicShapePlan:
    x = np.zeros(12, np.float32)
    prepared = COPY.prepare((x, np.zeros_like(x)))
    plan = make_plan(prepared)
    assert plan is not None
    faked = replace(prepared, kernel=kernel, growth=_CudaGrowth(PACK, BLOCK))
    return DynamicShapePlan(faked, plan)


def call(plan: DynamicShapePlan, buffer: ResizableBuffer, count: int) -> None:
    """Do as call code does, with arrays that are far apart."""
    plan.fit(buffer, count, 1 << 30, 1 << 40)
    buffer.launch()


SIZES = st.one_of(st.integers(1, 20), st.integers(500, 530), st.integers(1, 100_000))


@given(st.lists(st.tuples(SIZES, st.sampled_from(["", "", "", "before", "after"])), max_size=40))
def test_launches_have_the_size_of_their_call(calls: list[tuple[int, str]]) -> None:
    kernel = FakeKernel()
    plan = plan_of(kernel)
    buffer = plan.fresh()
    for count, demoted in calls:
        plan.fit(buffer, count, 1 << 30, 1 << 40)
        # Another thread may let the graph go at any time.
        if demoted == "before" and buffer.graph is not None:
            buffer.demote()
        buffer.launch()
        if demoted == "after" and buffer.graph is not None:
            buffer.demote()
        assert kernel.notes[-1][1:] == (size_of(count), count)


def test_kernels_become_graphs() -> None:
    kernel = FakeKernel()
    plan = plan_of(kernel)
    buffer = plan.fresh()
    for count in (5, 6, 700, 700, 701):
        call(plan, buffer, count)
    assert [note[0] for note in kernel.notes] == ["kernel", "kernel", "graph", "graph", "graph"]


def test_a_buffer_keeps_no_graph_that_was_let_go() -> None:
    kernel = FakeKernel()
    plan = plan_of(kernel)
    buffer = plan.fresh()
    for _ in range(4):
        call(plan, buffer, 10)
    assert len(kernel.graphs) == 1
    buffer.demote()
    gc.collect()
    assert not kernel.graphs


def test_arrays_that_overlap_are_left_to_the_checks() -> None:
    kernel = FakeKernel()
    plan = plan_of(kernel)
    with pytest.raises(MayOverlap):
        plan.fit(plan.fresh(), 8, 1024, 1024 + 16)
    plan.fit(plan.fresh(), 8, 1024, 1024 + 32)
