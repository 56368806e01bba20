"""A reduction in stages, for arrays that are in several places: partial, combine, finish.

::

    split = SplitReduction(l2norm)
    partials = [split.partial([block], axis=0) for block in blocks]    # anywhere, at any time
    y = split.finish(partials, [None])                                 # where the first partial is

`partial` maps and reduces one block, `combine` makes one partial of several, `finish` does so too
and has the post-map and the identity.  They are the kernel itself in other layouts
(``kspec/aggregates.cuh``): its spec says all that is needed.  `kspec.runtime.kernels.partials` has
what they pass on.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any

from kspec.errors import ArgumentTypeError, NotSupportedError, ShapeError
from kspec.locks import OnceMap
from kspec.model.checks import NO_CHECKS, Checks
from kspec.model.infer import Binding, bind_types, bound_sizes, output_shapes, reduction_loop
from kspec.model.shapes import Shape, check_not_empty, normalize_axes, reduced_shape
from kspec.model.stages import counting, from_aggregates, strided, to_aggregates
from kspec.runtime.arguments.binding import Call, Operand, check_count, classify, resolve_stream
from kspec.runtime.arguments.checks import modes_of_call
from kspec.runtime.callcache.prepared import Prepared
from kspec.runtime.driver import stream as driver_streams
from kspec.runtime.driver.device import Device, is_scheduled_as_host, multiprocessors_of
from kspec.runtime.kernels.folding import known_size
from kspec.runtime.kernels.partials import (
    ALIGNMENT,
    BYTES,
    Partial,
    Stage,
    as_input,
    as_output,
    checks_of,
    head_of,
    operand_of,
)
from kspec.runtime.kernels.reduction import ReductionCallable, split_axes
from kspec.runtime.libraries.lookup import Library, asnumpy
from kspec.runtime.libraries.stream_order import after_launch, stream_of_call
from kspec.runtime.memory import c_strides
from kspec.runtime.memory import device_array as arrays
from kspec.runtime.memory.copy import copy_bytes
from kspec.runtime.modules import LoadedKernel
from kspec.runtime.schedules import Axes
from kspec.runtime.schedules.reductions import (
    ReductionSchedule,
    choose_host,
    choose_ordered,
    choose_strided,
)


@functools.lru_cache(maxsize=1024)
def split_of(kernel: ReductionCallable) -> SplitReduction:
    """Return the stages of a kernel: the same for each call, which know what was asked for."""
    return SplitReduction(kernel)


class SplitReduction:
    """The stages of a reduction kernel.

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
        check_splittable(kernel)
        self.kernel = kernel
        self._sizes: OnceMap[Hashable, int] = OnceMap()

    def partial(
        self, args: Sequence[Any], axis: int | Sequence[int] | None = None, stream: Any = None
    ) -> Partial:
        """Map and reduce the elements of one block.

        Parameters
        ----------
        args : sequence
            The inputs of a call: arrays, at least one of them, and scalars.
        axis : int, sequence of int or None
            Axes to reduce.
        stream : stream, optional
            Where to queue the kernel.

        Raises
        ------
        ArgumentTypeError, ShapeError, AxisError
            As a call.
        """
        partial, prepared = self.prepare_partial(args, axis, stream)
        prepared.run()
        return partial

    def prepare_partial(
        self, args: Sequence[Any], axis: int | Sequence[int] | None, stream: Any = None
    ) -> tuple[Partial, Prepared]:
        """Return the partial that `partial` returns, and the launch that computes it."""
        kernel, declaration = self.kernel, self.kernel.declaration
        call = classify(declaration, args)
        kernel.check_scalars(call)
        inputs, _ = call.types()
        shape = reduction_loop(declaration, inputs)
        reduced = normalize_axes(axis, len(shape), declaration.name)
        binding = bind_types(declaration, inputs)
        sizes = bound_sizes(declaration, inputs)
        outputs = reduced_shape(shape, reduced, keepdims=False)
        length = math.prod(shape[axis] for axis in reduced)
        library = call.library
        assert library is not None  # there is an array among the inputs
        if 0 in shape:  # no elements, or no outputs
            array = library.empty((min(length, 1), *outputs, 0), BYTES, call.device)
            return Partial(array, length, binding, sizes=sizes), Prepared(None)
        checks = checks_of(kernel, call.device)
        handle = resolve_stream(call, stream)
        size = self.accumulator_bytes(call, binding, handle)
        array = library.empty((1, *outputs, size), BYTES, call.device)
        partial = operand_of(array, library)
        written = tuple(as_output(param, partial, outputs, size) for param in declaration.outputs)
        call = Call(call.inputs, written, call.device, library)
        modes = modes_of_call(checks, call.device, declaration)
        schedule, loaded = kernel.schedule(
            call, shape, reduced, False, binding, modes, to_aggregates
        )
        head = head_of(math.prod(outputs), length, partial)
        operands = (*call.inputs, *written)
        stage = Stage(loaded, schedule, head, operands, (*call.inputs, partial), binding, size)
        prepared = stage.prepare(call, handle, checks, stream is not None)
        return Partial(array, length, binding, sizes=sizes), prepared

    def combine(
        self,
        partials: Sequence[Partial],
        args: Sequence[Any],
        stream: Any = None,
        ordered: bool = False,
    ) -> Partial:
        """Return one partial instead of several, where the first of them is.

        Parameters
        ----------
        partials : sequence of Partial
            Of the same outputs, at least one.
        args : sequence
            As for `partial`; only scalars and raw arrays are read, all others can be None.
        stream : stream, optional
            Where to queue the kernel.
        ordered : bool
            Whether each is joined to those before it, so that the reduce expression need not be
            commutative.
        """
        joined = self.joined(partials, stream)
        if joined.count < 2 or 0 in joined.outputs:
            return joined
        call, partial, handle, checks = self._call(joined, args, stream)
        size = joined.array.shape[-1]
        array = partial.library.empty((1, *joined.outputs, size), BYTES, call.device)
        into = operand_of(array, partial.library)
        written = tuple(
            as_output(param, into, joined.outputs, size)
            for param in self.kernel.declaration.outputs
        )
        call = Call(call.inputs, written, call.device, partial.library)
        schedule, loaded = self._schedule(
            joined, call, partial, joined.outputs, (), to_aggregates, checks, ordered
        )
        outputs = math.prod(joined.outputs)
        head = head_of(outputs, joined.length, into) + head_of(outputs, joined.length, partial)
        operands, touched = (*call.inputs, *written), (*call.inputs, partial, into)
        stage = Stage(loaded, schedule, head, operands, touched, joined.binding, size)
        stage.prepare(call, handle, checks, stream is not None).run()
        return replace(joined, array=array)

    def finish(
        self,
        partials: Sequence[Partial],
        args: Sequence[Any],
        kept: Sequence[int] = (),
        stream: Any = None,
        library: Library | None = None,
        outputs: int | None = None,
        into: Sequence[Operand] = (),
    ) -> Any:
        """Return the outputs of a reduction, where the first partial is.

        Parameters
        ----------
        partials, args, stream
            As for `combine`.
        kept : sequence of int
            Axes of the outputs with extent 1 that were reduced.
        library : Library, optional
            Who makes the outputs; default: that of the first partial.
        outputs : int, optional
            How many outputs the whole array has, which the post-map may ask for; default: those of
            the partials.
        into : sequence of Operand
            The outputs, if there are some already.

        Raises
        ------
        ShapeError
            Nothing was reduced, and there is no identity.
        """
        joined = self.joined(partials, stream)
        return self.prepare_finish(joined, args, kept, stream, library, outputs, into).run()

    def prepare_finish(
        self,
        joined: Partial,
        args: Sequence[Any],
        kept: Sequence[int] = (),
        stream: Any = None,
        library: Library | None = None,
        outputs: int | None = None,
        into: Sequence[Operand] = (),
    ) -> Prepared:
        """Return the launch of `finish`, given all accumulators as one partial."""
        kernel, declaration = self.kernel, self.kernel.declaration
        shape = list(joined.outputs)
        for axis in sorted(kept):
            shape.insert(axis, 1)
        if not declaration.has_identity:
            check_not_empty(kernel.__name__, (joined.length,), (0,), shape)
        call, partial, handle, checks = self._call(joined, args, stream)
        call = replace(call, library=library or call.library, outputs=tuple(into))
        shapes = output_shapes(declaration, tuple(shape), joined.sizes)
        call = kernel.with_outputs(call, shapes, joined.binding)
        values = tuple(operand.value for operand in call.outputs)
        result = values[0] if len(values) == 1 else values
        if 0 in shape:
            return Prepared(result, device=call.device, library=call.library)
        schedule, loaded = self._schedule(joined, call, partial, tuple(shape), kept, str, checks)
        head = head_of(math.prod(shape) if outputs is None else outputs, joined.length, partial)
        operands = (*call.inputs, *call.outputs)
        size = joined.array.shape[-1]
        stage = Stage(loaded, schedule, head, operands, (*operands, partial), joined.binding, size)
        prepared = stage.prepare(call, handle, checks, stream is not None)
        return replace(prepared, result=result, library=None if into else call.library)

    def joined(
        self, partials: Sequence[Partial], stream: Any = None, device: Device | None = None
    ) -> Partial:
        """Return all accumulators as one partial, on a device, or where the first one is."""
        joined, copies = self.prepare_join(partials, stream, device)
        for copy in copies:
            copy()
        return joined

    def prepare_join(
        self, partials: Sequence[Partial], stream: Any = None, device: Device | None = None
    ) -> tuple[Partial, list[Callable[[], None]]]:
        """Return the partial of `joined`, and what puts the accumulators there."""
        if not partials:
            raise ShapeError(f"{self.kernel.__name__}: there are no parts to combine")
        length = sum(partial.length for partial in partials)
        some = [partial for partial in partials if partial.count] or list(partials[:1])
        first = some[0]
        for partial in some[1:]:
            if (partial.outputs, partial.binding) != (first.outputs, first.binding):
                raise ShapeError(
                    f"{self.kernel.__name__}: parts do not fit: outputs {first.outputs} of "
                    f"{dict(first.binding)}, and {partial.outputs} of {dict(partial.binding)}"
                )
        views = [operand_of(partial.array) for partial in some]
        aligned = views[0].view.ptr % ALIGNMENT == 0
        device, library = device or views[0].view.device, views[0].library
        if len(some) == 1 and aligned and device == views[0].view.device:
            return replace(first, length=length), []
        count = sum(partial.count for partial in some)
        array = library.empty((count, *first.array.shape[1:]), BYTES, device)
        start = 0
        to = library.view(array)
        into = stream_of_call(stream, library, device)
        copies: list[Callable[[], None]] = []
        for partial in views:
            other = partial.library.stream(partial.view.device)
            if stream is not None and partial.view.device == device:
                other = into  # the caller has named what the partial was made on, too
            copies.append(
                functools.partial(copy_bytes, to.ptr + start, device, into, partial.view, other)
            )
            start += partial.view.size
        read = [(one.library, one.value) for one in views if one.view.device == device]
        copies.append(functools.partial(after_launch, device, into, read, given=stream is not None))
        return replace(first, array=array, length=length), copies

    def _call(
        self, joined: Partial, args: Sequence[Any], stream: Any
    ) -> tuple[Call, Any, int, Checks]:
        """Return the remaining inputs of a call, the partial, the stream, and the checks."""
        kernel = self.kernel
        declaration = kernel.declaration
        check_count(declaration, args)
        partial: Any = operand_of(joined.array)
        rest = [
            value
            if param.raw or param.name in declaration.scalars
            else joined.array
            if param.core
            else 0
            for param, value in zip(declaration.inputs, args, strict=False)
        ]
        call = classify(declaration, rest)
        kernel.check_scalars(call)
        inputs = tuple(as_input(one) if one.param.core else one for one in call.inputs)
        call = replace(call, inputs=inputs)
        device = partial.view.device
        if any(one.view is not None and one.view.device != device for one in call.inputs):
            raise ArgumentTypeError(
                f"{kernel.__name__}: raw arrays must be on {device}, where the parts are combined"
            )
        handle = stream_of_call(stream, partial.library, device)
        arrays.use_on(handle, joined.array)
        return (
            Call(call.inputs, (), device, partial.library),
            partial,
            handle,
            checks_of(kernel, device),
        )

    def _schedule(
        self,
        joined: Partial,
        call: Call,
        partial: Any,
        shape: Shape,
        kept: Sequence[int],
        tag: Callable[[str], str],
        checks: Checks,
        ordered: bool = False,
    ) -> tuple[ReductionSchedule, LoadedKernel]:
        """Return the schedule of the partials, and the kernel for that."""
        size = joined.array.shape[-1]
        whole = (joined.count, *shape)
        strides = c_strides(whole, size)
        view = replace(partial.view, shape=whole, strides=strides)
        inputs = [replace(partial, view=view)]
        inputs += [replace(one, view=None) for one in call.inputs if not one.param.raw][1:]
        along = tuple(range(1, len(whole)))
        kept_axes, reduced_axes = split_axes(inputs, call.outputs, whole, along, (0,), False, False)
        if joined.count == 0:
            reduced_axes = Axes((0,), tuple((0,) for _ in inputs))
        if is_scheduled_as_host(call.device):
            schedule = choose_host(kept_axes, reduced_axes)
        elif ordered:
            schedule = choose_ordered(kept_axes, reduced_axes)
        else:
            schedule = choose_strided(kept_axes, reduced_axes, multiprocessors_of(call.device))
        wanted = tag(from_aggregates(schedule.layout))
        wanted = counting(wanted) if joined.counting else wanted
        modes = modes_of_call(checks, call.device, self.kernel.declaration)
        kernel = self.kernel.load(call, joined.binding, wanted, modes, sizes=joined.sizes)
        return schedule, kernel

    def accumulator_bytes(self, call: Call, binding: Binding, stream: int) -> int:
        """Return the bytes of an accumulator; the kernel is asked for those of the user's types."""
        known = known_size(self.kernel.declaration, binding)
        key = binding, bound_sizes(self.kernel.declaration, call.types()[0])
        return known or self._sizes.get_or_make(key, lambda: self._asked(call, binding, stream))

    def _asked(self, call: Call, binding: Binding, stream: int) -> int:
        device = call.device
        answer = arrays.empty((1,), "int64", device)
        arrays.use_on(stream, answer)
        one = operand_of(answer)
        declaration = self.kernel.declaration
        modes = modes_of_call(NO_CHECKS, device, declaration)
        kernel = self.kernel.load(call, binding, to_aggregates(strided(1)), modes)
        outputs = tuple(as_output(param, one, (1,), 8) for param in declaration.outputs)
        inputs = sum(not operand.param.raw for operand in call.inputs)
        kept = Axes((1,), ((0,),) * (inputs + len(outputs)))
        along = Axes((1,), ((0,),) * inputs)
        schedule = choose_host(kept, along) if device.is_host else choose_strided(kept, along, 1)
        head = head_of(0, 0, one)
        operands = (*call.inputs, *outputs)
        Stage(kernel, schedule, head, operands, (), binding, 0).prepare(
            call, stream, NO_CHECKS, True
        ).run()
        if not device.is_host:
            driver_streams.synchronize_stream(device.ordinal, stream)
        return int(asnumpy(answer)[0])


def check_splittable(kernel: ReductionCallable) -> None:
    """Raise `NotSupportedError` if parts of an array cannot be reduced by themselves."""
    reason = kernel.declaration.whole
    if reason:
        raise NotSupportedError(
            f"{kernel.__name__} cannot reduce an array in parts: {reason}. Give it the whole "
            "array in one piece, or let the map take indices from an array: 'T x, int64 index'"
        )
