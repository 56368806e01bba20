"""Work of the default stream that other streams have to wait for.

>>> fence = StreamFence(0)                                                   # doctest: +SKIP
>>> fence.precedes(stream)  # whatever is queued on that stream now waits     # doctest: +SKIP
False

`kspec.runtime.memory.pool` has memory whose last owner may still be at work on the default stream
when the next one uses it on another.
"""

from __future__ import annotations

import weakref
from typing import Any

from kspec.runtime import driver
from kspec.runtime.driver import memory as driver_memory
from kspec.runtime.driver import stream as driver_streams


class StreamFence:
    """Everything that was queued on a device's default stream until now.

    Parameters
    ----------
    ordinal : int
        The device.
    """

    def __init__(self, ordinal: int) -> None:
        self._ordinal = ordinal
        self._event: Any = None
        with driver.on_device(ordinal), driver.whatever_is_captured():
            if not driver_streams.is_default_stream_usable():
                driver_memory.wait(ordinal)
                return
            self._event = driver_streams.record_event(ordinal, 0)
        # At interpreter exit the driver may be gone already, and the event with it.
        weakref.finalize(self, driver_streams.destroy_event, ordinal, self._event).atexit = False

    def precedes(self, stream: int) -> bool:
        """Let later work of a stream come after this.

        A graph that is captured from the stream may run anywhere: then the host waits.

        Returns
        -------
        bool
            Whether this has run, so that no stream needs to wait any more.
        """
        ordinal, event = self._ordinal, self._event
        if event is None or driver_streams.has_happened(ordinal, event):
            return True
        if driver_streams.is_capturing(ordinal, stream):
            driver_streams.synchronize_event(ordinal, event)
            return True
        driver_streams.wait_for_event(ordinal, stream, event)
        return False

    def wait(self) -> None:
        """Wait until this has run."""
        if self._event is not None:
            driver_streams.synchronize_event(self._ordinal, self._event)
