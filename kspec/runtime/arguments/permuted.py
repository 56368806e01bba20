"""The views that reductions call ``_raw_x``, ``_in_ind`` and ``_out_ind``: arrays in, views out.

The axes of ``_in_ind`` are those of the inputs, reduced ones first, as in CuPy; those of
``_out_ind`` are the outputs'. ``_raw_x`` has the axes of its indexer, so that ``x`` is
``_raw_x[_in_ind.get()]``. Axes are merged as CuPy merges them, unless the kernel says
``reduce_dims=False``. Reduced and kept axes are each in C order, whatever the layout in memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from kspec.dataclass import dataclass
from kspec.model import dtypes
from kspec.model.declaration import ReductionDeclaration
from kspec.model.shapes import Shape
from kspec.runtime.arguments.binding import Call, Operand
from kspec.runtime.memory import is_c_contiguous
from kspec.runtime.schedules import Axes, Strides, broadcast_strides, collapse, marshal


@dataclass(frozen=True)
class PermutedView:
    """One array as a kernel indexes it.

    Attributes
    ----------
    operand : int
        Number of the operand whose address it has.
    ndim : int
        How many axes there are.
    packed : bytes
        ``kspec::Array``.
    """

    operand: int
    ndim: int
    packed: bytes


def permuted_views(
    declaration: ReductionDeclaration,
    call: Call,
    shape: Shape,
    reduced: tuple[int, ...],
    keepdims: bool,
) -> tuple[PermutedView, ...]:
    """Return each ``_raw_<name>``, then each indexer, in the declaration's order.

    Parameters
    ----------
    declaration : ReductionDeclaration
        The kernel.
    call : Call
        With all outputs.
    shape : tuple of int
        To which the inputs broadcast.
    reduced : tuple of int
        Reduced axes, sorted.
    keepdims : bool
        Whether the outputs keep them.
    """
    order = (*reduced, *(axis for axis in range(len(shape)) if axis not in reduced))
    inputs = [
        (number, operand, _permuted(operand, shape, order))
        for number, operand in enumerate(call.inputs)
        if operand.view is not None and not operand.param.raw
    ]
    outputs = [
        (number, operand, operand.view.strides)
        for number, operand in enumerate(call.outputs, start=len(call.inputs))
        if operand.view is not None
    ]
    out_shape = outputs[0][1].view.shape if outputs[0][1].view else ()
    made: dict[str, PermutedView] = {}
    for indexer, extents, members in (
        ("_in_ind", tuple(shape[axis] for axis in order), inputs),
        ("_out_ind", out_shape, outputs),
    ):
        axes = _merged(extents, members, declaration.reduce_dims)
        for (number, operand, _), strides in zip(members, axes.strides, strict=True):
            view = _view(number, operand, axes.extents, strides)
            made[operand.param.name] = view
            made.setdefault(indexer, view)  # any of them: an indexer reads the shape alone
    return tuple(made[name] for name in (*declaration.raw_views, *declaration.indexers))


def _permuted(operand: Operand, shape: Shape, order: Sequence[int]) -> Strides:
    """Return the strides of an input along the axes of a loop in another order."""
    assert operand.view is not None
    strides = broadcast_strides(operand.view.shape, operand.view.strides, shape)
    return tuple(strides[axis] for axis in order)


def _merged(shape: Shape, members: Sequence[tuple[int, Operand, Strides]], merge: bool) -> Axes:
    """Return the axes of arrays of one shape, innermost first, at least one."""
    contiguous = all(
        is_c_contiguous(shape, strides, _itemsize(operand)) for _, operand, strides in members
    )
    merge = merge and (contiguous or len(shape) != 2)  # CuPy leaves matrices as they are
    axes = collapse(shape, [strides for _, _, strides in members], merge=merge)
    return axes if axes.extents else Axes((1,), tuple((0,) for _ in members))


def _view(number: int, operand: Operand, extents: Shape, strides: Strides) -> PermutedView:
    assert operand.view is not None
    packed = marshal.pack_array(operand.view.ptr, extents[::-1], strides[::-1], False)
    return PermutedView(number, len(extents), packed)


def _itemsize(operand: Operand) -> int:
    assert operand.view is not None
    return dtypes.lookup(operand.view.dtype).itemsize
