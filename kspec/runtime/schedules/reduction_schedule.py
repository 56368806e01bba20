"""Schedules of reductions: collapsed axes in, layout, geometry and packed plan out.

The layouts are those of ``kspec/layout.cuh``.  The choice depends on strides, alignment, sizes, the
device, and what `kspec tune` has measured on it, so equal calls give equal bits.

* ``Lines``: each output folds contiguous elements; 2^lanes threads share it.
* ``Columns``: neighbouring outputs are neighbours in memory; threads take packs of outputs.
* ``Strided``: everything else, and the host device.

With too few outputs to fill the device, `splits` blocks share an output and the last of them adds
the partial results.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from kspec.dataclass import dataclass
from kspec.model.stages import pack_size, strided_capacity
from kspec.runtime.schedules import Axes
from kspec.runtime.schedules.elementwise_schedule import Member
from kspec.runtime.schedules.reductions import (
    MAX_ACCUMULATOR,
    Reader,
    ReductionSchedule,
    Resident,
    Sharing,
    StridedReader,
)

if TYPE_CHECKING:
    from kspec.model.tuning import Choice

_MASK_BITS = 64  # inputs that a bit mask has room for
_NARROW_LIMIT = 2**31  # outputs, or steps along several axes, that 32-bit indices count
_COLUMN_ROOM = 512  # accumulators of a block side by side
_LARGE = 96  # bytes of an accumulator; of larger ones shared memory holds half as many


@dataclass(frozen=True)
class ReductionLoop:
    """A reduction of `reduced.size` elements into each of `kept.size` outputs, on a GPU.

    Attributes
    ----------
    kept, reduced : Axes
        Collapsed axes; the inputs are the first operands of `kept`, and those of `reduced`.
    inputs : sequence of Member
        The inputs.
    multiprocessors : int
        Of the device.
    resident : callable
        Asked for the layout that is chosen.
    accumulator : int
        Its bytes, or at least as many.
    """

    kept: Axes
    reduced: Axes
    inputs: Sequence[Member]
    multiprocessors: int
    resident: Resident
    accumulator: int = MAX_ACCUMULATOR

    def schedule(self, wanted: Sharing | None = None) -> ReductionSchedule:
        """Return the schedule.

        Parameters
        ----------
        wanted : Sharing, optional
            A sharing that was measured to be best for calls like this one; taken if it fits.
        """
        for reader in self._readers:
            if wanted is not None and reader.fits(wanted):
                return reader.schedule(wanted)
        reader, sharing = self._by_rule()
        return reader.schedule(sharing)

    def choices(self) -> Iterator[Choice]:
        """Yield the choices worth measuring; `schedule` can be told to want any of them."""
        for reader in self._readers:
            for one in reader.options(self.multiprocessors, self.resident):
                yield one.choice

    def own_choice(self) -> Choice:
        """Return the choice of the rules, as one of `choices`."""
        return self._by_rule()[1].choice

    def _by_rule(self) -> tuple[Reader, Sharing]:
        """Return the first reader that has a rule for its axes, and what that says."""
        for reader in self._readers:
            sharing = reader.rule(self.multiprocessors, self.resident)
            if sharing is not None:
                return reader, sharing
        raise AssertionError("the last reader takes anything")

    @cached_property
    def _readers(self) -> tuple[Reader, ...]:
        """Those that the arrays allow, the best one first; the last takes any."""
        kept, reduced, inputs = self.kept, self.reduced, self.inputs
        strided = StridedReader(kept, reduced)
        if not _packs_fit(kept, reduced, inputs):
            return (strided,)
        pack = pack_size(one.pack_width for one in inputs)
        if _runs_along(reduced, inputs) and _is_whole(reduced, pack):
            from kspec.runtime.schedules.reductions.lines import LineReader

            return LineReader(kept, reduced, inputs, pack), strided
        if _runs_along(kept, inputs):
            from kspec.runtime.schedules.reductions.columns import ColumnReader

            room = _COLUMN_ROOM if self.accumulator <= _LARGE else _COLUMN_ROOM // 2
            return ColumnReader(kept, reduced, inputs, pack, room), strided
        return (strided,)


def _packs_fit(kept: Axes, reduced: Axes, inputs: Sequence[Member]) -> bool:
    narrow = kept.size < _NARROW_LIMIT and (
        len(reduced.extents) == 1 or reduced.size < _NARROW_LIMIT
    )
    few = max(len(kept.extents), len(reduced.extents)) <= strided_capacity(1)
    only_read = not any(one.written for one in inputs)
    return reduced.size > 1 and narrow and few and only_read and len(inputs) <= _MASK_BITS


def _runs_along(axes: Axes, inputs: Sequence[Member]) -> bool:
    """Whether the inputs' elements are neighbours, or the same, along the innermost axis."""
    if not axes.extents:
        return False
    steps = [(axes.strides[k][0], one.itemsize) for k, one in enumerate(inputs)]
    return any(step == size for step, size in steps) and all(
        step in (0, size) for step, size in steps
    )


def _is_whole(reduced: Axes, pack: int) -> bool:
    """Whether packs do not cross the end of the innermost axis while there are others."""
    return len(reduced.extents) == 1 or reduced.extents[0] % pack == 0
