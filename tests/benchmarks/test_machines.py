"""Machines: peers that are missing, clocks, and the CUDA path over a GPU made of host memory."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest

import kspec
from benchmarks import kernels, machines
from benchmarks.call_bench import Bench, NotHereError
from benchmarks.cases import Case
from benchmarks.machines import CudaMachine, HostMachine, find_peers, make_machine
from benchmarks.operands import FULL_SIZE, array, line
from benchmarks.overhead import CALLS, run_call
from benchmarks.suite import CASES
from benchmarks.throughput import Runner
from kspec import jit
from tests.benchmarks.fakes import install

CASE = Case("add", kernels.ADD, lambda n: [array("float32", line(n))] * 2)


def test_peers_that_can_not_be_imported_are_a_line_each() -> None:
    found, missing = find_peers(("math", "no_such_library"))
    assert list(found) == ["math"]
    assert missing == ["no_such_library is left out: No module named 'no_such_library'"]


def test_the_host_copies_and_times() -> None:
    machine = HostMachine()
    nbytes, sample = machine.copy_sample()
    assert nbytes == 2**27 and 0 < sample.minimum <= sample.median
    calls: list[str] = []
    turns = machine.time([lambda: calls.append("a"), lambda: calls.append("b")], 0)
    assert calls == ["a", "b", "a", "a", "b", "a"]  # each once, a trial, three that count
    assert turns.count == 3


class TestCuda:
    def test_what_it_knows(self, monkeypatch: pytest.MonkeyPatch) -> None:
        install(monkeypatch, "cupy")
        machine = make_machine("cuda", 4096)
        assert isinstance(machine, CudaMachine)
        assert (machine.kind, machine.name, machine.cache_bytes) == ("cuda", "Fake GPU", 4096)
        assert machine.arch == "sm_90"
        assert machine.peak_flops == 2 * 128 * 132 * 1.98e9
        assert machine.missing == ["torch is left out: not here", "CUB is left out: not here"]

    def test_one_of_several(self, monkeypatch: pytest.MonkeyPatch) -> None:
        install(monkeypatch)
        monkeypatch.setattr(machines.driver, "device_count", lambda: 4)
        assert make_machine("cuda", 4096).name == "Fake GPU (one of 4)"

    def test_full_size_where_there_is_memory(self, monkeypatch: pytest.MonkeyPatch) -> None:
        install(monkeypatch)
        monkeypatch.setattr("benchmarks.machines._COPY_BYTES", 1024)
        assert CudaMachine().elements == FULL_SIZE

    def test_times_are_between_events_behind_a_busy_device(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        bindings = install(monkeypatch)
        machine = CudaMachine(4096)
        bindings.calls.clear()
        sample = machine.time([lambda: bindings.calls.append("call")], 0)
        assert sample.median == sample.minimum == 1e-3 and sample.count == 3
        queue = [name for name in bindings.calls if name != "synchronize"]
        timed = queue[queue.index("memset") :]
        assert timed[-7:] == ["record", *["call", "record"] * 3]
        assert set(timed[:-7]) == {"memset"}

    def test_the_copy(self, monkeypatch: pytest.MonkeyPatch) -> None:
        bindings = install(monkeypatch)
        nbytes, sample = CudaMachine(4096).copy_sample()
        assert nbytes == 2 * 16384
        assert sample.median == 1e-3
        assert "copy" in bindings.calls

    @pytest.mark.parametrize("peers", [("cupy",), pytest.param((), marks=pytest.mark.slow)])
    def test_a_case(self, peers: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
        install(monkeypatch, *peers)
        row = Runner(CudaMachine(4096), 0).run(CASE)
        assert not row.problem
        assert set(row.samples) == {"kspec", *(["CuPy"] if peers else [])}

    @pytest.mark.parametrize("peers", [("cupy",), ()])
    def test_given_values(self, peers: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
        install(monkeypatch, *peers)
        values = np.arange(6, dtype="int16")
        found = CudaMachine(4096).array(values)
        assert isinstance(found, np.ndarray if peers else kspec.DeviceArray)
        assert kspec.asnumpy(found).tolist() == values.tolist()

    def test_outputs_are_poisoned(self, monkeypatch: pytest.MonkeyPatch) -> None:
        install(monkeypatch, "cupy")
        row = Runner(CudaMachine(4096), 0).run(CASE, kernel=lambda x, y, z: None)
        assert row.problem.startswith("WRONG RESULT")

    @pytest.mark.slow
    def test_targets_stay(self, monkeypatch: pytest.MonkeyPatch) -> None:
        install(monkeypatch, "cupy")
        runner = Runner(CudaMachine(4096), 0)
        (case,) = [case for case in CASES if case.name == "stride 2"]
        row = runner.run(case)
        assert (row.target, row.of) == (0.95, "CuPy")
        assert not row.problem and not row.notes

    @pytest.mark.slow
    @pytest.mark.parametrize("case", CASES[::20], ids=lambda case: case.label)
    def test_without_cupy_arrays_are_our_own(
        self, case: Case, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        install(monkeypatch)
        assert not Runner(CudaMachine(4096), 0).run(case).problem

    @pytest.mark.slow
    @pytest.mark.parametrize("call", CALLS, ids=lambda call: call.name)
    def test_calls(self, call: object, monkeypatch: pytest.MonkeyPatch) -> None:
        install(monkeypatch, "cupy")
        bench = Bench(CudaMachine(4096))
        # Arrays of "the GPU" are NumPy's here.
        monkeypatch.setattr(bench, "own", lambda count: bench.arrays(count))
        monkeypatch.setattr("benchmarks.overhead.floor_call", lambda arrays, n: lambda: None)
        monkeypatch.setattr("benchmarks.overhead.BURST", 2)
        monkeypatch.setitem(sys.modules, "cupyx", SimpleNamespace())
        monkeypatch.setitem(sys.modules, "cupyx.jit", jit)
        monkeypatch.setitem(sys.modules, "numba", None)
        monkeypatch.setitem(sys.modules, "jax", None)
        try:
            row = run_call(bench, call, rounds=1)  # type: ignore[arg-type]
        except NotHereError as reason:
            assert str(reason).startswith(("no torch", "no numba", "no JAX"))
            return
        assert not row.problem
        assert row.of in ("CuPy", "floor")
        assert {"kspec", *([row.of] if row.target else [])} <= set(row.samples)
