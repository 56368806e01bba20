"""What a generated package was made of: a plan in, a file beside the package's bytecode out.

`kspec.build.watch` reads it where a package is watched: in editable installs, which make the first
one.  Without any, builds make none.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import TYPE_CHECKING

from kspec.build.watch import STAMP, digest
from kspec.compiler.options import include_dirs

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
    headers = headers_elsewhere(plan)
    # A package that can not be written to has no stamp: it is looked at on each import.
    with contextlib.suppress(OSError):
        newest = max(one.stat().st_mtime for one in (*inputs, *headers))
        if newest > started:
            files, found = [], ""  # a digest that no package has
        else:
            files = [one.relative_to(settings.project).as_posix() for one in headers]
            found = digest(settings.project, settings.package_folder, settings.specs, files)
        text = json.dumps({"specs": settings.specs, "files": files, "digest": found}) + "\n"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")


def headers_elsewhere(plan: BuildPlan) -> list[Path]:
    """Return the project's headers that specs include from other folders than their own."""
    found: dict[Path, None] = {}
    for unit in plan.units:
        folders = [
            plan.settings.project / name
            for name in include_dirs(unit.source.options)
            if not Path(name).is_absolute()
        ]
        for header in unit.source.headers:
            paths = (folder / header.name for folder in folders)
            found.update((path, None) for path in paths if path.is_file())
    return list(found)
