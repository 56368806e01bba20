"""The outputs of a call, from the declaration and the types of its arguments; nothing is run.

>>> from kspec.model.signature import Param, Signature
>>> sq = ElementwiseDeclaration("sq", Signature((Param("T", "x"),)), Signature((Param("T", "y"),)))
>>> types = infer(sq, [Abstract((4, 3), "float32")])
>>> types.shape, types.dtypes
((4, 3), ('float32',))

The runtime, fused functions and the adapters of array libraries all call `infer`, so that a call
has the same outputs, and is refused in the same words, wherever it is made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kspec.dataclass import dataclass
from kspec.errors import (
    ArgumentTypeError,
    DeviceMismatchError,
    NotSupportedError,
    ShapeError,
    UnboundPlaceholderError,
    counted,
)
from kspec.model import dtypes
from kspec.model.declaration import (
    ElementwiseDeclaration,
    GeneratedDeclaration,
    ReductionDeclaration,
)
from kspec.model.shapes import (
    Shape,
    broadcast_shapes,
    check_not_empty,
    integer,
    normalize_axes,
    reduced_shape,
)
from kspec.model.signature import Param

if TYPE_CHECKING:
    from kspec.model.neighbours.binding import BoundNeighbours
    from kspec.model.neighbours.windows import BoundSizes, BoundWindow

Binding = tuple[tuple[str, str], ...]

GIVE_THE_OUTPUT = "give the output array"


@dataclass(frozen=True)
class Abstract:
    """An argument or an output, without its elements.

    Attributes
    ----------
    shape : tuple of int or None
        Extents; None for numbers and textures, which take no part in broadcasting.
    dtype : str or None
        Canonical name; None for numbers, which decide no placeholder.
    """

    shape: tuple[Any, ...] | None
    dtype: str | None


NUMBER = Abstract(None, None)


@dataclass(frozen=True)
class Inferred:
    """The types of a call.

    Attributes
    ----------
    binding : tuple of (str, str)
        The dtype of each placeholder.
    loop : tuple of int
        The shape that the arguments broadcast to.
    reduced : tuple of int
        Normalized axes of a reduction; none of an elementwise kernel.
    shape : tuple of int
        Shape of the outputs without their core dimensions; raw outputs of elementwise kernels have
        the shape of the loop.
    dtypes : tuple of str
        Dtype of each output.
    shapes : tuple of tuple of int
        Shape of each output.
    sizes : tuple of (str, int)
        Integer placeholders.
    """

    binding: Binding
    loop: tuple[Any, ...]
    reduced: tuple[int, ...]
    shape: tuple[Any, ...]
    dtypes: tuple[str, ...]
    shapes: tuple[tuple[Any, ...], ...]
    sizes: BoundSizes = ()


def infer(
    declaration: GeneratedDeclaration,
    inputs: Sequence[Abstract],
    outputs: Sequence[Abstract] = (),
    *,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    size: object = -1,
    neighbours: BoundNeighbours | None = None,
    advice: str = GIVE_THE_OUTPUT,
    broadcast: Callable[[Sequence[Shape]], Shape] = broadcast_shapes,
) -> Inferred:
    """Return the types of a call of an elementwise or reduction kernel.

    Parameters
    ----------
    declaration : ElementwiseDeclaration or ReductionDeclaration
        The kernel.
    inputs : sequence of Abstract
        One for each declared input.
    outputs : sequence of Abstract
        The outputs that the caller gave: none or all.
    axis, keepdims, size : optional
        As in calls of reductions and of elementwise kernels.
    neighbours : BoundNeighbours, optional
        Windows and sizes of the call; default: those of a call without keyword arguments.
    advice : str
        What decides a placeholder that no argument decides, for the message.
    broadcast : callable
        Broadcasts shapes whose extents are not all integers.

    Raises
    ------
    ArgumentTypeError
        If dtypes are not the declared ones, or disagree ("Type is mismatched"), or `axis` is not
        an integer.
    UnboundPlaceholderError
        If no array decides a placeholder.
    ShapeError
        If shapes do not broadcast, are undecided or differ from that of a given output, core
        dimensions do not fit, or a reduction without an identity has nothing to reduce.
    NotSupportedError
        If the spec of a reduction lists forms without ``reduce``.
    numpy.exceptions.AxisError
        If an axis is out of range.
    """
    reduced: tuple[int, ...] = ()
    sizes: BoundSizes = ()
    _check_raw(declaration, inputs, outputs)
    if isinstance(declaration, ReductionDeclaration):
        if declaration.no_reduce:
            raise NotSupportedError(declaration.no_reduce)
        loop = reduction_loop(declaration, inputs, broadcast)
        reduced = normalize_axes(axis, len(loop), declaration.name)
        shape = reduced_shape(loop, reduced, keepdims)
        sizes = bound_sizes(declaration, inputs, outputs)
        binding = bind_types(declaration, inputs, outputs, advice)
        if not declaration.has_identity:
            check_not_empty(declaration.name, loop, reduced, shape)
    else:
        if neighbours is None and declaration.has_neighbours:
            from kspec.model.neighbours.binding import bind_neighbours

            neighbours = bind_neighbours(declaration)
        windows, given = (neighbours.windows, neighbours.sizes) if neighbours else ((), ())
        sizes = bound_sizes(declaration, inputs, outputs, given)
        inside = _inside(declaration, inputs, windows)
        taken = outputs if declaration.adjoint is None else ()
        loop = shape = _elementwise_loop(declaration, inside, taken, size, broadcast)
        _check_windows(declaration, inside, windows, loop)
        if declaration.adjoint is not None:
            shape = adjoint_window(declaration, windows).shape_outside(loop)
        _check_samples(declaration, inputs)
        binding = bind_types(declaration, inputs, outputs, advice)
    shapes = output_shapes(declaration, shape, sizes)
    check_outputs(declaration, outputs, shapes)
    return Inferred(
        binding,
        loop,
        reduced,
        shape,
        tuple(param_dtype(param, binding) for param in declaration.outputs),
        shapes,
        sizes,
    )


def _check_raw(
    declaration: GeneratedDeclaration, inputs: Sequence[Abstract], outputs: Sequence[Abstract]
) -> None:
    """Raise `ShapeError` if a raw array has another number of axes than it is declared with."""
    pairs = [
        *zip(declaration.inputs, inputs, strict=True),
        *zip(declaration.outputs, outputs, strict=bool(outputs)),
    ]
    for param, one in pairs:
        if param.ndim is not None and one.shape is not None and len(one.shape) != param.ndim:
            raise ShapeError(
                f"{declaration.name}: argument {param.name} has "
                f"{counted(len(one.shape), 'dimension')}; it is declared {param}"
            )


def bound_sizes(
    declaration: GeneratedDeclaration,
    inputs: Sequence[Abstract],
    outputs: Sequence[Abstract] = (),
    given: BoundSizes = (),
) -> BoundSizes:
    """Return the integer placeholders of a call, in the order of the declaration.

    `given` are those that the call gives by name.  Raises `ShapeError` if core dimensions differ.
    """
    if not declaration.has_core:
        return given
    from kspec.model.dimensions import bind_core, core_signature

    given_outputs = zip(declaration.outputs, outputs, strict=bool(outputs))
    arguments = [
        *((param, one.shape) for param, one in zip(declaration.inputs, inputs, strict=True)),
        *((param, one.shape) for param, one in given_outputs if one.shape is not None),
    ]
    signature = core_signature(declaration.inputs, declaration.outputs)
    sizes = bind_core(declaration.name, arguments, dict(given), signature)
    return tuple((name, sizes[name]) for name in declaration.size_names)


def output_shapes(
    declaration: GeneratedDeclaration, shape: tuple[Any, ...], sizes: BoundSizes = ()
) -> tuple[tuple[Any, ...], ...]:
    """Return the shape of each output, given that without core dimensions, and the sizes."""
    if not declaration.has_core:
        return (shape,) * len(declaration.outputs)
    from kspec.model.dimensions import core_shape

    known, name = dict(sizes), declaration.name
    return tuple((*shape, *core_shape(name, param, known)) for param in declaration.outputs)


def param_dtype(param: Param, binding: Binding) -> str:
    """Return the dtype of a parameter under a binding."""
    return dict(binding)[param.type] if param.is_placeholder else param.type


def bind_types(
    declaration: GeneratedDeclaration,
    inputs: Sequence[Abstract],
    outputs: Sequence[Abstract] = (),
    advice: str = GIVE_THE_OUTPUT,
) -> Binding:
    """Bind the placeholders: outputs decide first, then inputs; numbers take no part.

    Raises
    ------
    ArgumentTypeError
        If an array's dtype is not the declared one, or two arrays disagree on a placeholder.
    UnboundPlaceholderError
        If no array decides a placeholder; the message ends with `advice`.
    """
    bound: dict[str, tuple[str, str]] = {}
    pairs = [
        *zip(declaration.outputs, outputs, strict=bool(outputs)),
        *zip(declaration.inputs, inputs, strict=True),
    ]
    for param, given in pairs:
        if given.dtype is None:
            continue
        is_texture = given.dtype == dtypes.TEXTURE.name
        if not param.is_placeholder:
            if given.dtype != param.type:
                end = "" if is_texture else f"; convert it to {param.type}"
                noun = "it is a" if is_texture else "the array has dtype"
                raise _mismatch(
                    declaration,
                    f"{param.name} is declared {param.type}, but {noun} {given.dtype}{end}",
                )
            continue
        before, by = bound.setdefault(param.type, (given.dtype, param.name))
        if before != given.dtype:
            if dtypes.TEXTURE.name in (before, given.dtype):
                verb = "is" if is_texture else "has dtype"
                raise _mismatch(
                    declaration,
                    f"{param.type} is {before} by {by}, but {param.name} {verb} {given.dtype}",
                )
            raise _mismatch(
                declaration,
                f"{param.type} is {before} by {by}, but {param.name} has dtype {given.dtype}; "
                "convert one of them, or declare them with two placeholders",
            )
    for letter in declaration.placeholders:
        if letter not in bound:
            raise _undecided(declaration, letter, advice)
    if any(dtype == dtypes.TEXTURE.name for dtype, _ in bound.values()):
        _check_textures(declaration, inputs, outputs, bound)
    return tuple((letter, bound[letter][0]) for letter in declaration.placeholders)


def _undecided(
    declaration: GeneratedDeclaration, letter: str, advice: str
) -> UnboundPlaceholderError:
    users = ", ".join(param.name for param in declaration.params if param.type == letter)
    number = next((param.name for param in declaration.inputs if param.type == letter), "")
    ways = [f"numbers do not, so pass an array for {number}"] if number else []
    ways += [advice] if advice and users != number else []
    if not number:
        ways.append(f"declare {users} with the type of an input")
    way = ", or ".join(ways)
    return UnboundPlaceholderError(
        f"{declaration.name}: no array decides the type {letter} (of {users}); {way}"
    )


def _mismatch(declaration: GeneratedDeclaration, message: str) -> ArgumentTypeError:
    return ArgumentTypeError(f"Type is mismatched. {declaration.name}: {message}")


def _check_textures(
    declaration: GeneratedDeclaration,
    inputs: Sequence[Abstract],
    outputs: Sequence[Abstract],
    bound: Mapping[str, tuple[str, str]],
) -> None:
    """Refuse numbers, and outputs to be allocated, of the placeholder that a texture has bound."""
    numbers = [
        param
        for param, given in zip(declaration.inputs, inputs, strict=True)
        if given.dtype is None
    ]
    for param in (*numbers, *(() if outputs else declaration.outputs)):
        dtype, by = bound.get(param.type, ("", ""))
        if dtype == dtypes.TEXTURE.name:
            raise _mismatch(
                declaration,
                f"{param.type} is {dtype} by {by}, but {param.name} is not a texture; give the "
                "texture a placeholder of its own",
            )


def _before_core(where: str, param: Param, shape: Shape) -> Shape:
    if not param.core:
        return shape
    from kspec.model.dimensions import split_core

    return split_core(where, param, shape)[0]


def loop_shape(
    declaration: GeneratedDeclaration,
    inputs: Sequence[Abstract],
    outputs: Sequence[Abstract] = (),
    broadcast: Callable[[Sequence[Shape]], Shape] = broadcast_shapes,
) -> tuple[Any, ...] | None:
    """Return the shape that the arrays which are not raw broadcast to; None without any.

    Raises
    ------
    ShapeError
        If they do not broadcast.
    """
    pairs = [
        *zip(declaration.inputs, inputs, strict=True),
        *zip(declaration.outputs, outputs, strict=bool(outputs)),
    ]
    found = {
        param.name: _before_core(declaration.name, param, one.shape)
        for param, one in pairs
        if one.shape is not None and not param.raw
    }
    if not found:
        return None
    try:
        return broadcast(list(found.values()))
    except ShapeError as error:
        raise ShapeError(f"{declaration.name}: {error} of {', '.join(found)}") from None


def reduction_loop(
    declaration: ReductionDeclaration,
    inputs: Sequence[Abstract],
    broadcast: Callable[[Sequence[Shape]], Shape] = broadcast_shapes,
) -> tuple[Any, ...]:
    """Return the shape that a reduction loops over; `ShapeError` if there is none."""
    loop = loop_shape(declaration, inputs, (), broadcast)
    if loop is None:
        raise ShapeError(
            f"{declaration.name}: Loop size is undecided. Pass an array that is not raw"
        )
    return loop


def _elementwise_loop(
    declaration: ElementwiseDeclaration,
    inputs: Sequence[Abstract],
    outputs: Sequence[Abstract],
    size: object,
    broadcast: Callable[[Sequence[Shape]], Shape],
) -> tuple[Any, ...]:
    """Return the shape of the loop: broadcast, or ``(size,)``."""
    loop = loop_shape(declaration, inputs, outputs, broadcast)
    if size != -1:
        if loop is not None:
            raise ShapeError(
                f"{declaration.name}: Specified 'size' can be used only if all of the array "
                "arguments are raw"
            )
        return (checked_size(declaration.name, size),)
    if loop is None:
        raise ShapeError(
            f"{declaration.name}: Loop size is undecided. Pass an array that is not raw, or give "
            "size="
        )
    return loop


def adjoint_window(
    declaration: ElementwiseDeclaration, windows: Sequence[BoundWindow]
) -> BoundWindow:
    """Return the window that a kernel is the adjoint of, among those of a call."""
    assert declaration.adjoint is not None
    return next(one for one in windows if one.param == declaration.adjoint.param)


def _inside(
    declaration: ElementwiseDeclaration, inputs: Sequence[Abstract], windows: Sequence[BoundWindow]
) -> Sequence[Abstract]:
    """Return the inputs, windowed ones with the shape of the elements that have a result."""
    if not windows:
        return inputs
    known = {window.param: window for window in windows}
    found = []
    for param, one in zip(declaration.inputs, inputs, strict=True):
        if param.name in known and one.shape is not None:
            try:
                one = replace(one, shape=known[param.name].shape_inside(one.shape))
            except ShapeError as error:
                raise ShapeError(f"{declaration.name}: {error}") from None
        found.append(one)
    return found


def _check_windows(
    declaration: ElementwiseDeclaration,
    inside: Sequence[Abstract],
    windows: Sequence[BoundWindow],
    loop: tuple[Any, ...],
) -> None:
    """Raise `ShapeError` if a windowed axis would be broadcast: its elements have no neighbours."""
    known = {window.param: len(window.reach) for window in windows}
    for param, one in zip(declaration.inputs, inside, strict=True):
        axes = known.get(param.name, 0)
        if axes and one.shape is not None and one.shape[-axes:] != loop[-axes:]:
            raise ShapeError(
                f"{declaration.name}: argument {param.name} has extents {one.shape[-axes:]} along "
                f"its windowed axes, and the loop {loop[-axes:]}; windowed axes do not broadcast"
            )


def _check_samples(declaration: ElementwiseDeclaration, inputs: Sequence[Abstract]) -> None:
    """Raise `ShapeError` or `ArgumentTypeError` if an array cannot be sampled as the text says."""
    known = {sample.param: sample for sample in declaration.samples}
    for param, one in zip(declaration.inputs, inputs, strict=True):
        sample = known.get(param.name)
        if sample is None or one.shape is None:
            continue
        if len(one.shape) != sample.axes:
            raise ShapeError(
                f"{declaration.name}: argument {param.name} has "
                f"{counted(len(one.shape), 'dimension')}; the operation samples an array of "
                f"{sample.axes}"
            )
        if sample.order and one.dtype is not None and dtypes.lookup(one.dtype).kind == "V":
            raise ArgumentTypeError(
                f"{declaration.name}: argument {param.name} has dtype {one.dtype}, and samples of "
                f"order {sample.order} need numbers"
            )


def check_outputs(
    declaration: GeneratedDeclaration,
    outputs: Sequence[Abstract],
    shapes: Sequence[tuple[Any, ...]],
) -> None:
    """Raise `ShapeError` unless the outputs that are not raw have the shapes of the results."""
    for param, one, shape in zip(declaration.outputs, outputs, shapes, strict=bool(outputs)):
        is_loop = not isinstance(declaration, ReductionDeclaration) and not param.core
        what = "loop" if is_loop else "result"
        if not param.raw and one.shape is not None and one.shape != shape:
            raise ShapeError(
                f"Out shape is mismatched: {declaration.name}: output {param.name} has shape "
                f"{one.shape}, the {what} {shape}"
            )


def check_one_device(kernel: str, arguments: Sequence[str]) -> None:
    """Check that the arguments of a call live on one device.

    Parameters
    ----------
    kernel : str
        Its name.
    arguments : sequence of str
        The first argument on each device: ``"x on cuda:0"``.

    Raises
    ------
    DeviceMismatchError
        If there are several devices: nothing is copied between them behind a user's back.
    """
    if len(arguments) > 1:
        raise DeviceMismatchError(
            f"{kernel}: arguments live on different devices: {', '.join(arguments)}; a kernel runs "
            "where its arrays live, so copy them to one device first (kspec.asarray, kspec.asnumpy)"
        )


def checked_size(kernel: str, size: object) -> int:
    """Return a number of elements as an integer; -1 if it was not given."""
    count = integer(size)
    if count is None:
        raise ArgumentTypeError(f"{kernel}: size must be an integer, not {type(size).__name__}")
    if count < -1:
        raise ShapeError(f"{kernel}: size must not be negative, got {count}")
    return count
