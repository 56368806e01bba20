"""New arrays of the library of another one: copies, by a kernel, and such without elements yet."""

from __future__ import annotations

import functools
from typing import Any

from kspec.constructors import ElementwiseKernel
from kspec.runtime.interop import library_of


@functools.cache
def _copy_kernel() -> ElementwiseKernel:
    return ElementwiseKernel("T x", "T y", "y = x", "kspec_copy")


def copy(array: Any) -> Any:
    """Return a new array with the same elements."""
    return _copy_kernel()(array)


def new_like(array: Any, dtype: str) -> Any:
    """Return a new array of an array's library, shape and device."""
    library = library_of(array)
    assert library is not None
    view = library.view(array)
    stream = library.stream(view.device)
    return library.finish(library.empty(view.shape, dtype, view.device), view.device, stream)
