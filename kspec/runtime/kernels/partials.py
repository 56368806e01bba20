"""Partial aggregates of a reduction: accumulators in memory, and the launches that make them.

A partial is bytes, which every array library has: an array of uint8 whose last axis is an
accumulator.  Partials that are nothing (of empty blocks) have no accumulators.
`kspec.runtime.kernels.partial_reduction` has the stages of reductions, and
`kspec.runtime.kernels.forms.stages` those of their forms.
"""

from __future__ import annotations

import math
import struct
from dataclasses import replace
from typing import Any

from kspec.dataclass import dataclass
from kspec.errors import ArgumentTypeError
from kspec.model.checks import Checks
from kspec.model.infer import Binding
from kspec.model.neighbours.windows import BoundSizes
from kspec.model.shapes import Shape
from kspec.model.signature import Param
from kspec.runtime.arguments.binding import Call, Operand
from kspec.runtime.arguments.checks import checks_of_call, host_options
from kspec.runtime.callcache.prepared import Prepared
from kspec.runtime.driver.device import Device
from kspec.runtime.driver.launch import Launch
from kspec.runtime.kernels.reduction import ReductionCallable
from kspec.runtime.libraries.lookup import Library, library_of
from kspec.runtime.memory import ArrayView, c_strides
from kspec.runtime.modules import LoadedKernel
from kspec.runtime.schedules.reductions import ReductionSchedule

BYTES = "uint8"
ALIGNMENT = 16  # of an accumulator
_PARTIAL = Param(BYTES, "partial")


@dataclass(frozen=True)
class Partial:
    """Partial aggregates of some elements.

    Attributes
    ----------
    array : array of uint8
        C-ordered, of shape ``(count, *outputs, bytes)``: `count` accumulators for each output.
    length : int
        Elements reduced to each output.
    binding : Binding
        Dtypes of the placeholders.
    counting : bool
        Whether each accumulator has the number of its elements, too (``kspec::Counting``).
    sizes : tuple of (str, int)
        Core dimensions of the inputs.
    """

    array: Any
    length: int
    binding: Binding
    counting: bool = False
    sizes: BoundSizes = ()

    @property
    def count(self) -> int:
        """Accumulators of each output."""
        return int(self.array.shape[0])

    @property
    def outputs(self) -> Shape:
        """Shape of the outputs."""
        return tuple(self.array.shape[1:-1])

    def __sizeof__(self) -> int:
        # Schedulers ask, to know what is worth moving.
        return int(math.prod(self.array.shape)) + object.__sizeof__(self)


@dataclass(frozen=True)
class Stage:
    """One launch.

    Attributes
    ----------
    kernel : LoadedKernel
        In a layout of partials.
    schedule : ReductionSchedule
        How threads share the work.
    head : bytes
        What is in front of the schedule's bytes.
    operands : tuple of Operand
        What the kernel's parameters hold.
    touched : tuple of Operand
        What it really reads and writes.
    binding : Binding
        Dtypes of the placeholders.
    size : int
        Bytes of an accumulator.
    """

    kernel: LoadedKernel
    schedule: ReductionSchedule
    head: bytes
    operands: tuple[Operand, ...]
    touched: tuple[Operand, ...]
    binding: Binding
    size: int

    def prepare(self, call: Call, stream: int, checks: Checks, named: bool) -> Prepared:
        """Return it as a checked call without a result.

        `named`: whether the caller has named the stream.
        """
        # Not the operands, whose arrays would live as long.
        head, schedule = self.head, self.schedule
        host = host_options(checks, self.kernel.modes, self.touched)
        grid, block = (schedule.tiles, schedule.splits, 1), (schedule.threads, 1, 1)
        return Prepared(
            None,
            self.kernel,
            Launch(grid, block, 0, stream, host),
            self.binding,
            call.device,
            lambda scratch: head + schedule.pack(scratch),
            self.operands,
            given=False,  # outputs are new, or partials
            scratch=schedule.scratch(self.size),
            tickets=schedule.tickets,
            named=named,
            library=call.library,
        )


def checks_of(kernel: ReductionCallable, device: Device) -> Checks:
    """Return the checks of a stage."""
    return checks_of_call(kernel.__name__, device, kernel.checks)


def operand_of(array: Any, library: Library | None = None) -> Any:
    """Return an array of bytes as an operand."""
    found = library_of(array) or library
    if found is None:
        raise ArgumentTypeError(f"a part holds an array, not {type(array).__name__}")
    return Operand(_PARTIAL, array, found.view(array), found)


def as_output(param: Param, partial: Any, shape: Shape, size: int) -> Operand:
    """Return accumulators as an output of a kernel, which has their address and strides."""
    core = len(param.core)
    strides = (*c_strides(shape, size), *(0,) * core)
    view = ArrayView(partial.view.ptr, (*shape, *(1,) * core), strides, BYTES, partial.view.device)
    return Operand(replace(param, type=BYTES), partial.value, view, partial.library, is_output=True)


def as_input(operand: Operand) -> Operand:
    """Return accumulators in the place of an input with core dimensions, which is not read."""
    core = len(operand.param.core)
    assert operand.view is not None
    view = replace(operand.view, shape=(1,) * core, strides=(0,) * core)
    return replace(operand, view=view)


def head_of(outputs: int, length: int, partial: Operand) -> bytes:
    """Pack ``Reduction<ToAggregates<...>>``, or that of `FromAggregates`, but for its plan."""
    assert partial.view is not None
    return struct.pack("2qP", outputs, length, partial.view.ptr)
