"""The schedules of GPUs, run by the host device: every layout, with every access checked.

Their code is that of a GPU (``KSPEC_HOST`` is undefined before it), their geometry that of a small
one.  The host device sees what a GPU does not tell: reads beside an array, races, barriers that not
all threads reach.
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

import kspec
from kspec.model import dtypes
from kspec.model.stages import COLUMNS, FLAT, LINES, PACKS, CudaSource
from kspec.model.tuning import Choice
from kspec.pipeline import FieldsSource, LazySource
from kspec.runtime.arguments.binding import Operand
from kspec.runtime.kernels import loop_nest as loop
from kspec.runtime.kernels import reduction
from kspec.runtime.schedules import elementwise_schedule
from kspec.runtime.schedules.elementwise_schedule import Member
from kspec.runtime.schedules.reduction_schedule import ReductionLoop
from kspec.runtime.schedules.reductions import ReductionSchedule, Sharing
from tests.runtime.schedules.test_layouts import ELEMENTWISE, REDUCTIONS, layouts, numbers

__all__ = ["layouts"]  # a fixture

CHECKS = "memory,race"
DTYPES = ["int8", "int32"]
MULTIPROCESSORS, RESIDENT = 2, 12  # blocks: more would only take longer


@dataclass
class Told:
    """The wanted choice, all choices of the last call, and the schedules of reductions so far."""

    wanted: Choice | None = None
    choices: list[Choice] = field(default_factory=list)
    schedules: list[ReductionSchedule] = field(default_factory=list)


TOLD = Told()


def some_choices(count: int) -> list[Choice]:
    """Return a few of the choices of the last call, of every layout and way."""
    kinds: dict[object, list[Choice]] = {}
    for one in TOLD.choices:
        kinds.setdefault((one["layout"], one.get("way")), []).append(one)
    pick = random.Random(7)
    return [one for some in kinds.values() for one in pick.sample(some, min(count, len(some)))]


@pytest.fixture(autouse=True)
def gpu_schedules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the host device take the schedules of a GPU."""
    source_of = LazySource.__call__
    split = reduction.split_axes
    members: list[Member] = []

    def source_for_gpus(self: LazySource, wanted: Any) -> CudaSource:
        source = source_of(self, wanted)
        return replace(source, text=f"#undef KSPEC_HOST\n{source.text}")

    def choose_walk(axes: Any, operands: Any, size: int, *, flat: bool, single: bool) -> Any:
        if single:
            return elementwise_schedule.choose_single(axes, operands, size, flat=flat, single=True)
        TOLD.choices = list(elementwise_schedule.choices(axes, operands, size, flat=flat))
        return elementwise_schedule.choose(axes, operands, size, flat=flat, wanted=TOLD.wanted)

    def split_axes(inputs: Sequence[Operand], *rest: Any) -> Any:
        members[:] = [member_of(one) for one in inputs]
        return split(inputs, *rest)

    def choose_fold(kept: Any, reduced: Any) -> Any:
        found = ReductionLoop(
            kept, reduced, members, MULTIPROCESSORS, lambda tag, threads: RESIDENT
        )
        TOLD.choices = list(found.choices())
        TOLD.schedules.append(found.schedule(Sharing.of(TOLD.wanted)))
        return TOLD.schedules[-1]

    monkeypatch.setattr(sys.modules[__name__], "TOLD", Told())
    monkeypatch.setattr(LazySource, "__call__", source_for_gpus)
    monkeypatch.setattr(FieldsSource, "recipe", "")  # no notes of other sources
    monkeypatch.setattr(loop, "choose_host", choose_walk)
    monkeypatch.setattr(reduction, "split_axes", split_axes)
    monkeypatch.setattr(reduction, "choose_host", choose_fold)


def member_of(operand: Operand) -> Member:
    assert operand.view is not None
    row = dtypes.lookup(operand.view.dtype)
    return Member(row.itemsize, row.pack_width, operand.view.ptr, written=False)


def alone(values: np.ndarray, offset: int) -> np.ndarray:
    """Return a copy so many bytes behind an aligned address, in memory that holds nothing else."""
    room = np.zeros(values.nbytes + 64, "uint8")
    start = -room.ctypes.data % 16 + offset
    memory = memoryview(room)[start : start + values.nbytes]
    copy = np.frombuffer(memory, values.dtype).reshape(values.shape)
    copy[...] = values
    return copy


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise(name: str, dtype: str, layouts: list[str]) -> None:
    shape, of_x, y_shape, of_y, of_z, layout = ELEMENTWISE[name]
    x, y = of_x(alone(numbers(shape, dtype), 0)), of_y(alone(numbers(y_shape, dtype), 0))
    target = alone(numbers(shape, dtype), 0)
    want = target.copy()
    update = kspec.ElementwiseKernel("T x, T y", "T z", "if (x != y) z += x * y", "updates")
    # The blocks around a pack of the output hold elements of other threads, which are not looked at.
    update(x, y, of_z(target), sanitize="memory" if "cropped" in name else CHECKS)
    of_z(want)[...] += np.where(x != y, x * y, np.zeros((), dtype))
    np.testing.assert_array_equal(target, want)
    assert layouts == [layout]


def smaller(shape: tuple[int, ...], most: int = 1 << 18) -> tuple[int, ...]:
    """Return less of a shape, at most so many elements: the checks take their time."""
    extents = [*shape]
    while math.prod(extents) > most:
        extents[extents.index(max(extents))] //= 2
    return tuple(extents)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name: str, dtype: str, layouts: list[str]) -> None:
    shape, of_x, axis, layout = REDUCTIONS[name]
    shape = smaller(shape)
    x = of_x(alone(numbers(shape, dtype), 0))
    y = of_x(alone(numbers(shape[::-1], dtype).reshape(shape), 0))
    dot = kspec.ReductionKernel("T x, T y", "T z", "x * y", "a + b", "z = a", "0", "products")
    with np.errstate(over="ignore"):
        got = dot(x, y, axis=axis, sanitize=CHECKS)
        np.testing.assert_array_equal(got, (x * y).sum(axis, dtype=dtype))
    if dtype == "int32":
        assert set(layouts) == {layout}


HIDDEN: dict[str, dict[str, Any]] = {
    "preamble": {"preamble": "#define OLD y"},
    "through another macro": {"preamble": "#define BEFORE y\n#define OLD (BEFORE)"},
    "function-like": {"preamble": "#define OF(v) (v)\n#define OLD OF(y)"},
    "loop_prep": {"loop_prep": "\n#define OLD y\n"},
    "option": {"options": ("-DOLD=y",)},
}


@pytest.mark.parametrize("name", HIDDEN)
def test_an_output_that_a_macro_reads_is_loaded(name: str) -> None:
    x, y = alone(numbers((1031,), "int32"), 0), alone(numbers((1031,), "int32") * 7, 0)
    want = y + x
    kspec.ElementwiseKernel("T x", "T y", "T t = OLD; y = t + x", "hidden", **HIDDEN[name])(x, y)
    np.testing.assert_array_equal(y, want)


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_what_is_measured_of_elementwise_kernels_is_right(name: str, layouts: list[str]) -> None:
    shape, of_x, y_shape, of_y, of_z, _ = ELEMENTWISE[name]
    x, y = of_x(alone(numbers(shape, "int32"), 0)), of_y(alone(numbers(y_shape, "int32"), 0))
    product = kspec.ElementwiseKernel("T x, T y", "T z", "z = x * y", "products")
    target = alone(numbers(shape, "int32"), 0)
    product(x, y, of_z(target))
    for TOLD.wanted in some_choices(2):
        of_z(target)[...] = 0
        again = kspec.ElementwiseKernel("T x, T y", "T z", "z = x * y", "products")
        again(x, y, of_z(target), sanitize=CHECKS)
        np.testing.assert_array_equal(of_z(target), x * y, err_msg=str(TOLD.wanted))
        assert layouts[-1] == TOLD.wanted["layout"]


@pytest.mark.parametrize("name", REDUCTIONS)
def test_what_is_measured_of_reductions_is_right(name: str, layouts: list[str]) -> None:
    shape, of_x, axis, _ = REDUCTIONS[name]
    values = of_x(alone(numbers(smaller(shape, 1 << 14), "int32"), 0))
    total = kspec.ReductionKernel("T x", "T y", "x", "a + b", "y = a", "0", "totals")
    total(values, axis=axis)
    want = values.sum(axis, dtype="int32")
    for TOLD.wanted in some_choices(2):
        np.testing.assert_array_equal(
            total(values, axis=axis, sanitize=CHECKS), want, err_msg=str(TOLD.wanted)
        )
        assert layouts[-1] == TOLD.wanted["layout"]


@pytest.mark.parametrize("length", [5, 6, 9, 37])
def test_each_block_of_a_line_has_a_pack(length: int) -> None:
    values = alone(numbers((301, length), "int32"), 0)
    total = kspec.ReductionKernel("T x", "T y", "x", "a + b", "y = a", "0", "totals")
    total(values, axis=1)
    split = [one for one in TOLD.choices if one.get("splits", 1) > 1]
    for TOLD.wanted in split:
        got = total(values, axis=1, sanitize=CHECKS)
        np.testing.assert_array_equal(got, values.sum(1, dtype="int32"), err_msg=str(TOLD.wanted))


def test_many_blocks_join_their_results_in_two_rounds() -> None:
    TOLD.wanted = {"layout": COLUMNS, "splits": 90, "side": 63}
    x = alone(numbers((3001, 126), "int32"), 4)
    total = kspec.ReductionKernel("T x", "T y", "x", "a + b", "y = a", "0", "totals")
    np.testing.assert_array_equal(total(x, axis=0, sanitize=CHECKS), x.sum(0, dtype="int32"))
    assert TOLD.schedules[0].joins > 2


class TestNothingBesideAnArrayIsRead:
    """Packs from any address; `alone` has an array's elements and nothing else."""

    @pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "float64"])
    @pytest.mark.parametrize("size", [1, 7, 16, 33, 100, 1031])
    def test_flat(self, size: int, dtype: str, layouts: list[str]) -> None:
        kernel = kspec.ElementwiseKernel("T x, T y", "T z", "z = x - y", "differences")
        step = np.dtype(dtype).itemsize
        for offset in range(0, 16, step):
            x, y = alone(numbers((size,), dtype), offset), alone(numbers((size,), dtype), step)
            for beside in (0, 16 - step):
                z = alone(np.zeros(size, dtype), beside)
                kernel(x, y, z, sanitize=CHECKS)
                np.testing.assert_array_equal(z, x - y)
        assert set(layouts) == {FLAT}

    @pytest.mark.parametrize("dtype", ["int8", "int16", "int32"])
    @pytest.mark.parametrize("shape", [(3, 37), (5, 131), (2, 3, 67), (40, 3)])
    def test_packs(self, shape: tuple[int, ...], dtype: str, layouts: list[str]) -> None:
        kernel = kspec.ElementwiseKernel("T x, T y", "T z", "z = x - y", "differences")
        step = np.dtype(dtype).itemsize
        for offset in range(0, 16, step):
            x = alone(numbers(shape, dtype), offset)
            y = alone(numbers(shape[-1:], dtype), 16 - step)
            z = alone(np.zeros(shape, dtype), 0)
            kernel(x, y, z, sanitize=CHECKS)
            np.testing.assert_array_equal(z, x - y)
        assert set(layouts) == {PACKS}

    @pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "float64"])
    @pytest.mark.parametrize(
        "shape", [(2, 37), (3, 16), (4, 37), (70, 131), (301, 35), (1501, 3), (903, 10)]
    )
    def test_columns(self, shape: tuple[int, ...], dtype: str, layouts: list[str]) -> None:
        kernel = kspec.ReductionKernel("T x, T y", "T z", "x - y", "a + b", "z = a", "0", "sums")
        step = np.dtype(dtype).itemsize
        for offset in range(0, 16, step):
            x = alone(numbers(shape, dtype), offset)
            y = alone(numbers(shape[-1:], dtype), 16 - step)
            got = kernel(x, y, axis=0, sanitize=CHECKS)
            np.testing.assert_array_equal(got, (x - y).sum(0, dtype=dtype))
        assert set(layouts) == {COLUMNS}

    @pytest.mark.parametrize("dtype", ["int8", "int32"])
    def test_columns_that_overlap(self, dtype: str, layouts: list[str]) -> None:
        """Rows that begin a few bytes after each other, or before: each has ends of its own."""
        kernel = kspec.ReductionKernel("T x", "T z", "x", "a + b", "z = a", "0", "sums")
        for offset in range(0, 16, 4):
            x = alone(numbers((160,), dtype), offset)
            rows = np.lib.stride_tricks.sliding_window_view(x, 97)[::2]
            for view in (rows, rows[::-1], rows[3::5]):
                got = kernel(view, axis=0, sanitize=CHECKS)
                np.testing.assert_array_equal(got, view.sum(0, dtype=dtype))
        assert set(layouts) == {COLUMNS}

    @pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "float64"])
    @pytest.mark.parametrize("size", [100, 1031, 30_001])
    def test_lines(self, size: int, dtype: str, layouts: list[str]) -> None:
        kernel = kspec.ReductionKernel("T x", "T z", "x", "a + b", "z = a", "0", "sums")
        step = np.dtype(dtype).itemsize
        for offset in range(0, 16, step):
            x = alone(numbers((size,), dtype), offset)
            got = kernel(x, sanitize=CHECKS)
            np.testing.assert_array_equal(got, x.sum(dtype=dtype))
        assert set(layouts) <= {LINES, "kspec::ShortLines"}

    @pytest.mark.parametrize("length", [5, 12, 16, 40, 1100])
    def test_the_number_of_an_output_is_that_of_one(self, length: int) -> None:
        """Threads that have none must not show the map a number that is none."""
        kernel = kspec.ReductionKernel(
            "T x, raw T w", "T z", "x * w[_i]", "a + b", "z = a", "0", "weighted"
        )
        x, w = alone(numbers((3, length), "int32"), 0), alone(numbers((3,), "int32"), 0)
        got = kernel(x, w, axis=1, sanitize=CHECKS)
        np.testing.assert_array_equal(got, x.sum(1, dtype="int32") * w)
