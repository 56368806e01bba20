"""Editable installs and test suites: a generated package that stays what its specs say.

::

    editable_files(plan, folder)    # what such an install puts into the environment
    watch_package(settings)         # the same for this process alone
    refresh(project)                # called on import, if the specs have changed

`kspec.build.watch` is what runs on import and compares; `kspec.build.stamp` has what it compares.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from kspec import config
from kspec.build import watch
from kspec.build.atomic_replace import locked
from kspec.build.stamp import write_stamp
from kspec.errors import ManifestError, ToolNotFoundError
from kspec.files import system_refusals

if TYPE_CHECKING:
    from kspec.build.plan import BuildPlan
    from kspec.build.settings import Settings


# The end of the copy of `kspec.build.watch`: kspec is imported when there is something to do.
_REFRESH = '''

def refresh(project: Path) -> None:
    """Rebuild the package of a project, as `kspec.build.develop.refresh` does."""
    from kspec.build import develop

    develop.refresh(project)
'''


def editable_files(plan: BuildPlan, folder: Path) -> dict[str, str]:
    """Write what makes a package importable and watched; return files and their places.

    Parameters
    ----------
    plan : BuildPlan
        Of the project that is installed.
    folder : Path
        Where to write; the files are copied from there.
    """
    arguments = _watched(plan.settings)
    module = f"_kspec_watch_{arguments[0].replace('.', '_')}"
    text = Path(watch.__file__).read_text(encoding="utf-8")
    (folder / f"{module}.py").write_text(text + _REFRESH, encoding="utf-8")
    # ascii: Python reads the file in the encoding of whatever locale it is started in.
    given = ", ".join([*map(ascii, arguments), f"{module}.refresh"])
    call = f"import {module}; {module}.watch({given})\n"
    (folder / f"{module}.pth").write_text(call, encoding="ascii")
    return {str(folder / name): name for name in (f"{module}.py", f"{module}.pth")}


def watch_package(settings: Settings) -> None:
    """Make a project's package importable and watched, in this process."""
    watch.watch(*_watched(settings), refresh)


def _watched(settings: Settings) -> tuple[str, str, str, str]:
    """Return the arguments of `kspec.build.watch.watch` for a project's package."""
    package, name = settings.package_folder, settings.import_name
    root = package.parents[name.count(".")]
    return name, str(settings.project), str(package), str(root)


def refresh(project: Path) -> None:
    """Make the text of a project's package what its specs say; images that still fit stay.

    One process does it; others that import at the same time wait, and find it done.

    Raises
    ------
    SpecError
        The specs or the settings are wrong.
    ManifestError
        It is stale, and ``KSPEC_JIT=never`` says that nothing is to be made here.
    ToolNotFoundError
        It may be stale, but this environment has not what builds it.
    FileError
        It cannot be written.
    """
    try:
        from kspec.build.project import build_project, check_project, plan_project
    except ModuleNotFoundError as error:
        raise ToolNotFoundError(
            f"the specs in {project} may have changed since the last `kspec build`, and without "
            f"{error.name} they cannot be read here: pip install 'kspec[cu13]' (or "
            "'kspec[cu12]', or 'kspec[author]' without a GPU), or run `kspec build` where it is "
            "installed"
        ) from error
    started = time.time()
    plan = plan_project(project)
    with system_refusals(), _alone(plan.settings.package_folder):
        if not check_project(project):
            write_stamp(plan, started)
        elif config.jit_mode() == "never":
            raise ManifestError(
                f"{plan.settings.package} is not what the specs in {project} say, and "
                "KSPEC_JIT=never forbids to rebuild it on import; run `kspec build`"
            )
        else:
            build_project(project, compiling=False)


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        # Where nothing can be written there is nothing to wait for either.
        with contextlib.suppress(OSError):
            folder.parent.mkdir(parents=True, exist_ok=True)
            stack.enter_context(locked(folder.parent / f".{folder.name}.import.lock"))
        yield
