"""Arrays that a call takes and makes, from the declaration alone: nothing is looked at or run.

>>> from kspec.model.declaration import ElementwiseDeclaration
>>> from kspec.model.signature import Param, Signature
>>> sq = ElementwiseDeclaration("sq", Signature((Param("T", "x"),)), Signature((Param("T", "y"),)))
>>> evaluate(sq, [AbstractValue((4, 3), "float32")])
Evaluation(inputs=('float32',), shape=(4, 3), outputs=(((4, 3), 'float32'),))

Broadcasting and types are those of other calls.  In addition JAX has values that are *weakly
typed*: Python's numbers, and values computed from them.  As numbers in other calls, they do not
decide a type where something else does, and are converted to it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp

from kspec.dataclass import dataclass
from kspec.errors import ArgumentTypeError, ShapeError
from kspec.model import dtypes
from kspec.model.declaration import GeneratedDeclaration, ReductionDeclaration
from kspec.model.forms.kinds import REDUCE
from kspec.model.forms.options import indices_of
from kspec.model.forms.outputs import infer_form
from kspec.model.infer import NUMBER, Abstract, Inferred, infer, param_dtype
from kspec.model.neighbours.binding import bind_neighbours
from kspec.model.shapes import Shape, check_ndim
from kspec.model.signature import Param
from kspec.runtime.memory import dtype_name, numpy_dtype

_ADVICE = "pass dtype="  # where no input decides a type
_KINDS = "biufc"  # a weakly typed value becomes what is further to the right, or as far


@dataclass(frozen=True)
class AbstractValue:
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
    values: Sequence[AbstractValue],
    *,
    dtype: str | None = None,
    size: int = -1,
    raw_shapes: Sequence[Shape] | None = None,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    boundary: str | None = None,
    **sizes: int | None,
) -> Evaluation:
    """Return the inputs and outputs of a call of an elementwise or reduction kernel.

    Parameters
    ----------
    declaration : ElementwiseDeclaration or ReductionDeclaration
        The kernel.
    values : sequence of AbstractValue
        Its inputs.
    dtype : str, optional
        That of outputs whose placeholder no input decides.
    size, axis, keepdims : optional
        As for the calls of such kernels.
    boundary, **sizes : optional
        As for the calls of kernels with windows, samples or integer placeholders.
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
    _check_arrays(declaration, values)
    inputs = _inputs(declaration, values, size)
    outputs = _chosen(declaration, inputs, dtype)
    with _telling_of_64_bits(declaration, values):
        found = infer(
            declaration,
            inputs,
            outputs,
            axis=axis,
            keepdims=keepdims,
            size=size,
            neighbours=bind_neighbours(declaration, boundary, sizes),
            advice=_ADVICE,
        )
    return _evaluation(declaration, values, found, raw_shapes)


def evaluate_form(
    declaration: ReductionDeclaration,
    form: str,
    values: Sequence[AbstractValue],
    indices: Sequence[AbstractValue],
    *,
    dtype: str | None = None,
    **options: Any,
) -> Evaluation:
    """Return the inputs and outputs of a call of another form of a reduction.

    Parameters, errors and the result are those of `evaluate`.

    Parameters
    ----------
    form : str
        The form (`kspec.model.forms`).
    indices : sequence of AbstractValue
        The arrays of integers that it takes beside the inputs.
    **options
        Keyword arguments of the call.
    """
    _check_arrays(declaration, values)
    inputs = _inputs(declaration, values, -1)
    outputs = _chosen(declaration, inputs, dtype)
    with _telling_of_64_bits(declaration, values):
        found = infer_form(
            declaration,
            form,
            inputs,
            outputs,
            indices=[Abstract(one.shape, one.dtype) for one in indices],
            options=options,
            advice=_ADVICE,
        )
    return _evaluation(declaration, values, found, None)


def _evaluation(
    declaration: GeneratedDeclaration,
    values: Sequence[AbstractValue],
    found: Inferred,
    raw_shapes: Sequence[Shape] | None,
) -> Evaluation:
    shapes = _output_shapes(declaration, found, raw_shapes)
    return Evaluation(
        tuple(
            _input_dtype(declaration.name, param, value, param_dtype(param, found.binding))
            for param, value in zip(declaration.inputs, values, strict=True)
        ),
        found.loop,
        tuple(zip(shapes, found.dtypes, strict=True)),
    )


def _inputs(
    declaration: GeneratedDeclaration, values: Sequence[AbstractValue], size: int
) -> list[Abstract]:
    """Return the inputs as other calls have them: weak values decide only what nothing else does.

    With `size`, arrays without axes are numbers, as any size fits them.
    """
    decided = _decided_by_weak(declaration, values)
    found = []
    for param, value in zip(declaration.inputs, values, strict=True):
        if value.number is not None:
            found.append(NUMBER)
            continue
        shape = None if size != -1 and not value.shape else value.shape
        found.append(Abstract(shape, decided.get(param.type) if value.weak else value.dtype))
    return found


def _chosen(
    declaration: GeneratedDeclaration, inputs: Sequence[Abstract], dtype: str | None
) -> list[Abstract]:
    """Return the outputs, with `dtype` where no input decides it."""
    bound = {
        param.type
        for param, one in zip(declaration.inputs, inputs, strict=True)
        if one.dtype is not None
    }
    free = [one.is_placeholder and one.type not in bound for one in declaration.outputs]
    if dtype is not None and not any(free):
        raise ArgumentTypeError(
            f"{declaration.name}: dtype= is for outputs whose type no input decides, and there "
            "are none"
        )
    return [Abstract(None, dtype if is_free else None) for is_free in free]


def _output_shapes(
    declaration: GeneratedDeclaration, found: Inferred, raw_shapes: Sequence[Shape] | None
) -> list[Shape]:
    """Return the shape of each output."""
    shapes = list(found.shapes)
    raw = sum(param.raw for param in declaration.outputs)
    if raw_shapes is None:
        return shapes
    if len(raw_shapes) != raw:
        raise ShapeError(
            f"{declaration.name}: raw_shapes= has {len(raw_shapes)} shapes, and there are {raw} "
            "raw outputs"
        )
    given = iter(raw_shapes)
    pairs = zip(declaration.outputs, shapes, strict=True)
    return [next(given) if param.raw else shape for param, shape in pairs]


def check_count(
    declaration: GeneratedDeclaration, arguments: Sequence[object], form: str = REDUCE
) -> None:
    """Raise `ArgumentTypeError` unless the arguments are all inputs, and arrays of integers."""
    behind = indices_of(form)
    wanted = len(declaration.inputs) + len(behind)
    if len(arguments) != wanted:
        method = "" if form == REDUCE else f".{form}"
        raise ArgumentTypeError(
            f"{declaration.name}{method}() takes {wanted} positional arguments "
            f"({', '.join((str(declaration.inputs), *behind))}) in JAX, not {len(arguments)}; "
            "outputs are returned"
        )


def _check_arrays(declaration: GeneratedDeclaration, values: Sequence[AbstractValue]) -> None:
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
    declaration.check_made_outputs()
    for param, value in zip(declaration.inputs, values, strict=True):
        check_ndim(f"{name}: argument {param.name}", len(value.shape))


def _decided_by_weak(
    declaration: GeneratedDeclaration, values: Sequence[AbstractValue]
) -> dict[str, str]:
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


def _input_dtype(kernel: str, param: Param, value: AbstractValue, dtype: str) -> str:
    """Return the dtype of an input; raise if a weakly typed value cannot be converted to it."""
    if value.weak and value.number is None:
        have, want = (_KINDS.index(dtypes.lookup(one).kind) for one in (value.dtype, dtype))
        if have > want:
            raise ArgumentTypeError(
                f"{kernel}: argument {param.name} is a {value.dtype} number, and the kernel "
                f"takes {dtype}; convert it with .astype first"
            )
    return dtype


@contextmanager
def _telling_of_64_bits(
    declaration: GeneratedDeclaration, values: Sequence[AbstractValue]
) -> Iterator[None]:
    """Add to an error of types that JAX has halved one of them."""
    try:
        yield
    except ArgumentTypeError as error:
        raise type(error)(f"{error}{_about_64_bits(declaration, values)}") from None


def _about_64_bits(declaration: GeneratedDeclaration, values: Sequence[AbstractValue]) -> str:
    """Return a note for a wrong dtype that JAX has halved."""
    wide = ("int64", "uint64", "float64", "complex128")
    for param, value in zip(declaration.inputs, values, strict=True):
        if param.type in wide and value.dtype != param.type and not jax.config.jax_enable_x64:
            return (
                f"; JAX makes {value.dtype} of {param.type} unless "
                'jax.config.update("jax_enable_x64", True) comes first'
            )
    return ""
