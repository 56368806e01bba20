"""A `Report` as a table of 80 columns."""

from __future__ import annotations

from collections.abc import Iterator

from rich import box
from rich.table import Table
from rich.text import Text

from kspec.build.report.table import Line, Report
from kspec.errors import counted

# A figure in the lock to its column.
FIGURES = {"registers": "regs", "spills": "spill", "shared": "shared", "bytes": "bytes"}


def figure_table(*more: str) -> Table:
    """Return an empty table of specializations and their figures, with more columns."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("kernel, specialization", overflow="fold", ratio=1)
    table.add_column("arch", no_wrap=True)
    for title in (*FIGURES.values(), *more):
        table.add_column(title, justify="right", no_wrap=True)
    return table


def report_table(report: Report) -> Table:
    """Return the table: a line with each kernel's name, then its specializations."""
    table = figure_table("occupancy")
    for title in report.kernels:
        lines = [line for line in report.lines if line.title == title]
        table.add_row(Text(title, style="bold"))
        before = ""
        for line in lines:
            name = Text(f"  {line.short_name}") if line.name != before else Text()
            table.add_row(name, line.arch, *_figures(line))
            before = line.name
    return table


def summary(report: Report) -> str:
    """Return the sums in one line."""
    counts = (
        (len(report.kernels), "kernel"),
        (report.specializations, "specialization"),
        (len(report.archs), "architecture"),
    )
    parts = [counted(number, noun) for number, noun in counts]
    spills = f"{report.spilling} of {len(report.lines)} spill" if report.spilling else "none spills"
    return ", ".join([*parts, f"{report.code_bytes / 1024:.1f} KiB of code", spills])


def _figures(line: Line) -> Iterator[Text]:
    for key in FIGURES:
        number = line.number(key)
        style = "red" if key == "spills" and number > 0 else ""
        yield Text(str(number) if number >= 0 else "-", style=style)
    if line.occupancy is None:
        yield Text("-")
    else:
        yield Text(f"{line.occupancy.share:.0%}")
