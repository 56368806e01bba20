"""Reductions across shards, again: what calls with shards alike have in common.

>>> again = Repeated(SplitReduction(l2norm))                                 # doctest: +SKIP
>>> y = again([(x0,), (x1,)], (0,), (), in_full)                             # doctest: +SKIP

A reduction across shards is a launch for each of them, copies, and a launch that finishes.  All of
that is prepared once for shards of the same dtypes, shapes, strides and places; a call writes its
addresses and scalars into it.  Parts are memory of the plan, which one call has at a time.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from kspec.runtime import driver
from kspec.runtime.device import Device
from kspec.runtime.interop import Library, library_of
from kspec.runtime.layout import Shape
from kspec.runtime.parts import Part, SplitReduction
from kspec.runtime.plan import ALIGNMENT, Plan, make_plan

Args = tuple[Any, ...]

MAX_KINDS = 64  # kinds of calls that a kernel remembers
MAX_BYTES = 1 << 20  # of parts: with more of them the checks of a call go unnoticed


@dataclass(frozen=True)
class _Look:
    """What a call looks like.

    Attributes
    ----------
    key : Hashable
        Equal for calls that can share a plan.
    addresses : list of list
        For each shard the address of each input; None for scalars.
    library : Library
        Whose arrays all of them are.
    """

    key: Hashable
    addresses: list[list[int | None]]
    library: Library


@dataclass
class _Kind:
    """Calls that can share plans.

    Attributes
    ----------
    calls : int
        How many there were, at least.
    free : list
        Plans that no call has.
    is_hopeless : bool
        Whether there can be none.
    """

    calls: int = 0
    free: list[_Plan] = field(default_factory=list)
    is_hopeless: bool = False


class Repeated:
    """Reductions across shards by one kernel.

    Parameters
    ----------
    split : SplitReduction
        The kernel's stages.
    """

    def __init__(self, split: SplitReduction) -> None:
        self._split = split
        self._has_raw = any(param.raw for param in split.kernel.declaration.inputs)
        self._kinds: dict[Hashable, _Kind] = {}
        self._lock = threading.Lock()

    def __call__(
        self,
        calls: Sequence[Args],
        reduced: tuple[int, ...],
        kept: Shape,
        in_full: Callable[[], Any],
    ) -> Any:
        """Return the outputs.

        Parameters
        ----------
        calls : sequence of tuple
            The inputs of each shard.
        reduced : tuple of int
            Axes to reduce.
        kept : tuple of int
            Those of them that stay in the outputs, with extent 1.
        in_full : callable
            Returns the outputs, too, with all checks.
        """
        try:
            look = None if self._has_raw else _look(calls)
        except Exception:  # the checks say it better
            look = None
        if look is None:
            return in_full()
        kind = self._kind((look.key, reduced, kept))
        kind.calls += 1
        if kind.calls < 2 or kind.is_hopeless:
            return in_full()
        try:
            plan = kind.free.pop()
        except IndexError:
            try:
                made = self._make(calls, reduced, kept, look.library)
            except Exception:
                made = None
            if made is None:
                kind.is_hopeless = True
                return in_full()
            plan = made
        result = plan.run(calls, look.addresses)
        kind.free.append(plan)  # one that an exception loses is garbage
        return in_full() if result is None else result

    def _kind(self, key: Hashable) -> _Kind:
        found = self._kinds.get(key)
        if found is None:
            with self._lock:
                while len(self._kinds) >= MAX_KINDS:
                    del self._kinds[next(iter(self._kinds))]  # the oldest
                found = self._kinds.setdefault(key, _Kind())
        return found

    def _make(
        self, calls: Sequence[Args], reduced: tuple[int, ...], kept: Shape, library: Library
    ) -> _Plan | None:
        split = self._split
        partial = [split.prepare_partial(args, reduced) for args in calls]
        parts = [part for part, _ in partial]
        if sum(math.prod(part.array.shape) for part in parts) > MAX_BYTES:
            return None
        joined, copies = split.prepare_join(parts)
        last = split.prepare_finish(joined, calls[0], kept, library=library)
        plans = [make_plan(one) for one in (*(one for _, one in partial), last)]
        first, finish = [one for one in plans[:-1] if one is not None], plans[-1]
        if finish is None or len(first) < len(calls):
            return None
        stages = [
            _Stage(plan, _written(part, len(split.kernel.declaration.outputs)))
            for plan, part in zip(first, parts, strict=True)
        ]
        return _Plan(split, stages, copies, finish, (*parts, joined), library)


def _look(calls: Sequence[Args]) -> _Look | None:
    """Return what a call looks like; None if it is to be checked in full."""
    signs: list[Hashable] = []
    addresses: list[list[int | None]] = []
    devices: dict[Device, None] = {}
    common: Library | None = None
    for args in calls:
        places: list[int | None] = []
        for value in args:
            library = library_of(value)
            if library is None:
                signs.append((type(value),))
                places.append(None)
                continue
            if library.handed or (common is not None and library.name != common.name):
                return None  # several wait for each other
            common = library
            view = library.view(value)
            devices[view.device] = None
            signs += (view.device, view.dtype, view.shape, view.strides, view.ptr % ALIGNMENT)
            places.append(view.ptr)
        addresses.append(places)
    if common is None:
        return None
    for device in devices:
        if not device.is_host:
            stream = common.stream(device)
            # What becomes a graph is launched at any time, beside other calls; and a handle that
            # means a stream for each thread does not say which one parts are used on.
            if driver.is_of_thread(stream) or driver.is_capturing(device.ordinal, stream):
                return None
            signs.append(stream)
    return _Look((common.name, *signs), addresses, common)


@dataclass(frozen=True)
class _Stage:
    """A launch that reduces one shard.

    Attributes
    ----------
    plan : Plan
        The launch.
    written : tuple of int
        Addresses of its outputs, which are a part of the plan's.
    """

    plan: Plan
    written: tuple[int, ...]

    def run(self, kernel: Any, args: Args, places: Sequence[int | None]) -> bool:
        """Launch it; return whether that was possible without checks."""
        plan = self.plan
        arrays = [one for one, place in zip(args, places, strict=True) if place is not None]
        if plan.refuses is not None and plan.refuses(kernel, arrays):
            return False
        _launch(plan, (*_values(plan, args, places), *self.written))
        return True


class _Plan:
    """All launches of a call, with the memory between them.

    Parameters
    ----------
    split : SplitReduction
        The kernel's stages.
    stages : sequence of _Stage
        One for each shard.
    copies : sequence of callable
        Put the parts where they are finished.
    finish : Plan
        The last launch.
    parts : sequence of Part
        Memory that the launches write and read.
    library : Library
        Who makes the outputs.
    """

    def __init__(
        self,
        split: SplitReduction,
        stages: Sequence[_Stage],
        copies: Sequence[Callable[[], None]],
        finish: Plan,
        parts: Sequence[Part],
        library: Library,
    ) -> None:
        self._kernel = split.kernel
        self._stages = stages
        self._copies = copies
        self._finish = finish
        self._parts = parts  # kept alive: launches know addresses
        self._library = library
        inputs = split.kernel.declaration.inputs
        self._scalars = [one.name in split.kernel.declaration.scalars for one in inputs]

    def run(self, calls: Sequence[Args], addresses: Sequence[Sequence[int | None]]) -> Any:
        """Launch everything, and return the outputs; None if the call must be checked in full."""
        outputs = [make() for make in self._finish.make]
        written = [self._library.view(one).ptr for one in outputs]
        if any(one % ALIGNMENT for one in written):
            return None
        for stage, args, places in zip(self._stages, calls, addresses, strict=True):
            if not stage.run(self._kernel, args, places):
                return None
        for copy in self._copies:
            copy()
        # Elements are in the parts: of the inputs, the post-map reads scalars only.
        rest = [
            value if wanted else 0 for value, wanted in zip(calls[0], self._scalars, strict=True)
        ]
        _launch(self._finish, (*_values(self._finish, rest, [None] * len(rest)), *written))
        return outputs[0] if len(outputs) == 1 else tuple(outputs)


def _written(part: Part, outputs: int) -> tuple[int, ...]:
    """Return the addresses of a kernel's outputs when they are a part."""
    library = library_of(part.array)
    assert library is not None
    return (library.view(part.array).ptr,) * outputs


def _values(plan: Plan, args: Sequence[Any], places: Sequence[int | None]) -> list[Any]:
    """Return what a plan's block holds of the inputs: addresses, and bytes of scalars."""
    rows = zip(plan.convert, args, places, strict=False)  # outputs follow
    return [place if convert is None else convert(value) for convert, value, place in rows]


def _launch(plan: Plan, now: tuple[Any, ...]) -> None:
    block = plan.free.pop(now, None)
    if block is None:
        block = plan.adapt(now)
    code = block.launch()
    if code:
        plan.relaunch(block, code)
    if plan.free.setdefault(now, block) is not block:
        plan.spare(block)
