"""Reductions across shards, again: what calls with shards alike have in common.

>>> again = Repeated(SplitReduction(l2norm))                                 # doctest: +SKIP
>>> y = again([(x0,), (x1,)], (0,), (), in_full)                             # doctest: +SKIP

A reduction across shards is a launch for each of them, copies, and a launch that finishes.  All of
that is prepared once for shards of the same dtypes, shapes, strides and places; a call writes its
addresses and scalars into it.  Partials are memory of the plan, which one call has at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import field
from typing import Any

from kspec.dataclass import dataclass
from kspec.model.shapes import Shape
from kspec.runtime.callcache import PlanCache
from kspec.runtime.callcache.launch_plan import ALIGNMENT, Plan, make_plan
from kspec.runtime.driver import stream as driver_streams
from kspec.runtime.driver.device import Device
from kspec.runtime.kernels.partial_reduction import SplitReduction
from kspec.runtime.kernels.partials import Partial
from kspec.runtime.libraries.array_access import access_of
from kspec.runtime.libraries.lookup import Library, library_of

Args = tuple[Any, ...]

MAX_BYTES = 1 << 20  # of partials: with more of them the checks of a call go unnoticed


@dataclass(frozen=True)
class _CallKey:
    """Properties of a call that its plan depends on.

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


@dataclass(frozen=True)
class _Kind:
    """Calls that can share plans.

    Attributes
    ----------
    free : list
        Plans that no call has.
    is_hopeless : bool
        Whether there can be none.
    """

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
        self.kinds: PlanCache[_Kind] = PlanCache()

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
        found = None if self._has_raw else _key_of(calls)
        if found is None:
            return in_full()
        key = found.key, reduced, kept
        kind = self.kinds.plans.get(key)
        if kind is None:
            result = in_full()
            self.kinds.learn(key, lambda: self._kind(calls, reduced, kept, found.library))
            return result
        if kind.is_hopeless:
            return in_full()
        try:
            plan = kind.free.pop()
        except IndexError:  # other threads have them
            made = self._kind(calls, reduced, kept, found.library)
            if made is None or made.is_hopeless:
                return in_full()
            (plan,) = made.free
        ready = plan.prepare(calls, found.addresses)
        if ready is None:
            kind.free.append(plan)
            return in_full()
        # From here on nothing may lead to the checks: they would launch again.
        result = plan.launch(ready)
        kind.free.append(plan)  # one that an exception loses is garbage
        return result

    def _kind(
        self, calls: Sequence[Args], reduced: tuple[int, ...], kept: Shape, library: Library
    ) -> _Kind | None:
        """Return a kind with its first plan; None if that has failed this time."""
        try:
            plan = self._plan(calls, reduced, kept, library)
        except Exception:  # out of memory, say; the next call is checked in full, too
            return None
        return _Kind(is_hopeless=True) if plan is None else _Kind([plan])

    def _plan(
        self, calls: Sequence[Args], reduced: tuple[int, ...], kept: Shape, library: Library
    ) -> _Plan | None:
        split = self._split
        prepared = [split.prepare_partial(args, reduced) for args in calls]
        partials = [partial for partial, _ in prepared]
        if sum(math.prod(partial.array.shape) for partial in partials) > MAX_BYTES:
            return None
        joined, copies = split.prepare_join(partials)
        last = split.prepare_finish(joined, calls[0], kept, library=library)
        plans = [make_plan(one) for one in (*(one for _, one in prepared), last)]
        first, finish = [one for one in plans[:-1] if one is not None], plans[-1]
        if finish is None or len(first) < len(calls):
            return None
        outputs = len(split.kernel.declaration.outputs)
        shards = [
            _Shard(plan, (_address(partial.array),) * outputs)
            for plan, partial in zip(first, partials, strict=True)
        ]
        return _Plan(split, shards, copies, finish, (*partials, joined))


def _key_of(calls: Sequence[Args]) -> _CallKey | None:
    """Return the properties of a call; None if it is to be checked in full."""
    signs: list[Hashable] = []
    addresses: list[list[int | None]] = []
    devices: dict[Device, None] = {}
    common: Library | None = None
    try:
        for args in calls:
            places: list[int | None] = []
            for value in args:
                library = library_of(value)
                if library is None:
                    signs.append((type(value),))
                    places.append(None)
                    continue
                # Others may make an array for each call; several libraries wait for each other.
                if access_of(type(value)) is None or library.name != (common or library).name:
                    return None
                common, view = library, library.view(value)
                devices[view.device] = None
                signs += (view.device, view.dtype, view.shape, view.strides, view.ptr % ALIGNMENT)
                places.append(view.ptr)
            addresses.append(places)
    except Exception:  # the checks say it better
        return None
    streams = None if common is None else _streams(common, devices)
    if common is None or streams is None:
        return None
    return _CallKey((common.name, *streams, *signs), addresses, common)


def _streams(library: Library, devices: Iterable[Device]) -> list[int] | None:
    """Return the library's current streams; None if one of them cannot be in a plan."""
    found = []
    for device in devices:
        if device.is_host:
            continue
        stream = library.stream(device)
        # What becomes a graph is launched at any time, beside other calls; and a handle that means
        # a stream for each thread does not say which one partials are used on.
        if driver_streams.is_of_thread(stream) or driver_streams.is_capturing(
            device.ordinal, stream
        ):
            return None
        found.append(stream)
    return found


@dataclass(frozen=True)
class _Shard:
    """The launch that reduces one shard.

    Attributes
    ----------
    plan : Plan
        The launch.
    written : tuple of int
        Addresses of its outputs, which are a part of the plan's.
    """

    plan: Plan
    written: tuple[int, ...]


@dataclass(frozen=True)
class _Ready:
    """The changing part of a call: the values of each block, and the new outputs.

    Attributes
    ----------
    values : list of tuple
        For each shard, then for the launch that finishes.
    outputs : list
        Arrays.
    """

    values: list[tuple[Any, ...]]
    outputs: list[Any]


class _Plan:
    """All launches of a call, with the memory between them.

    Parameters
    ----------
    split : SplitReduction
        The kernel's stages.
    shards : sequence of _Shard
        The first launches.
    copies : sequence of callable
        Put the partials where they are finished.
    finish : Plan
        The last launch.
    partials : sequence of Partial
        Memory that the launches write and read; the last is the one that is finished.
    """

    def __init__(
        self,
        split: SplitReduction,
        shards: Sequence[_Shard],
        copies: Sequence[Callable[[], None]],
        finish: Plan,
        partials: Sequence[Partial],
    ) -> None:
        self._kernel = split.kernel
        self._shards = shards
        self._copies = copies
        self._finish = finish
        self._partials = partials  # kept alive: launches know addresses
        declaration = split.kernel.declaration
        self._scalars = [one.name in declaration.scalars for one in declaration.inputs]
        # Accumulators are in the place of inputs with core dimensions, which are not read.
        address = _address(partials[-1].array)
        self._places = [address if one.core else None for one in declaration.inputs]

    def prepare(
        self, calls: Sequence[Args], addresses: Sequence[Sequence[int | None]]
    ) -> _Ready | None:
        """Return the values and outputs of a call; None if it must be checked in full."""
        values = []
        try:
            for shard, args, places in zip(self._shards, calls, addresses, strict=True):
                plan = shard.plan
                rows = zip(args, places, strict=True)
                arrays = [one for one, place in rows if place is not None]
                if plan.refuses is not None and plan.refuses(self._kernel, arrays):
                    return None
                values.append((*_values(plan, args, places), *shard.written))
            # Elements are in the partials: of the inputs, the post-map reads scalars only.
            rest = [
                value if wanted else 0
                for value, wanted in zip(calls[0], self._scalars, strict=True)
            ]
            outputs = [make() for make in self._finish.make]
            written = [_address(one) for one in outputs]
            if any(one % ALIGNMENT for one in written):
                return None
            values.append((*_values(self._finish, rest, self._places), *written))
        except Exception:  # a scalar that does not fit: the checks say it better
            return None
        return _Ready(values, outputs)

    def launch(self, ready: _Ready) -> Any:
        """Launch everything, and return the outputs."""
        *first, last = ready.values
        for shard, values in zip(self._shards, first, strict=True):
            shard.plan.run(values)
        for copy in self._copies:
            copy()
        self._finish.run(last)
        return ready.outputs[0] if len(ready.outputs) == 1 else tuple(ready.outputs)


def _address(array: Any) -> int:
    library = library_of(array)
    assert library is not None
    return library.view(array).ptr


def _values(plan: Plan, args: Sequence[Any], places: Sequence[int | None]) -> list[Any]:
    """Return the values of the inputs in a plan's block: addresses, and bytes of scalars."""
    rows = zip(plan.convert, args, places, strict=False)  # outputs follow
    return [place if convert is None else convert(value) for convert, value, place in rows]
