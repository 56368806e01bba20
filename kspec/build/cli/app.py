"""The command line, ``kspec``.

Commands parse arguments and print; the work is done elsewhere in `kspec.build`.  Results go to
the standard output, progress and errors to the standard error.

====  =================================================================
Exit  Means
====  =================================================================
0     all right
1     wrong results, stale files, a damaged package, a file that cannot be read or written
2     bad input: arguments, settings, specs, CUDA that does not compile
3     something is not installed
====  =================================================================
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

import kspec
from kspec.build.cli.diagnostics import exit_code as exit_code
from kspec.build.cli.diagnostics import print_text
from kspec.build.settings import find_project
from kspec.errors import KspecError
from kspec.files import resolved, system_refusals

app = typer.Typer(
    name="kspec",
    help="CUDA kernels declared once, as data.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

Project = Annotated[
    Path | None,
    typer.Option("--project", metavar="DIR", help="Folder of pyproject.toml; default: this one."),
]


def main() -> None:
    """Run the command line and exit."""
    try:
        with system_refusals():  # a folder that cannot be written, a full disk
            app()
    except KspecError as error:
        sys.exit(_fail(error))


def _fail(error: KspecError) -> int:
    print_text(error.diagnostics, sys.stderr)  # never wrapped: carets stay under what they mean
    return exit_code(error)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"kspec {kspec.__version__}")
        raise typer.Exit


def project_folder(folder: Path | None) -> Path:
    """Return the folder of the project that is meant."""
    return resolved(folder) if folder is not None else find_project(Path.cwd())


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass
