"""``kspec freeze``: fused functions into spec files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from kspec.build.cli.app import Project, app, project_folder
from kspec.build.cli.output import print_filled
from kspec.build.settings import load_settings
from kspec.errors import counted


@app.command("freeze")
def freeze_command(
    function: Annotated[str, typer.Argument(metavar="MODULE:FUNCTION", help="What is frozen.")],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ARGUMENT",
            help="What it is called with: float32[4096,1024] for an array, int, float, None.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            metavar="FILE",
            help="Spec file; default: named as the function.",
        ),
    ] = None,
    folder: Project = None,
) -> None:
    """Write the kernels of a fused function into a spec file, to be compiled ahead of time."""
    from kspec.build.tools import freeze  # imports NumPy, which no other command needs at the start

    specs = freeze.frozen_specs(function, arguments or ())
    if output is None:
        name = function.partition(":")[2].replace(".", "_")
        path = load_settings(project_folder(folder)).spec_folder / f"{name}.toml"
        output = Path(os.path.relpath(path))  # messages show it from here
    freeze.write_specs(output, specs, function)
    names = ", ".join(spec.name for spec in specs)
    print_filled(f"{output}: {counted(len(specs), 'kernel')} ({names}); run `kspec build`")
