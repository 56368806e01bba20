"""What a call checks (`kspec.checks`), and the memory its kernel may touch then."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from kspec import dtypes
from kspec.checks import NO_CHECKS, Checks, parse_checks, resolve_checks
from kspec.errors import ArgumentTypeError
from kspec.host.device import Region
from kspec.runtime.device import Device
from kspec.runtime.dispatch import Operand
from kspec.runtime.views import ArrayView, memory_bounds


def checks_of_call(
    name: str,
    device: Device,
    kernel: Checks | None,
    sanitize: str | None,
    order: str | None,
    timeout: float | None,
) -> Checks:
    """Return how a call is checked: its keywords, over its kernel's, over the current ones.

    Raises
    ------
    ArgumentTypeError
        If a call on a CUDA device asks for checks.
    CheckOptionError
        For a keyword's value that does not exist.
    """
    if device.is_host:
        return resolve_checks(kernel, sanitize, order, timeout)
    if sanitize is None and order is None and timeout is None:
        return NO_CHECKS
    if parse_checks(sanitize, order, timeout) != NO_CHECKS:
        raise ArgumentTypeError(
            f"{name}: sanitize=, order= and timeout= exist on the host device only, and the "
            f"arrays are on {device}; pass NumPy arrays, or arrays made with device='host'"
        )
    return NO_CHECKS


def regions_of_call(
    checks: Checks, arguments: Iterable[tuple[str, Any, ArrayView | None]]
) -> tuple[Region, ...]:
    """Return the memory of a call's array arguments, when something is checked.

    Parameters
    ----------
    checks : Checks
        Of the call.
    arguments : iterable of (str, object, ArrayView or None)
        What messages call the argument, its value, and its elements if it is an array.
    """
    if not checks.sanitize:
        return ()
    return tuple(
        region
        for name, value, view in arguments
        if view is not None
        for region in _regions(name, value, view)
    )


def regions_of_operands(checks: Checks, operands: Iterable[Operand]) -> tuple[Region, ...]:
    """Return the memory of classified arguments, when something is checked."""
    named = ((operand.param.name, operand.value, operand.view) for operand in operands)
    return regions_of_call(checks, named)


def _regions(name: str, value: Any, view: ArrayView) -> Iterator[Region]:
    itemsize = dtypes.lookup(view.dtype).itemsize
    yield _region(name, view.ptr, view.shape, view.strides, itemsize)
    owner = value
    while isinstance(owner, np.ndarray) and isinstance(owner.base, np.ndarray):
        owner = owner.base
    if owner is not value:
        # A kernel may reach around a view, into the array it is a part of.
        address = owner.__array_interface__["data"][0]
        label = f"the array behind {name}"
        yield _region(label, address, owner.shape, owner.strides, owner.itemsize)


def _region(
    name: str, ptr: int, shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int
) -> Region:
    low, high = memory_bounds(ptr, shape, strides, itemsize)
    return Region(low, high - low, name)
