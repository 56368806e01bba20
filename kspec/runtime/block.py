"""Launching one kernel again and again, each time with other values for its parameters.

>>> block = blocks.take(now := (x.data.ptr, z.data.ptr))                     # doctest: +SKIP
>>> if block.held != now: block = blocks.adapt(block, now)                   # doctest: +SKIP
>>> code = block.launch(); blocks.give(block)                                # doctest: +SKIP

A block belongs to one call at a time: taking and giving back are atomic, so calls of several
threads never share one, and no call waits.  A block that an exception loses is garbage.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from kspec.checks import NO_CHECKS
from kspec.runtime.launch import Launch
from kspec.runtime.launcher import Start
from kspec.runtime.marshal import ParameterBlock
from kspec.runtime.module import LoadedKernel

Pack = Callable[..., None]


class Block:
    """Parameters in memory, and what launches the kernel with them.

    Attributes
    ----------
    held : tuple
        The values that were packed last; of numbers that are equal and not the same (-0.0),
        whoever compares must think.
    launch : callable
        Launches the kernel; returns 0, or a code for `Blocks.relaunch`.
    """

    __slots__ = ("_params", "_scratch", "held", "launch")

    def __init__(self, launch: Start, params: ParameterBlock, scratch: object) -> None:
        self.held: tuple[Any, ...] = ()
        self.launch = launch
        self._params = params
        self._scratch = scratch  # memory that the parameters refer to

    def hold(self, pack: Pack, first: int, values: tuple[Any, ...]) -> None:
        """Write values into the parameters from number `first` on."""
        self.held = ()
        pack(self._params.memory, self._params.offsets[first], *values)
        self.held = values


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

    __slots__ = ("_first", "_kernel", "_launch", "_make", "_pack", "give", "take")

    def __init__(
        self,
        kernel: LoadedKernel,
        launch: Launch,
        make: Callable[[], tuple[Sequence[bytes], object]],
        pack: Pack | None = None,
        first: int = 0,
    ) -> None:
        free: list[Block] = []
        self.take, self.give = free.pop, free.append
        self._kernel = kernel
        self._launch = replace(launch, checks=NO_CHECKS, regions=())
        self._make = make
        self._pack = pack
        self._first = first

    def fresh(self) -> Block:
        """Return a new block."""
        parameters, scratch = self._make()
        params = ParameterBlock(parameters)
        return Block(self._kernel.prepare(self._launch, params), params, scratch)

    def adapt(self, block: Block, values: tuple[Any, ...]) -> Block:
        """Return a block that holds values, for one that was taken and holds others."""
        assert self._pack is not None
        block.hold(self._pack, self._first, values)
        return block

    def relaunch(self, block: Block, code: int) -> None:
        """Deal with a launch that returned a code other than 0."""
        self._kernel.relaunch(block.launch, code)
