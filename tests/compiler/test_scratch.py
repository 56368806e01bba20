"""Folders of compiles: gone when a compile ends, and soon after its process was killed."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kspec.compiler.scratch import scratch_folder
from tests.projects import ROOT, environment

WAITS = """
import signal
from kspec.compiler.scratch import scratch_folder
with scratch_folder("test") as folder:
    (folder / "part.o").write_text("half")
    print(folder, flush=True)
    signal.pause()
"""
USES = """
from kspec.compiler.scratch import scratch_folder
with scratch_folder("test") as folder:
    print(folder)
"""
COMPILES = """
import numpy as np, kspec
kspec.ElementwiseKernel("T x", "T y", "y = x + 12345", "scratch_killed")(np.ones(3))
"""


def start(code: str, place: Path, **variables: str) -> subprocess.Popen[str]:
    folders = {"TMPDIR": str(place), "KSPEC_CACHE_DIR": str(place.parent / "cache")}
    given = environment(ROOT) | folders | variables
    return subprocess.Popen(
        [sys.executable, "-c", code], env=given, stdout=subprocess.PIPE, text=True
    )


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def use_one(place: Path) -> Path:
    with start(USES, place) as process:
        folder = Path(line_of(process))
    assert process.returncode == 0
    return folder


def test_it_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with scratch_folder("test") as folder:
        (folder / "a.o").touch()
        assert folder.parent == tmp_path
        assert folder.name.startswith("kspec-test-")
    with pytest.raises(ZeroDivisionError), scratch_folder("test"):
        _ = 1 / 0
    assert not list(tmp_path.iterdir())


def test_those_of_killed_processes_are_removed_by_the_next(tmp_path: Path) -> None:
    place = tmp_path / "tmp"
    other = place / "kspec-other-program"  # no folder of ours has no lock
    other.mkdir(parents=True)
    with start(WAITS, place) as alive:
        used = Path(line_of(alive))
        with start(WAITS, place) as killed:
            left = Path(line_of(killed))
            killed.kill()
        assert left.is_dir()
        own = use_one(place)
        assert not left.exists() and not own.exists()
        assert (used / "part.o").read_text() == "half" and other.is_dir()
        alive.kill()


def test_a_lock_that_others_hold_is_not_waited_for(tmp_path: Path) -> None:
    folder = tmp_path / "kspec-host-of-a-container"
    folder.mkdir()
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        use_one(tmp_path)
        assert folder.is_dir()
    use_one(tmp_path)
    assert not folder.exists()


def test_a_killed_compile_leaves_nothing_for_long(tmp_path: Path) -> None:
    place, compiler, held = tmp_path / "tmp", tmp_path / "g++", tmp_path / "held"
    place.mkdir()
    compiler.write_text(
        '#!/bin/sh\nif [ ! -d include ]; then exec c++ "$@"; fi\n'  # it is asked what it is
        f'touch "$TMPDIR/cc123.s"; echo $$ > {held}.new; mv {held}.new {held}; exec sleep 60\n'
    )
    compiler.chmod(0o700)
    with start(COMPILES, place, KSPEC_CXX=str(compiler)) as process:
        while not held.exists():
            assert process.poll() is None
        process.kill()
        os.kill(int(held.read_text()), signal.SIGKILL)
    (folder,) = place.glob("kspec-host-*")
    assert (folder / "cc123.s").exists()
    use_one(place)
    assert not list(place.iterdir())
