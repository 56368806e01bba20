"""Repeated calls: the types of the arguments in, a function that only looks a plan up out.

The checks of a call take ten times as long as its launch, and depend on little: of each array
the dtype, shape, strides, device and alignment, of each scalar the type, options and stream.  A
`Route` is a function that makes a key of that, for arguments of certain types, and launches the
plan (`kspec.runtime.plan`) that an equal call has left behind.  Whatever is out of the ordinary,
an exception among them, leaves through the full checks, which say what is wrong.

The function is generated, without loops: for three arrays that halves the time.  For ``T x, T y
-> T z`` with CuPy's arrays, and z to be made::

    def call(kernel, a0, a1, a2, a3, a4, size, block_size, stream):
        key = None
        try:
            p0 = a0.data.ptr
            p1 = a1.data.ptr
            low = (p0 | p1) & 15
            handle = current_stream().ptr if stream is None else stream_handle(stream)
            key = (a0.dtype, a0.shape, a0._c_contiguous or a0.strides, ..., handle)
            plan = plans[key]
            ...
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from kspec.runtime.access import Access, access_of
from kspec.runtime.interop import stream_handle
from kspec.runtime.plan import ALIGNMENT, Plan, make_plan

Route = Callable[..., Any]
PlanT = TypeVar("PlanT")

MAX_PLANS = 256  # of one route; a plan takes about 3 KB
_FIRST_PLANS = 8  # of one route, made at once
_MAX_SEEN = 1024  # keys
_MAX_ROUTES = 64  # of one kernel
_SCALARS = (bool, int, float, complex, np.generic)


class Refused(Exception):
    """A call has to be checked in full."""


class Memo(Generic[PlanT]):
    """The plans of one route, for the first keys and those that come twice.

    Shapes that change at every call leave next to none. Looking up needs no lock; the oldest plan
    goes when there are too many.
    """

    def __init__(self) -> None:
        self.plans: dict[Hashable, PlanT] = {}
        self._seen: set[Hashable] = set()
        self._lock = threading.Lock()

    def learn(self, key: Hashable, make: Callable[[], PlanT | None]) -> None:
        """Take note of a call that was made; `make` returns its plan, if it gets one."""
        with self._lock:
            if len(self.plans) >= _FIRST_PLANS and key not in self._seen:
                if len(self._seen) >= _MAX_SEEN:
                    self._seen.clear()
                self._seen.add(key)
                return
        plan = make()
        if plan is None:
            return
        with self._lock:
            if len(self.plans) >= MAX_PLANS:
                self.plans.pop(next(iter(self.plans)))
            self.plans[key] = plan


class Routable(Protocol):
    """What calls have in common, as a pattern."""

    def route(self) -> Route:
        """Return the function that answers such calls."""


class Absent:
    """The class of `ABSENT`."""

    def __repr__(self) -> str:
        return "<absent>"


ABSENT = Absent()  # what a positional parameter holds that no argument was given for
PLACES = 5  # positional parameters of calls and routes; what is written out is found sooner


class Routes(dict[tuple[type, ...], Route | None]):
    """The routes of one kernel, by the types of the arguments; copies begin without any.

    Fewer arguments than `PLACES` are followed by `ABSENT`.
    """

    def __missing__(self, types: tuple[type, ...]) -> None:
        return None

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), ()

    def learn(self, arguments: Sequence[object], make: Callable[[], Routable | None]) -> None:
        """Take note of the types of a call that was made; the second such call makes a route."""
        types = types_of(arguments)
        if types not in self:
            if len(self) >= _MAX_ROUTES:
                self.clear()
            self[types] = None
            return
        pattern = make()
        if pattern is not None:
            self[types] = pattern.route()


def types_of(arguments: Sequence[object]) -> tuple[type, ...]:
    """Return the key of `Routes`."""
    return (*map(type, arguments), *[Absent] * (PLACES - len(arguments)))


def given_of(*places: object) -> tuple[Any, ...]:
    """Return the arguments that were given, of all positional parameters."""
    return tuple(place for place in places if place is not ABSENT)


@dataclass(frozen=True)
class Argument:
    """What a route knows of an argument.

    Attributes
    ----------
    access : Access or None
        How it is read; None: it is a scalar.
    written : bool
        Whether the kernel writes to it.
    exact : bool
        Whether the kernel sees its strides.
    """

    access: Access | None
    written: bool = False
    exact: bool = False


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
    """

    arguments: tuple[Argument, ...]
    new: int
    options: tuple[str, ...]
    outputs: int
    returned: str

    def route(self) -> Route:
        """Return the function that answers such calls."""
        return make_route(self)


def argument_of(value: object, *, written: bool = False, exact: bool = False) -> Argument | None:
    """Return what a route is to know of an argument; None if there is no route for its type."""
    access = access_of(type(value))
    if access is None and not isinstance(value, _SCALARS):
        return None
    return Argument(access, written, exact)


def make_route(pattern: Pattern) -> Route:
    """Return the function for a pattern."""
    memo: Memo[Plan] = Memo()

    def check(kernel: Any, key: Hashable, arguments: tuple[Any, ...], **keywords: Any) -> Any:
        prepared = kernel.prepare(arguments, **keywords)
        result = prepared.run()
        if key is not None and key not in memo.plans:
            memo.learn(key, lambda: make_plan(prepared))
        return result

    names: dict[str, Any] = {
        "Refused": Refused,
        "check": check,
        "plans": memo.plans,
        "stream_handle": stream_handle,
    }
    for argument in pattern.arguments:
        if argument.access is not None:
            names |= argument.access.names
    exec(compile_route(render_route(pattern)), names)
    route: Route = names["call"]
    return route


@functools.lru_cache(maxsize=256)
def compile_route(text: str) -> CodeType:
    """Return the code of a generated function; patterns of many kernels share it."""
    return compile(text, "<kspec call>", "exec")


def render_route(pattern: Pattern) -> str:
    """Return the text of the function for a pattern."""
    given = [f"a{k}" for k in range(len(pattern.arguments))]
    places = [f"a{k}" for k in range(max(PLACES, len(given)))]
    made = [f"a{k}" for k in range(len(given), len(given) + pattern.new)]
    arrays = [name for name, one in zip(given, pattern.arguments, strict=True) if one.access]
    keywords = (*pattern.options, "stream")
    body = [
        *_look_up(pattern, arrays),
        *_make_outputs(pattern, made),
        "try: block = plan.take()",
        "except IndexError: block = plan.fresh()",
        f"now = ({', '.join(_values(pattern, made))},)",
        "if block.held != now: block = plan.adapt(block, now)",
    ]
    outputs = (given + made)[len(given) + len(made) - pattern.outputs :]
    returned = {"none": "None", "one": "".join(outputs), "tuple": f"({', '.join((*outputs, ''))})"}
    return "\n".join(
        [
            f"def call(kernel, {', '.join((*places, *keywords))}):",
            "    key = None",
            "    try:",
            *(f"        {line}" for line in body),
            "    except Exception:",
            "        plan = None",
            "    if plan is None:",
            f"        return check(kernel, key, ({', '.join(given)},), "
            + ", ".join(f"{name}={name}" for name in keywords)
            + ")",
            # From here on nothing may lead to the checks: they would launch again.
            "    code = block.launch()",
            "    if code: plan.relaunch(block, code)",
            "    plan.give(block)",
            f"    return {returned[pattern.returned]}",
        ]
    )


def _look_up(pattern: Pattern, arrays: Sequence[str]) -> list[str]:
    """Return the lines up to the plan."""
    lines, refusals, parts, current = [], [], [], ""
    for k, one in enumerate(pattern.arguments):
        if one.access is None:
            continue
        access = one.access.named(f"a{k}")
        lines += access.lines(f"a{k}")
        parts.append(access.exact if one.exact else access.key)
        parts += [access.writable] if one.written and access.writable else []
        refusals += [access.refused] if access.refused else []
        current = current or access.stream
    if refusals:
        lines.append(f"if {' or '.join(refusals)}: raise Refused")
    pointers = [_pointer(name) for name in arrays]
    each = ", ".join(f"{pointer} & {ALIGNMENT - 1}" for pointer in pointers)
    parts += ["low and " + f"({each},)", *pattern.options, "handle"]
    return [
        *lines,
        f"low = ({' | '.join(pointers)}) & {ALIGNMENT - 1}",
        f"handle = {current} if stream is None else stream_handle(stream)",
        f"key = ({', '.join(parts)})",
        "plan = plans[key]",
        f"if plan.refuses is not None and plan.refuses(kernel, ({', '.join(arrays)},)):",
        "    key = None",
        "    raise Refused",
    ]


def _make_outputs(pattern: Pattern, made: Sequence[str]) -> list[str]:
    # They are of the library of the first array.
    first = next(one.access for one in pattern.arguments if one.access is not None)
    lines = []
    for k, name in enumerate(made):
        pointer = _pointer(name)
        lines.append(f"{name} = plan.make[{k}]()")
        lines.append(f"{pointer} = {first.named(name).pointer}")
        lines.append(f"if {pointer} & {ALIGNMENT - 1}: raise Refused")
    return lines


def _values(pattern: Pattern, made: Sequence[str]) -> list[str]:
    """Return what blocks hold: addresses of arrays, bytes of scalars."""
    values = [
        f"plan.convert[{k}](a{k})" if one.access is None else _pointer(f"a{k}")
        for k, one in enumerate(pattern.arguments)
    ]
    return values + [_pointer(name) for name in made]


def _pointer(name: str) -> str:
    return f"p{name[1:]}"
