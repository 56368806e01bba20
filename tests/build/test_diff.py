"""``kspec diff``: between revisions of git, and between one and the files now."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from kspec.build.project import build_project
from kspec.build.report import lock
from kspec.model import manifest
from tests.projects import SHIFTS, SQUARES, write_project

_IDENTITY = {
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@example.org",
    "GIT_CONFIG_GLOBAL": os.devnull,
}
CHANGED = (
    SQUARES.replace("y = x * x", "y = x * x * x")
    .replace('"int32"', '"float64"')
    .replace("[reduction.total]", "[reduction.sum_up]")
)


def git(project: Path, *arguments: str) -> None:
    subprocess.run(
        ["git", "-C", project, *arguments],
        check=True,
        capture_output=True,
        env={**os.environ, **_IDENTITY},
    )


def commit(project: Path, message: str = "x") -> None:
    git(project, "add", "-A")
    git(project, "commit", "-qm", message)


@pytest.fixture
def committed(toy: Path) -> Path:
    """A toy project in its first commit; images are not committed."""
    git_ignore = toy / ".gitignore"
    git_ignore.write_text("*.fatbin\n.*.lock\n")
    build_project(toy)
    git(toy, "init", "-q")
    commit(toy)
    return toy


def test_nothing(run, committed: Path) -> None:
    status, out, err = run("diff", "HEAD", "--project", committed)
    assert status == 0 and not err
    assert out.startswith("HEAD (") and out.endswith(") .. now\nnothing has changed\n")


def test_what_stands_elsewhere_is_no_change(run, committed: Path) -> None:
    write_project(committed, squares="# more\n\n" + SQUARES)
    build_project(committed)
    assert "nothing has changed" in run("diff", "HEAD", "--project", committed)[1]


@pytest.mark.usefixtures("optimized_code")
def test_everything(run, committed: Path) -> None:
    write_project(committed, squares=CHANGED, shifts=SHIFTS.replace("int n", "long long n"))
    path = committed / "pyproject.toml"
    path.write_text(path.read_text().replace('"sm_90"', '"sm_90", "sm_80"'))
    build_project(committed)
    status, out, _ = run("diff", "HEAD", "--project", committed)
    assert status == 0
    for line in (
        "  - shifts.shift: raw (float* x, int n)",
        "  + shifts.shift: raw (float* x, long long n)",
        "  + squares.sum_up: reduction (T x) -> (T y)",
        "  - squares.total: reduction (T x) -> (T y)",
        "  + architecture: sm_80",
        "  - squares.square: int, Flat",
        "  + squares.square: double, Flat",
        "+++ squares.cu (now)",
        "-y = x * x",
        "+y = x * x * x",
    ):
        assert line.strip() in [one.strip() for one in out.splitlines()], line
    table = out[out.index("figures") : out.index("--- ")]
    assert "float, Flat" in table and "sm_90" in table and "sm_80" not in table
    assert max(map(len, table.splitlines())) <= 80
    assert "+++" not in run("diff", "HEAD", "--no-cuda", "--project", committed)[1]


def test_two_revisions(run, committed: Path) -> None:
    write_project(committed, squares=CHANGED)
    build_project(committed)
    commit(committed)
    write_project(committed, squares=SQUARES)
    out = run("diff", "HEAD~1", "HEAD", "--project", committed)[1]
    assert out.splitlines()[0].startswith("HEAD~1 (") and ") .. HEAD (" in out
    back = run("diff", "HEAD", "HEAD~1", "--project", committed)[1]
    assert "+ squares.sum_up" in out and "- squares.sum_up" in back


@pytest.mark.usefixtures("optimized_code")
def test_json(run, committed: Path) -> None:
    write_project(committed, squares=CHANGED)
    build_project(committed)
    data = json.loads(run("diff", "HEAD", "--format", "json", "--project", committed)[1])
    assert [one["name"] for one in data["revisions"]] == ["HEAD", "now"]
    assert len(data["revisions"][0]["commit"]) == 40
    assert {one["kernel"] for one in data["signatures"]} == {"squares.total", "squares.sum_up"}
    assert {one["kernel"] for one in data["coverage"]} > {"squares.square"}
    assert {one["kernel"] for one in data["figures"]} == {"squares.square"}
    one = data["figures"][0]
    assert one["before"]["bytes"] != one["after"]["bytes"]
    assert [one["file"] for one in data["cuda"]] == ["squares.cu"]
    assert data["archs"] == {"added": [], "removed": []}


@pytest.mark.usefixtures("optimized_code")
def test_figures_of_a_time_without_a_lock(run, committed: Path) -> None:
    git(committed, "rm", "-q", "--cached", lock.FILE_NAME)
    (committed / lock.FILE_NAME).rename(committed / "lock")
    commit(committed)
    (committed / "lock").rename(committed / lock.FILE_NAME)
    write_project(committed, squares=CHANGED)
    build_project(committed)
    out = run("diff", "HEAD", "--no-cuda", "--project", committed)[1]
    assert "figures, and how much they have grown" in out, "those of the manifest"


def test_another_compiler(run, committed: Path) -> None:
    path = committed / "generated/toy_kernels/manifest.json"
    index = manifest.load(path.read_text())
    modules = [
        replace(one, images=tuple(replace(it, compiler="nvrtc new V1") for it in one.images))
        for one in index.modules
    ]
    path.write_text(manifest.dump(replace(index, modules=tuple(modules))))
    out = run("diff", "HEAD", "--project", committed)[1]
    assert "compiler: nvrtc new V" in out and "; before: nvrtc V" in out


def test_a_project_in_a_folder_of_a_repository(run, tmp_path: Path) -> None:
    toy = write_project(tmp_path / "deep" / "toy")
    build_project(toy)
    git(tmp_path, "init", "-q")
    commit(tmp_path)
    assert "nothing has changed" in run("diff", "HEAD", "--project", toy)[1]


def test_a_package_that_has_moved(run, committed: Path) -> None:
    path = committed / "pyproject.toml"
    path.write_text(path.read_text() + 'package = "other/toy_kernels"\n')
    build_project(committed)
    assert "nothing has changed" in run("diff", "HEAD", "--project", committed)[1]


@pytest.mark.parametrize("revision", ["nowhere", "HEAD~9", "--output=x", "HEAD:specs", ""])
def test_no_such_revision(run, committed: Path, revision: str) -> None:
    status, _, err = run("diff", "--project", committed, "--", revision)
    assert status == 2 and err == f"kspec: git has no revision {revision!r} here\n"


def test_no_package_there(run, committed: Path) -> None:
    git(committed, "rm", "-rq", "--cached", "generated")
    (committed / ".gitignore").write_text("generated\n")
    commit(committed)
    status, _, err = run("diff", "HEAD", "--project", committed)
    assert status == 2
    assert "HEAD:generated/toy_kernels/manifest.json does not exist; its build was not" in err
    git(committed, "checkout", "-q", "HEAD~1", "--", "generated")
    (committed / "generated/toy_kernels/manifest.json").unlink()
    status, _, err = run("diff", "HEAD~1", "--project", committed)
    assert status == 2 and "manifest.json does not exist; run `kspec build`" in err


@pytest.mark.parametrize("text", ["{}", '{"schema": 99}'])
def test_a_damaged_manifest(run, committed: Path, text: str) -> None:
    (committed / "generated/toy_kernels/manifest.json").write_text(text)
    commit(committed)
    status, _, err = run("diff", "HEAD~1", "HEAD", "--project", committed)
    assert status == 1 and "HEAD:generated/toy_kernels/manifest.json" in err


def test_no_repository(run, toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(toy.parent))
    status, _, err = run("diff", "HEAD", "--project", toy)
    assert status == 2 and "toy is not in a git repository" in err


def test_no_git(run, committed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    status, _, err = run("diff", "HEAD", "--project", committed)
    assert status == 3 and "git is not installed" in err


def test_nothing_is_checked_out(run, committed: Path) -> None:
    write_project(committed, squares=CHANGED)
    before = sorted((path, path.stat().st_mtime_ns) for path in committed.rglob("*.*"))
    run("diff", "HEAD", "--project", committed)
    assert sorted((path, path.stat().st_mtime_ns) for path in committed.rglob("*.*")) == before
