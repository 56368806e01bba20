"""Memory of the arrays of repeated calls, which are checked by their kernels only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kspec.runtime.arguments.checks import behind, bounds_of, owner_of
from kspec.runtime.libraries.array_access import numpy_address
from kspec.runtime.memory import memory_bounds
from kspec.runtime.memory.device_array import DeviceArray

if TYPE_CHECKING:
    from kspec.host.kernels import PreparedLaunch, Region


class Guard:
    """Says for repeated calls which memory their arrays have.

    Parameters
    ----------
    labels : sequence of str
        What messages call each array.
    written : sequence of bool
        Whether it must not be read-only.
    refused : exception
        What is raised for arrays that must be looked at in full.
    fixed : sequence of Region
        Memory that all calls may touch.
    """

    __slots__ = ("_fixed", "_labels", "_refused", "_written")

    def __init__(
        self,
        labels: Sequence[str],
        written: Sequence[bool],
        refused: type[Exception],
        fixed: Sequence[Region] = (),
    ) -> None:
        from kspec.host.kernels import label_address

        self._fixed = [
            value for one in fixed for value in (one.ptr, one.nbytes, label_address(one.name), 0)
        ]
        self._labels = [(label_address(one), label_address(behind(one))) for one in labels]
        self._written = tuple(written)
        self._refused = refused

    def __call__(self, launch: PreparedLaunch, arrays: Sequence[Any]) -> None:
        """Prepare a launch for these arrays."""
        regions = list(self._fixed)
        for array, (label, owner_label), written in zip(
            arrays, self._labels, self._written, strict=True
        ):
            if type(array) is DeviceArray:
                low, high = _own_bounds(array)
                regions += (low, high - low, label, 0)
                continue
            if type(array) is not np.ndarray or (written and not array.flags.writeable):
                raise self._refused
            low, high = _quick_bounds(array)
            regions += (low, high - low, label, 0)
            if isinstance(array.base, np.ndarray):  # numpy.memmap, too
                low, high = _quick_bounds(owner_of(array))
                regions += (low, high - low, owner_label, 0)
        launch.guard(tuple(regions))


def _own_bounds(array: Any) -> tuple[int, int]:
    return memory_bounds(array.ptr, array.shape, array.strides, array.dtype.itemsize)


def _quick_bounds(array: Any) -> tuple[int, int]:
    if array.flags.forc:
        low = numpy_address(array)
        return low, low + array.nbytes
    return bounds_of(array)
