"""Results of `kspec tune`: the fastest way to run a kernel on calls of a size, on one GPU.

A kernel asks its table whenever it prepares a call; what a choice says is up to the kernel::

    case = TuningCase("NVIDIA H200", ("float32",), ((1000000,), (100,)), options)
    kernel.tuned.choice(case)           # {"layout": "kspec::Lines", "lanes": 4}, or None

``kspec.lock`` has the tables of a project, the manifest those of a package.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from typing import Any, Protocol

from kspec.dataclass import dataclass

# By name: what the rules would have decided otherwise.
Choice = Mapping[str, int | str]
# Extents, in groups whose meaning is the kernel's.
Sizes = tuple[tuple[int, ...], ...]

REACH = 2  # a choice holds for extents that are at most so many times larger or smaller


@dataclass(frozen=True)
class TuningCase:
    """A call, as far as its choice depends on it.

    Attributes
    ----------
    gpu : str
        Name of the GPU.
    types : tuple of str
        Dtypes of the placeholders, or of the arrays of a raw kernel.
    sizes : tuple of (tuple of int)
        Extents of the kept and the reduced axes, of the loop, or of the arrays of a raw kernel.
    options : callable
        Returns the choices that are worth measuring.
    own : callable
        Returns the choice of the kernel's rules, if they say it as the options do; or nothing.
    """

    gpu: str
    types: tuple[str, ...]
    sizes: Sizes
    options: Callable[[], Iterable[Choice]] = field(compare=False)
    own: Callable[[], Choice] = field(compare=False, default=dict)


class Chooser(Protocol):
    """A kernel asks it before it falls back to its rules; it is false if it has no answers."""

    def __bool__(self) -> bool: ...

    def choice(self, case: TuningCase) -> Choice | None:
        """Return the choice for a call; None: that of the rules."""


@dataclass(frozen=True)
class Tuned:
    """One measured choice.

    Attributes
    ----------
    gpu, types, sizes
        As of the `TuningCase` that was measured.
    choice : mapping of str to int or str
        A choice that was faster than that of the rules.
    gain : float
        The ratio of their times.
    source : str
        Beginning of the digest of the kernel's source, as the lock has it.
    """

    gpu: str
    types: tuple[str, ...]
    sizes: Sizes
    choice: Choice
    gain: float = 1.0
    source: str = ""

    def is_for(self, case: TuningCase) -> bool:
        """Whether this was measured on a call just like one."""
        return (self.gpu, self.types, self.sizes) == (case.gpu, case.types, case.sizes)

    def distance(self, case: TuningCase) -> float:
        """Return the distance of the sizes of a call from those measured; inf: out of reach."""
        if (self.gpu, self.types) != (case.gpu, case.types):
            return math.inf
        if [*map(len, self.sizes)] != [*map(len, case.sizes)]:
            return math.inf
        pairs = [
            (max(a, b), min(a, b))
            for own, other in zip(self.sizes, case.sizes, strict=True)
            for a, b in zip(own, other, strict=True)
        ]
        if any(large > REACH * small for large, small in pairs):
            return math.inf
        return sum(math.log2(large / small) for large, small in pairs if small)


@dataclass(frozen=True)
class TunedTable:
    """The measured choices of one kernel.

    >>> table = TunedTable((Tuned("H", ("int8",), ((1000,), (64,)), {"lanes": 2}),))
    >>> [table.choice(TuningCase("H", ("int8",), ((n,), (64,)), list)) for n in (700, 400)]
    [{'lanes': 2}, None]
    """

    entries: tuple[Tuned, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.entries)

    def choice(self, case: TuningCase) -> Choice | None:
        """Return the choice that was measured on the nearest sizes; None if all are too far."""
        nearest = min(self.entries, key=lambda one: one.distance(case), default=None)
        if nearest is None or math.isinf(nearest.distance(case)):
            return None
        return nearest.choice


def tuned_data(one: Tuned) -> dict[str, Any]:
    """Return an entry as plain data."""
    return {
        "gpu": one.gpu,
        "types": list(one.types),
        "sizes": [list(group) for group in one.sizes],
        "choice": dict(one.choice),
        "gain": one.gain,
        "source": one.source,
    }


def tuned_of(data: Mapping[str, Any]) -> Tuned:
    """Return the entry in plain data; what is raised is what damaged files raise."""
    sizes = tuple(tuple(map(int, group)) for group in data["sizes"])
    types, choice = tuple(map(str, data["types"])), dict(data["choice"])
    return Tuned(data["gpu"], types, sizes, choice, float(data["gain"]), data["source"])
