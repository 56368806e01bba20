"""Every device, and what was launched on it."""

from __future__ import annotations

from typing import Any

import pytest

from kspec.runtime.cuda_module import CudaKernel
from kspec.runtime.host_module import HostKernel
from tests.devices import device, place

__all__ = ["device", "launches", "place"]


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the lowered names of the kernels launched since the test began, a living list."""
    names: list[str] = []
    for kind in (HostKernel, CudaKernel):
        launch = kind.launch

        def spy(self: Any, *args: Any, launch: Any = launch) -> None:
            names.append(self.name)
            launch(self, *args)

        monkeypatch.setattr(kind, "launch", spy)
    return names
