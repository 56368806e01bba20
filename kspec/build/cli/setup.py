"""``kspec init`` and ``doctor``: what comes before a first build."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kspec.build import scaffold
from kspec.build.cli.app import Project, app
from kspec.build.cli.output import Form, FormOption, print_filled
from kspec.build.tools.doctor_view import diagnose
from kspec.files import resolved


@app.command()
def init(
    name: Annotated[str, typer.Argument(help="Name of the project, such as fast-norms.")],
    folder: Annotated[
        Path | None,
        typer.Option("--folder", metavar="DIR", help="New or empty folder; default: ./NAME."),
    ] = None,
) -> None:
    """Write a new project: a kernel of each kind, tests, and a wheel of them to be built."""
    project = scaffold.new_project(name)
    place = folder or Path(name)
    scaffold.write_project(project, place)
    enter = "" if resolved(place) == Path.cwd() else f"cd {place} && "
    print_filled(f"{place}: a project with the kernels of specs/{project.module}.toml")
    print(f"next: {enter}kspec demo")


@app.command()
def doctor(
    folder: Project = None,
    form: FormOption = Form.text,
) -> None:
    """Show what kspec finds on this machine, what is missing, and what installs it."""
    raise typer.Exit(diagnose(folder, form.value))
