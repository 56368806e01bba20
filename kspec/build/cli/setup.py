"""``kspec init`` and ``doctor``: what comes before a first build."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from kspec.build import scaffold
from kspec.build.cli.app import Project, app
from kspec.build.cli.completion import one_of
from kspec.build.cli.output import Form, FormOption, print_filled
from kspec.build.tools.doctor_view import diagnose
from kspec.errors import SpecError
from kspec.files import resolved


@app.command()
def init(
    name: Annotated[str, typer.Argument(help="Name of the project, such as fast-norms.")],
    folder: Annotated[
        Path | None,
        typer.Option("--folder", metavar="DIR", help="New or empty folder; default: ./NAME."),
    ] = None,
    template: Annotated[
        str | None,
        typer.Option(
            "--template",
            help=f"One of {', '.join(scaffold.TEMPLATES)}. Default: asked for on a terminal, else "
            f"{scaffold.DEFAULT}.",
            autocompletion=one_of(*scaffold.TEMPLATES),
        ),
    ] = None,
) -> None:
    """Write a new project: a library of kernels, a script, or a library of PyTorch operators."""
    place = folder or Path(name)
    if template is None and sys.stdin.isatty() and sys.stdout.isatty():
        scaffold.module_name(name)  # before the question: its answer could be in vain
        scaffold.check_free(place)
        template = _ask_template()
    chosen = scaffold.DEFAULT if template is None else template
    project = scaffold.new_project(name, chosen)
    scaffold.write_project(project, place)
    enter = "" if resolved(place) == Path.cwd() else f"cd {place} && "
    print_filled(f"{place}: {project.result}")
    print(f"next: {enter}{project.command}")


def _ask_template() -> str:
    """Return the template that the user names; other names are asked for again."""
    print("Templates:")
    for name, template in scaffold.TEMPLATES.items():
        print(f"  {name:8} {template.summary}")
    return str(typer.prompt("Template", scaffold.DEFAULT, value_proc=_checked))


def _checked(name: str) -> str:
    try:
        scaffold.find_template(name.strip())
    except SpecError as error:
        raise typer.BadParameter(str(error)) from None
    return name.strip()


@app.command()
def doctor(
    folder: Project = None,
    form: FormOption = Form.text,
) -> None:
    """Show what kspec finds on this machine, what is missing, and what installs it."""
    raise typer.Exit(diagnose(folder, form.value))
