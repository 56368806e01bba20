"""Completions that shells offer: names of a project's kernels, and of choices.

A shell asks in the middle of a line, so nothing is printed and nothing fails here: there is
something to offer or there is not.
"""

from __future__ import annotations

from collections.abc import Callable

import typer

from kspec.build.cli.app import project_folder
from kspec.build.settings import load_settings
from kspec.errors import KspecError
from kspec.spec.loader import load_specs


def kernel_names(context: typer.Context, incomplete: str) -> list[str]:
    """Return the kernels of the project whose names start so, with their modules after a dot."""
    try:
        settings = load_settings(project_folder(context.params.get("folder")))
        files = load_specs(settings.spec_folder, settings.project)
    except (KspecError, OSError):
        return []
    names = {spec.name for file in files for spec in file.specs}
    full = {f"{file.stem}.{spec.name}" for file in files for spec in file.specs}
    fitting = [name for name in sorted(names) if name.startswith(incomplete)]
    return fitting or [name for name in sorted(full) if name.startswith(incomplete)]


def one_of(*choices: str) -> Callable[[str], list[str]]:
    """Return a completion function for some words."""

    def complete(incomplete: str) -> list[str]:
        return [word for word in choices if word.startswith(incomplete)]

    return complete
