"""Reductions along contiguous elements: layouts ``Lines`` and ``ShortLines``.

2^lanes threads share each output. Short lines are read in packs, element by element, or from shared
memory, to which a block copies all of its own (``kspec/reduce_lines.cuh``).
"""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Iterator, Sequence
from functools import cached_property

from kspec.dataclass import dataclass
from kspec.model.stages import LINES, SHORT_LINES
from kspec.runtime.schedules import Axes
from kspec.runtime.schedules.elementwise_schedule import Member
from kspec.runtime.schedules.reductions import (
    MAX_SPLITS,
    ReductionSchedule,
    Resident,
    Sharing,
    aligned_inputs,
    inputs_abreast,
    is_power,
    pack_both,
)

_MOST_THREADS = {LINES: 512, SHORT_LINES: 256}  # kspec::MaxThreads of each layout
_BLOCK = 256
_SHORT_LANES = 2  # two packs for each of 2^2 threads at most: MOST_LANES of the kernel
_TINY_BYTES = 28  # of a line that a single thread folds element by element
_TINY_APART = 14  # elements of one, where packs are not aligned and shared memory has no room
_WAYS = ("packs", "elements", "staged")  # kspec::ShortWay
_STAGED_BYTES, _STAGED_THREADS = 16384, 128  # of a block's rows in shared memory; of a block
_STAGED_LANES, _STAGED_EACH = 32, 12  # for each output at most; elements for each of them
_BANKS = 128  # bytes of shared memory that are read at once
_CACHE_LINE = 128  # bytes
_ROUND = 4  # packs that a thread of lines has in flight: UNROLL of the kernel


@dataclass(frozen=True)
class LineReader:
    """Lines of packs, or of elements.

    Attributes
    ----------
    kept, reduced : Axes
        Collapsed axes.
    inputs : sequence of Member
        The inputs.
    pack : int
        Elements of a pack.
    """

    kept: Axes
    reduced: Axes
    inputs: Sequence[Member]
    pack: int

    @property
    def _is_single(self) -> bool:
        return len(self.reduced.extents) == 1

    @property
    def _packs(self) -> int:
        return -(-self.reduced.size // self.pack)

    @property
    def _fewest_packs(self) -> int:
        """The packs of the line that has the fewest; edges of lines are not in packs."""
        head = self.pack - 1 if self._leader >= 0 else 0
        return max(0, self.reduced.size - head) // self.pack

    @cached_property
    def _moving(self) -> list[int]:
        return [k for k in range(len(self.inputs)) if self.reduced.strides[k][0]]

    @cached_property
    def _is_whole(self) -> bool:
        """Whether the first pack of each line begins with its first element."""
        bits = aligned_inputs(self.inputs, self.pack, (self.kept, 0), (self.reduced, 1))
        return all(bits >> k & 1 for k in self._moving)

    @cached_property
    def _leader(self) -> int:
        """The input whose packs begin at aligned addresses; -1: all do at the first element."""
        return self._moving[0] if self._is_single and not self._is_whole else -1

    @cached_property
    def _has_packs(self) -> bool:
        if self._leader < 0:
            return self._is_whole
        bits = inputs_abreast(self.inputs, self._leader, self.pack, self.kept)
        return all(bits >> k & 1 for k in self._moving)

    @cached_property
    def _row_bytes(self) -> tuple[int, ...]:
        """Bytes of a line of each array, if they follow each other without gaps; or nothing."""
        arrays = [(k, one.itemsize) for k, one in enumerate(self.inputs) if one.ptr]
        if len(self.kept.extents) != 1 or not self._is_single:
            return ()
        length = self.reduced.extents[0]
        steps = [(self.kept.strides[k][0], self.reduced.strides[k][0]) for k, _ in arrays]
        whole = [(length * size, size) for _, size in arrays]
        return tuple(row for row, _ in whole) if steps == whole else ()

    @property
    def _has_words(self) -> bool:
        """Whether elements have four bytes or more."""
        return all(one.itemsize >= 4 for one in self.inputs)

    def rule(self, multiprocessors: int, resident: Resident) -> Sharing | None:
        """Return the sharing that was best on H100s and H200s; None without packs."""
        outputs, length, packs = self.kept.size, self.reduced.size, self._packs
        by_element = Sharing(SHORT_LINES, _BLOCK, way="elements")
        is_tiny = length * max(one.itemsize for one in self.inputs) <= _TINY_BYTES
        if is_tiny and self.fits(by_element):
            return by_element
        staged = self._staged(multiprocessors)
        if staged is not None:
            return staged
        if length <= _TINY_APART and not self._is_whole and self.fits(by_element):
            return by_element
        if not self._has_packs:
            return None
        if packs <= 2 << _SHORT_LANES:
            return Sharing(SHORT_LINES, _BLOCK, lanes=(-(-packs // 2) - 1).bit_length())
        if outputs < 16 * multiprocessors and packs >= 4096:
            fitting = resident(LINES, _MOST_THREADS[LINES]) // outputs
            splits = max(1, min(fitting, packs // 2048, MAX_SPLITS))
            return Sharing(LINES, _MOST_THREADS[LINES], splits, lanes=9)
        # Measured on an H200: rows of 64 packs and more want eight for each thread.
        each = 8 if packs >= 64 else 4 if self._leader < 0 and packs <= 16 else 6
        most = 7 if outputs >= 16 * multiprocessors else 8
        return Sharing(LINES, _BLOCK, lanes=max(0, min(most, (packs // each).bit_length() - 1)))

    def _staged(self, multiprocessors: int) -> Sharing | None:
        """Return the sharing with lines in shared memory, if that is faster."""
        rows = _STAGED_THREADS
        while rows * sum(self._row_bytes) > _STAGED_BYTES:
            rows //= 2
        fewest = (_STAGED_THREADS // rows if rows else _STAGED_LANES + 1).bit_length() - 1
        # Banks may want more lanes than fit the block; they pay while each has enough to fold.
        most = (self.reduced.size // _STAGED_EACH).bit_length() - 1 if self._has_words else 0
        tries = range(fewest, max(fewest, most) + 1)
        sharings = (Sharing(SHORT_LINES, _STAGED_THREADS, lanes=one, way="staged") for one in tries)
        sharing = next(filter(self.fits, sharings), None)
        if sharing is None:
            return None
        rows, width = _STAGED_THREADS >> sharing.lanes, 1 << sharing.lanes
        if width > 4 and self.kept.size < rows * multiprocessors:
            return None
        # Blocks of long rows that share cache lines read them twice.
        if width > 8 and any(rows * row % _CACHE_LINE for row in self._row_bytes):
            return None
        return sharing

    def options(self, multiprocessors: int, resident: Resident) -> Iterator[Sharing]:
        """Yield sharings that are worth measuring."""
        found = [
            Sharing(SHORT_LINES, threads, lanes=lanes, way=way)
            for way, threads, lanes in itertools.product(_WAYS, (64, 128, 256), range(6))
        ]
        for threads, lanes in itertools.product((128, 256, 512), range(10)):
            rows = max(1, threads >> lanes)
            fitting = max(1, resident(LINES, threads) // -(-self.kept.size // rows))
            splits = {1, fitting // 2, fitting, 2 * fitting} if fitting > 1 else {1}
            found += [Sharing(LINES, threads, one, lanes) for one in sorted(splits)]
        return filter(self.fits, found)

    def fits(self, sharing: Sharing) -> bool:
        """Whether the kernel can follow a sharing."""
        most = _MOST_THREADS.get(sharing.layout, 0)
        threads, lanes, way = sharing.threads, sharing.lanes, sharing.way
        if not (is_power(threads) and 32 <= threads <= most and 0 <= lanes < 10):
            return False
        if threads >> lanes == 0 or sharing.side or way not in _WAYS:
            return False
        if sharing.layout == LINES:
            # A split without a pack has no result.
            splits = min(MAX_SPLITS, max(1, self._fewest_packs >> lanes))
            return self._has_packs and way == "packs" and 1 <= sharing.splits <= splits
        if sharing.splits != 1:
            return False
        if way == "packs":
            return self._has_packs and lanes <= _SHORT_LANES and self._packs <= 2 << lanes
        if way == "elements":
            return self._is_single and self.pack > 1 and lanes == 0 and self.reduced.size <= 64
        return self._is_staged(threads, lanes)

    def _is_staged(self, threads: int, lanes: int) -> bool:
        """Whether the lines of a block have room in shared memory, and not all in one bank."""
        width = 1 << lanes
        rows, length = threads >> lanes, self.reduced.size
        return (
            bool(self._row_bytes)
            and width <= min(_STAGED_LANES, length)
            and rows * sum(self._row_bytes) <= _STAGED_BYTES
            and all(
                math.gcd(row, _BANKS) <= width * max(16, 4 * (row // length))
                for row in self._row_bytes
            )
        )

    def schedule(self, sharing: Sharing) -> ReductionSchedule:
        """Return the schedule of a sharing."""
        outputs, length = self.kept.size, self.reduced.size
        in_packs = sharing.way == "packs"
        side = 2 if sharing.layout == SHORT_LINES and sharing.way != "staged" else 1
        tiles = -(-outputs // ((sharing.threads >> sharing.lanes) * side))
        by_pack = Axes(
            (self.reduced.extents[0] // self.pack, *self.reduced.extents[1:]),
            tuple((steps[0] * self.pack, *steps[1:]) for steps in self.reduced.strides),
        )
        each_round = _ROUND * sharing.splits << sharing.lanes
        last = (self._packs - 1) // each_round * each_round
        leader, way = self._leader if in_packs else -1, _WAYS.index(sharing.way)
        head = struct.pack("3q", outputs, length, last)
        head += struct.pack("4i", sharing.lanes, sharing.splits, leader, way)
        return ReductionSchedule(
            sharing.layout,
            tiles,
            sharing.splits,
            sharing.threads,
            outputs * sharing.splits,
            head,
            pack_both(self.kept, by_pack),
        )
