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

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

import kspec
from kspec.build.cli.diagnostics import exit_code as exit_code
from kspec.build.cli.diagnostics import print_text
from kspec.errors import KspecError
from kspec.files import resolved, system_refusals

# Name to module and summary, in the order of help, which imports no module.
COMMANDS = {
    "build": ("building", "Render and compile the specs into the generated package."),
    "check": (
        "building",
        "Exit with 1 and a diff if the generated package or kspec.lock are not what the specs say.",
    ),
    "show": ("building", "Print one kernel at one stage of the pipeline."),
    "schema": ("building", "Print the JSON Schema of spec files, for editors."),
    "freeze": (
        "freezing",
        "Write the kernels of a fused function into a spec file, to be compiled ahead of time.",
    ),
    "report": (
        "reporting",
        "Print registers, spills, memory, size and occupancy of compiled kernels.",
    ),
    "diff": ("reporting", "Print what changed since a git revision."),
    "docs": (
        "reporting",
        "Write the catalogue of the package: one HTML page that needs nothing else.",
    ),
    "review": (
        "reviewing",
        "Review the use of memory: sectors, bank conflicts, divergence, an estimated time.",
    ),
    "demo": ("running", "Run every kernel that has an example on every device present."),
    "warm": (
        "running",
        "Load or compile every kernel that a generated package declares, before it is called.",
    ),
    "init": (
        "setup",
        "Write a new project: a library of kernels, a script, or a library of PyTorch operators.",
    ),
    "doctor": (
        "setup",
        "Show what kspec finds on this machine, what is missing, and what installs it.",
    ),
    "test": (
        "testing",
        "Build, then compare kernels with their references on arguments drawn at random.",
    ),
    "trace": (
        "tracing",
        "Run a command, and compare the kernels that it asks for with the precompiled ones.",
    ),
    "tune": (
        "tuning",
        "Measure how kernels run fastest, and write that into kspec.lock and the package.",
    ),
    "upgrade": (
        "upgrading",
        "Bring the spec files of a project, and their schema, to this version of kspec.",
    ),
    "cache": ("cache", "Look at, empty or check the cache of compiled kernels."),
}
# As help shows them.
GROUPS = {
    "Begin": ("init", "doctor", "upgrade", "schema"),
    "Build": ("build", "check", "show", "freeze"),
    "Run": ("demo", "test", "warm", "trace", "cache"),
    "Make faster": ("review", "report", "tune", "diff"),
    "Publish": ("docs",),
}
_GROUP_OF = {name: group for group, names in GROUPS.items() for name in names}


class Commands(TyperGroup):
    """Every command of the table; those that do not run are their summaries."""

    def get_params(self, ctx: Any) -> Any:
        """Return the options in front of a command."""
        return _flags_without_type(super().get_params(ctx))

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands."""
        return [*_GROUP_OF]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command, or what help shows of it; None if there is none."""
        if cmd_name not in COMMANDS:
            return self.commands.get(cmd_name)
        command: Any = self.commands.get(cmd_name) or TyperCommand(
            cmd_name, help=COMMANDS[cmd_name][1]
        )
        command.rich_help_panel = _GROUP_OF[cmd_name]
        return command

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Import the command that is named first, and return it."""
        if args and args[0] in COMMANDS:
            importlib.import_module(f"kspec.build.cli.{COMMANDS[args[0]][0]}")
            self.commands.update(typer.main.get_group(app).commands)
        name, command, rest = super().resolve_command(ctx, args)
        for one in (command, *getattr(command, "commands", {}).values()):
            _flags_without_type(one.get_params(ctx) if one else ())
        return name, command, rest


def _flags_without_type(options: Sequence[Any]) -> Sequence[Any]:
    """Return options whose flags have no ``<bool>`` in help: they take no value."""
    for option in options:
        if getattr(option, "is_flag", False):
            option.metavar = ""
    return options


app = typer.Typer(
    name="kspec",
    cls=Commands,
    help="CUDA kernels declared once, as data.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

Project = Annotated[
    Path | None,
    typer.Option(
        "--project",
        metavar="DIR",
        help="Folder of pyproject.toml; default: the nearest one, from here upwards.",
    ),
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
    from kspec.build.settings import find_project  # half of the time of help

    return resolved(folder) if folder is not None else find_project(Path.cwd())


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass
