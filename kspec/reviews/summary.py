"""A launch in, its limit and the way to a faster one out, in sentences.

::

    summary(review.slowest)
    # "transpose takes about 15.2 µs on H200 (estimated), 0.13 of the speed of a copy. It is limited
    #  by the second cache. kernel.cu:6 moves 8.0 times the bytes that it uses; let neighbouring
    #  threads use neighbouring addresses."

`kspec.reviews.table` prints the figures behind it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kspec.reviews.prediction import LAUNCH

if TYPE_CHECKING:
    from kspec.reviews.lines import AccessedLine, Branch
    from kspec.reviews.review import LaunchReview

_LEAST = 0.01  # of the speed of a copy that is shown
_SPLIT = 24  # of 32 threads: with fewer in an instruction, branches are worth a look


def summary(one: LaunchReview) -> str:
    """Return the estimated time of a launch, what limits it, and what to change."""
    prediction = one.prediction
    took = f"{one.kernel} takes about {prediction.microseconds:.3g} µs on {prediction.machine}"
    if max(prediction.busy.values(), default=0.0) * 1e-6 < LAUNCH:
        small = (
            f"{took} (estimated), most of it the launch itself: give it more work, or put several "
            "launches into a CUDA graph."
        )
        return " ".join(filter(None, (small, _scattered(one), _conflicts(one))))
    speed = f"{prediction.of_copy:.2f}" if prediction.of_copy >= _LEAST else f"less than {_LEAST}"
    limit = _LIMITS[prediction.bound](one)
    return f"{took} (estimated), {speed} of the speed of a copy. It is limited by {limit}"


def _scattered(one: LaunchReview) -> str:
    """Return a sentence on the access that moves the most besides its needs; empty without one."""
    lines = [line for line in one.lines if line.space == "global" and not line.is_coalesced]
    worst = max(lines, key=lambda line: line.bytes_moved, default=None)
    if worst is None:
        return ""
    times = worst.sectors_per_request / worst.sectors_needed
    return (
        f"{_place(worst)} moves {times:.1f} times the bytes that it uses; let neighbouring threads "
        "use neighbouring addresses."
    )


def _conflicts(one: LaunchReview) -> str:
    """Return a sentence on the access with the most bank conflicts; empty without one."""
    worst = max(one.lines, key=lambda line: line.passes, default=None)
    if worst is None or worst.conflict_ways < 2:
        return ""
    return (
        f"{_place(worst)} takes {worst.conflict_ways:.0f} passes for one, because threads of a "
        "warp meet in a bank; make rows of the array one element longer."
    )


def _memory(one: LaunchReview) -> str:
    return f"the memory. {_scattered(one) or 'Only fewer or smaller elements help.'}"


def _cache(one: LaunchReview) -> str:
    fewer = "Keep elements that are used again in registers or in shared memory."
    return f"the {one.prediction.bound}. {_scattered(one) or fewer}"


def _shared(one: LaunchReview) -> str:
    fewer = "Keep values in registers, or exchange them by shuffles."
    return f"shared memory. {_conflicts(one) or fewer}"


def _constants(one: LaunchReview) -> str:
    return (
        "constant memory: threads of a warp read different elements of it. Pass the "
        "table as an array."
    )


def _atomics(one: LaunchReview) -> str:
    lines = [line for line in one.lines if line.kind == "atomic"]
    worst = max(lines, key=lambda line: line.lanes, default=None)
    where = f" at {_place(worst)}" if worst else ""
    return (
        f"atomic operations{where}: many threads change the same addresses. Add up "
        "in a block first, or use a reduction."
    )


def _issue(one: LaunchReview) -> str:
    split = max(one.branches, key=lambda branch: branch.visits * branch.diverged, default=None)
    if one.warp_efficiency < _SPLIT and split is not None:
        return (
            f"instructions, in which {one.warp_efficiency:.0f} of 32 threads take "
            f"part: threads of a warp go different ways at {_place(split)}. Let those that go one "
            "way be neighbours."
        )
    return "instructions: compute less for each element, or in a smaller type."


def _blocks(one: LaunchReview) -> str:
    found = one.residencies[0] if one.residencies else None
    if found is not None and 0 < found.waves < 1:
        return (
            f"blocks that wait for their loads, and they fill "
            f"{100 * found.waves:.2g}% of the GPU. Use more blocks, or larger arrays."
        )
    if found is not None and 0 < found.occupancy < 0.5:
        return (
            f"blocks that wait for their loads, and a multiprocessor has room for "
            f"{found.occupancy:.0%} of its warps ({found.limit}). Use less of that, or smaller "
            "blocks."
        )
    return (
        "blocks that wait for their loads. Let a thread load several elements before "
        "it uses the first."
    )


def _place(one: AccessedLine | Branch) -> str:
    return f"{one.file}:{one.line}" if one.file else "a line that is not known"


_LIMITS: dict[str, Callable[[LaunchReview], str]] = {
    "memory": _memory,
    "second cache": _cache,
    "first cache": _cache,
    "shared memory": _shared,
    "constants": _constants,
    "atomics": _atomics,
    "issue": _issue,
    "blocks": _blocks,
}
