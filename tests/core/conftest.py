"""Tests here run on every device: see `tests.devices`. Some run the GPU's code on the CPU."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from kspec.model.stages import CudaSource
from kspec.pipeline import FieldsSource, LazySource
from kspec.runtime.schedules import item_schedule
from kspec.runtime.schedules.elementwise_schedule import ElementwiseSchedule
from tests.devices import device, place

__all__ = ["device", "gpu_items", "place"]

# The small floats of GPUs are converted in PTX: they stay the host's.
_PROLOGUE = '#include "kspec/half.cuh"\n#undef KSPEC_HOST\n'


@pytest.fixture
def gpu_items(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[ElementwiseSchedule]]:
    """Compile and schedule as for a GPU, for the host device, kernels that are made in the test.

    Yields the schedules.
    """
    made: list[ElementwiseSchedule] = []
    render, choose = LazySource.__call__, item_schedule.choose_items

    def without_host(self: LazySource, wanted: Any) -> CudaSource:
        source = render(self, wanted)
        return replace(source, text=f"{_PROLOGUE}{source.text}")

    def on_a_gpu(*args: Any, on_host: bool) -> ElementwiseSchedule:
        assert on_host
        made.append(choose(*args, on_host=False))
        return made[-1]

    monkeypatch.setattr(LazySource, "__call__", without_host)
    monkeypatch.setattr(FieldsSource, "recipe", "")  # no notes of other sources
    monkeypatch.setattr(item_schedule, "choose_items", on_a_gpu)
    yield made
    assert made
