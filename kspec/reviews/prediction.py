"""Recorded traffic in, an estimated time out, and what bounds it.

A GPU is a few pipes that work side by side, and the busiest decides (the roofline model; Williams,
Waterman, Patterson, 2009), unless too few warps are there to keep it busy:

* *memory*: sectors that the second cache does not have, at the speed of a copy;
* *second cache*: sectors that a multiprocessor's own cache does not have;
* *first cache*: a request takes a pass for each 128 bytes of sectors;
* *shared memory*: a pass for each wavefront;
* *issue*: four instructions in a cycle;
* *latency*: warps wait for memory one request after another.

Caches are modelled simply. The first keeps what a block has loaded, as long as it runs, and never
what it has stored; the second keeps what blocks next to each other share, and whole arrays that
fit into it.  Bank groups of memory, caches of instructions, and the time of barriers are left out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from kspec.host.recording import GLOBAL, SHARED, ReviewedLaunch, Traffic
from kspec.reviews.launches import Residency
from kspec.reviews.lines import SECTOR, Located
from kspec.reviews.machine import Machine

_LAUNCH = 1.6e-6  # seconds from the start of a kernel to its end, if it does nothing
_LATENCY = 620  # cycles until memory answers
_OVERLAP = 4  # requests of a warp that are on their way at the same time
_PASS = 128  # bytes of the first cache in a cycle


@dataclass(frozen=True)
class Prediction:
    """An estimated time.

    Attributes
    ----------
    machine : str
        The GPU.
    microseconds : float
        Of the kernel.
    of_copy : float
        Speed against a copy that moves the bytes the kernel must move.
    bound : str
        The busiest part: ``"memory"``, ``"second cache"``, ``"first cache"``,
        ``"shared memory"``, ``"issue"``, ``"latency"``.
    busy : dict of str to float
        Microseconds of each part.
    """

    machine: str
    microseconds: float
    of_copy: float
    bound: str
    busy: dict[str, float]


def predict(
    launch: ReviewedLaunch, located: Located, residency: Residency, machine: Machine
) -> Prediction:
    """Return the estimated time of a recorded launch."""
    recorded = launch.recording
    scale = recorded.blocks / max(1, recorded.sampled)
    cycles = machine.multiprocessors * machine.clock
    l2 = sum(one.l2_loads + one.l2_stores + one.l2_atomics for one in recorded.traffic) * scale
    memory = sum(_memory_bytes(one, scale, machine) for one in recorded.traffic)
    first = sum(
        max(one.requests, one.sectors * SECTOR / _PASS)
        for one in recorded.accesses
        if one.space == GLOBAL
    )
    shared = sum(one.wavefronts for one in recorded.accesses if one.space == SHARED)
    seconds = {
        "memory": memory / machine.copy,
        "second cache": l2 * SECTOR / machine.l2_bandwidth,
        "first cache": first * scale / cycles,
        "shared memory": shared * scale / cycles,
        "issue": located.instructions / (4 * cycles),
        "latency": _latency(launch, residency, machine),
    }
    bound = max(seconds, key=lambda name: seconds[name])
    time = seconds[bound] + _LAUNCH
    useful = sum(_useful_bytes(one, scale) for one in recorded.traffic)
    return Prediction(
        machine.name,
        time * 1e6,
        useful / machine.copy / time,
        bound,
        {name: value * 1e6 for name, value in seconds.items()},
    )


def _memory_bytes(traffic: Traffic, scale: float, machine: Machine) -> float:
    """Return the bytes of a region that go to and from memory."""
    loads, stores = (count * SECTOR * scale for count in (traffic.dram_loads, traffic.dram_stores))
    if 0 < traffic.nbytes <= machine.l2_bytes / 2:  # once, however many blocks want it
        loads, stores = min(loads, traffic.nbytes), min(stores, traffic.nbytes)
    return loads + stores


def _useful_bytes(traffic: Traffic, scale: float) -> float:
    loads, stores = (count * SECTOR * scale for count in (traffic.dram_loads, traffic.dram_stores))
    limit = traffic.nbytes or math.inf
    return min(loads, limit) + min(stores, limit)


def _latency(launch: ReviewedLaunch, residency: Residency, machine: Machine) -> float:
    """Return the seconds in which warps wait, if nothing but their own number hides it."""
    recorded = launch.recording
    if not recorded.warps:
        return 0.0
    loads = sum(
        one.requests for one in recorded.accesses if one.space == GLOBAL and one.kind != "store"
    )
    rounds = math.ceil(loads / recorded.warps / _OVERLAP)
    waves = max(1.0, residency.waves) if residency.blocks else 1.0
    return waves * rounds * _LATENCY / machine.clock
