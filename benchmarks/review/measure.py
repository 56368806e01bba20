"""Profile and time every case on a GPU, and write the figures as JSON.

::

    python -m benchmarks.review.measure benchmarks/review/measured_h200.json

It needs Nsight Compute, and the right to read the counters of the GPU.  The cases are run twice:
under ``ncu``, which replays each launch to count, and without it, to take times.  CuPy is needed,
too: it uploads the arrays, and names the cases in the report by NVTX ranges.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import kspec
from benchmarks.machines import CudaMachine
from benchmarks.review.case import ELEMENTS, Case
from benchmarks.review.cases import raw_cases
from benchmarks.review.profile import METRICS, read_report
from benchmarks.review.shipped import Call, shipped_calls
from kspec.compiler.options import CompileOptions
from kspec.runtime import driver

_SCRIPT = "benchmarks.review.measure"
_LINES = ("-lineinfo",)
# Data that calls are rotated through, so that little of it is left in the L2 cache.
_ROTATED_BYTES = 2**28
_MOST_COPIES = 16
_AHEAD = 12
_BUDGET = 0.05  # seconds of calls for each case
_COPY_BYTES = 2**29


def selected(only: Sequence[str]) -> list[Case | Call]:
    """Return the cases with these names; all if there are none."""
    return [case for case in (*raw_cases(), *shipped_calls()) if not only or case.name in only]


def add_line_information() -> None:
    """Compile everything with line information from now on, also what specs declare."""
    original = CompileOptions.for_source

    def for_source(source: Any, target: Any) -> CompileOptions:
        options = original(source, target)
        user = tuple(option for option in options.user if option not in _LINES)
        return replace(options, user=(*user, *_LINES))

    CompileOptions.for_source = for_source  # type: ignore[method-assign]


def runner(case: Case | Call) -> Callable[[Sequence[Any]], object]:
    """Return a function that runs the case on arguments."""
    if isinstance(case, Call):
        return lambda arguments: case.call(*arguments)
    kernel = case.kernel()
    return lambda arguments: kernel(case.grid, case.block, arguments, shared_mem=case.shared_mem)


def uploaded(arguments: Sequence[Any]) -> tuple[Any, ...]:
    """Return the arguments with their arrays on the GPU."""
    return tuple(_uploaded(one) for one in arguments)


def _uploaded(argument: Any) -> Any:
    if not isinstance(argument, np.ndarray):
        return argument
    if argument.dtype.names:  # CuPy has no arrays of structs
        return kspec.asarray(argument, device="cuda")
    import cupy

    return cupy.asarray(argument)


def prepared(cases: Sequence[Case | Call]) -> Iterator[tuple[Case | Call, tuple[Any, ...]]]:
    """Yield each case and its arguments, which other threads make in advance."""
    with ThreadPoolExecutor(_AHEAD) as pool:
        waiting: list[Future[tuple[Any, ...]]] = []
        for number, case in enumerate(cases):
            first = number + len(waiting)
            waiting += [pool.submit(one.arguments) for one in cases[first : number + _AHEAD]]
            yield case, waiting.pop(0).result()


# ---- under the profiler


def run_profiled(cases: Sequence[Case | Call]) -> None:
    """Run each case once where the profiler looks, after a call that compiles it."""
    import cupy

    add_line_information()
    for case, arguments in prepared(cases):
        with _failure_shown(case):
            run, on_gpu = runner(case), uploaded(arguments)
            run(on_gpu)
            driver.synchronize(driver.current_ordinal())
            with _profiled_as(case.name):
                run(on_gpu)
                driver.synchronize(driver.current_ordinal())
            del on_gpu  # the profiler saves all memory that is in use
            print(case.name, flush=True)
        cupy.get_default_memory_pool().free_all_blocks()


@contextmanager
def _profiled_as(name: str) -> Iterator[None]:
    from cupy.cuda import nvtx

    driver.check(driver.bindings().cuProfilerStart())
    nvtx.RangePush(name)
    try:
        yield
    finally:
        nvtx.RangePop()
        driver.check(driver.bindings().cuProfilerStop())


@contextmanager
def _failure_shown(case: Case | Call) -> Iterator[None]:
    """Go on with the next case after an error."""
    try:
        yield
    except Exception as error:
        print(f"{case.name}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)


def profile(report: Path, only: Sequence[str]) -> None:
    """Run this program under Nsight Compute, which writes a report."""
    command = [
        "ncu",
        "--force-overwrite",
        "--export",
        str(report),
        "--profile-from-start",
        "off",
        "--clock-control",
        "none",
        "--nvtx",
        "--metrics",
        ",".join(METRICS),
        sys.executable,
        "-m",
        _SCRIPT,
        "--profiled",
        *(["--only", *only] if only else []),
    ]
    environment = {**os.environ, "KSPEC_GRAPH_LAUNCH": "never"}
    subprocess.run(command, check=True, env=environment)


# ---- times


def time_cases(cases: Sequence[Case | Call]) -> dict[str, Any]:
    """Return the time of each case, of a copy, and of a kernel that does nothing, in seconds."""
    add_line_information()  # the same code, which is in the cache
    machine = CudaMachine()
    nothing = kspec.RawKernel('extern "C" __global__ void nothing() {}', "nothing")
    empty = machine.time([lambda: nothing((1,), (32,), ())], _BUDGET)
    seconds = {}
    for case, arguments in prepared(cases):
        with _failure_shown(case):
            seconds[case.name] = _seconds(machine, case, uploaded(arguments))
    return {
        "device": machine.name,
        "l2_bytes": machine.cache_bytes,
        "copy_bytes": 2 * _COPY_BYTES,
        "copy_seconds": _copy_seconds(machine),
        "empty_seconds": empty.median,
        "seconds": seconds,
    }


def _copy_seconds(machine: CudaMachine) -> float:
    """Return the time in which a device copy reads and writes `_COPY_BYTES` each."""
    source, target = (machine.empty("uint8", _COPY_BYTES) for _ in range(2))
    copy = driver.bindings().cuMemcpyDtoDAsync
    call = lambda: driver.check(copy(target.data.ptr, source.data.ptr, _COPY_BYTES, 0))  # noqa: E731
    return machine.time([call], 0.1).median


def _seconds(machine: CudaMachine, case: Case | Call, arguments: tuple[Any, ...]) -> float:
    nbytes = sum(getattr(one, "nbytes", 0) for one in arguments)
    count = min(_MOST_COPIES, -(-_ROTATED_BYTES // max(1, nbytes)))
    copies = [arguments, *(_copied(arguments) for _ in range(count - 1))]
    run = runner(case)
    sample = machine.time([partial(run, one) for one in copies], _BUDGET)
    machine.free()
    print(f"{case.name}: {1e6 * sample.median:.1f} us", flush=True)
    return round(sample.median, 9)


def _copied(arguments: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(one.copy() if hasattr(one, "copy") else one for one in arguments)


# ---- both


def measure(target: Path, only: Sequence[str], folder: Path) -> None:
    """Profile and time the cases, and write a file."""
    cases = selected(only)
    report = folder / "review.ncu-rep"
    profile(report, only)
    times = time_cases(cases)
    launches = read_report(report)
    rows = [row_of(case, times, launches.get(case.name, [])) for case in cases]
    data = {"elements": ELEMENTS, **times, "cases": [row for row in rows if row]}
    del data["seconds"]
    target.write_text(to_json(data), encoding="utf-8")


def row_of(
    case: Case | Call, times: Mapping[str, Any], launches: list[dict[str, Any]]
) -> dict[str, Any] | None:
    """Return the figures of a case; None if it failed."""
    seconds = times["seconds"].get(case.name)
    if seconds is None or not launches:
        return None
    rate = times["copy_bytes"] / times["copy_seconds"]
    return {
        "name": case.name,
        "sort": "raw" if isinstance(case, Case) else "shipped",
        "bandwidth_bound": case.bandwidth_bound,
        "seconds": seconds,
        "copy_share": round(moved_bytes(launches) / seconds / rate, 3),
        "launches": launches,
    }


def moved_bytes(launches: Sequence[Mapping[str, Any]]) -> int:
    """Return the bytes that launches moved, between multiprocessors and L2 or L2 and memory.

    The larger of the two: part of what is written is in the L2 cache when a kernel ends, and
    the memory moves whole sectors where a store fills some of one.
    """
    memory = ("dram_read_bytes", "dram_write_bytes")
    return sum(
        max(32 * one.get("l2_sectors", 0), sum(one.get(name, 0) for name in memory))
        for one in launches
    )


def to_json(data: dict[str, Any]) -> str:
    """Return JSON with one line for each case."""
    cases = ",\n".join(json.dumps(case, separators=(",", ":")) for case in data["cases"])
    head = json.dumps({key: value for key, value in data.items() if key != "cases"}, indent=1)
    return f'{head[:-2]},\n "cases": [\n{cases}\n]}}\n'


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the program."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target", type=Path, nargs="?", help="file to write")
    parser.add_argument("--only", nargs="+", default=(), help="names of the cases to run")
    parser.add_argument("--folder", type=Path, default=Path(), help="where the report goes")
    parser.add_argument("--profiled", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.profiled:
        run_profiled(selected(options.only))
    elif options.target is None:
        parser.error("give a file to write")
    else:
        measure(options.target, options.only, options.folder)


if __name__ == "__main__":
    main()
