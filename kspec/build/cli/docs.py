"""``kspec docs``: the catalogue of a package."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kspec.build import project
from kspec.build.cli.app import Project, app, project_folder
from kspec.diagnostics import counted


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
