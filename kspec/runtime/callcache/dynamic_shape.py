"""Calls whose shapes change all the time: what the number of elements changes in a launch.

A plan (`kspec.runtime.callcache.launch_plan`) holds for one shape.  If all arrays are contiguous,
aligned and of the same shape, an elementwise kernel sees no more of it than the number of elements:
a `DynamicShapePlan` answers all calls with the same dtypes.

>>> number, buffer = plan.free.popitem()                                      # doctest: +SKIP
>>> plan.fit(buffer, x.size, x.data.ptr, y.data.ptr)                          # doctest: +SKIP
>>> buffer.launch(); plan.free[number] = buffer                               # doctest: +SKIP
"""

from __future__ import annotations

import struct
from typing import Any

from kspec.model import dtypes
from kspec.runtime.arguments.binding import Operand
from kspec.runtime.callcache.launch_plan import Ordered, Plan, Prepared
from kspec.runtime.driver.launch_ex import Resize, Start
from kspec.runtime.libraries.aliasing import MayOverlap
from kspec.runtime.libraries.array_access import shape_maker
from kspec.runtime.schedules.marshal import PackedParameters

# kspec::Elements<Flat, ...> begins with the size; behind two masks, which stay, are head and tail.
_SIZE, _ENDS, _ENDS_OFFSET = struct.Struct("q"), struct.Struct("2i"), 24


class ResizableBuffer:
    """Parameters in memory, and a launch whose size can be set; used as `ParameterBuffer` is.

    Attributes
    ----------
    launch : callable
        Launches the kernel; returns 0, or a code for `DynamicShapePlan.relaunch`.
    resize : callable
        Sets the number of blocks and of threads in each.
    memory : ctypes array
        Its parameters.
    elements, operands : int
        Where the first one is in it, and those of the operands.
    """

    __slots__ = ("_params", "elements", "launch", "memory", "operands", "resize")

    def __init__(self, launch: Start, resize: Resize, params: PackedParameters) -> None:
        self.launch = launch
        self.resize = resize
        self._params = params
        self.memory = params.memory
        self.elements, self.operands, *_ = params.offsets


class DynamicShapePlan(Ordered):
    """The common part of calls that differ in the number of elements.

    Parameters
    ----------
    prepared : Prepared
        One of them, which has a `Growth`.
    plan : Plan
        Its plan.

    Attributes
    ----------
    free : dict of object to ResizableBuffer
        Unused buffers, by keys that tell them apart.
    convert : tuple of callable
        For each operand, the conversion of a scalar to bytes.
    make : tuple of callable
        For each output that the caller does not give, its allocation by shape.
    refuses : callable or None
        Called with the kernel and its arrays, says whether a call must be checked after all.
    """

    __slots__ = (
        "_grow",
        "_kernel",
        "_launch",
        "_pack",
        "_parameters",
        "_written",
        "convert",
        "device",
        "free",
        "make",
        "refuses",
    )

    def __init__(self, prepared: Prepared, plan: Plan) -> None:
        assert prepared.kernel is not None
        assert prepared.growth is not None
        self.free: dict[object, ResizableBuffer] = {}
        self.convert = plan.convert
        self.device = plan.device
        sizes = [_itemsize(one) for one in prepared.operands]
        self._written = tuple(
            (one.written, one.other, sizes[one.written], sizes[one.other], one.same)
            for one in plan.distances
        )
        self.refuses = plan.refuses
        self.make = tuple(
            shape_maker(one.library, one.view.dtype, one.view.device)
            for one in prepared.operands
            if one.is_output and one.library is not None and one.view is not None
        )
        self._grow = prepared.growth.fit
        self._kernel = prepared.kernel
        self._launch = prepared.launch
        self._pack = plan.pack
        self._parameters = [prepared.first(0), *prepared.parameters()]

    def fresh(self) -> ResizableBuffer:
        """Return a new buffer."""
        params = PackedParameters(self._parameters)
        return ResizableBuffer(*self._kernel.prepare_resizable(self._launch, params), params)

    def fit(self, buffer: ResizableBuffer, size: int, *values: Any) -> None:
        """Write a number of elements, at least one, and the operands' values into a buffer."""
        for written, other, itemsize, other_itemsize, same in self._written:
            distance = values[other] - values[written]
            if -size * other_itemsize < distance < size * itemsize and (distance or not same):
                raise MayOverlap
        blocks, threads, tail = self._grow(size)
        buffer.resize(blocks, threads)
        memory, elements = buffer.memory, buffer.elements
        _SIZE.pack_into(memory, elements, size)
        _ENDS.pack_into(memory, elements + _ENDS_OFFSET, 0, tail)
        self._pack(memory, buffer.operands, *values)

    def relaunch(self, buffer: ResizableBuffer, code: int) -> None:
        """Deal with a launch that returned a code other than 0."""
        self._kernel.relaunch(buffer.launch, code)


def _itemsize(operand: Operand) -> int:
    return 0 if operand.view is None else dtypes.lookup(operand.view.dtype).itemsize
