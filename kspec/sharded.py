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
those beside them (`kspec.runtime.kernels.halos`).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from kspec.diagnostics import counted
from kspec.errors import ArgumentTypeError, NotSupportedError, ShapeError
from kspec.model.neighbours.binding import bind_neighbours
from kspec.model.shapes import normalize_axes
from kspec.runtime.driver.device import Device, devices
from kspec.runtime.kernels.elementwise import ElementwiseCallable
from kspec.runtime.kernels.halos import ShardCall, extend_shards
from kspec.runtime.kernels.identity import Kernel, kernel_of
from kspec.runtime.kernels.partial_plan import Repeated
from kspec.runtime.kernels.partial_reduction import SplitReduction, split_of
from kspec.runtime.kernels.partials import Partial
from kspec.runtime.kernels.reduction import ReductionCallable
from kspec.runtime.libraries.conversions import asarray, asnumpy
from kspec.runtime.libraries.lookup import Library, library_of
from kspec.runtime.memory.device_array import DeviceArray

__all__ = ["apply", "scatter"]


def apply(
    kernel: Any,
    *args: Any,
    along: int = 0,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    boundary: str | None = None,
    **sizes: Any,
) -> Any:
    """Call a kernel on every shard.

    Parameters
    ----------
    kernel : kernel or generated function
        Elementwise or reduction.
    *args : lists of arrays, and scalars
        The inputs. Lists are as long as each other, and shards of the same number live on the same
        device. An array that all shards are combined with is a list of its copies.
    along : int, default 0
        For reductions and windows: the axis that the arrays are divided along, of their broadcast
        shape.
    axis, keepdims
        Of a reduction, as in a call.
    boundary, **sizes
        Of an elementwise kernel, as in a call. Shards of inputs with windows get the elements that
        they read of the next ones; only the ends of the whole array see the boundary.

    Returns
    -------
    list of arrays, or array
        Shards of the result, on the devices of the inputs'. A reduction along the divided axis
        gives one array, on the device of the first shard. Kernels with several outputs give a tuple
        of these.

    Raises
    ------
    NotSupportedError
        The kernel looks at indices, so shards cannot be computed by themselves.
    ArgumentTypeError, ShapeError
        Lists of different lengths, no list, shards thinner than the reach of a window, or what a
        call raises, with a note which shard it was.
    """
    called = kernel_of(kernel)
    name = called.__name__
    calls = _calls(called, args)
    if isinstance(called, ReductionCallable):
        bind_neighbours(called.declaration, boundary, sizes)  # refuses them
        return _reduce(called, calls, along, axis, keepdims)
    if axis is not None or keepdims:
        raise ArgumentTypeError(f"{name} is elementwise: axis and keepdims are for reductions")
    if called.declaration.windows:
        return _transposed(_on_windows(called, calls, along, boundary, sizes))
    call = functools.partial(called, boundary=boundary, **sizes)
    return _transposed(_on_each(call, calls))


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
    (axis,) = normalize_axes(along, array.ndim)
    pieces = np.array_split(array, len(where), axis=axis)
    return [asarray(piece, device=place) for piece, place in zip(pieces, where, strict=True)]


def _calls(kernel: Kernel, args: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Return the arguments of each shard."""
    name, inputs = kernel.__name__, kernel.declaration.inputs.params
    reason = kernel.declaration.whole
    if reason:
        raise NotSupportedError(
            f"{name} cannot be applied shard by shard: {reason}. Call it with whole arrays, or "
            "let it take indices from an array: 'T x, int64 index'"
        )
    if len(args) != len(inputs):
        raise ArgumentTypeError(
            f"{name} takes {counted(len(inputs), 'input')} ({kernel.declaration.inputs}), "
            f"not {len(args)}; outputs are made"
        )
    lists: dict[str, int] = {}
    for param, value in zip(inputs, args, strict=True):
        if isinstance(value, list | tuple):
            lists[param.name] = len(value)
            other = next((one for one in value if library_of(one) is None), None)
            if other is not None:
                raise ArgumentTypeError(
                    f"{name}: {param.name} is a list with a {type(other).__name__}; lists have "
                    "shards, which are arrays, and a number is given as it is"
                )
        elif library_of(value) is not None:
            raise ArgumentTypeError(
                f"{name}: {param.name} is one array, which lives on one device; pass a list: its "
                "shards, or a copy for each device"
            )
    if not lists:
        raise ArgumentTypeError(f"{name}: no argument is a list of shards; call the kernel itself")
    if len(set(lists.values())) > 1 or 0 in lists.values():
        listed = ", ".join(f"{one} has {count}" for one, count in lists.items())
        raise ShapeError(f"{name}: lists must have the same number of shards: {listed}")
    count = next(iter(lists.values()))
    return [
        tuple(one[number] if isinstance(one, list | tuple) else one for one in args)
        for number in range(count)
    ]


def _on_each(call: Callable[..., Any], calls: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Return the result of each shard; errors name the shard."""
    results = []
    for number, args in enumerate(calls):
        try:
            results.append(call(*args))
        except Exception as error:
            error.add_note(f"in shard {number}")
            raise
    return results


def _on_windows(
    kernel: ElementwiseCallable,
    calls: Sequence[tuple[Any, ...]],
    along: int,
    boundary: str | None,
    sizes: Mapping[str, Any],
) -> list[Any]:
    """Return the result of each shard, whose windows reach into the shards beside it."""
    neighbours = bind_neighbours(kernel.declaration, boundary, sizes)
    ndim = max(_ndim(one) for one in calls[0])
    (divided,) = normalize_axes(along, ndim)
    extended = extend_shards(kernel, neighbours.windows, calls, divided - ndim)

    def call(one: ShardCall) -> Any:
        return kernel.prepare_in(replace(neighbours, windows=one.windows), one.args).run()

    return _on_each(call, [(one,) for one in extended])


def _reduce(
    kernel: ReductionCallable,
    calls: Sequence[tuple[Any, ...]],
    along: int,
    axis: int | Sequence[int] | None,
    keepdims: bool,
) -> Any:
    ndim = max(_ndim(one) for one in calls[0])
    reduced = normalize_axes(axis, ndim)
    (divided,) = normalize_axes(along, ndim)
    kept = reduced if keepdims else ()
    if divided not in reduced:
        if kernel.declaration.counts:
            return _transposed(_reduce_each(split_of(kernel), calls, reduced, kept))
        within = functools.partial(kernel, axis=reduced, keepdims=keepdims)
        return _transposed(_on_each(within, calls))
    split = split_of(kernel)

    def in_full() -> Any:
        partials = _on_each(lambda *args: split.partial(args, reduced), calls)
        return split.finish(partials, calls[0], kept, library=_library(calls[0]))

    return _repeated(kernel)(calls, reduced, kept, in_full)


def _reduce_each(
    split: SplitReduction,
    calls: Sequence[tuple[Any, ...]],
    reduced: tuple[int, ...],
    kept: tuple[int, ...],
) -> list[Any]:
    """Return the result of each shard for a post-map that reads the number of all outputs."""
    partials = _on_each(lambda *args: split.partial(args, reduced), calls)
    outputs = sum(math.prod(partial.outputs) for partial in partials)

    def finish(partial: Partial, *args: Any) -> Any:
        return split.finish([partial], args, kept, library=_library(args), outputs=outputs)

    return _on_each(
        finish, [(partial, *args) for partial, args in zip(partials, calls, strict=True)]
    )


def _library(args: Sequence[Any]) -> Library | None:
    """Return whose arrays results are: those of the first argument that is an array."""
    return next(filter(None, map(library_of, args)), None)


def _ndim(value: Any) -> int:
    """Return the number of axes of an argument; arrays known only by a protocol have no `ndim`."""
    library = library_of(value)
    if library is None:
        return 0
    shape = getattr(value, "shape", None)
    return len(library.view(value).shape if shape is None else shape)


@functools.lru_cache(maxsize=1024)
def _repeated(kernel: ReductionCallable) -> Repeated:
    return Repeated(split_of(kernel))


def _transposed(results: list[Any]) -> Any:
    """Return a tuple of lists instead of a list of tuples."""
    if isinstance(results[0], tuple):
        return tuple(map(list, zip(*results, strict=True)))
    return results
