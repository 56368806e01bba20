"""Outputs of an operator, without running it: shapes, dtypes and devices from the spec alone.

Shapes may be symbolic, as `torch.compile` has them where they change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch

from kspec.errors import ShapeError
from kspec.model.declaration import RawDeclaration, ReductionDeclaration
from kspec.model.forms.kinds import REDUCE
from kspec.model.forms.outputs import infer_form
from kspec.model.infer import (
    NUMBER,
    Abstract,
    Inferred,
    bind_types,
    check_one_device,
    infer,
    param_dtype,
)
from kspec.model.neighbours.binding import neighbours_of
from kspec.model.operators import Operator
from kspec.model.raw.returns import infer_returns
from kspec.model.shapes import refusal_to_broadcast
from kspec.model.signature import Param

Sizes = Sequence[Any]


def make_fake(one: Operator) -> Callable[..., Any]:
    """Return the function that makes an operator's results without elements."""
    declaration = one.declaration
    names = [argument.name for argument in one.arguments]

    def fake(*args: Any, **keywords: Any) -> Any:
        given = {**one.defaults, **dict(zip(names, args, strict=False)), **keywords}
        arrays = {name: one for name, one in given.items() if isinstance(one, torch.Tensor)}
        device = _device(declaration.name, arrays)
        if isinstance(declaration, RawDeclaration):
            return _raw_results(declaration, given, device)
        inputs = abstract(declaration.inputs, arrays)
        if not one.results:
            bind_types(declaration, inputs, abstract(declaration.outputs, arrays))
            return None
        declaration.check_made_outputs()
        if one.sized:
            binding, shape = bind_types(declaration, inputs), (given["size"],)
            types = [(shape, param_dtype(param, binding)) for param in declaration.outputs]
        else:
            found = _infer(one, given, arrays)
            types = [*zip(found.shapes, found.dtypes, strict=True)]
        results = tuple(
            torch.empty(shape, dtype=dtype_named(dtype), device=device) for shape, dtype in types
        )
        return results[0] if len(results) == 1 else results

    return fake


def _raw_results(
    declaration: RawDeclaration, given: Mapping[str, Any], device: torch.device
) -> Any:
    """Return the arrays that a raw kernel returns: None, a tensor, or a tuple of several."""
    if not declaration.rules.returns:
        return None
    known = {
        name: Abstract(tuple(one.shape), _short(one.dtype))
        if isinstance(one, torch.Tensor)
        else one
        for name, one in given.items()
    }
    results = tuple(
        torch.empty(shape, dtype=dtype_named(dtype), device=device)
        for shape, dtype in infer_returns(declaration, known)
    )
    return results[0] if len(results) == 1 else results


def _infer(one: Operator, given: Mapping[str, Any], arrays: Mapping[str, torch.Tensor]) -> Inferred:
    """Return the types of a call, given all its arguments."""
    declaration = one.declaration
    assert not isinstance(declaration, RawDeclaration)
    inputs = abstract(declaration.inputs, arrays)
    if one.form != REDUCE:
        assert isinstance(declaration, ReductionDeclaration)
        return infer_form(
            declaration,
            one.form,
            inputs,
            indices=[
                Abstract(tuple(given[name].shape), _short(given[name].dtype))
                for name in one.indices
            ],
            options=given,
            broadcast=broadcast,
        )
    return infer(
        declaration,
        inputs,
        axis=_axes(given.get("axis")),
        keepdims=given.get("keepdims", False),
        neighbours=neighbours_of(declaration, given),
        broadcast=broadcast,
    )


def abstract(params: Iterable[Param], arrays: Mapping[str, torch.Tensor]) -> list[Abstract]:
    """Return the shapes and dtypes of arguments; those that are not tensors are numbers."""
    return [
        Abstract(tuple(arrays[one.name].shape), _short(arrays[one.name].dtype))
        if one.name in arrays
        else NUMBER
        for one in params
    ]


def broadcast(shapes: Sequence[Sizes]) -> tuple[Any, ...]:
    """Return the common shape, as torch has it for symbolic extents; `ShapeError` without one."""
    if len(shapes) == 1:
        return tuple(shapes[0])
    try:
        return tuple(torch.broadcast_shapes(*shapes))
    except RuntimeError as error:
        if type(error) is not RuntimeError:  # torch cannot decide about symbolic extents
            raise
        raise ShapeError(refusal_to_broadcast(shapes)) from None


def dtype_named(name: str) -> torch.dtype:
    """Return the dtype of a canonical name."""
    found: torch.dtype = getattr(torch, name)
    return found


def _axes(axis: Sequence[int] | None) -> tuple[int, ...] | None:
    return None if axis is None else tuple(axis)


def _device(kernel: str, arrays: Mapping[str, torch.Tensor]) -> torch.device:
    places: dict[torch.device, str] = {}
    for name, one in arrays.items():
        places.setdefault(one.device, name)
    check_one_device(kernel, [f"{name} on {place}" for place, name in places.items()])
    return next(iter(places))


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
