"""The GPU's code for sliding windows along the last axis, run on the CPU: blocks of neighbours."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from kspec.runtime.driver.device import Gpu
from kspec.runtime.schedules import rolling_schedule
from kspec.runtime.schedules.rolling_schedule import RollingSchedule
from tests.forms.kernels import MAX, MODELS, OF_SEGMENT, PLUS_TEN, SUM, WEIGHTED
from tests.forms.reference import integers
from tests.forms.test_cuda_tiles import anew
from tests.forms.test_window import PADDED, rolling

BOUNDARIES = ("valid", "shrink", *PADDED)


@pytest.fixture(autouse=True)
def schedules(gpu_code: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[RollingSchedule]]:
    """Compile and schedule as for a GPU, for kernels that are made in the test."""
    made: list[RollingSchedule] = []
    choose = rolling_schedule.choose_rolling

    def on_a_gpu(*args: Any, **keywords: Any) -> RollingSchedule:
        *given, host = args
        assert host is None
        made.append(choose(*given, Gpu(132, 232_448), **keywords))
        return made[-1]

    monkeypatch.setattr(rolling_schedule, "choose_rolling", on_a_gpu)
    yield made
    assert made


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_sizes(boundary: str, schedules: list[RollingSchedule]) -> None:
    kernel, x = anew(SUM), integers(2, 700)
    for size in (1, 2, 3, 8, 9, 10, 15, 18, 19, 20, 100, 289, 300):
        found = kernel.window(x, size, boundary=boundary)
        np.testing.assert_array_equal(found, rolling(x, [size], [1], boundary), str(size))
        assert schedules[-1].tile


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_several_blocks_a_row(
    boundary: str, schedules: list[RollingSchedule], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rolling_schedule, "_THREADS", 32)
    kernel, x = anew(MAX), integers(3, 1001, dtype="int32")
    for size in (1, 5, 15, 64, 100, 230):
        found = kernel.window(x, size, boundary=boundary)
        wanted = rolling(x, [size], [1], boundary, reduce=np.max)
        np.testing.assert_array_equal(found, wanted, str(size))
        assert schedules[-1].blocks >= 3 * 3


@pytest.mark.parametrize("name", ["mean", "two", "matrices", "argmax", "permutations", "hash"])
def test_every_accumulator(name: str, schedules: list[RollingSchedule]) -> None:
    """Also those whose reduce expression does not commute."""
    model = MODELS[name]
    kernel, inputs = anew(model.kernel), model.draw(300)
    for size in (1, 3, 4, 5, 6, 7, 9, 10, 12, 15, 40):
        found = kernel.window(*inputs, size)
        outputs = found if isinstance(found, tuple) else (found,)
        model.check(outputs, model.windows(inputs, size), str(size))
        assert bool(schedules[-1].tile) == (not kernel.declaration.needs_places)


def test_layouts_and_numbers(schedules: list[RollingSchedule]) -> None:
    kernel, x = anew(WEIGHTED), integers(4, 3, 900)
    for view in (x[..., ::-1], x[:, 1], x[..., ::2], x[0], np.asfortranarray(x)):
        wanted = rolling(3 * view, [15], [-1])
        np.testing.assert_array_equal(kernel.window(view, 3, 15), wanted)
        assert schedules[-1].tile
        out = np.zeros((*wanted.shape, 2), wanted.dtype)[..., 0]
        kernel.window(view, 3, size=15, out=out)
        np.testing.assert_array_equal(out, wanted)


def test_windows_longer_than_rows() -> None:
    kernel, x = anew(SUM), integers(2, 200)
    for boundary, size in itertools.product(("nearest", "shrink"), (399, 400, 401)):
        found = kernel.window(x, size, boundary=boundary)
        np.testing.assert_array_equal(found, rolling(x, [size], [1], boundary))


def test_the_identity() -> None:
    x = integers(500)
    found = anew(PLUS_TEN).window(x, 15, boundary="shrink")
    np.testing.assert_array_equal(found, rolling(x, [15], [0], "shrink") + 10)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: SUM.from_spec(SUM.spec).window(x, 3, axis=0),  # other axes
        lambda x: SUM.from_spec(SUM.spec).window(x, 3, step=2),  # steps
        lambda x: SUM.from_spec(SUM.spec).window(x, (2, 3), axis=(0, 1)),  # several axes
        lambda x: SUM.from_spec(SUM.spec).window(x[:, :100], 3),  # short rows
        lambda x: SUM.from_spec(SUM.spec).window(x, 2**13, boundary="wrap"),  # long windows
        lambda x: OF_SEGMENT.from_spec(OF_SEGMENT.spec).window(x, np.ones(10**5, int), 3),
    ],
)
def test_others_have_a_thread_for_each_window(call: Any, schedules: list[RollingSchedule]) -> None:
    call(integers(20, 400))
    assert schedules[-1].tile == 0
