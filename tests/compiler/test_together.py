"""Several processes want the same kernel at once: one compiles it, the others wait for it."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from kspec.compiler.cache import ImageCache, folder
from kspec.compiler.host import find_compiler
from kspec.model.stages import Image
from tests.projects import ROOT

KEY = "5f" * 32
HOLDER = """
import sys
from pathlib import Path
from kspec.compiler.cache import folder
with folder.alone(Path(sys.argv[1]), sys.argv[2], 60):
    print("in", flush=True)
    sys.stdin.read()
"""
FOREVER = 3600.0  # seconds that no test waits: those that would are ended
CALL = """
import time, sys
import numpy as np, kspec
kernel = kspec.ElementwiseKernel("T x", "T y", "y = 3 * x", "wanted_by_all")
time.sleep(max(0, float(sys.argv[1]) - time.time()))
assert (kernel(np.ones(5)) == 3).all()
"""


def process(code: str, *args: object, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, args)],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def holder(place: Path) -> subprocess.Popen[str]:
    """Return a process that has the lock until it is ended."""
    one = process(HOLDER, place, KEY)
    assert one.stdout is not None and one.stdout.readline() == "in\n"
    return one


def end(one: subprocess.Popen[str]) -> None:
    """Close the pipes of a process, and wait for it."""
    one.communicate(timeout=300)


@pytest.mark.slow
def test_eight_processes_compile_a_kernel_once(tmp_path: Path) -> None:
    log, compiler = tmp_path / "log", tmp_path / "g++"
    real = find_compiler().command[0]
    # What the compiler is asked for is no compilation.
    compiler.write_text(
        f'#!/bin/sh\ncase "$*" in *" -o "*) echo "$*" >> {shlex.quote(str(log))};; esac\n'
        f'exec {shlex.quote(real)} "$@"\n'
    )
    compiler.chmod(0o755)
    settings = {"KSPEC_CXX": str(compiler), "KSPEC_CACHE_DIR": str(tmp_path / "cache")}
    start = time.time() + 3
    running = [process(CALL, start, **settings) for _ in range(8)]
    for one in running:
        _, said = one.communicate(timeout=300)
        assert one.returncode == 0, said
    commands = log.read_text().splitlines()
    assert sum("rt.cc" in line for line in commands) == 1
    assert sum("kspec_unit.cpp" in line for line in commands) == 1
    assert not list((tmp_path / "cache").glob("*.lock"))


def test_a_killed_process_lets_others_in(tmp_path: Path) -> None:
    other = holder(tmp_path)
    other.send_signal(signal.SIGKILL)
    end(other)
    assert (tmp_path / f"{KEY}.lock").exists()
    with folder.alone(tmp_path, KEY, FOREVER):
        pass
    assert not (tmp_path / f"{KEY}.lock").exists()


def test_others_wait(tmp_path: Path) -> None:
    other = holder(tmp_path)
    with folder.alone(tmp_path, KEY[::-1], FOREVER):  # another key, for which none does
        pass
    entered = threading.Event()

    def enter() -> None:
        with folder.alone(tmp_path, KEY, FOREVER):
            entered.set()

    waiting = threading.Thread(target=enter, daemon=True)
    waiting.start()
    assert not entered.wait(0.3)
    end(other)
    waiting.join()
    assert entered.is_set()


FORKER = """
import os, sys, time
from pathlib import Path
from kspec.compiler.cache import folder
with folder.alone(Path(sys.argv[1]), sys.argv[2], 60):
    child = os.fork()
    if child == 0:
        time.sleep(3600)
        os._exit(0)
    print("in", child, flush=True)
"""


def test_a_process_that_was_forked_has_no_lock(tmp_path: Path) -> None:
    other = process(FORKER, tmp_path, KEY)
    assert other.stdout is not None
    child = int(other.stdout.readline().split()[1])
    try:
        with folder.alone(tmp_path, KEY, FOREVER):
            pass
    finally:
        os.kill(child, signal.SIGKILL)
        end(other)


def test_patience_ends(tmp_path: Path) -> None:
    other = holder(tmp_path)
    start = time.monotonic()
    with folder.alone(tmp_path, KEY, 0.2):
        assert time.monotonic() - start > 0.1
    assert other.poll() is None  # it still has the lock
    end(other)


def test_a_folder_that_can_not_be_written(tmp_path: Path) -> None:
    place = tmp_path / "file"
    place.write_text("no folder")
    with folder.alone(place, KEY, 30):
        pass


def test_a_file_system_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(descriptor: int, operation: int) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr("fcntl.flock", flock)
    with folder.alone(tmp_path, KEY, 30):
        pass


def test_a_cache_in_memory_needs_no_lock(tmp_path: Path) -> None:
    with ImageCache(tmp_path / "cache", limit=0).alone(KEY):
        assert not (tmp_path / "cache").exists()


def test_what_another_process_has_made_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An entry that appears while this process waits is not compiled."""
    from kspec.compiler import compilation, image_key
    from kspec.model.stages import HOST, CudaSource

    made = Image("so", "host", b"\x7fELF", {"k": "k"})
    source = CudaSource("k.cu", 'extern "C" __global__ void k() {}', ("k",))
    other, mine = ImageCache(tmp_path), ImageCache(tmp_path)
    key = image_key(source, HOST)
    real = mine.alone

    def alone(one: str) -> object:
        other.put(key, made)
        return real(one)

    monkeypatch.setattr(mine, "alone", alone)
    monkeypatch.setattr(compilation, "_compile", None)
    assert compilation.compile_source(source, HOST, mine) == made
    assert (mine.statistics.misses, mine.statistics.disk_hits) == (0, 1)


def test_leftovers_are_swept(tmp_path: Path) -> None:
    left = tmp_path / f"{KEY}.lock"
    left.touch()
    os.utime(left, (1, 1))
    fresh = tmp_path / f"{KEY[::-1]}.lock"
    fresh.touch()
    gone = folder.leftovers(tmp_path, time.time())
    assert [one.path for one in gone] == [left]
