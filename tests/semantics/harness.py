"""Launching a kernel on NumPy values, and distances in units in the last place."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

import kspec
from tests.devices import ArrayDevice


def run(
    place: ArrayDevice,
    source: str,
    name: str,
    grid: tuple[int, ...],
    block: tuple[int, ...],
    *arguments: Any,
    **options: Any,
) -> list[npt.NDArray[Any]]:
    """Launch a kernel; return every array argument as the kernel left it.

    NumPy arrays are copied to the device, everything else is passed as it is.
    """
    is_array = [isinstance(argument, np.ndarray) for argument in arguments]
    values = [
        place.array(argument) if array else argument
        for argument, array in zip(arguments, is_array, strict=True)
    ]
    names = _names(source)
    if "<" in name and name not in names:
        names = (name,)
    _module(source, names).get_function(name)(grid, block, tuple(values), **options)
    return [place.numpy(value) for value, array in zip(values, is_array, strict=True) if array]


@functools.cache
def _module(source: str, names: tuple[str, ...]) -> kspec.RawModule:
    return kspec.RawModule(code=source, name_expressions=names)


def sources_of(module: ModuleType) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yield each source of a module (``A_SOURCE``): its name, text and expressions (``A_NAMES``)."""
    for name, value in vars(module).items():
        if name.endswith("SOURCE") and isinstance(value, str):
            yield name, value, tuple(getattr(module, name.replace("SOURCE", "NAMES"), ()))


@functools.cache
def _names(source: str) -> tuple[str, ...]:
    """Return the name expressions of a source: one image serves all tests of it."""
    for name, module in [*sys.modules.items()]:
        if name.startswith(f"{__package__}."):
            for _, text, names in sources_of(module):
                if text is source:
                    return names
    return ()


def ulps(values: npt.NDArray[Any], exact: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return the distance of `values` from `exact` (of higher precision) in ulps of `values`."""
    unit = np.spacing(np.abs(exact).astype(values.dtype)).astype(exact.dtype)
    return np.asarray(np.abs(values.astype(exact.dtype) - exact) / unit, np.float64)
