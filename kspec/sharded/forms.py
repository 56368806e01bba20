"""Other forms of reductions over arrays that are divided among several devices.

::

    sharded.apply(total.scan, [x0, x1], axis=0)
    sharded.apply(total.segments, [x0, x1], indptr)
    sharded.apply(total.by_key, [x0, x1], [keys0, keys1], n=100)
    sharded.apply(total.window, [x0, x1], size=5, axis=0)

Results have the elements of one call, as shards.  Along other axes than the divided one, each shard
is a call.  Along it, accumulators of the shards before one are joined in order and put in front of
its scan (`kspec.runtime.kernels.forms.stages`), pieces of segments are joined likewise, and
windows get elements of the shards beside theirs (`kspec.runtime.kernels.halos`).  The accumulators
of keys are joined to one array.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from kspec.dataclass import dataclass
from kspec.errors import ArgumentTypeError, ShapeError
from kspec.model.forms.kinds import BY_KEY, SCAN, SEGMENTS, WINDOW
from kspec.model.forms.outputs import infer_by_key, infer_scan, infer_segments, infer_window
from kspec.model.forms.sliding import WindowPiece
from kspec.model.infer import Abstract, reduction_loop
from kspec.model.neighbours.windows import BoundWindow
from kspec.model.shapes import normalize_axes
from kspec.runtime.arguments.binding import classify
from kspec.runtime.driver.device import Device
from kspec.runtime.kernels.forms.cuts import cut_segments, host_bounds
from kspec.runtime.kernels.forms.options import form_arguments
from kspec.runtime.kernels.forms.pieces import divide_windows, reach_of
from kspec.runtime.kernels.forms.stages import stages_of
from kspec.runtime.kernels.halos import check_alike, extend_shards, with_extent
from kspec.runtime.kernels.partials import Partial
from kspec.runtime.kernels.reduction import ReductionCallable
from kspec.runtime.libraries.lookup import asarray, asnumpy
from kspec.sharded.calls import calls_of, library_of_call, on_each, transposed


@dataclass(frozen=True)
class _Divided:
    """A call on shards.

    Attributes
    ----------
    kernel : ReductionCallable
        The kernel.
    calls : list of tuple
        The inputs of each shard.
    axis : int
        The axis that is divided.
    extents : tuple of int
        Of the shards along it.
    whole : list of Abstract
        The inputs of the undivided call.
    divided : tuple of str
        The inputs that are divided; others are copies.
    devices : tuple of Device
        Where the shards are.
    """

    kernel: ReductionCallable
    calls: list[tuple[Any, ...]]
    axis: int
    extents: tuple[int, ...]
    whole: list[Abstract]
    divided: tuple[str, ...]
    devices: tuple[Device, ...]


def apply_form(
    kernel: ReductionCallable,
    form: str,
    args: Sequence[Any],
    along: int,
    given: Mapping[str, Any],
) -> Any:
    """Return the result of each shard, or the one of keys along the divided axis.

    Parameters
    ----------
    kernel, form
        The reduction, and which of its forms.
    args : sequence
        Lists of arrays, and scalars.
    along : int
        The axis that the arrays are divided along.
    given : mapping of str to object
        Keywords of the form.
    """
    inputs, options = form_arguments(kernel, form, args, given)
    call = _divided(kernel, calls_of(kernel, inputs), along)
    found = _FORMS[form](call, options)
    return transposed(found) if isinstance(found, list) else found


def _scan(call: _Divided, options: Mapping[str, Any]) -> list[Any]:
    kernel, calls = call.kernel, call.calls
    axis, exclusive, reverse = (options[name] for name in ("axis", "exclusive", "reverse"))
    inferred = infer_scan(kernel.declaration, call.whole, axis=axis, exclusive=exclusive)
    if inferred.reduced != (call.axis,):
        return on_each(functools.partial(kernel.scan, **options), calls)
    stages = stages_of(kernel)
    order = list(range(len(calls)))[:: -1 if reverse else 1]

    def aggregate(*args: Any) -> Partial:
        return stages.aggregate(args, call.axis, reverse=reverse)

    # All aggregates first: no device waits for the scan of another one.
    parts = on_each(aggregate, [calls[number] for number in order[:-1]], order[:-1])
    carries: dict[int, Partial | None] = {order[0]: None}
    for number, following, part in zip(order, order[1:], parts, strict=False):
        before = carries[number]
        some = [part] if before is None else [before, part]
        carries[following] = stages.join(some, calls[number], call.devices[following])

    def scan(carry: Partial | None, *args: Any) -> Any:
        return stages.scan(args, call.axis, exclusive, reverse, carry)

    return on_each(scan, [(carries[number], *args) for number, args in enumerate(calls)])


def _segments(call: _Divided, options: Mapping[str, Any]) -> list[Any]:
    kernel, calls = call.kernel, call.calls
    name = kernel.__name__
    indptr = host_bounds(name, options["indptr"])
    bounds = Abstract(indptr.shape, indptr.dtype.name)
    inferred = infer_segments(kernel.declaration, call.whole, bounds)
    stages = stages_of(kernel)
    if call.axis != 0:
        cut_segments(name, indptr, inferred.loop[:1])  # refuses bounds that are not sorted
        return on_each(lambda *args: stages.segments(args, indptr), calls)
    cuts = cut_segments(name, indptr, call.extents)
    wanted = [
        (owner, number, taken)
        for owner, cut in enumerate(cuts)
        if cut.tail is not None
        for number, taken in ((owner, cut.tail), *((k, (0, n)) for k, n in cut.followed_by))
    ]
    found = on_each(
        lambda taken, *args: stages.aggregate(args, 0, taken),
        [(taken, *calls[number]) for _, number, taken in wanted],
        [number for _, number, _ in wanted],
    )
    pieces: list[list[Partial]] = [[] for _ in calls]
    for (owner, _, _), piece in zip(wanted, found, strict=True):
        pieces[owner].append(piece)
    return on_each(
        lambda cut, own, *args: stages.segments(args, cut.bounds, own),
        [(cut, own, *args) for cut, own, args in zip(cuts, pieces, calls, strict=True)],
    )


def _window(call: _Divided, options: Mapping[str, Any]) -> list[Any]:
    kernel, calls = call.kernel, call.calls
    inferred, sliding = infer_window(kernel.declaration, call.whole, **options)
    one = next((one for one in sliding if one.axis == call.axis), None)
    if one is None:
        return on_each(functools.partial(kernel.window, **options), calls)
    boundary, from_end = options["boundary"], call.axis - len(inferred.loop)
    reach = (reach_of(one), *[(0, 0)] * (-from_end - 1))
    windows = [BoundWindow(name, reach, boundary) for name in call.divided]
    extended = extend_shards(kernel, windows, calls, from_end)
    pieces = divide_windows(call.extents, one, boundary)

    def reduce(piece: WindowPiece, *args: Any) -> Any:
        return kernel.prepare_window(args, **options, pieces=[piece]).run()

    rows = zip(extended, pieces, strict=True)
    return on_each(reduce, [(windows, *shard.args) for shard, (_, windows) in rows])


def _by_key(call: _Divided, options: Mapping[str, Any]) -> Any:
    kernel, calls = call.kernel, call.calls
    n, deterministic = options["n"], options["deterministic"]
    keys = _keys_of(call, options["keys"], n)
    rows = [(key, *args) for key, args in zip(keys, calls, strict=True)]
    if call.axis != 0:
        return on_each(
            lambda key, *args: kernel.by_key(*args, key, n=n, deterministic=deterministic), rows
        )
    stages = stages_of(kernel)
    partials = on_each(lambda key, *args: stages.aggregate_keys(args, key, n, deterministic), rows)
    return stages.finish_keys(partials, calls[0], library=library_of_call(calls[0]))


def _keys_of(call: _Divided, keys: Any, n: Any) -> list[Any]:
    """Return the keys of each shard, given a list, or one array that is read on the host."""
    name, count = call.kernel.__name__, len(call.calls)
    if isinstance(keys, list | tuple):
        if len(keys) != count:
            raise ShapeError(
                f"{name}: lists must have the same number of shards: keys has {len(keys)}, and the "
                f"inputs have {count}"
            )
        return list(keys)
    whole = asnumpy(keys)
    # As of the undivided call, so that they can be cut.
    abstract = Abstract(whole.shape, whole.dtype.name)
    infer_by_key(call.kernel.declaration, call.whole, abstract, n=n)
    if call.axis != 0:
        return [asarray(whole, device=device) for device in call.devices]
    parts = np.split(whole, np.cumsum(call.extents)[:-1])
    return [asarray(one, device=device) for one, device in zip(parts, call.devices, strict=True)]


_FORMS: dict[str, Callable[[_Divided, Mapping[str, Any]], Any]] = {
    SCAN: _scan,
    SEGMENTS: _segments,
    BY_KEY: _by_key,
    WINDOW: _window,
}


def _divided(kernel: ReductionCallable, calls: list[tuple[Any, ...]], along: int) -> _Divided:
    """Return a call on shards, whose arguments are checked as those of the undivided one.

    Raises
    ------
    ArgumentTypeError, ShapeError
        If shards differ in more than their extents along the divided axis.
    """
    declaration = kernel.declaration
    checked = on_each(lambda *args: classify(declaration, args), calls)
    rows = [call.types()[0] for call in checked]
    loops = on_each(lambda *row: reduction_loop(declaration, row), [tuple(row) for row in rows])
    ndim = len(loops[0])
    (axis,) = normalize_axes(along, ndim, kernel.__name__)
    from_end = axis - ndim
    check_alike(kernel.__name__, loops, from_end)
    extents = tuple(loop[axis] for loop in loops)
    whole, divided = [], []
    for param, *shards in zip(declaration.inputs, *rows, strict=True):
        first = shards[0]
        other = next((k for k, one in enumerate(shards) if one.dtype != first.dtype), None)
        if other is not None:
            raise ArgumentTypeError(
                f"Type is mismatched. {kernel.__name__}: argument {param.name} is "
                f"{shards[other].dtype} in shard {other}, and {first.dtype} in shard 0"
            )
        shapes = [one.shape or () for one in shards]
        has_axis = not param.raw and all(len(shape) >= -from_end for shape in shapes)
        if has_axis and tuple(shape[from_end] for shape in shapes) == extents:
            divided.append(param.name)
            first = replace(first, shape=with_extent(shapes[0], from_end, sum(extents)))
        whole.append(first)
    devices = tuple(call.device for call in checked)
    return _Divided(kernel, calls, axis, extents, whole, tuple(divided), devices)
