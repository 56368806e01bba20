"""Compiling in tests that are not about compiling: an image is kept for the next run."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import pytest

from kspec.compiler import compile_source
from kspec.compiler.cuda import nvrtc
from kspec.model.stages import CudaSource, Image, Target
from kspec.runtime.modules.provider import user_cache
from tests.profiles import is_fast


def compiled(source: CudaSource, target: Target) -> Image:
    """Return the image of a source, from the cache of the tests if a run before made it."""
    return compile_source(source, target, user_cache())


def compile_as_users_do(patch: pytest.MonkeyPatch) -> None:
    """Let the compilers for GPUs optimize, until the patch is undone."""
    patch.delenv("KSPEC_CUDA_OPT", raising=False)
    patch.setattr(nvrtc, "_compile", _elsewhere)


def _elsewhere(*arguments: Any) -> list[Image]:
    """Compile in a process of its own: after ``--Ofast-compile`` NVRTC optimizes less in one."""
    return _optimizing().submit(_all_of, arguments).result()


def _all_of(arguments: tuple[Any, ...]) -> list[Image]:
    return [*nvrtc._compile(*arguments)]


@functools.cache
def _optimizing() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(1, get_context("spawn"))


@pytest.fixture(scope="module", autouse=True)
def optimized() -> Iterator[None]:
    """Compile as users do, in folders and modules that test the code that compilers make.

    Runs of few examples leave the host's compiler as fast as it is elsewhere.
    """
    with pytest.MonkeyPatch.context() as patch:
        if not is_fast():
            patch.delenv("KSPEC_HOST_OPT", raising=False)
        compile_as_users_do(patch)
        yield
