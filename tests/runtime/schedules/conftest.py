"""Small arrays take every layout here, so that tests need no large ones."""

from __future__ import annotations

import pytest

from kspec.runtime.kernels import loop_nest
from kspec.runtime.schedules.reductions import columns


@pytest.fixture(autouse=True)
def nothing_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "SMALL", 0)
    monkeypatch.setattr(loop_nest, "_MOST_APART", 0)
