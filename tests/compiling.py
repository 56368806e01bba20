"""Compiling in tests that are not about compiling: an image is kept for the next run."""

from __future__ import annotations

import pytest

from kspec.compiler import compile_source
from kspec.model.stages import CudaSource, Image, Target
from kspec.runtime.modules.provider import user_cache


def compiled(source: CudaSource, target: Target) -> Image:
    """Return the image of a source, from the cache of the tests if a run before made it."""
    return compile_source(source, target, user_cache())


@pytest.fixture(autouse=True)
def little_optimized(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the host device's compiler take less time, in folders that do not test its code."""
    monkeypatch.setenv("KSPEC_HOST_OPT", "1")
