"""An interrupted build leaves the previous package as it was, and no process behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kspec.build import atomic_replace, images
from kspec.build.project import build_project
from tests.projects import ROOT, environment, files_of, run_python

PACKAGE = Path("generated/toy_kernels")
SLOW = """
[elementwise.slow]
inputs = "T x"
outputs = "T y"
operation = "y = x + %d"
types = { T = ["float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint32"] }
"""


def change(toy: Path) -> None:
    path = toy / "specs/squares.toml"
    path.write_text(path.read_text().replace("y = x * x", "y = x * x * 1"))


@pytest.mark.parametrize("where", ["_built", "_compile_all"])
def test_while_compiling(toy: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    build_project(toy)
    before = files_of(toy)
    change(toy)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(images, where, _interrupt)
        build_project(toy)
    assert files_of(toy / PACKAGE) == {
        name.removeprefix(f"{PACKAGE}/"): data
        for name, data in before.items()
        if name.startswith(str(PACKAGE))
    }
    assert build_project(toy).compiled == ("squares.square",)


def test_while_writing(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build_project(toy)
    before = files_of(toy / PACKAGE)
    change(toy)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(atomic_replace, "_put_in_place", _interrupt)
        build_project(toy)
    assert files_of(toy / PACKAGE) == before
    assert [path.name for path in (toy / "generated").iterdir() if path.is_dir()] == ["toy_kernels"]


def _interrupt(*arguments: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_killed_while_compiling(
    toy: Path, number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_project(toy)
    before = files_of(toy / PACKAGE)
    for stem in range(6):
        (toy / f"specs/slow_{stem}.toml").write_text(SLOW.replace("slow", f"slow_{stem}") % stem)
    monkeypatch.setenv("KSPEC_CACHE_DIR", str(toy / "cache"))
    with subprocess.Popen(
        [sys.executable, "-m", "kspec.build", "build", "--project", str(toy)],
        env=environment(ROOT),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        # Commands in the background of a shell ignore SIGINT, and so would their children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as build:
        assert build.stderr is not None
        assert "1/" in build.stderr.readline(), "one translation unit is done, many are not"
        workers = children(build.pid)
        build.send_signal(number)
        build.wait(timeout=300)
        assert "Traceback" not in build.stderr.read(), "the workers, which have it too, go quietly"
    assert build.returncode != 0
    assert files_of(toy / PACKAGE) == before
    names = run_python("import toy_kernels; print(toy_kernels.kernel_names())", toy / "generated")
    assert "squares.square" in names and "slow" not in names
    deadline = time.monotonic() + 300
    while any(map(alive, workers)):
        assert time.monotonic() < deadline, "workers end with the build"
        time.sleep(0.05)
    for stem in range(1, 6):
        (toy / f"specs/slow_{stem}.toml").unlink()
    report = build_project(toy, archs=["compute_80"])
    assert len(report.compiled) == 4


def children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(word) for word in text.split()]


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (ProcessLookupError, FileNotFoundError):
        return False
    return state != "Z"


class TestSwap:
    def test_only_what_changed_gets_a_new_time(self, tmp_path: Path) -> None:
        folder = tmp_path / "package"
        assert atomic_replace.replace_folder(folder, {"a": b"1", "b/c": b"2"}) == ("a", "b/c")
        os.utime(folder / "a", ns=(1, 1))
        assert atomic_replace.replace_folder(folder, {"a": b"1", "d": b"3"}) == ("b/c", "d")
        assert files_of(folder) == {"a": b"1", "d": b"3"}
        assert (folder / "a").stat().st_mtime_ns == 1

    def test_without_the_system_call(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(atomic_replace, "_exchange", lambda *paths: False)
        folder = tmp_path / "package"
        atomic_replace.replace_folder(folder, {"a": b"1"})
        atomic_replace.replace_folder(folder, {"a": b"2"})
        assert files_of(tmp_path) == {"package/a": b"2"}

    def test_leftovers_are_removed(self, tmp_path: Path) -> None:
        folder = tmp_path / "package"
        for name in (".package.staging", ".package.retired", "package"):
            (tmp_path / name).mkdir()
            (tmp_path / name / "file").write_text(name)
        with atomic_replace.exclusive(folder):
            pass
        assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == ["package"]
        assert (folder / "file").read_text() == "package"

    def test_a_half_done_replacement_is_undone(self, tmp_path: Path) -> None:
        (tmp_path / ".package.retired").mkdir()
        (tmp_path / ".package.retired/file").write_text("old")
        with atomic_replace.exclusive(tmp_path / "package"):
            assert (tmp_path / "package/file").read_text() == "old"
