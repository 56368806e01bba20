"""A project of `kspec init --template torch`: its tests of gradients run where torch is."""

from __future__ import annotations

from pathlib import Path

import pytest

from kspec.build import scaffold
from tests.packaging.builds import pytest_in


@pytest.mark.slow
def test_gradients_of_a_new_project(tmp_path: Path) -> None:
    scaffold.write_project(scaffold.new_project("demo", "torch"), tmp_path)
    done = pytest_in(tmp_path)
    assert done.returncode == 0 and "2 passed" in done.stdout, done.stdout + done.stderr
