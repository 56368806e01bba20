"""Patterns of repeated calls, and the text of the functions that answer them.

`render_route` and `render_family` write what `kspec.runtime.callcache.cache` compiles: straight
lines without loops, which for three arrays takes half the time of one.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import CodeType

import numpy as np

from kspec.model.declaration import PLACES
from kspec.runtime.arguments.opaque import TEXTURE, kind_of, needs_cuda
from kspec.runtime.callcache.launch_plan import ALIGNMENT
from kspec.runtime.libraries.array_access import Access, access_of

_SCALARS = (bool, int, float, complex, np.generic)
_LOW = ALIGNMENT - 1  # bits of an address


@dataclass(frozen=True)
class Argument:
    """Properties of an argument that call code relies on.

    Attributes
    ----------
    access : Access or None
        How it is read; None: it is a scalar or a texture.
    written : bool
        Whether the kernel writes to it.
    exact : bool
        Whether the kernel sees its strides.
    texture : bool
        Whether it is a texture that knows its device.
    """

    access: Access | None
    written: bool = False
    exact: bool = False
    texture: bool = False


@dataclass(frozen=True)
class Pattern:
    """Calls that differ in values only.

    Attributes
    ----------
    arguments : tuple of Argument
        In their order, at least one of them an array.
    new : int
        Outputs that are to be made, of the library of the first array.
    options : tuple of str
        Keywords that the result depends on.
    outputs : int
        Outputs altogether.
    returned : {"none", "one", "tuple"}
        What calls return of them.
    grows : bool
        Whether calls of any shape may have everything else in common.
    """

    arguments: tuple[Argument, ...]
    new: int
    options: tuple[str, ...]
    outputs: int
    returned: str
    grows: bool = False

    @property
    def given(self) -> tuple[str, ...]:
        """Names of the arguments."""
        return tuple(f"a{k}" for k in range(len(self.arguments)))

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
        """Access to the arrays, with their names in place."""
        rows = zip(self.given, self.arguments, strict=True)
        return tuple(one.access.named(name) for name, one in rows if one.access)

    @property
    def streams(self) -> tuple[str, ...]:
        """Expressions for the current streams of the libraries, that of the first array first."""
        rows = zip(self.given, self.arguments, strict=True)
        return streams_of((name, one.access) for name, one in rows if one.access)

    @property
    def keywords(self) -> tuple[str, ...]:
        """Keywords of a call, behind the arguments."""
        return (*self.options, "stream")


def argument_of(value: object, *, written: bool = False, exact: bool = False) -> Argument | None:
    """Return the properties of an argument for call code; None if no call code takes its type."""
    access = access_of(type(value))
    texture = kind_of(value) == TEXTURE
    if access is None and not texture and not isinstance(value, _SCALARS):
        return None
    return Argument(access, written, exact, texture and not needs_cuda(value))


def has_family(pattern: Pattern) -> bool:
    """Return whether there is a function of `render_family` for a pattern."""
    exact = any(one.exact for one in pattern.arguments)
    return pattern.grows and not exact and all(map(_uneven, pattern.accesses))


@functools.lru_cache(maxsize=256)
def compile_route(text: str) -> CodeType:
    """Return the code of a generated function; patterns of many kernels share it."""
    return compile(text, "<kspec call>", "exec")


def render_route(pattern: Pattern) -> str:
    """Return the text of ``call``, which looks a plan up."""
    places = [f"a{k}" for k in range(max(PLACES, len(pattern.given)))]
    parts = []
    for one, access in zip(_arrays(pattern), pattern.accesses, strict=True):
        parts.append(access.exact if one.exact else access.key)
        parts += [access.writable] if one.written and access.writable else []
    parts += _textures(pattern)
    each = ", ".join(f"{_pointer(name)} & {_LOW}" for name in pattern.arrays)
    body = [
        *_read(pattern),
        *streams(pattern.streams),
        f"key = ({', '.join((*parts, f'low and ({each},)', *pattern.options, 'handle'))})",
        "plan = plans[key]",
        _refusal(pattern),
        "    key = None",
        "    raise Refused",
        *_make_outputs(pattern, [f"plan.make[{k}]()" for k in range(pattern.new)]),
        *_tell_all(pattern),
        *follow(pattern.streams),
        f"now = ({', '.join(_values(pattern))},)",
        "free = plan.free",
        "block = free.pop(now, None)",
        "if block is None: block = plan.adapt(now)",
        "if plan.guard is not None:",
        f"    plan.guard(block.launch, ({', '.join((*pattern.arrays, *pattern.made))},))",
    ]
    missed = f"miss(kernel, key, {', '.join((*pattern.given, *pattern.keywords))})"
    return "\n".join(
        [
            f"def call(kernel, {', '.join((*places, *pattern.keywords))}):",
            "    key = None",
            *_launch(pattern, body, missed),
        ]
    )


def render_family(pattern: Pattern) -> str:
    """Return the text of ``family``, which answers calls of any shape that have no plan."""
    names, accesses = pattern.arrays, pattern.accesses
    scattered = [_uneven(access) for access in accesses]
    shapes = [f"{name}.shape != shape" for name in names[1:]]
    parts = [access.bare for access in accesses]
    parts += [
        access.writable
        for one, access in zip(_arrays(pattern), accesses, strict=True)
        if one.written and access.writable
    ]
    parts += _textures(pattern)
    body = [
        f"shape = {names[0]}.shape",
        f"if key is None or {' or '.join((*scattered, *shapes))} or comes_again(key):",
        "    raise Refused",
        *_read(pattern),
        "n = prod(shape)",
        "if low or not n: raise Refused",
        *streams(pattern.streams),
        f"kin = ({', '.join((*parts, 'len(shape)', *pattern.options, 'handle'))})",
        "plan = families[kin]",
        _refusal(pattern),
        "    raise Refused",
        *_make_outputs(pattern, [f"plan.make[{k}](shape)" for k in range(pattern.new)]),
        *_tell_all(pattern),
        *follow(pattern.streams),
        "free = plan.free",
        "try: now, block = free.popitem()",
        "except KeyError: now, block = object(), plan.fresh()",
        f"plan.fit(block, n, {', '.join(_values(pattern))})",
    ]
    values = (*pattern.given, *pattern.keywords)
    return "\n".join(
        [
            f"def family(kernel, key, {', '.join(values)}):",
            "    kin = None",
            *_launch(pattern, body, f"check(kernel, key, {', '.join(values)}, kin=kin)"),
        ]
    )


def _uneven(access: Access) -> str:
    return access.scattered or access.uneven


def _launch(pattern: Pattern, body: Sequence[str], otherwise: str) -> list[str]:
    """Return the lines that do something, launch, and return; or otherwise something else."""
    outputs = (*pattern.given, *pattern.made)
    outputs = outputs[len(outputs) - pattern.outputs :]
    returned = {"none": "None", "one": "".join(outputs), "tuple": f"({', '.join((*outputs, ''))})"}
    return [
        "    try:",
        *(f"        {line}" for line in body),
        "    except Exception:",
        "        plan = None",
        "    if plan is None:",
        f"        return {otherwise}",
        # From here on nothing may lead to the checks: they would launch again.
        "    code = block.launch()",
        "    if code: plan.relaunch(block, code)",
        # Another thread may have given back one that holds the same.
        "    if free.setdefault(now, block) is not block: plan.spare(block)",
        *(f"    {line}" for line in afterwards(pattern.streams, (*pattern.arrays, *pattern.made))),
        *(f"    {line}" for line in _wrote(pattern)),
        f"    return {returned[pattern.returned]}",
    ]


def _arrays(pattern: Pattern) -> list[Argument]:
    return [one for one in pattern.arguments if one.access]


def _wrote(pattern: Pattern) -> list[str]:
    """Return the lines that record writes to arrays."""
    rows = zip(_arrays(pattern), pattern.accesses, strict=True)
    return [access.wrote for one, access in rows if one.written and access.wrote]


def _textures(pattern: Pattern) -> list[str]:
    """Return the elements of a key for textures: where they are."""
    rows = zip(pattern.given, pattern.arguments, strict=True)
    return [f"{x}.device.kind, {x}.device.ordinal" for x, one in rows if one.texture]


def _read(pattern: Pattern) -> list[str]:
    """Return the lines that read addresses, and refuse what must be checked in full."""
    lines = [
        line
        for name, access in zip(pattern.arrays, pattern.accesses, strict=True)
        for line in access.lines(name)
    ]
    refusals = [access.refused for access in pattern.accesses if access.refused]
    if refusals:
        lines.append(f"if {' or '.join(refusals)}: raise Refused")
    return [*lines, f"low = ({' | '.join(map(_pointer, pattern.arrays))}) & {_LOW}"]


def _refusal(pattern: Pattern) -> str:
    arrays = ", ".join((*pattern.arrays, ""))
    return f"if plan.refuses is not None and plan.refuses(kernel, ({arrays})):"


def _make_outputs(pattern: Pattern, makers: Sequence[str]) -> list[str]:
    first = _arrays(pattern)[0].access
    assert first is not None
    lines = []
    for name, made in zip(pattern.made, makers, strict=True):
        pointer = _pointer(name)
        lines.append(f"{name} = {made}")
        lines.append(f"{pointer} = {first.named(name).pointer}")
        lines.append(f"if {pointer} & {_LOW}: raise Refused")
    return lines


def streams_of(rows: Iterable[tuple[str, Access]]) -> tuple[str, ...]:
    """Return the current streams of all libraries, that of the first array first.

    Parameters
    ----------
    rows : iterable of (str, Access)
        Names of arrays, and their rows without these names.
    """
    found: dict[str, str] = {}
    for name, access in rows:
        found.setdefault(access.stream, access.named(name).stream)
    return tuple(found.values())


def streams(current: Sequence[str]) -> list[str]:
    """Return the lines that set the stream of a call, and those of other libraries."""
    lines = [f"handle = {current[0]} if stream is None else stream_handle(stream)"]
    return lines + [f"other{k} = {one}" for k, one in enumerate(current[1:])]


def follow(current: Sequence[str]) -> list[str]:
    """Return the lines that let a call wait for the streams of other libraries."""
    return [
        f"if other{k} != handle and stream is None: plan.follow(handle, other{k})"
        for k in range(len(current) - 1)
    ]


def afterwards(current: Sequence[str], arrays: Sequence[str]) -> list[str]:
    """Return the lines that protect the memory of a launch: see `libraries.stream_order`."""
    others = [f"other{k}" for k in range(len(current) - 1)]
    lines = [f"if {one} != handle and stream is None: plan.follow({one}, handle)" for one in others]
    if set(current) != {"0"}:
        elsewhere = " or ".join(f"handle != ({one})" for one in (current[0], *others))
        kept = f"plan.after(handle, ({', '.join((*arrays, ''))}))"
        lines.append(f"if stream is not None and ({elsewhere}): {kept}")
    return lines


def tell(accesses: Iterable[Access]) -> list[str]:
    """Return the line that tells arrays of a stream that is not their own, if any must know."""
    told = ", ".join(access.told for access in accesses if access.told)
    return [f"if handle: use_on(handle, {told})"] if told else []


def _tell_all(pattern: Pattern) -> list[str]:
    first = _arrays(pattern)[0].access
    assert first is not None
    return tell((*pattern.accesses, *map(first.named, pattern.made)))


def _values(pattern: Pattern) -> list[str]:
    """Return the values in parameter buffers: addresses, bytes of scalars and textures."""
    values = [
        f"plan.convert[{k}](a{k})" if one.access is None else _pointer(f"a{k}")
        for k, one in enumerate(pattern.arguments)
    ]
    return values + [_pointer(name) for name in pattern.made]


def _pointer(name: str) -> str:
    return f"p{name[1:]}"
