"""Small projects for tests of the build: a folder with a ``pyproject.toml`` and specs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kspec.build.load import import_package
from kspec.build.project import plan_project

ROOT = Path(__file__).resolve().parents[1]

CONFIGURATION = """\
[project]
name = "toy"
version = "0.1"

[tool.kspec]
archs = ["sm_90", "compute_80"]
"""

SQUARES = """\
doc = "Squares."

[elementwise.square]
doc = "Square of each element."
inputs = "T x"
outputs = "T y"
operation = "y = x * x"
types = { T = ["float32", "int32"] }
reference = "x * x"
example = { shapes = { x = [100] } }

[reduction.total]
doc = "Sum along the given axes."
inputs = "T x"
outputs = "T y"
map = "x"
reduce = "a + b"
post_map = "y = a"
identity = 0
types = { T = ["float64"] }
reference = "x.sum(axis=axis, keepdims=keepdims)"
example = { shapes = { x = [20, 30] }, axis = 1 }
"""

SHIFTS = """\
[raw.shift]
doc = "Add a number in place."
code = '''
#include "amount.cuh"
extern "C" __global__ void shift(float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] += AMOUNT;
}
'''
params = ["float* x", "int n"]
reference = "x + 3"

[raw.shift.example]
shapes = { x = [100] }
scalars = { n = 100 }
grid = [1]
block = [128]
"""

FILES = {
    "pyproject.toml": CONFIGURATION,
    "specs/squares.toml": SQUARES,
    "specs/shifts.toml": SHIFTS,
    "specs/amount.cuh": "#define AMOUNT 3\n",
}


def write_project(folder: Path, **changes: str) -> Path:
    """Write the toy project; `changes` replace or add spec files by stem."""
    return _write(folder, FILES | _specs(changes))


def write_specs(folder: Path, **specs: str) -> Path:
    """Write a project with these spec files only, by stem."""
    return _write(folder, {"pyproject.toml": CONFIGURATION} | _specs(specs))


def only_ptx(folder: Path) -> Path:
    """Let a project compile for `compute_80` alone, which takes a fraction of a GPU's code."""
    settings = folder / "pyproject.toml"
    settings.write_text(settings.read_text(encoding="utf-8").replace('"sm_90", ', ""), "utf-8")
    return folder


def generated_package(project: Path) -> Any:
    """Import the package that a project has generated."""
    return import_package(plan_project(project).settings.package_folder)


def _specs(texts: Mapping[str, str]) -> dict[str, str]:
    return {f"specs/{stem}.toml": text for stem, text in texts.items()}


def _write(folder: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def environment(*paths: Path) -> dict[str, str]:
    """Return an environment whose Python finds `paths` first, and nothing of the caller's."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))}


def run_python(code: str, *paths: Path, cwd: Path | None = None) -> str:
    """Run Python code in a process of its own; return what it prints."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env=environment(*paths),
        cwd=cwd or Path.cwd(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def files_of(folder: Path) -> dict[str, bytes]:
    """Return every file below a folder, compiled Python left out."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }


# In front of code that must do without the author's side.
BLOCKED = """\
import sys
BLOCKED = ("pydantic", "jinja2", "typer", "rich", "hatchling", "cuda.bindings.nvrtc")
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name in BLOCKED or name.startswith(tuple(one + "." for one in BLOCKED)):
            raise ModuleNotFoundError(f"{name} is blocked", name=name)
sys.meta_path.insert(0, Blocker())
"""
