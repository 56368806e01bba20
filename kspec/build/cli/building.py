"""``kspec build``, ``check``, ``show`` and ``schema``: from specs to generated files."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from kspec.build import images, project
from kspec.build.atomic_replace import write_whole
from kspec.build.cli.app import Project, app, project_folder
from kspec.build.cli.completion import kernel_names, one_of
from kspec.build.cli.diagnostics import Format, FormatOption, print_text, reporting
from kspec.build.cli.output import progress_bar
from kspec.build.package import stale
from kspec.build.report import budgets, locking
from kspec.build.report.changes import regressions
from kspec.build.report.findings import findings_of
from kspec.build.report.lock import FILE_NAME as LOCK_FILE
from kspec.build.report.timings import timings_table
from kspec.build.tools import show
from kspec.diagnostics import Diagnostic
from kspec.errors import counted
from kspec.spec.schema import SCHEMA_FILE, render_schema


@app.command()
def build(
    arch: Annotated[
        list[str] | None,
        typer.Option(
            "--arch",
            help="sm_90, 90-real, native, ...; repeat it. Default: those configured.",
        ),
    ] = None,
    folder: Project = None,
    no_compile: Annotated[
        bool, typer.Option("--no-compile", help="Write text only; kernels compile on first use.")
    ] = False,
    form: FormatOption = Format.text,
    verbose: Annotated[
        bool,
        typer.Option("--verbose", help="Also show notes that specs cannot change: every spill."),
    ] = False,
    timings: Annotated[
        bool, typer.Option("--timings", help="Show what compiling each kernel took.")
    ] = False,
) -> None:
    """Render and compile the specs into the generated package."""
    project_path = project_folder(folder)
    with reporting("build", project_path, form) as report:
        steps: list[images.Step] = []
        with _compile_progress(steps) as progress:
            built = project.build_project(project_path, tuple(arch or ()), not no_compile, progress)
        if timings and not no_compile:
            _print_timings(steps, form)
        shown = built.images if verbose else built.compiled
        report.findings += built.plan.warnings if no_compile else ()
        report.findings += findings_of(built.plan, built.images, shown, verbose)
        report.findings += () if no_compile else budgets.unreviewed(built.plan)
        report.findings += _about_the_lock(built)
        report.summary = _summary(built)


@app.command()
def check(folder: Project = None, form: FormatOption = Format.text) -> None:
    """Exit with 1 and a diff if the generated package or kspec.lock are not what the specs say.

    Saved reviews are compared with the budgets of the specs, and with those of the last commit.
    """
    project_path = project_folder(folder)
    with reporting("check", project_path, form) as report:
        plan = project.plan_project(project_path)
        lock = locking.lock_diff(plan)
        if not plan.settings.package_folder.exists():
            report.findings.append(stale.stale_finding(plan.settings.package, "is missing"))
        elif form is not Format.text:
            report.findings += stale.stale_findings(plan)
            report.findings += [stale.stale_finding(LOCK_FILE)] if lock else []
        elif difference := stale.stale_diff(plan) + lock:
            print(difference, end="")
            message = "generated files are stale; run `kspec build`"
            report.findings.append(Diagnostic("error", message))
        report.findings += budgets.review_problems(plan)
        report.findings += budgets.unreviewed(plan, "error")
        is_refused = bool(report.findings)
        report.findings[:0] = [*plan.warnings, *regressions(plan)]
        if is_refused:
            raise typer.Exit(1)
        report.summary = "generated files are up to date"


@app.command("show")
def show_command(
    name: Annotated[
        str,
        typer.Argument(help="Kernel, with or without its module.", autocompletion=kernel_names),
    ],
    stage: Annotated[
        str,
        typer.Option(
            "--stage",
            help=f"One of {', '.join(show.STAGES)}.",
            autocompletion=one_of(*show.STAGES),
        ),
    ] = "signature",
    folder: Project = None,
) -> None:
    """Print one kernel at one stage of the pipeline."""
    print(show.show_kernel(project.plan_project(project_folder(folder)), name, stage).rstrip("\n"))


@app.command()
def schema(
    checking: Annotated[
        bool, typer.Option("--check", help=f"Exit with 1 if {SCHEMA_FILE} is stale.")
    ] = False,
    write: Annotated[bool, typer.Option("--write", help=f"Write {SCHEMA_FILE}.")] = False,
    folder: Project = None,
) -> None:
    """Print the JSON Schema of spec files, for editors."""
    text = render_schema()
    if not (checking or write):
        print(text, end="")
        return
    path = project_folder(folder) / SCHEMA_FILE
    if write:
        write_whole(path, text.encode())
    elif not path.is_file() or path.read_bytes() != text.encode():
        state = "stale" if path.is_file() else "missing"
        print(f"kspec: {SCHEMA_FILE} is {state}; run `kspec schema --write`", file=sys.stderr)
        raise typer.Exit(1)
    else:
        print(f"{SCHEMA_FILE} is up to date")


def build_and_report(
    folder: Path, archs: tuple[str, ...], compiling: bool, with_reviews: bool = True
) -> project.BuildReport:
    """Build a project, with a progress bar, and say what was built."""
    with _compile_progress() as progress:
        report = project.build_project(folder, archs, compiling, progress, with_reviews)
    print(_summary(report))
    print_text(_about_the_lock(report), sys.stderr)
    return report


def _about_the_lock(report: project.BuildReport) -> list[Diagnostic]:
    return [Diagnostic("note", report.lock.note, code="lock")] if report.lock.note else []


def _summary(report: project.BuildReport) -> str:
    plan, settings = report.plan, report.plan.settings
    kernels = f"{counted(len(plan.specs), 'kernel')} in {counted(len(plan.units), 'module')}"
    for built in report.images.values():
        kernels += f", for {' '.join(built.entry.archs)}"
        break
    state = f"{counted(len(report.changed), 'file')} written" if report.changed else "up to date"
    return f"{settings.package}: {kernels}; {state}"


def _print_timings(steps: list[images.Step], form: Format) -> None:
    # Standard output is for findings where a program reads them.
    console = Console(stderr=form is not Format.text, width=None if sys.stdout.isatty() else 110)
    if steps:
        console.print(timings_table(steps))
    else:
        console.print("nothing was compiled: every image is up to date")


@contextlib.contextmanager
def _compile_progress(steps: list[images.Step] | None = None) -> Iterator[images.Progress]:
    """Give a callback that shows each step, and keeps it in `steps`."""
    kept = [] if steps is None else steps

    def show(step: images.Step) -> None:
        if not step.done:
            advance.expect(step.total)
            return
        kept.append(step)
        advance(f"{step.name} for {step.arch}", step.total, not step.cached)

    with progress_bar("compiling", 0) as advance:
        yield show
