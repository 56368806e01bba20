"""Time kspec beside NumPy on the host device and beside CuPy on a GPU: ``python -m benchmarks``.

Every line is a ratio within one run, of results that were compared first.  Absolute times of
different runs, or of shared machines, say little.
"""

from __future__ import annotations

import argparse
import importlib
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import kspec
from benchmarks.cases import Case, cases
from kspec.runtime import driver

_ROUNDS = 7


def measure(function: Callable[[], Any], finish: Callable[[], None]) -> float:
    """Return the median time of a call in seconds, device work included."""
    function()
    finish()
    start = time.perf_counter()
    function()
    finish()
    once = time.perf_counter() - start
    calls = max(1, min(200, int(0.05 / max(once, 1e-7))))
    times = []
    for _ in range(_ROUNDS):
        start = time.perf_counter()
        for _ in range(calls):
            function()
        finish()
        times.append((time.perf_counter() - start) / calls)
    return statistics.median(times)


def run_case(case: Case, xp: Any, finish: Callable[[], None]) -> tuple[float, float]:
    """Return the seconds of kspec and of the array module `xp`, after comparing the results."""
    generator = np.random.default_rng(0)
    inputs = [xp.asarray(generator.random(shape, dtype=np.float32)) for shape in case.shapes]
    got, want = case.run(*inputs), case.array_module(xp, *inputs)
    if not xp.allclose(got, want, rtol=1e-4):
        raise SystemExit(f"{case.name}: kspec and {xp.__name__} disagree")
    ours = measure(lambda: case.run(*inputs), finish)
    theirs = measure(lambda: case.array_module(xp, *inputs), finish)
    return ours, theirs


def main() -> None:
    """Parse the command line and print one table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--device", choices=("host", "cuda"), help="default: every one present")
    parser.add_argument("--elements", type=int, help="default: 4 million, on a GPU 256 million")
    arguments = parser.parse_args()
    table = Table("case", "device", "GB/s", "beside", "times as fast", box=None)
    for device in kspec.devices():
        if arguments.device not in (None, device.kind):
            continue
        xp = np if device.is_host else importlib.import_module("cupy")
        elements = arguments.elements or (2**22 if device.is_host else 2**28)
        for case in cases(elements):
            ours, theirs = run_case(case, xp, _finish(device))
            speed = f"{case.bytes_moved / ours / 1e9:.1f}"
            table.add_row(case.name, str(device), speed, xp.__name__, f"{theirs / ours:.2f}")
    Console(width=100).print(table)


def _finish(device: kspec.Device) -> Callable[[], None]:
    return (lambda: None) if device.is_host else lambda: driver.synchronize(device.ordinal)


if __name__ == "__main__":
    main()
