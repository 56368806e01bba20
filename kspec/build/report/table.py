"""``kspec.lock`` as a table of values: every specialization for every architecture, and sums.

::

    report = make_report(plan, lock)
    report.lines[0].occupancy    # Occupancy(share=0.75, limit='registers')

`kspec.build.report.view` shows it on a terminal, `kspec.build.report.page` as HTML.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any

from kspec.build.plan import BuildPlan
from kspec.build.report.lock import Lock, LockedKernel, LockRow
from kspec.build.tools.show import UnknownKernelError
from kspec.dataclass import dataclass
from kspec.errors import SpecError
from kspec.model.raw.launch_rules import evaluate
from kspec.model.stages import COLUMNS, FLAT, LINES, PACKS, ROWS, SHORT_LINES, TILES, RawSymbol
from kspec.render import specializations
from kspec.runtime.schedules.occupancy import Occupancy, occupancy
from kspec.spec.models import ElementwiseSpec, RawSpec, ReductionSpec, Spec

# Threads of a block by layout, as `kspec.runtime.schedules.elementwise_schedule` and
# `kspec.runtime.schedules.reduction_schedule` launch them.
_STRIDED = "strided"
_WINDOWED = 256
ELEMENTWISE_THREADS = {FLAT: 256, _STRIDED: 128, ROWS: 128, PACKS: 128, TILES: 256}
REDUCTION_THREADS = {_STRIDED: 256, LINES: 512, SHORT_LINES: 128, COLUMNS: 256}
_RAW_THREADS = 256  # where neither the spec nor its example says


@dataclass(frozen=True)
class Line:
    """One specialization for one architecture.

    Attributes
    ----------
    module, kernel : str
        Its spec file's stem, and its name.
    name : str
        Name expression.
    arch : str
        Architecture.
    row : Row
        What the lock says.
    threads : int
        Of a block, for the occupancy.
    occupancy : Occupancy or None
        None for PTX and for unknown architectures.
    """

    module: str
    kernel: str
    name: str
    arch: str
    row: LockRow
    threads: int
    occupancy: Occupancy | None

    @property
    def title(self) -> str:
        """The kernel with its module."""
        return f"{self.module}.{self.kernel}"

    @property
    def short_name(self) -> str:
        """Part of the name that distinguishes it from others of its kernel."""
        return short_name(self.kernel, self.name)

    def number(self, key: str) -> int:
        """Return a figure by its name in the lock; -1 if it is not known."""
        return self.row.numbers.get(key, -1)


@dataclass(frozen=True)
class Report:
    """All lines, in the order of the lock."""

    lines: tuple[Line, ...]
    compilers: tuple[str, ...]

    @property
    def archs(self) -> tuple[str, ...]:
        """Architectures, in the order of the lock."""
        return tuple(dict.fromkeys(line.arch for line in self.lines))

    @property
    def kernels(self) -> tuple[str, ...]:
        """Kernels with their modules."""
        return tuple(dict.fromkeys(line.title for line in self.lines))

    @property
    def specializations(self) -> int:
        """Number of specializations of all kernels."""
        return len({(line.title, line.name) for line in self.lines})

    @property
    def spilling(self) -> int:
        """Number of lines that spill registers."""
        return sum(line.number("spills") > 0 for line in self.lines)

    @property
    def code_bytes(self) -> int:
        """Instructions of all kernels for all architectures."""
        return sum(max(0, line.number("bytes")) for line in self.lines)


def short_name(kernel: str, name: str) -> str:
    """Return the part of a name that distinguishes it from others of its kernel.

    >>> short_name("l2norm", "l2norm<float, kspec::Lines>")
    'float, Lines'
    """
    match = re.fullmatch(rf"{re.escape(kernel)}<(.*)>", name, re.DOTALL)
    return (match[1] if match else name).replace("kspec::", "")


def make_report(
    plan: BuildPlan, lock: Lock, kernels: Collection[str] = (), archs: Collection[str] = ()
) -> Report:
    """Return the contents of a lock, with the occupancy that follows from it.

    Parameters
    ----------
    plan : BuildPlan
        The specs, which know how kernels are launched.
    lock : Lock
        The figures.
    kernels, archs : collection of str
        Kernels, with or without their module, and architectures to keep; empty: everything.

    Raises
    ------
    SpecError
        If the lock has no such kernel or architecture.
    """
    threads = dict(_threads(plan))
    lines = [_line(kernel, row, threads) for kernel, row in lock.rows]
    _check_known(lines, kernels, archs)
    chosen = tuple(
        line
        for line in lines
        if (not kernels or line.kernel in kernels or line.title in kernels)
        and (not archs or line.arch in archs)
    )
    return Report(chosen, lock.compilers)


def report_data(report: Report) -> dict[str, Any]:
    """Return a report as JSON has it."""
    return {"compilers": list(report.compilers), "lines": [_data(line) for line in report.lines]}


def _data(line: Line) -> dict[str, Any]:
    data: dict[str, Any] = {
        "module": line.module,
        "kernel": line.kernel,
        "specialization": line.name,
        "arch": line.arch,
        **line.row.numbers,
    }
    if line.occupancy is not None:
        data |= {
            "threads": line.threads,
            "occupancy": line.occupancy.share,
            "limit": line.occupancy.limit,
        }
    return data


def _line(kernel: LockedKernel, row: LockRow, threads: dict[tuple[str, str], int]) -> Line:
    block = threads.get((kernel.name, row.name), _RAW_THREADS)
    numbers, found = row.numbers, None
    if "registers" in numbers:
        found = occupancy(row.arch, block, numbers["registers"], numbers.get("shared", 0))
    return Line(kernel.module, kernel.name, row.name, row.arch, row, block, found)


def _check_known(lines: list[Line], kernels: Collection[str], archs: Collection[str]) -> None:
    known = {line.kernel for line in lines} | {line.title for line in lines}
    for name in kernels:
        if name not in known:
            raise UnknownKernelError(f"the lock has no kernel {name!r}; run `kspec build`")
    found = dict.fromkeys(line.arch for line in lines)
    for arch in archs:
        if arch not in found:
            raise SpecError(f"the lock has nothing for {arch!r}; it has {', '.join(found)}")


def _threads(plan: BuildPlan) -> Iterator[tuple[tuple[str, str], int]]:
    """Yield kernel and name expression, with the threads of a block."""
    for spec in plan.specs:
        for one in specializations(spec):
            layout = "" if isinstance(one, RawSymbol) else one.layout
            yield (spec.name, one.name_expression), _threads_of(spec, one.name_expression, layout)


def _threads_of(spec: Spec, expression: str, layout: str) -> int:
    if isinstance(spec, RawSpec):
        return _raw_threads(spec, expression)
    if isinstance(spec, ElementwiseSpec) and spec.windows:
        return _WINDOWED
    table = REDUCTION_THREADS if isinstance(spec, ReductionSpec) else ELEMENTWISE_THREADS
    return table.get(layout, table[_STRIDED])


def _raw_threads(spec: RawSpec, expression: str) -> int:
    """Return the number of threads in the spec, in its example, or the default."""
    sizes = _block_of(spec, expression) or (spec.example.block if spec.example else ())
    threads = 1
    for size in sizes:
        threads *= size
    return threads if sizes else _RAW_THREADS


def _block_of(spec: RawSpec, expression: str) -> tuple[int, ...]:
    """Return the block in the spec if it depends on the template alone, else nothing."""
    template, params = spec.declaration().template, spec.params or ()
    values = template.values_of(expression)
    names = {
        f"v{position}": values[name]
        for position, name in enumerate(template.values, len(params))
        if name in values
    }
    block = spec.launch_rules.parse(params).block
    if any(python not in names for one in block for _, python in one.values):
        return ()
    return tuple(evaluate(one, names) for one in block)
