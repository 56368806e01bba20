"""Launching one kernel again and again, each time with other values for its parameters.

>>> now = x.data.ptr, z.data.ptr                                             # doctest: +SKIP
>>> block = blocks.free.pop(now, None) or blocks.adapt(now)                  # doctest: +SKIP
>>> code = block.launch()                                                    # doctest: +SKIP
>>> if blocks.free.setdefault(now, block) is not block: blocks.spare(block)  # doctest: +SKIP

A block belongs to one call at a time: taking it and giving it back are atomic, so calls of several
threads never share one, and no call waits.  A block that an exception loses is garbage.

What is launched often becomes a CUDA graph (`kspec.runtime.driver.graph`), block by block, as long
as there are not too many graphs.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from kspec.errors import DriverError
from kspec.locks import make_lock
from kspec.runtime.driver.launch import Launch
from kspec.runtime.driver.launch_ex import Start
from kspec.runtime.modules.module import LoadedKernel
from kspec.runtime.schedules.marshal import ParameterBlock

Pack = Callable[..., None]

MAX_GRAPHS = 128  # of the process; each takes 112 KiB of the device's memory
MAX_BLOCKS = 4  # of one `Blocks` that launch graphs
HOT = 50  # launches after which a graph is made, which takes as long as 70 of its launches save


class Block:
    """Parameters in memory, and what launches the kernel with them.

    Attributes
    ----------
    launch : callable
        Launches the kernel; returns 0, or a code for `Blocks.relaunch`.
    params : ParameterBlock
        Its parameters.
    update : callable or None
        Makes a graph take over the parameters, before it is launched; without one, the kernel
        itself is launched.
    """

    __slots__ = ("__weakref__", "_scratch", "_warming", "launch", "params", "update")

    def __init__(
        self, kernel: LoadedKernel, launch: Launch, params: ParameterBlock, scratch: object
    ) -> None:
        self.launch = kernel.prepare(launch, params)
        self.params = params
        self._scratch = scratch  # memory that the parameters refer to
        self.update: Start | None = None
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
            self.update = None


class _Warming:
    """Launches the kernel of a block, and makes a graph of it when that has happened often."""

    def __init__(self, block: Block, kernel: LoadedKernel, launch: Launch) -> None:
        self._block = weakref.ref(block)  # which has us
        self._kernel = kernel
        self._launch = launch
        self._plain = block.launch
        self._wanted = HOT
        self._left = HOT

    def __call__(self) -> int:
        code = self._plain()
        self._left -= 1
        if self._left <= 0 and not code:
            self._promote()
        return code

    def _promote(self) -> None:
        block = self._block()
        assert block is not None  # its launcher has it
        # A block that gives way to others and comes back has to earn it: there are too many.
        self._wanted = self._left = 4 * self._wanted
        try:
            start = self._kernel.make_graph(self._launch, block.params, self._plain)
        except DriverError:
            return  # the kernel has been launched, which is all that was asked for
        with _changing:
            block.update = start.update
            block.launch = start.launch
        _graphs.append(self._block)
        while len(_graphs) > MAX_GRAPHS:
            _give_way()


def _pack_nothing(memory: Any, begin: int) -> None:
    """Write the parameters of a kernel whose arguments are fixed."""


_changing = make_lock()  # held for two assignments
# Blocks that launch graphs, and some that did: the oldest first.
_graphs: deque[weakref.ref[Block]] = deque()


def _give_way() -> None:
    """Let the oldest graph go."""
    try:
        block = _graphs.popleft()()
    except IndexError:  # another thread was faster
        return
    if block is not None:
        block.demote()


class Blocks:
    """The free blocks of one kernel in one geometry on one stream.

    Parameters
    ----------
    kernel : LoadedKernel
        What is launched.
    launch : Launch
        How.
    make : callable
        Returns the bytes of each parameter of a new block, and what they refer to.
    pack : callable, optional
        Writes the parameters that change: ``pack(memory, begin, *values)``.
    first : int
        Number of the first of these.

    Attributes
    ----------
    free : dict of tuple to Block
        Unused blocks, by the values that they hold; spare ones by a key that no caller
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
        self.free: dict[object, Block] = {}
        self._kernel = kernel
        self._launch = launch
        self._make = make
        self._made = 0
        self.pack = pack
        self._first = first

    def fresh(self) -> Block:
        """Return a new block."""
        self._made += 1
        parameters, scratch = self._make()
        return Block(self._kernel, self._launch, ParameterBlock(parameters), scratch)

    def adapt(self, values: tuple[Any, ...]) -> Block:
        """Return a block that holds values which no free one holds.

        Arrays often come in turn, as in a loop ``y = kernel(x, y)``. So that graphs need not change
        then, which takes a while, there are a few of them.
        """
        try:
            held, block = self.free.popitem()
        except KeyError:
            block = self.fresh()
        else:
            if block.update is not None and self._made < MAX_BLOCKS:
                self.free[held] = block
                block = self.fresh()
        self.hold(block, values)
        return block

    def hold(self, block: Block, values: tuple[Any, ...]) -> None:
        """Write values into a block that was taken."""
        self.pack(block.params.memory, block.params.offsets[self._first], *values)
        update = block.update
        if update is not None and (code := update()):
            self._kernel.relaunch(update, code)

    def run(self, values: tuple[Any, ...]) -> None:
        """Launch the kernel with some values."""
        block = self.free.pop(values, None)
        if block is None:
            block = self.adapt(values)
        code = block.launch()
        if code:
            self.relaunch(block, code)
        if self.free.setdefault(values, block) is not block:  # another thread was faster
            self.spare(block)

    def spare(self, block: Block) -> None:
        """Give back a block that holds the same as another free one."""
        self.free[object()] = block

    def relaunch(self, block: Block, code: int) -> None:
        """Deal with a launch that returned a code other than 0."""
        self._kernel.relaunch(block.launch, code)
