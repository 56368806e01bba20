"""Repeated calls: the types of the arguments in, a function that only looks up the launch plan out.

The checks of a call take ten times as long as its launch, and depend on little: of each array the
dtype, shape, strides, device and alignment, of each scalar the type, options and stream.  A `Route`
is a function that makes a key of that, for arguments of certain types, and launches the plan
(`kspec.runtime.callcache.launch_plan`) that an equal call has left behind.  Whatever is out of the
ordinary, an exception among them, leaves through the full checks, which say what is wrong.

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

New shapes are answered by a second function, if they can be
(`kspec.runtime.callcache.dynamic_shape`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Generic, TypeVar

from kspec.locks import make_lock
from kspec.model.declaration import PLACES
from kspec.runtime.callcache.codegen import (
    Pattern,
    compile_route,
    has_family,
    render_family,
    render_route,
)
from kspec.runtime.callcache.dynamic_shape import Family
from kspec.runtime.callcache.launch_plan import Plan, Prepared, make_plan
from kspec.runtime.driver.launch import LaunchOptions
from kspec.runtime.libraries.stream_order import stream_handle

Route = Callable[..., Any]
PlanT = TypeVar("PlanT")

MAX_PLANS = 256  # of one route; a plan takes about 3 KB
FIRST_PLANS = 8  # of one route, made at once
_MAX_SEEN = 1024  # keys
_MAX_ROUTES = 64  # of one kernel
_MAX_FAMILIES = 64  # of one route
_REPLACED = 16  # of so many keys that come again, one gets a plan when there are too many


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
        self._again = 0
        self._lock = make_lock()

    def comes_again(self, key: Hashable) -> bool:
        """Return whether a key is to get a plan now; take note of it."""
        if key not in self._seen:
            if len(self._seen) >= _MAX_SEEN:
                self._seen.clear()
            self._seen.add(key)
            return False
        self._again += 1
        return len(self.plans) < MAX_PLANS or not self._again % _REPLACED

    def learn(self, key: Hashable, make: Callable[[], PlanT | None]) -> None:
        """Take note of a call that was made; `make` returns its plan, if it gets one."""
        with self._lock:
            if len(self.plans) >= FIRST_PLANS and key not in self._seen:
                self.comes_again(key)
                return
        plan = make()
        if plan is None:
            return
        with self._lock:
            if len(self.plans) >= MAX_PLANS:
                self.plans.pop(next(iter(self.plans)))
            self.plans[key] = plan


class Absent:
    """The class of `ABSENT`."""

    def __repr__(self) -> str:
        return "<absent>"


ABSENT = Absent()  # what a positional parameter holds that no argument was given for


class Routes(dict[tuple[type, ...], Route | None]):
    """The routes of one kernel, by the types of the arguments; copies begin without any.

    Fewer arguments than `PLACES` are followed by `ABSENT`.
    """

    def __missing__(self, types: tuple[type, ...]) -> None:
        return None

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), ()

    def learn(self, arguments: Sequence[object], make: Callable[[], Route | None]) -> None:
        """Take note of the types of a call that was made; the second such call makes a route."""
        types = types_of(arguments)
        if types not in self:
            if len(self) >= _MAX_ROUTES:
                self.clear()
            self[types] = None
            return
        self[types] = make()


def types_of(arguments: Sequence[object]) -> tuple[type, ...]:
    """Return the key of `Routes`."""
    return (*map(type, arguments), *[Absent] * (PLACES - len(arguments)))


def given_of(*places: object) -> tuple[Any, ...]:
    """Return the arguments that were given, of all positional parameters."""
    return tuple(place for place in places if place is not ABSENT)


def make_route(pattern: Pattern) -> Route:
    """Return the function for a pattern."""
    memo: Memo[Plan] = Memo()
    families: dict[Hashable, Family] = {}
    count = len(pattern.arguments)

    def check(kernel: Any, key: Hashable, *values: Any, kin: Hashable = None) -> Any:
        *given, stream = values[count:]
        keywords = dict(zip(pattern.options, given, strict=True))
        options = LaunchOptions(stream)
        prepared: Prepared = kernel.prepare(values[:count], options=options, **keywords)
        result = prepared.run()
        if kin is not None and kin not in families:
            learn_family(kin, prepared)
        elif key is not None and key not in memo.plans:
            memo.learn(key, lambda: make_plan(prepared))
            if len(memo.plans) >= FIRST_PLANS and "family" not in names and has_family(pattern):
                exec(compile_route(render_family(pattern)), names)
                names["miss"] = names["family"]
        return result

    def learn_family(kin: Hashable, prepared: Prepared) -> None:
        plan = make_plan(prepared) if prepared.growth is not None else None
        if plan is not None:
            if len(families) >= _MAX_FAMILIES:
                families.clear()
            families[kin] = Family(prepared, plan)

    names: dict[str, Any] = {
        "Refused": Refused,
        "check": check,
        "comes_again": memo.comes_again,
        "families": families,
        "miss": check,
        "plans": memo.plans,
        "prod": math.prod,
        "stream_handle": stream_handle,
    }
    for access in pattern.accesses:
        names |= access.names
    exec(compile_route(render_route(pattern)), names)
    route: Route = names["call"]
    return route
