"""A folder replaced as a whole: readers see the old files or the new ones, never a mixture.

::

    with exclusive(folder):
        replace_folder(folder, {"__init__.py": b"..."})

The new folder is staged beside the old one under a hidden name and the two are exchanged in one
system call.  Whatever interrupts that leaves the old folder, and a hidden one that the next
build removes.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from kspec.errors import SpecError
from kspec.files import naming

_NO_LOCK = "{}: the lock of builds is not a regular file; remove it"
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


@contextlib.contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Let one build at a time work on a folder; others wait.  Removes what was left behind."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with locked(folder.parent / f".{folder.name}.lock"):
        _recover(folder)
        yield


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock that a file stands for; the file is gone afterwards.

    So no source distribution and no commit can catch it.

    Raises
    ------
    SpecError
        If something else is in its place, such as a link: nothing is written to what it leads to.
    """
    with contextlib.ExitStack() as stack:
        while True:
            lock = stack.enter_context(os.fdopen(_opened(path), "rb"))
            fcntl.flock(lock, fcntl.LOCK_EX)  # released when the process ends, however it ends
            if _is_file(path, lock.fileno()):
                break
            lock.close()  # who had it has removed it: others lock another file now
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def _opened(path: Path) -> int:
    """Return the descriptor of a lock's file, which is made if there is none."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags, 0o666)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
            raise SpecError(_NO_LOCK.format(path)) from None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise SpecError(_NO_LOCK.format(path))
    return descriptor


def write_whole(path: Path, data: bytes) -> None:
    """Write a file as a whole or not at all; a link in its place is replaced, not followed.

    Call it while no other build works here.
    """
    staging = path.with_name(f".{path.name}.staging")
    staging.unlink(missing_ok=True)
    try:
        with naming(path), staging.open("xb") as file:
            file.write(data)
        if path.is_file() and not path.is_symlink():
            shutil.copymode(path, staging)
        staging.replace(path)
    finally:
        staging.unlink(missing_ok=True)


def _is_file(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.lstat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def read_folder(folder: Path) -> dict[str, bytes]:
    """Return every file below a folder by its relative name; compiled Python is left out."""
    return {name: (folder / name).read_bytes() for name in list_folder(folder)}


def list_folder(folder: Path) -> list[str]:
    """Return the relative names of the files below a folder, sorted; without compiled Python."""
    files = (path.relative_to(folder) for path in sorted(folder.rglob("*")) if path.is_file())
    return [
        name.as_posix()
        for name in files
        if name.suffix != ".pyc" and "__pycache__" not in name.parts
    ]


def replace_folder(folder: Path, files: Mapping[str, bytes]) -> tuple[str, ...]:
    """Make a folder hold exactly these files; call it under `exclusive`.

    Returns
    -------
    tuple of str
        Names of the files that are new, changed or gone, sorted; without any, nothing is
        written.
    """
    before = read_folder(folder)
    changed = [name for name in {**before, **files} if before.get(name) != files.get(name)]
    if not changed and folder.is_dir():
        return ()
    staging = _staging(folder)
    staging.mkdir()
    try:
        for name, content in files.items():
            path = staging / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if before.get(name) == content:
                shutil.copy2(folder / name, path)  # keeps the time of unchanged files
            else:
                with naming(folder / name):
                    path.write_bytes(content)
        _put_in_place(staging, folder)
    finally:
        _remove(staging)
    return tuple(sorted(changed))


def _staging(folder: Path) -> Path:
    return folder.parent / f".{folder.name}.staging"


def _retired(folder: Path) -> Path:
    return folder.parent / f".{folder.name}.retired"


def _recover(folder: Path) -> None:
    """Undo what an interrupted build left."""
    retired = _retired(folder)
    if retired.is_dir() and not retired.is_symlink() and not folder.exists():
        retired.rename(folder)
    for path in (retired, _staging(folder)):
        _remove(path)


def _put_in_place(staging: Path, folder: Path) -> None:
    """Put the staged folder in the place of the other."""
    if not folder.exists():
        staging.rename(folder)
    elif not _exchange(staging, folder):
        # No such system call here: for a moment there is no folder, and `_recover` knows.
        retired = _retired(folder)
        folder.rename(retired)
        staging.rename(folder)
        _remove(retired)


def _remove(path: Path) -> None:
    """Remove what is left of a build, as far as that is possible, whatever it is by now."""
    with contextlib.suppress(OSError):
        if stat.S_ISDIR(path.lstat().st_mode):
            shutil.rmtree(path, ignore_errors=True)  # which waits for the writer of a pipe
        else:
            path.unlink()


def _exchange(first: Path, second: Path) -> bool:
    """Exchange two folders atomically; False where the system cannot."""
    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if renameat2 is None:
        return False
    paths = os.fsencode(first), os.fsencode(second)
    if renameat2(_AT_FDCWD, paths[0], _AT_FDCWD, paths[1], _RENAME_EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.EINVAL, errno.ENOSYS, errno.EPERM):
        return False
    raise OSError(code, os.strerror(code), str(second))
