"""The `place` fixture: where JAX's arrays live; CUDA is marked ``gpu`` and skipped without it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

PLATFORMS = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


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
