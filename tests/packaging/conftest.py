"""What several tests of distributions share."""

from __future__ import annotations

import venv
from pathlib import Path

import pytest

from tests.packaging.builds import (
    has_index,
    kspec_wheel,
    once,
    shared_folder,
    succeed,
    users_environment,
)


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


@pytest.fixture(scope="session")
def user(shared: Path, wheel: Path) -> Path:
    """Return the folder of programs of an environment with ``kspec[test]``, and nothing of ours."""
    place = shared / "environments/user"  # scripts name it, so it is made where it stays

    def make(folder: Path) -> None:
        venv.create(place, with_pip=True, clear=True)
        pip = [str(place / "bin/python"), "-m", "pip", "install", "--quiet", "kspec[test]"]
        succeed(pip, folder, users_environment(wheel.parent))

    once(shared / "user", make)
    return place / "bin"
