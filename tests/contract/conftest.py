"""Every device, and what was launched on it."""

from __future__ import annotations

from typing import Any

import pytest

from kspec.runtime.modules.cuda import CudaKernel
from kspec.runtime.modules.host import HostKernel
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
