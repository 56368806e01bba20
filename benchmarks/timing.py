"""Times and what is made of them: samples, medians, bursts of calls."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

Call = Callable[[], object]


@dataclass(frozen=True)
class Sample:
    """What was measured of one call, in seconds."""

    median: float
    minimum: float
    count: int


def summarise(seconds: Sequence[float]) -> Sample:
    """Return median and minimum of measured times."""
    return Sample(statistics.median(seconds), min(seconds), len(seconds))


def repetitions(once: float, budget: float, most: int) -> int:
    """Return how many calls of `once` seconds fit a budget: at least 3, an odd number."""
    wanted = min(most, int(budget / max(once, 1e-9)))
    return max(3, wanted - (wanted + 1) % 2)


@contextmanager
def garbage_collection_off() -> Iterator[None]:
    """Keep the collector from running inside a measurement."""
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def burst(function: Call, calls: int) -> float:
    """Return the seconds of a call, from so many calls in a row."""
    clock, turns = time.perf_counter, range(calls)
    start = clock()
    for _ in turns:
        function()
    return (clock() - start) / calls


def interleaved(
    functions: Mapping[str, Call],
    rounds: int,
    calls: int,
    finish: Call,
    around: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> dict[str, Sample]:
    """Time several functions in turn, so that what disturbs one disturbs all.

    Parameters
    ----------
    functions : mapping of str to callable
        What to call.
    rounds : int
        Bursts of each; a first one is not counted.
    calls : int
        Calls in a burst, with nothing between them.
    finish : callable
        Waits for the device; called between bursts.
    around : callable
        Returns the context a burst runs in.
    """
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    with garbage_collection_off():
        for number in range(rounds + 1):
            for name, function in functions.items():
                with around():
                    each = burst(function, calls)
                    finish()
                if number:
                    seconds[name].append(each)
    return {name: summarise(times) for name, times in seconds.items()}
