"""Tasks that run while the driver starts."""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from kspec.pipeline import prepare_elementwise, prepare_noted, prepare_reduction
from kspec.runtime import driver
from kspec.runtime.driver import WarmUp
from tests.projects import ROOT, run_python


class TestWarmUp:
    def test_each_task_runs_once_elsewhere(self) -> None:
        warm_up, threads = WarmUp(), []

        def task() -> None:
            threads.append(threading.current_thread())

        warm_up.add(task)
        warm_up.add(task)
        thread = warm_up.start()
        assert thread is not None
        thread.join()
        assert threads == [thread]
        assert warm_up.start() is None

    def test_errors_stay_there_and_stop_nothing(self) -> None:
        warm_up, done = WarmUp(), []
        warm_up.add(lambda: 1 // 0)
        warm_up.add(lambda: done.append(1))
        thread = warm_up.start()
        assert thread is not None
        thread.join()
        assert done == [1]

    def test_without_tasks_there_is_no_thread(self) -> None:
        assert WarmUp().start() is None


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record what the driver is asked, and that tasks are started; the real one is left alone."""
    said: list[str] = []
    monkeypatch.setattr(driver, "WARM_UP", SimpleNamespace(start=lambda: said.append("tasks")))
    return said


def _use_driver(monkeypatch: pytest.MonkeyPatch, said: list[str], present: bool) -> None:
    success = SimpleNamespace(CUDA_SUCCESS=0)

    def version() -> None:
        said.append("version")
        if not present:
            raise RuntimeError("no libcuda")

    def initialise(flags: int) -> tuple[int]:
        said.append("cuInit")
        return (0,)

    fake = SimpleNamespace(cuDriverGetVersion=version, cuInit=initialise, CUresult=success)
    monkeypatch.setitem(sys.modules, "cuda.bindings.driver", fake)
    monkeypatch.setattr("cuda.bindings.driver", fake, raising=False)


def test_tasks_start_before_the_driver(monkeypatch: pytest.MonkeyPatch, started: list[str]) -> None:
    _use_driver(monkeypatch, started, present=True)
    driver._bindings.__wrapped__()
    assert started == ["version", "tasks", "cuInit"]


def test_tasks_do_not_start_without_a_driver(
    monkeypatch: pytest.MonkeyPatch, started: list[str]
) -> None:
    _use_driver(monkeypatch, started, present=False)
    with pytest.raises(driver.ToolNotFoundError, match="no CUDA driver"):
        driver._bindings.__wrapped__()
    assert started == ["version"]


def test_a_declared_kernel_prepares_the_compiler_and_the_templates(tmp_path: Path) -> None:
    code = """
import sys, kspec
from kspec.pipeline import prepare_elementwise, prepare_reduction
from kspec.runtime import driver
kspec.ElementwiseKernel("T x", "T y", "y = x")
assert not [name for name in sys.modules if name.split(".")[0] == "jinja2"]
driver.WARM_UP.start().join()
print("jinja2" in sys.modules, "cuda.bindings.nvrtc" in sys.modules)
from kspec.render.environment import template_environment
print(sorted(name for _, name in template_environment().cache.keys()))
"""
    head = "import os; os.environ |= {'KSPEC_CACHE_DIR': %r, 'KSPEC_JIT': %r}\n"
    said = run_python(head % (f"{tmp_path}/1", "auto") + code, ROOT)
    assert "True True" in said
    assert "elementwise.cu.j2" in said and "partials/fragment.cu.j2" in said
    assert "False False" in run_python(head % (f"{tmp_path}/2", "never") + code, ROOT)


@pytest.mark.parametrize("task", [prepare_noted, prepare_elementwise, prepare_reduction])
def test_tasks_report_nothing(task: Callable[[], None]) -> None:
    """Where they run, their errors are left to the call that needs the same."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        task()
