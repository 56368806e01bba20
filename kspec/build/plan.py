"""Everything a build will do, decided before it does it: settings in, a frozen `BuildPlan` out.

One `Unit` per spec file: its specs, and the self-contained source they render to.  Each of its
`Group` objects is compiled by itself: a kernel, as a rule.  No compiler and no generated file is
touched.  `kspec.build.images` compiles a plan, `kspec.build.package.files` turns it into the files
of the package.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path, PurePosixPath

from kspec import limits
from kspec.build.report.lock import Lock, readable_lock
from kspec.build.settings import Settings
from kspec.compiler.carrying import leads_out
from kspec.compiler.headers import collect_headers, missing_includes, package_include_dir
from kspec.compiler.options import flag_name, include_dirs
from kspec.cpp.fragments import identifiers
from kspec.cpp.preambles import shared_names
from kspec.dataclass import dataclass
from kspec.diagnostics import Diagnostic
from kspec.errors import SpecError
from kspec.files import is_file, resolved
from kspec.model.forms.kinds import REDUCE
from kspec.model.operators import form_name, name_refusal, operator_forms
from kspec.model.stages import CudaSource, Header, Target
from kspec.model.tuning import Tuned
from kspec.render import compiler_options, render_file, specializations
from kspec.spec.loader import SpecFile, load_specs
from kspec.spec.models import RawSpec, Spec

# Options of NVRTC by which it would read or write some other file.
_FILE_OPTIONS = frozenset(
    """
    include pre-include time fdevice-time-trace create-pch use-pch pch-dir pch options-file optf
    """.split()  # noqa: SIM905  (a list of words reads better)
)
# Names in a generated package that a spec file cannot have.
RESERVED_STEMS = ("__init__", "kernel_names")


@dataclass(frozen=True)
class Group:
    """Kernels that are compiled together: a generated one, or raw ones that need each other.

    Those are the kernels of one source, whose variables of the device they share, and of sources
    that have names of others of the file.  A build that finds one of them changed compiles the
    group alone.

    Attributes
    ----------
    stem : str
        Name of the spec file.
    specs : tuple of Spec
        The kernels, in the order of the file.
    """

    stem: str
    specs: tuple[Spec, ...]

    @property
    def kernel(self) -> str:
        """The first kernel."""
        return self.specs[0].name

    @property
    def name(self) -> str:
        """Module and first kernel, which name the image too: ``"norms.l2norm"``."""
        return f"{self.stem}.{self.kernel}"

    @property
    def file(self) -> str:
        """Name of the image in the package."""
        return f"{self.name}.fatbin"


@dataclass(frozen=True)
class Unit:
    """One spec file: one module, one ``.cu``, one image for each group of its kernels.

    Attributes
    ----------
    spec_file : SpecFile
        What it is made of.
    source : CudaSource
        What it renders to, with the project's headers.
    archs : tuple of str
        Those configured for it.
    looked_at : tuple of Path
        Files of the project that were looked for as headers, there or not.
    tuned : mapping of str to (tuple of Tuned)
        What `kspec tune` has measured of its kernels.
    """

    spec_file: SpecFile
    source: CudaSource
    archs: tuple[str, ...] = ()
    looked_at: tuple[Path, ...] = ()
    tuned: Mapping[str, tuple[Tuned, ...]] = field(default_factory=dict)

    @property
    def stem(self) -> str:
        """Name of all of them."""
        return self.spec_file.stem

    @functools.cached_property
    def groups(self) -> tuple[Group, ...]:
        """The kernels that are precompiled; each group is compiled together."""
        return tuple(
            Group(self.stem, tuple(specs))
            for specs in _compiled_together(self.spec_file.specs)
            if any(any(True for _ in specializations(spec)) for spec in specs)
        )

    def group_of(self, kernel: str) -> Group | None:
        """Return the group of a kernel; None if it is compiled lazily."""
        found = (one for one in self.groups if any(spec.name == kernel for spec in one.specs))
        return next(found, None)


@dataclass(frozen=True)
class BuildPlan:
    """A build.

    Attributes
    ----------
    settings : Settings
        Where everything is.
    units : tuple of Unit
        Sorted by stem.
    lock : Lock or None
        The lock of the project; None if there is none, or a damaged one.
    """

    settings: Settings
    units: tuple[Unit, ...]
    lock: Lock | None = None

    @property
    def targets(self) -> tuple[Target, ...]:
        """Targets of every unit."""
        return self.settings.targets

    @property
    def specs(self) -> tuple[Spec, ...]:
        """Every kernel, by module and in the order of its file."""
        return tuple(spec for unit in self.units for spec in unit.spec_file.specs)

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """Warnings about the spec files."""
        return tuple(one for unit in self.units for one in unit.spec_file.warnings)


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
    reserved = (*RESERVED_STEMS, *(["torch"] if settings.torch else []))
    taken = [file.path for file in files if file.stem in reserved]
    if taken:
        raise SpecError("\n".join(f"{path}: the package needs this name; rename" for path in taken))
    if settings.torch:
        _check_operators(files)
    lock = readable_lock(settings.project)
    tuned = lock.tuned if lock else {}
    units = (_with_tuned(make_unit(settings, one), tuned) for one in files)
    return BuildPlan(settings, tuple(units), lock)


def _compiled_together(specs: Sequence[Spec]) -> list[list[Spec]]:
    """Return the kernels of a file by group, each in the order of the file."""
    groups: list[list[Spec]] = []
    homes: dict[str, list[Spec]] = {}  # by the texts, and their names, of a group
    for spec in specs:
        group: list[Spec] = [spec]
        if isinstance(spec, RawSpec):
            used = (homes.get(name) for name in (spec.text, *identifiers(spec.text)))
            needed = {id(one): one for one in used if one is not None}
            others = [one for one in groups if id(one) in needed]
            groups = [one for one in groups if id(one) not in needed]
            group = [*sorted(itertools.chain(*others), key=specs.index), spec]
            moved = [name for name, home in homes.items() if id(home) in needed]
            homes.update(dict.fromkeys((spec.text, *shared_names(spec.text), *moved), group))
        groups.append(group)
    return groups


def _with_tuned(unit: Unit, tuned: Mapping[tuple[str, str], tuple[Tuned, ...]]) -> Unit:
    """Return a unit with the measurements of its kernels, which are by module and name."""
    names = [spec.name for spec in unit.spec_file.specs]
    own = {name: tuned[unit.stem, name] for name in names if (unit.stem, name) in tuned}
    return replace(unit, tuned=own)


def _check_operators(files: Sequence[SpecFile]) -> None:
    """Refuse names that no operator can have, and those that forms of reductions have."""
    taken = {
        form_name(spec.name, form): (spec.name, form)
        for file in files
        for spec in file.specs
        for form in operator_forms(spec.declaration())
        if form != REDUCE
    }
    problems = [
        f"{file.path}:{file.lines[spec.name, 'name']}: {spec.name} cannot be an operator, "
        f"and torch = true makes one of it: {reason}"
        for file in files
        for spec in file.specs
        if (reason := name_refusal(spec.declaration()) or _refusal_of_forms(spec.name, taken))
    ]
    if problems:
        raise SpecError("\n".join(problems))


def _refusal_of_forms(name: str, taken: Mapping[str, tuple[str, str]]) -> str:
    """Return why an operator cannot have a name, which a form of a reduction may have taken."""
    if name not in taken:
        return ""
    kernel, form = taken[name]
    return f"the operator of {kernel}'s {form} has this name; rename one of the kernels"


def make_unit(
    settings: Settings, spec_file: SpecFile, options: tuple[str, ...] | None = None
) -> Unit:
    """Render one spec file and gather the project's headers that it includes.

    `options`: those of the compiler, if they are not those of its specs.
    """
    text = render_file(spec_file)
    options = compiler_options(spec_file.specs) if options is None else options
    headers, looked_at = _headers(settings, spec_file, text, options)
    every = (one.name_expression for spec in spec_file.specs for one in specializations(spec))
    names = dict.fromkeys(itertools.islice(every, limits.SPECIALIZATIONS + 1))
    if len(names) > limits.SPECIALIZATIONS:
        raise SpecError(
            f"{spec_file.path}: more than {limits.SPECIALIZATIONS} specializations; list fewer "
            "'types', or divide the file"
        )
    source = CudaSource(f"{spec_file.stem}.cu", text, tuple(names), headers, options)
    archs = tuple(target.arch for target in settings.configured)
    return Unit(spec_file, source, archs, looked_at)


def group_source(settings: Settings, unit: Unit, group: Group) -> CudaSource:
    """Return the source of a group by itself, with the options of its whole file.

    Where its kernels stand in the file changes ``#line`` directives only.
    """
    alone = make_unit(settings, replace(unit.spec_file, specs=group.specs), unit.source.options)
    return alone.source


def _headers(
    settings: Settings, spec_file: SpecFile, text: str, options: tuple[str, ...]
) -> tuple[tuple[Header, ...], tuple[Path, ...]]:
    """Return the project's headers that a file includes, all of which are shipped.

    The second part are the files of the project that were looked for, there or not.
    """
    for problem in _outside(settings, options):
        raise SpecError(f"{spec_file.path}: {problem}")
    named = (name for name in include_dirs(options) if not Path(name).is_absolute())
    roots = [settings.spec_folder, *(settings.project / name for name in named)]
    found = collect_headers(text, roots, options)
    source = CudaSource(spec_file.stem, text, headers=found.headers, options=options)
    for name in (*missing_includes(source), *(header.name for header in source.headers)):
        path = PurePosixPath(name)
        file = next((root / name for root in roots if is_file(root / name)), None)
        leaves = file is not None and not _is_inside(file, settings.project)
        if ".." in path.parts or path.is_absolute() or leads_out(name) or leaves:
            shown = path.name if leads_out(name) else name
            raise SpecError(
                f"{spec_file.path}: header {shown!r} is outside the folder "
                f"{settings.specs!r}, so it cannot be shipped with the package"
            )
    looked_at = (
        path
        for path in found.looked_at
        if path.is_relative_to(settings.project)
        and not path.is_relative_to(package_include_dir())  # kspec's own repository
    )
    headers = (header for header in source.headers if not _is_kspec(header))
    return tuple(headers), tuple(looked_at)


def _outside(settings: Settings, options: tuple[str, ...]) -> Iterator[str]:
    """Yield the options that read or write files beside the project's headers and a toolkit."""
    for name in include_dirs(options):
        if not Path(name).is_absolute() and not _is_inside(
            settings.project / name, settings.project
        ):
            yield f"option -I{name} leads out of the project"
    for option in options:
        if flag_name(option).lstrip("-") in _FILE_OPTIONS:
            yield f"option {option!r} names a file; a build reads and writes its own only"


def _is_inside(path: Path, folder: Path) -> bool:
    return resolved(path).is_relative_to(resolved(folder))


def _is_kspec(header: Header) -> bool:
    """Whether a header is one of those that every installed kspec has."""
    return (package_include_dir() / header.name).is_file()
