"""Files as the operating system has them: kspec's own, those of users, and what it refuses.

>>> explain(OSError(errno.ENOSPC, "No space left on device", "a/b.fatbin"))
'a/b.fatbin: No space left on device; free some space, or use another disk'

Files that users name are read by `read_regular`: a pipe would wait for its writer, and a device
need not end.  Compilers read kspec's own headers, from folders and not from archives.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from kspec.errors import FileError, KspecError, ToolNotFoundError

ROOT = Path(__file__).resolve().parent

_RIGHTS = "see who owns it, and who may read and write it"
_REMEDIES = {
    errno.EACCES: _RIGHTS,
    errno.EPERM: _RIGHTS,
    errno.EROFS: "it is on a read-only file system; use another folder",
    errno.ENOSPC: "free some space, or use another disk",
    errno.EDQUOT: "free some space, or use another disk",
    errno.EFBIG: "raise the limit on file sizes (ulimit -f)",
    errno.EMFILE: "raise the limit on open files (ulimit -n)",
    errno.ENFILE: "close other programs: the system has no more open files",
    errno.EAGAIN: "raise the limit on processes (ulimit -u), or try again",
    errno.ENOMEM: "free some memory, and try again",
    errno.ELOOP: "remove the link that leads to itself",
    errno.ENAMETOOLONG: "use a shorter name",
    errno.EISDIR: "a file is required; remove the folder, or name another path",
    errno.ENOTDIR: "a folder is required; remove the file, or name another path",
    errno.EEXIST: "something else has this name; remove it, or name another path",
    errno.ENOTEMPTY: "the folder has other files; move them, or name another path",
    errno.EINVAL: "a regular file is required; remove it, or name another path",
    errno.ENOENT: "see that it exists",
    errno.EIO: "the disk or its connection fails; try again, or use another disk",
    errno.ESTALE: "the network file system has changed; try again",
    errno.ETXTBSY: "a program uses it; try again",
    errno.EBUSY: "the system uses it; name another path",
}
_GONE = "the current folder was removed; change to one that exists (cd)"


@functools.cache
def check_unpacked() -> None:
    """Check that kspec was not imported from an archive, in which nothing but Python finds files.

    Raises
    ------
    ToolNotFoundError
        If it was.
    """
    archive = next((one for one in ROOT.parents if one.is_file()), None)
    if archive is not None:
        raise ToolNotFoundError(
            f"kspec was imported from {archive}, an archive, and compilers cannot read its headers "
            "there; install kspec, or unpack the archive"
        )


def explain(error: OSError) -> str:
    """Return the path that an error is about, the reason, and what to do about it."""
    if error.errno == errno.ENOENT and error.filename is None and _is_homeless():
        return _GONE
    name = error.filename  # a number, if a descriptor was opened
    where = f"{os.fsdecode(name)}: " if isinstance(name, str | bytes | os.PathLike) else ""
    remedy = _REMEDIES.get(error.errno or 0, "")
    return f"{where}{error.strerror or error}{'; ' if remedy else ''}{remedy}"


@contextlib.contextmanager
def system_refusals() -> Iterator[None]:
    """Turn errors of the operating system in the block, or in a function, into a `FileError`."""
    try:
        yield
    except KspecError:
        raise
    except OSError as error:
        raise FileError(explain(error)) from error


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Have errors of the system in the block say which file they are about: writes do not."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


def read_regular(path: Path) -> bytes:
    """Return the bytes of a file.

    Raises
    ------
    OSError
        If there is none, it cannot be read, or is a folder, a pipe or a device; it has the path.
    """
    try:
        with open(path, "rb", opener=_opened) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise OSError(errno.EINVAL, "not a regular file", str(path))
            return file.read()
    except ValueError as error:  # characters that no name of a file has
        raise OSError(errno.EINVAL, f"not a name of a file ({error})", ascii(str(path))) from None


def is_file(path: Path) -> bool:
    """Return whether there is a file, as compilers look: what cannot be seen is not there."""
    try:
        return path.is_file()
    except OSError:  # a folder that may not be searched, a name that is too long
        return False


def resolved(path: Path) -> Path:
    """Return a path without links, as far as it exists; a link to itself stays as it is.

    `Path.resolve` raises `RuntimeError` for one, before Python 3.13.
    """
    return Path(os.path.realpath(path))


def _opened(path: str, flags: int) -> int:
    # A pipe is opened without waiting for a writer, and refused then.
    return os.open(path, flags | os.O_NONBLOCK)


def _is_homeless() -> bool:
    """Return whether the current folder was removed."""
    try:
        Path.cwd()
    except FileNotFoundError:
        return True
    return False
