"""Functions that look at the same elements in another order or shape."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from kspec.fusion import types
from kspec.fusion.functions.table import FUNCTIONS, array_of, define, fused_function
from kspec.fusion.graph import ArrayInput, Dim, Node, View
from kspec.fusion.refusals import refuse
from kspec.fusion.tracing.proxies import Proxy
from kspec.fusion.tracing.tracer import Tracer
from kspec.model import dtypes


@fused_function
def reshape(
    tracer: Tracer,
    a: Any,
    /,
    shape: Any = None,
    order: str = "C",
    *,
    newshape: Any = None,
    copy: bool | None = None,
) -> Proxy:
    """``np.reshape`` in C order."""
    if order not in ("C", "A"):
        refuse(f"reshape: order={order!r} is not fused")
    x = array_of(tracer, a, "reshape")
    wanted = _extents(x, newshape if shape is None else shape)
    is_view = is_view_with(x, wanted)
    if copy is False and not is_view:
        raise ValueError("Unable to avoid creating a copy while reshaping.")
    return _reshaped(x, wanted, bool(copy) or not is_view)


@fused_function
def ravel(tracer: Tracer, a: Any, order: str = "C") -> Proxy:
    """``np.ravel``."""
    if order not in ("C", "A"):
        refuse(f"ravel: order={order!r} is not fused")
    x = array_of(tracer, a, "ravel")
    seen = layout(x)
    return _reshaped(x, _extents(x, -1), seen is not None and not seen.flags.c_contiguous)


def _extents(x: Proxy, shape: Any) -> tuple[int, ...]:
    """Return the extents of a new shape, one of which may be left to its size."""
    given = tuple(shape) if isinstance(shape, tuple | list) else (shape,)
    # What is one axis stays so, however long it is; other extents may be given for these alone.
    x.tracer.graph.shaped |= not (given == (-1,) and x.ndim == 1)
    if min(given, default=0) < -1:  # which NumPy takes for -1
        raise ValueError(f"cannot reshape array of size {x.size} into shape {given}")
    shaped: tuple[int, ...] = np.empty(x.value.sizes, _NO_BYTES).reshape(given).shape
    return shaped


_NO_BYTES = np.dtype([])


def _reshaped(x: Proxy, wanted: tuple[int, ...], copy: bool) -> Proxy:
    sizes = x.value.sizes

    def shaped(value: Node, extents: tuple[int, ...]) -> Node:
        one_axis = len(value.shape) == len(extents) == 1  # which has as many elements as before
        return value if one_axis else x.tracer.graph.reshape(value, extents)

    if copy:
        return x.tracer.wrap(shaped(x.value, wanted))
    return x.make_view(lambda value: shaped(value, wanted), lambda value: shaped(value, sizes))


# View operations of NumPy arrays.
_VIEW_OPS: dict[str, Callable[[Any, Any], Any]] = {
    "index": lambda array, index: array[(*index, ...)],
    "permute": np.transpose,
    "reshape": np.reshape,
    "broadcast": np.broadcast_to,
}


def layout(x: Proxy) -> np.ndarray[Any, Any] | None:
    """Return an array that lies in memory as a view does, to be looked at, not read.

    What it is a view of is taken to be in C order. None for parts of complex numbers.
    """
    root = x.root.value
    found = x.view_of(ArrayInput(root.dtype, root.shape, -1))
    if not isinstance(found, ArrayInput | View):
        return None
    lengths = np.cumprod([1, *reversed(root.sizes)])[:-1]
    array = as_strided(np.empty(1, "i1"), root.sizes, tuple(map(int, reversed(lengths))))
    for op in found.ops if isinstance(found, View) else ():
        array = _VIEW_OPS[op.kind](array, op.detail)
    return array


def is_view_with(x: Proxy, wanted: tuple[int, ...]) -> bool:
    """Return whether NumPy gives a view, not a copy, with other extents."""
    seen = layout(x)
    if seen is None or seen.size == 0:
        return True
    # How many elements there are to the right of each place where they do not lie on evenly ...
    breaks: set[int] = set()
    count, following = 1, None
    for size, stride in zip(reversed(seen.shape), reversed(seen.strides), strict=True):
        if size == 1:
            continue
        if following is not None and stride != following:
            breaks.add(count)
        count *= size
        following = stride * size
    # ... must be where axes of the new shape end.
    return breaks <= {int(one) for one in np.cumprod(wanted[::-1])}


def _rearranged(tracer: Tracer, given: dict[str, Any], name: str) -> Proxy:
    """Return a view whose axes are moved, reversed or dropped, as NumPy's function does it.

    NumPy is asked with an array that has another stride for each axis, which finds them again; its
    elements are never read.
    """
    (first, array), *rest = given.items()
    x = array_of(tracer, array, name)
    sizes = x.value.sizes
    marked = as_strided(np.empty(1, "i1"), sizes, tuple(range(1, len(sizes) + 1)))
    strides = getattr(np, name)(**{first: marked, **dict(rest)}).strides
    kept = [abs(stride) - 1 for stride in strides]
    dropped = [axis for axis in range(len(sizes)) if axis not in kept]
    moved = _permuted(x, (*kept, *dropped))
    if not dropped and min(strides, default=0) >= 0:
        return moved
    # The ellipsis makes it a view, not an element, even if no axis is left.
    return moved[
        (*(slice(None, None, -1 if one < 0 else 1) for one in strides), *[0] * len(dropped), ...)
    ]


def _permuted(x: Proxy, order: tuple[int, ...]) -> Proxy:
    graph = x.tracer.graph
    inverse = tuple(int(one) for one in np.argsort(order))
    return x.make_view(
        lambda value: graph.permute(value, order), lambda value: graph.permute(value, inverse)
    )


for _name in ("transpose", "swapaxes", "moveaxis", "squeeze", "flip"):
    define(_name, functools.partial(_rearranged, name=_name))


@fused_function
def expand_dims(tracer: Tracer, a: Any, axis: Any) -> Proxy:
    """``np.expand_dims``."""
    x = array_of(tracer, a, "expand_dims")
    # NumPy says where the axes are: those of one element.
    shape = np.expand_dims(np.broadcast_to(0, (2,) * x.ndim), axis).shape
    return x[tuple(None if extent == 1 else slice(None) for extent in shape)]


@fused_function
def broadcast_to(tracer: Tracer, array: Any, shape: Any, subok: bool = False) -> Proxy:
    """``np.broadcast_to``."""
    x = array_of(tracer, array, "broadcast_to")
    sizes = tuple(shape) if isinstance(shape, tuple | list) else (shape,)
    dims = x.value.shape
    wanted = tuple(
        dims[k - len(sizes)] if len(sizes) - k <= len(dims) and dims[k - len(sizes)].size == size
        else Dim(int(size))
        for k, size in enumerate(sizes)
    )  # fmt: skip
    tracer.graph.shaped = True
    return x.make_view(lambda value: tracer.graph.broadcast(value, wanted), None)


@fused_function
def result_type(tracer: Tracer, *arrays_and_dtypes: Any) -> np.dtype[Any]:
    """``np.result_type``."""
    return np.dtype(types.common_dtype(tuple(map(_type_of, arrays_and_dtypes))))


def _type_of(one: Any) -> str:
    if isinstance(one, Proxy):
        return one.weak or one.value.dtype
    return types.type_of_number(one) or types.dtype_name(getattr(one, "dtype", one))


FUNCTIONS["iscomplexobj"] = lambda tracer, x: dtypes.lookup(x.value.dtype).kind == "c"
FUNCTIONS["shape"] = lambda tracer, x: x.shape
FUNCTIONS["ndim"] = lambda tracer, x: x.ndim


@fused_function
def size(tracer: Tracer, a: Any, axis: Any = None) -> int:
    """``np.size``."""
    x = array_of(tracer, a, "size")
    return x.size if axis is None else int(np.prod([x.shape[k] for k in np.atleast_1d(axis)]))
