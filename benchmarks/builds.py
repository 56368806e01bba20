"""Builds that take minutes, and are only timed when they are named: ``--only "from nothing"``.

`kspec build` of all shipped specs, for every architecture, with empty caches, and ``make demo`` on
a fresh clone, which finds what pip has downloaded before.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.cases import is_selected
from benchmarks.results import Figure
from benchmarks.shipped import ROOT

_SECTION = "build"
_TIMEOUT = 3600


def _everything(folder: Path) -> None:
    shutil.copy(ROOT / "pyproject.toml", folder)
    shutil.copytree(ROOT / "specs", folder / "specs")
    command = [sys.executable, "-m", "kspec.build", "build", "--project", str(folder)]
    _run(command, ROOT, {"KSPEC_CACHE_DIR": str(folder / "cache"), "PYTHONPATH": str(ROOT)})


def _demo(folder: Path) -> None:
    clone = folder / "clone"
    _run(["git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(clone)], folder)
    _run(["make", "demo"], clone, {"KSPEC_CACHE_DIR": str(folder / "cache")})


def _run(command: Sequence[str], folder: Path, variables: Mapping[str, str] | None = None) -> None:
    # A clone must not import what is here.
    kept = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run(
        command,
        cwd=folder,
        env={**kept, **(variables or {})},
        capture_output=True,
        text=True,
        timeout=_TIMEOUT,
        check=True,
    )


# Name, what is timed, and the seconds it may take on two cores.
_ROWS: tuple[tuple[str, Callable[[Path], None], float], ...] = (
    ("kspec build from nothing, four architectures and PTX", _everything, 25.0),
    ("make demo from nothing", _demo, 60.0),
)


def run(pattern: str | None) -> Iterator[Figure]:
    """Yield the rows that a pattern names; without one, none."""
    for name, work, limit in _ROWS:
        if pattern is None or not is_selected(f"{_SECTION}/{name}", pattern):
            continue
        with tempfile.TemporaryDirectory() as folder:
            start = time.perf_counter()
            try:
                work(Path(folder))
            except (OSError, subprocess.SubprocessError) as error:
                yield Figure(_SECTION, name, 0.0, "s", problem=str(error)[:200])
                continue
            yield Figure(_SECTION, name, time.perf_counter() - start, "s", limit)
