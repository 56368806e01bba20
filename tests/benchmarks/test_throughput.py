"""Running cases: wrong results and failures are rows, peers that fail are notes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from benchmarks import kernels
from benchmarks.cases import Case
from benchmarks.machines import HostMachine, random_numpy
from benchmarks.operands import Operand, Pool, array, line
from benchmarks.references import ArrayModuleOps, as_tensor, worst_error
from benchmarks.throughput import Runner

CASE = Case("add", kernels.ADD, lambda n: [array("float32", line(n))] * 2)


@pytest.fixture
def machine() -> HostMachine:
    machine = HostMachine(2000)
    machine.cache_bytes = 0
    return machine


class TestRunner:
    def test_a_row(self, machine: HostMachine) -> None:
        row = Runner(machine, 0).run(CASE)
        assert (row.label, row.kernel, row.nbytes) == ("elementwise/add", "add", 24000)
        assert row.layout == "float32[2000], float32[2000] -> float32[2000]"
        assert row.samples["kspec"].count == 3
        assert row.error <= 1

    def test_targets_are_for_gpus(self, machine: HostMachine) -> None:
        assert Runner(machine, 0).run(replace(CASE, target=0.9)).target is None

    def test_a_wrong_result_is_reported_and_not_timed(self, machine: HostMachine) -> None:
        def off_by_a_little(x: Any, y: Any, z: Any) -> None:
            np.add(x, y, out=z)
            z[17] += 0.01

        row = Runner(machine, 0).run(CASE, kernel=off_by_a_little)
        assert row.problem.startswith("WRONG RESULT: error ")
        assert row.error > 1
        assert row.samples == {}

    def test_elements_that_were_not_written_are_wrong(self, machine: HostMachine) -> None:
        def half(x: Any, y: Any, z: Any) -> None:
            z[:1000] = (x + y)[:1000]

        row = Runner(machine, 0).run(CASE, kernel=half)
        assert row.problem == "WRONG RESULT: error inf times what is allowed"

    def test_a_case_that_fails_is_a_row(self, machine: HostMachine) -> None:
        def fails(*arguments: Any) -> None:
            raise RuntimeError("the kernel\nfell over")

        row = Runner(machine, 0).run(CASE, kernel=fails)
        assert row.problem == "RuntimeError: the kernel"

    def test_a_peer_that_fails_is_a_note(self, machine: HostMachine) -> None:
        class NoCuPy:
            __name__ = "cupy"

            def ElementwiseKernel(self, *arguments: Any) -> None:
                raise RuntimeError("does not compile")

        machine.peers["cupy"] = NoCuPy()  # type: ignore[assignment]
        row = Runner(machine, 0).run(CASE)
        assert not row.problem
        assert set(row.samples) == {"kspec", "NumPy"}
        assert row.notes == ("CuPy: RuntimeError: does not compile",)

    def test_small_operands_are_rotated_past_the_cache(self, machine: HostMachine) -> None:
        machine.cache_bytes = 24000
        seen = []

        def add(x: Any, y: Any, z: Any) -> None:
            seen.append(x.ctypes.data)
            np.add(x, y, out=z)

        assert not Runner(machine, 0).run(CASE, kernel=add).problem
        assert len(set(seen)) == 4


class TestPool:
    def test_sets_and_positions_share_no_memory(self, machine: HostMachine) -> None:
        operands = [array("float32", (30, 10)), array("float32", (30, 10))]
        sets = Pool(machine).inputs(operands, 3)
        views = [view for one in sets for view in one]
        for number, view in enumerate(views):
            assert not any(np.shares_memory(view, other) for other in views[:number])
            assert view.ctypes.data % 16 == views[0].ctypes.data % 16
        np.testing.assert_array_less(0, np.abs(views[0] - views[1]).max())

    def test_given_values_are_those_of_every_set(self, machine: HostMachine) -> None:
        def count(shape: tuple[int, ...]) -> Any:
            return np.arange(np.prod(shape)).reshape(shape)

        operand = Operand("float32", (3, 5), values=count)
        (one,), (other,) = Pool(machine).inputs([operand], 2)
        np.testing.assert_array_equal(one, count((3, 5)))
        np.testing.assert_array_equal(other, count((3, 5)))
        assert one.dtype == "float32" and not np.shares_memory(one, other)

    def test_data_is_made_once(self, machine: HostMachine) -> None:
        made = []
        original = machine.random

        def counting(dtype: str, count: int, seed: int) -> Any:
            made.append((dtype, count))
            return original(dtype, count, seed)

        machine.random = counting  # type: ignore[method-assign]
        pool = Pool(machine)
        pool.inputs([array("float32", (1000,))], 1)
        pool.inputs([array("float32", (500,))], 2)
        assert made == [("float32", 1024)]
        pool.inputs([array("float32", (5000,)), array("int8", (3,))], 1)
        assert made[1:] == [("float32", 5120), ("int8", 256)]


class TestRandom:
    @pytest.mark.parametrize(
        "dtype", ["float16", "float32", "float64", "int8", "uint8", "int32", "complex64"]
    )
    def test_random_never_zeros(self, dtype: str) -> None:
        values = random_numpy(dtype, 5000, 1)
        assert values.dtype == dtype and values.shape == (5000,)
        assert len(np.unique(values)) > 100
        other = random_numpy(dtype, 5000, 2)
        assert (values != other).mean() > 0.9


class TestWorstError:
    def test_relative_to_value_and_average(self) -> None:
        ops, want = ArrayModuleOps(np), np.array([0.0, 2.0])
        assert worst_error(ops, np.float32([0, 2]), want, "float32", 1e-5) == 0
        assert worst_error(ops, np.float64([1e-5, 2]), want, "float64", 1e-5) == pytest.approx(1)
        assert worst_error(ops, np.float64([0, np.nan]), want, "float64", 1e-5) == np.inf

    def test_integers_are_exact_after_wrapping(self) -> None:
        ops, want = ArrayModuleOps(np), np.array([300, -1])
        assert worst_error(ops, np.int8([44, -1]), want, "int8", 1.0) == 0
        assert worst_error(ops, np.int8([45, -1]), want, "int8", 1.0) == np.inf

    def test_shapes_must_agree(self) -> None:
        with pytest.raises(ValueError, match=r"shape \(2,\), not \(3,\)"):
            worst_error(ArrayModuleOps(np), np.zeros(2), np.zeros(3), "float64", 1.0)

    def test_torch_is_not_given_negative_strides(self) -> None:
        with pytest.raises(ValueError, match="no negative strides"):
            as_tensor(None, np.zeros(3)[::-1])
