"""A toy project per test, and one cache of images for the whole run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.projects import write_project


@pytest.fixture(autouse=True)
def shared_cache(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile equal sources once for all tests of a worker."""
    folder = tmp_path_factory.getbasetemp() / "kspec-cache"
    monkeypatch.setenv("KSPEC_CACHE_DIR", str(folder))
    return folder


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    return write_project(tmp_path / "toy")
