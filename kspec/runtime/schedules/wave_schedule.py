"""Schedules of long scans of contiguous rows, by blocks that stay on their multiprocessors.

The layout is ``ScanWaves`` of ``kspec/layout.cuh``; this module knows the tiles of
``kspec/scan_waves.cuh``.
"""

from __future__ import annotations

from collections.abc import Sequence

from kspec.dataclass import dataclass
from kspec.model.stages import pack_size
from kspec.runtime.driver.device import Gpu
from kspec.runtime.schedules.elementwise_schedule import Member

_TEAM, _TEAMS = 256, 2  # threads; and a warp that listens to other blocks
_AHEAD = 2 * _TEAMS  # tiles that have said what they make, and wait for others
_STAGES = _AHEAD + 2 * _TEAMS  # tiles that a block keeps
_MOST_BLOCKS = 160  # kspec::Waves::HEARD
_ACCUMULATOR, _PACK = 16, 128  # bytes of an accumulator, and of those of a pack, at most
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
    threads = _TEAMS * _TEAM + 32

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
        return _TEAM * self.pack * (7 if nbytes <= 16 else 3 if nbytes <= 32 else 1)

    @property
    def shared(self) -> int:
        """Bytes of dynamic shared memory."""
        return _STAGES * self.size * self.nbytes


@dataclass(frozen=True)
class Waves:
    """Division of the tiles of a scan among blocks that stay.

    Attributes
    ----------
    tile : WaveTile
        What a block has in hand.
    blocks : int
        Blocks, all of which are resident.
    """

    tile: WaveTile
    blocks: int


def choose_waves(
    elements: int, accumulator: int, members: Sequence[Member], gpu: Gpu
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
    gpu : Gpu
        Where.
    """
    tile, blocks = WaveTile.of(members), min(gpu.multiprocessors, _MOST_BLOCKS)
    if accumulator > _ACCUMULATOR or tile.pack * accumulator > _PACK or tile.pack == 1:
        return None
    if tile.shared + _static(accumulator) > gpu.shared_memory:
        return None
    if elements < _FEWEST_WAVES * blocks * tile.size:
        return None
    return Waves(tile, blocks)


def _static(accumulator: int) -> int:
    """Return the bytes of shared memory that a block has besides its tiles, at most.

    These are messages, the arrivals of copies, and what warps have found and wait for.
    """
    warps, words = _TEAM // 32, -(-accumulator // 4)
    heard = 4 * (_MOST_BLOCKS * words + _MOST_BLOCKS // 32 * words + 1)
    return heard + _STAGES * warps * 8 + 2 * (warps + 1) * (accumulator + 16) + 64
