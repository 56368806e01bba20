"""Arrays that are kept until a kernel has run, after their last other user dropped them.

>>> defer_release(0, stream, (x, y))                                        # doctest: +SKIP

Libraries use the memory of a dropped array anew in the order of their own stream.  Work on another
stream may come later than that, so its arrays are kept here, with an event behind it.  CUDA does
not call back when an event completes: the next call that keeps arrays releases those of completed
events.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from kspec.locks import OnceMap, make_lock
from kspec.runtime.driver import stream as driver_streams


class DeferredRelease:
    """Objects in use by kernels that have not finished on one device, in launch order.

    Parameters
    ----------
    ordinal : int
        The device.
    """

    def __init__(self, ordinal: int) -> None:
        self._ordinal = ordinal
        self._pending: deque[tuple[Any, object]] = deque()  # events, and what waits for them
        self._lock = make_lock()

    def keep(self, stream: int, objects: Sequence[object]) -> None:
        """Keep objects until everything queued on a stream by now has run."""
        event = driver_streams.record_event(self._ordinal, stream)
        done: list[tuple[Any, object]] = []
        with self._lock:
            self._pending.append((event, tuple(objects)))
            # Streams are not in step: what is behind one that has not run waits with it.
            while self._pending:
                # Taken out first: a signal handler may come in between, and do the same.
                first = self._pending.popleft()
                if not driver_streams.has_happened(self._ordinal, first[0]):
                    self._pending.appendleft(first)
                    break
                done.append(first)
        for finished, _ in done:
            driver_streams.destroy_event(self._ordinal, finished)
        # The objects go after the lock: their finalizers may run kernels.

    def __len__(self) -> int:
        return len(self._pending)


# One for each device; functools.cache would make two for two threads that come first together.
_DEFERRED: OnceMap[int, DeferredRelease] = OnceMap()


def deferred_on(ordinal: int) -> DeferredRelease:
    """Return the objects that kernels on a device still use."""
    return _DEFERRED.get_or_make(ordinal, lambda: DeferredRelease(ordinal))


def defer_release(ordinal: int, stream: int, objects: Sequence[object]) -> None:
    """Keep objects until everything queued on a stream of a device by now has run.

    While a graph is made of it there is nothing to wait for: the launcher of the graph keeps them.
    """
    if not driver_streams.is_capturing(ordinal, stream):
        deferred_on(ordinal).keep(stream, objects)
