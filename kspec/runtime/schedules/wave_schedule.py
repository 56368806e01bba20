"""Schedules of long scans of contiguous rows, by blocks that stay on their multiprocessors.

The layout is ``ScanWaves`` of ``kspec/layout.cuh``; this module knows the tiles of
``kspec/scan_waves.cuh``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kspec.model.stages import pack_size
from kspec.runtime.schedules.elementwise_schedule import Member

_THREADS = 256  # and a warp that listens to other blocks
_AHEAD = 3  # tiles that have said what they make, and wait for others
_STATIC = 3072  # bytes of shared memory that a block has besides, or the driver keeps, at most
_ACCUMULATOR, _PACK = 16, 128  # bytes of an accumulator, and of those of a pack, at most
_FEWEST_STAGES, _MOST_STAGES = _AHEAD + 2, _AHEAD + 5
_MOST_BLOCKS = 512
_FEWEST_WAVES = 8  # for which staying is worth it


@dataclass(frozen=True)
class WaveTile:
    """``kspec::WaveTile``: elements that a block has in hand.

    Attributes
    ----------
    pack : int
        Elements of a pack.
    nbytes : int
        Bytes of an element: of all inputs, and of outputs that do not take the place of one.
    """

    pack: int
    nbytes: int
    threads = _THREADS + 32

    @classmethod
    def of(cls, members: Sequence[Member]) -> WaveTile:
        """Return the tile of these inputs and outputs."""
        inputs = [one.itemsize for one in members if not one.written]
        outputs = [one.itemsize for one in members if one.written]
        apart = [
            size
            for number, size in enumerate(outputs)
            if number >= len(inputs) or inputs[number] != size
        ]
        return cls(pack_size(one.pack_width for one in members), sum(inputs) + sum(apart))

    @property
    def size(self) -> int:
        """Number of elements."""
        nbytes = self.pack * self.nbytes
        return _THREADS * self.pack * (7 if nbytes <= 16 else 3 if nbytes <= 32 else 1)

    def stages(self, room: int) -> int:
        """Number of tiles that a block keeps in so many bytes of shared memory."""
        return min(_MOST_STAGES, (room - _STATIC) // (self.size * self.nbytes))


@dataclass(frozen=True)
class Waves:
    """Division of the tiles of a scan among blocks that stay.

    Attributes
    ----------
    tile : WaveTile
        What a block has in hand.
    stages : int
        How many of them it keeps.
    blocks : int
        Blocks, all of which are resident.
    """

    tile: WaveTile
    stages: int
    blocks: int

    @property
    def shared(self) -> int:
        """Bytes of dynamic shared memory."""
        return self.stages * self.tile.size * self.tile.nbytes


def choose_waves(
    elements: int, accumulator: int, members: Sequence[Member], multiprocessors: int, room: int
) -> Waves | None:
    """Return the division of a scan; None if it is not worth it, or impossible.

    Parameters
    ----------
    elements : int
        Their number, with those before the first one that alignment takes.
    accumulator : int
        Bytes of an accumulator.
    members : sequence of Member
        Inputs and outputs.
    multiprocessors, room : int
        Multiprocessors of the device, and bytes of shared memory that a block can have.
    """
    tile = WaveTile.of(members)
    stages, blocks = tile.stages(room), min(multiprocessors, _MOST_BLOCKS)
    if accumulator > _ACCUMULATOR or tile.pack * accumulator > _PACK:
        return None
    if tile.pack == 1 or stages < _FEWEST_STAGES:
        return None
    if elements < _FEWEST_WAVES * blocks * tile.size:
        return None
    return Waves(tile, stages, blocks)
