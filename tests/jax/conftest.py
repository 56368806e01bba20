"""Tests of JAX run on its CPU; those with the fixture `place` on CUDA too, marked ``gpu``."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

# JAX would take most of a GPU's memory, which tests of other libraries need.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

PLATFORMS = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


@pytest.fixture(autouse=True)
def on_the_cpu() -> Iterator[None]:
    jax = pytest.importorskip("jax")
    with jax.default_device(jax.devices("cpu")[0]):
        yield


@pytest.fixture(params=PLATFORMS)
def place(request: pytest.FixtureRequest) -> Iterator[str]:
    jax = pytest.importorskip("jax")
    try:
        device = jax.devices(request.param)[0]
    except RuntimeError:
        pytest.skip(f"JAX has no platform {request.param}")
    with jax.default_device(device):
        yield request.param


@pytest.fixture
def wide() -> Iterator[None]:
    """JAX with 64-bit numbers."""
    with pytest.importorskip("jax").enable_x64(True):
        yield
