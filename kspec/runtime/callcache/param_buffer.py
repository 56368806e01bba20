"""Launching one kernel again and again, each time with other values for its parameters.

>>> now = x.data.ptr, z.data.ptr                                             # doctest: +SKIP
>>> buffer = buffers.free.pop(now, None) or buffers.adapt(now)                  # doctest: +SKIP
>>> code = buffer.launch()                                                    # doctest: +SKIP
>>> if buffers.free.setdefault(now, buffer) is not buffer: buffers.spare(buffer)  # doctest: +SKIP

A buffer belongs to one call at a time: taking it and giving it back are atomic, so calls of several
threads never share one, and no call waits.  A buffer that an exception loses is garbage.

What is launched often becomes a CUDA graph (`kspec.runtime.driver.graph`), buffer by buffer, as
long as there are not too many graphs.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from kspec.errors import DriverError
from kspec.locks import make_lock
from kspec.runtime.driver.graph import GraphStart
from kspec.runtime.driver.launch import Launch
from kspec.runtime.driver.launch_ex import Start
from kspec.runtime.modules import LoadedKernel
from kspec.runtime.schedules.marshal import PackedParameters

Pack = Callable[..., None]

MAX_GRAPHS = 128  # of the process; each takes 112 KiB of the device's memory
MAX_BUFFERS = 4  # of one `ParameterBuffers` that launch graphs
HOT = 50  # launches after which a graph is made, which takes as long as 70 of its launches save


class ParameterBuffer:
    """Parameters in memory, and what launches the kernel with them.

    Parameters
    ----------
    kernel : LoadedKernel
        What is launched.
    launch : Launch
        How.
    params : PackedParameters
        Its parameters.
    start : callable
        Launches it, as `LoadedKernel.prepare` returns it.
    scratch : object, optional
        Memory that the parameters refer to.

    Attributes
    ----------
    launch : callable
        Launches the kernel; returns 0, or a code for `ParameterBuffers.relaunch`.
    params : PackedParameters
        Its parameters.
    graph : GraphStart or None
        What is to take over the parameters before it is launched; None: the kernel itself is
        launched.
    """

    __slots__ = ("__weakref__", "_scratch", "_warming", "graph", "launch", "params")

    def __init__(
        self,
        kernel: LoadedKernel,
        launch: Launch,
        params: PackedParameters,
        start: Start,
        scratch: object = None,
    ) -> None:
        self.launch = start
        self.params = params
        self._scratch = scratch
        self.graph: GraphStart | None = None
        self._warming: _Warming | None = None
        if kernel.becomes_graph(launch):
            self._warming = _Warming(self, kernel, launch)
            self.launch = self._warming

    def demote(self) -> None:
        """Launch the kernel itself again; any thread may say so at any time."""
        # In this order: who sees that there is nothing to update launches no graph any more. And
        # not while it becomes a graph again.
        assert self._warming is not None
        with _changing:
            self.launch = self._warming
            self.graph = None


class _Warming:
    """Launches the kernel of a buffer, and makes a graph of it when that has happened often."""

    def __init__(self, buffer: ParameterBuffer, kernel: LoadedKernel, launch: Launch) -> None:
        self._buffer = weakref.ref(buffer)  # which has us
        self._kernel = kernel
        self._launch = launch
        self._plain = buffer.launch
        self._wanted = HOT
        self._left = HOT

    def __call__(self) -> int:
        code = self._plain()
        self._left -= 1
        if self._left <= 0 and not code:
            self._promote()
        return code

    def _promote(self) -> None:
        buffer = self._buffer()
        assert buffer is not None  # its launcher has it
        # A buffer that gives way to others and comes back has to earn it: there are too many.
        self._wanted = self._left = 4 * self._wanted
        try:
            graph = self._kernel.make_graph(self._launch, buffer.params, self._plain)
        except DriverError:
            return  # the kernel has been launched, which is all that was asked for
        with _changing:
            buffer.graph = graph
            buffer.launch = graph.launch
        _graphs.append(self._buffer)
        while len(_graphs) > MAX_GRAPHS:
            _give_way()


def _pack_nothing(memory: Any, begin: int) -> None:
    """Write the parameters of a kernel whose arguments are fixed."""


_changing = make_lock()  # held for two assignments
# Buffers that launch graphs, and some that did: the oldest first.
_graphs: deque[weakref.ref[ParameterBuffer]] = deque()


def _give_way() -> None:
    """Let the oldest graph go."""
    try:
        buffer = _graphs.popleft()()
    except IndexError:  # another thread was faster
        return
    if buffer is not None:
        buffer.demote()


class ParameterBuffers:
    """The free buffers of one kernel in one geometry on one stream.

    Parameters
    ----------
    kernel : LoadedKernel
        What is launched.
    launch : Launch
        How.
    make : callable
        Returns the bytes of each parameter of a new buffer, and what they refer to.
    pack : callable, optional
        Writes the parameters that change: ``pack(memory, begin, *values)``.
    first : int
        Number of the first of these.

    Attributes
    ----------
    free : dict of tuple to ParameterBuffer
        Unused buffers, by the values that they hold; spare ones by a key that no caller
        has. Equal values may differ (0.0 and -0.0), which is for the caller to see.
    pack : callable
        As given.
    """

    __slots__ = ("_first", "_kernel", "_launch", "_made", "_make", "free", "pack")

    def __init__(
        self,
        kernel: LoadedKernel,
        launch: Launch,
        make: Callable[[], tuple[Sequence[bytes], object]],
        pack: Pack = _pack_nothing,
        first: int = 0,
    ) -> None:
        self.free: dict[object, ParameterBuffer] = {}
        self._kernel = kernel
        self._launch = launch
        self._make = make
        self._made = 0
        self.pack = pack
        self._first = first

    def fresh(self) -> ParameterBuffer:
        """Return a new buffer."""
        self._made += 1
        kernel, launch = self._kernel, self._launch
        parameters, scratch = self._make()
        params = PackedParameters(parameters)
        return ParameterBuffer(kernel, launch, params, kernel.prepare(launch, params), scratch)

    def adapt(self, values: tuple[Any, ...]) -> ParameterBuffer:
        """Return a buffer that holds values which no free one holds.

        Arrays often come in turn, as in a loop ``y = kernel(x, y)``. So that graphs need not change
        then, which takes a while, there are a few of them.
        """
        try:
            held, buffer = self.free.popitem()
        except KeyError:
            buffer = self.fresh()
        else:
            if buffer.graph is not None and self._made < MAX_BUFFERS:
                self.free[held] = buffer
                buffer = self.fresh()
        self.hold(buffer, values)
        return buffer

    def hold(self, buffer: ParameterBuffer, values: tuple[Any, ...]) -> None:
        """Write values into a buffer that was taken."""
        self.pack(buffer.params.memory, buffer.params.offsets[self._first], *values)
        graph = buffer.graph
        if graph is not None and (code := graph.update()):
            self._kernel.relaunch(graph.update, code)

    def run(self, values: tuple[Any, ...]) -> None:
        """Launch the kernel with some values."""
        buffer = self.free.pop(values, None)
        if buffer is None:
            buffer = self.adapt(values)
        code = buffer.launch()
        if code:
            self.relaunch(buffer, code)
        if self.free.setdefault(values, buffer) is not buffer:  # another thread was faster
            self.spare(buffer)

    def spare(self, buffer: ParameterBuffer) -> None:
        """Give back a buffer that holds the same as another free one."""
        self.free[object()] = buffer

    def relaunch(self, buffer: ParameterBuffer, code: int) -> None:
        """Deal with a launch that returned a code other than 0."""
        self._kernel.relaunch(buffer.launch, code)
