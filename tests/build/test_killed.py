"""Builds that are killed at any moment, and many that run at once."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kspec.build.project import build_project, check_project
from tests.projects import CONFIGURATION, ROOT, environment, files_of, run_python

PACKAGE = Path("generated/toy_kernels")
SPEC = """
[elementwise.scaled]
inputs = "T x"
outputs = "T y"
operation = "y = x * %d"
types = { T = ["float32"] }

[reduction.total]
inputs = "T x"
outputs = "T y"
map = "x"
reduce = "a + b"
post_map = "y = a"
identity = 0
"""
KILLS = 25


@pytest.fixture
def small(tmp_path: Path) -> Path:
    folder = tmp_path / "toy"
    (folder / "specs").mkdir(parents=True)
    (folder / "pyproject.toml").write_text(
        CONFIGURATION.replace('["sm_90", "compute_80"]', '["compute_80"]')
    )
    write(folder, 0)
    return folder


def write(folder: Path, factor: int) -> None:
    (folder / "specs/a.toml").write_text(SPEC % factor)


def start(folder: Path, cache: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "kspec.build", "build", "--project", str(folder)],
        env=environment(ROOT) | {"KSPEC_CACHE_DIR": str(cache)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
def test_killed_at_random_moments(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw, cache = random.Random(7), tmp_path / "cache"  # its own: every build compiles
    monkeypatch.setenv("KSPEC_CACHE_DIR", str(cache))
    began = time.monotonic()
    build = start(small, cache)
    _, err = build.communicate()
    assert build.returncode == 0, err
    whole = time.monotonic() - began  # at most: the machine may have been busy just then
    killed = moment = 0
    while killed < KILLS:
        moment += 1
        before = files_of(small / PACKAGE)
        write(small, moment)
        began = time.monotonic()
        build = start(small, cache)
        try:
            build.wait(draw.uniform(0, whole))
            whole = min(whole, time.monotonic() - began)
        except subprocess.TimeoutExpired:
            build.send_signal(signal.SIGKILL)
        build.communicate()
        killed += build.returncode == -signal.SIGKILL
        left = files_of(small / PACKAGE)
        build_project(small)
        assert left in (before, files_of(small / PACKAGE)), f"neither old nor new: {moment}"
        assert check_project(small) == ""
    code = "import toy_kernels, numpy; print(toy_kernels.a.scaled(numpy.ones(2, 'i4')).sum())"
    assert run_python(code, ROOT, small / "generated").strip() == str(2 * moment)
    hidden = [path.name for path in (small / "generated").iterdir() if path.is_dir()]
    assert hidden == ["toy_kernels"]


CALLS = """
import sys
import numpy as np
from toy_kernels import a
number = int(sys.argv[1]) if len(sys.argv) > 1 else 1
x = np.arange(100, dtype=np.float32) + number
assert (a.scaled(x) == 3 * x).all()
assert a.total(np.full(50, number, np.float64)) == 50 * number
print("right")
"""


@pytest.mark.slow
def test_32_processes_from_an_empty_cache(small: Path, tmp_path: Path) -> None:
    """Eight build the same project, the others call its kernels."""
    write(small, 3)
    build_project(small, compiling=False)
    cache = tmp_path / "cache"
    variables = environment(ROOT, small / "generated") | {"KSPEC_CACHE_DIR": str(cache)}
    builds = [start(small, cache) for _ in range(8)]
    calls = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-c", CALLS, str(number)],
            env=variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(24)
    ]
    for process in calls:
        out, err = process.communicate()
        assert (process.returncode, out, err) == (0, "right\n", "")
    for process in builds:
        _, err = process.communicate()
        assert process.returncode == 0, err
    assert check_project(small) == ""
    names = {path.name for path in cache.iterdir()}
    assert not any(name.endswith(".tmp") for name in names)
