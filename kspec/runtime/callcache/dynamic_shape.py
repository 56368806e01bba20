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
from collections.abc import Callable, Iterator, Sequence

from kspec.model import dtypes
from kspec.runtime.arguments.binding import Operand
from kspec.runtime.callcache.codegen import make_function
from kspec.runtime.callcache.launch_plan import Ordered, Plan, values_format
from kspec.runtime.callcache.param_buffer import ParameterBuffer
from kspec.runtime.callcache.prepared import Prepared
from kspec.runtime.driver.launch import Launch
from kspec.runtime.driver.launch_ex import Resize
from kspec.runtime.libraries.aliasing import Distance, MayOverlap
from kspec.runtime.libraries.array_access import shape_maker
from kspec.runtime.modules import LoadedKernel
from kspec.runtime.schedules.elementwise_schedule import host_threads
from kspec.runtime.schedules.marshal import PackedParameters

# kspec::Elements<Flat, ...>: the size, two masks, which stay, head and tail.
_ELEMENTS, _MASKS = "q16s2i", slice(8, 24)


class ResizableBuffer(ParameterBuffer):
    """Parameters in memory, and a launch whose size can be set.

    Attributes
    ----------
    resize : callable
        Sets the size of the kernel's launch.
    memory : ctypes array
        The parameters.
    begin : int
        Where they begin in it.
    blocks, threads : int
        The size that was set last; 0: none yet.
    sized : callable or None
        The function of a graph that has set this size too.
    """

    __slots__ = ("begin", "blocks", "memory", "resize", "sized", "threads")

    def __init__(self, kernel: LoadedKernel, launch: Launch, params: PackedParameters) -> None:
        start, self.resize = kernel.prepare_resizable(launch, params)
        super().__init__(kernel, launch, params, start)
        self.memory = params.memory
        self.begin = params.offsets[0]
        self.blocks = self.threads = 0
        self.sized: Resize | None = None


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
    fit : callable
        Writes the number of elements, at least one, and the operands' values into a buffer; raises
        `MayOverlap`.
    make : tuple of callable
        For each output that the caller does not give, its allocation by shape.
    refuses : callable or None
        Called with the kernel and its arrays, says whether a call must be checked after all.
    """

    __slots__ = (
        "_kernel",
        "_launch",
        "_parameters",
        "convert",
        "device",
        "fit",
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
        self.refuses = plan.refuses
        self.make = tuple(
            shape_maker(one.library, one.view.dtype, one.view.device)
            for one in prepared.operands
            if one.is_output and one.library is not None and one.view is not None
        )
        self._kernel = prepared.kernel
        self._launch = prepared.launch
        first = prepared.first(0)
        self._parameters = [first, *prepared.parameters()]
        values = values_format(prepared, self._parameters[1:])
        assert values is not None  # arrays whose shape is a parameter have no `Growth`
        assert len(first) == struct.calcsize(_ELEMENTS)
        names = {
            "MayOverlap": MayOverlap,
            "host_threads": host_threads,
            "masks": first[_MASKS],
            "pack": struct.Struct(_ELEMENTS + values).pack_into,
            "relaunch": prepared.kernel.relaunch,
        }
        sizes = [_itemsize(one) for one in prepared.operands]
        text = "\n    ".join(_fit_lines(sizes, plan.distances, prepared.growth.lines))
        self.fit: Callable[..., None] = make_function(text, names, ())

    def fresh(self) -> ResizableBuffer:
        """Return a new buffer."""
        return ResizableBuffer(self._kernel, self._launch, PackedParameters(self._parameters))

    def relaunch(self, buffer: ResizableBuffer, code: int) -> None:
        """Deal with a launch that returned a code other than 0."""
        self._kernel.relaunch(buffer.launch, code)


def _fit_lines(
    sizes: Sequence[int], distances: Sequence[Distance], growth: Sequence[str]
) -> Iterator[str]:
    """Yield the lines of ``fit``, given the operands' sizes of an element in bytes."""
    values = ", ".join(f"v{number}" for number in range(len(sizes)))
    yield f"def fit(buffer, size, {values}):"
    for one in distances:
        written, other = f"v{one.written}", f"v{one.other}"
        low, high = f"-{sizes[one.other]} * size", f"{sizes[one.written]} * size"
        different = f" and {other} != {written}" if one.same else ""
        yield f"if {low} < {other} - {written} < {high}{different}: raise MayOverlap"
    yield from growth
    yield f"pack(buffer.memory, buffer.begin, size, masks, 0, tail, {values})"
    yield "graph = buffer.graph"
    yield "resize = None if graph is None else graph.resize"
    yield "if blocks != buffer.blocks or threads != buffer.threads or resize is not buffer.sized:"
    # Also where a graph is launched: another thread may let it go, or its stream be captured.
    yield "    buffer.resize(blocks, 1, 1, threads, 1, 1)"
    yield "    if resize is not None: resize(blocks, 1, 1, threads, 1, 1)"
    # Not the graph itself: a buffer that is not used must not keep one that was let go.
    yield "    buffer.blocks, buffer.threads, buffer.sized = blocks, threads, resize"
    yield "if graph is not None:"
    yield "    code = graph.update()"
    yield "    if code: relaunch(graph.update, code)"


def _itemsize(operand: Operand) -> int:
    return 0 if operand.view is None else dtypes.lookup(operand.view.dtype).itemsize
