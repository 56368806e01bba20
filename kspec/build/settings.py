"""``[tool.kspec]`` of a project's ``pyproject.toml``: TOML in, checked `Settings` out.

::

    [tool.kspec]
    specs = "specs"                        # folder of the spec files
    package = "generated/toy_kernels"      # folder of the generated package
    archs = ["sm_80", "sm_90", "compute_80"]
    ptx_isa = "8.0"                        # newest PTX that drivers must know
    jit = "never"                          # where deployed, no kernel of it is ever compiled
    torch = true                           # the kernels as PyTorch operators too

All have defaults.  `kspec.build.plan` goes on from here.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from kspec.compiler.cuda.ptx import parse_isa
from kspec.compiler.target import parse_targets
from kspec.dataclass import dataclass
from kspec.diagnostics import Diagnostic, by_place, unknown_key
from kspec.errors import SpecError, ToolNotFoundError
from kspec.files import read_regular, resolved
from kspec.model.stages import HOST, Target
from kspec.spec.document.positions import Lines, document_text, scan_positions
from kspec.spec.document.problems import SpecFileError, problem_at, toml_problem

CONFIGURATION = "pyproject.toml"
# One cubin per generation that is in use, and PTX for whatever comes later.
DEFAULT_ARCHS = ("sm_80", "sm_90", "sm_100", "sm_120", "compute_80")
NATIVE = "native"
_KEYS = ("specs", "package", "archs", "ptx_isa", "jit", "torch")
_JIT = ("auto", "never")
_EVERYTHING = ("all", "all-major")  # of CMake


@dataclass(frozen=True)
class Settings:
    """Settings of a build.

    Attributes
    ----------
    project : Path
        Folder of the ``pyproject.toml``.
    specs : str
        Folder of the spec files, relative to the project.
    package : str
        Folder of the generated package, relative to the project.
    targets : tuple of Target
        Targets of the images.
    configured : tuple of Target
        Targets of the images without other options.
    jit : str
        ``"never"``: the package's kernels are not compiled at run time; else ``"auto"``.
    torch : bool
        Whether the package has a module of PyTorch operators.
    """

    project: Path
    specs: str
    package: str
    targets: tuple[Target, ...]
    configured: tuple[Target, ...]
    jit: str = "auto"
    torch: bool = False

    @property
    def is_complete(self) -> bool:
        """Whether the images are for all that is configured, and for nothing else."""
        return set(self.targets) == set(self.configured)

    @property
    def spec_folder(self) -> Path:
        """Folder of the spec files."""
        return self.project / self.specs

    @property
    def package_folder(self) -> Path:
        """Folder of the generated package."""
        return self.project / self.package

    @property
    def package_name(self) -> str:
        """Last part of the name that the package is imported by."""
        return PurePosixPath(self.package).name

    @property
    def import_name(self) -> str:
        """The name that the package is imported by: ``toy._kernels`` for ``src/toy/_kernels``."""
        from kspec.build.load import import_path

        return import_path(self.package_folder).replace("/", ".")


@dataclass(frozen=True)
class SettingProblem:
    """Something wrong with the table: the keys and indices that lead there, and what it is.

    `at_key`: the key is wrong, not its value.
    """

    keys: tuple[str | int, ...]
    message: str
    at_key: bool = False

    def __str__(self) -> str:
        named = "" if self.at_key else "".join(f"{key}: " for key in self.keys[:1])
        return f"{named}{self.message}"


def find_project(start: Path) -> Path:
    """Return the nearest folder at or above `start` that has a ``pyproject.toml``.

    Raises
    ------
    SpecError
        If there is none.
    """
    start = resolved(start)
    for folder in (start, *start.parents):
        if (folder / CONFIGURATION).is_file():
            return folder
    raise SpecError(
        f"no {CONFIGURATION} in {start.name or start} or above; use --project DIR, or write a new "
        "project with `kspec init`"
    )


def load_settings(project: Path, archs: Sequence[str] = ()) -> Settings:
    """Return the settings of a project.

    Parameters
    ----------
    project : Path
        Folder of the ``pyproject.toml``.
    archs : sequence of str
        Architectures instead of the configured ones; ``native`` are those of the GPUs present.

    Raises
    ------
    SpecFileError
        With everything that is wrong with the table, at its place.
    SpecError
        If the file cannot be read, or `archs` names no architectures.
    ToolNotFoundError
        If ``native`` is asked for where there is no GPU.
    """
    text, document = _read(project / CONFIGURATION)
    table = document.get("tool", {}).get("kspec", {})
    if not isinstance(table, dict):
        raise _error(text, [SettingProblem((), "must be a table")])
    problems = [
        SettingProblem((key,), unknown_key(key, _KEYS), True) for key in table if key not in _KEYS
    ]
    specs = _folder(table, "specs", "specs", problems)
    package = _folder(table, "package", f"generated/{_default_package(document)}", problems)
    if not PurePosixPath(package).name.isidentifier():
        name = PurePosixPath(package).name
        problems.append(SettingProblem(("package",), f"{name!r} is not a Python identifier"))
    if PurePosixPath(specs).is_relative_to(package):
        message = f"the folder {package!r} would replace the specs in {specs!r}"
        problems.append(SettingProblem(("package",), message))
    problems += _links(project, {"specs": specs, "package": package})
    configured = _targets(table.get("archs", list(DEFAULT_ARCHS)), problems)
    isa = _ptx_isa(table, configured, problems)
    jit = table.get("jit", "auto")
    if jit not in _JIT:
        options = ", ".join(map(repr, _JIT))
        problems.append(SettingProblem(("jit",), f"must be one of {options}, not {jit!r}"))
    torch = table.get("torch", False)
    if not isinstance(torch, bool):
        problems.append(SettingProblem(("torch",), f"must be true or false, not {torch!r}"))
    if problems:
        raise _error(text, problems)
    configured = _with_isa(configured, isa)
    targets = _with_isa(_wanted_targets(archs), isa) if archs else configured
    return Settings(resolved(project), specs, package, targets, configured, jit, torch)


def package_of(document: dict[str, Any]) -> str:
    """Return the folder of the generated package that a ``pyproject.toml`` names, unchecked."""
    table = document.get("tool", {}).get("kspec", {})
    default = f"generated/{_default_package(document)}"
    return str(table.get("package", default)) if isinstance(table, dict) else default


def _read(path: Path) -> tuple[str, dict[str, Any]]:
    """Return the text of a file, and what it says."""
    text = ""
    try:
        text = document_text(read_regular(path))
        return text, tomllib.loads(text)
    except OSError as error:
        raise SpecError(f"{path.name} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SpecError(f"{path.name} is not UTF-8: {error.reason}") from error
    except tomllib.TOMLDecodeError as error:
        raise SpecFileError([toml_problem(text, path.name, error)]) from error


def _error(text: str, problems: Iterable[SettingProblem]) -> SpecFileError:
    """Return the exception that shows each problem at its place in the text."""
    lines, spans = Lines(text), scan_positions(text)
    found = []
    for problem in problems:
        path = ("tool", "kspec", *problem.keys)
        known = (path[:end] for end in range(len(path), 0, -1))
        span = next((spans[one] for one in known if one in spans), None)
        if span is None:  # of a default
            found.append(Diagnostic("error", f"[tool.kspec] {problem}", CONFIGURATION))
            continue
        start, end = span.value_start, span.value_end
        if problem.at_key or start < 0:
            start, end = span.key_start, span.key_end
        length = len(text[start:end].partition("\n")[0])
        found.append(problem_at(lines, CONFIGURATION, start, length, f"[tool.kspec] {problem}"))
    return SpecFileError(by_place(found))


def _default_package(document: dict[str, Any]) -> str:
    name = document.get("project", {}).get("name", "")
    return f"{re.sub(r'[^a-z0-9]+', '_', str(name).lower()).strip('_') or 'kspec'}_kernels"


def _folder(table: dict[str, Any], key: str, default: str, problems: list[SettingProblem]) -> str:
    """Return a path inside the project, normalised."""
    value = table.get(key, default)
    if not isinstance(value, str) or not value.strip():
        problems.append(
            SettingProblem((key,), f"must be a folder such as {default!r}, not {value!r}")
        )
        return default
    path = PurePosixPath(value)
    if path.is_absolute() or ".." in path.parts or not path.parts:
        problems.append(SettingProblem((key,), f"{value!r} must be a folder inside the project"))
        return default
    if re.search(r"[^\w./ +-]", value):  # it will stand in generated text
        message = f"{value!r} may have letters, digits, spaces and _ . / + - only"
        problems.append(SettingProblem((key,), message))
        return default
    return path.as_posix()


def _links(project: Path, folders: Mapping[str, str]) -> Iterator[SettingProblem]:
    """Yield an error for each folder of a project that is a link, or below one."""
    for key, name in folders.items():
        path = project / name
        if not resolved(path).is_relative_to(resolved(project)):
            message = f"{name!r} leads out of the project by a link; name a folder inside"
        elif key == "package" and path.is_symlink():
            message = f"{name!r} is a link, and builds replace the folder; name the folder"
        else:
            continue
        yield SettingProblem((key,), message)


def _targets(archs: object, problems: list[SettingProblem]) -> tuple[Target, ...]:
    if not isinstance(archs, list | tuple) or not archs:
        message = f"must be a list such as ['sm_90', 'compute_80'], not {archs!r}"
        problems.append(SettingProblem(("archs",), message))
        return ()
    targets: list[Target] = []
    for number, arch in enumerate(archs):
        try:
            found = _parse(str(arch))
        except SpecError as error:
            problems.append(SettingProblem(("archs", number), str(error)))
            continue
        if HOST in found:
            message = "the host device compiles on first use; leave 'host' out"
            problems.append(SettingProblem(("archs", number), message))
        targets += found
    return tuple(dict.fromkeys(targets))


def _ptx_isa(
    table: dict[str, Any], targets: Iterable[Target], problems: list[SettingProblem]
) -> str:
    isa = table.get("ptx_isa", "")
    if isa and (not isinstance(isa, str) or parse_isa(isa) is None):
        message = f"must be a version of PTX such as '8.0', not {isa!r}"
        problems.append(SettingProblem(("ptx_isa",), message))
    elif isa and targets and not any(target.format == "ptx" for target in targets):
        problems.append(SettingProblem(("ptx_isa",), "archs has no PTX, such as 'compute_80'"))
    return isa if isinstance(isa, str) else ""


def _with_isa(targets: Iterable[Target], isa: str) -> tuple[Target, ...]:
    return tuple(replace(one, ptx_isa=isa) if one.format == "ptx" else one for one in targets)


def _parse(arch: str) -> tuple[Target, ...]:
    if arch == NATIVE:
        raise SpecError(
            "'native' would make the package depend on the machine that builds it; write the "
            "architectures, and use `kspec build --arch native` for this machine alone"
        )
    if arch in _EVERYTHING:
        raise SpecError(f"{arch!r} depends on the compiler's version; write the architectures")
    return parse_targets(arch)


def _wanted_targets(archs: Sequence[str]) -> tuple[Target, ...]:
    """Return the targets that somebody asks for, of whom ``90-real;90-virtual`` is two."""
    words = [word.strip() for arch in archs for word in arch.split(";")]
    problems: list[SettingProblem] = []
    others = [word for word in words if word != NATIVE]
    targets = _targets(others, problems) if others else ()
    if problems:
        raise SpecError("\n".join(f"--arch: {problem.message}" for problem in problems))
    native = native_targets() if NATIVE in words else ()
    return tuple(dict.fromkeys((*targets, *native)))


def native_targets() -> tuple[Target, ...]:
    """Return the architectures of the GPUs present, sorted.

    Raises
    ------
    ToolNotFoundError
        If there is none, or no driver.
    """
    # The only part of a build that asks a driver, and only if it is told to.
    from kspec.runtime import driver

    reason = driver.why_unavailable()
    if reason:
        raise ToolNotFoundError(
            f"--arch native: {reason}\nname the architecture instead, such as --arch sm_90"
        )
    found = {driver.compute_capability(ordinal) for ordinal in range(driver.device_count())}
    return tuple(Target(f"sm_{major}{minor}") for major, minor in sorted(found))
