"""Repeated calls of kernels with a grid, raw and jitted: their types and launch plans.

A raw kernel receives only an array's address, so its plans (`kspec.runtime.callcache`) hold
for arrays of any shape, and alignment does not matter.  For ``float* x, float a``, declared, with
CuPy's arrays::

    def call(kernel, grid, block, args, shared_mem, stream, more):
        key = None
        try:
            if type(args) is not tuple and type(args) is not list: raise Refused
            integers(*grid, *block, shared_mem)
            a0, a1, = args
            p0 = a0.data.ptr
            if not a0._c_contiguous: raise Refused
            handle = current_stream().ptr if stream is None else stream_handle(stream)
            key = (type(a0), type(a1), a0.dtype, grid, block, shared_mem, more, handle)
            plan = plans[key]
            ...
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from kspec.dataclass import dataclass
from kspec.model import dtypes
from kspec.model.checks import Checks
from kspec.model.stages import RawSymbol
from kspec.runtime.arguments.guard import Guard
from kspec.runtime.arguments.opaque import STRUCT, kind_of
from kspec.runtime.callcache import (
    CacheEntry,
    CallCache,
    CallFunction,
    Refused,
    types_of,
)
from kspec.runtime.callcache.codegen import ArgumentCode, CallType
from kspec.runtime.callcache.launch_plan import Ordered, Refusal, any_of, is_checked
from kspec.runtime.callcache.param_buffer import ParameterBuffers
from kspec.runtime.callcache.prepared import owners_of
from kspec.runtime.driver.device import Device
from kspec.runtime.driver.launch import Launch, LaunchOptions, Three
from kspec.runtime.libraries.registry import Library
from kspec.runtime.libraries.stream_order import after_launch
from kspec.runtime.modules import LoadedKernel
from kspec.runtime.modules.loader import KernelLoader
from kspec.runtime.raw.fitting import INTEGERS, ReadTypes, integer_format
from kspec.runtime.raw.untyped_args import RawArgument, handle_regions, struct_bytes
from kspec.runtime.schedules import marshal
from kspec.runtime.schedules.marshal import PackedParameters

# Cluster, pdl and integers of the template, of calls that have any.
More = tuple[Three | None, bool, tuple[int, ...]]


@dataclass(frozen=True)
class Choice:
    """The kernel for some arguments, and what they are packed to.

    Attributes
    ----------
    symbol : RawSymbol
        The kernel in its module.
    loader : KernelLoader
        The module.
    parameters : tuple of bytes
        The arguments.
    types : tuple of str
        Dtypes that numbers are converted to; empty for everything else.
    written : tuple of bool
        Whether the kernel may write to the memory of an argument.
    cooperative : bool
        Whether all blocks must be resident.
    is_stale : callable or None
        Returns whether the kernel was made of something that has changed since.
    """

    symbol: RawSymbol
    loader: KernelLoader
    parameters: tuple[bytes, ...]
    types: tuple[str, ...]
    written: tuple[bool, ...]
    cooperative: bool = False
    is_stale: Callable[[], bool] | None = None


@dataclass(frozen=True)
class PreparedRaw:
    """A checked call of a kernel with a grid.

    Attributes
    ----------
    kernel : LoadedKernel
        What is launched.
    launch : Launch
        How.
    device : Device
        Where.
    operands : tuple of RawArgument
        The arguments.
    parameters : tuple of bytes
        What they are packed to.
    choice : Choice
        Why it is this kernel.
    named : bool
        Whether the caller has named the stream.
    """

    kernel: LoadedKernel
    launch: Launch
    device: Device
    operands: tuple[RawArgument, ...]
    parameters: tuple[bytes, ...]
    choice: Choice
    named: bool = False

    def run(self) -> None:
        """Launch the kernel once."""
        for library, array in self.counted():  # first: it may write half and fault
            library.wrote(array)
        self.kernel.launch(self.launch, PackedParameters(self.parameters))
        after_launch(self.device, self.launch.stream, owners_of(self.operands), self.named)

    def counted(self) -> list[tuple[Library, Any]]:
        """Return the arrays that are written to whose libraries want to know."""
        return [
            (one.library, one.value)
            for one in itertools.compress(self.operands, self.choice.written)
            if one.library is not None and one.library.counts
        ]


class Caller(Protocol):
    """Interface of a kernel to call code: `kspec.runtime.raw.call.GridKernel`."""

    checks: Checks | None
    _call_cache: GridCallCache

    def prepare(self, grid: Any, block: Any, args: Any, options: LaunchOptions, /) -> PreparedRaw:
        """Check a call."""

    def code_of(self, number: int, value: Any) -> ArgumentCode | None:
        """Return the code for an argument; None if calls with its type are checked in full."""


class GridCallCache(CallCache):
    """The call cache of a kernel with a grid.

    Attributes
    ----------
    last : callable
        The function that was taken last, which is tried first.
    read : dict of RawSymbol to ReadTypes
        The types of parameters as the texts of kernels show them.
    """

    def __init__(self) -> None:
        super().__init__()
        self.last: CallFunction = find
        self.read: dict[RawSymbol, ReadTypes] = {}


def options_of(shared_mem: int, stream: Any, more: More | None) -> LaunchOptions:
    """Return the options of a repeated call that is checked in full after all."""
    cluster, pdl, template = more or (None, False, ())
    return LaunchOptions(stream, shared_mem, cluster, pdl, template=template)


def find(
    kernel: Caller,
    grid: Any,
    block: Any,
    args: Any,
    shared_mem: int,
    stream: Any,
    more: More | None,
) -> None:
    """Answer a call by the function for its arguments, or in full."""
    cache = kernel._call_cache
    is_listed = type(args) is tuple or type(args) is list  # an iterator can be read once
    call = cache[types_of(args)] if is_listed else None
    if call is not None:
        cache.last = call
        call(kernel, grid, block, args, shared_mem, stream, more)
        return
    kernel.prepare(grid, block, args, options_of(shared_mem, stream, more)).run()
    if is_listed:
        cache.learn(args, lambda: _entry_of(kernel, args))


def _entry_of(kernel: Caller, args: Sequence[Any]) -> GridEntry | None:
    """Return the entry for calls with arguments of these types; None if there is none."""
    found = [kernel.code_of(number, value) for number, value in enumerate(args)]
    code = tuple(one for one in found if one is not None)
    if len(code) < len(found) or not any(one.access for one in code):
        return None
    return GridEntry(GridCallType(code, ("grid", "block", "shared_mem", "more")), types_of(args))


@dataclass(frozen=True)
class GridCallType(CallType):
    """Calls with a grid, a block and a sequence of arguments."""

    is_aligned = False

    @property
    def parameters(self) -> tuple[str, ...]:
        """Parameters of the function, after the kernel."""
        return ("grid", "block", "args", "shared_mem", "stream", "more")

    @property
    def passed(self) -> tuple[str, ...]:
        """Names of the values that the checks of a call need."""
        return self.parameters

    @property
    def opening(self) -> list[str]:
        """First lines, which set the arguments."""
        return [
            "if type(args) is not tuple and type(args) is not list: raise Refused",
            "integers(*grid, *block, shared_mem)",
            f"{', '.join(self.given)}, = args",
        ]

    @property
    def keyed(self) -> list[str]:
        """First elements of keys: the last function is tried with any arguments."""
        return [f"type({name})" for name in self.given]


class GridEntry(CacheEntry):
    """Calls of a kernel with a grid by arguments of certain types."""

    def __init__(self, calls: GridCallType, types: tuple[type, ...]) -> None:
        super().__init__(calls)
        self._types = types

    def check(self, kernel: Any, key: Any, *values: Any, shapeless: Any = None) -> Any:
        """Answer a call that has no plan; arguments of other types have another entry."""
        args = values[2]
        if type(args) not in (tuple, list) or types_of(args) != self._types:
            return find(kernel, *values)
        return super().check(kernel, key, *values)

    def prepare(self, kernel: Any, values: Sequence[Any]) -> Any:
        """Check a call in full."""
        grid, block, args, shared_mem, stream, more = values
        return kernel.prepare(grid, block, args, options_of(shared_mem, stream, more))

    def make_plan(self, prepared: PreparedRaw) -> GridPlan | None:
        """Return the plan of a call; None if the next one like it must be checked again."""
        launch = prepared.launch
        if not launch.host.is_repeatable or launch.cooperative:
            return None
        types = prepared.choice.types
        points = prepared.kernel.points or [None] * len(types)
        rows = zip(prepared.operands, self.calls.arguments, types, points, strict=True)
        for operand, code, dtype, is_pointer in rows:
            view = operand.view
            if code.access is None:
                # Floats that become integers must be whole, which each call has to look at.
                is_float = isinstance(operand.value, float | np.floating)
                if is_float and dtype and dtypes.lookup(dtype).kind in "iu":
                    return None
                continue
            # Arrays that are values: structs of one element, and those on the host next to CUDA's.
            # NumPy takes structs that differ in their alignment for equal.
            if view is None or view.device != prepared.device or dtypes.lookup(view.dtype).fields:
                return None
            # Who takes an address in a struct takes the element of a structured array, too.
            if is_pointer is False and code.key == "bare":
                return None
        sizes = map(len, prepared.parameters)
        formats = [*map(_format, self.calls.arguments, types, sizes)]
        known = [one for one in formats if one is not None]
        return GridPlan(prepared, self.calls.arguments, known) if known == formats else None


class GridPlan(Ordered, ParameterBuffers):
    """The common part of all calls with one key, as in `launch_plan.Plan`.

    Attributes
    ----------
    written : tuple of bool
        Whether the kernel may write to the memory of an argument.
    """

    __slots__ = ("convert", "device", "guard", "refuses", "written")

    def __init__(
        self, prepared: PreparedRaw, code: Sequence[ArgumentCode], formats: Sequence[str]
    ) -> None:
        self.device, choice = prepared.device, prepared.choice
        self.written = choice.written
        parameters = prepared.parameters  # not the arrays
        pack = marshal.packer(formats, parameters)
        super().__init__(prepared.kernel, prepared.launch, lambda: (parameters, None), pack)
        rows = zip(prepared.operands, choice.types, parameters, strict=True)
        self.convert = tuple(_converter(one, dtype, len(data)) for one, dtype, data in rows)
        self.refuses = _refusal(prepared)
        self.guard = _guard(prepared, code)


def _format(code: ArgumentCode, dtype: str, size: int) -> str | None:
    """Return the format of an argument in `struct`; None if each call has to look at it."""
    return integer_format(code.format, dtype, size) if code.format in INTEGERS else code.format


def _converter(operand: RawArgument, dtype: str, size: int) -> Callable[[Any], bytes] | None:
    """Return a function that makes the bytes of an argument that has no format."""
    if kind_of(operand.value) == STRUCT:
        where = operand.where
        return lambda value: struct_bytes(where, value, size)
    return marshal.converter(type(operand.value), dtype, operand.where) if dtype else None


def _refusal(prepared: PreparedRaw) -> Refusal | None:
    """Return a test of other conditions.

    Sources that change, checks on the host device, conjugate tensors.
    """
    conditions: list[Refusal] = []
    made = prepared.launch.host.checks
    if prepared.device.is_host:
        conditions.append(lambda kernel, arrays: is_checked(kernel.checks, made))
    libraries = {one.library.name for one in prepared.operands if one.library is not None}
    views = [one.view for one in prepared.operands if one.view is not None]
    if "torch" in libraries and any(dtypes.lookup(view.dtype).kind == "c" for view in views):
        conditions.append(_any_conjugate)
    is_stale, refused = prepared.choice.is_stale, any_of(conditions)
    if is_stale is None:
        return refused
    if refused is None:
        return lambda kernel, arrays: is_stale()
    return lambda kernel, arrays: is_stale() or refused(kernel, arrays)


def _any_conjugate(kernel: Any, arrays: Sequence[Any]) -> bool:
    return any(hasattr(array, "is_conj") and array.is_conj() for array in arrays)


def _guard(prepared: PreparedRaw, code: Sequence[ArgumentCode]) -> Guard | None:
    """Return a function that lists the memory of arrays for a launch; None if it needs none."""
    modes = prepared.launch.host.modes
    if not modes:
        return None
    kernel: Any = prepared.kernel  # of the host device
    pairs = [
        (one.label, may_write)
        for one, argument, may_write in zip(prepared.operands, code, kernel.writes_to, strict=False)
        if argument.access is not None
    ]
    labels, may_write = [label for label, _ in pairs], [writes for _, writes in pairs]
    return Guard(labels, may_write, Refused, handle_regions(modes, prepared.operands))
