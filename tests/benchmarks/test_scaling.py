"""Time against the number of GPUs and workers, with a stand-in for GPUs, and a section for Dask."""

from __future__ import annotations

import builtins
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchmarks import scaling
from benchmarks.results import Scaling


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Two of them, which are the host."""
    monkeypatch.setattr(scaling.driver, "synchronize", lambda ordinal: None)
    monkeypatch.setattr(scaling.kspec, "devices", lambda: ["host", "cuda:0", "cuda:1"])
    monkeypatch.setattr(scaling, "_GPU_ELEMENTS", 2**16)
    monkeypatch.setattr(
        scaling, "_filled", lambda machine, place, length: np.full(length, 0.5, "float32")
    )
    return SimpleNamespace(kind="cuda", peers={}, free=lambda: None)


@pytest.mark.slow
def test_gpus(gpus: Any) -> None:
    rows = list(scaling.run(gpus, "gpus", quick=True))
    assert [row.name for row in rows] == [
        "L2 norm, strong",
        "L2 norm, weak",
        "elementwise, strong",
        "elementwise, weak",
    ]
    for row in rows:
        assert isinstance(row, Scaling) and not row.problem
        assert set(row.samples) == {"kspec 1", "kspec 2"}
        assert row.speedup() and row.weak == row.name.endswith("weak")


def test_one_gpu_is_a_line(gpus: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scaling.kspec, "devices", lambda: ["host", "cuda:0"])
    line, *rows = scaling.run(gpus, "gpus", quick=True)
    assert line == "gpus: measured on 1 GPU only, for there are no more"
    assert all(set(row.samples) == {"kspec 1"} and row.speedup() is None for row in rows)


def test_wrong_results_are_found(gpus: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scaling.sharded, "apply", lambda kernel, *args: [np.ones(3)] * 2)
    rows = list(scaling.run(gpus, "gpus/elementwise", quick=True))
    assert all(row.problem.startswith("WRONG RESULT on 1") for row in rows)


def test_dask_may_be_missing(gpus: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name == "distributed":
            raise ImportError("No module named 'distributed'")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    (line,) = scaling.run(gpus, "dask", quick=True)
    assert line == "dask is left out: No module named 'distributed'"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_workers(gpus: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(scaling, "_HOST_ELEMENTS", 2**18)
    rows = list(scaling.run(gpus, "dask/L2 norm", quick=True))
    for row in rows:
        assert isinstance(row, Scaling) and not row.problem
        assert set(row.samples) == {"kspec 1", "kspec 2", "Dask 1", "Dask 2"}
