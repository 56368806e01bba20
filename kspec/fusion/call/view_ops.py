"""Views of arrays of any library: the operations of `kspec.fusion.view_ops`, as methods of each."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from kspec.fusion.call.copies import copy
from kspec.fusion.view_ops import ViewOp
from kspec.runtime.libraries.lookup import library_of
from kspec.runtime.memory.device_array import DeviceArray

_MODULES = {"jaxlib": "jax.numpy"}  # of arrays whose package is not that of their functions


def apply_view_op(array: Any, step: ViewOp) -> Any:
    """Return a view of an array of any library."""
    detail: Any = step.detail
    if step.kind == "index":
        if hasattr(array, "flip"):  # of torch, which has no steps back
            return _index_forwards(array, detail)
        return array[(*detail, ...)]  # an array of 0 axes, where all are chosen from
    if step.kind == "permute":
        return array.permute(detail) if hasattr(array, "permute") else array.transpose(detail)
    if step.kind == "reshape":
        if isinstance(array, DeviceArray) and not _is_c_contiguous(array):
            array = copy(array)
        return array.reshape(detail)
    if hasattr(array, "expand"):
        return array.expand(detail)
    if isinstance(array, np.ndarray):
        return np.broadcast_to(array, detail)
    if isinstance(array, DeviceArray):
        return array.broadcast_to(detail)
    name = type(array).__module__.partition(".")[0]
    return sys.modules[_MODULES.get(name, name)].broadcast_to(array, detail)


def _is_c_contiguous(array: Any) -> bool:
    library = library_of(array)
    return library is not None and library.view(array).is_c_contiguous


def _index_forwards(array: Any, index: Sequence[int | slice | None]) -> Any:
    """Return elements by an index, with copies of axes that are turned around."""
    entries: list[int | slice | None] = []
    turned: list[int] = []
    sizes = iter(array.shape)
    axis = 0
    for entry in index:
        size = 1 if entry is None else next(sizes)
        if isinstance(entry, slice) and entry.step is not None and entry.step < 0:
            places = range(*entry.indices(size))[::-1]
            entry = slice(places.start, places.stop, places.step)
            turned.append(axis)
        axis += not isinstance(entry, int)
        entries.append(entry)
    found = array[(*entries, ...)]
    return found.flip(turned) if turned else found
