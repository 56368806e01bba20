"""A checked call: a kernel, how it is launched, and the contents of its parameters.

`Prepared` is the result of the checks of a call.  It is launched once, and repeated calls make a
plan of it (`kspec.runtime.callcache.launch_plan`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kspec.dataclass import dataclass
from kspec.model.infer import Binding, param_dtype
from kspec.runtime.arguments.binding import Operand
from kspec.runtime.driver.device import HOST, Device
from kspec.runtime.driver.launch import Launch
from kspec.runtime.libraries.stream_order import after_launch
from kspec.runtime.schedules import marshal
from kspec.runtime.schedules.marshal import PackedParameters

if TYPE_CHECKING:
    from kspec.runtime.libraries.registry import Library
    from kspec.runtime.memory.workspace import KeptScratch
    from kspec.runtime.modules import LoadedKernel
    from kspec.runtime.schedules.elementwise_schedule import Growth


def _no_bytes(scratch: int) -> bytes:
    return b""


_NO_LAUNCH = Launch((1, 1, 1), (1, 1, 1))


@dataclass(frozen=True)
class Prepared:
    """A checked call.

    Attributes
    ----------
    result : object
        What the call returns.
    kernel : LoadedKernel or None
        What is launched; None: there is nothing to do.
    launch : Launch
        How.
    binding : Binding
        Dtypes of the placeholders.
    device : Device
        Where.
    first : callable
        Packs the parameter in front of those of the operands, given the address of scratch memory.
    operands : tuple of Operand
        Inputs and outputs.
    placed : tuple of (int, int)
        Operands that have no parameter of their own, for the first one holds their address: the
        number of the operand, and the offset in bytes.
    views : tuple of (int, bytes)
        Parameters after them, which hold an array once more: the number of its operand, and all
        bytes. The first eight are its address.
    given : bool
        Whether the caller gave the outputs.
    scratch, tickets : int
        Bytes of scratch memory, and how many of them are zero before the first launch.
    growth : Growth or None
        What another number of elements changes, if there is no more to it.
    named : bool
        Whether the caller has named the stream.
    library : Library or None
        Who made the outputs that the caller has not given.
    """

    result: Any
    kernel: LoadedKernel | None = None
    launch: Launch = _NO_LAUNCH
    binding: Binding = ()
    device: Device = HOST
    first: Callable[[int], bytes] = _no_bytes
    operands: tuple[Operand, ...] = ()
    views: tuple[tuple[int, bytes], ...] = ()
    given: bool = True
    scratch: int = 0
    tickets: int = 0
    growth: Growth | None = None
    named: bool = False
    library: Library | None = None
    placed: tuple[tuple[int, int], ...] = ()

    @property
    def own(self) -> tuple[tuple[int, Operand], ...]:
        """The operands with a parameter of their own, and their numbers."""
        placed = {number for number, _ in self.placed}
        return tuple(one for one in enumerate(self.operands) if one[0] not in placed)

    def parameters(self) -> list[bytes]:
        """Return the bytes of all parameters but the first."""
        operands = [pack_operand(operand, self.binding) for _, operand in self.own]
        return [*operands, *(packed for _, packed in self.views)]

    def maker(self, rest: Sequence[bytes]) -> Callable[[], tuple[Sequence[bytes], KeptScratch]]:
        """Return a function that makes the parameters of a buffer and its memory.

        It keeps no array alive.

        Parameters
        ----------
        rest : sequence of bytes
            Result of `parameters`.
        """
        from kspec.runtime.memory.workspace import KeptScratch

        first, device, stream = self.first, self.device, self.launch.stream
        nbytes, tickets = self.scratch, self.tickets

        def make() -> tuple[Sequence[bytes], KeptScratch]:
            scratch = KeptScratch(device, stream, nbytes, tickets)
            return [first(scratch.ptr), *rest], scratch

        return make

    def run(self) -> Any:
        """Launch the kernel once, and return the result."""
        if self.kernel is None:
            return self.finished()
        parameters, launch = self.parameters(), self.launch
        for library, array in self.counted(self.given):  # first: it may write half and fault
            library.wrote(array)
        if not self.scratch:
            self.kernel.launch(launch, PackedParameters([self.first(0), *parameters]))
        else:
            self._run_with_scratch(self.kernel, parameters)
        after_launch(self.device, launch.stream, owners_of(self.operands), self.named)
        return self.finished()

    def _run_with_scratch(self, kernel: LoadedKernel, parameters: Sequence[bytes]) -> None:
        from kspec.runtime.memory.workspace import Scratch

        launch = self.launch
        with Scratch(self.device, launch.stream, self.scratch, self.tickets) as scratch:
            if launch.host.modes:
                from kspec.host.kernels import Region

                region = Region(scratch.ptr, self.scratch, "the scratch memory")
                regions = (*launch.host.regions, region)
                launch = replace(launch, host=replace(launch.host, regions=regions))
            kernel.launch(launch, PackedParameters([self.first(scratch.ptr), *parameters]))

    def counted(self, outputs: bool) -> list[tuple[Library, Any]]:
        """Return the arrays that are written to whose libraries want to know.

        Parameters
        ----------
        outputs : bool
            Whether outputs are among them.
        """
        return [
            (one.library, one.value)
            for one in self.operands
            if one.library is not None
            and one.library.counts
            and ((one.is_output and outputs) or one.param.non_const)
        ]

    def finished(self) -> Any:
        """Return the result as the caller gets it."""
        if self.library is None or self.result is None:
            return self.result
        stream = self.launch.stream
        if isinstance(self.result, tuple):
            return tuple(self.library.finish(one, self.device, stream) for one in self.result)
        return self.library.finish(self.result, self.device, stream)


def owners_of(operands: Iterable[Any]) -> list[tuple[Library, Any]]:
    """Return the arrays of operands, or what lends their memory, with their libraries."""
    return [
        (one.library, one.value if one.view.owner is None else one.view.owner)
        for one in operands
        if one.library is not None and one.view is not None
    ]


def pack_operand(operand: Operand, binding: Binding) -> bytes:
    """Pack one argument as the structure its parameter has in the kernel."""
    view, param = operand.view, operand.param
    if view is None:
        if operand.dtype is not None:
            return marshal.pack_handle(operand.value.ptr)
        dtype = param_dtype(param, binding)
        return marshal.pack_input(
            None, marshal.convert_scalar(operand.value, dtype, operand.where), dtype
        )
    if operand.sample is not None:
        from kspec.model.neighbours.windows import BOUNDARIES
        from kspec.runtime.schedules.window_schedule import boundary_value

        value = boundary_value(operand.sample.value, view.dtype, operand.where)
        return marshal.pack_sampled(view, BOUNDARIES.index(operand.sample.boundary), value)
    if param.raw:
        return marshal.pack_raw(view)
    if operand.window is not None:
        from kspec.runtime.schedules.window_schedule import pack_window

        return pack_window(operand.window, view, operand.where)
    if param.core:
        from kspec.runtime.schedules.item_schedule import pack_core

        return pack_core(view, len(param.core))
    if param.non_const or operand.is_output:
        return marshal.pack_pointer(view)
    return marshal.pack_input(view, b"", view.dtype)
