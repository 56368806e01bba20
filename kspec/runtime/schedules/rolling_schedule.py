"""Schedules of sliding windows: axes in, layout, geometry and packed plan out.

The layout is ``Rolling`` of ``kspec/layout.cuh``: a thread for each output on a GPU, some outputs
for each thread on the host device.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from kspec import config
from kspec.model.forms.sliding import SHRINK, SlidingAxis
from kspec.model.neighbours import windows
from kspec.model.shapes import Shape, size_of
from kspec.model.stages import rolling, strided_capacity
from kspec.runtime.schedules import marshal
from kspec.runtime.schedules.scan_schedule import HOST_ELEMENTS
from kspec.runtime.schedules.strides import Axes, Strides

_THREADS = 256


@dataclass(frozen=True)
class RollingSchedule:
    """Division of sliding windows among threads and blocks.

    Attributes
    ----------
    layout : str
        Tag of ``kspec/layout.cuh``.
    blocks, threads : int
        How many, and threads of each.
    plan : bytes
        ``kspec::Reduction``.
    """

    layout: str
    blocks: int
    threads: int
    plan: bytes
    scratch = 0
    shared = 0
    cooperative = False

    def pack(self, scratch: int) -> bytes:
        """Return the plan; it needs no scratch memory."""
        return self.plan


def choose_rolling(
    shape: Shape,
    out_shape: Shape,
    sliding: Sequence[SlidingAxis],
    boundary: str,
    inputs: Sequence[Strides],
    outputs: Sequence[Strides],
    *,
    on_host: bool,
) -> RollingSchedule:
    """Return the schedule.

    Parameters
    ----------
    shape, out_shape : tuple of int
        Of the loop, and of the outputs.
    sliding : sequence of SlidingAxis
        Axes along which windows slide, outermost first.
    boundary : str
        What lies beyond their ends.
    inputs, outputs : sequence of tuple of int
        Byte strides of each operand along all axes.
    on_host : bool
        Whether it is the host device's.
    """
    steps = {one.axis: one.step for one in sliding}
    moved = [
        tuple(stride * steps.get(axis, 1) for axis, stride in enumerate(strides))
        for strides in inputs
    ]
    ndim, count = len(shape), size_of(out_shape)
    length = math.prod(one.size for one in sliding)
    along = [tuple(reversed(strides)) for strides in (*moved, *outputs)]
    # With CONSTANT, ``kspec::index_outside`` says that there is no element.
    code = windows.BOUNDARIES.index(windows.CONSTANT if boundary == SHRINK else boundary)
    plan = struct.pack("2q2i", count, length, code, 0)
    for one in reversed(sliding):
        numbers = ndim - 1 - one.axis, one.size, one.step, one.before, shape[one.axis]
        plan += struct.pack(f"{5 + len(inputs)}q", *numbers, *(row[one.axis] for row in inputs))
    plan += marshal.pack_axes(Axes(out_shape[::-1], tuple(along)), strided_capacity(ndim))
    layout = rolling(len(sliding), ndim)
    if on_host:
        blocks = min(count, 4 * config.host_threads(), 1 + count * length // HOST_ELEMENTS)
        return RollingSchedule(layout, blocks, 1, plan)
    return RollingSchedule(layout, -(-count // _THREADS), _THREADS, plan)
