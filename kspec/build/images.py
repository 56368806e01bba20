"""A plan in, one fatbin per kernel out: the compiling half of a build.

What an earlier build left behind is reused if its key still fits; what the user's cache holds
is taken from there; the rest is compiled, one translation unit for each kernel (`Group`) and
architecture, in several processes because NVRTC serialises inside one.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field

from kspec.build.messages import Job
from kspec.build.plan import BuildPlan, Group, Unit, group_source
from kspec.build.worker import Workers
from kspec.compiler import ImageCache, cached_image, image_key
from kspec.compiler.cuda.fatbin import make_fatbin
from kspec.compiler.family import share
from kspec.compiler.headers import carry_headers
from kspec.compiler.key import compiler_fingerprint, source_digest
from kspec.dataclass import dataclass
from kspec.errors import CompileError, KspecError
from kspec.model.manifest import ImageEntry
from kspec.model.stages import CudaSource, Image, Target


@dataclass(frozen=True)
class Step:
    """One translation unit that is done; `done` of `total` are. The first step is before all.

    Attributes
    ----------
    stem, kernel, arch : str
        Module, first kernel of its group, and target.
    cached : bool
        Whether the image was in the cache.
    instantiations, size : int
        Its kernels with types and layout, and the bytes of its image.
    seconds : float
        CPU time of the compiler; nothing for PTX that another compilation made.
    """

    stem: str
    arch: str
    done: int
    total: int
    cached: bool = False
    kernel: str = ""
    instantiations: int = 0
    size: int = 0
    seconds: float = 0.0

    @property
    def name(self) -> str:
        """Module and kernel."""
        return f"{self.stem}.{self.kernel}"


Progress = Callable[[Step], None]


@dataclass(frozen=True)
class Built:
    """A fatbin, what the manifest says of it, and what the compiler said if it was made now."""

    entry: ImageEntry
    code: bytes
    logs: tuple[str, ...] = field(default=(), compare=False, repr=False)


@dataclass(frozen=True)
class _Wanted:
    """An image to be made."""

    group: Group
    source: CudaSource
    key: str


def ignore_progress(step: Step) -> None:
    """Report nothing."""


def images_key(source: CudaSource, targets: Sequence[Target]) -> str:
    """Return the digest of everything that decides the fatbin of a source."""
    carried = carry_headers(source)  # once, not for every target
    keys = "\n".join(image_key(carried, target) for target in share(source, targets))
    return hashlib.sha256(keys.encode()).hexdigest()


def images_of(unit: Unit, images: Mapping[str, Built]) -> Iterator[tuple[Group, Built]]:
    """Yield the groups of a unit that have an image, and that."""
    for group in unit.groups:
        if group.name in images:
            yield group, images[group.name]


def build_images(
    plan: BuildPlan, existing: Mapping[str, Built], progress: Progress = ignore_progress
) -> dict[str, Built]:
    """Return the fatbin of each group of kernels that is precompiled, by its name.

    Parameters
    ----------
    plan : BuildPlan
        What to compile.
    existing : mapping of str to Built
        Intact fatbins of the last build; those whose key fits are returned as they are.
    progress : callable
        Called after each translation unit.

    Raises
    ------
    CompileError
        With the compiler's messages about every kernel it refused.
    ToolNotFoundError
        If NVRTC or nvFatbin are missing.
    """
    images: dict[str, Built] = {}
    wanted: list[_Wanted] = []
    for unit in plan.units:
        for group in unit.groups:
            source = group_source(plan.settings, unit, group)
            key = images_key(source, plan.targets)
            before = existing.get(group.name)
            if before is not None and before.entry.key == key:
                images[group.name] = before
            else:
                wanted.append(_Wanted(group, source, key))
    compiled = _compile_all(wanted, plan.targets, progress)
    return images | {one.group.name: _built(one, compiled, plan.targets) for one in wanted}


def _built(
    wanted: _Wanted, compiled: Mapping[tuple[str, str], Image], targets: Sequence[Target]
) -> Built:
    members = [compiled[wanted.group.name, target.arch] for target in targets]
    fatbin = make_fatbin(members)
    entry = ImageEntry(
        file=wanted.group.file,
        sha256=hashlib.sha256(fatbin.code).hexdigest(),
        archs=tuple(image.arch for image in members),
        compiler=compiler_fingerprint(wanted.source, Target(members[0].arch)),
        symbols=fatbin.symbols,
        figures={image.arch: image.figures for image in members if image.figures},
        key=wanted.key,
        source=source_digest(wanted.source),
    )
    return Built(entry, fatbin.code, tuple(image.log for image in members if image.log))


def _compile_all(
    wanted: Sequence[_Wanted], targets: Sequence[Target], progress: Progress
) -> dict[tuple[str, str], Image]:
    """Return the image of each group, by name, and architecture."""
    cache = ImageCache.configured()
    total = len(wanted) * len(targets)
    if total:
        progress(Step("", "", 0, total))
    images: dict[tuple[str, str], Image] = {}
    missing: list[tuple[_Wanted, Target]] = []
    for one in wanted:
        carried = carry_headers(one.source)  # once, not for every target
        for target in share(one.source, targets):
            image = cached_image(carried, target, cache)  # the compiling call asks again
            if image is None:
                missing.append((one, target))
                continue
            images[one.group.name, target.arch] = image
            progress(_step(one.group, image, len(images), total, cached=True))
    failures: dict[str, CompileError] = {}
    if missing:
        for group, image, seconds in _compile(missing, cache, failures):
            images[group.name, image.arch] = image
            progress(_step(group, image, len(images), total, seconds=seconds))
    if failures:
        raise _joined(failures)
    return images


def _step(
    group: Group, image: Image, done: int, total: int, cached: bool = False, seconds: float = 0.0
) -> Step:
    count, size = len(image.symbols), len(image.code)
    return Step(group.stem, image.arch, done, total, cached, group.kernel, count, size, seconds)


def _compile(
    missing: Sequence[tuple[_Wanted, Target]], cache: ImageCache, failures: dict[str, CompileError]
) -> Iterator[tuple[Group, Image, float]]:
    """Yield each missing image and its CPU seconds; keep the first error of each group."""
    groups = {id(one.source): one.group for one, _ in missing}
    jobs = _jobs((one.source, target) for one, target in missing)
    with Workers(max(1, min(len(jobs), os.cpu_count() or 1))) as workers:
        for job, answer in workers.run(jobs, cache):
            group, outcome = groups[id(job.source)], answer.outcome
            if isinstance(outcome, CompileError):
                failures.setdefault(group.name, outcome)
            elif isinstance(outcome, KspecError):
                raise outcome
            else:
                yield group, outcome, answer.seconds


def _jobs(missing: Iterable[tuple[CudaSource, Target]]) -> list[Job]:
    """Return the compilations of sources for targets, in the order to start them.

    One of each source comes first, so that one that does not compile is found soon; then the
    largest, so that no process is left with one when the others have nothing to do.
    """
    targets: dict[int, tuple[CudaSource, list[Target]]] = {}
    for source, target in missing:
        targets.setdefault(id(source), (source, []))[1].append(target)
    ranked: list[tuple[bool, int, Job]] = []
    for source, wanted in targets.values():
        size = len(source.name_expressions)
        for place, job in enumerate(_jobs_of(source, wanted)):
            ranked.append((place > 0, -size, job))
    return [job for _, _, job in sorted(ranked, key=lambda one: one[:2])]


def _jobs_of(source: CudaSource, targets: Sequence[Target]) -> list[Job]:
    """Return the compilations of one source; one makes all images of the same PTX."""
    if source.backend != "nvrtc":
        return [Job(source, target) for target in targets]
    groups: dict[str, list[Target]] = {}
    for target in targets:
        groups.setdefault(target.ptx, []).append(target)
    # A cubin that is compiled directly comes with its PTX.
    ranked = (sorted(one, key=lambda t: (t.format != "cubin", t.via)) for one in groups.values())
    return [Job(source, first, tuple(others)) for first, *others in ranked]


def _joined(failures: Mapping[str, CompileError]) -> CompileError:
    """Return one error with the messages about every kernel."""
    first = failures[min(failures)]
    log = "\n".join(failures[name].log for name in sorted(failures))
    found = tuple(one for name in sorted(failures) for one in failures[name].diagnostics)
    return CompileError(log, first.source, first.options, first.target, found)
