"""Arrays that a call takes and makes, from the declaration alone: nothing is looked at or run.

>>> from kspec.model.signature import Param, Signature
>>> sq = ElementwiseDeclaration("sq", Signature((Param("T", "x"),)), Signature((Param("T", "y"),)))
>>> evaluate(sq, [Value((4, 3), "float32")])
Evaluation(inputs=('float32',), shape=(4, 3), outputs=(((4, 3), 'float32'),))

Broadcasting and types are those of other calls.  In addition JAX has values that are *weakly
typed*: Python's numbers, and values computed from them.  As numbers in other calls, they do not
decide a type where something else does, and are converted to it.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from kspec.errors import ArgumentTypeError, ShapeError, UnboundPlaceholderError
from kspec.model import dtypes
from kspec.model.declaration import (
    ElementwiseDeclaration,
    GeneratedDeclaration,
    ReductionDeclaration,
)
from kspec.model.signature import Param
from kspec.model.stages import MAX_NDIM
from kspec.runtime.arguments import binding as dispatch
from kspec.runtime.arguments.binding import Binding, Call, Operand
from kspec.runtime.driver.device import HOST
from kspec.runtime.memory.array_view import ArrayView, dtype_name, numpy_dtype
from kspec.runtime.schedules import strides as layout

Shape = tuple[int, ...]

_KINDS = "biufc"  # a weakly typed value becomes what is further to the right, or as far


@dataclass(frozen=True)
class Value:
    """An argument.

    Attributes
    ----------
    shape : tuple of int
        Extents.
    dtype : str
        Canonical dtype name.
    weak : bool
        Whether it is weakly typed.
    number : bool, int, float, complex or None
        Its value, where the kernel needs a number when it is launched.
    """

    shape: Shape
    dtype: str
    weak: bool = False
    number: bool | int | float | complex | None = None


@dataclass(frozen=True)
class Evaluation:
    """Inputs and outputs of a call.

    Attributes
    ----------
    inputs : tuple of str
        Dtypes that the arguments have, or are converted to.
    shape : tuple of int
        Shape of the loop: of all inputs that are not raw, broadcast.
    outputs : tuple of (tuple of int, str)
        Shape and dtype of each output.
    """

    inputs: tuple[str, ...]
    shape: Shape
    outputs: tuple[tuple[Shape, str], ...]


def evaluate(
    declaration: GeneratedDeclaration,
    values: Sequence[Value],
    *,
    dtype: str | None = None,
    size: int = -1,
    raw_shapes: Sequence[Shape] | None = None,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
) -> Evaluation:
    """Return the inputs and outputs of a call of an elementwise or reduction kernel.

    Parameters
    ----------
    declaration : ElementwiseDeclaration or ReductionDeclaration
        The kernel.
    values : sequence of Value
        Its inputs.
    dtype : str, optional
        That of outputs whose placeholder no input decides.
    size, axis, keepdims : optional
        As for the calls of such kernels.
    raw_shapes : sequence of tuple of int, optional
        Shapes of the raw outputs of an elementwise kernel, in order; default: that of the loop.

    Raises
    ------
    ArgumentTypeError
        If the kernel writes to its inputs, or types do not fit.
    ShapeError
        If shapes do not broadcast, or are unknown, or nothing is reduced without an identity.
    numpy.exceptions.AxisError
        If an axis is out of range.
    """
    binding, inputs = _bind(declaration, values, dtype)
    loop = _loop_shape(declaration, values)
    if isinstance(declaration, ReductionDeclaration):
        if loop is None:
            raise ShapeError(f"{declaration.name}: pass an array that is not raw")
        shape = _reduced_shape(declaration, loop, axis, keepdims)
    else:
        loop = shape = _sized(declaration, loop, size)
    outputs = tuple(
        (extents, dispatch.param_dtype(one, binding))
        for one, extents in zip(
            declaration.outputs, _output_shapes(declaration, shape, raw_shapes), strict=True
        )
    )
    return Evaluation(inputs, loop, outputs)


def _output_shapes(
    declaration: GeneratedDeclaration, shape: Shape, raw_shapes: Sequence[Shape] | None
) -> list[Shape]:
    """Return the shape of each output."""
    raw = sum(param.raw for param in declaration.outputs)
    if raw_shapes is None:
        return [shape] * len(declaration.outputs)
    if len(raw_shapes) != raw:
        raise ShapeError(
            f"{declaration.name}: raw_shapes= has {len(raw_shapes)} shapes, and there are {raw} "
            "raw outputs"
        )
    given = iter(raw_shapes)
    return [next(given) if param.raw else shape for param in declaration.outputs]


def _sized(declaration: ElementwiseDeclaration, loop: Shape | None, size: int) -> Shape:
    """Return the shape of the outputs of an elementwise kernel."""
    if size == -1:
        if loop is None:
            raise ShapeError(
                f"{declaration.name}: Loop size is undecided. Pass an array that is not raw, or "
                "give size="
            )
        return loop
    if loop:  # numbers have no axes, and take any size
        raise ShapeError(f"{declaration.name}: size= is for calls whose arrays are all raw")
    return (size,)


def _reduced_shape(
    declaration: ReductionDeclaration,
    shape: Shape,
    axis: int | Sequence[int] | None,
    keepdims: bool,
) -> Shape:
    """Return the shape of the outputs of a reduction."""
    reduced = layout.normalize_axes(axis, len(shape))
    kept = tuple(
        1 if k in reduced else extent
        for k, extent in enumerate(shape)
        if keepdims or k not in reduced
    )
    if not declaration.has_identity and 0 in (shape[k] for k in reduced) and 0 not in kept:
        raise ShapeError(
            f"zero-size array to reduction operation {declaration.name} which has no identity"
        )
    return kept


def _bind(
    declaration: GeneratedDeclaration, values: Sequence[Value], dtype: str | None
) -> tuple[Binding, tuple[str, ...]]:
    """Return the placeholders' dtypes, and those that the inputs have or get."""
    _check_arrays(declaration, values)
    decided = _decided_by_weak(declaration, values)
    inputs = []
    for param, value in zip(declaration.inputs, values, strict=True):
        own = decided.get(param.type) if value.weak else value.dtype
        view = None if own is None or value.number is not None else _view((), own)
        inputs.append(Operand(param, None, view, None))
    outputs = _wanted_outputs(declaration, inputs, dtype)
    try:
        binding = dispatch.resolve_types(
            declaration, Call(tuple(inputs), tuple(outputs), HOST, None)
        )
    except ArgumentTypeError as error:
        raise type(error)(f"{error}{_about_64_bits(declaration, values)}") from None
    given = tuple(
        _input_dtype(declaration.name, param, value, dispatch.param_dtype(param, binding))
        for param, value in zip(declaration.inputs, values, strict=True)
    )
    return binding, given


def _loop_shape(declaration: GeneratedDeclaration, values: Sequence[Value]) -> Shape | None:
    """Return the broadcast shape of the inputs; None if all of them are raw."""
    return dispatch.loop_shape(
        declaration.name,
        [
            Operand(param, None, _view(value.shape, value.dtype), None)
            for param, value in zip(declaration.inputs, values, strict=True)
            if value.number is None
        ],
    )


def _view(shape: Shape, dtype: str) -> ArrayView:
    """Return the view of an array as in other calls."""
    return ArrayView(0, shape, (0,) * len(shape), dtype, HOST)


def check_count(declaration: GeneratedDeclaration, arguments: Sequence[object]) -> None:
    """Raise `ArgumentTypeError` unless the arguments are all inputs."""
    if len(arguments) != len(declaration.inputs):
        raise ArgumentTypeError(
            f"{declaration.name}() takes {len(declaration.inputs)} positional arguments "
            f"({declaration.inputs}) in JAX, not {len(arguments)}; outputs are returned"
        )


def _check_arrays(declaration: GeneratedDeclaration, values: Sequence[Value]) -> None:
    """Raise unless the kernel leaves its inputs as they are, and takes as many axes."""
    name = declaration.name
    written = [param.name for param in declaration.inputs if param.non_const]
    if written:
        raise ArgumentTypeError(
            f"{name}: {written[0]} is written to, and JAX's arrays never change; declare what the "
            "kernel writes as an output"
        )
    if not len(declaration.outputs):
        raise ArgumentTypeError(f"{name} has no outputs, and so nothing to do in JAX")
    for param, value in zip(declaration.inputs, values, strict=True):
        if len(value.shape) > MAX_NDIM:
            raise ShapeError(
                f"{name}: argument {param.name} has {len(value.shape)} dimensions; kernels take "
                f"{MAX_NDIM}"
            )


def _decided_by_weak(declaration: GeneratedDeclaration, values: Sequence[Value]) -> dict[str, str]:
    """Return the dtypes of placeholders that only weakly typed values could decide."""
    pairs = [
        (param, value)
        for param, value in zip(declaration.inputs, values, strict=True)
        if param.is_placeholder and value.number is None
    ]
    strong = {param.type for param, value in pairs if not value.weak}
    weak: dict[str, list[str]] = {}
    for param, value in pairs:
        if param.type not in strong:
            weak.setdefault(param.type, []).append(value.dtype)
    return {
        letter: dtype_name(functools.reduce(jnp.promote_types, map(numpy_dtype, names)))
        for letter, names in weak.items()
    }


def _wanted_outputs(
    declaration: GeneratedDeclaration, inputs: Sequence[Operand], dtype: str | None
) -> list[Operand]:
    """Return the outputs that have the dtype which the caller asks for."""
    bound = {operand.param.type for operand in inputs if operand.view is not None}
    free = [one for one in declaration.outputs if one.is_placeholder and one.type not in bound]
    if dtype is not None and not free:
        raise ArgumentTypeError(
            f"{declaration.name}: dtype= is for outputs whose type no input decides, and there "
            "are none"
        )
    if dtype is None and free:
        raise UnboundPlaceholderError(
            f"{declaration.name}: no input decides the type {free[0].type} (of {free[0].name}); "
            "pass dtype="
        )
    return [Operand(one, None, _view((), str(dtype)), None, is_output=True) for one in free]


def _input_dtype(kernel: str, param: Param, value: Value, dtype: str) -> str:
    """Return the dtype of an input; raise if a weakly typed value cannot be converted to it."""
    if value.weak and value.number is None:
        have, want = (_KINDS.index(dtypes.lookup(one).kind) for one in (value.dtype, dtype))
        if have > want:
            raise ArgumentTypeError(
                f"{kernel}: argument {param.name} is a {value.dtype} number, and the kernel "
                f"takes {dtype}; convert it with .astype first"
            )
    return dtype


def _about_64_bits(declaration: GeneratedDeclaration, values: Sequence[Value]) -> str:
    """Return a note for a wrong dtype that JAX has halved."""
    wide = ("int64", "uint64", "float64", "complex128")
    for param, value in zip(declaration.inputs, values, strict=True):
        if param.type in wide and value.dtype != param.type and not jax.config.jax_enable_x64:
            return (
                f"; JAX makes {value.dtype} of {param.type} unless "
                'jax.config.update("jax_enable_x64", True) comes first'
            )
    return ""
