"""Tests here run on every device: see `tests.devices`. Some run the GPU's code on the CPU."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kspec.model.stages import CudaSource
from kspec.pipeline import FieldsSource, LazySource
from kspec.runtime.kernels.folding import FoldingCallable, known_size
from tests.devices import device, place
from tests.forms.kernels import SIZES

__all__ = ["device", "gpu_code", "place"]

# The small floats of GPUs are converted in PTX: they stay the host's.
_PROLOGUE = '#include "kspec/half.cuh"\n#undef KSPEC_HOST\n'


@pytest.fixture
def gpu_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compile as for a GPU, for the host device, kernels that are made in the test."""
    render = LazySource.__call__

    def without_host(self: LazySource, wanted: Any) -> CudaSource:
        source = render(self, wanted)
        return replace(source, text=f"{_PROLOGUE}{source.text}")

    def true_size(self: FoldingCallable, call: Any, binding: Any, modes: Any) -> int:
        declared = self.declaration
        return known_size(declared, binding) or SIZES[declared.accumulator]

    monkeypatch.setattr(LazySource, "__call__", without_host)
    monkeypatch.setattr(FieldsSource, "recipe", "")  # no notes of other sources
    monkeypatch.setattr(FoldingCallable, "accumulator_size", true_size)
