"""Kernels that were made inside of functions, and sent to processes without their file."""

from __future__ import annotations

import linecache
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from kspec import jit
from kspec.errors import JitError
from tests.devices import ArrayDevice

cloudpickle = pytest.importorskip("cloudpickle")

SOURCE = """
import numpy as np
from kspec import jit

TABLE = np.array([1.0, 2.0])


def make(count):
    weights = (0.5, 2.0)

    @jit.rawkernel(device=True)
    def weighted(x, k):
        return x * weights[k] + count

    @jit.rawkernel(
        mode="numpy",
    )
    def fill(a, n):
        i = jit.threadIdx.x
        a[i] = weighted(TABLE[i], i) + n

    return fill


def make_lambda():
    return [jit.rawkernel()(lambda a, n: jit.atomic_add(a, jit.threadIdx.x, 2 * n)), 1][0]


def make_wrong():
    @jit.rawkernel()
    def wrong(a, n):
        a[0] = [n]

    return wrong
"""
RUN = """
import pickle, sys
import numpy as np
kernel = pickle.load(open(sys.argv[1], "rb"))
a = np.zeros(2)
kernel((1,), (2,), (a, 3))
print(a.tolist())
again = pickle.loads(__import__("cloudpickle").dumps(kernel))
again((1,), (2,), (a, 3))
print(a.tolist())
"""


def sent(tmp_path: Path, name: str, *args: object) -> bytes:
    """Return a kernel of a module that exists no more once it has been pickled."""
    path = tmp_path / "made_elsewhere.py"
    path.write_text(SOURCE, encoding="utf-8")
    space: dict[str, object] = {"__name__": "__main__"}
    exec(compile(SOURCE, str(path), "exec"), space)
    data: bytes = cloudpickle.dumps(space[name](*args))  # type: ignore[operator]
    path.unlink()
    linecache.clearcache()
    return data


@pytest.mark.parametrize(
    ("name", "args", "first", "second"),
    [("make", (10,), [13.5, 17.0], [13.5, 17.0]), ("make_lambda", (), [6.0, 6.0], [12.0, 12.0])],
)
def test_another_process_compiles_it(
    tmp_path: Path, name: str, args: tuple[int, ...], first: list[float], second: list[float]
) -> None:
    data = tmp_path / "kernel.pickle"
    data.write_bytes(sent(tmp_path, name, *args))
    command = [sys.executable, "-c", RUN, str(data)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [str(first), str(second)]


def test_a_kernel_of_a_test(place: ArrayDevice) -> None:
    @jit.rawkernel()
    def fill(a, n):
        a[jit.threadIdx.x] = n

    a = place.zeros(2)
    pickle.loads(cloudpickle.dumps(fill))[1, 2](a, 3)
    assert place.numpy(a).tolist() == [3, 3]


def test_problems_name_the_file_that_was(tmp_path: Path) -> None:
    kernel = pickle.loads(sent(tmp_path, "make_wrong"))
    with pytest.raises(JitError) as caught:
        kernel[1, 1](np.zeros(1), 1)
    line = SOURCE.splitlines().index("        a[0] = [n]") + 1
    text = str(caught.value)
    assert f"made_elsewhere.py:{line}:" in text
    assert "a[0] = [n]\n" in text


SCRIPT = """
import pickle, subprocess, sys
import cloudpickle, kspec
import numpy as np
from kspec import jit

@jit.rawkernel(device=True)
def twice(x):
    return 2 * x

@jit.rawkernel()
def fill(a, n):
    a[jit.threadIdx.x] = twice(n)

@kspec.fuse
def shifted(x):
    return x + 1

def make():
    @jit.rawkernel()
    def inner(a, n):
        a[jit.threadIdx.x] = twice(n) + 1
    return inner

for one in (twice, fill, shifted):
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(one, protocol)) is one
sys.stdout.buffer.write(cloudpickle.dumps([fill, make(), shifted]))
"""
READER = """
import pickle, sys
import numpy as np
fill, inner, shifted = pickle.load(sys.stdin.buffer)
a = np.zeros(2)
fill((1,), (2,), (a, 3))
print(a.tolist(), fill.__qualname__)
inner((1,), (2,), (a, 3))
print(a.tolist(), shifted(a).tolist())
"""


def test_scripts_send_what_is_theirs(tmp_path: Path) -> None:
    """pickle sends names, which the same script knows; cloudpickle sends functions."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    made = subprocess.run([sys.executable, script], capture_output=True, timeout=300)
    assert made.returncode == 0, made.stderr.decode()
    script.unlink()
    command = [sys.executable, "-c", READER]
    read = subprocess.run(command, input=made.stdout, capture_output=True, timeout=300)
    assert read.returncode == 0, read.stderr.decode()
    assert read.stdout.decode().splitlines() == ["[6.0, 6.0] fill", "[7.0, 7.0] [8.0, 8.0]"]
