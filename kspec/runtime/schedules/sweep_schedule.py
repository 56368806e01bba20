"""Schedules of pairwise reductions: which inputs are swept, and how blocks share the pairs.

This module packs the structures of ``kspec/sweep.cuh``.  Every input is either the same for all
elements of an output, or the same for all outputs: of these, blocks keep tiles in shared memory.

>>> kept, reduced = Axes((8,), ((12,), (0,), (4,))), Axes((9,), ((0,), (16,)))
>>> swept_inputs(kept, reduced, 2)
2
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from kspec.model.stages import sweep
from kspec.runtime.schedules import Axes, marshal
from kspec.runtime.schedules.item_schedule import ItemMember
from kspec.runtime.schedules.reductions import ReductionSchedule, Resident

_THREADS = 256  # kspec::MaxThreads
_OUTPUTS = 2  # of a thread: kspec::SWEEP_OUTPUTS
_CAPACITY = 8  # axes
_MOST_BYTES = 128  # of swept inputs, for each element: a block has as many elements as threads
_LEAST = 64  # elements of an output, and outputs, below which tiles are not worth their barriers
_LEAST_TILES = 4  # of a split
_MAX_SPLITS = 65535  # blocks along y


def swept_inputs(kept: Axes, reduced: Axes, count: int) -> int:
    """Return a bit for each input that is the same for all outputs; 0 unless the others are held.

    Parameters
    ----------
    kept, reduced : Axes
        Collapsed axes; the inputs are the first `count` operands of both.
    """
    swept = 0
    for number in range(count):
        if any(reduced.strides[number]):
            if any(kept.strides[number]):
                return 0
            swept |= 1 << number
    return swept


def choose_sweep(
    kept: Axes,
    reduced: Axes,
    inputs: Sequence[ItemMember],
    resident: Resident,
) -> ReductionSchedule | None:
    """Return a GPU's schedule of a pairwise reduction, or None for other reductions.

    The parameters are those of `kspec.runtime.schedules.reduction_schedule.ReductionLoop`.
    """
    outputs, length = kept.size, reduced.size
    few = max(len(kept.extents), len(reduced.extents)) <= _CAPACITY
    if not few or min(outputs, length) < _LEAST or len(inputs) > 30:
        return None
    swept = swept_inputs(kept, reduced, len(inputs))
    nbytes = sum(one.nbytes for number, one in enumerate(inputs) if swept >> number & 1)
    small = all(one.is_small and not one.written for one in inputs)
    if not swept or not small or nbytes > _MOST_BYTES:
        return None
    layout = sweep(swept)
    tiles = -(-outputs // (_THREADS * _OUTPUTS))
    most = max(1, length // (_LEAST_TILES * _THREADS))
    splits = max(1, min(resident(layout, _THREADS) // tiles, most, _MAX_SPLITS))
    chunk = marshal.up(-(-length // splits), _THREADS)
    splits = -(-length // chunk)
    head = struct.pack("3q2i", outputs, length, chunk, splits, 0)
    tail = marshal.pack_axes(kept, _CAPACITY) + marshal.pack_axes(reduced, _CAPACITY)
    return ReductionSchedule(layout, tiles, splits, _THREADS, outputs * splits, head, tail)
