"""Sizes of programs of rows: the threads that take a row, and the elements of each.

Measured on an H200 and an H100, with softmax and norms of float32 and float16.

>>> row_sizes(1000, 4, 4, NO_CLUSTERS)
RowSizes(width=4, packs=2, lanes=7, blocks=0)
>>> row_sizes(262144, 4, 4, WITH_CLUSTERS)
RowSizes(width=4, packs=16, lanes=9, blocks=8)
"""

from __future__ import annotations

from kspec.dataclass import dataclass

ACCESS = 16  # bytes
_BLOCK = 128
_MOST_LANES = 10  # logarithm of threads that share a row, which are one block
_LANES_OF_LONG = 9  # where blocks share a row
_MOST_BYTES, _MOST_ELEMENTS = 256, 64  # that a thread keeps of a long row
_RESERVED = 8192  # bytes of shared memory for what is the same for all rows


@dataclass(frozen=True)
class Limits:
    """Limits of a device.

    Attributes
    ----------
    shared : int
        Bytes of shared memory of a block.
    blocks : int
        Blocks of a cluster; 0: there are no long rows.
    """

    shared: int
    blocks: int


NO_CLUSTERS = Limits(0, 0)
WITH_CLUSTERS = Limits(232448, 16)  # compute capability 9.0 and 10.0


@dataclass(frozen=True)
class RowSizes:
    """Sizes of a program of rows.

    Attributes
    ----------
    width : int
        Elements of a pack.
    packs : int
        Packs of a thread.
    lanes : int
        Logarithm of the threads of a block that share a row.
    blocks : int
        Blocks that share a row, and take one after the other; 0: a block takes whole rows, once.
    """

    width: int
    packs: int
    lanes: int
    blocks: int

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return max(_BLOCK, 1 << self.lanes)

    @property
    def template(self) -> tuple[int, ...]:
        """Arguments of the kernel's template."""
        return self.width, self.packs, self.lanes, self.blocks

    def shared(self, kept: int) -> int:
        """Return the bytes of shared memory of a block, of arrays with so many for each element."""
        return self.packs * self.width * self.threads * kept if self.blocks else 0


def row_sizes(length: int, width: int, kept: int, limits: Limits) -> RowSizes | None:
    """Return the sizes for rows of a length; None if rows are too long.

    Parameters
    ----------
    length : int
        Elements of a row.
    width : int
        Elements of a pack.
    kept : int
        Bytes for each element of all arrays that are read.
    limits : Limits
        Those of the device.
    """
    length = max(length, 1)  # rows may be empty
    packs = min(max(1, _elements(length, width) // width), -(-length // width))
    lanes = _logarithm(-(-length // (packs * width)))
    narrow = _is_narrow(width)
    if lanes <= _MOST_LANES - narrow:
        return RowSizes(width, packs, lanes, 0)
    several = _of_several_blocks(length, width, kept, limits, _LANES_OF_LONG - narrow)
    if several is None and lanes <= _MOST_LANES:
        return RowSizes(width, packs, lanes, 0)
    return several


def _of_several_blocks(
    length: int, width: int, kept: int, limits: Limits, lanes: int
) -> RowSizes | None:
    if width == 1:  # nothing is copied in such pieces
        return None
    most = min(_MOST_ELEMENTS, _MOST_BYTES // ACCESS * width)
    blocks = 1 << _logarithm(-(-length // (most << lanes)))
    while blocks <= limits.blocks:
        packs = -(-length // (width * blocks << lanes))
        sizes = RowSizes(width, packs, lanes, blocks)
        if sizes.shared(kept) + _RESERVED <= limits.shared:
            return sizes
        blocks *= 2
    return None


def _is_narrow(width: int) -> bool:
    """Return whether all elements have 16 bits or less, which are kept as float32."""
    return width >= ACCESS // 2


def _elements(length: int, width: int) -> int:
    """Return the number of elements of a thread, for rows that a block takes once."""
    if _is_narrow(width):
        return 16 if length <= 512 else 32
    return 8 if length <= 1024 else 16 if length <= 4096 else 32


def _logarithm(count: int) -> int:
    """Return the logarithm of the least power of two that is not smaller."""
    return (count - 1).bit_length()
