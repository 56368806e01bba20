"""Stages of the forms of a reduction, for arrays that are in several places.

::

    stages = stages_of(total)
    first, second = (stages.aggregate([block], axis=0) for block in blocks[:2])
    carry = stages.join([first, second], [None])
    y = stages.scan([blocks[2]], axis=0, carry=carry)        # as if it were scanned with the others

Those of `kspec.runtime.kernels.partial_reduction` may reduce elements in any order; here they keep
it, so the reduce expression need not be commutative.  What all elements of a block make is one
segment, reduced to accumulators; ``kspec::Continued`` puts them in front of a scan.  Those of keys
count their elements (``kspec::Counting``).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from kspec.errors import NotSupportedError, ShapeError
from kspec.model.declaration import ReductionDeclaration
from kspec.model.forms.kinds import BY_KEY
from kspec.model.forms.outputs import infer_by_key, one_axis
from kspec.model.infer import bind_types, reduction_loop
from kspec.model.shapes import Shape
from kspec.model.stages import to_aggregates
from kspec.runtime.arguments.binding import Call, Operand, classify, resolve_stream
from kspec.runtime.arguments.checks import host_options, modes_of_call
from kspec.runtime.callcache.prepared import Prepared
from kspec.runtime.driver.device import Device
from kspec.runtime.kernels.folding import FormSchedule, launch_of
from kspec.runtime.kernels.forms.indices import gathered, index_operand
from kspec.runtime.kernels.forms.scan import ScanCarry
from kspec.runtime.kernels.partial_reduction import split_of
from kspec.runtime.kernels.partials import (
    BYTES,
    Partial,
    as_output,
    checks_of,
    head_of,
    operand_of,
)
from kspec.runtime.kernels.reduction import ReductionCallable
from kspec.runtime.libraries.lookup import Library, asarray
from kspec.runtime.schedules import Axes
from kspec.runtime.schedules.key_schedule import KEYS, PROGRESS, KeySchedule, counted_size
from kspec.runtime.schedules.reductions import MAX_ACCUMULATOR
from kspec.runtime.schedules.scan_schedule import ScanSchedule
from kspec.runtime.schedules.segment_schedule import BOUNDS

_NUMBER = 8  # bytes of the number of elements beside an accumulator


@functools.lru_cache(maxsize=1024)
def stages_of(kernel: ReductionCallable) -> FormStages:
    """Return the stages of a kernel's forms."""
    return FormStages(kernel)


class FormStages:
    """The stages of a reduction kernel's forms.

    Parameters
    ----------
    kernel : ReductionCallable
        Generated or made in Python.

    Raises
    ------
    NotSupportedError
        If parts of an array cannot be reduced by themselves; the message says why.
    """

    def __init__(self, kernel: ReductionCallable) -> None:
        self.kernel = kernel
        self.split = split_of(kernel)

    def aggregate(
        self,
        args: Sequence[Any],
        axis: int,
        taken: tuple[int, int] | None = None,
        reverse: bool = False,
    ) -> Partial:
        """Map and reduce the elements of a block along an axis, in their order.

        Parameters
        ----------
        args : sequence
            The inputs of a call: arrays, at least one of them, and scalars.
        axis : int
            The axis.
        taken : tuple of (int, int), optional
            The first of the elements along it, and the one behind the last; default: all.
        reverse : bool, default False
            Begin with the last element.

        Raises
        ------
        ArgumentTypeError, ShapeError, AxisError
            As a call.
        """
        kernel, declaration = self.kernel, self.kernel.declaration
        call = classify(declaration, args)
        kernel.check_scalars(call)
        inputs, _ = call.types()
        loop = reduction_loop(declaration, inputs)
        along = one_axis(declaration, axis, len(loop))
        first, behind = taken or (0, loop[along])
        length = behind - first
        binding = bind_types(declaration, inputs)
        outputs = (*loop[:along], *loop[along + 1 :])
        library = call.library
        assert library is not None  # there is an array among the inputs
        if not length or 0 in outputs:
            array = library.empty((min(length, 1), *outputs, 0), BYTES, call.device)
            return Partial(array, length, binding)
        from_end = along - len(loop)
        moved = [_along(one, from_end, first, length, reverse) for one in call.inputs]
        bounds_on = asarray(np.array([0, length]), device=call.device)
        bounds = index_operand(kernel.__name__, "bounds", bounds_on, call)
        handle = resolve_stream(replace(call, inputs=(*call.inputs, bounds)), None)
        size = self.split.accumulator_bytes(call, binding, handle)
        array = library.empty((1, *outputs, size), BYTES, call.device)
        kept = (*loop[:along], 1, *loop[along + 1 :])
        call, partial = _into(array, replace(call, inputs=tuple(moved)), declaration, kept)
        shape = (*loop[:along], length, *loop[along + 1 :])
        ordered = declaration.ordered

        def choose(modes: tuple[str, ...]) -> ScanSchedule:
            def axes(looped: Sequence[Operand]) -> tuple[Axes, tuple[int, ...]]:
                return kernel.axes_beside(looped, call.outputs, shape, along, ordered)

            return kernel.schedule_segments(call, bounds, shape[along], axes, binding, modes)

        head = head_of(math.prod(outputs), length, partial)
        self._prepare(call, choose, bounds, BOUNDS, head, partial, binding, handle).run()
        return Partial(array, length, binding)

    def aggregate_keys(
        self, args: Sequence[Any], keys: Any, n: int, deterministic: bool = True
    ) -> Partial:
        """Map and reduce the elements of each key of a block.

        Parameters
        ----------
        args : sequence
            The inputs of a call: arrays, at least one of them, and scalars.
        keys : array of integers
            The output of each row of the first axis.
        n : int
            Number of outputs.
        deterministic : bool, default True
            Whether elements keep their order.

        Raises
        ------
        ArgumentTypeError, ShapeError
            As a call.
        NotSupportedError
            There is no room for the number of elements beside accumulators of so many bytes.
        """
        kernel, declaration = self.kernel, self.kernel.declaration
        call, indices = kernel.with_indices((*args, keys), None, BY_KEY, "keys")
        inferred = infer_by_key(declaration, call.types()[0], indices.abstract, n=n)
        binding, length, outputs = inferred.binding, inferred.loop[0], inferred.shape
        library = call.library
        assert library is not None  # there is an array among the inputs
        if not length or 0 in outputs:
            array = library.empty((min(length, 1), *outputs, 0), BYTES, call.device)
            return Partial(array, length, binding, counting=True)
        handle = resolve_stream(replace(call, inputs=(*call.inputs, indices)), None)
        own = self.split.accumulator_bytes(call, binding, handle)
        if own > MAX_ACCUMULATOR - _NUMBER:
            raise NotSupportedError(
                f"{kernel.__name__}: accumulators of {own} bytes have no room for the number of "
                f"their elements, so keys of several parts cannot be joined; those of "
                f"{MAX_ACCUMULATOR - _NUMBER} bytes have"
            )
        array = library.empty((1, *outputs, counted_size(own, _NUMBER)), BYTES, call.device)
        call, partial = _into(array, call, declaration, outputs)
        head = head_of(math.prod(outputs[1:]), length, partial)

        def choose(modes: tuple[str, ...]) -> KeySchedule:
            return kernel.key_schedule(call, indices, inferred, modes, deterministic, counted=True)

        self._prepare(
            call, choose, indices, KEYS, head, partial, binding, handle, zeroed=PROGRESS
        ).run()
        return Partial(array, length, binding, counting=True)

    def _prepare(
        self,
        call: Call,
        choose: Callable[[tuple[str, ...]], FormSchedule],
        indices: Operand,
        place: int,
        head: bytes,
        partial: Operand,
        binding: Any,
        handle: int,
        zeroed: int | None = None,
    ) -> Prepared:
        """Return the launch that reduces to accumulators; see `FoldingCallable._prepare_form`."""
        kernel, declaration = self.kernel, self.kernel.declaration
        checks = checks_of(kernel, call.device)
        modes = modes_of_call(checks, call.device, declaration)
        schedule = choose(modes)
        touched = (*call.inputs, indices, partial)
        return Prepared(
            None,
            kernel.load(call, binding, to_aggregates(schedule.layout), modes),
            launch_of(schedule, handle, host_options(checks, modes, touched)),
            binding,
            call.device,
            lambda scratch: head + schedule.pack(scratch),
            (*call.inputs, indices, *call.outputs),
            given=False,  # a partial is new
            scratch=schedule.scratch,
            tickets=schedule.scratch if zeroed is None else min(zeroed, schedule.scratch),
            placed=((len(call.inputs), len(head) + place),),
        )

    def join(
        self, partials: Sequence[Partial], args: Sequence[Any], device: Device | None = None
    ) -> Partial:
        """Return one partial instead of several, in their order.

        Parameters
        ----------
        partials : sequence of Partial
            Of the same rows, at least one.
        args : sequence
            Inputs of the block where they are joined: raw arrays and scalars are read.
        device : Device, optional
            Where the result is needed; default: where the first of them is.
        """
        joined = self.split.combine(partials, args, ordered=True)
        return joined if device is None else self.split.joined([joined], device=device)

    def finish_keys(
        self, partials: Sequence[Partial], args: Sequence[Any], library: Library | None = None
    ) -> Any:
        """Return the outputs of keys, where the first partial is; parameters as for `join`.

        `library`: who makes the outputs; default: that of the first partial.
        """
        return self.split.finish([self.join(partials, args)], args, library=library)

    def scan(
        self,
        args: Sequence[Any],
        axis: int = -1,
        exclusive: bool = False,
        reverse: bool = False,
        carry: Partial | None = None,
    ) -> Any:
        """Return the outputs of a scan whose elements follow others.

        Parameters
        ----------
        args, axis, exclusive, reverse
            As of a call.
        carry : Partial, optional
            What the elements before make, or, with `reverse`, those behind.

        Raises
        ------
        ShapeError
            If the carry is of other rows or dtypes, and as a call.
        """
        if carry is None or not carry.count or 0 in carry.outputs:
            return self.kernel.prepare_scan(args, axis, exclusive, reverse).run()
        declaration = self.kernel.declaration
        call = classify(declaration, args)
        inputs, _ = call.types()
        loop = reduction_loop(declaration, inputs)
        along = one_axis(declaration, axis, len(loop))
        rows = (*loop[:along], *loop[along + 1 :])
        binding = bind_types(declaration, inputs)
        if (rows, binding) != (carry.outputs, carry.binding):
            raise ShapeError(
                f"{self.kernel.__name__}: parts do not fit: rows {carry.outputs} of "
                f"{dict(carry.binding)}, and {rows} of {dict(binding)}"
            )
        here = self.split.joined([carry], device=call.device)
        before = ScanCarry(operand_of(here.array), here.length)
        return self.kernel.prepare_scan(args, axis, exclusive, reverse, carry=before).run()

    def segments(
        self,
        args: Sequence[Any],
        bounds: npt.NDArray[Any],
        pieces: Sequence[Partial] = (),
    ) -> Any:
        """Return the outputs of segments, of which the last one may go on in other blocks.

        Parameters
        ----------
        args : sequence
            The inputs of a call.
        bounds : array of integers
            Where segments begin, and the last one ends.
        pieces : sequence of Partial
            All pieces of the last segment, in their order, the first one in this block.

        Raises
        ------
        ArgumentTypeError, ShapeError
            As a call.
        """
        call = classify(self.kernel.declaration, args)
        prepared = self.kernel.prepare_segments((*args, asarray(bounds, device=call.device)))
        if not pieces or prepared.kernel is None:
            return prepared.run()
        replace(prepared, library=None).run()
        outputs = prepared.operands[-len(self.kernel.declaration.outputs) :]
        joined = self.join(pieces, args)
        self.split.finish([joined], args, outputs=1, into=tuple(map(_last_row, outputs)))
        return prepared.finished()


def _into(
    array: Any, call: Call, declaration: ReductionDeclaration, shape: Shape
) -> tuple[Call, Operand]:
    """Return a call whose outputs are accumulators of this shape, and these as one operand."""
    partial = operand_of(array, call.library)
    size = array.shape[-1]
    written = tuple(as_output(param, partial, shape, size) for param in declaration.outputs)
    return gathered(replace(call, outputs=written)), partial


def _along(operand: Operand, from_end: int, first: int, length: int, reverse: bool) -> Operand:
    """Return an operand of some elements along an axis, the last one first if `reverse`."""
    view = operand.view
    if operand.param.raw or view is None or len(view.shape) < -from_end:
        return operand
    axis = len(view.shape) + from_end
    if view.shape[axis] == 1:  # the same for all elements
        return operand
    stride = view.strides[axis]
    ptr = view.ptr + stride * (first + length - 1 if reverse else first)
    shape, strides = list(view.shape), list(view.strides)
    shape[axis], strides[axis] = length, -stride if reverse else stride
    moved = replace(view, ptr=ptr, shape=tuple(shape), strides=tuple(strides))
    return replace(operand, view=moved)


def _last_row(operand: Operand) -> Operand:
    """Return an operand of the last row of an output."""
    view = operand.view
    assert view is not None
    ptr = view.ptr + (view.shape[0] - 1) * view.strides[0]
    row = replace(view, ptr=ptr, shape=view.shape[1:], strides=view.strides[1:])
    return replace(operand, view=row)
