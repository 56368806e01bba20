"""Checks of a call (`kspec.model.checks`), and the memory that its kernel may then touch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from kspec.errors import ArgumentTypeError
from kspec.model import dtypes
from kspec.model.checks import NO_CHECKS, REVIEW, UNCHECKED, Checks, parse_checks, resolve_checks
from kspec.model.declaration import GeneratedDeclaration
from kspec.runtime.arguments.binding import Operand
from kspec.runtime.driver.device import Device
from kspec.runtime.driver.launch import NO_OPTIONS, HostOptions, LaunchOptions
from kspec.runtime.memory import ArrayView, memory_bounds

if TYPE_CHECKING:
    from kspec.host.kernels import Region


def checks_of_call(
    name: str, device: Device, kernel: Checks | None, options: LaunchOptions = NO_OPTIONS
) -> Checks:
    """Return the checks of a call: its options', over its kernel's, over the current ones.

    Raises
    ------
    ArgumentTypeError
        If a call on a CUDA device asks for checks.
    CheckOptionError
        For a keyword's value that does not exist.
    """
    asked_for = options.sanitize, options.order, options.timeout
    if device.is_host:
        return resolve_checks(kernel, *asked_for)
    if asked_for == (None, None, None):
        return NO_CHECKS
    asked = parse_checks(*asked_for)
    if asked != NO_CHECKS and asked.sanitize != UNCHECKED:
        raise ArgumentTypeError(
            f"{name}: sanitize=, order= and timeout= exist on the host device only, and the "
            f"arrays are on {device}; pass NumPy arrays, or arrays made with device='host'"
        )
    return NO_CHECKS


def repeatable(options: LaunchOptions, kernel: Checks | None) -> LaunchOptions:
    """Return options that plans can repeat: with checks of bounds or without, no more."""
    now = resolve_checks(kernel, None, None, None)
    sanitize = ",".join(now.sanitize if now.sanitize == UNCHECKED else ())
    return replace(options, sanitize=sanitize, order="forward", timeout=None)


_LOOK_AT_ACCESSES = {"init", "memory", "race"}


def modes_of_call(
    checks: Checks, device: Device, declaration: GeneratedDeclaration | None = None
) -> tuple[str, ...]:
    """Return the instrumentation of a call's kernel: the checks asked for, and bounds.

    Parameters
    ----------
    checks : Checks
        Of the call.
    device : Device
        Where it runs.
    declaration : ElementwiseDeclaration or ReductionDeclaration, optional
        Of generated kernels; those that take elements one by one stay within bounds by
        themselves.
    """
    if not device.is_host:
        return ()
    if checks.review is not None:
        return tuple(sorted({*checks.sanitize, REVIEW} - {*UNCHECKED}))
    if checks.sanitize == UNCHECKED:
        return ()
    modes = checks.sanitize
    if not _LOOK_AT_ACCESSES.isdisjoint(modes):
        return modes
    if declaration is not None and not _follows_pointers(declaration):
        return modes
    from kspec.host.modules import bounds_mode

    return tuple(sorted({*modes, bounds_mode()}))


def _follows_pointers(declaration: GeneratedDeclaration) -> bool:
    if declaration.subscripts or declaration.raw_views or getattr(declaration, "in_place", False):
        return True
    return any(param.raw or param.non_const for param in declaration.params.params)


def regions_of_call(
    modes: tuple[str, ...], arguments: Iterable[tuple[str, Any, ArrayView | None, bool]]
) -> tuple[Region, ...]:
    """Return the memory of a call's array arguments, when something is checked.

    Parameters
    ----------
    modes : tuple of str
        What the kernel is instrumented for.
    arguments : iterable of (str, object, ArrayView or None, bool)
        What messages call the argument, its value, its elements if it is an array, and whether it
        was made for the call.
    """
    if not modes:
        return ()
    return tuple(
        region
        for name, value, view, is_new in arguments
        if view is not None
        for region in _regions(name, value, view, is_new)
    )


def host_options(
    checks: Checks, modes: tuple[str, ...], operands: Iterable[Operand]
) -> HostOptions:
    """Return the options of the host device for a call with classified arguments."""
    named = ((one.param.name, one.value, one.view, one.is_new) for one in operands)
    return HostOptions(checks, modes, regions_of_call(modes, named))


def _regions(name: str, value: Any, view: ArrayView, is_new: bool) -> Iterator[Region]:
    from kspec.host.kernels import Region

    itemsize = dtypes.lookup(view.dtype).itemsize
    is_fresh = is_new and view.dtype != "bool"  # which generated kernels look at by themselves
    low, high = memory_bounds(view.ptr, view.shape, view.strides, itemsize)
    yield Region(low, high - low, name, view.readonly, is_fresh)
    owner = owner_of(value)
    if owner is not value:
        # A kernel may reach around a view, into the array it is a part of.
        low, high = bounds_of(owner)
        yield Region(low, high - low, behind(name), view.readonly)


def behind(name: str) -> str:
    """Return the name, in messages, of the array that a view is a part of."""
    return f"the array behind {name}"


def owner_of(array: Any) -> Any:
    """Return the NumPy array that a view is a part of, or the array itself."""
    while isinstance(array, np.ndarray) and isinstance(array.base, np.ndarray):
        array = array.base
    return array


def bounds_of(array: Any) -> tuple[int, int]:
    """Return the addresses of a NumPy array's first byte, and behind its last."""
    return memory_bounds(
        array.__array_interface__["data"][0], array.shape, array.strides, array.itemsize
    )
