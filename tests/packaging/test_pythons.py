"""The wheel on the other Pythons of this machine, and with the oldest packages that it takes."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.packaging.builds import succeed, users_environment
from tests.projects import ROOT

pytestmark = pytest.mark.slow

NAMES = ("python3.11", "python3.12", "python3.13", "python3.13t", "python3.14", "python3.14t")
OWN = f"python{sys.version_info.major}.{sys.version_info.minor}{sys.abiflags}"
PROGRAM = """
import sys
from concurrent.futures import ThreadPoolExecutor
import numpy as np
import kspec
from kspec_kernels import math, norms

before = getattr(sys, "_is_gil_enabled", lambda: True)()
scale = kspec.ElementwiseKernel("T x, T a", "T z", "z = a * x", "scale")
total = kspec.ReductionKernel("T x", "T y", "x", "a + b", "y = a", "0", "total")
text = '''extern "C" __global__ void minus(const float* x, float* y, int n) {
  __shared__ float s[64];
  s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  if (threadIdx.x < n) y[threadIdx.x] = -s[63 - threadIdx.x];
}'''
raw = kspec.RawKernel(text, "minus", params=["const float* x", "float* y", "int n"])

@kspec.fuse
def fused(x):
    return (2 * x).sum()

def work(number):
    x = np.full(64, number, "float32")
    for _ in range(10):
        out = np.zeros_like(x)
        raw((1,), (64,), (x, out, 64))
        assert (out == -number).all()
        assert (scale(x, 3) == 3 * number).all()
        assert total(x) == 64 * number
        assert fused(x) == 128 * number
        assert (math.squared_diff(x, x + 2) == 4).all()
        assert norms.l2norm(x) == 8 * number
    return number

with ThreadPoolExecutor(16) as pool:
    assert list(pool.map(work, range(16))) == list(range(16))
assert getattr(sys, "_is_gil_enabled", lambda: True)() == before
print("ok")
"""


def interpreter(name: str) -> str | None:
    """Return an interpreter of the PATH, or the latest of pyenv's that has this name."""

    def age(path: Path) -> list[int]:
        return list(map(int, re.findall(r"\d+", path.parents[1].name)))

    versions = sorted(Path.home().glob(f".pyenv/versions/*/bin/{name}"), key=age)
    for found in (*map(str, reversed(versions)), shutil.which(name)):
        if found and not subprocess.run([found, "-c", ""], capture_output=True).returncode:
            return found  # pyenv's shims of versions that are not chosen say so
    return None


@pytest.mark.usefixtures("index")
@pytest.mark.parametrize("name", [name for name in NAMES if name != OWN])
def test_kernels_of_each_kind(name: str, wheel: Path, tmp_path: Path) -> None:
    found = interpreter(name)
    if found is None:
        pytest.skip(f"no {name} on this machine")
    check(found, wheel, ("pydantic", "jinja2", "ml_dtypes"), tmp_path)


@pytest.mark.usefixtures("index")
def test_the_oldest_packages(wheel: Path, tmp_path: Path) -> None:
    """Try the oldest releases that pyproject.toml names."""
    oldest = ("numpy==2.0.*", "ml_dtypes==0.4.*", "pydantic==2.7.*", "jinja2==3.1.*")
    of_commands = ("typer==0.16.*", "rich==13.0.*", "pygments==2.13.*")
    check(sys.executable, wheel, (*oldest, *of_commands), tmp_path)
    command, variables = str(tmp_path / "env/bin/kspec"), users_environment()
    succeed([command, "init", "demo"], tmp_path, variables)
    succeed([command, "build", "--no-compile"], tmp_path / "demo", variables)


def check(found: str, wheel: Path, packages: Sequence[str], tmp_path: Path) -> None:
    """Run the program with the wheel in an environment of its own."""
    variables, python = users_environment(), str(tmp_path / "env/bin/python")
    succeed([found, "-m", "venv", str(tmp_path / "env")], tmp_path, variables)
    pip = [python, "-m", "pip", "install", "--quiet", "--only-binary", ":all:"]
    succeed([*pip, str(wheel), *packages], tmp_path, variables)
    samples = {"PYTHONPATH": str(ROOT / "generated")}
    assert succeed([python, "-c", PROGRAM], tmp_path, variables | samples) == "ok\n"
