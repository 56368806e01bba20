"""Launching one kernel again and again, each time with other values for its parameters.

>>> block = blocks.take()                                                    # doctest: +SKIP
>>> now = x.data.ptr, z.data.ptr                                             # doctest: +SKIP
>>> if block.held != now: block = blocks.adapt(block, now)                   # doctest: +SKIP
>>> code = block.launch(); blocks.give(block)                                # doctest: +SKIP

A block belongs to one call at a time: taking and giving back are atomic, so calls of several
threads never share one, and no call waits.  A block that an exception loses is garbage.

What is launched often becomes a CUDA graph (`kspec.runtime.driver_graph`), block by block, as long
as there are not too many graphs.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from kspec.checks import NO_CHECKS
from kspec.errors import DriverError
from kspec.runtime import driver
from kspec.runtime.launch import Launch
from kspec.runtime.launcher import Start
from kspec.runtime.marshal import ParameterBlock
from kspec.runtime.module import LoadedKernel

Pack = Callable[..., None]

MAX_GRAPHS = 128  # of the process; each takes 112 KiB of the device's memory
HOT = 50  # launches after which a graph is made, which takes as long as 70 of its launches save


class Block:
    """Parameters in memory, and what launches the kernel with them.

    Attributes
    ----------
    held : tuple
        The values that were packed last. Equal ones may differ (0.0 and -0.0), which is for the
        caller to see.
    launch : callable
        Launches the kernel; returns 0, or a code for `Blocks.relaunch`.
    params : ParameterBlock
        Its parameters.
    update : callable or None
        Makes a graph take over the parameters, before it is launched; without one, the kernel
        itself is launched.
    """

    __slots__ = ("__weakref__", "_scratch", "_warming", "held", "launch", "params", "update")

    def __init__(
        self, kernel: LoadedKernel, launch: Launch, params: ParameterBlock, scratch: object
    ) -> None:
        self.held: tuple[Any, ...] = ()
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
        # In this order: who sees that there is nothing to update launches no graph any more.
        assert self._warming is not None
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
        assert block is not None  # whoever launches it has it
        # A block that gives way to others and comes back has to earn it: there are too many.
        self._wanted = self._left = 4 * self._wanted
        try:
            start = self._kernel.make_graph(self._launch, block.params, self._plain)
        except DriverError:
            return  # the kernel has been launched, which is all that was asked for
        block.update = start.update
        block.launch = start.launch
        _graphs.append(self._block)
        while len(_graphs) > MAX_GRAPHS:
            _give_way()


def _pack_nothing(memory: Any, begin: int) -> None:
    """Write the parameters of a kernel whose arguments are fixed."""


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
        How; its checks are not made.
    make : callable
        Returns the bytes of each parameter of a new block, and what they refer to.
    pack : callable, optional
        Writes the parameters that change: ``pack(memory, begin, *values)``.
    first : int
        Number of the first of these.

    Attributes
    ----------
    take, give : callable
        Take a free block, or raise `IndexError`; give it back.
    """

    __slots__ = ("_first", "_kernel", "_launch", "_made", "_make", "give", "pack", "take")

    def __init__(
        self,
        kernel: LoadedKernel,
        launch: Launch,
        make: Callable[[], tuple[Sequence[bytes], object]],
        pack: Pack = _pack_nothing,
        first: int = 0,
    ) -> None:
        free: list[Block] = []
        self.take, self.give = free.pop, free.append
        self._kernel = kernel
        self._launch = replace(launch, checks=NO_CHECKS, regions=())
        self._make = make
        self._made = 0
        self.pack = pack
        self._first = first

    def fresh(self) -> Block:
        """Return a new block."""
        self._made += 1
        parameters, scratch = self._make()
        return Block(self._kernel, self._launch, ParameterBlock(parameters), scratch)

    def adapt(self, block: Block, values: tuple[Any, ...], doubtful: bool = False) -> Block:
        """Return a block that holds values, for one that was taken and holds others.

        Parameters
        ----------
        block : Block
            It belongs to the others again if another one is returned.
        values : tuple
            To be held.
        doubtful : bool
            Whether they may differ from equal ones.
        """
        if block.update is not None:
            # A loop ``y = kernel(x, y)`` writes to two arrays in turn. When each has a block of its
            # own, no graph has to change any more.
            try:
                other = self.take()
            except IndexError:
                other = self.fresh() if self._made < 2 else block
            if other is not block:
                self.give(block)
                block = other
        if doubtful or block.held != values:
            block.held = ()  # if it fails halfway
            self.pack(block.params.memory, block.params.offsets[self._first], *values)
            update = block.update
            if update is not None and (code := update()):
                driver.check_code(code)
            block.held = values
        return block

    def relaunch(self, block: Block, code: int) -> None:
        """Deal with a launch that returned a code other than 0."""
        self._kernel.relaunch(block.launch, code)
