"""Locks that are open in a forked process, and maps whose values one of many threads makes.

>>> with make_lock() as held:
...     held
True
>>> squares = OnceMap()
>>> squares.get_or_make(3, lambda: 9), squares.get(3), squares.get(4)
(9, 9, None)

A fork copies locks but not the threads that would release them, and a signal handler runs between
any two steps of the main thread.  What such a lock guards must be right between any two steps of
its holder: a child, or a handler, finds it as it was and goes on from there.
"""

from __future__ import annotations

import operator
import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from kspec.errors import LaunchError

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

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


class OnceMap(Generic[K, V]):
    """A dictionary that makes its own values, each under a lock of its own.

    Making one value may ask for another (of another key, or in another map), as long as they do
    not ask for each other in a circle.
    """

    def __init__(self) -> None:
        self._values: dict[K, V] = {}
        self._guards: dict[K, Turn] = {}
        self._lock = make_lock()

    def get(self, key: K) -> V | None:
        """Return a value that is there already, without waiting for one being made."""
        return self._values.get(key)

    def get_or_make(self, key: K, make: Callable[[], V]) -> V:
        """Return the value of `key`; the first thread makes it, later ones wait for it.

        When `make` raises, nothing is kept and the next thread tries again.
        """
        with self._lock:
            if key in self._values:
                return self._values[key]
            guard = self._guards.setdefault(key, Turn())
        with guard:
            if key not in self._values:
                self._values[key] = make()
            with self._lock:
                # Who waits holds the guard already; who comes later finds the value.
                self._guards.pop(key, None)
            return self._values[key]

    def keys(self) -> tuple[K, ...]:
        """Return the keys of the made values, in that order."""
        return tuple(self._values)


class RecentMap(Generic[K, V]):
    """Values that are made once for each key while they are in use, and the latest few anyway.

    Parameters
    ----------
    count : int
        How many of the keys that were asked for last keep their values.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._recent: OrderedDict[K, V] = OrderedDict()
        self._values: weakref.WeakValueDictionary[K, V] = weakref.WeakValueDictionary()
        self._guards: weakref.WeakValueDictionary[K, Turn] = weakref.WeakValueDictionary()
        self._lock = make_lock()

    def get_or_make(self, key: K, make: Callable[[], V]) -> V:
        """Return the value of `key`; as `OnceMap.get_or_make`."""
        with self._lock:
            value = self._values.get(key)
            if value is not None:
                return self._note(key, value)
            guard = self._guards.setdefault(key, Turn())
        with guard:
            value = self._values.get(key)
            if value is None:
                value = make()
            with self._lock:
                return self._note(key, value)

    def __len__(self) -> int:
        return len(self._values)

    def _note(self, key: K, value: V) -> V:
        self._values[key] = value
        self._recent[key] = value
        self._recent.move_to_end(key)
        while len(self._recent) > self._count:
            self._recent.popitem(last=False)
        return value


def _reopen_all() -> None:
    for lock in list(_locks):
        if not _is_mine(lock):  # a signal handler may fork
            _reopen(lock)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reopen_all)
