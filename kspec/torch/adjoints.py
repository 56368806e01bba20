"""Adjoints of the forms of a sum: gradients of outputs in, those of the summed values out.

A value gets the gradients of all outputs that it is in, added up.  So the adjoint of a scan is a
scan from the other end, those of segments and keys hand each element the gradient of its segment or
key, and that of windows adds up those of the windows that an element is in.  Means divide before.

Everything here is made of torch's own operators, so that it is compiled and exported with the
rest of a program, and is differentiable.  Shapes may be symbolic.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from kspec.model.declaration import MEANS, SUMS_OF_ELEMENTS, ReductionDeclaration
from kspec.model.forms.kinds import BY_KEY, SCAN, SEGMENTS
from kspec.model.forms.sliding import SHRINK, SlidingAxis, bind_window
from kspec.model.neighbours.places import places_inside
from kspec.model.neighbours.windows import VALID
from kspec.model.operators import Operator

# Sums of these are computed in single precision, as kernels do.
_HALVES = (torch.float16, torch.bfloat16)


def adjoint(
    one: Operator,
    call: Callable[..., Any],
    gradient: Tensor,
    shape: tuple[Any, ...],
    given: Mapping[str, Any],
) -> Tensor:
    """Return the gradient of the values that a form of a reduction has added up.

    Parameters
    ----------
    one : Operator
        Operator of the form.
    call : callable
        That operator, as torch has it.
    gradient : Tensor
        Gradient of its output.
    shape : tuple of int
        Of all inputs broadcast.
    given : mapping of str to object
        Arguments of the form.
    """
    declaration = one.declaration
    assert isinstance(declaration, ReductionDeclaration)
    is_mean = declaration.sums == MEANS
    if one.form == SCAN and declaration.sums == SUMS_OF_ELEMENTS:
        scanned: Tensor = call(gradient, given["axis"], given["exclusive"], not given["reverse"])
        return scanned
    wide = gradient.float() if gradient.dtype in _HALVES else gradient
    if one.form == SCAN:
        found = _of_scan(wide, given["axis"], given["exclusive"], given["reverse"], is_mean)
    elif one.form == SEGMENTS:
        found = _of_segments(wide, shape[0], given["indptr"], is_mean)
    elif one.form == BY_KEY:
        found = _of_keys(wide, given["keys"], is_mean)
    else:
        size, axis, boundary, step = (given[name] for name in one.form_arguments)
        found = wide
        for along in bind_window(declaration.name, size, axis, boundary, step, len(shape)):
            found = _of_windows(found, shape[along.axis], along, boundary, is_mean)
    return found.to(gradient.dtype)


def _of_scan(gradient: Tensor, axis: int, exclusive: bool, reverse: bool, is_mean: bool) -> Tensor:
    """Return the gradient of the elements of a scan: a scan from the other end."""
    count = gradient.shape[axis]
    if is_mean:
        counts = torch.arange(count, device=gradient.device) + (not exclusive)
        gradient = _divided(gradient, counts.flip(0) if reverse else counts, axis)
    total = gradient.cumsum(axis) if reverse else gradient.flip(axis).cumsum(axis).flip(axis)
    if not exclusive or count == 0:
        return total
    nothing = torch.zeros_like(gradient.narrow(axis, 0, 1))
    rest = total.narrow(axis, 0 if reverse else 1, count - 1)
    return torch.cat([nothing, rest] if reverse else [rest, nothing], axis)


def _of_segments(gradient: Tensor, count: Any, indptr: Tensor, is_mean: bool) -> Tensor:
    """Return the gradient of each of so many elements: that of its segment, 0 without one."""
    bounds = indptr.long().contiguous()
    if is_mean:
        gradient = _divided(gradient, bounds.diff(), 0)
    nothing = gradient.new_zeros((1, *gradient.shape[1:]))
    rows = torch.cat([nothing, gradient, nothing])  # before the first bound, and behind the last
    places = torch.arange(count, device=gradient.device)
    return rows.index_select(0, torch.searchsorted(bounds, places, right=True))


def _of_keys(gradient: Tensor, keys: Tensor, is_mean: bool) -> Tensor:
    """Return the gradient of each element: that of its key, 0 for keys that are out of range."""
    count = gradient.shape[0]
    places = keys.long()
    # Keys out of range get a row of zeros, behind all others.
    places = torch.where((places >= 0) & (places < count), places, count)
    if is_mean:
        counts = places.new_zeros(count + 1).index_add(0, places, torch.ones_like(places))
        gradient = _divided(gradient, counts[:count], 0)
    nothing = gradient.new_zeros((1, *gradient.shape[1:]))
    return torch.cat([gradient, nothing]).index_select(0, places)


def _of_windows(
    gradient: Tensor, count: Any, axis: SlidingAxis, boundary: str, is_mean: bool
) -> Tensor:
    """Return the gradient of so many elements along one of the axes that windows slide along."""
    dim, size, step, before = axis.axis, axis.size, axis.step, axis.before
    outputs = gradient.shape[dim]
    shape = list(gradient.shape)
    if count == 0 or outputs == 0:
        shape[dim] = count
        return gradient.new_zeros(shape)
    if is_mean:
        first = torch.arange(outputs, device=gradient.device) * step - before
        inside = (first + size).clamp(max=count) - first.clamp(min=0)
        counts = inside if boundary == SHRINK else torch.full_like(first, size)
        gradient = _divided(gradient, counts, dim)
    reached = (outputs - 1) * step + size
    shape[dim] = count if boundary == VALID else reached
    every = gradient.unsqueeze(-1).expand(*gradient.shape, size)
    found: Tensor = torch.ops.aten.unfold_backward(every, shape, dim, size, step)
    if boundary == VALID:
        return found
    place = torch.arange(reached, device=gradient.device) - before
    shape[dim] = count + 1  # the last one is for what lies beyond the ends
    places = _reached(place, count, boundary)
    return gradient.new_zeros(shape).index_add(dim, places, found).narrow(dim, 0, count)


def _reached(place: Tensor, count: Any, boundary: str) -> Tensor:
    """Return the element that lies at a place; number `count` is nothing."""
    if boundary == SHRINK:
        return torch.where((place >= 0) & (place < count), place, count)
    inside: Tensor = places_inside(place, count, boundary, torch.where)
    return inside


def _divided(gradient: Tensor, counts: Tensor, axis: int) -> Tensor:
    """Return gradients of means, divided by how many elements each mean along an axis has."""
    shape = [1] * gradient.ndim
    shape[axis] = -1
    # No element is in a mean of nothing, so that its gradient does not matter.
    return gradient / counts.clamp(min=1).to(gradient.dtype.to_real()).reshape(shape)
