"""Calls of kernels that take whole arrays, with shape and strides: those made of Python functions.

Such a kernel has parameters ``kspec::View`` of ``kspec/view.cuh``, which are packed here.  The
dtypes, axes and layouts of a call's arguments decide which kernel it is; that takes long, so a
repeated call is one lookup, as for all other kernels (`kspec.runtime.raw.call_cache`).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kspec.errors import ArgumentTypeError
from kspec.model import dtypes
from kspec.model.checks import Checks
from kspec.model.shapes import size_of
from kspec.model.signature import CParam
from kspec.model.stages import RawSymbol
from kspec.runtime.arguments.checks import checks_of_call, modes_of_call
from kspec.runtime.callcache.cache import Route, types_of
from kspec.runtime.callcache.launch_plan import Ordered
from kspec.runtime.callcache.param_block import Blocks
from kspec.runtime.driver.launch import (
    NO_OPTIONS,
    HostOptions,
    LaunchOptions,
    about,
    make_launch,
)
from kspec.runtime.libraries.aliasing import check_writable
from kspec.runtime.libraries.array_access import access_of
from kspec.runtime.memory.array_view import ArrayView
from kspec.runtime.modules.provider import KernelLoader
from kspec.runtime.raw.call_cache import (
    More,
    PreparedRaw,
    RawPattern,
    RawRoutes,
    Value,
    guard_of,
    make_raw_route,
    options_of,
    refusal_of,
)
from kspec.runtime.raw.untyped_args import (
    RawArgument,
    listed_arguments,
    place_of,
    regions_of,
    stream_of,
)
from kspec.runtime.schedules import marshal

_WIDE = 2**31  # bytes
# Python integers beyond 32 bits have another type; NumPy's warn when they are compared with these.
_IS_NARROW = "type({x}) is int and -2147483648 <= {x} <= 2147483647"


@dataclass(frozen=True)
class ViewKernel:
    """A kernel for certain types of arguments.

    Attributes
    ----------
    name : str
        Of the kernel in its module.
    loader : KernelLoader
        Of the module.
    types : tuple of str
        Dtypes of numbers and records; empty for arrays.
    written : tuple of bool
        Whether it writes to an array.
    cooperative : bool
        Whether all blocks must be resident.
    is_stale : callable
        Returns whether it was made of something that has changed.
    """

    name: str
    loader: KernelLoader
    types: tuple[str, ...]
    written: tuple[bool, ...]
    cooperative: bool
    is_stale: Callable[[], bool]


class ViewCaller:
    """Base of objects that find a kernel for their arguments and launch it.

    Attributes
    ----------
    checks : Checks or None
        What to check when it runs on the host device; None: as `kspec.checking` or the
        environment say.
    """

    checks: Checks | None = None
    _routes: RawRoutes
    _params: Sequence[CParam] | None = None
    _names: Sequence[str]

    @property
    def name(self) -> str:
        """Name of the kernel."""
        raise NotImplementedError

    def kernel_for(self, operands: Sequence[RawArgument]) -> ViewKernel:
        """Return the kernel for some arguments."""
        raise NotImplementedError

    def complete(self, args: Sequence[Any]) -> tuple[Any, ...]:
        """Return the arguments of a call with those that it leaves out."""
        raise NotImplementedError

    def operands(self, args: Sequence[Any]) -> tuple[RawArgument, ...]:
        """Return the classified arguments of a call, of which none is left out."""
        return tuple(
            RawArgument(self.name, number, value, name, pointer=True)
            for number, (name, value) in enumerate(zip(self._names, args, strict=True))
        )

    def forget(self) -> None:
        """Look at the next calls anew."""
        self._routes = RawRoutes()
        self._routes.last = find_view_route

    def prepare(
        self,
        grid: tuple[int, ...],
        block: tuple[int, ...],
        args: Sequence[Any],
        options: LaunchOptions = NO_OPTIONS,
    ) -> PreparedRaw:
        """Check a call, with parameters and errors as those of the call."""
        name = self.name
        args = self.complete(listed_arguments(name, args))
        operands = self.operands(args)
        device, library = place_of(name, operands)
        for one in operands:
            if one.view is not None and one.view.device != device:
                raise ArgumentTypeError(
                    f"{one.where} is a NumPy array next to CUDA arrays; move it to {device} first"
                )
        found = self.kernel_for(operands)
        parameters = tuple(
            _pack(one, dtype, written)
            for one, dtype, written in zip(operands, found.types, found.written, strict=True)
        )
        checks = checks_of_call(name, device, self.checks, options)
        modes = modes_of_call(checks, device)
        handle = stream_of(options.stream, library, device, operands)
        host = HostOptions(checks, modes, regions_of(modes, operands))
        with about(name):
            launch = make_launch(grid, block, options, handle, host, found.cooperative)
        symbol = RawSymbol(found.name)
        found.loader.check_captured(symbol, device, handle)
        kernel = found.loader.kernel(symbol, device, modes)
        named = options.stream is not None
        return _Prepared(
            kernel,
            launch,
            device,
            operands,
            parameters,
            found.types,
            found,
            named=named,
            written=found.written,
        )


@dataclass(frozen=True)
class _Prepared(PreparedRaw):
    """A checked call, with the kernel that was found for it."""

    found: ViewKernel


def is_wide(view: ArrayView) -> bool:
    """Return whether offsets in an array need 64 bits."""
    itemsize = dtypes.lookup(view.dtype).itemsize
    if not view.size:
        return False
    span = sum(abs(step) * (n - 1) for n, step in zip(view.shape, view.strides, strict=True))
    return span + itemsize > _WIDE


def _pack(operand: RawArgument, dtype: str, written: bool) -> bytes:
    view = operand.view
    if view is None:
        if isinstance(operand.value, np.void):
            return operand.value.tobytes()
        return marshal.convert_scalar(operand.value, dtype, operand.where)
    if written and operand.library is not None:
        check_writable(operand.where, operand.library, view)
    return pack_view(view)


def pack_view(view: ArrayView) -> bytes:
    """Pack ``kspec::View<T, NDIM, ...>``."""
    room = max(1, len(view.shape))
    numbers = (*(view.shape or (0,)), *(view.strides or (0,)))
    return struct.pack(f"Pq{2 * room}q", view.ptr, size_of(view.shape), *numbers)


def find_view_route(
    kernel: Any,
    grid: Any,
    block: Any,
    args: Any,
    shared_mem: int,
    stream: Any,
    more: More | None,
) -> None:
    """Answer a call by the route for its arguments, or in full."""
    routes = kernel._routes
    is_listed = type(args) is tuple or type(args) is list
    route = routes[types_of(args)] if is_listed else None
    if route is not None:
        routes.last = route
        route(kernel, grid, block, args, shared_mem, stream, more)
        return
    kernel.prepare(grid, block, args, options_of(shared_mem, stream, more)).run()
    if is_listed:
        routes.learn(args, lambda: _route_of(args))


def _route_of(args: Sequence[Any]) -> Route | None:
    values = [_value(one) for one in args]
    known = tuple(one for one in values if one is not None)
    if len(known) < len(values) or not any(one.access for one in known):
        return None
    return make_raw_route(RawPattern(known, types_of(args)), _make_plan, find_view_route)


def _value(arg: Any) -> Value | None:
    kind = type(arg)
    access = access_of(kind)
    if access is not None:
        return Value(access, written=True, varies=True, exact=True, packed="{p}", format="P")
    if kind is int:
        return Value(place=_IS_NARROW)
    if kind in (bool, float, complex):
        return Value()
    if issubclass(kind, np.generic) and not issubclass(kind, np.flexible):
        return Value()
    return None


class ViewPlan(Ordered, Blocks):
    """The common part of all calls with one key, as in `kspec.runtime.raw.call_cache`."""

    __slots__ = ("convert", "device", "guard", "refuses", "written")

    def __init__(self, prepared: _Prepared, pattern: RawPattern) -> None:
        self.device, self.written = prepared.device, prepared.written
        parameters = prepared.parameters
        super().__init__(
            prepared.kernel, prepared.launch, lambda: (parameters, None), _packer(prepared)
        )
        self.convert = tuple(
            marshal.converter(type(operand.value), dtype, operand.where) if dtype else None
            for operand, dtype in zip(prepared.operands, prepared.types, strict=True)
        )
        self.guard = guard_of(prepared, pattern)
        is_stale, refused = prepared.found.is_stale, refusal_of(prepared)
        if refused is None:
            self.refuses = lambda kernel, arrays: is_stale()
        else:
            self.refuses = lambda kernel, arrays: is_stale() or refused(kernel, arrays)


def _packer(prepared: PreparedRaw) -> Callable[..., None]:
    """Return a function that writes addresses and numbers into parameters, but not shapes."""
    writers, offset = [], 0
    for data, dtype in zip(prepared.parameters, prepared.types, strict=True):
        form = struct.Struct(f"{len(data)}s" if dtype else "P")
        writers.append((offset, form.pack_into))
        offset += marshal.up(len(data), 16)

    def pack(memory: Any, begin: int, *values: Any) -> None:
        for (place, write), value in zip(writers, values, strict=True):
            write(memory, begin + place, value)

    return pack


def _make_plan(prepared: PreparedRaw, pattern: RawPattern) -> ViewPlan | None:
    """Return the plan of a call; None if the next one like it must be checked again."""
    assert isinstance(prepared, _Prepared)
    if not prepared.launch.host.is_repeatable or prepared.launch.cooperative:
        return None
    for operand in prepared.operands:
        view = operand.view
        # NumPy takes structs that differ in their alignment for equal.
        if view is not None and dtypes.lookup(view.dtype).fields:
            return None
    return ViewPlan(prepared, pattern)
