"""A toy project for each test, and the command line in this process."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import Phase

from kspec.build import cli
from kspec.build.project import build_project
from kspec.build.properties import runner
from tests.projects import write_project


@pytest.fixture(scope="module", autouse=True)
def one_processor() -> Iterator[None]:
    """Compile in this process: the start of two others takes longer than a toy's kernels."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "cpu_count", lambda: 1)
        yield


@pytest.fixture
def unshrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let property tests stop at the first call that fails: finding a smaller one takes longest."""
    monkeypatch.setattr(runner, "PHASES", (Phase.generate,))


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    return write_project(tmp_path / "toy")


@pytest.fixture(scope="module")
def built_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_project(tmp_path_factory.mktemp("built") / "toy")
    build_project(folder)
    return folder


@pytest.fixture
def built(built_once: Path, tmp_path: Path) -> Path:
    """Return a toy project that was built: a copy, which takes a twentieth of the time."""
    return shutil.copytree(built_once, tmp_path / "toy")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]):
    """Run the command line in this process; return exit status and both outputs."""

    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["kspec", *map(str, arguments)])
        capfd.readouterr()
        with pytest.raises(SystemExit) as caught:
            cli.main()
        code = caught.value.code
        return (code if isinstance(code, int) else 0, *capfd.readouterr())

    return call
