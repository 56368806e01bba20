"""``kspec upgrade``: a project of an older kspec to this one."""

from __future__ import annotations

from typing import Annotated

import typer

from kspec.build.cli.app import Project, app, project_folder
from kspec.build.settings import load_settings
from kspec.build.tools.upgrade import find_upgrades, write_upgrades


@app.command()
def upgrade(
    checking: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit with 1 if something would change.")
    ] = False,
    folder: Project = None,
) -> None:
    """Bring the spec files of a project, and their schema, to this version of kspec."""
    settings = load_settings(project_folder(folder))
    upgrades = find_upgrades(settings)
    for one in upgrades:
        name = one.path.relative_to(settings.project).as_posix()
        for change in one.changes:
            print(f"{name}: {change}")
    if not upgrades:
        print("nothing to upgrade")
    elif checking:
        raise typer.Exit(1)
    else:
        write_upgrades(upgrades)
        print("next: kspec build")
