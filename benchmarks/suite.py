"""Everything in order: copy, cases, shipped kernels, calls, cold start, host device.

`Suite.run` yields rows as they are measured and writes each to the journal first.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Iterator
from datetime import datetime
from importlib import metadata

import kspec
from benchmarks import (
    aggregate_cases,
    core_cases,
    costs,
    elementwise_cases,
    fused,
    host_device,
    jitted,
    reduction_cases,
    sample_cases,
    scaling,
    shipped,
    stencil_cases,
)
from benchmarks.call_bench import Bench, NotHereError
from benchmarks.cases import Case, is_selected, select
from benchmarks.coldstart import STARTS, built_package, is_possible, run_start
from benchmarks.machines import Machine
from benchmarks.overhead import CALLS, run_call
from benchmarks.results import Figure, Journal, Overhead, Results, Scaling, Throughput
from benchmarks.throughput import Runner, beside_peers
from kspec.runtime import driver

CASES: tuple[Case, ...] = (
    *elementwise_cases.CASES,
    *reduction_cases.CASES,
    *stencil_cases.CASES,
    *sample_cases.CASES,
    *aggregate_cases.CASES,
    *core_cases.CASES,
)
_PACKAGES = ("numpy", "cupy-cuda13x", "cupy-cuda12x", "torch", "cuda-bindings", "nvidia-cuda-nvrtc")

Row = Throughput | Overhead | Figure | Scaling


class Suite:
    """One run.

    Parameters
    ----------
    machine : Machine
        Where.
    journal : Journal
        What gets every row.
    only : str, optional
        Pattern of ``section/name``.
    quick : bool
        Leave out held-out shapes, and repeat less.
    """

    def __init__(
        self, machine: Machine, journal: Journal, only: str | None = None, quick: bool = False
    ) -> None:
        self._machine = machine
        self._journal = journal
        self._only = only
        self._quick = quick
        self._started = time.perf_counter()
        # Peers are slow to compile, and some slow to run: when this much time is gone, the rest
        # is measured without them, and the run still ends in time.
        self._peers_until = 40.0 if quick else 400.0

    def run(self) -> Iterator[Row | str]:
        """Yield rows, and lines about what is left out."""
        yield from self._machine.missing
        cases = [case for case in select(CASES, self._only) if not (self._quick and case.held_out)]
        ours = select(shipped.CASES, self._only)
        programs = [one for one in fused.PROGRAMS if is_selected(one.label, self._only)]
        if cases or ours or programs:
            nbytes, sample = self._machine.copy_sample()
            self._journal.update(copy=sample, copy_bytes=nbytes)
        yield from map(self._keep, self._overheads())
        yield from map(self._keep, self._throughput(cases, ours))
        yield from map(self._keep, self._fused(programs))
        yield from map(self._keep, self._jitted())
        if cases or ours or programs:
            self._journal.update(copy_after=self._machine.copy_sample()[1])
        yield from map(self._keep, scaling.run(self._machine, self._only, self._quick))
        yield from map(self._keep, self._starts())
        yield from map(self._keep, costs.run(self._only))
        if self._machine.kind == "host":
            yield from map(self._keep, self._host_costs())

    def _keep(self, row: Row | str) -> Row | str:
        if isinstance(row, str):
            missing = self._journal.results.missing
            self._journal.update(missing=(*missing, row))
        else:
            self._journal.add(row)
        return row

    def _overheads(self) -> Iterator[Row | str]:
        # Before gigabytes of operands are there: the host's caches are the machine's own then.
        wanted = [case for case in CALLS if is_selected(case.label, self._only)]
        bench = Bench(self._machine)
        for case in wanted:
            try:
                yield run_call(bench, case, rounds=7 if self._quick else 15)
            except NotHereError as reason:
                yield f"overhead/{case.name} is left out: {reason}"
        self._machine.free()

    def _throughput(self, cases: list[Case], ours: list[Case]) -> Iterator[Row | str]:
        runner = Runner(self._machine, budget=0.05 if self._quick else 0.1)
        stopped = False
        for case in cases:
            with_peers = time.perf_counter() - self._started < self._peers_until
            if not with_peers and not stopped:
                stopped = True
                yield f"from {case.label} on without peers: they took too long"
            row = runner.run(case, with_peers)
            yield row
            yield from beside_peers(case, row)
        for case in ours:
            yield runner.run(case, False, shipped.kernel_of(case))

    def _fused(self, programs: list[fused.Program]) -> Iterator[Row | str]:
        for program in programs:
            yield from fused.run(self._machine, program)

    def _jitted(self) -> Iterator[Row | str]:
        for problem in jitted.PROBLEMS:
            if is_selected(problem.label, self._only):
                yield from jitted.run(self._machine, problem)

    def _starts(self) -> Iterator[Row | str]:
        wanted = [start for start in STARTS if is_selected(start.label, self._only)]
        if not wanted:
            return
        with built_package(self._machine) as (package, figures):
            yield from figures
            for start in wanted:
                if is_possible(start, self._machine):
                    yield from run_start(start, self._machine, package, 1 if self._quick else 3)

    def _host_costs(self) -> Iterator[Row | str]:
        if is_selected("host device/costs", self._only):
            yield from host_device.figures(10**6 if self._quick else 10**7)
        if is_selected(f"{stencil_cases.SECTION}/host device", self._only):
            yield host_device.stencil()


def describe(machine: Machine, now: datetime) -> Results:
    """Return results that say where and with what they are measured, and nothing more."""
    versions = {"Python": platform.python_version(), "kspec": kspec.__version__}
    for name in _PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    if machine.kind == "cuda":
        number = driver.driver_version()
        versions["CUDA driver"] = f"{number // 1000}.{number % 1000 // 10}"
    return Results(
        kind=machine.kind,
        name=machine.name,
        date=now.strftime("%Y-%m-%d"),
        versions=versions,
        elements=machine.elements,
        peak_flops=machine.peak_flops,
        missing=tuple(machine.missing),
    )
