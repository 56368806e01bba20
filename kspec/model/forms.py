"""The outputs of a reduction's other forms, from its declaration and the types of the arguments.

A reduction has several forms, which share its map, reduce, post-map and identity: ``reduce``
itself, which makes one output of all elements along axes, and

* ``scan``, which makes an output of each element and those before it;
* ``segments``, which makes an output of the elements from one bound to the next.

>>> from kspec.model.signature import Param, Signature
>>> inputs, outputs = Signature((Param("T", "x"),)), Signature((Param("T", "y"),))
>>> total = ReductionDeclaration("total", inputs, outputs)
>>> infer_scan(total, [Abstract((4, 3), "float32")], axis=0).shape
(4, 3)
>>> infer_segments(total, [Abstract((9,), "float32")], Abstract((4,), "int64")).shape
(3,)

As `kspec.model.infer`, this is what all callers share.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kspec.errors import ArgumentTypeError, NotSupportedError, ShapeError
from kspec.model.declaration import ReductionDeclaration
from kspec.model.dtypes import lookup
from kspec.model.infer import (
    GIVE_AN_ARRAY,
    Abstract,
    Inferred,
    bind_types,
    check_outputs,
    param_dtype,
    reduction_loop,
)
from kspec.model.shapes import Shape, broadcast_shapes, integer, normalize_axes

REDUCE, SCAN, SEGMENTS = "reduce", "scan", "segments"
FORMS = (REDUCE, SCAN, SEGMENTS)


def form_fault(declaration: ReductionDeclaration) -> str:
    """Return why a reduction has no other forms; empty if it has."""
    if declaration.indexers or declaration.raw_views:
        named = (*declaration.indexers, *(f"_raw_{name}" for name in declaration.raw_views))
        return f"its expressions read {' and '.join(named)}, which only the reduction itself has"
    written = next((param.name for param in declaration.inputs if param.non_const), "")
    return f"it writes to {written}, which is _non_const" if written else ""


def check_form(declaration: ReductionDeclaration, form: str) -> None:
    """Raise `NotSupportedError` unless a reduction has other forms."""
    fault = form_fault(declaration)
    if fault:
        raise NotSupportedError(f"{declaration.name} has no {form}: {fault}")


def one_axis(declaration: ReductionDeclaration, axis: object, ndim: int) -> int:
    """Return the axis of a call as a number in ``range(ndim)``.

    Raises
    ------
    ArgumentTypeError
        If it is not an integer.
    numpy.exceptions.AxisError
        If it is out of range.
    """
    index = integer(axis)
    if index is None:
        raise ArgumentTypeError(f"{declaration.name}: axis must be an integer, not {axis!r}")
    (found,) = normalize_axes(index, ndim)
    return found


def infer_scan(
    declaration: ReductionDeclaration,
    inputs: Sequence[Abstract],
    outputs: Sequence[Abstract] = (),
    *,
    axis: object = -1,
    exclusive: bool = False,
    advice: str = GIVE_AN_ARRAY,
    broadcast: Callable[[Sequence[Shape]], Shape] = broadcast_shapes,
) -> Inferred:
    """Return the types of a scan; parameters and errors as for `infer`.

    Parameters
    ----------
    axis : int
        Along which outputs have the elements before them.
    exclusive : bool
        Whether they do not have their own element.

    Raises
    ------
    ShapeError
        If an exclusive scan needs an identity that the kernel does not have.
    NotSupportedError
        If the kernel has no scan.
    """
    check_form(declaration, SCAN)
    loop = reduction_loop(declaration, inputs, broadcast)
    along = one_axis(declaration, axis, len(loop))
    if exclusive and not declaration.has_identity:
        raise ShapeError(
            f"{declaration.name}: an exclusive scan begins with the identity, which the kernel "
            "does not have"
        )
    binding = bind_types(declaration, inputs, outputs, advice)
    check_outputs(declaration, outputs, loop)
    dtypes = tuple(param_dtype(param, binding) for param in declaration.outputs)
    return Inferred(binding, loop, (along,), loop, dtypes)


def infer_segments(
    declaration: ReductionDeclaration,
    inputs: Sequence[Abstract],
    bounds: Abstract,
    outputs: Sequence[Abstract] = (),
    *,
    advice: str = GIVE_AN_ARRAY,
    broadcast: Callable[[Sequence[Shape]], Shape] = broadcast_shapes,
) -> Inferred:
    """Return the types of a reduction of segments; parameters and errors as for `infer`.

    Parameters
    ----------
    bounds : Abstract
        Where segments begin, and the last one ends: one more than there are segments.

    Raises
    ------
    ArgumentTypeError
        If the bounds are not integers.
    ShapeError
        If they are not one axis of at least one element, there is no first axis, or the kernel has
        no identity, which empty segments need.
    NotSupportedError
        If the kernel has no segments.
    """
    check_form(declaration, SEGMENTS)
    name = declaration.name
    if not declaration.has_identity:
        raise ShapeError(
            f"{name}: an empty segment is the identity, which the kernel does not have"
        )
    loop = reduction_loop(declaration, inputs, broadcast)
    if not loop:
        raise ShapeError(f"{name}: segments are of the first axis, and the inputs have none")
    if bounds.dtype is None or bounds.shape is None:
        raise ArgumentTypeError(f"{name}: indptr must be an array, not a number")
    if lookup(bounds.dtype).kind not in "iu":
        raise ArgumentTypeError(f"{name}: indptr must hold integers, not {bounds.dtype}")
    if len(bounds.shape) != 1 or bounds.shape[0] == 0:
        raise ShapeError(
            f"{name}: indptr must have one axis, with one element more than there are segments, "
            f"not shape {bounds.shape}"
        )
    binding = bind_types(declaration, inputs, outputs, advice)
    shape = (bounds.shape[0] - 1, *loop[1:])
    check_outputs(declaration, outputs, shape)
    dtypes = tuple(param_dtype(param, binding) for param in declaration.outputs)
    return Inferred(binding, loop, (0,), shape, dtypes)
