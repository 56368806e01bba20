"""A checked call in, everything for the next call like it out.

A `Plan` keeps what is the same for all calls with the same key (which
`kspec.runtime.callcache` makes of everything that was checked), and has the rest written
anew:

>>> now = x.data.ptr, plan.convert[1](2.5), z.data.ptr                       # doctest: +SKIP
>>> buffer = plan.adapt(now)                                                  # doctest: +SKIP
>>> buffer.launch(); plan.free[now] = buffer                                   # doctest: +SKIP
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from kspec import config
from kspec.model import dtypes
from kspec.model.checks import NO_CHECKS, Checks, resolve_checks
from kspec.model.infer import Binding, param_dtype
from kspec.runtime.arguments.binding import Operand, place_of
from kspec.runtime.arguments.guard import Guard
from kspec.runtime.arguments.opaque import TEXTURE, kind_of
from kspec.runtime.callcache.param_buffer import ParameterBuffers
from kspec.runtime.callcache.prepared import Prepared
from kspec.runtime.driver import stream as driver_streams
from kspec.runtime.driver.device import Device
from kspec.runtime.libraries.aliasing import MayOverlap, distances
from kspec.runtime.libraries.array_access import Maker, maker
from kspec.runtime.libraries.stream_order import after_plan, follow
from kspec.runtime.schedules import marshal

if TYPE_CHECKING:
    from kspec.runtime.callcache.param_buffer import ParameterBuffer

Refusal = Callable[[Any, Sequence[Any]], bool]

ALIGNMENT = 16  # bytes: layouts depend on addresses modulo this
MAX_KEPT = 2**26  # bytes of scratch memory that plans keep


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
