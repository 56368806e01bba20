"""The name of a project in, its first files out: a project that builds as it is.

>>> project = new_project("demo")
>>> project.package
'demo_kernels'
>>> sorted(project.files)[:3]
['.gitignore', 'README.md', 'kspec.schema.json']

`write_project` puts the files into a folder, all of them or none.  What is in them is in
``templates/project``.
"""

from __future__ import annotations

import contextlib
import keyword
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from kspec.build.plan import RESERVED_STEMS
from kspec.build.settings import CONFIGURATION, DEFAULT_ARCHS
from kspec.errors import SpecError
from kspec.files import resolved
from kspec.render.environment import render_template
from kspec.spec.schema import SCHEMA_FILE, render_schema

# As packaging has it: what a distribution may be called.
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_MOST_LISTED = 5


@dataclass(frozen=True)
class NewProject:
    """A project that is not written yet.

    Attributes
    ----------
    name : str
        Of the distribution.
    module : str
        Stem of its spec file, so the module of its kernels.
    package : str
        What its kernels are imported from.
    files : mapping of str to str
        Text by path.
    """

    name: str
    module: str
    package: str
    files: Mapping[str, str]


def new_project(name: str) -> NewProject:
    """Return a project with one kernel of each kind.

    Raises
    ------
    SpecError
        If nothing can be installed or imported under this name; the message has one that can.
    """
    module = _module_name(name)
    package = f"{module}_kernels"
    names = {
        "name": name,
        "module": module,
        "package": package,
        "archs": ", ".join(f'"{arch}"' for arch in DEFAULT_ARCHS),
    }
    files = {
        CONFIGURATION: _render("pyproject.toml", names),
        f"specs/{module}.toml": _render("kernels.toml", names),
        f"tests/test_{module}.py": _render("test_kernels.py", names),
        "README.md": _render("README.md", names),
        ".gitignore": _render("gitignore", names),
        SCHEMA_FILE: render_schema(),
    }
    return NewProject(name, module, package, files)


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
    _check_free(folder)
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
    staging = Path(tempfile.mkdtemp(prefix=f".{project.module}.", dir=parent))
    try:
        for name, text in project.files.items():
            path = staging / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        # Temporary folders are private; new ones are what the umask says.
        staging.chmod((staging / "specs").stat().st_mode)
        yield staging
    finally:
        shutil.rmtree(staging, ignore_errors=True)


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


def _module_name(name: str) -> str:
    """Return the identifier for the name of a distribution: ``fast_norms`` for ``Fast-Norms``."""
    if not _NAME.fullmatch(name):
        raise SpecError(
            f"{name!r} is not a name that packages can have: letters, digits, '.', '_' and '-', "
            f"and a letter or digit at both ends{_suggestion(name)}"
        )
    module = re.sub(r"[-_.]+", "_", name).lower()
    if not module.isidentifier() or keyword.iskeyword(module):
        what = (
            "a Python keyword" if keyword.iskeyword(module) else "not the name of a Python module"
        )
        raise SpecError(f"{name!r}: {module!r} is {what}{_suggestion(f'my-{name}')}")
    if module == "kspec" or module in RESERVED_STEMS:
        raise SpecError(f"kspec needs the name {name!r} itself{_suggestion(f'my-{name}')}")
    return module


def _suggestion(name: str) -> str:
    near = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("._-").lower()
    if not near:
        return ""
    near = near if near[0].isalpha() else f"my-{near}"
    return f"; try {near!r}"


def _check_free(folder: Path) -> None:
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
