"""Inputs of a generated package: a plan in, a file beside the bytecode of the package out.

`kspec.build.watch` reads it where a package is watched: in editable installs, which make the first
one.  Without any, builds make none.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import TYPE_CHECKING

from kspec.build.atomic_replace import write_whole
from kspec.build.watch import STAMP, digest

if TYPE_CHECKING:  # nothing of the author's side comes with this module
    from kspec.build.plan import BuildPlan


def is_stamped(folder: Path) -> bool:
    """Return whether the package in a folder is one that is watched."""
    return (folder / STAMP).is_file()


def write_stamp(plan: BuildPlan, started: float) -> None:
    """Note that a package is what a plan says.

    Parameters
    ----------
    plan : BuildPlan
        What was built, or found to be up to date.
    started : float
        When the plan was begun. What is newer may not be in it, so the next import looks again
        then.
    """
    settings = plan.settings
    path = settings.package_folder / STAMP
    inputs = [settings.project / "pyproject.toml", *settings.spec_folder.rglob("*")]
    headers = _looked_at(plan)
    # A package that cannot be written to has no stamp: it is looked at on each import.
    with contextlib.suppress(OSError):
        present = (one for one in headers if one.is_file())
        newest = max(one.stat().st_mtime for one in (*inputs, *present))
        if newest > started:
            files, found = [], ""  # a digest that no package has
        else:
            files = [one.relative_to(settings.project).as_posix() for one in headers]
            found = digest(settings.project, settings.package_folder, settings.specs, files)
        text = json.dumps({"specs": settings.specs, "files": files, "digest": found}) + "\n"
        path.parent.mkdir(exist_ok=True)
        write_whole(path, text.encode())


def headers_elsewhere(plan: BuildPlan) -> list[Path]:
    """Return the project's headers that specs include from other folders than their own."""
    return [path for path in _looked_at(plan) if path.is_file()]


def _looked_at(plan: BuildPlan) -> list[Path]:
    """Return searched paths of headers, except in the folder of specs, which is all watched."""
    paths = dict.fromkeys(path for unit in plan.units for path in unit.looked_at)
    return [path for path in paths if not path.is_relative_to(plan.settings.spec_folder)]
