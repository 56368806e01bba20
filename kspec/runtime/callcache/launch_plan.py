"""A checked call in, everything for the next call like it out.

`Prepared` is what the checks of a call end with: a kernel, how it is launched, and what its
parameters hold.  A `Plan` keeps what is the same for all calls with the same key (which
`kspec.runtime.callcache.cache` makes of everything that was checked), and has the rest written
anew:

>>> now = x.data.ptr, plan.convert[1](2.5), z.data.ptr                       # doctest: +SKIP
>>> buffer = plan.adapt(now)                                                  # doctest: +SKIP
>>> buffer.launch(); plan.free[now] = buffer                                   # doctest: +SKIP
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kspec import config
from kspec.dataclass import dataclass
from kspec.model import dtypes
from kspec.model.checks import NO_CHECKS, Checks, resolve_checks
from kspec.model.infer import Binding, param_dtype
from kspec.runtime.arguments.binding import Operand, place_of
from kspec.runtime.arguments.checks import Guard
from kspec.runtime.arguments.opaque import TEXTURE, kind_of
from kspec.runtime.callcache.param_buffer import ParameterBuffers
from kspec.runtime.driver import stream as driver_streams
from kspec.runtime.driver.device import HOST, Device
from kspec.runtime.driver.launch import Launch
from kspec.runtime.libraries.aliasing import MayOverlap, distances
from kspec.runtime.libraries.array_access import Maker, maker
from kspec.runtime.libraries.registry import Library
from kspec.runtime.libraries.stream_order import after_launch, after_plan, follow
from kspec.runtime.modules.module import LoadedKernel
from kspec.runtime.schedules import marshal
from kspec.runtime.schedules.elementwise_schedule import Growth
from kspec.runtime.schedules.marshal import PackedParameters

if TYPE_CHECKING:
    from kspec.runtime.callcache.param_buffer import ParameterBuffer
    from kspec.runtime.memory.workspace import KeptScratch

Refusal = Callable[[Any, Sequence[Any]], bool]

ALIGNMENT = 16  # bytes: layouts depend on addresses modulo this
MAX_KEPT = 2**26  # bytes of scratch memory that plans keep


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
        if not self.scratch:
            self.kernel.launch(launch, PackedParameters([self.first(0), *parameters]))
        else:
            self._run_with_scratch(self.kernel, parameters)
        after_launch(self.device, launch.stream, owners_of(self.operands), self.named)
        for library, array in self.counted(self.given):
            library.wrote(array)
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


class Ordered:
    """Ordering of plans when arrays of several libraries meet, or the caller names a stream.

    Attributes
    ----------
    device : Device
        Where they run.
    """

    __slots__ = ()

    device: Device

    def follow(self, stream: int, other: int) -> None:
        """Let a stream wait for another one."""
        follow(self.device.ordinal, stream, other)

    def after(self, stream: int, arrays: Sequence[Any]) -> None:
        """Keep the arrays of a launch on a stream that the caller has named."""
        after_plan(self.device, stream, arrays)


class Plan(Ordered, ParameterBuffers):
    """The common part of all calls with one key.

    The values that its buffers hold are an array's address, and a scalar's bytes.

    Attributes
    ----------
    convert : tuple of callable
        For each operand, the conversion of a scalar or a texture to these bytes.
    make : tuple of callable
        For each output that the caller does not give, its allocation.
    guard : Guard or None
        Tells launches the memory of their arrays, on the host device.
    refuses : callable or None
        Called with the kernel and its arrays, says whether a call must be checked after all.
    device : Device
        Where it runs.
    distances : tuple of Distance
        Distances that addresses must not have, so that given outputs overlap with nothing.
    """

    __slots__ = ("convert", "device", "distances", "guard", "make", "refuses")

    def __init__(self, prepared: Prepared) -> None:
        assert prepared.kernel is not None
        self.device = prepared.device
        self.distances = distances(
            [
                # New arrays overlap with no others.
                None if one.is_output and not prepared.given else place_of(one)
                for one in prepared.operands
            ]
        )
        rest = prepared.parameters()
        pack = _packer(prepared, rest)
        super().__init__(prepared.kernel, prepared.launch, prepared.maker(rest), pack, first=1)
        self.convert = tuple(_converter(one, prepared.binding) for one in prepared.operands)
        self.make = () if prepared.given else _makers(prepared)
        self.refuses = _refusal(prepared)
        self.guard = _guard(prepared)

    def adapt(self, values: tuple[Any, ...]) -> ParameterBuffer:
        """Return a buffer with values that no free one holds; their arrays do not overlap."""
        # Here and without attributes: a call takes as long as both comparisons.
        for written, other, low, high, same in self.distances:
            distance = values[other] - values[written]
            if low < distance < high and (distance or not same):
                raise MayOverlap
        return ParameterBuffers.adapt(self, values)


def make_plan(prepared: Prepared) -> Plan | None:
    """Return the plan of a call; None if the next one like it must be checked again."""
    launch = prepared.launch
    if prepared.kernel is None or not launch.host.is_repeatable:
        return None
    if launch.host.modes and prepared.scratch:
        return None  # guards know arrays
    if prepared.scratch > MAX_KEPT:
        return None  # each of its buffers would keep so much
    if prepared.scratch and driver_streams.is_of_thread(prepared.launch.stream):
        return None  # one handle, but as many streams as threads, which would share the memory
    for operand in prepared.operands:
        view = operand.view
        if view is None:
            continue
        if dtypes.lookup(view.dtype).fields:
            return None  # NumPy takes structs that differ in their alignment for equal
        if operand.is_output and not prepared.given and view.ptr % ALIGNMENT:
            return None  # keys hold the alignment of arguments only
    return Plan(prepared)


def values_format(prepared: Prepared, packed: Sequence[bytes]) -> str | None:
    """Return the format of the values of all operands; None if other bytes are among them."""
    shaped = any(
        one.param.raw or one.param.core or one.window is not None for one in prepared.operands
    )
    if prepared.views or prepared.placed or shaped:
        return None
    return "".join(
        _format(operand, data, prepared.binding)
        for operand, data in zip(prepared.operands, packed, strict=True)
    )


def _packer(prepared: Prepared, packed: Sequence[bytes]) -> Callable[..., None]:
    """Return a function that writes the values of all operands into a buffer."""
    form = values_format(prepared, packed)
    if form is not None:
        return struct.Struct(form).pack_into
    # Behind the address of such an array is its shape, which must stay: one by one.
    starts = [0, *itertools.accumulate(marshal.up(len(data), 16) for data in packed)]
    fields = []
    for start, data, (number, operand) in zip(starts, packed, prepared.own, strict=False):
        write = _pack_address
        if operand.view is None:
            write = struct.Struct(_format(operand, data, prepared.binding)).pack_into
        fields.append((start, number, write))
    for (number, _), start in zip(prepared.views, starts[len(prepared.own) :], strict=False):
        fields.append((start, number, _pack_address))
    for number, offset in prepared.placed:  # in the parameter before these
        before = marshal.up(len(prepared.first(0)), 16)
        fields.append((offset - before, number, _pack_address))
    return marshal.field_packer(fields)


_pack_address = struct.Struct("P").pack_into


def _format(operand: Operand, packed: bytes, binding: Binding) -> str:
    """Return the format of a parameter and the room up to the next: an address or a scalar."""
    room = marshal.up(len(packed), 16)
    if operand.view is not None:
        return f"P{room - 8}x"
    row = dtypes.lookup(param_dtype(operand.param, binding))
    offset, size = marshal.value_offset(row), row.itemsize
    return f"{offset}x{size}s{room - offset - size}x"


def _converter(operand: Operand, binding: Binding) -> Callable[[Any], bytes] | None:
    if operand.view is not None:
        return None
    if kind_of(operand.value) == TEXTURE:
        return lambda texture: texture.ptr.to_bytes(8, "little")
    dtype = param_dtype(operand.param, binding)
    return marshal.converter(type(operand.value), dtype, operand.where)


def _makers(prepared: Prepared) -> tuple[Maker, ...]:
    return tuple(
        maker(operand.library, operand.view.shape, operand.view.dtype, operand.view.device)
        for operand in prepared.operands
        if operand.is_output and operand.library is not None and operand.view is not None
    )


def _guard(prepared: Prepared) -> Guard | None:
    """Return a function that lists the memory of arrays for a launch; None if it needs none."""
    if not prepared.launch.host.modes:
        return None
    names = [one.param.name for one in prepared.operands if one.view is not None]
    return Guard(names, [False] * len(names), TypeError)


def _refusal(prepared: Prepared) -> Refusal | None:
    """Return a test of the other things that a call depends on.

    Checks and cores on the host device, a stream that is being captured, conjugate tensors.
    """
    views = [one.view for one in prepared.operands if one.view is not None]
    conditions: list[Refusal] = []
    if prepared.device.is_host:
        threads, made = config.host_threads(), prepared.launch.host.checks
        conditions.append(
            lambda kernel, arrays: (
                is_checked(kernel.checks, made) or config.host_threads() != threads
            )
        )
    elif prepared.scratch:
        # A graph may be launched on any stream, and would use the memory of this one.
        ordinal, stream = prepared.device.ordinal, prepared.launch.stream
        conditions.append(lambda kernel, arrays: driver_streams.is_capturing(ordinal, stream))
    libraries = {one.library.name for one in prepared.operands if one.library is not None}
    if "torch" in libraries and any(dtypes.lookup(view.dtype).kind == "c" for view in views):
        conditions.append(lambda kernel, arrays: any(array.is_conj() for array in arrays))
    return any_of(conditions)


def any_of(conditions: Sequence[Refusal]) -> Refusal | None:
    """Return a test of several conditions; None if there are none."""
    if len(conditions) < 2:
        return next(iter(conditions), None)
    first, rest = conditions[0], any_of(conditions[1:])
    assert rest is not None
    return lambda kernel, arrays: first(kernel, arrays) or rest(kernel, arrays)


def is_checked(checks: Checks | None, made: Checks = NO_CHECKS) -> bool:
    """Return whether a kernel is checked on the host device in another way than plans are.

    Parameters
    ----------
    checks : Checks or None
        The kernel's own.
    made : Checks
        What the plan was made with.
    """
    now = resolve_checks(checks, None, None, None)
    return now is not made and now != made
