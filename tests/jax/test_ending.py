"""The end of processes in which programs still run: in time, and without a fault."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from tests.projects import ROOT, environment

jax = pytest.importorskip("jax")

from kspec.jax.ending import RunningCalls  # noqa: E402

START = """
import atexit, os, threading, time
os.environ["JAX_PLATFORMS"] = "cpu"
import jax, jax.numpy as jnp
import kspec.jax
from kspec_kernels import norms
"""
LOOP = """
l2norm = kspec.jax.function(norms.l2norm)
x = jnp.ones((4, 4))
program = jax.jit(lambda x: l2norm(x) + 1)
print(program(x).block_until_ready())
def work():
    while True:
        program(x).block_until_ready()
        time.sleep(0.01)
"""
# Each kernel takes longer than programs are quiet; nothing is left of its result.
SLOW = """
slow = kspec.ElementwiseKernel(
    "T x", "T y", "T s = 0; for (int k = 0; k < 20000000; k++) s += sin(x + k); y = s * 0", "slow"
)
slow = kspec.jax.function(slow)
program = jax.jit(lambda x: jax.lax.fori_loop(0, 5, lambda _, y: slow(y) + 1, x))
x = jnp.ones(1)
print(*program(x).tolist())
def work():
    program(x).block_until_ready()
"""
DAEMON = """
threading.Thread(target=work, daemon=True).start()
time.sleep(0.2)
print("end", flush=True)
"""
# Functions that are called at the end may run programs, too.
LATE = """
def late():
    print(float(jax.jit(lambda x: kspec.jax.function(norms.l2norm)(x))(jnp.array([3.0, 4.0]))))
atexit.register(late)
kspec.jax.function(norms.l2norm)
print("end", flush=True)
"""


def run(code: str) -> tuple[int, list[str], str]:
    """Return how a process ends, and what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", START + code],
        env=environment(ROOT, ROOT / "generated"),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout.split(), done.stderr


def test_a_thread_that_never_ends() -> None:
    status, printed, errors = run(LOOP + DAEMON)
    assert (status, printed) == (0, ["5.0", "end"]), errors
    assert "the process ends, and runs no more kernels" in errors


def test_kernels_that_take_long() -> None:
    status, printed, errors = run(SLOW + DAEMON)
    assert (status, printed) == (0, ["1.0", "end"]), errors
    assert "FATAL" not in errors


def test_functions_that_are_called_at_the_end() -> None:
    assert run(LATE) == (0, ["end", "5.0"], "")


def test_only_the_thread_that_waits_runs_kernels_after_that() -> None:
    calls, busy, stop = RunningCalls(), threading.Event(), threading.Event()
    refused: list[str] = []

    def work() -> None:
        try:
            while not stop.is_set():
                assert calls.run(abs, -3) == 3
                busy.set()
        except RuntimeError as error:
            refused.append(str(error))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    assert busy.wait(60)
    calls.wait()
    stop.set()
    thread.join(60)
    assert refused == ["the process ends, and runs no more kernels"]
    assert calls.run(abs, -4) == 4
