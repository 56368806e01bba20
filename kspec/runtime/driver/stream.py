"""Streams of CUDA devices: what waits for what, and what becomes a graph."""

from __future__ import annotations

from typing import Any

from kspec import config
from kspec.runtime import driver

# Handles that are not addresses: of each device's legacy default stream, and each thread's.
LEGACY_STREAM, PER_THREAD_STREAM = 1, 2


def synchronize_stream(ordinal: int, stream: int) -> None:
    """Wait for everything queued on a stream."""
    with driver.on_device(ordinal):
        driver.check(driver.bindings().cuStreamSynchronize(stream))


def wait_for_stream(ordinal: int, stream: int, other: int, origin: int | None = None) -> None:
    """Let later work of a stream run after the work queued on another one.

    `origin`: the device of the other one, if it is not the same.
    """
    bindings = driver.bindings()
    with driver.on_device(ordinal if origin is None else origin), driver.whatever_is_captured():
        flags = bindings.CUevent_flags.CU_EVENT_DISABLE_TIMING
        event = driver.check(bindings.cuEventCreate(flags))
        try:
            driver.check(bindings.cuEventRecord(event, other))
            with driver.on_device(ordinal):  # which the default stream of no handle is of
                driver.check(bindings.cuStreamWaitEvent(stream, event, 0))
        finally:
            driver.check(bindings.cuEventDestroy(event))


def record_event(ordinal: int, stream: int) -> Any:
    """Return a new event that happens when everything queued on a stream by now has run."""
    bindings = driver.bindings()
    with driver.on_device(ordinal), driver.whatever_is_captured():
        event = driver.check(bindings.cuEventCreate(bindings.CUevent_flags.CU_EVENT_DISABLE_TIMING))
        driver.check(bindings.cuEventRecord(event, stream))
    return event


def has_happened(ordinal: int, event: Any) -> bool:
    """Return whether an event has happened, without waiting for it."""
    bindings = driver.bindings()
    with driver.on_device(ordinal), driver.whatever_is_captured():
        (code,) = bindings.cuEventQuery(event)
    if code == bindings.CUresult.CUDA_ERROR_NOT_READY:
        return False
    driver.check((code,))
    return True


def wait_for_event(ordinal: int, stream: int, event: Any) -> None:
    """Let what is queued on a stream from now on run after an event."""
    with driver.on_device(ordinal), driver.whatever_is_captured():
        driver.check(driver.bindings().cuStreamWaitEvent(stream, event, 0))


def synchronize_event(ordinal: int, event: Any) -> None:
    """Wait until an event has happened."""
    with driver.on_device(ordinal), driver.whatever_is_captured():
        driver.check(driver.bindings().cuEventSynchronize(event))


def destroy_event(ordinal: int, event: Any) -> None:
    """Give an event back."""
    with driver.on_device(ordinal), driver.whatever_is_captured():
        driver.check(driver.bindings().cuEventDestroy(event))


def is_stream_of(ordinal: int, stream: int) -> bool:
    """Return whether work for a device can be queued on a stream."""
    if stream in (0, LEGACY_STREAM, PER_THREAD_STREAM):
        return True
    context = driver.check(driver.bindings().cuStreamGetCtx(stream))
    return int(context) == int(driver.context_of(ordinal))


def is_of_thread(stream: int) -> bool:
    """Return whether a handle means another stream in each thread."""
    if stream:
        return stream == PER_THREAD_STREAM
    return config.per_thread_default_stream()


def can_be_captured(stream: int) -> bool:
    """Return whether work on a stream can become a graph: that on the legacy default one not."""
    return stream not in (0, LEGACY_STREAM) or is_of_thread(stream)


def is_default_stream_usable() -> bool:
    """Return whether work can be queued on the current device's default stream.

    Not while a stream that waits for it is being captured.
    """
    bindings = driver.bindings()
    code, _ = bindings.cuStreamIsCapturing(0)
    if code == bindings.CUresult.CUDA_ERROR_STREAM_CAPTURE_IMPLICIT:
        return False
    driver.check((code,))
    return True


def is_capturing(ordinal: int, stream: int) -> bool:
    """Return whether what is queued on a stream becomes a graph."""
    if not can_be_captured(stream):
        return False
    bindings = driver.bindings()
    with driver.on_device(ordinal):
        status = driver.check(bindings.cuStreamIsCapturing(stream))
    return bool(status != bindings.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_NONE)
