"""The name of a project and a template in, its first files out: a project that works as it is.

>>> project = new_project("demo")
>>> project.package
'demo_kernels'
>>> sorted(project.files)[2:6]
['.gitignore', 'README.md', 'kspec.schema.json', 'pyproject.toml']

`write_project` puts the files into a folder, all of them or none.  What is in them is in
``templates/project``; `kspec.build.scaffold.templates` has the lists.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from kspec.build.scaffold.names import check_unreserved, module_name
from kspec.build.scaffold.templates import DEFAULT, find_template
from kspec.build.settings import DEFAULT_ARCHS
from kspec.dataclass import dataclass
from kspec.errors import SpecError
from kspec.files import resolved
from kspec.render.environment import render_template
from kspec.spec.schema import render_schema

_MOST_LISTED = 5


@dataclass(frozen=True)
class NewProject:
    """A project that is not written yet.

    Attributes
    ----------
    name : str
        Of the distribution.
    module : str
        Module of its kernels: the stem of its spec file, or the script.
    package : str
        Package that its kernels are imported from, if it generates one.
    result : str
        The project in a few words, which name the file of its kernels.
    command : str
        The command to begin with.
    files : mapping of str to str
        Text by path.
    """

    name: str
    module: str
    package: str
    result: str
    command: str
    files: Mapping[str, str]


def new_project(name: str, template: str = DEFAULT) -> NewProject:
    """Return a project with the files of a template.

    Raises
    ------
    SpecError
        If there is no such template, or nothing can be installed or imported under this name; the
        message has one that can.
    """
    chosen = find_template(template)
    module = module_name(name)
    check_unreserved(name, module, chosen)
    package = f"{module}_kernels"
    values = {
        "name": name,
        "module": module,
        "package": package,
        "archs": ", ".join(f'"{arch}"' for arch in DEFAULT_ARCHS),
        "schema": render_schema().rstrip("\n"),
    }
    files = {
        path.format(module=module): _render(text, values) for path, text in chosen.files.items()
    }
    result, command = (text.format(module=module) for text in (chosen.result, chosen.command))
    return NewProject(name, module, package, result, command, files)


def write_project(project: NewProject, folder: Path) -> None:
    """Write a project into a folder that is new or empty.

    The files are written beside it and moved there in one step, so that nothing is left of a
    project that could not be written.

    Raises
    ------
    SpecError
        If the folder has files, or is to be made where there is no folder.
    OSError
        If it cannot be written.
    """
    folder = resolved(folder)
    check_free(folder)
    try:
        if folder.is_dir():
            _fill(project, folder)
        else:
            with _staged(project, folder.parent) as staging:
                staging.rename(folder)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(folder)) from error


@contextlib.contextmanager
def _staged(project: NewProject, parent: Path) -> Iterator[Path]:
    """Write the files into a folder of their own, which is gone afterwards if it is still there."""
    outer = Path(tempfile.mkdtemp(prefix=f".{project.module}.", dir=parent))
    staging = outer / "new"  # temporary folders are private; new ones are what the umask says
    try:
        for name, text in project.files.items():
            path = staging / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        yield staging
    finally:
        shutil.rmtree(outer, ignore_errors=True)


def _fill(project: NewProject, folder: Path) -> None:
    """Move the files into an empty folder: the one that a shell stands in is not replaced."""
    moved: list[Path] = []
    with _staged(project, folder) as staging:
        try:
            for path in sorted(staging.iterdir()):
                moved.append(path.rename(folder / path.name))
        except OSError:
            for path in moved:
                path.rename(staging / path.name)
            raise


def check_free(folder: Path) -> None:
    """Raise if a project cannot be written into a folder: it has files, or no folder around it."""
    folder = resolved(folder)
    if folder.is_dir():
        present = sorted(path.name for path in folder.iterdir())
        if present:
            some = ", ".join(present[:_MOST_LISTED]) + (", ..." * (len(present) > _MOST_LISTED))
            raise SpecError(
                f"{folder} has files already ({some}); give another --folder, or for a project "
                "that exists see 'Kernels in your own package' in kspec's README"
            )
    elif folder.exists():
        raise SpecError(f"{folder} is a file; give another --folder")
    elif not folder.parent.is_dir():
        raise SpecError(f"{folder.parent} is not a folder; make it first")


def _render(name: str, names: Mapping[str, str]) -> str:
    return render_template(f"project/{name}.j2", names, f"templates/project/{name}.j2")
