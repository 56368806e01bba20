"""Locks that are open in a forked process, and those that signal handlers need not wait for.

>>> with make_lock() as held:
...     held
True

A fork copies locks but not the threads that would release them, and a signal handler runs between
any two steps of the main thread.  What such a lock guards must be right between any two steps of
its holder: a child, or a handler, finds it as it was and goes on from there.
"""

from __future__ import annotations

import operator
import os
import threading
import weakref

from kspec.errors import LaunchError

_locks: weakref.WeakSet[threading.RLock] = weakref.WeakSet()
# The way of the standard library's own locks, in `logging` and `concurrent.futures`.
_reopen = operator.methodcaller("_at_fork_reinit")
_is_mine = operator.methodcaller("_is_owned")  # which `threading.Condition` asks of its lock


def make_lock() -> threading.RLock:
    """Return a new lock, which a thread may take again while it has it."""
    lock = threading.RLock()
    _locks.add(lock)
    return lock


class Turn:
    """Lets one thread after another in, and refuses the one that is in already.

    Signal handlers run between any two steps of the main thread. One that asks for what it has
    interrupted would wait for itself.
    """

    def __init__(self) -> None:
        self._lock = make_lock()

    def __enter__(self) -> None:
        if _is_mine(self._lock):
            raise LaunchError(
                "a signal handler cannot launch a kernel while its thread launches or compiles "
                "one; set a flag in the handler, and launch later"
            )
        self._lock.acquire()

    def __exit__(self, *exception: object) -> None:
        self._lock.release()


def _reopen_all() -> None:
    for lock in list(_locks):
        if not _is_mine(lock):  # a signal handler may fork
            _reopen(lock)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reopen_all)
