"""Type checkers accept the generated package and infer the caller's kind of array."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kspec.build.project import build_project
from tests.projects import ROOT, environment, write_project

pytestmark = pytest.mark.slow

CONSUMER = """\
from typing import Any

import numpy as np
import numpy.typing as npt
import toy_kernels
from kspec import DeviceArray
from toy_kernels import shifts, squares
from typing_extensions import assert_type

x: npt.NDArray[np.float32] = np.ones(3, np.float32)
wide: npt.NDArray[np.float64] = np.ones(3)


def use(own: DeviceArray, anything: Any) -> None:
    assert_type(squares.square(own), DeviceArray)
    assert_type(squares.total(own, axis=(0, 1), keepdims=True), DeviceArray)


assert_type(squares.square(x), npt.NDArray[np.float32])
assert_type(squares.square(x, x), npt.NDArray[np.float32])
assert_type(squares.total(wide, out=wide, axis=0), npt.NDArray[np.float64])
assert_type(squares.split(x, 3), tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]])
assert_type(toy_kernels.squares.square(x, stream=0), npt.NDArray[np.float32])
assert_type(toy_kernels.kernel_names(), tuple[str, ...])
shifts.shift((1,), (32, 2), x, 3, shared_mem=16)
shifts.shift((1,), (32,), None, 3)
mixed: npt.NDArray[Any] = squares.mixed(x, wide)
"""
MISTAKES = """\
import numpy as np
from toy_kernels import shifts, squares

squares.square("text")
squares.square()
squares.total(np.ones(3), axis="last")
shifts.shift(1, (32,), np.ones(3), 3)
squares.cube(np.ones(3))
"""
MORE = """
[elementwise.split]
inputs = "T x, int32 count"
outputs = "T y, T z"
operation = "y = x, z = count"

[elementwise.mixed]
inputs = "T x, U y"
outputs = "U z"
operation = "z = x + y"
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    toy = write_project(tmp_path_factory.mktemp("typing"))
    path = toy / "specs/squares.toml"
    path.write_text(path.read_text() + MORE)
    build_project(toy, compiling=False)
    (toy / "consumer.py").write_text(CONSUMER)
    (toy / "mistakes.py").write_text(MISTAKES)
    (toy / "pyrightconfig.json").write_text(
        f'{{"extraPaths": ["generated", "{ROOT}"], "typeCheckingMode": "standard"}}'
    )
    return toy


def run(project: Path, *command: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=project,
        env={**environment(), "MYPYPATH": f"{project / 'generated'}:{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def mypy(project: Path, *files: str) -> tuple[int, str]:
    return run(project, "mypy", "--strict", "--no-error-summary", "--follow-imports=silent", *files)


def test_mypy(project: Path) -> None:
    status, output = mypy(project, "generated/toy_kernels", "consumer.py")
    assert status == 0, output


def test_mypy_finds_mistakes(project: Path) -> None:
    _, output = mypy(project, "mistakes.py")
    lines = {line.split(":")[1] for line in output.splitlines() if ": error:" in line}
    assert lines == {"4", "5", "6", "7", "8"}, output


def test_pyright(project: Path) -> None:
    status, output = run(project, "basedpyright", "generated/toy_kernels", "consumer.py")
    assert status == 0, output


def test_pyright_finds_mistakes(project: Path) -> None:
    _, output = run(project, "basedpyright", "mistakes.py")
    lines = {line.split(":")[1] for line in output.splitlines() if " - error:" in line}
    assert lines == {"4", "5", "6", "7", "8"}, output
