"""Everything a build will do, decided before it does it: settings in, a frozen `BuildPlan` out.

One `Unit` per spec file: its specs, and the self-contained source they render to.  No compiler
and no generated file is touched.  `kspec.build.images` compiles a plan, `kspec.build.files`
turns it into the files of the package.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kspec.build.settings import Settings
from kspec.compiler.headers import collect_headers, package_include_dir
from kspec.compiler.options import include_dirs
from kspec.errors import SpecError
from kspec.render import compiler_options, render_file, specializations
from kspec.spec.loader import SpecFile, load_specs
from kspec.spec.models import Spec
from kspec.stages import CudaSource, Header, Target

# Names in a generated package that a spec file can not have.
RESERVED_STEMS = ("__init__", "kernel_names")


@dataclass(frozen=True)
class Unit:
    """One spec file: one module, one ``.cu``, one image; `archs` are those configured for it."""

    spec_file: SpecFile
    source: CudaSource
    archs: tuple[str, ...] = ()

    @property
    def stem(self) -> str:
        """Name of all of them."""
        return self.spec_file.stem


@dataclass(frozen=True)
class BuildPlan:
    """A build.

    Attributes
    ----------
    settings : Settings
        Where everything is.
    units : tuple of Unit
        Sorted by stem.
    """

    settings: Settings
    units: tuple[Unit, ...]

    @property
    def targets(self) -> tuple[Target, ...]:
        """What every unit is compiled for."""
        return self.settings.targets

    @property
    def specs(self) -> tuple[Spec, ...]:
        """Every kernel, by module and in the order of its file."""
        return tuple(spec for unit in self.units for spec in unit.spec_file.specs)


def make_plan(settings: Settings) -> BuildPlan:
    """Load and render every spec file of a project.

    Raises
    ------
    SpecError
        With every problem of every spec file.
    RenderError
        If a template is broken.
    """
    files = load_specs(settings.spec_folder, settings.project)
    if not files:
        raise SpecError(f"the folder {settings.specs!r} has no spec files (*.toml)")
    taken = [file.path for file in files if file.stem in RESERVED_STEMS]
    if taken:
        raise SpecError("\n".join(f"{path}: the package needs this name; rename" for path in taken))
    return BuildPlan(settings, tuple(make_unit(settings, file) for file in files))


def make_unit(settings: Settings, spec_file: SpecFile) -> Unit:
    """Render one spec file and gather the project's headers that it includes."""
    text = render_file(spec_file)
    options = compiler_options(spec_file.specs)
    own = [
        settings.project / name for name in include_dirs(options) if not Path(name).is_absolute()
    ]
    headers = collect_headers(text, [settings.spec_folder, *own])
    theirs = tuple(header for header in headers if not _is_kspec(header))
    for header in theirs:
        if ".." in Path(header.name).parts or Path(header.name).is_absolute():
            raise SpecError(
                f"{spec_file.path}: header {header.name!r} is outside the folder "
                f"{settings.specs!r}, so it can not be shipped with the package"
            )
    names = [one.name_expression for spec in spec_file.specs for one in specializations(spec)]
    source = CudaSource(f"{spec_file.stem}.cu", text, tuple(dict.fromkeys(names)), theirs, options)
    return Unit(spec_file, source, tuple(target.arch for target in settings.configured))


def _is_kspec(header: Header) -> bool:
    """Whether a header is one of those that every installed kspec has."""
    return (package_include_dir() / header.name).is_file()
