"""Calling a reduction kernel: axes, binding, outputs, schedule, launch."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kspec.errors import ArgumentTypeError, shorten
from kspec.model.infer import Binding, infer
from kspec.model.shapes import Shape
from kspec.runtime.arguments.binding import (
    Call,
    Operand,
    classify,
    resolve_stream,
)
from kspec.runtime.arguments.checks import (
    checks_of_call,
    host_options,
    modes_of_call,
    repeatable,
)
from kspec.runtime.callcache import ABSENT, given_of, types_of
from kspec.runtime.callcache.prepared import Prepared
from kspec.runtime.driver.device import is_scheduled_as_host, multiprocessors_of
from kspec.runtime.driver.launch import NO_OPTIONS, Launch, LaunchOptions
from kspec.runtime.kernels import CALL_ERRORS
from kspec.runtime.kernels.folding import FoldingCallable, FormMethod, is_plain, known_size
from kspec.runtime.kernels.loop_nest import item_member, member_of, tuning_case
from kspec.runtime.libraries.untraced import untraced
from kspec.runtime.modules import LoadedKernel
from kspec.runtime.schedules import Axes, broadcast_strides, collapse
from kspec.runtime.schedules.reductions import (
    MAX_ACCUMULATOR,
    ReductionSchedule,
    Sharing,
    choose_host,
    choose_strided,
)

if TYPE_CHECKING:
    from kspec.runtime.arguments.permuted import PermutedView
    from kspec.runtime.kernels.bound import Bound
    from kspec.runtime.kernels.forms.by_key import ByKeyCallable
    from kspec.runtime.kernels.forms.scan import ScanCallable
    from kspec.runtime.kernels.forms.segments import SegmentsCallable
    from kspec.runtime.kernels.forms.window import WindowCallable

    class _OtherForms(ScanCallable, SegmentsCallable, ByKeyCallable, WindowCallable):
        pass

else:
    _OtherForms = FoldingCallable


class ReductionCallable(_OtherForms):
    """A reduction kernel that can be called."""

    if not TYPE_CHECKING:  # which knows them from their classes
        scan = FormMethod("scan", "ScanCallable")
        prepare_scan = FormMethod("scan", "ScanCallable")
        segments = FormMethod("segments", "SegmentsCallable")
        with_bounds = FormMethod("segments", "SegmentsCallable")
        prepare_segments = FormMethod("segments", "SegmentsCallable")
        by_key = FormMethod("by_key", "ByKeyCallable")
        with_count = FormMethod("by_key", "ByKeyCallable")
        prepare_by_key = FormMethod("by_key", "ByKeyCallable")
        key_schedule = FormMethod("by_key", "ByKeyCallable")
        window = FormMethod("window", "WindowCallable")
        with_size = FormMethod("window", "WindowCallable")
        prepare_window = FormMethod("window", "WindowCallable")

    @untraced
    def __call__(
        self,
        a0: Any = ABSENT,
        a1: Any = ABSENT,
        a2: Any = ABSENT,
        a3: Any = ABSENT,
        a4: Any = ABSENT,
        /,
        *rest: Any,
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
        a0, a1, a2, a3, a4, *rest : arrays or scalars
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
        try:
            if (
                sanitize is None
                and order is None
                and timeout is None
                and type(keepdims) is bool
                and (axis is None or is_plain(axis))
            ):
                if rest or out is not None:
                    args = given_of(a0, a1, a2, a3, a4, *rest)
                    given = self.all_given(args, out)
                    cached = self._call_cache[types_of(given)] if given else None
                    if cached is not None and given:
                        places = (*given, *self._absent[len(given) :])
                        return cached(self, *places, axis, keepdims, stream)
                else:
                    cached = self._call_cache[type(a0), type(a1), type(a2), type(a3), type(a4)]
                    if cached is not None:
                        return cached(self, a0, a1, a2, a3, a4, axis, keepdims, stream)
            args = given_of(a0, a1, a2, a3, a4, *rest)
            options = LaunchOptions(stream, sanitize=sanitize, order=order, timeout=timeout)
            prepared = self.prepare(args, axis, keepdims, out, options)
            result = prepared.run()
            values = (*args, *self.given_outputs(args, out))
            returned = "one" if len(self._declaration.outputs) == 1 else "tuple"
            self._call_cache.learn(
                values, lambda: self._entry(values, ("axis", "keepdims"), returned)
            )
            return result
        except CALL_ERRORS as error:
            shorten(error)
            raise

    @untraced
    def bind(
        self,
        *args: Any,
        form: str = "reduce",
        out: Any = None,
        stream: Any = None,
        **keywords: Any,
    ) -> Bound:
        """Check a call now, for launching it many times with the same arguments.

        The arrays are kept alive, and must keep their shape and memory; outputs that are not given
        are made once.  The stream is the one that is current now. Launches share scratch memory, so
        they must not run at the same time on several streams, as graphs and the default streams of
        threads can.

        Parameters
        ----------
        *args : arrays or scalars
            As in a call of the form.
        form : {"reduce", "scan", "segments", "by_key", "window"}, default "reduce"
            The form that is called: ``f.bind(x, form="scan", axis=0)`` calls ``f.scan(x, axis=0)``.
        out, stream : optional
            As in a call.
        **keywords
            Other keyword arguments of the form, such as `axis`.

        Returns
        -------
        Bound
            Calling it, without arguments, launches the kernel and returns the outputs.

        Raises
        ------
        ArgumentTypeError
            A `TypeError`: there is no such form. Other errors are those of a call.
        """
        try:
            from kspec.model.forms.kinds import BY_KEY, FORMS, REDUCE, SEGMENTS, WINDOW

            if form not in FORMS:
                raise ArgumentTypeError(
                    f"{self.__name__}: form is {form!r}; expected one of {', '.join(FORMS)}"
                )
            options = repeatable(LaunchOptions(stream), self.checks)
            if form == REDUCE:
                prepared = self.prepare(args, out=out, options=options, **keywords)
                return self._bound(prepared, functools.partial(self, **keywords))
            if form == SEGMENTS:
                args = self.with_bounds(args, keywords.pop("indptr", None))
            elif form == WINDOW and "size" not in keywords:
                args, keywords["size"] = self.with_size(args)
            elif form == BY_KEY and "n" not in keywords:
                args, keywords["n"] = self.with_count(args)
            prepared = getattr(self, f"prepare_{form}")(args, out=out, options=options, **keywords)
            return self._bound(prepared, functools.partial(getattr(self, form), **keywords))
        except CALL_ERRORS as error:
            shorten(error)
            raise

    def prepare(
        self,
        args: Sequence[Any],
        axis: int | Sequence[int] | None = None,
        keepdims: bool = False,
        out: Any = None,
        options: LaunchOptions = NO_OPTIONS,
    ) -> Prepared:
        """Check a call, with parameters and errors as those of the call, and make its outputs."""
        declaration = self.declaration
        given = out is not None or len(args) > len(declaration.inputs)
        call = classify(declaration, args, self.given_outputs(args, out))
        self.check_scalars(call)
        inferred = infer(declaration, *call.types(), axis=axis, keepdims=keepdims)
        shape, reduced, binding = inferred.loop, inferred.reduced, inferred.binding
        out_shape = inferred.shape
        call = self.with_outputs(call, inferred.shapes, binding)
        checks = checks_of_call(self.__name__, call.device, self.checks, options)
        values = tuple(operand.value for operand in call.outputs)
        result = values[0] if len(values) == 1 else values
        if 0 in out_shape:
            made_by = None if given else call.library
            return Prepared(result, device=call.device, library=made_by)
        handle = resolve_stream(call, options.stream)
        call = replace(call, stream=handle)
        operands = (*call.inputs, *call.outputs)
        views: tuple[PermutedView, ...] = ()
        if declaration.raw_views or declaration.indexers:
            from kspec.runtime.arguments.permuted import permuted_views

            views = permuted_views(declaration, call, shape, reduced, keepdims)
        ndims = tuple(view.ndim for view in views)
        modes = modes_of_call(checks, call.device, declaration)
        schedule, kernel = self.schedule(
            call, shape, reduced, keepdims, binding, modes, view_ndims=ndims
        )
        grid, block = (schedule.tiles, schedule.splits, 1), (schedule.threads, 1, 1)
        return Prepared(
            result,
            kernel,
            Launch(grid, block, 0, handle, host_options(checks, modes, operands)),
            binding,
            call.device,
            schedule.pack,
            operands,
            tuple((view.operand, view.packed) for view in views),
            given,
            scratch=schedule.scratch(known_size(declaration, binding) or MAX_ACCUMULATOR),
            tickets=schedule.tickets,
            named=options.stream is not None,
            library=None if given else call.library,
        )

    def schedule(
        self,
        call: Call,
        shape: Shape,
        reduced: tuple[int, ...],
        keepdims: bool,
        binding: Binding,
        modes: tuple[str, ...],
        tag: Callable[[str], str] = str,
        view_ndims: tuple[int, ...] = (),
    ) -> tuple[ReductionSchedule, LoadedKernel]:
        """Return the reduction schedule and its kernel.

        `tag` makes the layout of the kernel of that of the schedule. `view_ndims` are the
        dimensions of ``_raw_<name>`` and of the indexers.
        """
        inputs = [operand for operand in call.inputs if not operand.param.raw]
        kept = tuple(axis for axis in range(len(shape)) if axis not in reduced)
        keep_order = self.declaration.ordered
        kept_axes, reduced_axes = split_axes(
            inputs, call.outputs, shape, kept, reduced, keepdims, keep_order
        )

        def load(layout_tag: str) -> LoadedKernel:
            return self.load(call, binding, tag(layout_tag), modes, view_ndims)

        def resident(layout_tag: str, threads: int) -> int:
            return load(layout_tag).resident_blocks(threads)

        if is_scheduled_as_host(call.device):
            schedule = choose_host(kept_axes, reduced_axes)
            return schedule, load(schedule.layout)
        count = multiprocessors_of(call.device)
        if self.declaration.has_core:
            from kspec.runtime.schedules.sweep_schedule import choose_sweep

            items = [item_member(operand, binding) for operand in inputs]
            swept = choose_sweep(kept_axes, reduced_axes, items, resident) if tag is str else None
            schedule = swept or choose_strided(kept_axes, reduced_axes, count)
        else:
            from kspec.runtime.schedules.reduction_schedule import ReductionLoop

            members = [member_of(operand, binding) for operand in inputs]
            accumulator = known_size(self.declaration, binding) or MAX_ACCUMULATOR
            loop = ReductionLoop(kept_axes, reduced_axes, members, count, resident, accumulator)
            wanted = None
            if self.tuned:
                sizes = kept_axes.extents, reduced_axes.extents
                case = tuning_case(call.device, binding, sizes, loop.choices, loop.own_choice)
                wanted = self.tuned.choice(case)
            schedule = loop.schedule(Sharing.of(wanted))
        return schedule, load(schedule.layout)


def split_axes(
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
        broadcast_strides(*operand.layout, shape) if operand.view else still for operand in inputs
    ]
    kept_strides = [tuple(strides[axis] for axis in kept) for strides in along]
    for operand in outputs:
        _, strides = operand.layout
        kept_strides.append(tuple(strides[axis] for axis in kept) if keepdims else strides)
    kept_axes = collapse(tuple(shape[k] for k in kept), kept_strides, keep_order)
    extents = tuple(shape[k] for k in reduced)
    reduced_strides = [tuple(strides[axis] for axis in reduced) for strides in along]
    if 0 in extents:
        # Nothing is read: the kernel only has to see the length.
        return kept_axes, Axes((0,), tuple((0,) for _ in inputs))
    return kept_axes, collapse(extents, reduced_strides, keep_order)
