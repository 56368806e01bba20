"""Adjoints of the forms of a sum: gradients of outputs in, those of the summed values out.

A value gets the gradients of all outputs that it is in, added up: a scan from the other end, the
gradient of its segment or key, or those of the windows that it is in.  Means divide before.  These
are JAX's own operations, which are batched and differentiated as others.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from kspec.jax.shards import varying, varying_axes
from kspec.model.declaration import MEANS, ReductionDeclaration
from kspec.model.forms.kinds import BY_KEY, SCAN, SEGMENTS
from kspec.model.forms.sliding import SHRINK, SlidingAxis, bind_window
from kspec.model.neighbours.places import places_inside
from kspec.model.neighbours.windows import VALID
from kspec.model.shapes import Shape, normalize_axes


def adjoint(
    declaration: ReductionDeclaration,
    form: str,
    gradient: Any,
    shape: Shape,
    options: Mapping[str, Any],
    indices: tuple[Any, ...],
) -> Any:
    """Return the gradient of the values that a form of a reduction has added up.

    Parameters
    ----------
    declaration : ReductionDeclaration
        The reduction.
    form : str
        The form.
    gradient : jax.Array
        Gradient of its output.
    shape : tuple of int
        Of all inputs broadcast.
    options : mapping of str to object
        Keyword arguments of the call.
    indices : tuple of jax.Array
        The arrays of integers that the form takes beside the inputs.
    """
    is_mean = declaration.sums == MEANS
    # Sums of 16-bit floats are single-precision, as in kernels.
    narrow = gradient.dtype.itemsize < 4
    wide = gradient.astype(jnp.float32) if narrow else gradient
    if form == SCAN:
        (axis,) = normalize_axes(options.get("axis", -1), len(shape))
        ways = bool(options.get("exclusive")), bool(options.get("reverse"))
        found = _of_scan(wide, axis, *ways, is_mean)
    elif form == SEGMENTS:
        (bounds,) = indices
        found = _of_segments(wide, shape[0], bounds, is_mean)
    elif form == BY_KEY:
        (keys,) = indices
        found = _of_keys(wide, keys, is_mean)
    else:
        found = _of_windows(declaration.name, wide, shape, options, is_mean)
    return found.astype(gradient.dtype)


def _of_scan(gradient: Any, axis: int, exclusive: bool, reverse: bool, is_mean: bool) -> Any:
    """Return the gradient of the elements of a scan: a scan from the other end."""
    count = gradient.shape[axis]
    if is_mean:
        counts = jnp.arange(count) + (not exclusive)
        gradient = _divided(gradient, counts[::-1] if reverse else counts, axis)
    total = jax.lax.cumsum(gradient, axis, reverse=not reverse)
    if not exclusive:
        return total
    margin = [(0, 0)] * total.ndim
    margin[axis] = (1, 0) if reverse else (0, 1)
    moved = jnp.pad(total, margin)
    first = 0 if reverse else 1
    return jax.lax.slice_in_dim(moved, first, first + count, axis=axis)


def _of_segments(gradient: Any, count: int, bounds: Any, is_mean: bool) -> Any:
    """Return the gradient of each of so many elements: that of its segment, 0 without one."""
    if is_mean:
        gradient = _divided(gradient, jnp.diff(bounds), 0)
    # Before the first bound and behind the last one there are rows of zeros.
    rows = jnp.pad(gradient, [(1, 1)] + [(0, 0)] * (gradient.ndim - 1))
    return rows[jnp.searchsorted(bounds, jnp.arange(count), side="right")]


def _of_keys(gradient: Any, keys: Any, is_mean: bool) -> Any:
    """Return the gradient of each element: that of its key, 0 for keys that are out of range."""
    count = gradient.shape[0]
    places = keys.astype(jax.dtypes.canonicalize_dtype(np.int64))
    # Keys out of range get a row of zeros, behind all others.
    places = jnp.where((places >= 0) & (places < count), places, count)
    if is_mean:
        counts = jnp.zeros(count + 1, jnp.int32).at[places].add(1)
        gradient = _divided(gradient, counts[:count], 0)
    return jnp.pad(gradient, [(0, 1)] + [(0, 0)] * (gradient.ndim - 1))[places]


def _of_windows(
    kernel: str, gradient: Any, shape: Shape, options: Mapping[str, Any], is_mean: bool
) -> Any:
    """Return the gradient of the elements that windows slide over."""
    given = {"axis": -1, "boundary": VALID, "step": 1, **options}
    names = ("size", "axis", "boundary", "step")
    size, axis, boundary, step = (given[name] for name in names)
    sliding = bind_window(kernel, size, axis, boundary, step, len(shape))
    if is_mean:
        for one in sliding:
            outputs, count = gradient.shape[one.axis], shape[one.axis]
            first = np.arange(outputs) * one.step - one.before
            inside = np.minimum(first + one.size, count) - np.maximum(first, 0)
            counts = inside if boundary == SHRINK else np.full(outputs, one.size)
            gradient = _divided(gradient, counts, one.axis)
    if 0 in gradient.shape:
        return jnp.zeros(shape, gradient.dtype)
    # The sum of windows is linear, so that JAX transposes it.
    windows = functools.partial(_summed, gradient.shape, sliding, boundary)
    zeros = varying(jnp.zeros(shape, gradient.dtype), varying_axes([jax.typeof(gradient)]))
    _, transposed = jax.vjp(windows, zeros)
    (found,) = transposed(gradient)
    return found


def _summed(outputs: Shape, sliding: tuple[SlidingAxis, ...], boundary: str, x: Any) -> Any:
    """Return the sums of windows, so many along each axis."""
    sizes, steps = [1] * x.ndim, [1] * x.ndim
    for one in sliding:
        axis, count = one.axis, x.shape[one.axis]
        sizes[axis], steps[axis] = one.size, one.step
        if boundary != VALID:
            place = np.arange((outputs[axis] - 1) * one.step + one.size) - one.before
            reached = _reached(place, count, boundary)
            x = jnp.take(x, reached, axis, mode="fill", fill_value=0)
    nothing = np.zeros((), x.dtype)  # JAX sees a sum where this is known
    return jax.lax.reduce_window(x, nothing, jax.lax.add, sizes, steps, "VALID")


def _reached(place: Any, count: int, boundary: str) -> Any:
    """Return the element that lies at a place; number `count` is nothing."""
    if boundary == SHRINK:
        return np.where((place >= 0) & (place < count), place, count)
    return places_inside(place, count, boundary, np.where)


def _divided(gradient: Any, counts: Any, axis: int) -> Any:
    """Return gradients of means, divided by how many elements each mean along an axis has."""
    shape = [1] * gradient.ndim
    shape[axis] = -1
    # No element is in a mean of nothing, so that its gradient does not matter.
    real = jnp.real(gradient).dtype
    return gradient / jnp.maximum(counts, 1).astype(real).reshape(shape)
