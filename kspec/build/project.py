"""A whole build: the folder of a project in, its generated package out.

>>> report = build_project(Path("."))                                  # doctest: +SKIP
>>> report.changed                                                     # doctest: +SKIP
('manifest.json', 'norms.cu', 'norms.l2norm.fatbin', 'norms.py')

This module only calls the others, in the order of the docstring of `kspec.build`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from kspec.build import images
from kspec.build.atomic_replace import exclusive, replace_folder
from kspec.build.images import Built, Progress, ignore_progress
from kspec.build.package import files, stale
from kspec.build.package.source_map import map_to_specs
from kspec.build.plan import BuildPlan, make_plan
from kspec.build.report import budgets
from kspec.build.report.locking import LockUpdate, update_lock
from kspec.build.settings import Settings, load_settings
from kspec.build.stamp import is_stamped, write_stamp
from kspec.compiler.messages import condensed
from kspec.dataclass import dataclass
from kspec.diagnostics import by_place
from kspec.errors import CompileError, SpecError
from kspec.files import system_refusals


@dataclass(frozen=True)
class BuildReport:
    """Result of a build.

    Attributes
    ----------
    plan : BuildPlan
        The plan.
    changed : tuple of str
        Files of the package that were written or removed; empty: everything was up to date.
    compiled : tuple of str
        Images that were made anew, by name.
    images : mapping of str to Built
        Every image by the name of its group.
    lock : LockUpdate
        Change of ``kspec.lock``.
    """

    plan: BuildPlan
    changed: tuple[str, ...]
    compiled: tuple[str, ...]
    images: Mapping[str, Built]
    lock: LockUpdate


@system_refusals()
def plan_project(project: Path, archs: Sequence[str] = ()) -> BuildPlan:
    """Return the plan of a build of a project; errors as for `build_project`."""
    return make_plan(load_settings(project, archs))


@system_refusals()
def build_project(
    project: Path,
    archs: Sequence[str] = (),
    compiling: bool = True,
    progress: Progress = ignore_progress,
    with_reviews: bool = True,
) -> BuildReport:
    """Build the generated package of a project.

    Parameters
    ----------
    project : Path
        Folder of the ``pyproject.toml``.
    archs : sequence of str
        Architectures instead of the configured ones.
    compiling : bool
        False: write the text only; kernels without an image compile on first use.
    progress : callable
        Called after each translation unit.
    with_reviews : bool
        Whether budgets of saved reviews are checked: not before new ones are saved.

    Raises
    ------
    SpecError
        The settings or the specs are wrong, or kernels are above the budgets of their specs; all
        problems are listed.
    CompileError
        The compiler refused a kernel.
    ToolNotFoundError
        The compiler is not installed.
    FileError
        A file cannot be read or written.

    Notes
    -----
    Whatever goes wrong, the previous package stays as it was.
    """
    started = time.time()
    plan = plan_project(project, archs)
    folder = plan.settings.package_folder
    text = files.text_files(plan)  # names that clash are found before anything is compiled
    with exclusive(folder):
        _check_ours(plan.settings)
        watched = is_stamped(folder)  # the stamp goes with the folder that is replaced
        before = files.read_images(folder)
        if compiling:
            intact = {name: built for name, built in before.items() if built.code}
            built = _compiled(plan, intact, progress)
            budgets.check_budgets(plan, built, with_reviews)
        else:
            built = files.still_valid(plan, before)
        changed = replace_folder(folder, files.package_files(plan, text, built))
        if watched:
            write_stamp(plan, started)
        lock = update_lock(plan, built, with_reviews) if compiling else LockUpdate()
    fresh = tuple(name for name, one in built.items() if before.get(name) != one)
    return BuildReport(plan, changed, fresh, built, lock)


def _compiled(plan: BuildPlan, intact: Mapping[str, Built], progress: Progress) -> dict[str, Built]:
    """Compile a plan; an error has its messages at their places in the specs."""
    try:
        return images.build_images(plan, intact, progress)
    except CompileError as error:
        settings = plan.settings
        found = map_to_specs(error.diagnostics, settings.project, settings.specs)
        found = condensed(by_place(found))
        shown = "\n".join(map(str, found))
        raise CompileError(shown, error.source, error.options, error.target, found) from None


@system_refusals()
def check_project(project: Path) -> str:
    """Return the difference of the committed text to that of a build; empty if there is none."""
    return stale.stale_diff(plan_project(project))


def _check_ours(settings: Settings) -> None:
    folder = settings.package_folder
    if folder.exists() and not folder.is_dir():
        raise SpecError(
            f"{settings.package} is replaced by every build, but it is not a folder; move it, or "
            "name another folder as 'package' in [tool.kspec]"
        )
    foreign = files.foreign_files(settings.package_folder)
    if foreign:
        some = ", ".join(foreign[:5]) + (", ..." if len(foreign) > 5 else "")
        raise SpecError(
            f"{settings.package} is replaced by every build, but kspec did not write {some}; move "
            "those files, or name another folder as 'package' in [tool.kspec]"
        )
