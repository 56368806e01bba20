"""``kspec.lock`` on disk: written by a build, compared by ``kspec check``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kspec.build.atomic_replace import write_whole
from kspec.build.images import Built
from kspec.build.package import stale
from kspec.build.package.files import read_manifest
from kspec.build.plan import BuildPlan
from kspec.build.report import lock as locks
from kspec.build.report.lock import FILE_NAME, Lock
from kspec.errors import ManifestError


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


def update_lock(plan: BuildPlan, images: Mapping[str, Built]) -> LockUpdate:
    """Write the lock of a build, unless that was for some architectures only."""
    if not plan.settings.is_complete:
        return LockUpdate(note=f"{FILE_NAME} is left as it is: it is for all configured archs")
    path = plan.settings.project / FILE_NAME
    before, after = _readable(plan.settings.project), locks.make_lock(plan, images)
    text = locks.dump(after).encode()
    if path.is_file() and path.read_bytes() == text:
        return LockUpdate()
    write_whole(path, text)
    return LockUpdate(True, _other_compiler(before, after))


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
        text = locks.dump(locks.expected_lock(plan, Lock()))
        return stale.file_diff(FILE_NAME, None, text.encode())
    have = path.read_bytes()
    known = _readable(plan.settings.project)
    want = locks.dump(locks.expected_lock(plan, known or Lock())).encode()
    if known is None:
        have = b"(damaged)\n"
    return stale.file_diff(FILE_NAME, have, want) if have != want else ""


def _readable(project: Path) -> Lock | None:
    try:
        return locks.read_lock(project)
    except ManifestError:
        return None


def _was_built(plan: BuildPlan) -> bool:
    """Whether a manifest says that there was a build for all architectures."""
    index = read_manifest(plan.settings.package_folder)
    configured = {target.arch for target in plan.settings.configured}
    images = [module.image for module in index.modules if module.image] if index else []
    return any(set(image.archs) == configured for image in images)


def _other_compiler(before: Lock | None, after: Lock) -> str:
    if before is None or not before.kernels or before.compilers == after.compilers:
        return ""
    old, new = ("; ".join(lock.compilers) for lock in (before, after))
    return f"{FILE_NAME} now records another compiler: {new}; before: {old}"
