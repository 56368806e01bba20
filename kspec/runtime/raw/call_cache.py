"""Repeated calls of raw kernels: their patterns, and the function that answers them.

A raw kernel receives only the array's address, so plans (`kspec.runtime.callcache.cache`) hold
for arrays of any shape; alignment does not matter.  For ``float* x, float a``, declared, with
CuPy's arrays::

    def call(kernel, grid, block, args, shared_mem, stream, more):
        key = plan = None
        try:
            if type(args) is not tuple and type(args) is not list: raise Refused
            integers(*grid, *block, shared_mem)
            a0, a1 = args
            p0 = a0.data.ptr
            if not a0._c_contiguous: raise Refused
            handle = current_stream().ptr if stream is None else stream_handle(stream)
            key = (type(a0), type(a1), grid, block, shared_mem, more, a0.dtype, handle)
            plan = plans[key]
            ...
"""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from kspec.model import dtypes
from kspec.model.checks import Checks
from kspec.model.signature import CParam
from kspec.runtime.arguments.checks import Guard
from kspec.runtime.arguments.opaque import HANDLES, POINTER, STRUCT, is_cupys, kind_of, needs_cuda
from kspec.runtime.callcache.cache import Memo, Refused, Route, Routes, types_of
from kspec.runtime.callcache.codegen import (
    afterwards,
    compile_route,
    follow,
    streams,
    streams_of,
    tell,
)
from kspec.runtime.callcache.launch_plan import Ordered, Refusal, is_checked, lent
from kspec.runtime.callcache.param_block import Blocks
from kspec.runtime.driver.device import Device
from kspec.runtime.driver.launch import Launch, LaunchOptions, Three
from kspec.runtime.libraries.array_access import Access, access_of
from kspec.runtime.libraries.registry import Library
from kspec.runtime.libraries.stream_order import after_launch, stream_handle
from kspec.runtime.memory.symbol import Symbol
from kspec.runtime.modules.module import LoadedKernel
from kspec.runtime.raw.untyped_args import RawArgument, handle_regions, struct_bytes
from kspec.runtime.schedules import marshal
from kspec.runtime.schedules.marshal import ParameterBlock

More = tuple[Three | None, bool]  # cluster and pdl, of calls that have them


def options_of(shared_mem: int, stream: Any, more: More | None) -> LaunchOptions:
    """Return the options of a repeated call that is checked in full after all."""
    return LaunchOptions(stream, shared_mem, *more or ())


@dataclass(frozen=True)
class PreparedRaw:
    """A checked call of a raw kernel.

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
    types : tuple of str
        Dtypes that declared numbers are converted to; empty for everything else.
    named : bool
        Whether the caller has named the stream.
    written : tuple of bool
        Whether the kernel writes to the memory of an argument; empty if that is not declared.
    """

    kernel: LoadedKernel
    launch: Launch
    device: Device
    operands: tuple[RawArgument, ...]
    parameters: tuple[bytes, ...]
    types: tuple[str, ...]
    named: bool = field(default=False, kw_only=True)
    written: tuple[bool, ...] = field(default=(), kw_only=True)

    def run(self) -> None:
        """Launch the kernel once."""
        self.kernel.launch(self.launch, ParameterBlock(self.parameters))
        after_launch(self.device, self.launch.stream, lent(self.operands), self.named)
        for library, array in self.counted():
            library.wrote(array)

    def counted(self) -> list[tuple[Library, Any]]:
        """Return the arrays that are written to whose libraries want to know."""
        return [
            (one.library, one.value)
            for one in itertools.compress(self.operands, self.written)
            if one.library is not None and one.library.counts
        ]


class Caller(Protocol):
    """Interface of a raw kernel to call code: `kspec.runtime.raw.call.RawCaller`."""

    checks: Checks | None
    _routes: RawRoutes
    _chooses: bool  # whether dtypes of arrays choose what is launched

    @property
    def _params(self) -> Sequence[CParam] | None:
        """Declared parameters; None if they are not declared."""

    def prepare(self, *call: Any, **options: Any) -> PreparedRaw:
        """Check a call."""


class RawRoutes(Routes):
    """The routes of a raw kernel.

    Attributes
    ----------
    last : callable
        The route that was taken last, which is tried first.
    """

    def __init__(self) -> None:
        super().__init__()
        self.last: Route = _find


def _find(
    kernel: Caller,
    grid: Any,
    block: Any,
    args: Any,
    shared_mem: int,
    stream: Any,
    more: More | None,
) -> None:
    """Answer a call by the route for its arguments, or in full."""
    if type(args) is not tuple and type(args) is not list:  # an iterator can be read once
        kernel.prepare(grid, block, args, options_of(shared_mem, stream, more)).run()
        return
    routes = kernel._routes
    route = routes[types_of(args)]
    if route is not None:
        routes.last = route
        route(kernel, grid, block, args, shared_mem, stream, more)
        return
    kernel.prepare(grid, block, args, options_of(shared_mem, stream, more)).run()
    routes.learn(args, lambda: _route_of(args, kernel._params, kernel._chooses))


@dataclass(frozen=True)
class Value:
    """Properties of an argument that call code relies on.

    Attributes
    ----------
    access : Access or None
        How it is read if it is an array.
    written : bool
        Whether it must not be read-only.
    varies : bool
        Whether that is so of some calls only; plans know which.
    flat : bool
        Whether it must be C-contiguous, and its dtype is looked at.
    exact : bool
        Whether its shape and strides are looked at.
    packed : str
        What is packed of it, with ``{x}`` for the argument, ``{p}`` for its address and
        ``{convert}`` for what makes bytes of it.
    format : str
        Format of that in `struct`; without one it is the bytes of a declared parameter.
    doubtful : str
        Condition under which another value may be packed although it is equal.
    place : str
        Elements of a key: where it is, if it is a handle.
    """

    access: Access | None = None
    written: bool = False
    varies: bool = False
    flat: bool = False
    exact: bool = False
    packed: str = "{convert}({x})"
    format: str = ""
    doubtful: str = ""
    place: str = ""


@dataclass(frozen=True)
class RawPattern:
    """Calls that differ in values only; at least one is an array.

    Attributes
    ----------
    values : tuple of Value
        The arguments.
    types : tuple of type
        Theirs.
    """

    values: tuple[Value, ...]
    types: tuple[type, ...]


def _route_of(args: Sequence[Any], params: Sequence[CParam] | None, chooses: bool) -> Route | None:
    """Return the function for calls with arguments of these types; None if there is none."""
    values = [
        _value(arg, params[number] if params is not None else None, chooses)
        for number, arg in enumerate(args)
    ]
    if not any(one is not None and one.access for one in values):
        return None
    known = tuple(one for one in values if one is not None)
    if len(known) < len(values):
        return None
    return make_raw_route(RawPattern(known, types_of(args)), _make_plan)


def _value(arg: Any, param: CParam | None, chooses: bool) -> Value | None:
    kind = type(arg)
    if arg is None:
        return Value(packed="0", format="P")
    access = access_of(kind)
    if access is not None:
        if param is None:
            return Value(access, exact=chooses, packed="{p}", format="P")
        # Arrays of one element are values of parameters that are not pointers.
        written = not param.const
        if not param.pointer:
            return None
        return Value(access, written, flat=True, packed="{p}", format="P")
    opaque = kind_of(arg)
    if opaque == STRUCT:
        return Value()
    if opaque in (*HANDLES, POINTER):
        return Value(packed="{x}.ptr", format="P", place=_place(arg))
    plain = kind in (bool, int, float, complex)
    if not plain and (not issubclass(kind, np.generic) or issubclass(kind, np.flexible)):
        return None
    if param is not None:
        return Value()
    if kind is complex:
        doubtful = "not ({x}.real and {x}.imag)"  # 0.0 == -0.0
        return Value(packed="{x}.real, {x}.imag", format="dd", doubtful=doubtful)
    if kind is float:
        return Value(packed="{x}", format="d", doubtful="not {x}")
    if plain:
        return Value(packed="{x}", format={bool: "?", int: "q"}[kind])
    dtype = arg.dtype
    if dtype.kind in "biu":
        return Value(packed="{x}", format=dtype.char)  # NumPy has the letters of `struct`
    # Not as a number, which would lose the payload of a NaN.
    return Value(packed="{x}.tobytes()", format=f"{dtype.itemsize}s")


def _place(arg: Any) -> str:
    """Return the elements of a key that say where a texture, surface or pointer is."""
    if isinstance(arg, Symbol):
        return "{x}.place.kind, {x}.place.ordinal, {x}.ptr"  # guards have its memory
    if needs_cuda(arg):
        return ""  # with the arrays
    return "{x}.device_id" if is_cupys(arg) else "{x}.device.kind, {x}.device.ordinal"


class RawPlan(Ordered, Blocks):
    """The common part of all calls of a raw kernel with one key, as in `plan.Plan`."""

    __slots__ = ("convert", "device", "guard", "refuses")

    def __init__(self, prepared: PreparedRaw, pattern: RawPattern) -> None:
        self.device = prepared.device
        fields = [
            f"{one.format or f'{len(data)}s'}{marshal.up(len(data), 16) - len(data)}x"
            for one, data in zip(pattern.values, prepared.parameters, strict=True)
        ]
        pack = struct.Struct("".join(fields)).pack_into
        parameters = prepared.parameters  # not the arrays
        super().__init__(prepared.kernel, prepared.launch, lambda: (parameters, None), pack)
        self.convert = tuple(
            _converter(operand, dtype, len(data))
            for operand, dtype, data in zip(
                prepared.operands, prepared.types, prepared.parameters, strict=True
            )
        )
        self.refuses = refusal_of(prepared)
        self.guard = guard_of(prepared, pattern)


def _converter(operand: RawArgument, dtype: str, size: int) -> Callable[[Any], bytes] | None:
    """Return a function that makes the bytes of an argument that has no format."""
    if kind_of(operand.value) == STRUCT:
        where = operand.where
        return lambda value: struct_bytes(where, value, size)
    return marshal.converter(type(operand.value), dtype, operand.where) if dtype else None


def _make_plan(prepared: PreparedRaw, pattern: RawPattern) -> RawPlan | None:
    """Return the plan of a call; None if the next one like it must be checked again."""
    if not prepared.launch.host.is_repeatable or prepared.launch.cooperative:
        return None
    for operand, value in zip(prepared.operands, pattern.values, strict=True):
        view = operand.view
        if value.access is None:
            continue
        # Arrays that are values: structs of one element, and those on the host next to CUDA's.
        # NumPy takes structs that differ in their alignment for equal.
        if view is None or view.device != prepared.device or dtypes.lookup(view.dtype).fields:
            return None
    return RawPlan(prepared, pattern)


def refusal_of(prepared: PreparedRaw) -> Refusal | None:
    """Return a test of other conditions: checks on the host device, conjugate tensors."""
    views = [one.view for one in prepared.operands if one.view is not None]
    torch = any(
        one.library is not None and one.library.name == "torch" for one in prepared.operands
    )
    lazy = torch and any(dtypes.lookup(view.dtype).kind == "c" for view in views)
    if not prepared.device.is_host:
        return _any_conjugate if lazy else None
    made = prepared.launch.host.checks
    if not lazy:
        return lambda kernel, arrays: is_checked(kernel.checks, made)
    return lambda kernel, arrays: is_checked(kernel.checks, made) or _any_conjugate(kernel, arrays)


def guard_of(prepared: PreparedRaw, pattern: RawPattern) -> Guard | None:
    """Return a function that lists the memory of arrays for a launch; None if it needs none."""
    if not prepared.launch.host.modes:
        return None
    kernel: Any = prepared.kernel  # of the host device
    pairs = [
        (one.label, may_write)
        for one, value, may_write in zip(
            prepared.operands, pattern.values, kernel.writes_to, strict=False
        )
        if value.access is not None
    ]
    labels, may_write = [label for label, _ in pairs], [writes for _, writes in pairs]
    fixed = handle_regions(prepared.launch.host.modes, prepared.operands)
    return Guard(labels, may_write, Refused, fixed)


def _any_conjugate(kernel: Any, arrays: Sequence[Any]) -> bool:
    return any(hasattr(array, "is_conj") and array.is_conj() for array in arrays)


def make_raw_route(
    pattern: RawPattern,
    make_plan: Callable[[PreparedRaw, RawPattern], Blocks | None],
    find: Route = _find,
) -> Route:
    """Return the function for a pattern; other calls are `find`'s."""
    memo: Memo[Blocks] = Memo()

    def check(
        kernel: Caller,
        key: Hashable,
        grid: Any,
        block: Any,
        args: Any,
        shared_mem: Any,
        stream: Any,
        more: More | None,
    ) -> None:
        if type(args) not in (tuple, list) or types_of(args) != pattern.types:
            find(kernel, grid, block, args, shared_mem, stream, more)
            return
        prepared = kernel.prepare(grid, block, args, options_of(shared_mem, stream, more))
        prepared.run()
        if key is not None and key not in memo.plans:
            memo.learn(key, lambda: make_plan(prepared, pattern))

    names: dict[str, Any] = {
        "Refused": Refused,
        "check": check,
        "integers": math.gcd,  # takes integers only: 2.0, which is none, equals 2
        "plans": memo.plans,
        "stream_handle": stream_handle,
    }
    for value in pattern.values:
        if value.access is not None:
            names |= value.access.names
    exec(compile_route(render_raw_route(pattern)), names)
    route: Route = names["call"]
    return route


def render_raw_route(pattern: RawPattern) -> str:
    """Return the text of the function for a pattern."""
    lines: list[str] = []
    parts = [f"type(a{k})" for k in range(len(pattern.values))]
    parts += ["grid", "block", "shared_mem", "more"]
    parts += [one.place.format(x=f"a{k}") for k, one in enumerate(pattern.values) if one.place]
    refusals: list[str] = []
    for k, value in enumerate(pattern.values):
        if value.access is None:
            continue
        access = value.access.named(f"a{k}")
        lines += access.lines(f"a{k}")
        parts.append(access.exact if value.exact else access.flat if value.flat else access.bare)
        parts += [access.writable] if value.written and access.writable else []
        refusals += [access.refused] if access.refused else []
        refusals += [access.scattered] if value.flat and access.scattered else []
    current = streams_of(
        (f"a{k}", value.access) for k, value in enumerate(pattern.values) if value.access
    )
    if refusals:
        lines.append(f"if {' or '.join(refusals)}: raise Refused")
    arrays = [f"a{k}" for k, value in enumerate(pattern.values) if value.access]
    packed = [
        value.packed.format(x=f"a{k}", p=f"p{k}", convert=f"plan.convert[{k}]")
        for k, value in enumerate(pattern.values)
    ]
    doubts = [
        value.doubtful.format(x=f"a{k}") for k, value in enumerate(pattern.values) if value.doubtful
    ]
    body = [
        "if type(args) is not tuple and type(args) is not list: raise Refused",
        "integers(*grid, *block, shared_mem)",
        f"{', '.join(f'a{k}' for k in range(len(pattern.values)))}, = args",
        *lines,
        *streams(current),
        f"key = ({', '.join((*parts, 'handle'))})",
        "plan = plans[key]",
        f"if plan.refuses is not None and plan.refuses(kernel, ({', '.join(arrays)},)):",
        "    raise Refused",
        *tell(
            value.access.named(f"a{k}") for k, value in enumerate(pattern.values) if value.access
        ),
        *follow(current),
        f"now = ({', '.join(packed)},)",
        "free = plan.free",
        "block_ = free.pop(now, None)",
        "if block_ is None: block_ = plan.adapt(now)",
        *([f"elif {' or '.join(doubts)}: plan.hold(block_, now)"] if doubts else []),
        f"if plan.guard is not None: plan.guard(block_.launch, ({', '.join(arrays)},))",
    ]
    return "\n".join(
        [
            "def call(kernel, grid, block, args, shared_mem, stream, more):",
            "    key = plan = None",
            "    try:",
            *(f"        {line}" for line in body),
            "    except KeyError:",
            "        plan = None",
            "    except Exception:",
            "        key = plan = None",  # the key may have no hash
            "    if plan is None:",
            "        return check(kernel, key, grid, block, args, shared_mem, stream, more)",
            # From here on nothing may lead to the checks: they would launch again.
            "    code = block_.launch()",
            "    if code: plan.relaunch(block_, code)",
            # Another thread may have given back one that holds the same.
            "    if free.setdefault(now, block_) is not block_: plan.spare(block_)",
            *(f"    {line}" for line in afterwards(current, arrays)),
            *(f"    {line}" for line in _wrote(pattern)),
        ]
    )


def _wrote(pattern: RawPattern) -> list[str]:
    """Return the lines that record writes to arrays."""
    lines = []
    for k, value in enumerate(pattern.values):
        if value.access is None or not value.written or not value.access.wrote:
            continue
        condition = f"if plan.written[{k}]: " if value.varies else ""
        lines.append(condition + value.access.named(f"a{k}").wrote)
    return lines
