"""What several tests of distributions share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.packaging.builds import has_index, kspec_wheel, shared_folder


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder that all processes of the run have."""
    return shared_folder(tmp_path_factory)


@pytest.fixture(scope="session")
def wheel(shared: Path) -> Path:
    """Return the wheel of this repository."""
    return kspec_wheel(shared)


@pytest.fixture(scope="session")
def index(shared: Path) -> None:
    """Skip where pip reaches no index: builds with isolation install what they require."""
    if not has_index(shared):
        pytest.skip("pip reaches no index to build with isolation")
