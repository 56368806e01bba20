"""The base of reductions in all their forms: arguments, the kernel of a layout, repeated calls."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from kspec.errors import ArgumentTypeError
from kspec.model import dtypes
from kspec.model.declaration import ReductionDeclaration
from kspec.model.infer import Binding, Inferred, bound_sizes, param_dtype
from kspec.model.shapes import Shape
from kspec.model.stages import Specialization, strided
from kspec.runtime.arguments.binding import (
    Call,
    Operand,
    classify,
    raw_ndims,
    resolve_stream,
)
from kspec.runtime.arguments.checks import checks_of_call, host_options, modes_of_call
from kspec.runtime.callcache import (
    CacheEntry,
    CacheInfo,
    CallCache,
    CallFunction,
    types_of,
)
from kspec.runtime.callcache.prepared import Prepared
from kspec.runtime.driver.device import gpu_of
from kspec.runtime.driver.launch import HostOptions, Launch, LaunchOptions
from kspec.runtime.kernels import GeneratedCallable
from kspec.runtime.kernels.loop_nest import member_of
from kspec.runtime.libraries.untraced import untraced
from kspec.runtime.modules import LoadedKernel
from kspec.runtime.modules.loader import KernelLoader
from kspec.runtime.schedules import Axes, Strides, broadcast_strides, collapse

if TYPE_CHECKING:
    from kspec.model.neighbours.windows import BoundSizes
    from kspec.runtime.schedules.scan_schedule import ScanSchedule


_SLOTS = 256  # accumulators in the shared memory of a strided reduction: kspec::MaxThreads


class FormSchedule(Protocol):
    """Division of the work of a form among threads and blocks."""

    @property
    def layout(self) -> str:
        """Tag of ``kspec/layout.cuh``."""

    @property
    def blocks(self) -> int:
        """Number of blocks."""

    @property
    def threads(self) -> int:
        """Threads of each."""

    @property
    def shared(self) -> int:
        """Bytes of dynamic shared memory."""

    @property
    def cooperative(self) -> bool:
        """Whether all blocks must be resident."""

    @property
    def carveout(self) -> int | None:
        """Percentage of memory that is preferred as shared memory; None: as the driver chooses."""

    @property
    def scratch(self) -> int:
        """Bytes of scratch memory, all zero before the first launch."""

    def pack(self, scratch: int) -> bytes:
        """Pack the plan with the address of the scratch memory, or 0."""


def launch_of(schedule: FormSchedule, stream: int, host: HostOptions) -> Launch:
    """Return the launch of a schedule."""
    grid, block, shared = (schedule.blocks, 1, 1), (schedule.threads, 1, 1), schedule.shared
    return Launch(
        grid,
        block,
        shared,
        stream,
        host,
        schedule.cooperative,
        shared_limit=shared or None,
        carveout=schedule.carveout,
    )


class FoldingCallable(GeneratedCallable[ReductionDeclaration]):
    """Base of reduction kernels, each of whose forms adds a method."""

    def _declare(self, declaration: ReductionDeclaration, loader: KernelLoader) -> None:
        super()._declare(declaration, loader)
        self._form_caches: dict[str, CallCache] = {}

    def cache_info(self) -> CacheInfo:
        """Return the number of repeated calls, of all forms, that launch at once."""
        caches = (self._call_cache, *self._form_caches.values())
        return CacheInfo.total(one.info() for one in caches)

    def _cached(self, form: str, given: tuple[Any, ...] | None) -> CallFunction | None:
        """Return the function for repeated calls of a form with arguments of these types."""
        cache = self._form_caches.get(form)
        return cache[types_of(given)] if cache is not None and given is not None else None

    def _run_form(
        self,
        form: str,
        prepared: Prepared,
        given: tuple[Any, ...] | None,
        options: tuple[str, ...],
        indices: int = 0,
    ) -> Any:
        """Make a checked call of a form, and take note of the types of its arguments.

        Parameters
        ----------
        given : tuple
            The inputs, arrays of integers that the form takes beside them, and given outputs.
        options : tuple of str
            Keyword arguments that plans depend on.
        indices : int
            How many arrays of integers there are.
        """
        result = prepared.run()
        assert given is not None  # the call was checked
        values = given
        returned = "one" if len(self._declaration.outputs) == 1 else "tuple"

        def make() -> CacheEntry | None:
            prepare = f"prepare_{form}"
            return self._entry(values, options, returned, indices=indices, prepare=prepare)

        self._form_caches.setdefault(form, CallCache()).learn(values, make)
        return result

    def _prepare_form(
        self,
        call: Call,
        inferred: Inferred,
        given: bool,
        options: LaunchOptions,
        choose: Callable[[Call, tuple[str, ...]], FormSchedule],
        indices: Operand | None = None,
        place: int = 0,
        zeroed: int | None = None,
    ) -> Prepared:
        """Return the launch of a checked call with all outputs.

        Parameters
        ----------
        inferred : Inferred
            Its types.
        given : bool
            Whether the caller gave the outputs.
        options : LaunchOptions
            Keywords of the call.
        choose : callable
            Returns the schedule, given the call and the instrumentation of the kernel.
        indices : Operand, optional
            The array of integers that the form takes beside the inputs.
        place : int
            Offset of its address in the plan.
        zeroed : int, optional
            Bytes of scratch memory that are zero before the first launch; all by default.
        """
        declaration, binding = self.declaration, inferred.binding
        checks = checks_of_call(self.__name__, call.device, self.checks, options)
        values = tuple(operand.value for operand in call.outputs)
        result = values[0] if len(values) == 1 else values
        library = None if given else call.library
        if 0 in inferred.shape:
            return Prepared(result, device=call.device, library=library)
        read = call.inputs if indices is None else (*call.inputs, indices)
        handle = resolve_stream(replace(call, inputs=read), options.stream)
        call = replace(call, stream=handle)
        modes = modes_of_call(checks, call.device, declaration)
        schedule = choose(call, modes)
        operands = (*read, *call.outputs)
        host = host_options(checks, modes, operands)
        return Prepared(
            result,
            self.load(call, binding, schedule.layout, modes),
            launch_of(schedule, handle, host),
            binding,
            call.device,
            schedule.pack,
            operands,
            given=given,
            scratch=schedule.scratch,
            tickets=schedule.scratch if zeroed is None else min(zeroed, schedule.scratch),
            named=options.stream is not None,
            library=library,
            placed=() if indices is None else ((len(call.inputs), place),),
        )

    def with_indices(
        self, args: Sequence[Any], out: Any, form: str, name: str
    ) -> tuple[Call, Operand]:
        """Return the operands of a call, and the array of integers that is behind its inputs.

        Parameters
        ----------
        args : sequence
            The inputs, the array, and outputs unless there are none or they are in `out`.
        form, name : str
            The form, and what messages call the array.
        """
        from kspec.runtime.kernels.forms.indices import gathered, index_operand

        declaration = self.declaration
        nin, nout = len(declaration.inputs), len(declaration.outputs)
        if len(args) not in (nin + 1, nin + 1 + nout):
            raise ArgumentTypeError(
                f"{self.__name__}.{form}() takes {nin + 1} or {nin + 1 + nout} positional "
                f"arguments ({declaration.inputs}, {name}, {declaration.outputs}), not {len(args)}"
            )
        behind = tuple(args[nin + 1 :])
        given = self.given_outputs((*args[:nin], *behind), out) or behind
        call = gathered(classify(declaration, args[:nin], given))
        self.check_scalars(call)
        return call, index_operand(self.__name__, name, args[nin], call)

    def check_scalars(self, call: Call) -> None:
        """Raise `ArgumentTypeError` for a scalar in place of an array, or the other way round."""
        for operand in call.inputs:
            name = operand.param.name
            if operand.view is None and name in self.declaration.raw_views:
                raise ArgumentTypeError(
                    f"{self.__name__}: {name} must be an array, not "
                    f"{type(operand.value).__name__}: an expression reads _raw_{name}"
                )
            if name in self.declaration.scalars and operand.view is not None:
                raise ArgumentTypeError(
                    f"{self.__name__}: {name} is read by the reduce or post-map "
                    "expression, where there are no elements any more; pass a scalar, or combine "
                    f"{name} and the result in an elementwise kernel"
                )

    def load(
        self,
        call: Call,
        binding: Binding,
        layout_tag: str,
        modes: tuple[str, ...],
        view_ndims: tuple[int, ...] = (),
        sizes: BoundSizes | None = None,
    ) -> LoadedKernel:
        """Return the kernel of a layout; `sizes`: core dimensions, if not those of the inputs."""
        ndims = (*raw_ndims(call.inputs), *view_ndims)
        if sizes is None:
            sizes = bound_sizes(self.declaration, call.types()[0])
        wanted = Specialization(self.__name__, binding, layout_tag, ndims, sizes)
        self._loader.check_captured(wanted, call.device, call.stream)
        return self._loader.kernel(wanted, call.device, modes)

    def accumulator_size(self, call: Call, binding: Binding, modes: tuple[str, ...]) -> int:
        """Return the bytes of an accumulator on a GPU."""
        return exact_size(
            self.declaration, binding, lambda layout: self.load(call, binding, layout, modes)
        )

    def schedule_segments(
        self,
        call: Call,
        bounds: Operand,
        extent: int,
        axes: Callable[[Sequence[Operand]], tuple[Axes, tuple[int, ...]]],
        binding: Binding,
        modes: tuple[str, ...],
    ) -> ScanSchedule:
        """Return the schedule of segments of an axis with some extent.

        `axes` returns, for the inputs that are not raw, the axes beside it and the strides along
        it, as `axes_beside` and `rows_of` do.
        """
        from kspec.runtime.schedules.segment_schedule import Segmented, choose_segments

        looped = [operand for operand in call.inputs if not operand.param.raw]
        beside, steps = axes(looped)
        assert bounds.view is not None
        return choose_segments(
            Segmented(beside, extent, steps, bounds.view, gathers=len(looped) < len(call.inputs)),
            [member_of(operand, binding) for operand in looped],
            lambda: self.accumulator_size(call, binding, modes),
            gpu_of(call.device),
        )

    def axes_beside(
        self,
        inputs: Sequence[Operand],
        outputs: Sequence[Operand],
        shape: Shape,
        along: int,
        keep_order: bool,
    ) -> tuple[Axes, tuple[int, ...]]:
        """Return the collapsed axes beside one of a loop, and each operand's stride along it.

        `keep_order`: whether rows keep the numbers that they have in C order.
        """
        strides: list[Strides] = [
            broadcast_strides(one.view.shape, one.view.strides, shape)
            if one.view
            else (0,) * len(shape)
            for one in (*inputs, *outputs)
        ]
        beside = [axis for axis in range(len(shape)) if axis != along]
        axes = collapse(
            tuple(shape[axis] for axis in beside),
            [tuple(steps[axis] for axis in beside) for steps in strides],
            keep_order,
        )
        return axes, tuple(steps[along] for steps in strides)

    def rows_of(
        self,
        inputs: Sequence[Operand],
        outputs: Sequence[Operand],
        shape: Shape,
        out_shape: Shape,
    ) -> tuple[Axes, tuple[int, ...]]:
        """Return the collapsed axes behind the first, and each operand's stride along that.

        `shape` is that of the inputs, `out_shape` that of the outputs.
        """
        strides: list[Strides] = []
        for operands, wanted in ((inputs, shape), (outputs, out_shape)):
            for one in operands:
                view = one.view
                strides.append(
                    broadcast_strides(view.shape, view.strides, wanted)
                    if view
                    else (0,) * len(wanted)
                )
        columns = collapse(shape[1:], [steps[1:] for steps in strides], self.declaration.ordered)
        return columns, tuple(steps[0] for steps in strides)


class FormMethod:
    """A method of a form, whose module is imported when it is first looked up.

    Parameters
    ----------
    module, owner : str
        The module in `kspec.runtime.kernels.forms`, and its class that has the method.
    """

    def __init__(self, module: str, owner: str) -> None:
        self._module = f"kspec.runtime.kernels.forms.{module}"
        self._owner = owner

    def __set_name__(self, cls: type, name: str) -> None:
        self._cls, self._name = cls, name

    @untraced
    def __get__(self, instance: object, owner: type | None = None) -> Any:
        method = vars(getattr(importlib.import_module(self._module), self._owner))[self._name]
        setattr(self._cls, self._name, method)
        return method.__get__(instance, owner)


def is_plain(value: object) -> bool:
    """Whether equal values mean the same: True and 2.0 are errors, but equal integers."""
    return type(value) is int or (type(value) is tuple and all(type(one) is int for one in value))


def known_size(declaration: ReductionDeclaration, binding: Binding) -> int:
    """Return the bytes of an accumulator; 0 for a type of the user's."""
    row = known_type(declaration, binding)
    return row.itemsize if row else 0


def known_type(declaration: ReductionDeclaration, binding: Binding) -> dtypes.DType | None:
    """Return the type of an accumulator; None for a type of the user's."""
    name = declaration.accumulator
    if not name:
        name = param_dtype(declaration.outputs.params[0], binding)
        return dtypes.from_ctype(dtypes.lookup(name).accumulator)
    if name in dict(binding):
        return dtypes.lookup(dict(binding)[name])
    return dtypes.from_ctype(name)


def exact_size(
    declaration: ReductionDeclaration, binding: Binding, load: Callable[[str], LoadedKernel]
) -> int:
    """Return the bytes of an accumulator on a GPU.

    The size of a user's type is known to the compiler alone. The kernel of the strided layout has
    room for a number of accumulators in its shared memory, and for nothing else.

    Parameters
    ----------
    load : callable
        Returns the kernel of a layout.
    """
    return (
        known_size(declaration, binding)
        or load(strided(1)).attributes["shared_size_bytes"] // _SLOTS
    )
