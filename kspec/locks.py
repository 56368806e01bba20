"""Locks that are open in a forked process, whichever thread of its parent held them.

>>> with make_lock() as held:
...     held
True

A fork copies locks but not the threads that would release them.  What such a lock guards must be
right between any two steps of its holder: the child finds it as it was, and goes on from there.
"""

from __future__ import annotations

import operator
import os
import threading
import weakref

_locks: weakref.WeakSet[threading.Lock | threading.RLock] = weakref.WeakSet()
# The way of the standard library's own locks, in `logging` and `concurrent.futures`.
_reopen = operator.methodcaller("_at_fork_reinit")


def make_lock() -> threading.Lock:
    """Return a new lock."""
    lock = threading.Lock()
    _locks.add(lock)
    return lock


def make_rlock() -> threading.RLock:
    """Return a new lock that a thread may take again while it has it."""
    lock = threading.RLock()
    _locks.add(lock)
    return lock


def _reopen_all() -> None:
    for lock in list(_locks):
        _reopen(lock)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reopen_all)
