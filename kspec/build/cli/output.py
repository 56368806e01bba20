"""Output of commands: progress, counts, text of 80 columns."""

from __future__ import annotations

import contextlib
import sys
import textwrap
from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Column
from rich.text import Text

from kspec import config
from kspec.build.pace import Pace, time_left


class Form(StrEnum):
    """Formats of a command's result."""

    text = "text"
    json = "json"


FormOption = Annotated[Form, typer.Option("--format", help="How to print it.")]


def print_filled(text: str) -> None:
    """Print a line, wrapped between words."""
    print(textwrap.fill(text, 80, break_on_hyphens=False, break_long_words=False))


class Advance:
    """Moves a progress bar, or prints lines where there is no terminal."""

    def __init__(self, verb: str, total: int, bar: Progress | None) -> None:
        self._verb = verb
        self._pace = Pace(total)
        self._bar = bar
        self._task = bar.add_task(verb, total=total or None, pace=self._pace) if bar else None

    def expect(self, total: int) -> None:
        """Show on a bar how many steps there will be."""
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, total=total)

    def __call__(self, label: str, total: int | None = None, worked: bool = True) -> None:
        """Move by one step, `label`, of so many as there are now known to be."""
        self._pace.step(total, worked)
        if self._bar is None or self._task is None:
            print(self._pace.line(self._verb, label), file=sys.stderr)
        else:
            self._bar.update(
                self._task,
                completed=self._pace.done,
                total=self._pace.total,
                description=f"{self._verb} {label}",
            )


class _TimeLeft(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(time_left(task.fields["pace"].left()).removeprefix(", "))


def on_terminal() -> bool:
    """Return whether somebody watches; FORCE_COLOR says nothing about that."""
    return sys.stderr.isatty()


@contextlib.contextmanager
def progress_bar(verb: str, total: int) -> Iterator[Advance]:
    """Give a bar to advance, on the standard error; it is gone at the end."""
    console = Console(stderr=True)
    if not on_terminal():
        yield Advance(verb, total, None)
        return
    config.hide_progress()
    # A long label is cut off; numbers are not.
    label = TextColumn("{task.description}", table_column=Column(no_wrap=True, ratio=1))
    numbers = MofNCompleteColumn(), TimeElapsedColumn(), _TimeLeft()
    columns = label, BarColumn(10), *numbers
    with Progress(*columns, console=console, transient=True, expand=True) as bar:
        yield Advance(verb, total, bar)
