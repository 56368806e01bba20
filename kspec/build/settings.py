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
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from kspec.compiler.cuda.ptx import parse_isa
from kspec.compiler.target import parse_targets
from kspec.diagnostics import unknown_key
from kspec.errors import SpecError, ToolNotFoundError
from kspec.files import read_regular, resolved
from kspec.model.stages import HOST, Target

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
    SpecError
        With everything that is wrong with the table.
    ToolNotFoundError
        If ``native`` is asked for where there is no GPU.
    """
    document = _read(project / CONFIGURATION)
    table = document.get("tool", {}).get("kspec", {})
    problems: list[str] = []
    if not isinstance(table, dict):
        raise SpecError(f"{CONFIGURATION}: [tool.kspec] must be a table")
    for key in table:
        if key not in _KEYS:
            problems.append(unknown_key(key, _KEYS))
    specs = _folder(table, "specs", "specs", problems)
    package = _folder(table, "package", f"generated/{_default_package(document)}", problems)
    if not PurePosixPath(package).name.isidentifier():
        problems.append(f"package: {PurePosixPath(package).name!r} is not a Python identifier")
    if PurePosixPath(specs).is_relative_to(package):
        problems.append(f"package: the folder {package!r} would replace the specs in {specs!r}")
    problems += _links(project, {"specs": specs, "package": package})
    configured = _targets(table.get("archs", list(DEFAULT_ARCHS)), problems)
    isa = _ptx_isa(table, configured, problems)
    jit = table.get("jit", "auto")
    if jit not in _JIT:
        problems.append(f"jit: must be one of {', '.join(map(repr, _JIT))}, not {jit!r}")
    torch = table.get("torch", False)
    if not isinstance(torch, bool):
        problems.append(f"torch: must be true or false, not {torch!r}")
    if problems:
        raise SpecError("\n".join(f"{CONFIGURATION}: [tool.kspec] {text}" for text in problems))
    configured = _with_isa(configured, isa)
    targets = _with_isa(_wanted_targets(archs), isa) if archs else configured
    return Settings(resolved(project), specs, package, targets, configured, jit, torch)


def package_of(document: dict[str, Any]) -> str:
    """Return the folder of the generated package that a ``pyproject.toml`` names, unchecked."""
    table = document.get("tool", {}).get("kspec", {})
    default = f"generated/{_default_package(document)}"
    return str(table.get("package", default)) if isinstance(table, dict) else default


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(read_regular(path).decode("utf-8-sig"))
    except OSError as error:
        raise SpecError(f"{path.name} cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SpecError(f"{path.name} is not TOML: {error}") from error


def _default_package(document: dict[str, Any]) -> str:
    name = document.get("project", {}).get("name", "")
    return f"{re.sub(r'[^a-z0-9]+', '_', str(name).lower()).strip('_') or 'kspec'}_kernels"


def _folder(table: dict[str, Any], key: str, default: str, problems: list[str]) -> str:
    """Return a path inside the project, normalised."""
    value = table.get(key, default)
    if not isinstance(value, str) or not value.strip():
        problems.append(f"{key}: must be a folder such as {default!r}, not {value!r}")
        return default
    path = PurePosixPath(value)
    if path.is_absolute() or ".." in path.parts or not path.parts:
        problems.append(f"{key}: {value!r} must be a folder inside the project")
        return default
    if re.search(r"[^\w./ +-]", value):  # it will stand in generated text
        problems.append(f"{key}: {value!r} may have letters, digits, spaces and _ . / + - only")
        return default
    return path.as_posix()


def _links(project: Path, folders: Mapping[str, str]) -> Iterator[str]:
    """Yield an error for each folder of a project that is a link, or below one."""
    for key, name in folders.items():
        path = project / name
        if not resolved(path).is_relative_to(resolved(project)):
            yield f"{key}: {name!r} leads out of the project by a link; name a folder inside"
        elif key == "package" and path.is_symlink():
            yield f"package: {name!r} is a link, and builds replace the folder; name the folder"


def _targets(archs: object, problems: list[str]) -> tuple[Target, ...]:
    if not isinstance(archs, list | tuple) or not archs:
        problems.append(f"archs: must be a list such as ['sm_90', 'compute_80'], not {archs!r}")
        return ()
    targets: list[Target] = []
    for arch in archs:
        try:
            found = _parse(str(arch))
        except SpecError as error:
            problems.append(f"archs: {error}")
            continue
        if HOST in found:
            problems.append("archs: the host device compiles on first use; leave 'host' out")
        targets += found
    return tuple(dict.fromkeys(targets))


def _ptx_isa(table: dict[str, Any], targets: Iterable[Target], problems: list[str]) -> str:
    isa = table.get("ptx_isa", "")
    if isa and (not isinstance(isa, str) or parse_isa(isa) is None):
        problems.append(f"ptx_isa: must be a version of PTX such as '8.0', not {isa!r}")
    elif isa and targets and not any(target.format == "ptx" for target in targets):
        problems.append("ptx_isa: archs has no PTX, such as 'compute_80'")
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
    problems: list[str] = []
    others = [word for word in words if word != NATIVE]
    targets = _targets(others, problems) if others else ()
    if problems:
        raise SpecError("\n".join(text.replace("archs:", "--arch:", 1) for text in problems))
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
    from kspec.runtime.driver import api as driver

    reason = driver.why_unavailable()
    if reason:
        raise ToolNotFoundError(
            f"--arch native: {reason}\nname the architecture instead, such as --arch sm_90"
        )
    found = {driver.compute_capability(ordinal) for ordinal in range(driver.device_count())}
    return tuple(Target(f"sm_{major}{minor}") for major, minor in sorted(found))
