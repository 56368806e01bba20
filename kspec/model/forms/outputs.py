"""The outputs of a reduction's other forms, from its declaration and the types of the arguments.

>>> from kspec.model.signature import Param, Signature
>>> inputs, outputs = Signature((Param("T", "x"),)), Signature((Param("T", "y"),))
>>> total = ReductionDeclaration("total", inputs, outputs)
>>> infer_scan(total, [Abstract((4, 3), "float32")], axis=0).shape
(4, 3)
>>> infer_segments(total, [Abstract((9,), "float32")], Abstract((4,), "int64")).shape
(3,)
>>> infer_by_key(total, [Abstract((9,), "float32")], Abstract((9,), "int64"), n=5).shape
(5,)

As `kspec.model.infer`, this is what all callers share.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kspec.errors import ArgumentTypeError, ShapeError, counted
from kspec.model.declaration import ReductionDeclaration
from kspec.model.dtypes import lookup
from kspec.model.forms.kinds import BY_KEY, SCAN, SEGMENTS, WINDOW, WITH_EMPTY, check_form
from kspec.model.forms.sliding import SlidingAxis, WindowPiece, bind_window
from kspec.model.infer import (
    GIVE_THE_OUTPUT,
    Abstract,
    Inferred,
    bind_types,
    check_outputs,
    output_shapes,
    param_dtype,
    reduction_loop,
)
from kspec.model.neighbours.windows import VALID
from kspec.model.shapes import Shape, broadcast_shapes, flag, integer, normalize_axes

_PASS_BOUNDS = "pass where each segment begins, and then where the last one ends"


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
    (found,) = normalize_axes(index, ndim, declaration.name)
    return found


def infer_scan(
    declaration: ReductionDeclaration,
    inputs: Sequence[Abstract],
    outputs: Sequence[Abstract] = (),
    *,
    axis: object = -1,
    exclusive: object = False,
    reverse: object = False,
    advice: str = GIVE_THE_OUTPUT,
    broadcast: Callable[[Sequence[Shape]], Shape] = broadcast_shapes,
) -> Inferred:
    """Return the types of a scan; parameters and errors as for `infer`.

    Parameters
    ----------
    axis : int
        Along which outputs have the elements before them.
    exclusive, reverse : bool
        Whether they do not have their own element; whether those behind them are before them.

    Raises
    ------
    ArgumentTypeError
        If one of them is not a bool.
    ShapeError
        If an exclusive scan needs an identity that the kernel does not have.
    NotSupportedError
        If the kernel has no scan.
    """
    check_form(declaration, SCAN)
    exclusive = flag(declaration.name, "exclusive", exclusive)
    flag(declaration.name, "reverse", reverse)
    loop = reduction_loop(declaration, inputs, broadcast)
    along = one_axis(declaration, axis, len(loop))
    if exclusive and not declaration.has_identity:
        raise ShapeError(
            f"{declaration.name}: an exclusive scan begins with the identity, which the kernel "
            "does not have; declare an identity, or scan with exclusive=False"
        )
    return _inferred(declaration, inputs, outputs, advice, loop, (along,), loop)


def infer_segments(
    declaration: ReductionDeclaration,
    inputs: Sequence[Abstract],
    bounds: Abstract,
    outputs: Sequence[Abstract] = (),
    *,
    advice: str = GIVE_THE_OUTPUT,
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
    _check_empty(declaration, SEGMENTS)
    name = declaration.name
    loop = reduction_loop(declaration, inputs, broadcast)
    if not loop:
        raise ShapeError(
            f"{name}: segments are of the first axis, and the inputs have none; pass an array with "
            "an axis"
        )
    extents = _integers_of(name, "indptr", bounds, _PASS_BOUNDS)
    if len(extents) != 1 or extents[0] == 0:
        raise ShapeError(
            f"{name}: indptr must have one axis, with one element more than there are segments, "
            f"not shape {extents}; {_PASS_BOUNDS}"
        )
    shape = (extents[0] - 1, *loop[1:])
    return _inferred(declaration, inputs, outputs, advice, loop, (0,), shape)


def infer_by_key(
    declaration: ReductionDeclaration,
    inputs: Sequence[Abstract],
    keys: Abstract,
    outputs: Sequence[Abstract] = (),
    *,
    n: object,
    deterministic: object = True,
    advice: str = GIVE_THE_OUTPUT,
    broadcast: Callable[[Sequence[Shape]], Shape] = broadcast_shapes,
) -> Inferred:
    """Return the types of a reduction by key; parameters and errors as for `infer`.

    Parameters
    ----------
    keys : Abstract
        The output that each row of the first axis belongs to.
    n : int
        Number of outputs.
    deterministic : bool
        Whether elements keep their order.

    Raises
    ------
    ArgumentTypeError
        If the keys or their number are not integers, or `deterministic` is not a bool.
    ShapeError
        If there is not one key for each row, the number is negative, there is no first axis, or
        the kernel has no identity, which outputs without elements need.
    NotSupportedError
        If the kernel has no reduction by key.
    """
    _check_empty(declaration, BY_KEY)
    name = declaration.name
    flag(name, "deterministic", deterministic)
    loop = reduction_loop(declaration, inputs, broadcast)
    if not loop:
        raise ShapeError(
            f"{name}: keys are of the first axis, and the inputs have none; pass an array with an "
            "axis"
        )
    extents = _integers_of(name, "keys", keys, "pass the output of each row")
    if extents != loop[:1]:
        raise ShapeError(
            f"{name}: keys must have one axis, with an element for each of the {loop[0]} rows of "
            f"the first axis, not shape {extents}"
        )
    count = integer(n)
    if count is None:
        raise ArgumentTypeError(f"{name}: n must be an integer, not {n!r}")
    if count < 0:
        raise ShapeError(f"{name}: n must be 0 or more, not {count}")
    return _inferred(declaration, inputs, outputs, advice, loop, (0,), (count, *loop[1:]))


def _check_empty(declaration: ReductionDeclaration, form: str) -> None:
    """Raise an error unless a reduction has a form, some outputs of which have no elements."""
    check_form(declaration, form)
    if not declaration.has_identity:
        raise ShapeError(
            f"{declaration.name}: {WITH_EMPTY[form]} is the identity, which the kernel does not "
            "have; declare an identity"
        )


def _integers_of(kernel: str, name: str, given: Abstract, advice: str) -> Shape:
    """Return the shape of an array of integers that a form takes beside the inputs."""
    if given.dtype is None or given.shape is None:
        raise ArgumentTypeError(f"{kernel}: {name} must be an array, not a number; {advice}")
    if lookup(given.dtype).kind not in "iu":
        raise ArgumentTypeError(
            f"{kernel}: {name} must hold integers, not {given.dtype}; convert it, as "
            f"{name}.astype('int64') does"
        )
    return given.shape


def infer_window(
    declaration: ReductionDeclaration,
    inputs: Sequence[Abstract],
    outputs: Sequence[Abstract] = (),
    *,
    size: object,
    axis: object = -1,
    boundary: object = VALID,
    step: object = 1,
    pieces: Sequence[WindowPiece] = (),
    advice: str = GIVE_THE_OUTPUT,
    broadcast: Callable[[Sequence[Shape]], Shape] = broadcast_shapes,
) -> tuple[Inferred, tuple[SlidingAxis, ...]]:
    """Return the types of a reduction of windows, and the axes along which they slide.

    Parameters and errors are those of `infer` and `bind_window`; `pieces` are the windows that are
    wanted along some of the axes.

    Raises
    ------
    ShapeError
        If a window with the boundary "valid" is longer than its axis.
    NotSupportedError
        If the kernel has no windows.
    """
    check_form(declaration, WINDOW)
    loop = reduction_loop(declaration, inputs, broadcast)
    sliding = bind_window(declaration.name, size, axis, boundary, step, len(loop))
    shape = list(loop)
    wanted = {piece.axis: piece for piece in pieces}
    for one in sliding:
        if one.axis in wanted:
            shape[one.axis] = wanted[one.axis].count
            continue
        extent = loop[one.axis]
        if boundary == VALID and one.size > extent:
            raise ShapeError(
                f"{declaration.name}: a window of {one.size} does not fit axis {one.axis}, which "
                f"has {counted(extent, 'element')}; choose another boundary than 'valid'"
            )
        room = extent - one.size if boundary == VALID else extent - 1
        shape[one.axis] = room // one.step + 1
    axes = tuple(one.axis for one in sliding)
    inferred = _inferred(declaration, inputs, outputs, advice, loop, axes, tuple(shape))
    return inferred, tuple(
        replace(one, before=one.before - wanted[one.axis].first) if one.axis in wanted else one
        for one in sliding
    )


def infer_form(
    declaration: ReductionDeclaration,
    form: str,
    inputs: Sequence[Abstract],
    outputs: Sequence[Abstract] = (),
    *,
    indices: Sequence[Abstract] = (),
    options: Mapping[str, Any],
    **rest: Any,
) -> Inferred:
    """Return the types of a call of a form other than ``reduce``, for callers that have any.

    Parameters
    ----------
    indices : sequence of Abstract
        The arrays of integers that the form takes beside the inputs.
    options : mapping of str to object
        Keyword arguments of the call; those that do not matter here are left alone.
    **rest
        As of `infer_scan` and the others, which have the errors, too.
    """
    if form == SCAN:
        given = _those(options, "axis", "exclusive", "reverse")
        return infer_scan(declaration, inputs, outputs, **given, **rest)
    if form == SEGMENTS:
        (bounds,) = indices
        return infer_segments(declaration, inputs, bounds, outputs, **rest)
    if form == BY_KEY:
        (keys,) = indices
        given = _those(options, "n", "deterministic")
        return infer_by_key(declaration, inputs, keys, outputs, **given, **rest)
    assert form == WINDOW
    given = _those(options, "size", "axis", "boundary", "step")
    return infer_window(declaration, inputs, outputs, **given, **rest)[0]


def _those(options: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: options[name] for name in names if name in options}


def _inferred(
    declaration: ReductionDeclaration,
    inputs: Sequence[Abstract],
    outputs: Sequence[Abstract],
    advice: str,
    loop: tuple[Any, ...],
    axes: tuple[int, ...],
    shape: tuple[Any, ...],
) -> Inferred:
    """Return the types of a call, given the loop, the form's axes and the outputs' shape."""
    binding = bind_types(declaration, inputs, outputs, advice)
    shapes = output_shapes(declaration, shape)
    check_outputs(declaration, outputs, shapes)
    dtypes = tuple(param_dtype(param, binding) for param in declaration.outputs)
    return Inferred(binding, loop, axes, shape, dtypes, shapes)
