"""Outcomes in, one table of kernels and devices out: for ``kspec test``."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from kspec.build.properties.runner import Outcome


def outcome_table(outcomes: Sequence[Outcome]) -> Table:
    """Return a row for each kernel and a column for each device: how many calls agreed."""
    devices = list(dict.fromkeys(one.device for one in outcomes))
    found = {(one.kernel, one.device): one for one in outcomes}
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1))
    table.add_column("kernel", overflow="fold")
    for device in devices:
        table.add_column(device, justify="right", no_wrap=True)
    table.add_column("s", justify="right", no_wrap=True)
    for kernel in dict.fromkeys(one.kernel for one in outcomes):
        row = [found[kernel, device] for device in devices]
        seconds = sum(one.seconds for one in row)
        table.add_row(kernel, *map(_cell, row), f"{seconds:.1f}")
    return table


def _cell(outcome: Outcome) -> Text:
    if outcome.problem:
        return Text("failed", "bold red")
    return Text(f"{outcome.examples} ok", "green")
