"""Whose files are executed: the status of a file in, why it is not to be trusted out.

::

    distrusted(os.fstat(descriptor))    # "user 1001 owns it; chown it to user 1000"
    data = read_trusted(folder / "5f0c.image")

What a cache holds runs with the rights of the process.  So a file counts only if the user of the
process or root owns it, and no one else has the right to write it.
A group counts as its owner where it is the owner's private one, as many systems have it.
"""

from __future__ import annotations

import errno
import grp
import os
import pwd
import stat
from pathlib import Path

_ROOT = 0
# Neither through a link, nor waiting for the other end of a pipe.
OPEN = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class DistrustedError(OSError):
    """A file that others may have written; `strerror` says why."""


def distrusted(status: os.stat_result) -> str:
    """Return why others may have written a file or the files of a folder, and what to do about it.

    Empty if only the user of this process and root can have done so.
    """
    user = os.geteuid()
    if status.st_uid not in (user, _ROOT):
        return f"it belongs to user {status.st_uid}, and this is user {user}; chown it"
    if status.st_mode & stat.S_IWOTH:
        return "everyone can write it; chmod o-w it"
    if status.st_mode & stat.S_IWGRP and not _is_private(status.st_gid, status.st_uid):
        return f"group {status.st_gid} can write it; chmod g-w it"
    return ""


def distrusted_folder(folder: Path) -> str:
    """Return the same of a folder; empty if there is none, or if it cannot be looked at."""
    try:
        return distrusted(folder.stat())
    except OSError:
        return ""


def check_own_folder(folder: Path, follow: bool = False) -> None:
    """Check that no one else can put files into a folder.

    Raises
    ------
    OSError
        If it is not a folder; a link to one only counts with `follow`.
    DistrustedError
        If others can write it.
    """
    status = folder.stat(follow_symlinks=follow)
    if not stat.S_ISDIR(status.st_mode):
        raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))
    reason = distrusted(status)
    if reason:
        raise DistrustedError(errno.EPERM, f"{folder}: {reason}", str(folder))


def _is_private(group: int, owner: int) -> bool:
    """Return whether a group is the one that has its owner's name, and no other member."""
    try:
        user, members = pwd.getpwuid(owner), grp.getgrgid(group)
    except KeyError:
        return False
    is_own = user.pw_gid == group and members.gr_name == user.pw_name
    return is_own and {*members.gr_mem} <= {user.pw_name}


def check_regular(descriptor: int, path: Path) -> os.stat_result:
    """Return the status of an open file.

    Raises
    ------
    OSError
        If it is not a regular file.
    """
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return status


def read_trusted(path: Path) -> bytes:
    """Return the bytes of a file that only the user and root can have written.

    Raises
    ------
    DistrustedError
        If others can.
    OSError
        If there is none, or it is a link, a pipe or a folder.
    """
    with open(path, "rb", opener=_opened) as file:
        reason = distrusted(check_regular(file.fileno(), path))  # what is checked is what is read
        if reason:
            raise DistrustedError(errno.EPERM, reason, str(path))
        return file.read()


def _opened(path: str, flags: int) -> int:
    return os.open(path, flags | OPEN)
