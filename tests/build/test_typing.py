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
keys: npt.NDArray[np.int32] = np.ones(3, np.int32)


def use(own: DeviceArray, anything: Any) -> None:
    assert_type(squares.square(own), DeviceArray)
    assert_type(squares.total(own, axis=(0, 1), keepdims=True), DeviceArray)
    assert_type(squares.mixed(own, 3.0), DeviceArray)
    assert_type(squares.is_large(own, 2), DeviceArray)
    assert_type(squares.first(own, out=own), DeviceArray)
    assert_type(squares.counted.scan(own), tuple[DeviceArray, DeviceArray])


assert_type(squares.square(x), npt.NDArray[np.float32])
assert_type(squares.square(x, x), npt.NDArray[np.float32])
assert_type(squares.total(wide, out=wide, axis=0), npt.NDArray[np.float64])
assert_type(squares.square(x, out=x), npt.NDArray[np.float32])
assert_type(squares.split(x, 3), tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]])
assert_type(squares.split(x, 3, out=(x, x)), tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]])
assert_type(squares.mixed(x, wide, out=wide), npt.NDArray[np.float64])
assert_type(toy_kernels.squares.square(x, stream=0), npt.NDArray[np.float32])
assert_type(toy_kernels.kernel_names(), tuple[str, ...])
shifts.shift((1,), (32, 2), x, 3, shared_mem=16)
shifts.shift((1,), (32,), x, np.int64(3))
shifts.add_bias(x, x, 3)
shifts.add_bias(x, x, 3, x)
shifts.add_bias(x, x, 3, None)
assert_type(squares.mixed(x, wide), npt.NDArray[np.float64])
assert_type(squares.mixed(3, wide, wide), npt.NDArray[np.float64])
assert_type(squares.is_large(x, 2.5), npt.NDArray[np.bool_])
assert_type(squares.magnitude(np.ones(3, np.complex128)), npt.NDArray[np.float64])
assert_type(squares.first(wide, axis=(0,)), npt.NDArray[np.int64])
assert_type(squares.counted(x), tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]])
assert_type(squares.counted.scan(wide), tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]])
assert_type(
    squares.counted.by_key(x, keys, 3), tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]
)
assert_type(squares.filled(x, x, size=3), npt.NDArray[np.float32])
assert_type(squares.converted(x, wide), npt.NDArray[np.float64])
"""
# Each line is one mistake, and each has to be found.
MISTAKES = """\
import numpy as np
import numpy.typing as npt
from toy_kernels import shifts, squares

single: npt.NDArray[np.float32] = np.ones(3, np.float32)
double: npt.NDArray[np.float64] = np.ones(3)
squares.square("text")
squares.square()
squares.total(np.ones(3), axis="last")
shifts.shift(1, (32,), np.ones(3), 3)
squares.cube(np.ones(3))
squares.square(np.ones(3), None, 0)
squares.total(np.ones(3), None, 0)
squares.total(np.ones(3), keepdims="yes")
shifts.shift((1,), (32, 1, 1, 1), single, 3)
shifts.shift((1,), (32,), single, 3, 16)
shifts.shift((1,), (32,), None, 3)
shifts.shift((1,), (32,), single, 6.5)
shifts.add_bias(None, single, 3)
a: npt.NDArray[np.float32] = squares.square(double)
b: npt.NDArray[np.float32] = squares.mixed(single, double)
c: npt.NDArray[np.complex128] = squares.magnitude(np.ones(3, np.complex128))
d: npt.NDArray[np.float64] = squares.first(double)
e: npt.NDArray[np.float32] = squares.is_large(single, 2)
squares.mixed(np.ones(3), "text")
squares.first(3.0)
squares.first(np.ones(3), size=3)
g: npt.NDArray[np.float32] = squares.counted.scan(single)[1]
f: tuple[int] = squares.split(np.ones(3), 3)
squares.split(np.ones(3), 3, out=np.ones(3))
squares.mixed(np.ones(3), 2, out="text")
squares.converted(np.ones(3))
squares.converted(np.ones(3), out=np.ones(3))
"""
EVERY_MISTAKE = {str(line) for line in range(7, 1 + len(MISTAKES.splitlines()))}
MORE = """
[elementwise.split]
inputs = "T x, int32 count"
outputs = "T y, T z"
operation = "y = x, z = count"

[elementwise.mixed]
inputs = "T x, U y"
outputs = "U z"
operation = "z = x + y"

[elementwise.is_large]
inputs = "T x, T limit"
outputs = "bool y"
operation = "y = x > limit"

[elementwise.magnitude]
inputs = "complex128 x"
outputs = "float64 y"
operation = "y = abs(x)"

[elementwise.converted]
inputs = "T x"
outputs = "U y"
operation = "y = x"

[elementwise.filled]
inputs = "raw T x"
outputs = "T y"
operation = "y = x[i]"

[reduction.counted]
inputs = "T x"
outputs = "T sum, int64 count"
map = "x"
reduce = "a + b"
post_map = "sum = a; count = _in_ind.size() / _out_ind.size()"
identity = "0"
forms = ["reduce", "scan", "by_key"]

[reduction.first]
inputs = "T x"
outputs = "int64 y"
map = "0"
reduce = "a"
post_map = "y = a"
reduce_type = "long long"
"""


NULLABLE = """
[raw.add_bias]
code = '''
extern "C" __global__ void add_bias(const float* x, float* y, int n, const float* bias) {
  if (threadIdx.x < n) y[threadIdx.x] = x[threadIdx.x] + (bias ? bias[threadIdx.x] : 0);
}
'''
params = ["const float* x", "float* y", "int n", "const float* bias = nullptr"]
grid = 1
block = "n"
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    toy = write_project(tmp_path_factory.mktemp("typing"))
    path = toy / "specs/squares.toml"
    path.write_text(path.read_text() + MORE)
    path = toy / "specs/shifts.toml"
    path.write_text(path.read_text() + NULLABLE)
    build_project(toy, compiling=False)
    (toy / "consumer.py").write_text(CONSUMER)
    (toy / "mistakes.py").write_text(MISTAKES)
    (toy / "pyrightconfig.json").write_text(
        f'{{"extraPaths": ["generated", "{ROOT}"], "typeCheckingMode": "strict"}}'
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
    assert lines == EVERY_MISTAKE, output


def test_pyright(project: Path) -> None:
    status, output = run(project, "basedpyright", "generated/toy_kernels", "consumer.py")
    assert status == 0, output


def test_pyright_finds_mistakes(project: Path) -> None:
    _, output = run(project, "basedpyright", "mistakes.py")
    lines = {line.split(":")[1] for line in output.splitlines() if " - error:" in line}
    assert lines == EVERY_MISTAKE, output
