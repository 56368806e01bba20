"""From the start of a process to its first results, with an empty and with a warm cache.

Each figure is a process of its own, which prints when it reached each stage.  The generated
package is built into a temporary folder, so that what is measured is what the specs say now and
nothing in the working tree changes.

All of them find bytecode, as that of installed packages is found: a process before those that
count writes it, whatever ``PYTHONDONTWRITEBYTECODE`` says here.  Without it importing takes three
times as long, for kspec and its peers alike.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.machines import Machine
from benchmarks.results import Figure
from benchmarks.shipped import ROOT

# The parent's clock when it started the process is the first argument, the device the second.
_HEAD = """
import json, sys, time
start, device = float(sys.argv[1]), sys.argv[2]
marks = {}
def mark(name): marks[name] = time.time() - start
mark("interpreter")
"""
_TAIL = """
print(json.dumps(marks))
"""
_KSPEC_CALLS = """
x = kspec.asarray(np.ones(1000, np.float32), device=device)
mark("context")
assert kspec.asnumpy(squared_diff(x, x)).sum() == 0
mark("elementwise")
assert abs(float(kspec.asnumpy(l2norm(x))) - 1000**0.5) < 1e-3
mark("reduction")
"""
_SQUARED = '"float32 x, float32 y", "float32 z", "z = (x - y) * (x - y)", "squared_diff"'
_L2NORM = '"T x", "T y", "x * x", "a + b", "y = sqrt(a)", "0", "l2norm"'
LAZY = f"""
import numpy as np
mark("numpy")
import kspec
squared_diff = kspec.ElementwiseKernel({_SQUARED})
l2norm = kspec.ReductionKernel({_L2NORM})
mark("import")
{_KSPEC_CALLS}
"""
GENERATED = f"""
import numpy as np
mark("numpy")
import kspec
from kspec_kernels.math import squared_diff
from kspec_kernels.norms import l2norm
mark("import")
{_KSPEC_CALLS}
"""
CUPY = f"""
import numpy as np
mark("numpy")
import cupy
squared_diff = cupy.ElementwiseKernel({_SQUARED})
l2norm = cupy.ReductionKernel({_L2NORM})
mark("import")
x = cupy.asarray(np.ones(1000, np.float32))
mark("context")
assert float(squared_diff(x, x).get().sum()) == 0
mark("elementwise")
assert abs(float(l2norm(x)) - 1000**0.5) < 1e-3
mark("reduction")
"""
FLOOR = """
from cuda.bindings import driver
mark("import")
driver.cuInit(0)
context = driver.cuDevicePrimaryCtxRetain(driver.cuDeviceGet(0)[1])[1]
driver.cuCtxSetCurrent(context)
mark("context")
"""
PLAIN = """
import numpy as np
mark("numpy")
"""
_SPECS = ("math", "norms")  # of the generated package
_TIMEOUT = 120


@dataclass(frozen=True)
class Start:
    """A kind of process.

    Attributes
    ----------
    name : str
        What it shows.
    script : str
        What it runs.
    empty_cache : bool
        Whether every process gets a new, empty cache.
    environment : mapping
        Its own variables.
    limit : float or None
        Seconds it may take on a GPU.
    needs : str
        Module without which it cannot run.
    stages : mapping of str to str
        Name of a figure to the stage whose own time it is.
    stage_limits : mapping of str to float
        Name of such a figure to the seconds that it may take on a GPU.
    runs : int
        How often at most.
    """

    name: str
    script: str
    empty_cache: bool = False
    environment: Mapping[str, str] | None = None
    limit: float | None = None
    needs: str = ""
    stages: Mapping[str, str] = field(default_factory=dict)
    stage_limits: Mapping[str, float] = field(default_factory=dict)
    runs: int = 3

    @property
    def label(self) -> str:
        """The name with its section."""
        return f"coldstart/{self.name}"


_COMPILED = {"first elementwise": "elementwise", "first reduction": "reduction"}
_IMPORTED = {"import": "import"}
STARTS = (
    Start("Python and NumPy", PLAIN),
    Start("cuda.bindings and a context", FLOOR, needs="cuda.bindings"),
    Start(
        "generated package",
        GENERATED,
        True,
        {"KSPEC_JIT": "never"},
        limit=0.35,
        stages=_IMPORTED | {"context": "context"},
        stage_limits={"import": 0.10},
    ),
    Start("lazy, empty cache", LAZY, True, limit=0.4, stages=_IMPORTED | _COMPILED),
    Start("lazy, warm cache", LAZY, limit=0.3, stages=_COMPILED),
    Start("CuPy, empty cache", CUPY, True, needs="cupy", stages=_IMPORTED | _COMPILED, runs=1),
    Start("CuPy, warm cache", CUPY, needs="cupy"),
)


def run_start(start: Start, machine: Machine, package: Path, most: int) -> Iterator[Figure]:
    """Yield the figures of a kind of process.

    Parameters
    ----------
    start : Start
        Which.
    machine : Machine
        Where.
    package : Path
        Folder to import the generated package from.
    most : int
        Processes, at most.
    """
    on_gpu = machine.kind == "cuda"
    try:
        marks = _run(start, machine.kind, package, min(most, start.runs))
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        yield Figure("coldstart", start.name, 0.0, "s", problem=_reason(error))
        return
    totals = [max(one.values()) for one in marks]
    limit = start.limit if on_gpu else None
    yield Figure("coldstart", start.name, statistics.median(totals), "s", limit)
    for name, stage in start.stages.items():
        median = statistics.median(_own_time(one, stage) for one in marks)
        limit = start.stage_limits.get(name) if on_gpu else None
        yield Figure("coldstart", f"{start.name}: {name}", median, "s", limit)


def is_possible(start: Start, machine: Machine) -> bool:
    """Whether a machine can have a kind of process."""
    return not start.needs or (machine.kind == "cuda" and _is_found(start, machine))


def _is_found(start: Start, machine: Machine) -> bool:
    return start.needs in machine.peers or start.needs.startswith("cuda.")


def _run(start: Start, kind: str, package: Path, runs: int) -> list[dict[str, float]]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        caches = [str(number) if start.empty_cache else "warm" for number in range(runs + 1)]
        marks = [_process(start, kind, package, folder, folder / cache) for cache in caches]
    # The first wrote the bytecode, and warmed the cache if it is a warm one.
    return marks[1:]


def _with_bytecode(folder: Path) -> dict[str, str]:
    """Return an environment whose processes keep their bytecode in a folder."""
    kept = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}


def _process(start: Start, kind: str, package: Path, folder: Path, cache: Path) -> dict[str, float]:
    own = dict(start.environment or {}) if kind == "cuda" else {}
    environment = {
        **_with_bytecode(folder),
        "PYTHONPATH": os.pathsep.join(
            [str(package), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        ),
        "KSPEC_CACHE_DIR": str(cache),
        "CUPY_CACHE_DIR": str(cache),
        **own,
    }
    command = [sys.executable, "-c", _HEAD + start.script + _TAIL]
    done = subprocess.run(
        [*command, repr(time.time()), kind],
        env=environment,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT,
        check=True,
    )
    marks: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return marks


def _own_time(marks: Mapping[str, float], stage: str) -> float:
    stages = list(marks)
    before = stages[stages.index(stage) - 1]
    return marks[stage] - marks[before]


def _reason(error: Exception) -> str:
    if isinstance(error, subprocess.CalledProcessError):
        lines = str(error.stderr).strip().splitlines()
        return lines[-1][:200] if lines else f"exit status {error.returncode}"
    return f"{type(error).__name__}: {error}"[:200]


@contextmanager
def built_package(machine: Machine) -> Iterator[tuple[Path, list[Figure]]]:
    """Build the kernels that are called for a machine's GPU; the folder goes with the context."""
    with tempfile.TemporaryDirectory() as name:
        project = Path(name)
        (project / "specs").mkdir()
        shutil.copy(ROOT / "pyproject.toml", project)
        for one in _SPECS:
            shutil.copy(ROOT / "specs" / f"{one}.toml", project / "specs")
        modules = " and ".join(_SPECS)
        figures = [
            _build(project, machine, f"kspec build of {modules}, one architecture"),
            _build(project, machine, f"kspec build of {modules}, nothing changed"),
        ]
        yield project / "generated", figures


def _build(project: Path, machine: Machine, name: str) -> Figure:
    command = [sys.executable, "-m", "kspec.build", "build", "--project", str(project)]
    command += ["--arch", machine.arch] if machine.arch else ["--no-compile"]
    start = time.perf_counter()
    try:
        subprocess.run(
            command,
            cwd=ROOT,
            # What this machine has compiled before is not found there.
            env={**_with_bytecode(project), "KSPEC_CACHE_DIR": str(project / "cache")},
            capture_output=True,
            text=True,
            timeout=_TIMEOUT,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return Figure("build", name, 0.0, "s", problem=_reason(error))
    return Figure("build", name, time.perf_counter() - start, "s")
