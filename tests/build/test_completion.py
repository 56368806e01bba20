"""What shells are told to offer, asked for as they ask."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.projects import ROOT, environment

Completed = Callable[[str, str, Path], list[str]]


def asking(shell: str, line: str) -> dict[str, str]:
    """Return the variables by which a shell asks about the last word of a line."""
    asked = {
        "bash": {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)},
        "zsh": {"_TYPER_COMPLETE_ARGS": line},
        "fish": {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
    }
    return {"_KSPEC_COMPLETE": f"complete_{shell}", **asked[shell]}


def words(printed: str) -> list[str]:
    return printed.replace("'", '"').replace('"', " ").split()


@pytest.fixture
def completed(run, monkeypatch: pytest.MonkeyPatch) -> Completed:
    """Return a function that returns what is offered in a folder."""

    def call(shell: str, line: str, folder: Path) -> list[str]:
        for name, value in asking(shell, line).items():
            monkeypatch.setenv(name, value)
        monkeypatch.chdir(folder)
        # Of `python -m pytest` the name would be another.
        monkeypatch.setattr(sys.modules["__main__"], "__package__", None)
        _, out, err = run()
        assert err == ""
        return words(out)

    return call


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_kernels_of_the_project(completed: Completed, toy: Path, shell: str) -> None:
    assert "square" in completed(shell, "kspec show s", toy)
    assert "total" not in completed(shell, "kspec show s", toy)
    assert {"squares.square", "squares.total"} <= set(completed(shell, "kspec show squares.", toy))
    assert "source" in completed(shell, "kspec show square --stage so", toy)


def test_the_project_that_is_named(completed: Completed, toy: Path, tmp_path: Path) -> None:
    assert completed("bash", f"kspec show --project {toy} to", tmp_path) == ["total"]


def test_where_there_is_nothing_to_offer(completed: Completed, toy: Path, tmp_path: Path) -> None:
    assert completed("bash", "kspec show x", tmp_path) == []
    (toy / "specs/squares.toml").write_text("[what")
    assert completed("bash", "kspec show s", toy) == []


def test_commands_and_options(completed: Completed, tmp_path: Path) -> None:
    assert completed("bash", "kspec doct", tmp_path) == ["doctor"]
    assert completed("bash", "kspec doctor --fo", tmp_path) == ["--format"]
    assert completed("bash", "kspec doctor --format j", tmp_path) == ["json"]


def test_a_process_of_its_own(toy: Path) -> None:
    code = "import sys; sys.argv = ['kspec']; from kspec.build.__main__ import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**environment(ROOT), **asking("bash", "kspec show s")},
        cwd=toy,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (words(done.stdout), done.stderr) == (["shift", "square"], "")
