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
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn


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
        self._total = total
        self._done = 0
        self._bar = bar
        self._task = bar.add_task(verb, total=total) if bar else None

    def __call__(self, label: str, total: int | None = None) -> None:
        """Move by one step, `label`, of so many as there are now known to be."""
        self._done += 1
        self._total = total or self._total
        if self._bar is None or self._task is None:
            print(f"{self._verb} {self._done}/{self._total}: {label}", file=sys.stderr)
        else:
            self._bar.update(
                self._task,
                completed=self._done,
                total=self._total,
                description=f"{self._verb} {label}",
            )


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
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as bar:
        yield Advance(verb, total, bar)
