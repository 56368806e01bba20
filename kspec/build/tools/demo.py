"""Every kernel of a project with an example, on every device present, beside its NumPy reference.

`run_demo` yields rows as they are measured, `demo_table` prints them; ``kspec demo`` calls both.
"""

from __future__ import annotations

import functools
import math
import statistics
import time
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
from rich import box
from rich.table import Table
from rich.text import Text

from kspec.build.package import api
from kspec.build.plan import BuildPlan
from kspec.build.properties import examples
from kspec.build.properties.differences import difference, reference_problem, result_names
from kspec.dataclass import dataclass
from kspec.errors import CompileError, KspecError, SpecError, ToolNotFoundError
from kspec.runtime import driver
from kspec.runtime.driver.device import Device

_RUNS = 5


@dataclass(frozen=True)
class DemoRow:
    """One kernel on one device; times in seconds.  `problem` says why it is wrong, if it is."""

    kernel: str
    device: str
    dtype: str
    shape: tuple[int, ...]
    error: float
    seconds: float = math.nan
    numpy_seconds: float = math.nan
    problem: str = ""


def count_rows(plan: BuildPlan, devices: tuple[Device, ...]) -> int:
    """Return the number of rows that `run_demo` will yield."""
    return len(devices) * sum(map(examples.has_example, plan.specs))


def run_demo(
    plan: BuildPlan, package: ModuleType, devices: tuple[Device, ...]
) -> Iterator[DemoRow]:
    """Run every kernel that has an example and a reference.

    Raises
    ------
    CompileError
        If a compiler refuses a kernel.
    ToolNotFoundError
        If a device cannot be used because something is not installed.
    """
    for unit in plan.units:
        module = getattr(package, unit.stem)
        functions = api.functions_of(unit)
        for spec, context in zip(unit.spec_file.specs, functions, strict=True):
            if not examples.has_example(spec):
                continue
            name = f"{unit.stem}.{context.name}"
            call = examples.make_call(spec)
            try:
                want = examples.expected(call)
            except SpecError as error:  # the kernels after it are shown all the same
                project, path = plan.settings.project, unit.spec_file.path
                problem = str(reference_problem(project, path, spec, error))
                yield from (_failed(name, device, call, problem) for device in devices)
                continue
            numpy_seconds = _median_time(functools.partial(examples.expected, call, exact=False))
            for device in devices:
                measure = functools.partial(
                    _measure, call, getattr(module, context.name), device, want
                )
                yield _row(name, call, device, numpy_seconds, measure)


def _failed(name: str, device: Device, call: examples.ExampleCall, problem: str) -> DemoRow:
    """Return the row of a kernel that has nothing to be compared with."""
    return DemoRow(name, str(device), call.dtype, call.shape, np.nan, problem=problem)


def _row(
    name: str,
    call: examples.ExampleCall,
    device: Device,
    numpy_seconds: float,
    measure: Callable[[], tuple[float, float, str]],
) -> DemoRow:
    try:
        error, seconds, problem = measure()
    except (CompileError, ToolNotFoundError):
        raise
    except KspecError as failure:
        error, seconds, problem = np.nan, np.nan, f"{type(failure).__name__}: {failure}"
    return DemoRow(
        name, str(device), call.dtype, call.shape, error, seconds, numpy_seconds, problem
    )


def _measure(
    call: examples.ExampleCall, function: Callable[..., Any], device: Device, want: tuple[Any, ...]
) -> tuple[float, float, str]:
    make = examples.bind_call(call, function, lambda array: examples.on_device(array, device))
    got = examples.as_numpy(make())
    error, limit = examples.worst_error(got, want), examples.tolerance(call, got)
    wrong = "" if error <= limit else difference(result_names(call), got, want, limit)

    def synchronous() -> None:
        make()
        if not device.is_host:
            driver.synchronize(device.ordinal)

    return error, _median_time(synchronous), wrong


def _median_time(function: Callable[[], object]) -> float:
    times = []
    for _ in range(_RUNS):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
        if sum(times) > 0.1:  # slow enough to be measured well
            break
    return statistics.median(times)


def demo_table(rows: list[DemoRow]) -> Table:
    """Return the rows as one table, which fits 80 columns; times are in milliseconds."""
    table = Table(
        title="Each kernel against its NumPy reference",
        title_justify="left",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        padding=0,
        caption=_caption(rows),
        caption_justify="left",
    )
    table.add_column("kernel", overflow="fold")
    table.add_column("device", no_wrap=True)
    table.add_column("dtype", max_width=len("complex128"))  # several go below each other
    table.add_column("shape", no_wrap=True)
    for column in ("max error", "ms", "NumPy ms"):
        table.add_column(column, justify="right", no_wrap=True)
    for row in rows:
        error = Text("failed" if np.isnan(row.error) else f"{row.error:.1e}")
        error.stylize("bold red" if row.problem else "green")
        shape = "\u00d7".join(map(str, row.shape))
        times = (f"{1e3 * seconds:.2f}" for seconds in (row.seconds, row.numpy_seconds))
        table.add_row(row.kernel, row.device, row.dtype, shape, error, *times)
    return table


def _caption(rows: list[DemoRow]) -> str:
    """Return the meaning of the columns, and what the host device is for."""
    text = (
        "max error: the largest difference from NumPy's result, relative to it, or to 1 where it "
        "is smaller; green: as small as the dtypes allow. ms: the median of some calls, with their "
        "launch."
    )
    if any(row.device == "host" for row in rows):
        text += (
            " host: the same CUDA text on the CPU, to test it where there is no GPU; NumPy's "
            "functions are written for the CPU and often faster."
        )
    return text
