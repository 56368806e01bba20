"""The cache as files of a folder: written whole, listed, swept, and read without locks.

::

    write_file(folder / "5f0c.image", data)
    sweep(folder, limit=1 << 30)       # the entries that were not used for longest go

Only three things happen to an entry here, and each is one system call that network file systems do
as well: it is renamed into its place, its time of use is set, it is removed.  A reader has the
whole of an old or of a new file, or none.  No link is followed, and nothing waits for a pipe.
`kspec.compiler.cache` decides what is in them, `kspec.compiler.cache.trust` whose files
count.

`alone` lets processes wait for one that makes an entry.  It only saves work: without it, or where
it fails, entries are made twice and are the same.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

from kspec.compiler.cache.trust import OPEN, check_regular, read_trusted
from kspec.dataclass import dataclass

SUFFIX = ".image"
NOTE_SUFFIX = ".note"  # of entries that lead to images (`kspec.compiler.memo`)
_KEY = re.compile(r"[0-9a-f]{64}")
_TEMPORARY = re.compile(r"\.[a-z0-9_]{8}\.tmp|[\w.-]+-[a-z0-9_]{8}\.so|[0-9a-f]{64}\.lock")
# Below the folder: images of the host device, as files while they are loaded.
SCRATCH = "host"
# A file that is still being written is younger; one that its writer left behind gets older.
_ABANDONED = 3600.0
# Setting the time of use is a write: it is done when the recorded one is this many seconds old.
_COARSE = 3600.0
# Sweeping empties this part of the limit, so that it need not be done at every write.
_SPARE = 8
# A waiting process looks again after so many seconds: locks of network file systems have no queue.
_PAUSE = 0.02


@dataclass(frozen=True)
class CacheFile:
    """An entry: its file, its bytes, and when it was used (seconds since 1970)."""

    path: Path
    size: int
    used: float

    @property
    def key(self) -> str:
        """The key it is of."""
        return self.path.stem

    @property
    def is_note(self) -> bool:
        """Whether it leads to images, and is none."""
        return self.path.suffix == NOTE_SUFFIX


def entry_path(folder: Path, key: str, suffix: str = SUFFIX) -> Path:
    """Return the file of a key."""
    return folder / f"{key}{suffix}"


def read_file(path: Path) -> bytes:
    """Return the bytes of a file; raise `OSError` as `read_trusted` does.

    On a network file system, one that somebody replaces in between is read again.
    """
    try:
        return read_trusted(path)
    except OSError as error:
        if error.errno != errno.ESTALE:
            raise
        return read_trusted(path)


def write_file(path: Path, data: bytes) -> None:
    """Put a file in its place, whole, in a folder that is made if need be.

    Raises
    ------
    OSError
        If that is not possible; the folder is then as it was.
    """
    import tempfile  # a process that finds all it looks for writes nothing

    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=".", suffix=".tmp", dir=path.parent)
    temporary = Path(name)
    try:
        # Closing reports what a network file system has no room for.  There is no fsync: what a
        # power cut leaves of an entry fails its checksum, and is compiled again.
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


@contextlib.contextmanager
def alone(folder: Path, key: str, patience: float) -> Iterator[None]:
    """Let no other process, on any machine, be in here with this key; or nearly so.

    The operating system frees the lock of a process that is killed.  Where there are no locks, or
    nothing can be written, or no process gives way for `patience` seconds, this is entered as well.
    """
    descriptor = _lock(folder, key, patience)
    try:
        yield
    finally:
        if descriptor is not None:
            with contextlib.suppress(OSError):
                (folder / f"{key}.lock").unlink()
            with contextlib.suppress(OSError):
                # A process that was forked meanwhile has the file too, and the lock as long.
                fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)


def _lock(folder: Path, key: str, patience: float) -> int | None:
    """Return the locked file, or None."""
    path, end = folder / f"{key}.lock", time.monotonic() + patience
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        while True:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | OPEN, 0o600)
            try:
                check_regular(descriptor, path)
                if _is_locked(descriptor, end) and _is_file(descriptor, path):
                    return descriptor
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)
            if time.monotonic() >= end:
                return None
    except OSError:
        return None


def _is_locked(descriptor: int, end: float) -> bool:
    """Return whether a file could be locked in time."""
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= end:
                return False
            time.sleep(_PAUSE)


def _is_file(descriptor: int, path: Path) -> bool:
    """Return whether an open file is still that of a name: who had the lock has removed it."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False


def touch(path: Path, now: float) -> None:
    """Note that a file is used, if that is worth a write and possible."""
    with contextlib.suppress(OSError):
        if abs(now - path.lstat().st_mtime) > _COARSE:  # one of the future, too
            os.utime(path, follow_symlinks=False)


def entries(folder: Path) -> tuple[CacheFile, ...]:
    """Return the entries of a folder, those used longest ago first; none if it cannot be read."""
    found = [
        CacheFile(path, status.st_size, status.st_mtime)
        for path, status in _files(folder)
        if path.suffix in (SUFFIX, NOTE_SUFFIX) and _KEY.fullmatch(path.stem)
    ]
    return tuple(sorted(found, key=lambda one: (one.used, one.path.name)))


def leftovers(folder: Path, now: float) -> tuple[CacheFile, ...]:
    """Return the unfinished or temporary files of processes that were killed."""
    return tuple(
        CacheFile(path, status.st_size, status.st_mtime)
        for place in (folder, folder / SCRATCH)
        for path, status in _files(place)
        if _TEMPORARY.fullmatch(path.name) and now - status.st_mtime > _ABANDONED
    )


def remove(file: CacheFile) -> bool:
    """Remove a file that is as it was listed; return whether it is gone.

    Current readers go on reading.  One that was used or replaced since then stays.
    """
    try:
        if file.path.lstat().st_mtime != file.used:
            return False
        file.path.unlink()
    except FileNotFoundError:
        return True  # somebody else sweeps, too
    except OSError:
        return False
    return True


def sweep(folder: Path, limit: int, keep: str = "") -> tuple[CacheFile, ...]:
    """Remove the entries used longest ago until the others fill seven eighths of `limit` bytes.

    Parameters
    ----------
    folder : Path
        A cache; any number of processes may sweep it at the same time.
    limit : int
        Bytes.
    keep : str
        A key whose entry stays: the one that was just written.

    Returns
    -------
    tuple of CacheFile
        What was removed, leftovers of killed writers among it.
    """
    now = file_clock(folder)
    present = sorted(entries(folder), key=lambda one: _last_use(one, now))
    gone = [one for one in leftovers(folder, now) if remove(one)]
    excess = sum(one.size for one in present) - (limit - limit // _SPARE)
    for one in present:
        if excess <= 0:
            break
        if one.key != keep and remove(one):
            gone.append(one)
            excess -= one.size
    return tuple(gone)


def file_clock(folder: Path) -> float:
    """Return the time of a folder's file system, which need not be this machine's.

    What is there may have any date, so a new file is asked; 0 if none can be made: then nothing is
    old.
    """
    import tempfile

    try:
        descriptor, name = tempfile.mkstemp(prefix=".", suffix=".tmp", dir=folder)
    except OSError:
        return 0.0
    try:
        return os.fstat(descriptor).st_mtime
    finally:
        os.close(descriptor)
        with contextlib.suppress(OSError):
            Path(name).unlink()


def _last_use(one: CacheFile, now: float) -> float:
    """Return the time of an entry's last use; one with a date in the future was not since then."""
    return 0.0 if one.used > now + _COARSE else one.used


def _files(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    try:
        found = list(os.scandir(folder))
    except OSError:
        return
    for one in found:
        try:
            if one.is_file(follow_symlinks=False):
                yield Path(one.path), one.stat(follow_symlinks=False)
        except OSError:
            continue  # removed in between
