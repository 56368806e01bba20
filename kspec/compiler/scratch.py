"""A purpose in, a folder out that lasts as long as it is used, and no longer if that is killed.

The process holds a lock in the folder, which the system takes back however the process ends.  The
next process that needs a folder removes those whose locks are free.  A process id would not do:
containers that share a folder number their processes apart.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

_LOCK = ".lock"


@contextlib.contextmanager
def scratch_folder(purpose: str) -> Iterator[Path]:
    """Make a folder for temporary files, and remove it with them.

    Parameters
    ----------
    purpose : str
        What stands in its name.
    """
    _remove_abandoned(tempfile.gettempdir())
    with tempfile.TemporaryDirectory(
        prefix=f"kspec-{purpose}-", ignore_cleanup_errors=True
    ) as name:
        unlocked = Path(name) / f"{_LOCK}.new"
        with unlocked.open("w") as lock:
            with contextlib.suppress(OSError):  # a file system without locks: no one else has it
                fcntl.flock(lock, fcntl.LOCK_EX)
            unlocked.rename(Path(name) / _LOCK)  # never seen before it is held
            yield Path(name)


@functools.cache
def _remove_abandoned(parent: str) -> None:
    """Remove the folders of processes that have ended, once in a process."""
    with contextlib.suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            if entry.name.startswith("kspec-") and _is_own_folder(entry):
                with contextlib.suppress(OSError), Path(entry.path, _LOCK).open("r+") as lock:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(entry.path, ignore_errors=True)


def _is_own_folder(entry: os.DirEntry[str]) -> bool:
    with contextlib.suppress(OSError):  # removed meanwhile
        status = entry.stat(follow_symlinks=False)
        return entry.is_dir(follow_symlinks=False) and status.st_uid == os.geteuid()
    return False
