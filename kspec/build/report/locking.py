"""The lock of a build: made of its plan and images, written, and compared by ``kspec check``."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from kspec.build.atomic_replace import write_whole
from kspec.build.images import Built, images_of
from kspec.build.package import stale
from kspec.build.package.files import read_manifest
from kspec.build.plan import BuildPlan, Unit, make_unit
from kspec.build.report import lock as locks
from kspec.build.report.lock import FILE_NAME, Lock, LockedKernel, LockRow
from kspec.compiler.headers import carry_headers
from kspec.cpp.directives import without_line_directives
from kspec.dataclass import dataclass
from kspec.model.manifest import ImageEntry
from kspec.model.stages import CudaSource, Figures
from kspec.render import specializations
from kspec.spec.models import Spec


@dataclass(frozen=True)
class LockUpdate:
    """Change of the lock by a build.

    Attributes
    ----------
    written : bool
        Whether it changed.
    note : str
        Note for the user, or empty.
    """

    written: bool = False
    note: str = ""


def update_lock(
    plan: BuildPlan, images: Mapping[str, Built], with_reviews: bool = True
) -> LockUpdate:
    """Write the lock of a build, unless that was for some architectures only.

    Notes on outdated reviews are left out before new ones are saved: without `with_reviews`.
    """
    path = plan.settings.project / FILE_NAME
    if not plan.settings.is_complete:
        how = "left as it is" if path.is_file() else "not written"
        return LockUpdate(note=f"{FILE_NAME} is {how}: it is for all configured archs")
    after = make_lock(plan, images)
    text = locks.dump(after).encode()
    if path.is_file() and path.read_bytes() == text:
        return LockUpdate(note=_outdated(after, with_reviews))
    write_whole(path, text)
    notes = [_other_compiler(plan.lock, after), _outdated(after, with_reviews)]
    return LockUpdate(True, "\n".join(filter(None, notes)))


def lock_diff(plan: BuildPlan) -> str:
    """Return the difference of the committed lock to that of a build; empty if there is none.

    That needs no compiler: kernels, their specializations and the digests of their sources are
    compared, not the figures.  A project that was never compiled for all of its architectures
    needs no lock.
    """
    path = plan.settings.project / FILE_NAME
    if not path.is_file():
        if not _was_built(plan):
            return ""
        text = locks.dump(expected_lock(plan, Lock()))
        return stale.file_diff(FILE_NAME, None, text.encode())
    have = path.read_bytes()
    want = locks.dump(expected_lock(plan, plan.lock or Lock())).encode()
    if plan.lock is None:
        have = b"(damaged)\n"
    return stale.file_diff(FILE_NAME, have, want) if have != want else ""


def _was_built(plan: BuildPlan) -> bool:
    """Whether a manifest says that there was a build for all architectures."""
    index = read_manifest(plan.settings.package_folder)
    configured = {target.arch for target in plan.settings.configured}
    images = (image for module in (index.modules if index else ()) for image in module.images)
    return any(set(image.archs) == configured for image in images)


def _outdated(lock: Lock, with_reviews: bool) -> str:
    """Return notes on kernels that were tuned or reviewed when their source was another one."""
    tuned = [
        f"{kernel.module}.{kernel.name}"
        for kernel in lock.kernels
        if not all(kernel.source.startswith(one.source) for one in kernel.tuned)
    ]
    reviewed = [
        f"{kernel.module}.{kernel.name}"
        for kernel in lock.kernels
        if with_reviews and not all(one.is_of(kernel.source) for one in kernel.reviews)
    ]
    notes = []
    if tuned:
        notes.append(f"changed since they were tuned; run `kspec tune {' '.join(tuned)}`")
    if reviewed:
        names = " ".join(reviewed)
        notes.append(f"changed since they were reviewed; run `kspec review {names} --save`")
    return "\n".join(notes)


def _other_compiler(before: Lock | None, after: Lock) -> str:
    old, new = ("; ".join(lock.compilers if lock else ()) for lock in (before, after))
    if not old or not new or old == new:  # nothing was, or is, precompiled
        return ""
    return f"{FILE_NAME} now records another compiler: {new}; before: {old}"


def make_lock(plan: BuildPlan, images: Mapping[str, Built]) -> Lock:
    """Return the lock of a build: `images` by name, as of `kspec.build.images.build_images`."""
    kernels = []
    for unit in plan.units:
        entries = {
            spec.name: built.entry
            for group, built in images_of(unit, images)
            for spec in group.specs
        }
        for kernel in _kernels(unit, plan):
            if kernel.name in entries:
                entry = entries[kernel.name]
                rows = tuple(_compiled(row, entry) for row in kernel.rows)
                kernels.append(replace(kernel, compiler=entry.compiler, rows=rows))
    return Lock(tuple(kernels))


def expected_lock(plan: BuildPlan, known: Lock) -> Lock:
    """Return the lock of a plan as far as that can be said without a compiler.

    Compilers and figures are those of `known`, where it has them.
    """
    before = {kernel.key: kernel for kernel in known.kernels}
    kernels = []
    for unit in plan.units:
        for kernel in _kernels(unit, plan):
            old = before.get(kernel.key, kernel)
            rows = {(row.name, row.arch): row for row in old.rows}
            kept = tuple(rows.get((row.name, row.arch), row) for row in kernel.rows)
            kernels.append(replace(kernel, compiler=old.compiler, rows=kept))
    return Lock(tuple(kernels))


def source_digest(source: CudaSource) -> str:
    """Return the digest of a source, wherever its lines come from."""
    source = carry_headers(source)
    content = {
        "text": without_line_directives(source.text),
        "headers": sorted([header.name, header.text] for header in source.headers),
        "options": source.options,
        "backend": source.backend,
    }
    encoded = json.dumps(content, ensure_ascii=False).encode("utf-8", "surrogatepass")
    return hashlib.sha256(encoded).hexdigest()[:32]


def _kernels(unit: Unit, plan: BuildPlan) -> Iterator[LockedKernel]:
    """Yield the kernels of a unit that are precompiled, without compiler and figures."""
    reviews = plan.lock.reviews if plan.lock else {}
    for spec in unit.spec_file.specs:
        names = dict.fromkeys(one.name_expression for one in specializations(spec))
        if names:
            rows = tuple(LockRow(name, arch) for name in names for arch in _archs(plan))
            digest = kernel_digest(unit, spec, plan)
            tuned = unit.tuned.get(spec.name, ())
            saved = reviews.get((unit.stem, spec.name), ())
            yield LockedKernel(unit.stem, spec.name, "", digest, rows, tuned, saved)


def _compiled(row: LockRow, entry: ImageEntry) -> LockRow:
    figures = entry.figures.get(row.arch, {}).get(row.name, Figures())
    return replace(row, figures=replace(figures, constant_bytes=-1))  # many do not say


def kernel_digest(unit: Unit, spec: Spec, plan: BuildPlan) -> str:
    """Return the digest of the source of one kernel of a unit, as its entry in the lock has it."""
    alone = make_unit(plan.settings, replace(unit.spec_file, specs=(spec,)))
    return source_digest(alone.source)


def _archs(plan: BuildPlan) -> Iterable[str]:
    return (target.arch for target in plan.settings.configured)
