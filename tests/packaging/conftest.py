"""What several tests of distributions share."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.packaging.builds import build_wheel
from tests.projects import ROOT, environment

_COPIED = ("kspec", "specs", "templates", "generated")
_FILES = ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE", ".gitignore")


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel of a copy of this repository."""
    clone = tmp_path_factory.mktemp("clone")
    skipped = shutil.ignore_patterns("__pycache__", "*.fatbin", ".*")
    for name in _COPIED:
        shutil.copytree(ROOT / name, clone / name, ignore=skipped)
    for name in _FILES:
        shutil.copy(ROOT / name, clone / name)
    cache = tmp_path_factory.getbasetemp() / "kspec-cache"
    build_wheel(clone, environment(clone), cache)
    assert any((clone / "generated/kspec_kernels").glob("*.fatbin"))
    (found,) = (clone / "dist").glob("*.whl")
    return found
