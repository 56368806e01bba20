"""``kspec report``, ``diff``, ``docs``: what was compiled, what has changed, what there is."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from kspec.build import project
from kspec.build.cli.app import Project, app, project_folder
from kspec.build.cli.output import Form, FormOption, print_filled
from kspec.build.report import locking
from kspec.build.report.lock import FILE_NAME, read_lock
from kspec.errors import ManifestError, counted
from kspec.files import naming

WIDTH = 80


@app.command()
def report(
    kernels: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KERNEL]...", help="With or without module; default: all."),
    ] = None,
    arch: Annotated[
        list[str] | None,
        typer.Option("--arch", help="Architecture such as sm_90; repeat it. Default: all."),
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write one HTML page with plots.")
    ] = None,
    form: FormOption = Form.text,
    folder: Project = None,
) -> None:
    """Print registers, spills, memory, size and occupancy of compiled kernels."""
    from kspec.build.report import page as report_page
    from kspec.build.report import table as reports
    from kspec.build.report import view as report_view
    from kspec.build.report.heat import heat_sections

    root = project_folder(folder)
    plan, lock = project.plan_project(root), read_lock(root)
    if lock is None:
        raise ManifestError(
            f"there is no {FILE_NAME}, which builds with --arch or --no-compile do not write; run "
            "`kspec build` without them"
        )
    found = reports.make_report(plan, lock, kernels or (), arch or ())
    if locking.lock_diff(plan):
        print(f"kspec: {FILE_NAME} is older than the specs; run `kspec build`", file=sys.stderr)
    if html is not None:
        sections = heat_sections(plan, lock, found.kernels)
        page = report_page.render_page(found, plan.settings.package_name, sections)
        with naming(html):
            html.write_text(page, encoding="utf-8")
        print(f"{html}: {report_view.summary(found)}")
    elif form is Form.json:
        print(json.dumps(reports.report_data(found), indent=1))
    else:
        console = Console(width=None if sys.stdout.isatty() else WIDTH)
        console.print(report_view.report_table(found))
        print_filled(report_view.summary(found))


@app.command("diff")
def diff_command(
    revision: Annotated[str, typer.Argument(metavar="REV", help="Commit to compare with.")],
    other: Annotated[
        str | None,
        typer.Argument(metavar="[REV2]", help="What to compare; default: the files now."),
    ] = None,
    form: FormOption = Form.text,
    cuda: Annotated[bool, typer.Option(help="Show how the generated CUDA differs.")] = True,
    folder: Project = None,
) -> None:
    """Print what changed since a git revision.

    Signatures, coverage, figures, saved reviews, generated CUDA.
    """
    from kspec.build.report import diff, diff_view, revisions

    root = project_folder(folder)
    before = revisions.snapshot_at(root, revision)
    after = revisions.snapshot_at(root, other) if other else revisions.snapshot_now(root)
    found = diff.compare(before, after)
    if form is Form.json:
        print(json.dumps(diff.difference_data(found), indent=1))
        return
    console = Console(width=None if sys.stdout.isatty() else WIDTH, highlight=False)
    for part in diff_view.difference_view(found, cuda):
        console.print(part, soft_wrap=not isinstance(part, Table))


@app.command("docs")
def docs_command(
    output: Annotated[
        Path,
        typer.Option("--output", metavar="PATH", help="An .html file, or a folder."),
    ] = Path("docs-html"),
    folder: Project = None,
) -> None:
    """Write the catalogue of the package: one HTML page that needs nothing else."""
    from kspec.build.package.catalogue import write_catalogue  # NumPy, which no build waits for

    plan = project.plan_project(project_folder(folder))
    path = write_catalogue(plan, output)
    print(f"{path}: {counted(len(plan.specs), 'kernel')} in {counted(len(plan.units), 'module')}")
