"""Functions that look at the same elements in another order or shape."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from kspec import dtypes
from kspec.fusion.functions.table import FUNCTIONS, array_of, fused_function
from kspec.fusion.graph import Value
from kspec.fusion.tracer import Traced, Tracer, refuse


@fused_function
def reshape(tracer: Tracer, a: Any, /, shape: Any = None, order: str = "C", **_: Any) -> Traced:
    """``np.reshape`` in C order."""
    if order not in ("C", "A"):
        refuse(f"reshape: order={order!r} is not fused")
    x = array_of(tracer, a, "reshape")
    sizes = [int(one) for one in (shape if isinstance(shape, tuple | list) else (shape,))]
    if x.ndim == 1 and sizes == [-1]:  # stays as it is, whatever its extent
        return x[...]
    known = int(np.prod([one for one in sizes if one != -1], dtype=np.int64))
    have = int(np.prod(x.value.sizes, dtype=np.int64))
    if sizes.count(-1) == 1 and known and have % known == 0:
        sizes[sizes.index(-1)] = have // known
    if -1 in sizes or int(np.prod(sizes, dtype=np.int64)) != have:
        raise ValueError(f"cannot reshape array of size {have} into shape {tuple(sizes)}")
    graph, wanted = tracer.graph, tuple(sizes)

    def back(value: Value) -> Value:
        return graph.reshape(value, x.value.sizes)

    return x.seen(lambda value: graph.reshape(value, wanted), back)


@fused_function
def ravel(tracer: Tracer, a: Any, order: str = "C") -> Traced:
    """``np.ravel``."""
    return reshape(tracer, a, -1, order=order)


@fused_function
def transpose(tracer: Tracer, a: Any, axes: Any = None) -> Traced:
    """``np.transpose``."""
    x = array_of(tracer, a, "transpose")
    ndim = len(x.value.shape)
    order = tuple(reversed(range(ndim))) if axes is None else normalize_axis_tuple(axes, ndim)
    if len(order) != ndim:
        raise ValueError("axes don't match array")
    graph = tracer.graph
    inverse = tuple(int(one) for one in np.argsort(order))
    return x.seen(
        lambda value: graph.permute(value, order), lambda value: graph.permute(value, inverse)
    )


@fused_function
def swapaxes(tracer: Tracer, a: Any, axis1: int, axis2: int) -> Traced:
    """``np.swapaxes``."""
    x = array_of(tracer, a, "swapaxes")
    order = list(range(x.ndim))
    first, second = (normalize_axis_index(one, x.ndim) for one in (axis1, axis2))
    order[first], order[second] = order[second], order[first]
    return transpose(tracer, x, order)


@fused_function
def moveaxis(tracer: Tracer, a: Any, source: Any, destination: Any) -> Traced:
    """``np.moveaxis``."""
    x = array_of(tracer, a, "moveaxis")
    places = np.moveaxis(np.empty((1,) * x.ndim), source, destination)
    del places  # raises what NumPy raises
    sources = normalize_axis_tuple(source, x.ndim)
    targets = normalize_axis_tuple(destination, x.ndim)
    order = [axis for axis in range(x.ndim) if axis not in sources]
    for target, axis in sorted(zip(targets, sources, strict=True)):
        order.insert(target, axis)
    return transpose(tracer, x, order)


@fused_function
def expand_dims(tracer: Tracer, a: Any, axis: Any) -> Traced:
    """``np.expand_dims``."""
    x = array_of(tracer, a, "expand_dims")
    axes = axis if isinstance(axis, tuple | list) else (axis,)
    places = normalize_axis_tuple(axes, x.ndim + len(axes))
    return x[tuple(None if k in places else slice(None) for k in range(x.ndim + len(axes)))]


@fused_function
def squeeze(tracer: Tracer, a: Any, axis: Any = None) -> Traced:
    """``np.squeeze``."""
    x = array_of(tracer, a, "squeeze")
    sizes = x.value.sizes
    if axis is None:
        axes = tuple(k for k, size in enumerate(sizes) if size == 1)
    else:
        axes = normalize_axis_tuple(axis, x.ndim)
        if any(sizes[k] != 1 for k in axes):
            raise ValueError("cannot select an axis to squeeze out which has size not equal to one")
    return x[tuple(0 if k in axes else slice(None) for k in range(x.ndim))]


@fused_function
def flip(tracer: Tracer, m: Any, axis: Any = None) -> Traced:
    """``np.flip``."""
    x = array_of(tracer, m, "flip")
    axes = tuple(range(x.ndim)) if axis is None else normalize_axis_tuple(axis, x.ndim)
    return x[tuple(slice(None, None, -1) if k in axes else slice(None) for k in range(x.ndim))]


@fused_function
def broadcast_to(tracer: Tracer, array: Any, shape: Any, subok: bool = False) -> Traced:
    """``np.broadcast_to``."""
    from kspec.fusion.graph import Dim

    x = array_of(tracer, array, "broadcast_to")
    sizes = tuple(shape) if isinstance(shape, tuple | list) else (shape,)
    dims = x.value.shape
    wanted = tuple(
        dims[k - len(sizes)] if len(sizes) - k <= len(dims) and dims[k - len(sizes)].size == size
        else Dim(int(size))
        for k, size in enumerate(sizes)
    )  # fmt: skip
    tracer.graph.shaped = True
    return tracer.wrap(tracer.graph.broadcast(x.value, wanted))


FUNCTIONS["iscomplexobj"] = lambda tracer, x: dtypes.lookup(x.value.dtype).kind == "c"
FUNCTIONS["shape"] = lambda tracer, x: x.shape
FUNCTIONS["ndim"] = lambda tracer, x: x.ndim
FUNCTIONS["size"] = lambda tracer, x: x.size
