"""What shells are told to offer, asked for as they ask."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.projects import ROOT, environment


def completed(shell: str, line: str, folder: Path) -> list[str]:
    """Return what is offered for the last word of a line."""
    words = line.split(" ")
    asked = {
        "bash": {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)},
        "zsh": {"_TYPER_COMPLETE_ARGS": line},
        "fish": {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
    }
    code = "import sys; sys.argv = ['kspec']; from kspec.build.__main__ import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**environment(ROOT), "_KSPEC_COMPLETE": f"complete_{shell}", **asked[shell]},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    return done.stdout.replace("'", '"').replace('"', " ").split()


@pytest.mark.parametrize(
    "shell", ["bash", *(pytest.param(one, marks=pytest.mark.slow) for one in ("zsh", "fish"))]
)
def test_kernels_of_the_project(toy: Path, shell: str) -> None:
    assert "square" in completed(shell, "kspec show s", toy)
    assert "total" not in completed(shell, "kspec show s", toy)
    assert {"squares.square", "squares.total"} <= set(completed(shell, "kspec show squares.", toy))
    assert "source" in completed(shell, "kspec show square --stage so", toy)


def test_the_project_that_is_named(toy: Path, tmp_path: Path) -> None:
    assert completed("bash", f"kspec show --project {toy} to", tmp_path) == ["total"]


def test_where_there_is_nothing_to_offer(toy: Path, tmp_path: Path) -> None:
    assert completed("bash", "kspec show x", tmp_path) == []
    (toy / "specs/squares.toml").write_text("[what")
    assert completed("bash", "kspec show s", toy) == []


def test_commands_and_options(tmp_path: Path) -> None:
    assert completed("bash", "kspec doct", tmp_path) == ["doctor"]
    assert completed("bash", "kspec doctor --fo", tmp_path) == ["--format"]
    assert completed("bash", "kspec doctor --format j", tmp_path) == ["json"]
