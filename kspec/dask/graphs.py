"""Dask graphs of kernels: arguments in, Dask arrays out whose shapes and dtypes are known.

What results are follows from a call's checks (`kspec.runtime.arguments.binding`) on arrays without
elements, so arguments that a call would refuse are refused when the graph is made.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import dask.array as da
import numpy as np
from dask.array.utils import meta_from_array

from kspec.dask.blocks import (
    CombineTask,
    ElementwiseTask,
    FinishTask,
    PartialTask,
    Placeholder,
    SelectOutput,
    WindowedTask,
    pass_block,
)
from kspec.dask.cores import check_cores
from kspec.dask.halos import Input, check_known, extend
from kspec.dataclass import dataclass
from kspec.errors import ArgumentTypeError, NotSupportedError, ShapeError, counted
from kspec.model.infer import Abstract, Inferred, infer
from kspec.model.neighbours.binding import bind_neighbours
from kspec.model.neighbours.windows import NO_SIZES, BoundWindow
from kspec.model.shapes import Shape, broadcast_shapes
from kspec.model.signature import Param
from kspec.runtime.arguments.binding import Call, classify
from kspec.runtime.callcache.prepared import pack_operand
from kspec.runtime.kernels.elementwise import ElementwiseCallable, check_kinds
from kspec.runtime.kernels.identity import Kernel, identity_of
from kspec.runtime.kernels.reduction import ReductionCallable
from kspec.runtime.libraries.lookup import library_of
from kspec.runtime.memory import numpy_dtype

_CONVERTED = ("numpy", "cupy")  # libraries whose arrays become Dask arrays


@dataclass(frozen=True)
class Arguments:
    """The inputs of a call.

    Attributes
    ----------
    arrays : tuple of dask arrays
        Those that are divided into blocks.
    rest : tuple
        All others; `Placeholder.BLOCK` where one of the arrays belongs.
    core : tuple of int
        How many of the last axes of each array are core dimensions.
    outputs : tuple of arrays
        An array like each output, without elements and without axes.
    reduced : tuple of int
        Axes that are reduced.
    """

    arrays: tuple[da.Array, ...]
    rest: tuple[Any, ...]
    core: tuple[int, ...]
    outputs: tuple[Any, ...] = ()
    reduced: tuple[int, ...] = ()

    @property
    def ndim(self) -> int:
        """Number of axes of the broadcast shape, without core dimensions."""
        pairs = zip(self.arrays, self.core, strict=True)
        return int(max(array.ndim - core for array, core in pairs))

    def indexed(self) -> list[Any]:
        """Return each array followed by the numbers of its axes, for `dask.array.blockwise`.

        Those of core dimensions are of no other array, and of no output.
        """
        ndim = unused = self.ndim
        found: list[Any] = []
        for array, core in zip(self.arrays, self.core, strict=True):
            loop = range(ndim - (array.ndim - core), ndim)
            found += [array, (*loop, *range(unused, unused + core))]
            unused += core
        return found

    def meta(self, number: int, ndim: int) -> Any:
        """Return an output without elements that has so many axes."""
        return meta_from_array(self.outputs[number], ndim=ndim)


def map_blocks(
    kernel: ElementwiseCallable,
    args: Sequence[Any],
    boundary: str | None = None,
    sizes: Mapping[str, Any] = NO_SIZES,
) -> Any:
    """Return the outputs of an elementwise kernel."""
    neighbours = bind_neighbours(kernel.declaration, boundary, sizes)
    windows = neighbours.windows
    kernel.declaration.check_made_outputs()
    found, call = arguments_of(kernel, args)
    check_kinds(kernel.declaration, call)
    inputs = _inputs(kernel, found, windows)
    check_known(kernel.__name__, inputs)
    inputs_of = abstract_inputs(found, call)
    inferred = infer(kernel.declaration, inputs_of, neighbours=neighbours, broadcast=broadcast)
    found = with_outputs(found, call, inferred)
    cores = [shape[len(inferred.shape) :] for shape in inferred.shapes]
    if windows:
        task: Any = WindowedTask(identity_of(kernel), found.rest, neighbours)
        result = _with_halos(kernel, task, found, inputs)
    else:
        task = ElementwiseTask(identity_of(kernel), found.rest, neighbours.sizes, boundary)
        result = _blockwise(kernel, task, found)
    return outputs_of(kernel, found, result, kernel.return_tuple, cores)


def reduce_blocks(
    kernel: ReductionCallable,
    args: Sequence[Any],
    axis: int | Sequence[int] | None,
    keepdims: bool,
    split_every: int | Mapping[int, int] | None,
) -> Any:
    """Return the outputs of a reduction."""
    kernel.declaration.check_made_outputs()
    found, call = arguments_of(kernel, args)
    kernel.check_scalars(call)
    inferred = infer(
        kernel.declaration,
        abstract_inputs(found, call),
        axis=axis,
        keepdims=keepdims,
        broadcast=broadcast,
    )
    found = with_outputs(found, call, inferred)
    axes, name = found.reduced, kernel.__name__
    kept = found.ndim - (0 if keepdims else len(axes))
    cores = [shape[kept:] for shape in inferred.shapes]
    identity = identity_of(kernel)
    task = PartialTask(identity, found.rest, axes)
    partials = _blockwise(kernel, task, found, dict.fromkeys(axes, 1))
    result = da.reduction(
        partials,
        pass_block,
        FinishTask(identity, found.rest, _outputs_of_all(kernel, partials, axes)),
        combine=CombineTask(identity, found.rest),
        axis=axes,
        keepdims=keepdims,
        split_every=split_every,
        dtype=found.outputs[0].dtype,
        meta=found.meta(0, kept),
        concatenate=False,
        name=f"kspec-{name}",
    )
    return outputs_of(kernel, found, result, core=cores)


def arguments_of(kernel: Kernel, args: Sequence[Any]) -> tuple[Arguments, Call]:
    """Check the inputs of a call, and return them and what they are classified as."""
    declaration = kernel.declaration
    name = kernel.__name__
    if declaration.whole:
        raise NotSupportedError(
            f"{name} cannot be applied block by block: {declaration.whole}. Call it with whole "
            "arrays (x.compute(), or one chunk and map_blocks), or let it take indices from an "
            "array: 'T x, int64 index'"
        )
    if getattr(declaration, "no_return", False):
        raise NotSupportedError(
            f"{name} returns nothing (no_return), so there are no blocks to make an array of; "
            "declare it without"
        )
    if len(args) != len(declaration.inputs):
        raise ArgumentTypeError(
            f"{name} takes {counted(len(declaration.inputs), 'input')} ({declaration.inputs}), "
            f"not {len(args)}; outputs are made"
        )
    arrays: list[da.Array] = []
    rest: list[Any] = []
    divided: list[Param] = []
    for param, value in zip(declaration.inputs, args, strict=True):
        library = library_of(value)
        if param.raw and isinstance(value, da.Array):
            raise ArgumentTypeError(
                f"{name}: {param.name} is raw, so every block reads all of it; pass an array: "
                f"{param.name}.compute()"
            )
        if isinstance(value, da.Array) or (library is not None and not param.raw):
            if library is not None and library.name not in _CONVERTED:
                raise ArgumentTypeError(
                    f"{name}: {param.name} is an array of {library.name}, which cannot be "
                    "split into Dask blocks; pass a Dask array"
                )
            arrays.append(da.asanyarray(value))
            rest.append(Placeholder.BLOCK)
            divided.append(param)
        else:
            rest.append(value)
    if not any(isinstance(value, da.Array) for value in args):
        raise ArgumentTypeError(f"{name}: no argument is a Dask array; call the kernel itself")
    check_cores(declaration, zip(divided, arrays, strict=True))
    left = iter(arrays)
    samples = [_sample(next(left)) if one is Placeholder.BLOCK else _of_raw(one) for one in rest]
    call = classify(declaration, samples)
    core = tuple(len(param.core) for param in divided)
    return Arguments(tuple(arrays), tuple(rest), core), call


def abstract_inputs(found: Arguments, call: Call) -> list[Abstract]:
    """Return the shapes and dtypes of the inputs of a call."""
    left = iter(found.arrays)
    return [
        Abstract(next(left).shape, operand.dtype) if one is Placeholder.BLOCK else operand.abstract
        for operand, one in zip(call.inputs, found.rest, strict=True)
    ]


def with_outputs(found: Arguments, call: Call, inferred: Inferred) -> Arguments:
    """Return the arguments with the outputs and the reduced axes of their call."""
    for operand in call.inputs:
        if operand.dtype is None:
            pack_operand(operand, inferred.binding)  # raises if a number does not fit
    like = found.arrays[0]._meta
    outputs = tuple(
        meta_from_array(like, ndim=0, dtype=numpy_dtype(dtype)) for dtype in inferred.dtypes
    )
    return replace(found, outputs=outputs, reduced=inferred.reduced)


def broadcast(shapes: Sequence[Shape]) -> Shape:
    """Return the common shape of arrays, whose extents may be unknown (NaN)."""
    known = broadcast_shapes([tuple(1 if math.isnan(k) else k for k in one) for one in shapes])
    unknown = {
        axis - len(one) for one in shapes for axis, extent in enumerate(one) if math.isnan(extent)
    }
    return tuple(
        math.nan if extent == 1 and axis - len(known) in unknown else extent  # type: ignore[misc]
        for axis, extent in enumerate(known)
    )


def _sample(array: da.Array) -> Any:
    """Return an array of NumPy with the dtype and the axes of another, and no elements.

    It is masked if the blocks are, which calls refuse.
    """
    make = np.ma.empty if isinstance(array._meta, np.ma.MaskedArray) else np.empty
    try:
        return make((0,) * array.ndim, array.dtype)
    except TypeError:
        raise ArgumentTypeError(
            f"Dask cannot infer the NumPy dtype of blocks of dtype {array.dtype}; pass meta=, "
            f"as in x.map_blocks(make, meta=np.empty((0,) * {array.ndim}, dtype))"
        ) from None


def _of_raw(value: Any) -> Any:
    """Return the same of an array that every block gets; anything else as it is."""
    library = library_of(value)
    if library is None:
        return value
    view = library.view(value)
    return np.empty((0,) * len(view.shape), numpy_dtype(view.dtype))


def _inputs(kernel: Kernel, found: Arguments, windows: Sequence[BoundWindow]) -> list[Input]:
    """Return the inputs that are divided into blocks, with their windows."""
    known = {window.param: window for window in windows}
    return [
        Input(param.name, array, known.get(param.name))
        for param, array in zip(divided_params(kernel, found), found.arrays, strict=True)
    ]


def _with_halos(
    kernel: Kernel, task: WindowedTask, found: Arguments, inputs: Sequence[Input]
) -> da.Array:
    """Return the array of blocks that a kernel with windows makes."""
    with named_shapes(kernel, found):
        arrays, chunks = extend(kernel.__name__, found.ndim, inputs)
    extended = replace(found, arrays=tuple(arrays))
    return _blockwise(kernel, task, extended, dict(enumerate(chunks)), align=False)


def _blockwise(
    kernel: Kernel,
    task: Any,
    found: Arguments,
    chunks: Mapping[int, Any] | None = None,
    align: bool = True,
) -> da.Array:
    """Return the array of blocks that a task makes, which has the axes of the loop.

    Parameters
    ----------
    kernel, task, found
        The call.
    chunks : mapping of int to int or tuple of int, optional
        Their extents along the axes where they change.
    align : bool
        Whether the arrays are still to be divided alike.
    """
    with named_shapes(kernel, found):
        return da.blockwise(
            task,
            tuple(range(found.ndim)),
            *found.indexed(),
            adjust_chunks=chunks,
            align_arrays=align,
            meta=found.meta(0, found.ndim),
            token=f"kspec-{kernel.__name__}",
        )


@contextlib.contextmanager
def named_shapes(kernel: Kernel, found: Arguments) -> Iterator[None]:
    """Raise what Dask says about shapes as `ShapeError`, with the names of the arrays."""
    shapes = [array.shape for array in found.arrays]
    try:
        yield
    except ShapeError:
        raise
    except ValueError as error:
        reason = str(error)
        if any(math.isnan(extent) for shape in shapes for extent in shape):
            reason = (
                "one array has chunks of unknown sizes, and the others are divided differently; "
                "call compute_chunk_sizes() on it first"
            )
        named = (
            f"{param.name} {shape}"
            for param, shape in zip(divided_params(kernel, found), shapes, strict=True)
        )
        raise ShapeError(f"{kernel.__name__}: {', '.join(named)}: {reason}") from error


def divided_params(kernel: Kernel, found: Arguments) -> list[Any]:
    """Return the parameters of the arrays."""
    inputs = kernel.declaration.inputs
    return [
        param for param, one in zip(inputs, found.rest, strict=True) if one is Placeholder.BLOCK
    ]


def _outputs_of_all(
    kernel: ReductionCallable, partials: da.Array, axes: Sequence[int]
) -> int | None:
    """Return the number of outputs of all blocks, for kernels that ask; None for others."""
    kept = [axis for axis in range(partials.ndim) if axis not in axes]
    if not kernel.declaration.counts or all(partials.numblocks[axis] == 1 for axis in kept):
        return None
    outputs = math.prod(partials.shape[axis] for axis in kept)
    if math.isnan(outputs):
        raise ShapeError(
            f"{kernel.__name__}: its post-map reads how many elements or outputs there are "
            "(_in_ind.size(), _out_ind.size()), and the chunks have unknown sizes; call "
            "compute_chunk_sizes() on the array first"
        )
    return int(outputs)


def outputs_of(
    kernel: Kernel,
    found: Arguments,
    result: da.Array,
    always: bool = False,
    core: Sequence[Shape] = (),
) -> Any:
    """Return the outputs of blocks that hold all of them.

    Parameters
    ----------
    kernel, found
        The call.
    result : dask array
        Its blocks, which are tuples of several outputs, or the only one.
    always : bool
        Whether blocks of an only one are tuples, too, and the result is.
    core : sequence of tuple of int, optional
        Extents of axes that the outputs have, and `result` has not.
    """
    is_tuple = always or len(found.outputs) > 1
    if not is_tuple and not any(core):
        return result
    axes = tuple(range(result.ndim))
    selected = []
    for number, param in enumerate(kernel.declaration.outputs):
        new_axes = dict(enumerate(core[number] if core else (), result.ndim))
        one = da.blockwise(
            SelectOutput(number if is_tuple else None),
            (*axes, *new_axes),
            *(result, axes),
            new_axes=new_axes,
            meta=found.meta(number, result.ndim + len(new_axes)),
            token=f"kspec-{kernel.__name__}-{param.name}",
        )
        selected.append(one)
    return tuple(selected) if is_tuple else selected[0]
