"""Core dimensions of Dask arrays: a block has whole items, so these axes are not divided."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from kspec.errors import ShapeError
from kspec.model.declaration import GeneratedDeclaration
from kspec.model.signature import Param


def check_cores(declaration: GeneratedDeclaration, arrays: Iterable[tuple[Param, Any]]) -> None:
    """Raise `ShapeError` unless each core dimension is one chunk of known extent.

    Parameters
    ----------
    declaration : ElementwiseDeclaration or ReductionDeclaration
        The kernel.
    arrays : iterable of (Param, dask array)
        The arrays that are divided into blocks, and their parameters.
    """
    for param, array in arrays:
        first = array.ndim - len(param.core)
        if first < 0:
            continue  # which shapes are refused for, with NumPy's message
        where = f"{declaration.name}: {param.name}"
        divided = {axis: -1 for axis in range(first, array.ndim) if array.numblocks[axis] > 1}
        if divided:
            axis = next(iter(divided))
            raise ShapeError(
                f"{where} has {array.numblocks[axis]} chunks along axis {axis}, its core dimension "
                f"{param.core[axis - first]}; a block needs whole items: "
                f"{param.name}.rechunk({divided})"
            )
        for axis, text in enumerate(param.core, first):
            if math.isnan(array.shape[axis]):
                raise ShapeError(
                    f"{where} has an unknown extent along axis {axis}, its core dimension {text}; "
                    "call compute_chunk_sizes() on it first"
                )
