"""Findings on the terminal, in a log, as JSON, or as annotations of a GitHub workflow.

Every command prints findings through here.  ``text`` goes to the standard error, beside the
progress; ``json`` is one object on the standard output and nothing else; ``github`` is one line
for each finding on the standard output, where a workflow's runner looks for them.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated, TextIO

import typer

from kspec import config
from kspec.diagnostics import SEVERITIES, Diagnostic
from kspec.errors import CompileError, KspecError, RenderError, SpecError, ToolNotFoundError
from kspec.files import system_refusals

JSON_VERSION = 1
_EXIT_CODES = ((ToolNotFoundError, 3), (SpecError, 2), (CompileError, 2), (RenderError, 2))
_BOLD, _DIM, _RESET = "\x1b[1m", "\x1b[2m", "\x1b[0m"
_COLOURS = {"error": "\x1b[1;31m", "warning": "\x1b[1;35m", "note": "\x1b[1;36m"}
_COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}


class Format(StrEnum):
    """Formats of findings."""

    text = "text"
    json = "json"
    github = "github"


FormatOption = Annotated[
    Format, typer.Option("--format", help="Findings as text, json or github annotations.")
]


def exit_code(error: KspecError) -> int:
    """Return the exit status that stands for an error."""
    return next((code for kind, code in _EXIT_CODES if isinstance(error, kind)), 1)


@dataclass
class CommandReport:
    """The findings and the summary of one command.

    Attributes
    ----------
    format : Format
        Its format.
    project : Path
        Folder that paths of findings are relative to.
    command : str
        Name of the command.
    findings : list of Diagnostic
        Collected until the end.
    summary : str
        The outcome, in one line.
    """

    format: Format
    project: Path
    command: str
    findings: list[Diagnostic] = field(default_factory=list)
    summary: str = ""

    def print(self, status: int) -> None:
        """Print all of it; `status` is the exit status to come."""
        if self.format is Format.json:
            print(json.dumps(self._document(status), indent=2, ensure_ascii=False))
            return
        if self.format is Format.github:
            for one in self.findings:
                print(annotation(one, self.project))
        else:
            print_text(self.findings, sys.stderr)
        if self.summary:
            print(self.summary)

    def _document(self, status: int) -> dict[str, object]:
        counts = {
            f"{severity}s": sum(one.severity == severity for one in self.findings)
            for severity in SEVERITIES
        }
        return {
            "version": JSON_VERSION,
            "command": self.command,
            "project": str(self.project),
            "exit": status,
            **counts,
            "summary": self.summary,
            "diagnostics": [asdict(one) for one in self.findings],
        }


@contextlib.contextmanager
def reporting(command: str, project: Path, form: Format) -> Iterator[CommandReport]:
    """Give a report to fill; print it at the end, an error that ends the command included."""
    report = CommandReport(form, project, command)
    status = 0
    try:
        with system_refusals():
            yield report
    except KspecError as error:
        report.findings += error.diagnostics
        status = exit_code(error)
    except typer.Exit as end:
        status = end.exit_code
    report.print(status)
    if status:
        raise typer.Exit(status)


def print_text(found: Sequence[Diagnostic], stream: TextIO) -> None:
    """Print findings for people: in colour on a terminal, plain in a log."""
    colour = config.wants_colour(stream.isatty())
    for one in found:
        print(coloured(one) if colour else text(one), file=stream)


def text(one: Diagnostic) -> str:
    """Return a finding as plain text; without a place, it is the command that speaks."""
    if one.path:
        return str(one)
    said = str(one) if one.severity == "warning" else str(one).removeprefix(f"{one.severity}: ")
    return f"kspec: {said}"


def coloured(one: Diagnostic) -> str:
    """Return a finding with the colours of its severity; the words are those of `text`."""
    head, *below = text(one).split("\n")
    paint = _COLOURS[one.severity]
    before, found, after = head.partition(f"{one.severity}: ")
    head = f"{_BOLD}{before}{_RESET}{paint}{found}{_RESET}{_BOLD}{after}{_RESET}"
    marked = len(one.marked())
    lines = [
        f"{paint}{line}{_RESET}" if number == 1 and marked else line
        for number, line in enumerate(below[:marked])
    ]
    lines += [f"{_DIM}{line}{_RESET}" for line in below[marked:]]
    return "\n".join([head, *lines])


def annotation(one: Diagnostic, project: Path) -> str:
    """Return a finding as a command of a GitHub workflow, which shows it in the pull request."""
    properties = {"title": f"kspec: {one.kernel}" if one.kernel else "kspec"}
    if one.path:
        path = os.path.relpath(project / one.path, config.workspace())
        properties = {"file": path.replace(os.sep, "/"), **properties}
        if one.line:
            properties["line"] = str(one.line)
        if one.column:
            properties["col"] = str(one.column)
            properties["endColumn"] = str(one.column + one.length)
    listed = ",".join(f"{key}={_escaped(value, ':,')}" for key, value in properties.items())
    hint = [f"hint: {one.hint}"] if one.hint else []
    message = "\n".join([one.message, *one.marked(), *one.details, *hint])
    return f"::{_COMMANDS[one.severity]} {listed}::{_escaped(message)}"


def _escaped(value: str, more: str = "") -> str:
    for character in f"%\r\n{more}":
        value = value.replace(character, f"%{ord(character):02X}")
    return value
