"""Reductions across contiguous elements: the layout ``Columns``.

Neighbouring outputs are neighbours in memory; threads take packs of outputs
(``kspec/reduce_columns.cuh``).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property

from kspec.dataclass import dataclass
from kspec.model.stages import COLUMNS
from kspec.runtime.schedules import Axes
from kspec.runtime.schedules.elementwise_schedule import Member
from kspec.runtime.schedules.reductions import (
    MAX_SPLITS,
    ReductionSchedule,
    Resident,
    Sharing,
    aligned_inputs,
    inputs_abreast,
    pack_both,
)

_THREADS = 256  # kspec::MaxThreads of the layout
_WIDE_THREADS = 128
SMALL = 1 << 21  # elements, of which joining the results of several blocks takes too long
_FEW_ROUNDS = 4  # of rows of a thread: with fewer, a block is not worth its part of the joining
_FEW_ROWS = 64  # of any alignment, which are read element by element
_JOINED = 16  # partial results for each thread; more are joined in two rounds


@dataclass(frozen=True)
class _Rows:
    """The rows of a reduction in columns, as the kernel reads them.

    Attributes
    ----------
    fold : int
        Rows that are read as one, so that its columns are whole packs.
    count : int
        Of rows that are read so.
    reduced : Axes
        Along them.
    shifted : int
        The input whose packs begin at aligned addresses; -1: all do at the first element.
    period : int
        Rows after which packs begin at the same columns.
    alone : int
        Rows at both ends that are read element by element where packs reach beyond them.
    """

    fold: int
    count: int
    reduced: Axes
    shifted: int = -1
    period: int = 1
    alone: int = 0


@dataclass(frozen=True)
class ColumnReader:
    """Packs of columns.

    Attributes
    ----------
    kept, reduced : Axes
        Collapsed axes.
    inputs : sequence of Member
        The inputs.
    pack : int
        Elements of a pack.
    room : int
        Columns that a block has room for.
    """

    kept: Axes
    reduced: Axes
    inputs: Sequence[Member]
    pack: int
    room: int

    @property
    def _columns(self) -> int:
        return self.kept.extents[0]

    @property
    def _held(self) -> set[int]:
        """Inputs that all rows share."""
        return {k for k in range(len(self.inputs)) if not any(self.reduced.strides[k])}

    @cached_property
    def _rows(self) -> _Rows | None:
        """Rows as they are read in packs, or None if that is not possible."""
        columns, length, pack = self._columns, self.reduced.size, self.pack
        reduced, single = self.reduced, len(self.reduced.extents) == 1
        held = self._held
        ends = {k: one.itemsize for k, one in enumerate(self.inputs) if k not in held}
        fold = pack // math.gcd(columns, pack)
        gapless = single and all(
            (self.kept.strides[k][0], reduced.strides[k][0]) == (size, size * columns)
            for k, size in ends.items()
        )
        least = max(8 * self.room // columns, 4 * fold + 1)
        if not gapless or fold * columns > self.room or length < least:
            fold = 1
        if fold * columns < pack:
            return None
        count = length // fold
        if fold > 1:
            reduced = Axes((count,), tuple((step * fold,) for (step,) in reduced.strides))
        moving = [k for k in ends if self.kept.strides[k][0]]
        if not moving:
            return None
        aligned = aligned_inputs(self.inputs, pack, (self.kept, 1), (reduced, 0))
        if all(aligned >> k & 1 for k in moving) and fold * columns % pack == 0:
            return _Rows(fold, count, reduced)
        if not single or not all(reduced.strides[k][0] for k in moving):
            return None
        if length < _FEW_ROWS and fold == 1:
            return _Rows(fold, count, reduced, alone=count)
        shifted = moving[0]
        abreast = inputs_abreast(self.inputs, shifted, pack, self.kept, reduced)
        if not all(abreast >> k & 1 for k in moving):
            return None
        steps = {k: abs(reduced.strides[k][0]) // self.inputs[k].itemsize for k in moving}
        period = pack // math.gcd(pack, steps[shifted])
        if fold > 1:  # up to a pack without an element is before the first
            count = (length * columns - pack + 1) // (columns * fold)
            return _Rows(fold, count, reduced, shifted)
        alone = min(-(-pack // min(steps.values())), count)
        return _Rows(1, count, reduced, shifted, period, alone)

    @property
    def _packs(self) -> int:
        """Packs of a row."""
        assert self._rows is not None
        return -(-self._columns * self._rows.fold // self.pack)

    @property
    def _beside(self) -> int:
        """Additional packs of a row that is shifted."""
        rows = self._rows
        return 1 if rows is not None and rows.shifted >= 0 and rows.fold == 1 else 0

    def _down(self, sharing: Sharing) -> int:
        """Return the threads of a block below each other."""
        assert self._rows is not None
        period = self._rows.period
        return sharing.threads // (sharing.side + self._beside) // period * period

    def _most_splits(self, sharing: Sharing) -> int:
        """Return the number of blocks that have rows to share."""
        assert self._rows is not None
        return min(-(-self._rows.count // (4 * self._down(sharing))), MAX_SPLITS)

    def rule(self, multiprocessors: int, resident: Resident) -> Sharing | None:
        """Return the sharing that was best on an H200.

        None if packs do not fit, or there is little to read.
        """
        rows = self._rows
        if rows is None or self.kept.size * self.reduced.size <= SMALL:
            return None
        outer, beside = self.kept.size // self._columns, self._beside
        side = min(_WIDE_THREADS, self.room // self.pack)
        few = -(-self._packs // side) * outer < 4 * multiprocessors
        if not (self.reduced.size > 64 or rows.fold > 1 or beside or few):
            return Sharing(COLUMNS, _WIDE_THREADS, side=side)
        side = min(self._packs, _THREADS // rows.period - beside)
        if rows.fold == 1:
            side = min(side, max(1, min(64, 256 // self.pack)))
        return self._filled(self._even(side), resident)

    def _even(self, side: int) -> Sharing:
        """Return the sharing with so many threads side by side, or as many tiles of fewer."""
        tiles = -(-self._packs // side)
        return Sharing(COLUMNS, _THREADS, side=-(-self._packs // tiles))

    def _filled(self, sharing: Sharing, resident: Resident) -> Sharing:
        """Return the sharing with so many splits that they fill the device."""
        side = sharing.side
        tiles = -(-self._packs // side) * (self.kept.size // self._columns)
        threads = self._threads(sharing)
        fitting = resident(COLUMNS, threads) // tiles
        splits = max(1, min(fitting, self._most_splits(sharing) // _FEW_ROUNDS))
        return Sharing(COLUMNS, sharing.threads, splits, side=side)

    def _threads(self, sharing: Sharing) -> int:
        return -(-(sharing.side + self._beside) * self._down(sharing) // 32) * 32

    def options(self, multiprocessors: int, resident: Resident) -> Iterator[Sharing]:
        """Yield sharings that are worth measuring."""
        if self._rows is None:
            return
        sides = {self._even(side).side for side in (8, 16, 32, 64, 128, self._packs)}
        for side in sorted(sides):
            sharing = Sharing(COLUMNS, _THREADS, side=side)
            if self.fits(sharing):
                most = self._most_splits(sharing)
                splits = {most, *(1 << k for k in range(most.bit_length()))}
                filled = self._filled(sharing, resident)
                others = (replace(sharing, splits=one) for one in sorted(splits))
                yield from dict.fromkeys((filled, *others))
            wide = Sharing(COLUMNS, _WIDE_THREADS, side=side)
            if self.fits(wide):
                yield wide

    def fits(self, sharing: Sharing) -> bool:
        """Whether the kernel can follow a sharing."""
        rows = self._rows
        if rows is None or sharing.layout != COLUMNS or sharing.lanes:
            return False
        side, beside = sharing.side, self._beside
        if sharing.threads not in (_WIDE_THREADS, _THREADS) or sharing.way != "packs":
            return False
        if side < 1 or side + beside > sharing.threads // rows.period:
            return False
        if side < self._packs if rows.fold > 1 else side * self.pack > self.room:
            return False
        return 1 <= sharing.splits <= max(1, self._most_splits(sharing))

    def schedule(self, sharing: Sharing) -> ReductionSchedule:
        """Return the schedule of a sharing."""
        rows = self._rows
        assert rows is not None
        columns, side, splits = self._columns, sharing.side, sharing.splits
        down, threads = self._down(sharing), self._threads(sharing)
        tiles = -(-self._packs // side)
        span = columns if rows.fold > 1 else side * self.pack
        group = splits if splits * span <= _JOINED * threads else math.isqrt(splits - 1) + 1
        groups = -(-splits // group)
        held = sum(1 << k for k in self._held)
        head = struct.pack("4q", self.kept.size, self.reduced.size, columns, rows.count)
        head += struct.pack("Q2i", held, side + self._beside, down)
        head += struct.pack("5i", span, tiles, splits, group, rows.fold)
        head += struct.pack("3i", rows.shifted, rows.period, rows.alone)
        head += struct.pack("2i", rows.count % (down * splits), 0)
        blocks = tiles * (self.kept.size // columns)
        joins = groups + 1 if groups > 1 else 1
        tail = pack_both(self.kept, rows.reduced)
        return ReductionSchedule(
            COLUMNS, blocks, splits, threads, blocks * splits * span, head, tail, joins
        )
