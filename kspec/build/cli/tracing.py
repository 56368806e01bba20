"""``kspec trace``: which specializations a program asks for, and what its specs should say."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from kspec.build.cli.app import Project, app, project_folder
from kspec.build.cli.output import print_filled
from kspec.build.settings import Settings, load_settings
from kspec.build.tools import trace as tracing
from kspec.errors import SpecError, counted
from kspec.spec.loader import load_specs


@app.command("trace", context_settings={"allow_interspersed_args": False})
def trace_command(
    command: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="-- COMMAND", help="What to run; left out: the last trace is looked at again."
        ),
    ] = None,
    apply: Annotated[
        bool, typer.Option("--apply", help="Write what is missing into the spec files.")
    ] = False,
    prune: Annotated[
        bool,
        typer.Option("--prune", help="Also propose removing specializations that no call used."),
    ] = False,
    records: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Records that programs wrote with KSPEC_TRACE=DIR, instead."
        ),
    ] = None,
    folder: Project = None,
) -> None:
    """Run a command, and compare the kernels that it asks for with the precompiled ones.

    The exit status is that of the command.
    """
    settings = load_settings(project_folder(folder))
    files = load_specs(settings.spec_folder, settings.project)
    place = records or tracing.records_folder(settings.project)
    if command and records:
        raise SpecError("give a command or --records, not both")
    status = tracing.run_traced(command, place) if command else 0
    if not place.is_dir():
        raise SpecError(
            f"there are no records in {place}"
            if records
            else "nothing was traced yet; run `kspec trace -- pytest`, or any other command"
        )
    found = tracing.read_records(place, settings.package_name)
    traces = tracing.compare(files, found)
    _report(settings, traces, found)
    changes = tracing.propose(settings, traces, prune)
    for change in changes:
        print(f"\n{change.diff()}", end="")
    if changes and apply:
        tracing.apply(settings, changes)
        print(f"\nwritten: {', '.join(change.name for change in changes)}; now run `kspec build`")
    elif changes:
        options = "--apply --prune" if prune else "--apply"
        print(f"\n`kspec trace {options}` writes this")
    raise typer.Exit(status)


def _report(
    settings: Settings,
    traces: tuple[tracing.KernelTrace, ...],
    found: tuple[tracing.Record, ...],
) -> None:
    if not found:
        print(f"{settings.package_name}: no kernel was called", file=sys.stderr)
        return
    called = [one for one in traces if one.called]
    lacking = [one for one in called if one.missing]
    print(
        f"{settings.package_name} on {', '.join(tracing.devices_of(found))}: "
        f"{len(called)} of {counted(len(traces), 'kernel')} called, "
        f"{len(lacking)} beyond what is precompiled"
    )
    for one in called:
        if one.missing or one.unused:
            print(f"{one.name} ({one.spec_file.path})")
        for want in one.missing:
            print(f"  missing  {want}")
        for text in one.unused:
            print(f"  unused   {text}")
    never = [one.name for one in traces if not one.called]
    if never:
        print_filled(f"never called: {', '.join(never)}")
