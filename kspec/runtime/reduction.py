"""Calling a reduction kernel: axes, binding, outputs, schedule, launch.

The schedule is chosen here from the shape alone, so equal calls give equal bits:

* `lanes` threads fold each output, `rows` outputs share a block of at most 256 threads;
* neighbouring threads take neighbouring outputs when those are closer in memory than
  neighbouring elements of one output (a leading axis is reduced), else neighbouring elements;
* with too few outputs to fill the device, `splits` blocks share an output and the last of them
  adds the partial results.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kspec import config
from kspec.checks import Checks
from kspec.declaration import ReductionDeclaration
from kspec.errors import ArgumentTypeError, ShapeError
from kspec.host.device import Region
from kspec.runtime import dispatch, driver, layout, marshal
from kspec.runtime.callable import GeneratedCallable
from kspec.runtime.checked import checks_of_call, regions_of_operands
from kspec.runtime.device import Device
from kspec.runtime.dispatch import Binding, Call, Operand
from kspec.runtime.launch import Launch
from kspec.runtime.layout import Axes, Shape
from kspec.runtime.plan import pack_operand
from kspec.runtime.scratch import Scratch
from kspec.stages import Specialization, strided_capacity

THREADS = 256  # kspec::REDUCE_THREADS
_MAX_ACCUMULATOR = 192  # bytes; the static_assert in reduce.cuh
_ELEMENTS_PER_LANE = 8  # fewer are not worth another thread
_HOST_SPLIT = 65536  # elements of one output that are worth another host thread


@dataclass(frozen=True)
class Schedule:
    """How threads and blocks share the work; see the fields of ``kspec::Reduction``."""

    lanes: int
    rows: int
    neighbours: bool
    splits: int
    chunk: int
    tiles: int


class ReductionCallable(GeneratedCallable[ReductionDeclaration]):
    """A reduction kernel that can be called."""

    def __call__(
        self,
        *args: Any,
        out: Any = None,
        axis: int | Sequence[int] | None = None,
        keepdims: bool = False,
        stream: Any = None,
        sanitize: str | None = None,
        order: str | None = None,
        timeout: float | None = None,
    ) -> Any:
        """Run the kernel.

        Parameters
        ----------
        *args : arrays or scalars
            The inputs, or the inputs and all outputs. Inputs broadcast against each other.
        out : array or tuple of arrays, optional
            The outputs, one for each declared; instead of positional ones.
        axis : int, sequence of int or None
            Axes to reduce; None: all of them, ``()``: none.
        keepdims : bool, default False
            Keep reduced axes with extent 1.
        stream : stream, optional
            Default: the current stream of the first array's library.
        sanitize, order, timeout : optional
            What to check on the host device (`kspec.Checks`); default: as the kernel's `checks`,
            `kspec.checking` or the environment say.

        Returns
        -------
        array or tuple of arrays
            The outputs, of the kind of the first array; 0-d for a full reduction.

        Raises
        ------
        ArgumentTypeError
            A `TypeError`: wrong number of arguments, wrong dtype, arrays on several devices.
        ShapeError
            A `ValueError`: shapes do not fit, or nothing to reduce and no identity.
        numpy.exceptions.AxisError
            An axis is out of range.
        SpecializationNotBuilt
            Nothing precompiled fits and ``KSPEC_JIT=never``.
        """
        declaration = self.declaration
        call = dispatch.classify(declaration, args, self._given_outputs(args, out))
        shape = self._input_shape(call)
        reduced = layout.normalize_axes(axis, len(shape))
        out_shape = _output_shape(shape, reduced, keepdims)
        binding = dispatch.resolve_types(declaration, call)
        length = layout.size_of(tuple(shape[k] for k in reduced))
        if length == 0 and not declaration.has_identity and 0 not in out_shape:
            raise ShapeError(
                f"zero-size array to reduction operation {self.__name__} which has no identity"
            )
        call = self._with_outputs(call, out_shape, binding)
        checks = checks_of_call(self.__name__, call.device, self.checks, sanitize, order, timeout)
        if 0 not in out_shape:
            self._launch(call, shape, reduced, keepdims, binding, stream, checks)
        values = tuple(operand.value for operand in call.outputs)
        return values[0] if len(values) == 1 else values

    def _given_outputs(self, args: Sequence[Any], out: Any) -> tuple[Any, ...]:
        """Return the outputs given by keyword."""
        if out is None:
            return ()
        if len(args) > len(self.declaration.inputs):
            raise ShapeError(
                f"{self.__name__}: cannot specify 'out' as both positional and keyword"
            )
        outputs = out if isinstance(out, tuple) else (out,)
        if len(outputs) != len(self.declaration.outputs):
            raise ShapeError(
                f"{self.__name__}: out must hold {len(self.declaration.outputs)} arrays, "
                f"not {len(outputs)}"
            )
        return outputs

    def _input_shape(self, call: Call) -> Shape:
        """Return the broadcast shape of the inputs; check what must be a scalar."""
        for operand in call.inputs:
            if operand.param.name in self.declaration.scalars and operand.view is not None:
                raise ArgumentTypeError(
                    f"{self.__name__}: {operand.param.name} is read by the reduce or post-map "
                    "expression, where there are no elements any more; pass a scalar"
                )
        shapes = [
            operand.view.shape
            for operand in call.inputs
            if operand.view is not None and not operand.param.raw
        ]
        if not shapes:
            raise ShapeError("Loop size is undecided. Pass an array that is not raw")
        return layout.broadcast_shapes(shapes)

    def _with_outputs(self, call: Call, shape: Shape, binding: Binding) -> Call:
        """Check the given outputs, or allocate them."""
        for operand in call.outputs:
            if operand.view is not None and operand.view.shape != shape:
                raise ShapeError(
                    f"Out shape is mismatched: {self.__name__}: output {operand.param.name} has "
                    f"shape {operand.view.shape}, the result {shape}"
                )
        if call.outputs:
            return call
        library = call.library
        assert library is not None  # there is an array among the inputs
        outputs = []
        for param in self.declaration.outputs:
            array = library.empty(shape, dispatch.param_dtype(param, binding), call.device)
            outputs.append(dispatch.new_output(param, array))
        return Call(call.inputs, tuple(outputs), call.device, library)

    def _launch(
        self,
        call: Call,
        shape: Shape,
        reduced: tuple[int, ...],
        keepdims: bool,
        binding: Binding,
        stream: Any,
        checks: Checks,
    ) -> None:
        handle = dispatch.resolve_stream(call, stream)
        inputs = [operand for operand in call.inputs if not operand.param.raw]
        kept = tuple(axis for axis in range(len(shape)) if axis not in reduced)
        keep_order = self.declaration.ordered
        kept_axes, reduced_axes = _split_axes(
            inputs, call.outputs, shape, kept, reduced, keepdims, keep_order
        )
        schedule = choose_schedule(kept_axes, reduced_axes, call.device)
        capacity = strided_capacity(max(len(kept_axes.extents), len(reduced_axes.extents)))
        raw_ndims = tuple(
            len(operand.view.shape) for operand in call.inputs if operand.param.raw and operand.view
        )
        wanted = Specialization(self.__name__, binding, f"kspec::Strided<{capacity}>", raw_ndims)
        kernel = self._loader.kernel(wanted, call.device, checks.sanitize)
        operands = [pack_operand(operand, binding) for operand in (*call.inputs, *call.outputs)]
        grid, block = (schedule.tiles, schedule.splits, 1), (schedule.lanes * schedule.rows, 1, 1)
        regions = regions_of_operands(checks, (*call.inputs, *call.outputs))
        nbytes, zeroed = _scratch_bytes(kept_axes.size, schedule), _ticket_bytes(schedule)
        with Scratch(call.device, handle, nbytes, zeroed) as scratch:
            if regions and scratch.ptr:
                regions += (Region(scratch.ptr, nbytes, "the scratch memory"),)
            launch = Launch(grid, block, 0, handle, checks, regions)
            plan = _pack_plan(kept_axes, reduced_axes, schedule, capacity, scratch.ptr)
            kernel.launch(launch, marshal.ParameterBlock([plan, *operands]))


def choose_schedule(kept: Axes, reduced: Axes, device: Device) -> Schedule:
    """Return how to share `kept.size` outputs of `reduced.size` elements each."""
    outputs, length = kept.size, max(1, reduced.size)
    if device.is_host:
        # One CUDA thread a block: no barriers, and one chunk of memory for each core.
        splits = 1
        if outputs < config.host_threads():
            splits = max(1, min(4 * config.host_threads() // outputs, length // _HOST_SPLIT))
        return _schedule(1, 1, False, splits, outputs, length)
    neighbours = _first_step(kept) < _first_step(reduced)
    lanes = 1
    while lanes < THREADS and lanes * _ELEMENTS_PER_LANE < length:
        lanes *= 2
    rows = THREADS // lanes
    if neighbours and rows < 32:
        # Coalesce over outputs: a warp of neighbours, the rest of the block along the axis.
        rows = min(32, _power_of_two(outputs))
        lanes = THREADS // rows
    tiles = -(-outputs // rows)
    wanted_blocks = 8 * driver.multiprocessors(device.ordinal)
    most_splits = max(1, length // (lanes * _ELEMENTS_PER_LANE))
    splits = max(1, min(wanted_blocks // tiles, most_splits, 65535))
    return _schedule(lanes, rows, neighbours, splits, outputs, length)


def _schedule(
    lanes: int, rows: int, neighbours: bool, splits: int, outputs: int, length: int
) -> Schedule:
    chunk = -(-length // splits)
    splits = -(-length // chunk)  # no split without elements
    return Schedule(lanes, rows, neighbours, splits, chunk, -(-outputs // rows))


def _power_of_two(limit: int) -> int:
    """Return the smallest power of two that is not below `limit`."""
    return 1 << (limit - 1).bit_length()


def _first_step(axes: Axes) -> int:
    """Return the distance of neighbours along the innermost axis, over the first input."""
    return abs(axes.strides[0][0]) if axes.extents else 2**63


def _output_shape(shape: Shape, reduced: tuple[int, ...], keepdims: bool) -> Shape:
    if keepdims:
        return tuple(1 if axis in reduced else extent for axis, extent in enumerate(shape))
    return tuple(extent for axis, extent in enumerate(shape) if axis not in reduced)


def _split_axes(
    inputs: Sequence[Operand],
    outputs: Sequence[Operand],
    shape: Shape,
    kept: tuple[int, ...],
    reduced: tuple[int, ...],
    keepdims: bool,
    keep_order: bool,
) -> tuple[Axes, Axes]:
    """Collapse the kept axes (inputs and outputs) and the reduced ones (inputs)."""
    still = (0,) * len(shape)
    along = [
        layout.broadcast_strides(operand.view.shape, operand.view.strides, shape)
        if operand.view
        else still
        for operand in inputs
    ]
    kept_strides = [tuple(strides[axis] for axis in kept) for strides in along]
    for operand in outputs:
        assert operand.view is not None
        strides = operand.view.strides
        kept_strides.append(tuple(strides[axis] for axis in kept) if keepdims else strides)
    kept_axes = layout.collapse(tuple(shape[k] for k in kept), kept_strides, keep_order)
    extents = tuple(shape[k] for k in reduced)
    reduced_strides = [tuple(strides[axis] for axis in reduced) for strides in along]
    if 0 in extents:
        # Nothing is read: the kernel only has to see the length.
        return kept_axes, Axes((0,), tuple((0,) for _ in inputs))
    return kept_axes, layout.collapse(extents, reduced_strides, keep_order)


def _scratch_bytes(outputs: int, schedule: Schedule) -> int:
    """Return the size of tickets and partial results, 0 when one block folds each output."""
    if schedule.splits == 1:
        return 0
    return _ticket_bytes(schedule) + outputs * schedule.splits * _MAX_ACCUMULATOR


def _ticket_bytes(schedule: Schedule) -> int:
    return -(-4 * schedule.tiles // 256) * 256


def _pack_plan(kept: Axes, reduced: Axes, schedule: Schedule, capacity: int, scratch: int) -> bytes:
    """Pack ``kspec::Reduction``; the scratch memory starts with the tickets."""
    return (
        struct.pack(
            "3q4i2P",
            kept.size,
            reduced.size,
            schedule.chunk,
            schedule.lanes,
            schedule.rows,
            schedule.neighbours,
            schedule.splits,
            scratch + _ticket_bytes(schedule) if scratch else 0,
            scratch,
        )
        + marshal.pack_axes(kept, capacity)
        + marshal.pack_axes(reduced, capacity)
    )
