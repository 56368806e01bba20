"""Kernels in XLA's command buffers, which are CUDA graphs: recorded once, replayed without Python."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.projects import ROOT, run_python

pytest.importorskip("jax")

PROGRAM = """
import collections
import jax, jax.numpy as jnp, numpy as np
import kspec, kspec.jax
from kspec.jax import target

calls = collections.Counter()
plain = target.ForeignTarget._run_on_cuda
def counted(self, frame):
    request = target._request(frame)
    calls[request.kernel.rpartition(".")[2].rpartition("-")[0] or request.kernel] += 1
    return plain(self, frame)
target.ForeignTarget._run_on_cuda = counted

scale = kspec.ElementwiseKernel("T x, T factor", "T y", "y = x * factor", "scale")
near = kspec.ElementwiseKernel(
    "T u", "T v", "v = u(-1) + u(1)", "near", windows={{"u": {{"reach": [1], "boundary": "nearest"}}}}
)
total = kspec.ReductionKernel("T x", "T y", "x", "a + b", "y = a", "0", "total")
scaled, neighbours, summed = map(kspec.jax.function, (scale, near, total))

@jax.jit
def program(x):
    for _ in range(4):
        x = scaled(x, 0.5) + 1
        x = neighbours(x) - x
    return x, {last}

def expected(x):
    for _ in range(4):
        x = x * np.float32(0.5) + 1
        padded = np.pad(x, 1, mode="edge")
        x = padded[:-2] + padded[2:] - x
    return x

x = np.arange(1000, dtype=np.float32)
wanted, given = expected(x), jnp.asarray(x)
for turn in range(12):  # memory that is free again is taken again: graphs need not change
    got, rest = jax.device_get(program(given))
    np.testing.assert_allclose(got, wanted, rtol=1e-6)
    np.testing.assert_allclose(rest, wanted.sum() if {reduces} else 0, rtol=1e-4)
print(sum(calls.values()))
"""
_KERNELS = 8  # of the program, without its reduction
_TURNS = 12


def handler_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, commands: str, last: str) -> int:
    """Return how often XLA called a handler of kspec's in twelve runs of a program."""
    monkeypatch.setenv("KSPEC_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    flags = f"--xla_gpu_enable_command_buffer={commands} --xla_gpu_graph_min_graph_size=1"
    monkeypatch.setenv("XLA_FLAGS", flags)
    paths = [Path(one) for one in os.environ.get("PYTHONPATH", "").split(os.pathsep) if one]
    printed = run_python(PROGRAM.format(last=last, reduces=last != "0.0"), ROOT, *paths)
    return int(printed.split()[-1])


@pytest.mark.gpu
def test_elementwise_kernels_are_replayed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is compiled before: XLA records what it has never run."""
    recorded = handler_calls(tmp_path, monkeypatch, "FUSION,CUSTOM_CALL", "0.0")
    assert _KERNELS <= recorded < _KERNELS * _TURNS / 2


@pytest.mark.gpu
def test_reductions_run_between_graphs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = handler_calls(tmp_path, monkeypatch, "FUSION,CUSTOM_CALL", "summed(x)")
    assert _TURNS + _KERNELS <= recorded < _KERNELS * _TURNS / 2 + _TURNS


@pytest.mark.gpu
def test_without_command_buffers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert handler_calls(tmp_path, monkeypatch, "", "0.0") == _KERNELS * _TURNS
