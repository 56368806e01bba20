"""A call whose arguments are fixed: checked once, launched as often as wanted.

>>> import numpy as np
>>> from kspec import ElementwiseKernel
>>> add_to = ElementwiseKernel("T x", "T total", "total += x", "add_to")
>>> total = np.zeros(3)
>>> step = add_to.bind(np.arange(3.0), total)
>>> for _ in range(10):
...     _ = step()
>>> total
array([ 0., 10., 20.])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kspec.runtime.callcache.param_buffer import ParameterBuffers
from kspec.runtime.libraries.registry import Library
from kspec.runtime.libraries.untraced import untraced
from kspec.runtime.memory.handle import Handle


class Bound(Handle):
    """A bound call, from ``kernel.bind(...)``; calling it launches the kernel and nothing else.

    Threads may share it.

    Parameters
    ----------
    buffers : ParameterBuffers or None
        Buffers that launch the kernel; None: there is nothing to do.
    again : callable
        Makes the call in full. It holds the arguments, whose memory the kernel uses.
    in_full : callable or None
        Says at each call whether it is to be made in full.
    result : object
        Result of calls.
    counted : sequence of (Library, object)
        Arrays that it writes to whose libraries want to know.

    Attributes
    ----------
    result : object
        Result of each call: the outputs, the same arrays every time.
    """

    __slots__ = ("_again", "_buffers", "_counted", "_in_full", "result")

    instead = "copy the kernel and its arguments, and bind them again"

    def __init__(
        self,
        buffers: ParameterBuffers | None,
        again: Callable[[], Any],
        in_full: Callable[[], bool] | None,
        result: Any = None,
        counted: Sequence[tuple[Library, Any]] = (),
    ) -> None:
        self.result = result
        self._again = again
        self._in_full = in_full
        self._buffers = buffers
        self._counted = counted
        if buffers is not None and not (in_full is not None and in_full()):
            buffers.spare(buffers.fresh())

    @untraced
    def __call__(self) -> Any:
        """Launch the kernel.

        On the host device, checks that are wanted by then (`kspec.checking`, the environment, the
        kernel's `checks`) are made.
        """
        if self._in_full is not None and self._in_full():
            return self._again()
        buffers = self._buffers
        if buffers is not None:
            # All hold the same: each has a key of its own, so that several can be free.
            try:
                key, buffer = buffers.free.popitem()
            except KeyError:
                key, buffer = object(), buffers.fresh()
            for library, array in self._counted:
                library.wrote(array)
            code = buffer.launch()
            if code:
                buffers.relaunch(buffer, code)
            buffers.free[key] = buffer
        return self.result
