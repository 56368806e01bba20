"""The outputs of a reduction's other forms, from its declaration and the types of the arguments.

A reduction has several forms, which share its map, reduce, post-map and identity: ``reduce``
itself, which makes one output of all elements along axes, and

* ``scan``, which makes an output of each element and those before it;
* ``segments``, which makes an output of the elements from one bound to the next;
* ``by_key``, which makes an output of the elements that have a key;
* ``window``, which makes an output of each window that slides along an axis.

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

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kspec.diagnostics import counted
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
from kspec.model.neighbours.windows import MAX_AXES, MIRROR, NEAREST, REFLECT, VALID, WRAP
from kspec.model.shapes import Shape, broadcast_shapes, integer, normalize_axes
from kspec.model.stages import (
    key_cells,
    key_runs,
    rolling,
    scan_columns,
    scan_lines,
    segment_columns,
    segment_lines,
)

REDUCE, SCAN, SEGMENTS, BY_KEY, WINDOW = "reduce", "scan", "segments", "by_key", "window"
FORMS = (REDUCE, SCAN, SEGMENTS, BY_KEY, WINDOW)
# Forms with outputs that may have no elements, which are the identity then.
WITH_EMPTY = {SEGMENTS: "an empty segment", BY_KEY: "an output without elements"}
# Names of arguments beside those of all forms, which parameters must not hide.
KEYWORDS: dict[str, tuple[str, ...]] = {
    REDUCE: (),
    SCAN: ("exclusive", "reverse"),
    SEGMENTS: ("indptr",),
    BY_KEY: ("keys", "n", "deterministic"),
    WINDOW: ("size", "boundary", "step"),
}
_PASS_BOUNDS = "pass where each segment begins, and then where the last one ends"
# Arrays of integers that forms take behind their inputs.
INDICES: dict[str, tuple[str, ...]] = {SEGMENTS: ("indptr",)}
# What lies beyond the ends of an axis, for windows: as for those of elementwise kernels, or
# nothing, so that windows have fewer elements there.
SHRINK = "shrink"
BOUNDARIES = (VALID, NEAREST, REFLECT, MIRROR, WRAP, SHRINK)


# Layouts of forms, each for so many collapsed axes (`kspec.model.stages`).
LAYOUTS: dict[str, tuple[Callable[[int], str], ...]] = {
    SCAN: (scan_lines, scan_columns),
    SEGMENTS: (segment_lines, segment_columns),
    BY_KEY: (key_cells, key_runs),
    WINDOW: tuple(functools.partial(rolling, axes) for axes in range(1, MAX_AXES + 1)),
}
PRECOMPILED_AXES = 2  # along which windows slide; others compile on first use


def form_of(layout: str) -> str:
    """Return the form that a layout is of, or that it is a stage of.

    >>> form_of("kspec::ScanColumns<64>"), form_of("kspec::Lines")
    ('scan', 'reduce')
    >>> form_of("kspec::Continued<kspec::ScanLines<8>>")
    'scan'
    """
    found = (
        form
        for form, layouts in LAYOUTS.items()
        for tag in layouts
        if _innermost(tag(1)) == _innermost(layout)
    )
    return next(found, REDUCE)


def _innermost(layout: str) -> str:
    """Return the name of the layout that others are around."""
    return layout.rpartition("::")[2].partition("<")[0]


def form_fault(declaration: ReductionDeclaration) -> str:
    """Return why a reduction has no other forms; empty if it has."""
    if declaration.indexers or declaration.raw_views:
        named = (*declaration.indexers, *(f"_raw_{name}" for name in declaration.raw_views))
        return f"its expressions read {' and '.join(named)}, which only the reduction itself has"
    return declaration.overwrites


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
            "does not have; declare an identity, or scan with exclusive=False"
        )
    return _inferred(declaration, inputs, outputs, advice, loop, (along,), loop)


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
    advice: str = GIVE_AN_ARRAY,
    broadcast: Callable[[Sequence[Shape]], Shape] = broadcast_shapes,
) -> Inferred:
    """Return the types of a reduction by key; parameters and errors as for `infer`.

    Parameters
    ----------
    keys : Abstract
        The output that each row of the first axis belongs to.
    n : int
        Number of outputs.

    Raises
    ------
    ArgumentTypeError
        If the keys or their number are not integers.
    ShapeError
        If there is not one key for each row, the number is negative, there is no first axis, or
        the kernel has no identity, which outputs without elements need.
    NotSupportedError
        If the kernel has no reduction by key.
    """
    _check_empty(declaration, BY_KEY)
    name = declaration.name
    loop = reduction_loop(declaration, inputs, broadcast)
    if not loop:
        raise ShapeError(
            f"{name}: keys are of the first axis, and the inputs have none; pass an array with an "
            "axis"
        )
    extents = _integers_of(name, "keys", keys, "pass the output of each row")
    if len(extents) != 1 or extents[0] != loop[0]:
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


@dataclass(frozen=True)
class SlidingAxis:
    """One axis along which windows slide.

    Attributes
    ----------
    axis : int
        Its number.
    size : int
        Elements of a window along it.
    step : int
        From one window to the next.
    before : int
        Elements in front of the one that a window is at.
    """

    axis: int
    size: int
    step: int
    before: int


@dataclass(frozen=True)
class WindowPiece:
    """Some of the windows along an axis, on an array that has the elements they read.

    Attributes
    ----------
    axis : int
        The axis.
    first : int
        The element of the array that the first of them is at.
    count : int
        How many there are.
    """

    axis: int
    first: int
    count: int


def bind_window(
    kernel: str, size: object, axis: object, boundary: object, step: object, ndim: int
) -> tuple[SlidingAxis, ...]:
    """Return the axes along which the windows of a call slide, outermost first.

    Parameters
    ----------
    kernel : str
        Its name.
    size, axis, boundary, step : object
        As in the call: each but the boundary is an integer, or several.
    ndim : int
        Dimensions of the loop.

    Raises
    ------
    ArgumentTypeError
        If something is not an integer, or the boundary is unknown.
    ShapeError
        If a size or a step is not positive, or there are not as many of them as axes.
    numpy.exceptions.AxisError
        If an axis is out of range.
    """
    if boundary not in BOUNDARIES:
        raise ArgumentTypeError(
            f"{kernel}: boundary is {boundary!r}; expected one of {', '.join(BOUNDARIES)}"
        )
    sizes, axes, steps = (
        _integers(kernel, name, given)
        for name, given in (("size", size), ("axis", axis), ("step", step))
    )
    for name, given in (("size", sizes), ("step", steps)):
        if len(given) not in (1, len(axes)):
            raise ShapeError(
                f"{kernel}: {name} has {len(given)} numbers, and windows slide along "
                f"{counted(len(axes), 'axis')}"
            )
        if min(given) < 1:
            raise ShapeError(f"{kernel}: {name} must be 1 or more, not {min(given)}")
    if len(axes) > MAX_AXES:
        raise ShapeError(f"{kernel}: windows slide along {MAX_AXES} axes at most, not {len(axes)}")
    normal = [normalize_axes(one, ndim)[0] for one in axes]
    if len(set(normal)) != len(normal):
        raise ShapeError(f"{kernel}: an axis is given twice: {tuple(axes)}")
    sizes, steps = (one * (len(axes) // len(one)) for one in (sizes, steps))
    rows = sorted(zip(normal, sizes, steps, strict=True))
    centred = boundary != VALID
    return tuple(SlidingAxis(k, size, step, centred * (size // 2)) for k, size, step in rows)


def _integers(kernel: str, name: str, given: object) -> list[int]:
    several = given if isinstance(given, tuple | list) else [given]
    found = [one for one in map(integer, several) if one is not None]
    if len(found) != len(several) or not found:
        raise ArgumentTypeError(
            f"{kernel}: {name} must be an integer or a tuple of integers, not {given!r}"
        )
    return found


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
    advice: str = GIVE_AN_ARRAY,
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
        axis, exclusive = options.get("axis", -1), bool(options.get("exclusive"))
        return infer_scan(declaration, inputs, outputs, axis=axis, exclusive=exclusive, **rest)
    if form == SEGMENTS:
        (bounds,) = indices
        return infer_segments(declaration, inputs, bounds, outputs, **rest)
    assert form == WINDOW
    names = ("size", "axis", "boundary", "step")
    given = {name: options[name] for name in names if name in options}
    return infer_window(declaration, inputs, outputs, **given, **rest)[0]


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
    check_outputs(declaration, outputs, shape)
    dtypes = tuple(param_dtype(param, binding) for param in declaration.outputs)
    return Inferred(binding, loop, axes, shape, dtypes)
