"""The loop of an elementwise call: its operands and shape in, axes and layout out.

A kernel that does not look gets the fewest axes, in the order of memory.  One that reads ``i``,
``_ind`` or ``_raw_x`` gets them in C order, and all of them where it says ``reduce_dims=False``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kspec import dtypes
from kspec.declaration import ElementwiseDeclaration
from kspec.runtime import layout, marshal
from kspec.runtime.dispatch import Operand
from kspec.runtime.layout import Axes, Shape
from kspec.stages import FLAT, strided_capacity


@dataclass(frozen=True)
class Loop:
    """How a launch walks over its operands.

    Attributes
    ----------
    size : int
        Number of elements.
    axes : Axes
        What is walked along, with the strides of the operands that are not raw.
    capacity : int
        Axes there is room for; 0 (`FLAT`) when all operands are contiguous alike.
    raw_ndims : tuple of int
        Dimensions of the arrays the kernel indexes by hand: the raw ones, then ``_raw_<name>``.
    views : tuple of bytes
        The packed ``_raw_<name>``.
    """

    size: int
    axes: Axes
    capacity: int
    raw_ndims: tuple[int, ...]
    views: tuple[bytes, ...]


def make_loop(
    declaration: ElementwiseDeclaration, operands: Sequence[Operand], shape: Shape
) -> Loop:
    """Return the loop over a broadcast shape without empty axes."""
    merge = declaration.reduce_dims or not declaration.ordered
    looped = [operand for operand in operands if not operand.param.raw]
    strides = [_broadcast_strides(operand, shape) for operand in looped]
    axes = layout.collapse(shape, strides, keep_order=declaration.ordered, merge=merge)
    flat = (merge or len(axes.extents) == 1) and _is_flat(looped, axes)
    raw_ndims = [len(x.view.shape) for x in operands if x.param.raw and x.view is not None]
    ndim = 1 if flat else len(axes.extents)
    views = [
        _pack_view(operand, axes, number, flat)
        for name in declaration.raw_views
        for number, operand in enumerate(looped)
        if operand.param.name == name
    ]
    return Loop(
        layout.size_of(shape),
        axes,
        FLAT if flat else strided_capacity(ndim),
        (*raw_ndims, *[ndim] * len(views)),
        tuple(views),
    )


def _broadcast_strides(operand: Operand, shape: Shape) -> tuple[int, ...]:
    """Return the strides of an operand along the loop; scalars do not move."""
    if operand.view is None:
        return (0,) * len(shape)
    return layout.broadcast_strides(operand.view.shape, operand.view.strides, shape)


def _is_flat(operands: Sequence[Operand], axes: Axes) -> bool:
    arrays = [
        (steps, _itemsize(operand))
        for operand, steps in zip(operands, axes.strides, strict=True)
        if operand.view is not None
    ]
    moving = Axes(axes.extents, tuple(steps for steps, _ in arrays))
    return layout.is_flat(moving, [itemsize for _, itemsize in arrays])


def _pack_view(operand: Operand, axes: Axes, number: int, flat: bool) -> bytes:
    """Pack an operand as the kernel walks over it: with the shape of the loop."""
    assert operand.view is not None  # dispatch has refused scalars
    if flat:
        return marshal.pack_array(operand.view.ptr, (axes.size,), (_itemsize(operand),), True)
    shape, strides = axes.extents[::-1], axes.strides[number][::-1]
    return marshal.pack_array(operand.view.ptr, shape, strides, False)


def _itemsize(operand: Operand) -> int:
    assert operand.view is not None
    return dtypes.lookup(operand.view.dtype).itemsize
