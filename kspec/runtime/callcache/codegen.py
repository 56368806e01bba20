"""The generator of call code: the text of the functions that answer repeated calls.

One generator serves generated, raw and jitted kernels: a `CallType` says how arguments arrive, what
a launch plan depends on, and what a call returns.  The text has no loops, which for three arrays
halves the time of a call.  `kspec.runtime.callcache` compiles it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from kspec.dataclass import dataclass
from kspec.model.declaration import PLACES
from kspec.runtime.arguments.opaque import TEXTURE, kind_of, needs_cuda
from kspec.runtime.callcache.launch_plan import ALIGNMENT
from kspec.runtime.libraries.array_access import Access, access_of

_SCALARS = (bool, int, float, complex, np.generic)
_LOW = ALIGNMENT - 1  # bits of an address
_ADDRESS = "{p}"
_MAX_SHAPES = 1024  # that a function remembers
_FILE = str(Path(__file__).with_name("<call>"))  # in the folder, by which tools know kspec's code


@dataclass(frozen=True)
class ArgumentCode:
    """Expressions about one argument, ``{x}``, of all calls of one type.

    Attributes
    ----------
    access : Access or None
        How it is read; None if it is not an array.
    key : {"key", "exact", "flat", "bare"}
        Which row of its `Access` a plan depends on: the kernel sees the elements, their strides
        too, an address of contiguous elements, or only an address.
    written : bool
        Whether the kernel writes to it, so that it must not be read-only.
    varies : bool
        Whether only the plan of a call knows if the kernel writes to it.
    packed : str
        Value for the parameter buffer, with ``{p}`` for the address and ``{convert}`` for the
        plan's conversion to bytes.
    format : str
        Format of that value in `struct`; empty for bytes of a declared parameter.
    doubtful : str
        Condition under which another value may be packed although it is equal.
    place : str
        Elements of a key: the place of a texture or another handle.
    """

    access: Access | None = None
    key: str = "key"
    written: bool = False
    varies: bool = False
    packed: str = "{convert}({x})"
    format: str = ""
    doubtful: str = ""
    place: str = ""

    @classmethod
    def of_array(
        cls, access: Access, key: str = "key", *, written: bool = False, varies: bool = False
    ) -> ArgumentCode:
        """Return the code for an array, of which a kernel is passed the address."""
        return cls(access, key, written, varies, _ADDRESS, "P")

    def numbered(self, number: int) -> ArgumentCode:
        """Return the expressions about the argument in the variable ``a0``, ``a1`` ..."""
        name = f"a{number}"
        words = {"x": name, "p": f"p{number}", "convert": f"plan.convert[{number}]"}
        return replace(
            self,
            access=None if self.access is None else self.access.named(name),
            packed=self.packed.format(**words),
            doubtful=self.doubtful.format(**words),
            place=self.place.format(**words),
        )

    @property
    def keyed(self) -> list[str]:
        """Elements of a key."""
        access = self.access
        found = [self.place]
        if access is not None:
            found += [getattr(access, self.key), access.writable if self.written else ""]
        return [one for one in found if one]

    @property
    def refusals(self) -> list[str]:
        """Conditions under which a call is checked in full."""
        access = self.access
        if access is None:
            return []
        found = [access.refused, access.scattered if self.key == "flat" else ""]
        return [one for one in found if one]


def argument_code(
    value: object, *, written: bool = False, exact: bool = False
) -> ArgumentCode | None:
    """Return the code for an argument of a generated kernel; None if there is none for its type."""
    access = access_of(type(value))
    if access is not None:
        return ArgumentCode.of_array(access, "exact" if exact else "key", written=written)
    if kind_of(value) == TEXTURE:
        return ArgumentCode(
            place="" if needs_cuda(value) else "{x}.device.kind, {x}.device.ordinal"
        )
    return ArgumentCode() if isinstance(value, _SCALARS) else None


@dataclass(frozen=True)
class CallType:
    """Calls that one function answers: they differ in values only.

    Here arguments arrive one by one; `kspec.runtime.raw.call_cache` has calls with a grid.

    Attributes
    ----------
    arguments : tuple of ArgumentCode
        In their order, at least one of them an array.
    options : tuple of str
        Parameters of the function, behind the arguments, that plans depend on.
    new : int
        Outputs that are to be made, of the library of the first array.
    outputs : int
        Outputs altogether.
    returned : {"none", "one", "tuple"}
        What calls return of them.
    grows : bool
        Whether calls of any shape may have everything else in common.
    extra : tuple of str
        More such parameters, behind all others: None unless they are given.
    """

    arguments: tuple[ArgumentCode, ...]
    options: tuple[str, ...] = ()
    new: int = 0
    outputs: int = 0
    returned: str = "none"
    grows: bool = False
    extra: tuple[str, ...] = ()

    is_aligned = True  # whether plans depend on the alignment of arrays

    @functools.cached_property
    def code(self) -> tuple[ArgumentCode, ...]:
        """Expressions about the arguments, with the names of variables."""
        return tuple(one.numbered(k) for k, one in enumerate(self.arguments))

    @property
    def given(self) -> tuple[str, ...]:
        """Names of the arguments."""
        return tuple(f"a{k}" for k in range(len(self.arguments)))

    @property
    def parameters(self) -> tuple[str, ...]:
        """Parameters of the function, after the kernel."""
        places = (f"a{k}" for k in range(max(PLACES, len(self.arguments))))
        extra = (f"{name}=None" for name in self.extra)
        return (*places, *self.options, "stream", *extra)

    @property
    def passed(self) -> tuple[str, ...]:
        """Names of the values that the checks of a call need."""
        return (*self.given, *self.options, *self.extra, "stream")

    @property
    def opening(self) -> list[str]:
        """First lines, which set the arguments."""
        return []

    @property
    def keyed(self) -> list[str]:
        """First elements of keys."""
        return []

    @property
    def made(self) -> tuple[str, ...]:
        """Names of the outputs that are to be made."""
        return tuple(f"a{len(self.arguments) + k}" for k in range(self.new))

    @property
    def arrays(self) -> tuple[str, ...]:
        """Names of the arguments that are arrays."""
        rows = zip(self.given, self.arguments, strict=True)
        return tuple(name for name, one in rows if one.access)

    @property
    def accesses(self) -> tuple[Access, ...]:
        """Access to the arrays, with the names of variables."""
        return tuple(one.access for one in self.code if one.access)

    @property
    def made_accesses(self) -> tuple[Access, ...]:
        """Access to the outputs that are to be made, likewise."""
        first = next(one.access for one in self.arguments if one.access)
        return tuple(map(first.named, self.made))

    @property
    def streams(self) -> tuple[str, ...]:
        """Expressions for the current streams of the libraries, that of the first array first."""
        found: dict[str, str] = {}  # one for each library
        rows = [one.access for one in self.arguments if one.access]
        for access, named in zip(rows, self.accesses, strict=True):
            found.setdefault(access.stream, named.stream)
        return tuple(found.values())

    @property
    def has_dynamic_shape(self) -> bool:
        """Whether dynamic-shape plans can answer them."""
        exact = any(one.key == "exact" for one in self.arguments)
        return self.grows and not exact and all(map(_uneven, self.accesses))


@functools.lru_cache(maxsize=256)
def compile_call(text: str) -> CodeType:
    """Return the code of a generated function; many kernels share it."""
    return compile(text, _FILE, "exec")


@functools.lru_cache(maxsize=256)
def _nested_code(text: str) -> CodeType:
    code = next(one for one in compile_call(text).co_consts if isinstance(one, CodeType))
    return code.replace(co_flags=code.co_flags | inspect.CO_NESTED)


def make_function(text: str, names: dict[str, Any], defaults: tuple[Any, ...]) -> FunctionType:
    """Return the function that a text defines, with these globals and defaults.

    Python without a GIL leaves functions of a module to the garbage collector, and with them what
    their globals hold. Nested functions go with their last reference, so this is a nested one.
    """
    code = _nested_code(text)
    return FunctionType(code, names, code.co_name, defaults)


def render_call(calls: CallType, *, any_shape: bool = False) -> str:
    """Return the text of ``call``, which looks up the launch plan.

    Parameters
    ----------
    calls : CallType
        The calls.
    any_shape : bool
        Whether a dynamic-shape plan answers those that have none: see `CallType.has_dynamic_shape`.
    """
    keyed = [*calls.keyed, *_keyed(calls)]
    if calls.is_aligned:
        each = ", ".join(f"{_pointer(name)} & {_LOW}" for name in calls.arrays)
        keyed.append(f"low and ({each},)")
    key = f"key = ({', '.join((*keyed, *calls.options, *calls.extra, 'handle'))})"
    body = [*calls.opening, *_read(calls), *_streams(calls)]
    if any_shape:
        dynamic = ["try:", *_indented(_by_dynamic_plan(calls), 1), "except Exception: plan = None"]
        body += [*_by_shape(calls, key), "if plan is None:", *_indented(dynamic, 1)]
        body += ["else:", *_indented(_by_plan(calls), 1)]
    else:
        body += [key, "plan = plans[key]", *_by_plan(calls)]
    return "\n".join(
        [
            f"def call(kernel, {', '.join(calls.parameters)}):",
            "    key = shapeless = None",
            "    try:",
            *_indented(body, 2),
            "    except KeyError:",
            "        plan = None",
            "    except Exception:",
            "        key = plan = None",  # the key may have no hash
            "    if plan is None:",
            f"        return check(kernel, key, {', '.join(calls.passed)}, shapeless=shapeless)",
            *_launch(calls),
        ]
    )


def _by_plan(calls: CallType) -> list[str]:
    """Return the lines that make `plan` write a buffer."""
    doubts = [one.doubtful for one in calls.code if one.doubtful]
    return [
        *_refusal(calls),
        *_make_outputs(calls, [f"plan.make[{k}]()" for k in range(calls.new)]),
        *_tell(calls),
        *_follow(calls),
        f"now = ({', '.join(_values(calls))},)",
        "free = plan.free",
        "buffer = free.pop(now, None)",
        "if buffer is None: buffer = plan.adapt(now)",
        *([f"elif {' or '.join(doubts)}: plan.hold(buffer, now)"] if doubts else []),
        "if plan.guard is not None:",
        f"    plan.guard(buffer.launch, ({', '.join((*calls.arrays, *calls.made))},))",
    ]


def _by_shape(calls: CallType, key: str) -> list[str]:
    """Return the lines that find the plan of a call, or set it to None.

    A new shape has none: it is not worth the making and hashing of a `key`.
    """
    return [
        f"shape = {calls.arrays[0]}.shape",
        "if shape in shapes:",
        f"    {key}",
        "    plan = plans.get(key)",
        "    if plan is None and comes_again(key): raise KeyError",
        "else:",
        "    plan = None",
        f"    if len(shapes) >= {_MAX_SHAPES}: shapes.clear()",
        "    shapes.add(shape)",
    ]


def _by_dynamic_plan(calls: CallType) -> list[str]:
    """Return the lines that find a dynamic-shape plan, and make it write a buffer."""
    names = calls.arrays
    unequal = [f"{name}.shape != shape" for name in names[1:]]
    uneven = [_uneven(access) for access in calls.accesses]
    bare = replace(calls, arguments=tuple(replace(one, key="bare") for one in calls.arguments))
    return [
        "n = prod(shape)",
        f"if low or not n or {' or '.join((*uneven, *unequal))}: raise Refused",
        f"shapeless = ({', '.join((*_keyed(bare), 'len(shape)', *calls.options, 'handle'))})",
        "plan = dynamic_plans[shapeless]",
        *_refusal(calls),
        *_make_outputs(calls, [f"plan.make[{k}](shape)" for k in range(calls.new)]),
        *_tell(calls),
        *_follow(calls),
        "free = plan.free",
        "try: now, buffer = free.popitem()",
        "except KeyError: now, buffer = object(), plan.fresh()",
        f"plan.fit(buffer, n, {', '.join(_values(calls))})",
    ]


def _uneven(access: Access) -> str:
    return access.scattered or access.uneven


def _indented(lines: Iterable[str], depth: int) -> list[str]:
    return ["    " * depth + line for line in lines]


def _keyed(calls: CallType) -> list[str]:
    return [text for one in calls.code for text in one.keyed]


def _read(calls: CallType) -> list[str]:
    """Return the lines that read addresses, and refuse calls that must be checked in full."""
    lines = [
        line
        for name, access in zip(calls.arrays, calls.accesses, strict=True)
        for line in access.lines(name)
    ]
    refusals = [text for one in calls.code for text in one.refusals]
    if refusals:
        lines.append(f"if {' or '.join(refusals)}: raise Refused")
    if calls.is_aligned:
        lines.append(f"low = ({' | '.join(map(_pointer, calls.arrays))}) & {_LOW}")
    return lines


def _refusal(calls: CallType) -> list[str]:
    arrays = ", ".join((*calls.arrays, ""))
    return [
        f"if plan.refuses is not None and plan.refuses(kernel, ({arrays})):",
        "    raise Refused",
    ]


def _make_outputs(calls: CallType, makers: Sequence[str]) -> list[str]:
    lines = []
    for name, access, maker in zip(calls.made, calls.made_accesses, makers, strict=True):
        pointer = _pointer(name)
        lines.append(f"{name} = {maker}")
        lines.append(f"{pointer} = {access.pointer}")
        lines.append(f"if {pointer} & {_LOW}: raise Refused")
    return lines


def _streams(calls: CallType) -> list[str]:
    """Return the lines that set the stream of a call, and those of other libraries."""
    first, *others = calls.streams
    lines = [f"handle = {first} if stream is None else stream_handle(stream)"]
    return lines + [f"other{k} = {one}" for k, one in enumerate(others)]


def _follow(calls: CallType) -> list[str]:
    """Return the lines that let a call wait for the streams of other libraries."""
    return [
        f"if other{k} != handle and stream is None: plan.follow(handle, other{k})"
        for k in range(len(calls.streams) - 1)
    ]


def _tell(calls: CallType) -> list[str]:
    """Return the line that tells arrays of a stream that is not their own, if any must know."""
    accesses = (*calls.accesses, *calls.made_accesses)
    told = ", ".join(access.told for access in accesses if access.told)
    return [f"if handle: use_on(handle, {told})"] if told else []


def _values(calls: CallType) -> list[str]:
    """Return the values in parameter buffers: addresses, bytes of scalars and textures."""
    return [*(one.packed for one in calls.code), *map(_pointer, calls.made)]


def _launch(calls: CallType) -> list[str]:
    """Return the lines that launch and return; nothing in them may lead to the checks.

    These would launch again.
    """
    outputs = (*calls.given, *calls.made)
    outputs = outputs[len(outputs) - calls.outputs :]
    returned = {"none": "None", "one": "".join(outputs), "tuple": f"({', '.join((*outputs, ''))})"}
    return _indented(
        [
            *_wrote(calls),
            "code = buffer.launch()",
            "if code: plan.relaunch(buffer, code)",
            # Another thread may have given back one that holds the same.
            "if free.setdefault(now, buffer) is not buffer: plan.spare(buffer)",
            *_afterwards(calls),
            f"return {returned[calls.returned]}",
        ],
        1,
    )


def _afterwards(calls: CallType) -> list[str]:
    """Return the lines that protect the memory of a launch: see `libraries.stream_order`."""
    first, *rest = calls.streams
    others = [f"other{k}" for k in range(len(rest))]
    lines = [f"if {one} != handle and stream is None: plan.follow({one}, handle)" for one in others]
    if set(calls.streams) != {"0"}:
        elsewhere = " or ".join(f"handle != ({one})" for one in (first, *others))
        kept = f"plan.after(handle, ({', '.join((*calls.arrays, *calls.made, ''))}))"
        lines.append(f"if stream is not None and ({elsewhere}): {kept}")
    return lines


def _wrote(calls: CallType) -> list[str]:
    """Return the lines that record writes to arrays."""
    lines = []
    for number, one in enumerate(calls.code):
        if one.access is not None and (one.written or one.varies) and one.access.wrote:
            condition = f"if plan.written[{number}]: " if one.varies else ""
            lines.append(condition + one.access.wrote)
    return lines


def _pointer(name: str) -> str:
    return f"p{name[1:]}"
