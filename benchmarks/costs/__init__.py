"""Costs of installing, building, testing and starting, from empty caches: ``--only costs``.

Every line is what a user or a developer types, in a folder, an environment and a cache of its own.
CPU seconds are those of the process and all that it starts, user and system together; they say more
than wall time on machines that others use too.  ``make test`` and ``.ci/run`` run where they are
named (``--only "costs/make test"``); they take minutes.

Two libraries are built: ``library`` has 42 kernels, as projects have them, ``kinds`` has one of
each kind.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.cases import is_selected
from benchmarks.costs.texts import DOWNSTREAM, FIRST_CALLS, LAZY
from benchmarks.results import Figure
from benchmarks.shipped import ROOT

SECTION = "costs"
_HERE = Path(__file__).parent
_TIMEOUT = 5400
_CPU, _WALL = "CPU s", "s"


@dataclass(frozen=True)
class Cost:
    """CPU and wall seconds of a command, and its output."""

    cpu: float
    wall: float
    said: str


def spent(command: Sequence[str], folder: Path, variables: Mapping[str, str] | None = None) -> Cost:
    """Run a command in a folder; a clone imports nothing from here, and finds no images.

    Raises
    ------
    subprocess.SubprocessError
        If it fails, or takes too long.
    """
    kept = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    own = {"KSPEC_CACHE_DIR": str(folder / "cache"), "PIP_NO_CACHE_DIR": "1"}
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        command,
        cwd=folder,
        env={**kept, **own, **(variables or {})},
        capture_output=True,
        text=True,
        timeout=_TIMEOUT,
        check=True,
    )
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(cpu, wall, done.stdout)


def _row(name: str, value: float, unit: str, limit: float | None = None) -> Figure:
    return Figure(SECTION, name, value, unit, limit)


def _both(
    name: str, cost: Cost, cpu: float | None = None, wall: float | None = None
) -> list[Figure]:
    return [_row(name, cost.cpu, _CPU, cpu), _row(f"{name}, wall", cost.wall, _WALL, wall)]


def _python(*arguments: str) -> list[str]:
    return [sys.executable, *arguments]


def _kspec(*arguments: str) -> list[str]:
    return _python("-m", "kspec.build", *arguments)


_THIS = {"PYTHONPATH": str(ROOT)}


def _clone(folder: Path) -> Path:
    clone = folder / "clone"
    spent(["git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(clone)], folder)
    return clone


def _environment(folder: Path) -> str:
    spent(_python("-m", "venv", "env"), folder)
    return str(folder / "env/bin/python")


def _pip_install(folder: Path) -> Iterator[Figure]:
    clone, python = _clone(folder), _environment(folder)
    yield from _both("pip install .", spent([python, "-m", "pip", "install", "."], clone), 30.0)
    spent([python, "-m", "pip", "wheel", "--no-deps", "-w", str(folder), "."], clone)
    (wheel,) = folder.glob("kspec-*.whl")
    yield _row("wheel of kspec", wheel.stat().st_size / 1e6, "MB", 3.0)
    imported = spent([python, "-c", "import kspec; print(kspec.__file__)"], folder)
    assert str(folder) in imported.said, imported.said


def _downstream(folder: Path) -> Iterator[Figure]:
    clone, python = _clone(folder), _environment(folder)
    spent([python, "-m", "pip", "wheel", "--no-deps", "-w", str(folder), "."], clone)
    project = folder / "project"
    for name, text in DOWNSTREAM.items():
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    command = [python, "-m", "pip", "wheel", "--no-deps", "--find-links", str(folder), "."]
    yield from _both("pip wheel of 3 kernels, five targets", spent(command, project), 30.0)


def _make(target: str, limit: float | None, wall: float | None) -> Callable[[Path], list[Figure]]:
    def run(folder: Path) -> list[Figure]:
        return _both(f"make {target}", spent(["make", target], _clone(folder)), limit, wall)

    return run


def _gate(folder: Path) -> list[Figure]:
    return _both(".ci/run", spent([".ci/run"], _clone(folder)), None, 1200.0)


def _build_all(folder: Path) -> Iterator[Figure]:
    shutil.copy(ROOT / "pyproject.toml", folder)
    shutil.copytree(ROOT / "specs", folder / "specs")
    cost = spent(_kspec("build"), folder, _THIS)
    yield from _both("kspec build, shipped specs, 4 archs and PTX", cost, None, 100.0)
    images = sum(path.stat().st_size for path in folder.rglob("*.fatbin"))
    yield _row("their images", images / 1e6, "MB")


def _build_of(
    name: str, text: str, cpu: float | None, wall: float | None
) -> Callable[[Path], list[Figure]]:
    def run(folder: Path) -> list[Figure]:
        shutil.copytree(_HERE / name, folder, dirs_exist_ok=True)
        return _both(text, spent(_kspec("build"), folder, _THIS), cpu, wall)

    return run


def _rebuild(folder: Path) -> Iterator[Figure]:
    """One character of one of ten kernels; then the same with its image in the cache."""
    shutil.copytree(_HERE / "library", folder, dirs_exist_ok=True)
    for path in (folder / "specs").iterdir():
        if path.stem != "measures":
            path.unlink()
    spent(_kspec("build"), folder, _THIS)
    built, spec = folder / "generated", folder / "specs/measures.toml"
    shutil.copytree(built, folder / "before")
    spec.write_text(spec.read_text().replace('map = "abs(x)"', 'map = "abs(x )"', 1))
    name = "kspec build, one character of 10 kernels"
    yield from _both(name, spent(_kspec("build"), folder, _THIS))
    shutil.rmtree(built)
    shutil.copytree(folder / "before", built)
    yield _row(
        "kspec build, the same beside the compiler",
        spent(_kspec("build"), folder, _THIS).cpu,
        _CPU,
        3.0,
    )


def _first_calls(folder: Path) -> Iterator[Figure]:
    compilers = {"": {}, ", zig": {"KSPEC_CXX": f"{sys.executable} -m ziglang c++"}}
    for suffix, variables in compilers.items():
        if suffix and not _has("ziglang"):
            continue
        for name, script in FIRST_CALLS.items():
            own = folder / f"{name}{suffix}".replace(" ", "-")
            own.mkdir()
            variables = {**_THIS, **variables, "PYTHONPATH": f"{ROOT}:{ROOT / 'generated'}"}
            cost = spent(_python("-c", script), own, variables)
            yield from _both(f"first call on the host: {name}{suffix}", cost, None, 2.0)


def _start(folder: Path) -> Iterator[Figure]:
    """The second process finds bytecode and images; the modules are those that it imported."""
    variables = {**_THIS, "PYTHONDONTWRITEBYTECODE": ""}
    spent(_python("-c", LAZY), folder, variables)
    cost = spent(_python("-c", LAZY), folder, variables)
    all_modules, own, libraries = map(int, cost.said.split())
    name = "two lazy kernels, warm cache"
    yield from _both(name, cost)
    yield _row(f"{name}, modules of kspec", own, "", 60)
    yield _row(f"{name}, of Pydantic, Jinja", libraries, "", 0)
    yield _row(f"{name}, all modules", all_modules, "")


def _help(folder: Path) -> list[Figure]:
    spent(_kspec("--help"), folder, _THIS)
    return [_row("kspec --help", spent(_kspec("--help"), folder, _THIS).cpu, _CPU, 0.3)]


def _has(module: str) -> bool:
    return subprocess.run(_python("-c", f"import {module}"), capture_output=True).returncode == 0


# Name, what is run, and whether only where it is named.
_ROWS: tuple[tuple[str, Callable[[Path], Iterator[Figure] | list[Figure]], bool], ...] = (
    ("pip install", _pip_install, False),
    ("make demo", _make("demo", 45.0, None), False),
    ("build of shipped specs", _build_all, False),
    (
        "build of a library",
        _build_of("library", "kspec build, 42 kernels, one architecture", None, 60.0),
        False,
    ),
    (
        "build of all kinds",
        _build_of("kinds", "kspec build, 6 kernels of all kinds, 3 archs", 15.0, None),
        False,
    ),
    ("rebuild", _rebuild, False),
    ("downstream project", _downstream, False),
    ("first calls", _first_calls, False),
    ("start", _start, False),
    ("help", _help, False),
    ("make test", _make("test", None, 240.0), True),
    (".ci/run", _gate, True),
)


def run(pattern: str | None) -> Iterator[Figure]:
    """Yield the rows that a pattern names; without one, none."""
    for name, work, only_named in _ROWS:
        label = f"{SECTION}/{name}"
        if pattern is None or not is_selected(label, pattern):
            continue
        if only_named and name not in pattern:
            continue
        with tempfile.TemporaryDirectory(prefix="kspec-costs-") as folder:
            try:
                yield from work(Path(folder))
            except (OSError, ValueError, AssertionError, subprocess.SubprocessError) as error:
                said = getattr(error, "stderr", None) or str(error)
                yield Figure(SECTION, name, 0.0, "s", problem=said.strip()[-200:])
