"""Kernels over arrays that are divided among several devices.

An array is a list of shards: arrays of any library, each on its own device, that would give the
whole if they were put one behind the other along an axis.

>>> import numpy as np, kspec
>>> from kspec import sharded
>>> l2norm = kspec.ReductionKernel("T x", "T y", "x * x", "a + b", "y = sqrt(a)", "0", "l2norm")
>>> x = sharded.scatter(np.arange(12.0).reshape(6, 2), ["host", "host"])
>>> sharded.apply(l2norm, x, axis=0)                    # across the shards: one array
DeviceArray([14.83239697, 16.91153453], dtype=float64, device=host)
>>> [one.shape for one in sharded.apply(l2norm, x, axis=1)]          # within each
[(3,), (3,)]

Kernels are queued on all devices before anybody waits.  A reduction across shards leaves
accumulators on each device; they are copied to the first one and reduced there by the kernel's own
expression (`kspec.runtime.kernels.partial_reduction`).  Shards of windowed inputs get elements of
those beside them (`kspec.runtime.kernels.halos`).  `kspec.sharded.forms` has scans, segments and
windows of reductions.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from kspec.errors import ArgumentTypeError
from kspec.model.forms.kinds import REDUCE
from kspec.model.neighbours.binding import bind_neighbours
from kspec.model.shapes import normalize_axes
from kspec.runtime.driver.device import Device, devices
from kspec.runtime.kernels.elementwise import ElementwiseCallable
from kspec.runtime.kernels.forms.options import given_options
from kspec.runtime.kernels.halos import ShardCall, extend_shards
from kspec.runtime.kernels.identity import form_called
from kspec.runtime.kernels.partial_plan import Repeated
from kspec.runtime.kernels.partial_reduction import SplitReduction, split_of
from kspec.runtime.kernels.partials import Partial
from kspec.runtime.kernels.reduction import ReductionCallable
from kspec.runtime.libraries.lookup import asarray, asnumpy
from kspec.runtime.libraries.untraced import untraced
from kspec.runtime.memory.device_array import DeviceArray
from kspec.sharded.calls import (
    calls_of,
    check_cores,
    library_of_call,
    loop_ndim,
    on_each,
    transposed,
)
from kspec.sharded.forms import apply_form

__all__ = ["apply", "scatter"]


@untraced
def apply(
    kernel: Any,
    *args: Any,
    along: int = 0,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    boundary: str | None = None,
    **options: Any,
) -> Any:
    """Call a kernel on every shard.

    Parameters
    ----------
    kernel : kernel, generated function, or method of one
        Elementwise or reduction; ``f.scan``, ``f.segments``, ``f.by_key`` or ``f.window`` of a
        reduction.
    *args : lists of arrays, and scalars
        The inputs. Lists are as long as each other, and shards of the same number live on the same
        device. An array that all shards are combined with is a list of its copies.
    along : int, default 0
        For reductions, windows and core dimensions: the axis that the arrays are divided along, of
        their broadcast shape without core dimensions.
    axis, keepdims
        Of a reduction, as in a call.
    boundary, **options
        Sizes of an elementwise kernel, keywords of a form, as in a call. Shards of inputs with
        windows get the elements that they read of the next ones; only the ends of the whole array
        see the boundary. The ``indptr`` of segments is one array, which is read on the host; the
        ``keys`` of a reduction by key are that, too, or a list of their shards.

    Returns
    -------
    list of arrays, or array
        Shards of the result, on the devices of the inputs'. A reduction along the divided axis, by
        key too, gives one array, on the device of the first shard. A segment or a window is of the
        shard in which it begins, a window with a boundary of the shard that has its own element.
        Kernels with several outputs give a tuple of these.

    Raises
    ------
    NotSupportedError
        The kernel looks at indices, so shards cannot be computed by themselves.
    ArgumentTypeError, ShapeError
        Lists of different lengths, no list, shards thinner than the reach of a window, or what a
        call raises, with a note which shard it was.
    """
    called, form = form_called(kernel)
    name = called.__name__
    if isinstance(called, ReductionCallable) and form != REDUCE:
        given = given_options(axis=axis, keepdims=keepdims, boundary=boundary, **options)
        return apply_form(called, form, args, along, given)
    calls = calls_of(called, args)
    check_cores(called.declaration, calls, along)
    if isinstance(called, ReductionCallable):
        bind_neighbours(called.declaration, boundary, options)  # refuses them
        return _reduce(called, calls, along, axis, keepdims)
    if axis is not None or keepdims:
        raise ArgumentTypeError(f"{name} is elementwise: axis and keepdims are for reductions")
    if called.declaration.windows:
        return transposed(_on_windows(called, calls, along, boundary, options))
    call = functools.partial(called, boundary=boundary, **options)
    return transposed(on_each(call, calls))


@untraced
def scatter(
    values: Any,
    places: Sequence[Device | str] | None = None,
    along: int = 0,
) -> list[DeviceArray]:
    """Return the shards of an array, as even as possible, as arrays of kspec's own.

    Parameters
    ----------
    values : array_like
        The array, of any library; it is copied by way of the host.
    places : sequence of devices, optional
        Where; default: every CUDA device, or the host if there is none.
    along : int, default 0
        Axis to divide.

    Raises
    ------
    ArgumentTypeError, numpy.exceptions.AxisError
        No array, no device, or no such axis.
    """
    listed = devices()
    if isinstance(places, str):
        raise ArgumentTypeError(f"places is a list of devices: pass [{places!r}]")
    where = list(listed[1:] or listed) if places is None else list(places)
    if not where:
        raise ArgumentTypeError("places is empty; leave it out to use every device")
    array = asnumpy(values)
    (axis,) = normalize_axes(along, array.ndim, "shard")
    pieces = np.array_split(array, len(where), axis=axis)
    return [asarray(piece, device=place) for piece, place in zip(pieces, where, strict=True)]


def _on_windows(
    kernel: ElementwiseCallable,
    calls: Sequence[tuple[Any, ...]],
    along: int,
    boundary: str | None,
    sizes: Mapping[str, Any],
) -> list[Any]:
    """Return the result of each shard, whose windows reach into the shards beside it."""
    neighbours = bind_neighbours(kernel.declaration, boundary, sizes)
    ndim = loop_ndim(kernel.declaration, calls[0])
    (divided,) = normalize_axes(along, ndim, kernel.__name__)
    extended = extend_shards(kernel, neighbours.windows, calls, divided - ndim)

    def call(one: ShardCall) -> Any:
        return kernel.prepare_in(replace(neighbours, windows=one.windows), one.args).run()

    return on_each(call, [(one,) for one in extended])


def _reduce(
    kernel: ReductionCallable,
    calls: Sequence[tuple[Any, ...]],
    along: int,
    axis: int | Sequence[int] | None,
    keepdims: bool,
) -> Any:
    ndim = loop_ndim(kernel.declaration, calls[0])
    reduced = normalize_axes(axis, ndim, kernel.__name__)
    (divided,) = normalize_axes(along, ndim, kernel.__name__)
    kept = reduced if keepdims else ()
    if divided not in reduced:
        if kernel.declaration.counts:
            return transposed(_reduce_each(split_of(kernel), calls, reduced, kept))
        within = functools.partial(kernel, axis=reduced, keepdims=keepdims)
        return transposed(on_each(within, calls))
    split = split_of(kernel)

    def in_full() -> Any:
        partials = on_each(lambda *args: split.partial(args, reduced), calls)
        return split.finish(partials, calls[0], kept, library=library_of_call(calls[0]))

    return _repeated(kernel)(calls, reduced, kept, in_full)


def _reduce_each(
    split: SplitReduction,
    calls: Sequence[tuple[Any, ...]],
    reduced: tuple[int, ...],
    kept: tuple[int, ...],
) -> list[Any]:
    """Return the result of each shard for a post-map that reads the number of all outputs."""
    partials = on_each(lambda *args: split.partial(args, reduced), calls)
    outputs = sum(math.prod(partial.outputs) for partial in partials)

    def finish(partial: Partial, *args: Any) -> Any:
        return split.finish([partial], args, kept, library=library_of_call(args), outputs=outputs)

    return on_each(
        finish, [(partial, *args) for partial, args in zip(partials, calls, strict=True)]
    )


@functools.lru_cache(maxsize=1024)
def _repeated(kernel: ReductionCallable) -> Repeated:
    return Repeated(split_of(kernel))
