"""Kernels on Dask arrays: elementwise ones block by block, reductions as trees.

::

    x = da.ones((1000, 1000), chunks=(100, 1000))
    y = kspec.dask.apply(norms.l2norm, x, axis=0)      # a Dask array, float64, of 1000 elements
    y.compute()

Shapes and dtypes of results follow from the declaration; nothing is computed for them.  A graph
holds names of kernels, not code (`kspec.runtime.kernels.identity`): each process has them from its
installed package or compiles them once, and processes that share a cache do so once together.

`kspec.dask.graphs` makes the graphs, `kspec.dask.forms` those of the other forms of reductions;
`kspec.dask.blocks` and `kspec.dask.form_blocks` are what they call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kspec.errors import ArgumentTypeError, ToolNotFoundError
from kspec.model.forms.kinds import REDUCE
from kspec.model.neighbours.binding import bind_neighbours
from kspec.runtime.kernels.forms.options import given_options
from kspec.runtime.kernels.identity import form_called
from kspec.runtime.kernels.reduction import ReductionCallable

try:
    from kspec.dask.forms import form_blocks
    from kspec.dask.graphs import map_blocks, reduce_blocks
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "dask":
        raise
    raise ToolNotFoundError(
        f"kspec.dask needs Dask's arrays ({error}): pip install 'kspec[dask]'"
    ) from error

__all__ = ["apply"]


def apply(
    kernel: Any,
    *args: Any,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    split_every: int | Mapping[int, int] | None = None,
    boundary: str | None = None,
    **options: Any,
) -> Any:
    """Return the Dask array, or arrays, that a kernel makes of Dask arrays.

    Parameters
    ----------
    kernel : kernel, generated function, or method of one
        Elementwise or reduction; ``f.scan``, ``f.segments``, ``f.by_key`` or ``f.window`` of a
        reduction.
    *args : dask arrays, arrays or scalars
        The inputs, at least one of them a Dask array. They broadcast against each other. Arrays of
        NumPy and CuPy become Dask arrays; ``raw`` ones are given to every block as they are. Chunks
        may be arrays of any library.
    axis, keepdims
        Of a reduction, as in a call.
    split_every : int or mapping of int to int, optional
        How many blocks a reduction joins at once, as in `dask.array.reduction`.
    boundary, **options
        Sizes of an elementwise kernel, keywords of a form, as in a call. Blocks of inputs with
        windows get the elements that they read of their neighbours; only the edges of the whole
        array see the boundary. The ``indptr`` of segments is one array; a Dask array is computed.
        The ``keys`` of a reduction by key are divided as the first axis of the inputs.

    Returns
    -------
    dask array, or tuple of dask arrays
        The outputs; a tuple if the kernel has several.

    Raises
    ------
    NotSupportedError
        The kernel looks at indices, so blocks cannot be computed by themselves.
    ArgumentTypeError
        What a call of the kernel raises for arguments of these dtypes; no Dask array.
    ShapeError
        Shapes do not broadcast, chunks of unknown size would have to be aligned, or blocks are
        thinner than the reach of a window.
    """
    called, form = form_called(kernel)
    if isinstance(called, ReductionCallable) and form != REDUCE:
        keywords = {"split_every": split_every, "boundary": boundary, **options}
        return form_blocks(
            called, form, args, given_options(axis=axis, keepdims=keepdims, **keywords)
        )
    if isinstance(called, ReductionCallable):
        bind_neighbours(called.declaration, boundary, options)  # refuses them
        return reduce_blocks(called, args, axis, keepdims, split_every)
    if axis is not None or keepdims or split_every is not None:
        raise ArgumentTypeError(
            f"{called.__name__} is elementwise: axis, keepdims and split_every are for reductions"
        )
    return map_blocks(called, args, boundary, options)
