"""Calls of kernels that take whole arrays, with shape and strides: those made of Python functions.

Such a kernel has parameters ``kspec::View`` of ``kspec/view.cuh``, which are packed here.  The
dtypes, axes and layouts of a call's arguments decide which kernel it is; that takes long, so a
repeated call is one lookup, as for all other kernels (`kspec.runtime.raw.call_cache`).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kspec.dataclass import dataclass
from kspec.errors import ArgumentTypeError
from kspec.model import dtypes
from kspec.model.shapes import size_of
from kspec.model.stages import RawSymbol
from kspec.runtime.callcache.codegen import ArgumentCode
from kspec.runtime.driver.device import Device
from kspec.runtime.libraries.aliasing import check_writable
from kspec.runtime.libraries.array_access import access_of
from kspec.runtime.memory import ArrayView
from kspec.runtime.modules.loader import KernelLoader
from kspec.runtime.raw.call import GridKernel
from kspec.runtime.raw.call_cache import Choice
from kspec.runtime.raw.untyped_args import RawArgument
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


class ViewCaller(GridKernel):
    """Base of objects that find a kernel for their arguments and launch it."""

    _names: Sequence[str]

    def kernel_for(self, operands: Sequence[RawArgument]) -> ViewKernel:
        """Return the kernel for some arguments."""
        raise NotImplementedError

    def complete(self, args: Sequence[Any]) -> tuple[Any, ...]:
        """Return the arguments of a call with those that it leaves out."""
        raise NotImplementedError

    def operands(self, args: Sequence[Any]) -> tuple[RawArgument, ...]:
        """Return the classified arguments of a call, with those that it leaves out."""
        return tuple(
            RawArgument(self.name, number, value, name, pointer=True)
            for number, (name, value) in enumerate(
                zip(self._names, self.complete(args), strict=True)
            )
        )

    def choose(
        self, operands: Sequence[RawArgument], device: Device, template: tuple[int, ...] = ()
    ) -> Choice:
        """Return the kernel for some arguments, and what they are packed to."""
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
        return Choice(
            RawSymbol(found.name),
            found.loader,
            parameters,
            found.types,
            found.written,
            found.cooperative,
            found.is_stale,
        )

    def code_of(self, number: int, value: Any) -> ArgumentCode | None:
        """Return the code for an argument; None if calls with its type are checked in full."""
        kind = type(value)
        access = access_of(kind)
        if access is not None:
            return ArgumentCode.of_array(access, "exact", written=True, varies=True)
        if kind is int:
            return ArgumentCode(place=_IS_NARROW)
        if kind in (bool, float, complex):
            return ArgumentCode()
        if issubclass(kind, np.generic) and not issubclass(kind, np.flexible):
            return ArgumentCode()
        return None


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
