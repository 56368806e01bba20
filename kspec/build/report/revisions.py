"""The generated package of a project as it was: a revision of git in, a frozen `Snapshot` out.

Nothing is checked out: files come from ``git show``.  `now` is what lies in the work tree.
"""

from __future__ import annotations

import subprocess
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path, PurePosixPath

from kspec.build.report import lock as locks
from kspec.build.report.lock import Lock
from kspec.build.settings import CONFIGURATION, package_of
from kspec.dataclass import dataclass
from kspec.errors import KspecError, SpecError, ToolNotFoundError
from kspec.model import manifest
from kspec.model.manifest import Manifest

NOW = "now"

# Returns a file by its path in the project, or None if there is none.
_Read = Callable[[str], bytes | None]


@dataclass(frozen=True)
class Snapshot:
    """A generated package at one time.

    Attributes
    ----------
    name : str
        What the user calls it: a revision, or ``"now"``.
    commit : str
        Its hash; empty for the work tree.
    manifest : Manifest
        The index of the package.
    lock : Lock or None
        What its lock says, if it had one.
    texts : mapping of str to str
        CUDA sources and headers, by file name.
    """

    name: str
    commit: str
    manifest: Manifest
    lock: Lock | None
    texts: Mapping[str, str] = field(repr=False)

    @property
    def title(self) -> str:
        """Name and short hash."""
        return f"{self.name} ({self.commit[:9]})" if self.commit else self.name


def snapshot_now(project: Path) -> Snapshot:
    """Return the snapshot of the work tree; errors as for `snapshot_at`."""

    def read(name: str) -> bytes | None:
        path = project / name
        return path.read_bytes() if path.is_file() else None

    return _snapshot(NOW, "", read, "run `kspec build`")


def snapshot_at(project: Path, revision: str) -> Snapshot:
    """Return the snapshot of a commit.

    Parameters
    ----------
    project : Path
        Folder of the ``pyproject.toml``.
    revision : str
        A commit in any spelling that git knows: ``HEAD~2``, ``v1.0``, ``main``.

    Raises
    ------
    SpecError
        If the project is not in a git repository, if that has no such revision, or the revision
        no generated package.
    ManifestError
        If its manifest or lock are damaged, or of a newer kspec.
    ToolNotFoundError
        If git is not installed.
    """
    prefix = _prefix(project)
    found = _git(
        project, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}"
    )
    if found is None:
        raise SpecError(f"git has no revision {revision!r} here")
    commit = found.decode().strip()

    def read(name: str) -> bytes | None:
        return _git(project, "show", f"{commit}:{prefix}{name}")

    return _snapshot(revision, commit, read, "its build was not committed")


def committed_lock(project: Path) -> Lock | None:
    """Return the lock of the last commit; None without one that this kspec reads."""
    try:
        prefix = _prefix(project)
        found = _git(project, "show", f"HEAD:{prefix}{locks.FILE_NAME}")
        return None if found is None else locks.load(found.decode("utf-8", "replace"))
    except KspecError:  # no git, no repository, a damaged or a newer file
        return None


def _snapshot(name: str, commit: str, read: _Read, advice: str) -> Snapshot:
    package = _package(name, read)
    path = f"{package}/{manifest.FILE_NAME}"
    index = read(path)
    where = f"{name}:{path}" if commit else path
    if index is None:
        raise SpecError(f"there is no generated package: {where} does not exist; {advice}")
    found = manifest.load(index.decode("utf-8", "replace"), where)
    locked = read(locks.FILE_NAME)
    lock = None
    if locked is not None:
        known_as = f"{name}:{locks.FILE_NAME}" if commit else locks.FILE_NAME
        lock = locks.load(locked.decode("utf-8", "replace"), known_as)
    return Snapshot(name, commit, found, lock, _texts(found, package, read))


def _package(name: str, read: _Read) -> str:
    """Return the folder of the package by the settings of that time."""
    text = read(CONFIGURATION)
    if text is None:
        raise SpecError(f"{name} has no {CONFIGURATION}")
    try:
        return package_of(tomllib.loads(text.decode("utf-8-sig")))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SpecError(f"{name}:{CONFIGURATION} is not TOML: {error}") from error


def _texts(index: Manifest, package: str, read: _Read) -> dict[str, str]:
    names = {name for one in index.modules for name in (f"{one.stem}.cu", *one.headers)}
    texts = {}
    for name in sorted(names):
        data = read((PurePosixPath(package) / name).as_posix())
        if data is not None:
            texts[name] = data.decode("utf-8", "replace")
    return texts


def _prefix(project: Path) -> str:
    """Return the project's folder inside its repository: empty, or with a slash at the end."""
    found = _git(project, "rev-parse", "--show-prefix")
    if found is None:
        raise SpecError(
            f"{project.name} is not in a git repository, so there is nothing to compare"
        )
    return found.decode().rstrip("\n")


def _git(project: Path, *arguments: str) -> bytes | None:
    """Return the output of git, or None if it fails."""
    try:
        done = subprocess.run(["git", "-C", str(project), *arguments], capture_output=True)
    except OSError as error:
        raise ToolNotFoundError("git is not installed, and it has the older files") from error
    return done.stdout if done.returncode == 0 else None
