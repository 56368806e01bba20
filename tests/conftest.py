"""Options and fixtures that all tests share."""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import os
from collections.abc import Callable
from typing import Any

import pytest

import kspec
from tests.choices import few_of
from tests.compiling import compile_as_users_do
from tests.gpus import in_turn
from tests.own_cache import use_own_cache
from tests.profiles import is_fast, load_profile

load_profile()
use_own_cache()
# Compiling takes 0.6 of the time of -O3, and for GPUs less than half. `optimized` undoes both; 3 in
# the environment does for all tests.
os.environ.setdefault("KSPEC_HOST_OPT", "1")
if len(kspec.devices()) == 1:  # nothing is launched on a GPU, so its code need not be fast
    os.environ.setdefault("KSPEC_CUDA_OPT", "0")
if worker := os.environ.get("PYTEST_XDIST_WORKER"):
    os.environ.update(in_turn(int(worker.removeprefix("gw"))))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write what the code says now into tests/golden/**/*.case",
    )
    parser.addoption(
        "--part", metavar="K/N", help="every N-th of the tests that are selected, from number K on"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Leave tests that need a GPU out before they are made."""
    if _leaves_out_gpu(metafunc.config):
        parametrize: Any = functools.partial(_without_gpu, metafunc.parametrize)
        metafunc.parametrize = parametrize  # type: ignore[method-assign]


def _without_gpu(
    parametrize: Callable[..., None],
    names: Any,
    values: Any,
    *args: Any,
    ids: Any = None,
    **rest: Any,
) -> None:
    values = list(values)
    kept = [index for index, value in enumerate(values) if not _needs_gpu(value)]
    kept = kept or [*range(len(values))]  # all or nothing: pytest skips a test without values
    if isinstance(ids, (list, tuple)):
        ids = [ids[index] for index in kept]
    parametrize(names, [values[index] for index in kept], *args, ids=ids, **rest)


def _needs_gpu(value: Any) -> bool:
    return any(getattr(mark, "name", "") == "gpu" for mark in getattr(value, "marks", ()))


@pytest.hookimpl(trylast=True)  # when marks and keywords have selected
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if _leaves_out_gpu(config):
        items[:] = [item for item in items if item.get_closest_marker("gpu") is None]
    if is_fast():
        items[:] = few_of(items)
    if part := config.getoption("--part"):
        number, count = map(int, part.split("/"))
        items[:] = items[number::count]


def pytest_collection_finish() -> None:
    """Leave what was imported and collected out of every garbage collection, of half a second."""
    gc.collect()
    gc.freeze()


def pytest_report_header(config: pytest.Config) -> str | None:
    return "no CUDA device: tests marked gpu are left out" if _leaves_out_gpu(config) else None


def _leaves_out_gpu(config: pytest.Config) -> bool:
    """Return whether tests that need a GPU, half of them all, are not even skipped one by one."""
    return "gpu" not in config.option.markexpr and len(kspec.devices()) == 1


class _Failures:
    """Shows each failure at once: a part that takes too long is ended before its summary."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            terminal = self._config.pluginmanager.get_plugin("terminalreporter")
            terminal.write_line(f"\n{report.longreprtext}")


def pytest_configure(config: pytest.Config) -> None:
    if os.environ.get("KSPEC_POOL_LIMIT") == "0":
        with contextlib.suppress(ImportError):
            importlib.import_module("cupy").cuda.set_allocator(None)  # it has no variable for it
    if config.getoption("--part"):
        config.pluginmanager.register(_Failures(config))


def pytest_runtest_setup(item: pytest.Item) -> None:
    # Here, because libraries that were built without CUDA fail in their own ways.
    if item.get_closest_marker("gpu") is not None and len(kspec.devices()) == 1:
        pytest.skip("no CUDA device")


@pytest.fixture
def optimized_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compile for GPUs as users do; `tests.compiling.optimized` does so for a whole module."""
    compile_as_users_do(monkeypatch)


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update-golden"))
