"""Compile times of a build as a table: the steps of its progress in, rows and sums out."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.table import Table

from kspec.build.images import Step

_COLUMNS = ("instantiations", "bytes", "CPU s", "s each")


def timings_table(steps: Sequence[Step]) -> Table:
    """Return a row for each kernel and architecture, the slowest first, and sums.

    PTX that came with the code of an architecture took no time of its own.
    """
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("kernel", overflow="fold", ratio=1)
    table.add_column("arch", no_wrap=True)
    for title in _COLUMNS:
        table.add_column(title, justify="right", no_wrap=True)
    for step in sorted(steps, key=lambda one: (-one.seconds, one.name, one.arch)):
        table.add_row(step.name, step.arch, *_numbers([step]))
    table.add_section()
    for arch in dict.fromkeys(step.arch for step in steps):
        table.add_row("", arch, *_numbers([step for step in steps if step.arch == arch]))
    table.add_row("all", "", *_numbers(steps))
    return table


def _numbers(steps: Sequence[Step]) -> tuple[str, ...]:
    count, size = (sum(getattr(one, name) for one in steps) for name in ("instantiations", "size"))
    made = [one for one in steps if not one.cached]
    seconds, compiled = sum(one.seconds for one in made), sum(one.instantiations for one in made)
    if not made:
        return str(count), str(size), "cached", ""
    return str(count), str(size), f"{seconds:.2f}", f"{seconds / max(1, compiled):.3f}"
