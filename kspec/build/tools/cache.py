"""The user's cache, looked at, emptied and checked: folders in, frozen reports out.

::

    report = examine(config.cache_dir(), config.cache_layers())
    clear(report.folder.path, age=30 * 86400)
    damaged(report.folder.path)

Only files whose names `kspec.compiler.cache.folder` gives are listed or removed;
`kspec.build.cli.cache` prints the reports.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kspec.compiler.cache import folder as files
from kspec.compiler.cache.counters import FILE_NAME, CacheStatistics, read_counts
from kspec.compiler.cache.entry import unpack_image
from kspec.compiler.cache.folder import CacheFile
from kspec.compiler.cache.trust import distrusted
from kspec.dataclass import dataclass
from kspec.errors import LoadError, SpecError

_AGE = re.compile(r"(\d{1,9})([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


@dataclass(frozen=True)
class FolderReport:
    """Contents of one folder.

    Attributes
    ----------
    path : Path
        The folder.
    state : str
        ``"writable"``, ``"read-only"``, ``"missing"``, ``"not a folder"``, or ``"not used: ..."``
        with the reason not to trust it.
    entries, size : int
        Images, and their bytes.
    oldest, newest : float or None
        When the entries were used that were not used for longest and that were used last (seconds
        since 1970).
    """

    path: Path
    state: str
    entries: int
    size: int
    oldest: float | None
    newest: float | None

    def as_json(self) -> dict[str, Any]:
        """Return the same as JSON can say it."""
        return {**asdict(self), "path": str(self.path)}


@dataclass(frozen=True)
class CacheReport:
    """A cache: its folder, the layers before it, its limit in bytes, and what it was asked."""

    folder: FolderReport
    layers: tuple[FolderReport, ...]
    limit: int
    counters: CacheStatistics

    def as_json(self) -> dict[str, Any]:
        """Return the same as JSON can say it."""
        counters = {name: n for name, n in asdict(self.counters).items() if name != "memory_hits"}
        return {
            "folder": self.folder.as_json(),
            "layers": [layer.as_json() for layer in self.layers],
            "limit": self.limit,
            "counters": counters,
        }


@dataclass(frozen=True)
class Cleared:
    """Result of a removal: removed images, remaining ones, and those that could not be removed."""

    removed: tuple[CacheFile, ...]
    kept: int
    stuck: int = 0

    @property
    def size(self) -> int:
        """Bytes that were removed."""
        return sum(one.size for one in self.removed)


@dataclass(frozen=True)
class Damage:
    """An entry that no kspec of this version would use, and why."""

    file: CacheFile
    reason: str

    def as_json(self) -> dict[str, Any]:
        """Return the same as JSON can say it."""
        return {"path": str(self.file.path), "bytes": self.file.size, "reason": self.reason}


def examine(directory: Path, layers: Sequence[Path], limit: int) -> CacheReport:
    """Return the contents of a cache; nothing is changed."""
    return CacheReport(
        _folder(directory, layer=False),
        tuple(_folder(layer, layer=True) for layer in layers),
        limit,
        read_counts(directory),
    )


def _folder(path: Path, layer: bool) -> FolderReport:
    found = files.entries(path)
    return FolderReport(
        path,
        _state(path, layer),
        sum(not one.is_note for one in found),
        sum(one.size for one in found),
        found[0].used if found else None,
        found[-1].used if found else None,
    )


def _state(path: Path, layer: bool) -> str:
    try:
        status = path.stat()
    except OSError:
        return "missing"
    if not stat.S_ISDIR(status.st_mode):
        return "not a folder"
    reason = distrusted(status)
    if reason:
        return f"not used: {reason}"
    return "writable" if not layer and os.access(path, os.W_OK | os.X_OK) else "read-only"


def parse_age(text: str) -> float:
    """Return the seconds of an age such as ``30d`` or ``12h``.

    Raises
    ------
    SpecError
        If it is none.
    """
    match = _AGE.fullmatch(text.strip())
    if match is None:
        raise SpecError(
            f"--older-than {text!r}: expected a number and s, m, h, d or w, such as 30d"
        )
    return float(int(match[1]) * _SECONDS[match[2]])


def clear(directory: Path, age: float = 0.0) -> Cleared:
    """Remove the entries of a folder, or those not used for `age` seconds.

    What killed processes left unfinished goes, too; without an age the counters start anew.
    """
    now = files.file_clock(directory)
    present = files.entries(directory)
    old = [one for one in present if not age or now - one.used >= age]
    gone = [one for one in old if files.remove(one)]
    kept, stuck = len(present) - len(gone), len(old) - len(gone)
    gone += [one for one in files.leftovers(directory, now) if files.remove(one)]
    if not age:
        with contextlib.suppress(OSError):
            (directory / FILE_NAME).unlink()
    return Cleared(tuple(gone), kept, stuck)


def damaged(directory: Path) -> tuple[Damage, ...]:
    """Return the entries of a folder that cannot be used; each is read and its checksum made."""
    found = ((one, _reason(one)) for one in files.entries(directory))
    return tuple(Damage(one, reason) for one, reason in found if reason)


def repair(found: Sequence[Damage]) -> tuple[Damage, ...]:
    """Remove damaged entries; return those that are still there."""
    return tuple(one for one in found if not files.remove(one.file))


def _reason(one: CacheFile) -> str:
    try:
        unpack_image(files.read_file(one.path), one.key)
    except FileNotFoundError:
        return ""  # swept in between
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    except LoadError as error:
        return str(error)
    return ""
