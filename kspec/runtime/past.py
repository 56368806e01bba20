"""Work of the default stream that other streams have to wait for.

>>> past = Past(0)                                                           # doctest: +SKIP
>>> past.precedes(stream)  # whatever is queued on that stream now waits     # doctest: +SKIP
False

`kspec.runtime.pool` has memory whose last owner may still be at work on the default stream when
the next one uses it on another.
"""

from __future__ import annotations

import weakref
from typing import Any

from kspec.runtime import driver


class Past:
    """Everything that was queued on a device's default stream until now.

    Parameters
    ----------
    ordinal : int
        The device.
    """

    def __init__(self, ordinal: int) -> None:
        self._ordinal = ordinal
        self._event: Any = None
        bindings = driver.bindings()
        with driver.on_device(ordinal), driver.whatever_is_captured():
            if driver.is_default_stream_usable():
                flags = bindings.CUevent_flags.CU_EVENT_DISABLE_TIMING
                self._event = driver.check(bindings.cuEventCreate(flags))
                # At interpreter exit the driver may be gone already, and the event with it.
                weakref.finalize(self, _destroy, ordinal, self._event).atexit = False
                driver.check(bindings.cuEventRecord(self._event, 0))
            else:
                driver.wait(ordinal)

    def precedes(self, stream: int) -> bool:
        """Let what is queued on a stream from now on come after this.

        A graph that is being made of what is queued there may run anywhere: then the host waits.

        Returns
        -------
        bool
            Whether this has run, so that no stream needs to wait any more.
        """
        if self._event is None:
            return True
        bindings = driver.bindings()
        with driver.on_device(self._ordinal), driver.whatever_is_captured():
            (code,) = bindings.cuEventQuery(self._event)
            if code != bindings.CUresult.CUDA_ERROR_NOT_READY:
                driver.check((code,))
                return True
            if driver.is_capturing(self._ordinal, stream):
                driver.check(bindings.cuEventSynchronize(self._event))
                return True
            driver.check(bindings.cuStreamWaitEvent(stream, self._event, 0))
        return False

    def wait(self) -> None:
        """Wait until this has run."""
        if self._event is not None:
            with driver.on_device(self._ordinal), driver.whatever_is_captured():
                driver.check(driver.bindings().cuEventSynchronize(self._event))


def _destroy(ordinal: int, event: Any) -> None:
    with driver.on_device(ordinal), driver.whatever_is_captured():
        driver.check(driver.bindings().cuEventDestroy(event))
