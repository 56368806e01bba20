"""A plan in, one fatbin per spec file out: the compiling half of a build.

What an earlier build left behind is reused if its key still fits; what the user's cache holds
is taken from there; the rest is compiled, one translation unit for each file and architecture,
in several processes because NVRTC serialises inside one.  The same processes make the fatbins.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field

from kspec.build.messages import Job, Members
from kspec.build.plan import BuildPlan, Unit
from kspec.build.worker import Workers
from kspec.compiler import ImageCache, image_key
from kspec.compiler.family import share
from kspec.compiler.headers import carry_headers
from kspec.compiler.key import compiler_fingerprint
from kspec.dataclass import dataclass
from kspec.errors import CompileError, KspecError
from kspec.model.manifest import ImageEntry
from kspec.model.stages import CudaSource, Image, Target


@dataclass(frozen=True)
class Step:
    """One translation unit that is done; `done` of `total` are."""

    stem: str
    arch: str
    done: int
    total: int
    cached: bool = False


Progress = Callable[[Step], None]


@dataclass(frozen=True)
class Built:
    """A fatbin, what the manifest says of it, and what the compiler said if it was made now."""

    entry: ImageEntry
    code: bytes
    logs: tuple[str, ...] = field(default=(), compare=False, repr=False)


def ignore_progress(step: Step) -> None:
    """Report nothing."""


def unit_key(unit: Unit, targets: Sequence[Target]) -> str:
    """Return the digest of everything that decides a unit's fatbin."""
    source = carry_headers(unit.source)  # once, not for every target
    keys = "\n".join(image_key(source, target) for target in share(unit.source, targets))
    return hashlib.sha256(keys.encode()).hexdigest()


def build_images(
    plan: BuildPlan, existing: Mapping[str, Built], progress: Progress = ignore_progress
) -> dict[str, Built]:
    """Return the fatbin of each unit that precompiles anything, by stem.

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
        With the compiler's messages about every file it refused.
    ToolNotFoundError
        If NVRTC or nvFatbin are missing.
    """
    images: dict[str, Built] = {}
    wanted: dict[str, tuple[Unit, str]] = {}
    for unit in plan.units:
        if not unit.source.name_expressions:
            continue  # every kernel of the file is compiled lazily
        key = unit_key(unit, plan.targets)
        before = existing.get(unit.stem)
        if before is not None and before.entry.key == key:
            images[unit.stem] = before
        else:
            wanted[unit.stem] = unit, key
    if wanted:
        images |= _made(wanted, plan.targets, progress)
    return images


def _made(
    wanted: Mapping[str, tuple[Unit, str]], targets: Sequence[Target], progress: Progress
) -> dict[str, Built]:
    """Return the fatbins of some units, which come with their keys, by stem."""
    cache = ImageCache.configured()
    count = max(1, min(len(wanted) * len(targets), os.cpu_count() or 1))
    with Workers(count) as workers:
        units = [unit for unit, _ in wanted.values()]
        compiled = _compile_all(units, targets, workers, cache, progress)
        members = {
            stem: Members(tuple(compiled[stem, target.arch] for target in targets))
            for stem in wanted
        }
        stems = sorted(wanted, key=lambda stem: -sum(len(one.code) for one in members[stem].images))
        fatbins = dict(
            zip(stems, workers.join([members[one] for one in stems], cache), strict=True)
        )
    return {
        stem: _built(unit, key, members[stem].images, fatbins[stem])
        for stem, (unit, key) in wanted.items()
    }


def _built(unit: Unit, key: str, members: Sequence[Image], fatbin: Image) -> Built:
    entry = ImageEntry(
        file=f"{unit.stem}.fatbin",
        sha256=hashlib.sha256(fatbin.code).hexdigest(),
        archs=tuple(image.arch for image in members),
        compiler=compiler_fingerprint(unit.source, Target(members[0].arch)),
        symbols=fatbin.symbols,
        figures={image.arch: image.figures for image in members if image.figures},
        key=key,
    )
    return Built(entry, fatbin.code, tuple(image.log for image in members if image.log))


def _compile_all(
    units: Sequence[Unit],
    targets: Sequence[Target],
    workers: Workers,
    cache: ImageCache,
    progress: Progress,
) -> dict[tuple[str, str], Image]:
    total = len(units) * len(targets)
    images: dict[tuple[str, str], Image] = {}
    missing: list[tuple[Unit, Target]] = []
    for unit in units:
        for target in share(unit.source, targets):
            image = cache.probe(image_key(unit.source, target))  # the compiling call asks again
            if image is None:
                missing.append((unit, target))
                continue
            images[unit.stem, target.arch] = image
            progress(Step(unit.stem, target.arch, len(images), total, cached=True))
    failures = _compile(missing, workers, cache, images, total, progress)
    if failures:
        raise _joined(failures)
    return images


def _compile(
    missing: Sequence[tuple[Unit, Target]],
    workers: Workers,
    cache: ImageCache,
    images: dict[tuple[str, str], Image],
    total: int,
    progress: Progress,
) -> dict[str, CompileError]:
    """Compile what is missing into `images`; return the first error of each file."""
    failures: dict[str, CompileError] = {}
    stems = {id(unit.source): unit.stem for unit, _ in missing}
    for job, outcome in workers.run(_jobs(missing), cache):
        stem = stems[id(job.source)]
        if isinstance(outcome, CompileError):
            failures.setdefault(stem, outcome)
        elif isinstance(outcome, KspecError):
            raise outcome
        else:
            images[stem, job.target.arch] = outcome
            progress(Step(stem, job.target.arch, len(images), total))
    return failures


def _jobs(missing: Sequence[tuple[Unit, Target]]) -> list[Job]:
    """Return the compilations of units for targets, in the order to start them.

    One of each file comes first, so that a file that does not compile is found soon; then the
    largest, so that no process is left with one when the others have nothing to do.
    """
    targets: dict[str, list[Target]] = {}
    for unit, target in missing:
        targets.setdefault(unit.stem, []).append(target)
    ranked: list[tuple[bool, int, Job]] = []
    for unit in {unit.stem: unit for unit, _ in missing}.values():
        size = len(unit.source.name_expressions)
        for place, job in enumerate(_jobs_of(unit.source, targets[unit.stem])):
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
    """Return one error with the messages about every file."""
    first = failures[min(failures)]
    log = "\n".join(failures[stem].log for stem in sorted(failures))
    found = tuple(one for stem in sorted(failures) for one in failures[stem].diagnostics)
    return CompileError(log, first.source, first.options, first.target, found)
