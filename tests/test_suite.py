"""Every test of the folder is collected."""

from __future__ import annotations

from fnmatch import fnmatch

import pytest

from tests.projects import ROOT


def test_no_folder_is_left_out(pytestconfig: pytest.Config) -> None:
    """Folders named build are by default, and tests/build has hundreds of tests."""
    patterns = pytestconfig.getini("norecursedirs")
    folders = {path.parent for path in (ROOT / "tests").rglob("test_*.py")}
    names = {name for folder in folders for name in folder.relative_to(ROOT).parts}
    assert "build" in names
    assert [name for name in names if any(fnmatch(name, pattern) for pattern in patterns)] == []
