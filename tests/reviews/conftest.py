"""Reviews of what was recorded alone."""

from __future__ import annotations

import pytest


@pytest.fixture
def without_compilers_for_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Review without registers and machine code: one compilation less for each kernel."""
    monkeypatch.setattr("kspec.runtime.modules.host.HostKernel.know_figures", lambda *_: None)
