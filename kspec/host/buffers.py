"""Memory of the host device: sizes in, buffers between guards out."""

from __future__ import annotations

import weakref

from kspec.errors import HostFault
from kspec.host import runtime


class HostBuffer:
    """Memory of the host device: it ends at 64 MiB of guard, so overruns fault at once.

    Beyond some thousands of them, buffers share pages and have no guard.

    Parameters
    ----------
    nbytes : int
        Size; its end, rounded up to `alignment`, touches the guard.
    alignment : int
        Of the address, in bytes. What it leaves free is checked after every launch.

    Attributes
    ----------
    ptr : int
        Address of the first byte.
    nbytes : int
        Size asked for.
    """

    def __init__(self, nbytes: int, alignment: int = 16) -> None:
        if nbytes < 0:
            raise ValueError(f"negative size: {nbytes}")
        if alignment < 1 or alignment & (alignment - 1) or alignment > 4096:
            raise ValueError(f"alignment {alignment} is not a power of two up to 4096")
        run = runtime.load_runtime()
        handle = run.allocate(nbytes, alignment)
        if not handle:
            raise MemoryError(f"the host device cannot allocate {nbytes} bytes")
        self.ptr = run.address(handle)
        self.nbytes = nbytes
        self._finalizer = weakref.finalize(self, run.free, handle)
        # At exit other objects may still point into it, and the system takes it back anyway.
        self._finalizer.atexit = False

    def free(self) -> None:
        """Give the memory back now; a second call does nothing."""
        self._finalizer()


def check_canaries() -> None:
    """Raise `HostFault` when bytes just outside a buffer were written; launches do this."""
    run = runtime.load_runtime()
    with runtime.LAUNCHING:
        if not run.check_canaries():
            return
        record = run.fault().contents
        kind, message = record.kind.decode(), record.message.decode()
    raise HostFault(kind, f"{kind}: {message}")
