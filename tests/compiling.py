"""Compiling in tests that are not about compiling: an image is kept for the next run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kspec.compiler import compile_source
from kspec.model.stages import CudaSource, Image, Target
from kspec.runtime.modules.provider import user_cache
from tests.profiles import is_fast


def compiled(source: CudaSource, target: Target) -> Image:
    """Return the image of a source, from the cache of the tests if a run before made it."""
    return compile_source(source, target, user_cache())


@pytest.fixture(scope="module", autouse=True)
def optimized() -> Iterator[None]:
    """Compile as users do, in folders and modules that test the code that compilers make.

    Runs of few examples leave the host's compiler as fast as it is elsewhere.
    """
    with pytest.MonkeyPatch.context() as patch:
        if not is_fast():
            patch.delenv("KSPEC_HOST_OPT", raising=False)
        patch.delenv("KSPEC_CUDA_OPT", raising=False)
        yield
