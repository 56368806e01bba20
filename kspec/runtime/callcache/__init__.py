"""Repeated calls: the types of the arguments in, a function that only looks up the launch plan out.

The checks of a call take ten times as long as its launch, and depend on little: of each array the
dtype, shape, strides, device and alignment, of each scalar the type, options and stream.  A
`CacheEntry` is for arguments of certain types. Its function makes a key of all that, and launches
the plan (`kspec.runtime.callcache.launch_plan`) that an equal call has left behind.  Whatever is
out of the ordinary, an exception among them, leaves through the full checks, which say what is
wrong.

The function is generated (`kspec.runtime.callcache.codegen`).  For ``T x, T y -> T z`` with CuPy's
arrays, and z to be made::

    def call(kernel, a0, a1, a2, a3, a4, size, block_size, stream):
        key = shapeless = None
        try:
            p0 = a0.data.ptr
            p1 = a1.data.ptr
            low = (p0 | p1) & 15
            handle = current_stream().ptr if stream is None else stream_handle(stream)
            key = (a0.dtype, a0.shape, a0._c_contiguous or a0.strides, ..., handle)
            plan = plans[key]
            ...

Once it has many plans, the function gets other code, which also answers new shapes, if they can be
answered without checks (`kspec.runtime.callcache.dynamic_shape`).
"""

from __future__ import annotations

import functools
import math
import weakref
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from kspec.dataclass import dataclass
from kspec.locks import make_lock
from kspec.model.declaration import PLACES
from kspec.runtime.driver.launch import LaunchOptions
from kspec.runtime.libraries.stream_order import stream_handle

if TYPE_CHECKING:
    from kspec.runtime.callcache.codegen import CallType
    from kspec.runtime.callcache.dynamic_shape import DynamicShapePlan
    from kspec.runtime.callcache.prepared import Prepared

CallFunction = Callable[..., Any]
PlanT = TypeVar("PlanT")

MAX_PLANS = 256  # of one entry; a plan takes about 3 KB
FIRST_PLANS = 8  # of one entry, made at once
_MAX_SEEN = 1024  # keys
_MAX_ENTRIES = 64  # of one kernel
_MAX_DYNAMIC = 64  # of one entry
_REPLACED = 16  # of so many keys that come again, one gets a plan when there are too many


class Refused(Exception):
    """A call has to be checked in full."""


class PlanCache(Generic[PlanT]):
    """The plans of one entry, for the first keys and those that come again.

    Shapes that change at every call leave next to none. Looking up needs no lock; the oldest plan
    goes when there are too many.
    """

    def __init__(self) -> None:
        self.plans: dict[Hashable, PlanT] = {}
        self._seen: set[int] = set()
        self._again = 0
        self._lock = make_lock()

    def comes_again(self, key: Hashable) -> bool:
        """Return whether a key is to get a plan now; take note of it."""
        number = hash(key)  # once; if two keys share it, one gets its plan a call earlier
        if number not in self._seen:
            if len(self._seen) >= _MAX_SEEN:
                self._seen.clear()
            self._seen.add(number)
            return False
        self._again += 1
        return len(self.plans) < MAX_PLANS or not self._again % _REPLACED

    def learn(self, key: Hashable, make: Callable[[], PlanT | None]) -> None:
        """Take note of a call that was made; `make` returns its plan, if it gets one."""
        with self._lock:
            if len(self.plans) >= FIRST_PLANS and hash(key) not in self._seen:
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


@dataclass(frozen=True)
class CacheInfo:
    """Contents of a kernel's call cache, from ``kernel.cache_info()``.

    A call whose types, shapes, strides, device and options were seen before launches a *plan*
    without checks. Calls of ever new shapes share a dynamic-shape plan, if the kernel allows it.
    Hits are not counted: a repeated call does nothing but launch.

    Attributes
    ----------
    entries : int
        Combinations of argument types that have a function of their own.
    plans : int
        Launch plans of all entries.
    dynamic_plans : int
        Dynamic-shape plans of all entries.
    max_entries, max_plans : int
        Limits: entries of a kernel, and plans of an entry. The oldest plan goes first.
    """

    entries: int = 0
    plans: int = 0
    dynamic_plans: int = 0
    max_entries: int = _MAX_ENTRIES
    max_plans: int = MAX_PLANS

    @classmethod
    def total(cls, infos: Iterable[CacheInfo]) -> CacheInfo:
        """Return the sum for several kernels; limits are those of one."""
        rows = [(one.entries, one.plans, one.dynamic_plans) for one in infos]
        return cls(*map(sum, zip((0, 0, 0), *rows, strict=True)))


class CallCache(dict[tuple[type, ...], CallFunction | None]):
    """The functions of one kernel, by the types of the arguments; copies begin without any.

    Fewer arguments than `PLACES` are followed by `ABSENT`.

    Attributes
    ----------
    entries : dict
        What is behind the functions, by the same types.
    """

    def __init__(self) -> None:
        super().__init__()
        self.entries: dict[tuple[type, ...], CacheEntry] = {}

    def __missing__(self, types: tuple[type, ...]) -> None:
        return None

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), ()

    def learn(self, arguments: Sequence[object], make: Callable[[], CacheEntry | None]) -> None:
        """Take note of the types of a call that was made; the second such call makes an entry."""
        types = types_of(arguments)
        if types not in self:
            if len(self) >= _MAX_ENTRIES:
                self.clear()
                self.entries.clear()
            self[types] = None
            return
        entry = make()
        if entry is not None:
            self.entries[types] = entry
            self[types] = entry.make_call()

    def info(self) -> CacheInfo:
        """Return the contents as numbers."""
        entries = list(self.entries.values())
        plans = sum(len(entry.cache.plans) for entry in entries)
        dynamic = sum(len(entry.dynamic_plans) for entry in entries)
        return CacheInfo(len(entries), plans, dynamic)


def types_of(arguments: Sequence[object]) -> tuple[type, ...]:
    """Return the key of a `CallCache`."""
    return (*map(type, arguments), *[Absent] * (PLACES - len(arguments)))


def given_of(*places: object) -> tuple[Any, ...]:
    """Return the arguments that were given, of all positional parameters."""
    return tuple(place for place in places if place is not ABSENT)


class CacheEntry:
    """Calls of one type: what is behind the function that answers them, and its plans.

    The function keeps the entry, and not the entry the function: what a dropped kernel has loaded
    on a GPU goes at once, without the garbage collector, which knows nothing of that memory.

    Parameters
    ----------
    calls : CallType
        The calls.
    prepare : str
        Method of the kernel that checks one.

    Attributes
    ----------
    cache : PlanCache
        The plans.
    dynamic_plans : dict
        Dynamic-shape plans.
    has_dynamic : bool
        Whether calls of shapes without a plan are answered by them.
    """

    def __init__(self, calls: CallType, prepare: str = "prepare") -> None:
        self.calls = calls
        self._prepare = prepare
        self.cache: PlanCache[Any] = PlanCache()
        self.dynamic_plans: dict[Hashable, DynamicShapePlan] = {}
        self.has_dynamic = False

    def make_call(self) -> CallFunction:
        """Return the function; it must be called once only."""
        from kspec.runtime.callcache.codegen import render_call

        call = self._compile(render_call(self.calls))
        self._call = weakref.ref(call)
        return call

    def make_call_or(self, otherwise: Callable[..., Any]) -> CallFunction:
        """Return a function for calls that have a plan; others go to `otherwise`, as to `check`."""
        from kspec.runtime.callcache.codegen import render_call

        return self._compile(render_call(self.calls), check=otherwise)

    def _compile(self, text: str, **others: Any) -> CallFunction:
        from kspec.runtime.callcache.codegen import make_function

        names: dict[str, Any] = {
            "Refused": Refused,
            "check": self.check,
            "comes_again": self.cache.comes_again,
            "dynamic_plans": self.dynamic_plans,
            "integers": math.gcd,  # takes integers only: 2.0, which is none, equals 2
            "plans": self.cache.plans,
            "prod": math.prod,
            "shapes": set(),
            "stream_handle": stream_handle,
            **others,
        }
        for access in self.calls.accesses:
            names |= access.names
        optional = text.partition("\n")[0].count("=None")
        return make_function(text, names, (None,) * optional)

    def prepare(self, kernel: Any, values: Sequence[Any]) -> Any:
        """Check a call of this type in full; `values` are those of `CallType.passed`."""
        count = len(self.calls.arguments)
        *given, stream = values[count:]
        names = (*self.calls.options, *self.calls.extra)
        keywords = dict(zip(names, given, strict=True))
        prepare = getattr(kernel, self._prepare)
        return prepare(values[:count], options=LaunchOptions(stream), **keywords)

    def make_plan(self, prepared: Any) -> Any:
        """Return the plan of a call; None if the next one like it must be checked again."""
        from kspec.runtime.callcache.launch_plan import make_plan

        return make_plan(prepared)

    def check(self, kernel: Any, key: Hashable, *values: Any, shapeless: Hashable = None) -> Any:
        """Answer a call that has no plan, and make one if it is worth it.

        `key` finds it again, `shapeless` what it has in common with calls of other shapes.
        """
        prepared = self.prepare(kernel, values)
        result = prepared.run()
        if shapeless is not None and shapeless not in self.dynamic_plans:
            self._learn_dynamic(shapeless, prepared)
        elif key is not None and key not in self.cache.plans:
            self.cache.learn(key, lambda: self.make_plan(prepared))
            if len(self.cache.plans) >= FIRST_PLANS and not self.has_dynamic:
                self._answer_any_shape()
        return result

    def _answer_any_shape(self) -> None:
        from kspec.runtime.callcache.codegen import render_call

        call: Any = self._call()
        if call is not None and self.calls.has_dynamic_shape:
            other: Any = self._compile(render_call(self.calls, any_shape=True))
            call.__code__ = other.__code__  # calls that are under way go on
            self.has_dynamic = True

    def _learn_dynamic(self, shapeless: Hashable, prepared: Prepared) -> None:
        from kspec.runtime.callcache.dynamic_shape import DynamicShapePlan
        from kspec.runtime.callcache.launch_plan import make_plan

        plan = make_plan(prepared) if prepared.growth is not None else None
        if plan is not None:
            if len(self.dynamic_plans) >= _MAX_DYNAMIC:
                self.dynamic_plans.clear()
            self.dynamic_plans[shapeless] = DynamicShapePlan(prepared, plan)


@functools.cache
def layout_function(kind: type, alignment: int) -> Callable[[Any], tuple[Any, ...]] | None:
    """Return a function for the layout of arrays of a class; None where `access_of` has no row.

    The layout is the value of `Access.exact`, and the address modulo `alignment`.
    """
    from kspec.runtime.callcache.codegen import compile_call
    from kspec.runtime.libraries.array_access import access_of

    access = access_of(kind)
    if access is None:
        return None
    one = access.named("a0")
    lines = ["def layout(a0):", *one.lines("a0"), f"return {one.exact}, p0 % {alignment}"]
    names = dict(access.names)
    exec(compile_call("\n    ".join(lines)), names)
    layout: Any = names["layout"]
    return layout  # type: ignore[no-any-return]
