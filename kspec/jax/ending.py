"""The end of a process in which programs still run.

Once the interpreter has ended, a thread that wants to run Python code is ended as well, and takes
XLA with it: the process aborts, or waits for that thread for ever.  So nothing may be inside a
kernel by then, or come to one.

JAX waits for programs whose results somebody holds, or that have effects.  Others cannot be asked
for, but they are over when no kernel has been run for a while.  Those that go on, as in a daemon
thread that runs one after the other, are ended by an error.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

import jax

# How long no kernel has been run when programs are over; what else they compute comes between.
_QUIET = 0.1  # seconds
_QUIET_BESIDE_THREADS = 1.0
# How long they may go on, first without an error and then with one.
_GRACE = 2.0
_STEP = 0.01

T = TypeVar("T")
Result = TypeVar("Result")


class RunningCalls:
    """The calls of kernels by programs, from the first to the last of a process."""

    def __init__(self) -> None:
        self._inside: set[int] = set()  # threads that run a kernel
        self._known: set[int] = set()  # threads that have run one
        self._last = 0.0
        self._ending: int | None = None  # the only thread that may still run kernels

    def run(self, call: Callable[[T], Result], what: T) -> Result:
        """Return the result of the call of a kernel.

        Raises
        ------
        RuntimeError
            If the process ends, and programs should have been over.
        """
        thread = threading.get_ident()
        self._known.add(thread)
        self._inside.add(thread)  # before the question: `wait` answers it before it looks here
        try:
            if self._ending not in (None, thread):
                raise RuntimeError("the process ends, and runs no more kernels")
            return call(what)
        finally:
            self._last = time.monotonic()
            self._inside.discard(thread)

    def wait(self) -> None:
        """Wait until no program runs kernels any more."""
        with contextlib.suppress(Exception):  # a program has failed
            jax.effects_barrier()
        if not self._are_over():
            self._ending = threading.get_ident()
            self._are_over()
        while self._inside:  # a kernel cannot be interrupted
            time.sleep(_STEP)

    def _are_over(self) -> bool:
        """Return whether programs end in time."""
        begin = time.monotonic()
        quiet = _QUIET_BESIDE_THREADS if self._known & _daemons() else _QUIET
        while time.monotonic() < begin + _GRACE:
            for one in _results():
                with contextlib.suppress(Exception):  # it has failed, or was given away
                    one.block_until_ready()
            if not self._inside and time.monotonic() > max(begin, self._last) + quiet:
                return True
            time.sleep(_STEP)
        return False


def _daemons() -> set[int | None]:
    """Return the threads of Python's that the interpreter does not wait for."""
    return {one.ident for one in threading.enumerate() if one.daemon}


def _results() -> list[Any]:
    """Return the arrays on the CPU that somebody holds."""
    try:
        return jax.live_arrays("cpu")  # type: ignore[no-any-return]
    except RuntimeError:  # JAX has been told to leave the CPU alone
        return []
