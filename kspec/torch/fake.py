"""Outputs of an operator, without running it: shapes, dtypes and devices from the spec alone.

Shapes may be symbolic, as `torch.compile` has them where they change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from kspec.errors import ArgumentTypeError, DeviceMismatchError, ShapeError
from kspec.model.declaration import GeneratedDeclaration, RawDeclaration, ReductionDeclaration
from kspec.model.operators import Operator
from kspec.model.signature import Param
from kspec.runtime.schedules.strides import normalize_axes, refusal_to_broadcast

Sizes = Sequence[Any]


def make_fake(one: Operator) -> Callable[..., Any]:
    """Return the function that makes an operator's results without elements."""
    declaration = one.declaration
    names = [argument.name for argument in one.arguments]

    def fake(*args: Any, **keywords: Any) -> Any:
        given = {**dict(zip(names, args, strict=False)), **keywords}
        arrays = {name: one for name, one in given.items() if isinstance(one, torch.Tensor)}
        device = _device(declaration.name, arrays)
        if isinstance(declaration, RawDeclaration):
            return None
        bound = bind(declaration, arrays)
        if not one.results:
            return None
        shape = (given["size"],) if one.sized else _shape(declaration, arrays, given)
        results = tuple(
            torch.empty(shape, dtype=dtype_of(param, bound), device=device)
            for param in declaration.outputs
        )
        return results[0] if len(results) == 1 else results

    return fake


def bind(
    declaration: GeneratedDeclaration, arrays: Mapping[str, torch.Tensor]
) -> dict[str, torch.dtype]:
    """Return the binding of the placeholders of a kernel.

    Raises
    ------
    ArgumentTypeError
        If dtypes are not those declared, or disagree.
    """
    bound: dict[str, torch.dtype] = {}
    for param in (*declaration.outputs, *declaration.inputs):
        if param.name not in arrays:
            continue
        dtype = arrays[param.name].dtype
        wanted = bound.setdefault(param.type, dtype if param.is_placeholder else _named(param.type))
        if dtype != wanted:
            raise ArgumentTypeError(
                f"Type is mismatched. {declaration.name}: {param.name} has dtype "
                f"{_short(dtype)}, but {param.type} is {_short(wanted)}"
            )
    return bound


def dtype_of(param: Param, bound: Mapping[str, torch.dtype]) -> torch.dtype:
    """Return the dtype of a parameter."""
    return bound[param.type] if param.is_placeholder else _named(param.type)


def loop_shape(declaration: GeneratedDeclaration, arrays: Mapping[str, torch.Tensor]) -> Sizes:
    """Return the shape that the inputs broadcast to; `ShapeError` if they do not."""
    shapes = [
        arrays[param.name].shape
        for param in declaration.inputs
        if param.name in arrays and not param.raw
    ]
    try:
        found: Sizes = torch.broadcast_shapes(*shapes) if len(shapes) != 1 else shapes[0]
    except RuntimeError as error:
        if type(error) is not RuntimeError:  # torch's message about unknown extents
            raise
        raise ShapeError(f"{declaration.name}: {refusal_to_broadcast(shapes)}") from None
    return found


def _shape(
    declaration: GeneratedDeclaration,
    arrays: Mapping[str, torch.Tensor],
    given: Mapping[str, Any],
) -> Sizes:
    shape = loop_shape(declaration, arrays)
    if not isinstance(declaration, ReductionDeclaration):
        return shape
    reduced = normalize_axes(_axes(given.get("axis")), len(shape))
    if given.get("keepdims", False):
        return [1 if k in reduced else extent for k, extent in enumerate(shape)]
    return [extent for k, extent in enumerate(shape) if k not in reduced]


def _axes(axis: Sequence[int] | None) -> tuple[int, ...] | None:
    return None if axis is None else tuple(axis)


def _device(kernel: str, arrays: Mapping[str, torch.Tensor]) -> torch.device:
    places: dict[torch.device, str] = {}
    for name, one in arrays.items():
        places.setdefault(one.device, name)
    if len(places) > 1:
        listed = ", ".join(f"{name} on {place}" for place, name in places.items())
        raise DeviceMismatchError(f"{kernel}: arguments live on different devices: {listed}")
    return next(iter(places))


def _named(name: str) -> torch.dtype:
    found: torch.dtype = getattr(torch, name)
    return found


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
