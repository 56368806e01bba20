"""The loop of an elementwise call: its operands and shape in, axes and layout out.

A kernel that does not look gets the fewest axes, in the order of memory.  One that reads ``i``,
``_ind`` or ``_raw_x`` gets them in C order, and all of them where it says ``reduce_dims=False``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from kspec.dataclass import dataclass
from kspec.model import dtypes
from kspec.model.checks import RACE
from kspec.model.declaration import ElementwiseDeclaration
from kspec.model.infer import Binding, adjoint_window, param_dtype
from kspec.model.shapes import Shape, size_of
from kspec.model.stages import FLAT
from kspec.runtime import driver
from kspec.runtime.arguments.binding import Operand, raw_ndims
from kspec.runtime.driver.device import Device, is_scheduled_as_host
from kspec.runtime.memory import ArrayView
from kspec.runtime.schedules import Axes, broadcast_strides, collapse, marshal
from kspec.runtime.schedules.elementwise_schedule import (
    ElementwiseSchedule,
    Growth,
    Member,
    choices,
    choose,
    choose_host,
    choose_single,
    own_choice,
)

if TYPE_CHECKING:
    from kspec.model.neighbours.windows import BoundWindow
    from kspec.model.tuning import Choice, Chooser, Sizes, TuningCase
    from kspec.runtime.schedules.item_schedule import ItemMember

_MOST_APART = 1 << 20  # elements that get a thread each where races are looked for


@dataclass(frozen=True)
class Loop:
    """The loop of a launch.

    Attributes
    ----------
    schedule : ElementwiseSchedule
        How threads share the elements of the operands that are not raw.
    raw_ndims : tuple of int
        Dimensions of the arrays the kernel indexes by hand: the raw ones, then ``_raw_<name>``.
    views : tuple of (int, bytes)
        The packed ``_raw_<name>``, each with the number of its operand.
    growth : Growth or None
        Changes for another number of elements, if all arrays have the same shape.
    """

    schedule: ElementwiseSchedule
    raw_ndims: tuple[int, ...]
    views: tuple[tuple[int, bytes], ...]
    growth: Growth | None = None


def make_loop(
    declaration: ElementwiseDeclaration,
    operands: Sequence[Operand],
    shape: Shape,
    binding: Binding,
    device: Device,
    windows: Sequence[BoundWindow],
    result: Shape,
    tuned: Chooser | None,
    modes: Sequence[str] = (),
) -> Loop:
    """Return the loop over a broadcast shape without empty axes.

    `result`: shape of the outputs, which is another one for an adjoint.  `tuned`: what has been
    measured.  `modes`: what the host device checks.
    """
    on_host = is_scheduled_as_host(device)
    merge = declaration.reduce_dims or not declaration.ordered
    numbers = [k for k, operand in enumerate(operands) if not operand.param.raw]
    looped = [operands[k] for k in numbers]
    strides = [_broadcast_strides(operand, shape) for operand in looped]
    if windows:
        from kspec.runtime.schedules.window_schedule import choose_windows, pack_window

        gathers = declaration.adjoint is not None
        packed = []
        if gathers:
            output = looped[-1].view
            assert output is not None
            strides[-1] = broadcast_strides(output.shape, output.strides, result)
            window = adjoint_window(declaration, windows)
            packed.append((numbers[-1], pack_window(window, output)))
        windowed = {window.param for window in windows}
        members = [member_of(operand, binding) for operand in looped]
        schedule = choose_windows(
            result,
            strides,
            members,
            windows,
            [
                member.itemsize
                for operand, member in zip(looped, members, strict=True)
                if operand.param.name in windowed
            ],
            keep_order=gathers or declaration.ordered,
            merge=merge,
            on_host=on_host,
            gathers=gathers,
        )
        return Loop(schedule, raw_ndims(operands), tuple(packed))
    axes = collapse(shape, strides, keep_order=declaration.ordered, merge=merge)
    if declaration.has_core:
        from kspec.runtime.schedules.item_schedule import choose_groups, choose_items

        rows = [item_member(operand, binding) for operand in looped]
        if declaration.threads > 1:
            schedule = choose_groups(
                declaration.name, axes, rows, size_of(shape), declaration.threads
            )
        else:
            schedule = choose_items(axes, rows, size_of(shape), on_host=on_host)
        return Loop(schedule, raw_ndims(operands), ())
    members = [member_of(operand, binding) for operand in looped]
    flat = merge or len(axes.extents) == 1  # otherwise `_ind` must show every axis
    size = size_of(shape)
    if on_host:
        # Elements of one thread do not race.
        single = declaration.single or (RACE in modes and size <= _MOST_APART)
        schedule = choose_host(axes, members, size, flat=flat, single=single)
    elif declaration.in_place:
        schedule = choose_single(axes, members, size, flat=flat, single=declaration.single)
    else:
        tiles, wanted = not declaration.ordered, None
        if tuned:
            make = functools.partial(choices, axes, members, size, flat=flat, tiles=tiles)
            own = functools.partial(own_choice, axes, members, size, flat=flat, tiles=tiles)
            wanted = tuned.choice(tuning_case(device, binding, (axes.extents,), make, own))
        schedule = choose(axes, members, size, flat=flat, tiles=tiles, wanted=wanted)
    dimensions = raw_ndims(operands)
    ndim = 1 if schedule.layout == FLAT else len(axes.extents)
    views = [
        (numbers[number], _pack_view(operand, axes, number, schedule))
        for name in declaration.raw_views
        for number, operand in enumerate(looped)
        if operand.param.name == name
    ]
    # A kernel that sees every axis sees more than how many elements there are; what was measured
    # holds for some numbers only.
    growth = schedule.growth if (merge or len(shape) == 1) and not tuned else None
    return Loop(schedule, (*dimensions, *[ndim] * len(views)), tuple(views), growth)


def _broadcast_strides(operand: Operand, shape: Shape) -> tuple[int, ...]:
    """Return the strides of an operand along the loop; scalars do not move."""
    if operand.view is None:
        return (0,) * len(shape)
    if operand.window is not None:
        return _windowed_strides(operand.view, len(operand.window.reach), shape)
    return broadcast_strides(*operand.layout, shape)


def _windowed_strides(view: ArrayView, axes: int, shape: Shape) -> tuple[int, ...]:
    """Return the strides of a windowed array, which steps along axes of extent 1 too."""
    split, outer = len(view.shape) - axes, shape[: len(shape) - axes]
    before = broadcast_strides(view.shape[:split], view.strides[:split], outer)
    return (*before, *view.strides[split:])


def tuning_case(
    device: Device,
    binding: Binding,
    sizes: Sizes,
    options: Callable[[], Iterable[Choice]],
    own: Callable[[], Choice],
) -> TuningCase:
    """Return the properties of a call by which what was measured is found."""
    from kspec.model.tuning import TuningCase

    types = tuple(dtype for _, dtype in binding)
    return TuningCase(driver.device_name(device.ordinal), types, sizes, options, own)


def member_of(operand: Operand, binding: Binding) -> Member:
    """Return the properties of an operand that a schedule depends on."""
    dtype = dtypes.lookup(param_dtype(operand.param, binding))
    written = operand.is_output or operand.param.non_const
    ptr = operand.view.ptr if operand.view else 0
    return Member(dtype.itemsize, dtype.pack_width, ptr, written)


def item_member(operand: Operand, binding: Binding) -> ItemMember:
    """Return the properties of an operand that the schedule of items depends on."""
    from kspec.runtime.schedules.item_schedule import ItemMember

    member, view = member_of(operand, binding), operand.view
    if view is None or not operand.param.core:
        return ItemMember(member.itemsize, member.ptr, member.written)
    shape, strides = operand.item
    is_struct = bool(dtypes.lookup(view.dtype).fields)
    return ItemMember(
        member.itemsize, member.ptr, member.written, shape, strides, operand.is_new, is_struct
    )


def _pack_view(operand: Operand, axes: Axes, number: int, schedule: ElementwiseSchedule) -> bytes:
    """Pack an operand with the shape of the loop."""
    assert operand.view is not None  # dispatch has refused scalars
    itemsize = dtypes.lookup(operand.view.dtype).itemsize
    if schedule.layout == FLAT:
        moves = not axes.extents or any(axes.strides[number])
        return marshal.pack_array(
            operand.view.ptr, (axes.size,), (itemsize if moves else 0,), moves
        )
    shape, strides = axes.extents[::-1], axes.strides[number][::-1]
    return marshal.pack_array(operand.view.ptr, shape, strides, False)
