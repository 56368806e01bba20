"""The GPU's code for parts of scans and segments, run on the CPU (`tests.forms.test_cuda_tiles`)."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

from kspec import sharded
from kspec.runtime.kernels.reduction import ReductionCallable
from kspec.runtime.schedules.scan_schedule import ScanSchedule, ScanTile
from tests.forms.kernels import MODELS, PLUS_TEN, WEIGHTED
from tests.forms.reference import bounds, integers
from tests.forms.test_cuda_tiles import anew, schedules, size_of
from tests.forms.test_scan import WAYS

__all__ = ["schedules"]

NAMES = ("matrices", "mean")


@functools.cache
def of_a_gpu(name: str) -> ReductionCallable:
    return anew(MODELS[name].kernel)


def pieces(values: Any, *ends: int) -> list[Any]:
    return [np.ascontiguousarray(one) for one in np.split(values, ends)]


def whole(got: Any) -> Any:
    return tuple(map(np.concatenate, got)) if isinstance(got, tuple) else np.concatenate(got)


@pytest.mark.parametrize(
    ("name", "way"), [(NAMES[number == 2], way) for number, way in enumerate(WAYS)], ids=str
)
def test_scans(name: str, way: dict[str, bool], schedules: list[ScanSchedule]) -> None:
    """One row of several tiles, and rows side by side."""
    model, tile = MODELS[name], ScanTile.of(size_of(name)).size
    for shape, ends, layout in (
        ((2 * tile + 40,), (3, 3, tile + 9), "ScanLines"),
        ((90, 40), (1, 60), "ScanColumns"),
        ((30, 2, 3), (7, 19), "ScanLines"),
    ):
        inputs = model.draw(*shape)
        shards = [pieces(one, *ends) for one in inputs]
        got = sharded.apply(of_a_gpu(name).scan, *shards, axis=0, **way)
        model.check(whole(got), model.scan(inputs, 0, **way), f"{shape}")
        assert layout in schedules[-1].layout


def test_segments() -> None:
    name = "matrices"
    model = MODELS[name]
    for shape in ((700,), (60, 40)):
        inputs = model.draw(*shape)
        shards = [pieces(one, shape[0] // 3, shape[0] // 3 + 5) for one in inputs]
        for kind in ("long", "one", "short"):
            cut = bounds(shape[0], kind)
            got = sharded.apply(of_a_gpu(name).segments, *shards, cut)
            model.check(whole(got), model.segments(inputs, cut), f"{shape} {kind}")


def test_rows_in_other_orders() -> None:
    """A carry belongs to a row by its number in C order, however the rows are in memory."""
    kernel = anew(WEIGHTED)
    x, w = integers(20, 3, 40), integers(3, 1, seed=1)
    for view in (x, x.transpose(0, 2, 1).copy().transpose(0, 2, 1), x[:, ::-1]):
        shards = [view[:7], view[7:]]
        got = sharded.apply(kernel.scan, shards, [w, w], axis=0)
        np.testing.assert_array_equal(whole(got), np.cumsum(view * w, 0))


def test_an_identity_is_in_each_output_once() -> None:
    kernel, x = anew(PLUS_TEN), integers(5000)
    for exclusive in (False, True):
        got = sharded.apply(kernel.scan, pieces(x, 10, 3000), exclusive=exclusive)
        np.testing.assert_array_equal(whole(got), 10 + np.cumsum(x) - exclusive * x)
