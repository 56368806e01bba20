"""Get every kernel that a generated package declares ready for some devices, before it is called.

::

    for one in warm(wanted_kernels(installed_package("kspec_kernels"), HOST)):
        print(one.kernel, one.origin)        # math.add<float, Flat> compiled

What the package's images hold is loaded from them, what the user's cache holds is taken from
there, and the rest is compiled into that cache, in several processes.  Each kernel is loaded on
its device, so that what cannot be loaded is found now.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from kspec.build import project
from kspec.build.messages import Job
from kspec.build.worker import Workers
from kspec.compiler import cached_image
from kspec.dataclass import dataclass
from kspec.errors import KspecError, LoadError, ManifestError, SpecError, ToolNotFoundError
from kspec.model import manifest
from kspec.model.declaration import Declaration, RawDeclaration
from kspec.model.manifest import Manifest, ModuleEntry
from kspec.model.stages import COLUMNS, LINES, PACKS, ROWS, SHORT_LINES, TILES, RawSymbol
from kspec.runtime import driver
from kspec.runtime.driver.device import HOST, Device, devices, parse_device
from kspec.runtime.modules.provider import target_of, user_cache
from kspec.runtime.package import GeneratedModule, load_manifest

# Where an image is from.
PRECOMPILED, CACHED, COMPILED = ORIGINS = ("precompiled", "cached", "compiled")
# The host device has schedules of its own.
_GPU_LAYOUTS = (COLUMNS, LINES, PACKS, ROWS, SHORT_LINES, TILES)


@dataclass(frozen=True)
class Package:
    """A generated package: its folder, and the index in it."""

    folder: Path
    index: Manifest


@dataclass(frozen=True)
class Wanted:
    """One kernel, with its types and layout, for one device."""

    module: GeneratedModule
    symbol: RawSymbol
    device: Device

    def __str__(self) -> str:
        return f"{self.module.stem}.{self.symbol.name_expression.replace('kspec::', '')}"


@dataclass(frozen=True)
class Warmed:
    """Result for one kernel: the source of its image, or the reason why there is none."""

    kernel: Wanted
    origin: str = ""
    error: KspecError | None = None


def installed_package(name: str) -> Package:
    """Return a generated package by the name it is imported by; it is not imported.

    Raises
    ------
    LoadError
        If there is none of that name, or it is not a generated package.
    ManifestError
        If its index is damaged.
    """
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        spec = None
    places = spec.submodule_search_locations if spec else None
    if not places:
        raise LoadError(f"there is no package {name!r} to import")
    folder = Path(places[0])
    if not (folder / manifest.FILE_NAME).is_file():
        raise LoadError(
            f"{name!r} is not a package that `kspec build` made: no {manifest.FILE_NAME}"
        )
    return _open(folder)


def project_package(folder: Path) -> Package:
    """Return the generated package of a project.

    Raises
    ------
    SpecError
        If the settings or the specs are wrong.
    LoadError
        If there is no package, or the specs say something else by now.
    """
    settings = project.plan_project(folder).settings
    if not (settings.package_folder / manifest.FILE_NAME).is_file():
        raise LoadError(f"there is no package {settings.package}; run `kspec build`")
    if project.check_project(folder):
        raise LoadError(f"{settings.package} is not what the specs say; run `kspec build`")
    return _open(settings.package_folder)


def _open(folder: Path) -> Package:
    return Package(folder, load_manifest(folder))


def wanted_devices(names: Sequence[str]) -> tuple[Device, ...]:
    """Return the devices of these names; without names every GPU.

    Raises
    ------
    SpecError
        If a name is none of a device.
    ToolNotFoundError
        If there is no such device.
    """
    present = devices()
    if not names:
        if present == (HOST,):
            reason = driver.why_unavailable()
            raise ToolNotFoundError(f"{reason}; `kspec warm --device host` needs none")
        return tuple(device for device in present if not device.is_host)
    found: dict[Device, None] = {}
    for name in names:
        try:
            device = parse_device(name)
        except ValueError as error:
            raise SpecError(f"--device: {error}") from error
        except ToolNotFoundError:  # its advice is about arrays
            raise ToolNotFoundError(f"--device {name}: {driver.why_unavailable()}") from None
        if device not in present:
            listed = ", ".join(map(str, present))
            raise ToolNotFoundError(f"there is no device {device}; present are: {listed}")
        found[device] = None
    return tuple(found)


def wanted_kernels(package: Package, device: Device) -> tuple[Wanted, ...]:
    """Return the kernels that a package declares for a device, module by module."""
    index = package.index
    modules = [(GeneratedModule(package.folder, one, index.jit), one) for one in index.modules]
    return tuple(
        Wanted(module, RawSymbol(expression), device)
        for module, entry in modules
        for expression in entry.precompiled
        if not (device.is_host and any(tag in expression for tag in _GPU_LAYOUTS))
    )


def undeclared_kernels(package: Package) -> tuple[str, ...]:
    """Return the kernels that list no types: nothing can be compiled before they are called."""
    return tuple(
        f"{entry.stem}.{kernel.name}"
        for entry in package.index.modules
        for kernel in entry.kernels
        if not _is_declared(entry, kernel)
    )


def warm(kernels: Sequence[Wanted]) -> Iterator[Warmed]:
    """Load each kernel, after compiling it if need be; yield what became of it.

    A kernel that cannot be compiled or loaded does not stop the others.

    Raises
    ------
    ToolNotFoundError
        If the compiler is not installed.
    """
    cache = user_cache()
    jobs: dict[int, tuple[Job, Wanted]] = {}
    for kernel in kernels:
        try:
            if kernel.module.shipped(kernel.symbol, kernel.device) is not None:
                yield _loaded(kernel, PRECOMPILED)
                continue
            if not kernel.module.compiles:
                yield _loaded(kernel, "")  # which says what is missing
                continue
            source, target = kernel.module.source(kernel.symbol), target_of(kernel.device)
            if cached_image(source, target, cache) is not None:
                yield _loaded(kernel, CACHED)
                continue
        except ManifestError as error:
            yield Warmed(kernel, error=error)
            continue
        job = Job(source, target)
        jobs[id(job)] = job, kernel
    waiting = [job for job, _ in jobs.values()]
    with Workers(max(1, min(len(jobs), os.cpu_count() or 1))) as workers:
        for job, answer in workers.run(waiting, cache):
            kernel, outcome = jobs[id(job)][1], answer.outcome
            if isinstance(outcome, ToolNotFoundError):
                raise outcome
            if isinstance(outcome, KspecError):
                yield Warmed(kernel, error=outcome)
            else:
                yield _loaded(kernel, COMPILED)


def _loaded(kernel: Wanted, origin: str) -> Warmed:
    try:
        kernel.module.load(kernel.symbol, kernel.device)
    except ToolNotFoundError:
        raise
    except KspecError as error:
        return Warmed(kernel, error=error)
    return Warmed(kernel, origin)


def _is_declared(entry: ModuleEntry, kernel: Declaration) -> bool:
    expressions = set(entry.precompiled)
    if isinstance(kernel, RawDeclaration):
        return not expressions.isdisjoint(kernel.name_expressions)
    return any(one.startswith(f"{kernel.name}<") for one in expressions)
