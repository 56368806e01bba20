"""Recorded traffic in, an estimated time out, and what bounds it.

A GPU is a few pipes that work side by side (the roofline model; Williams, Waterman, Patterson,
2009). Where two are about as busy they get in each other's way, so the busiest is not all of the
time: the parts are added as in a norm, whose exponent was fitted.

* *memory*: sectors that the second cache does not have, at the speed of a copy; sectors of which
  only a part is written are read, too;
* *second cache*: sectors that a multiprocessor's own cache does not have, and all stores;
* *first cache*: requests, and the lines of 128 bytes that they look up;
* *shared memory*, *constants*: a pass for each wavefront, for each distinct word;
* *atomics*: threads that change the same few sectors wait for each other; those of a warp that
  change one address are one, as compilers join them;
* *issue*: four instructions in a cycle;
* *blocks*: a block starts, waits for its loads and ends; a multiprocessor has room for some.

Caches are modelled simply. The first keeps what a block has loaded, as long as it runs, arrays that
fit into it, and nothing that is stored; the second keeps what blocks next to each other share, and
whole arrays that fit into it.  Loads that depend on each other, caches of instructions, local
memory, and the time of barriers are left out.

The numbers below were fitted to the 142 kernels of ``benchmarks/review`` on an H200; other GPUs
are reckoned with the same cycles.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from kspec.host.recording import GLOBAL, MODULE, SHARED, ReviewedLaunch, Traffic
from kspec.reviews.launches import Residency
from kspec.reviews.lines import SECTOR, Located
from kspec.reviews.machine import Machine

_LAUNCH = 3.0e-6  # seconds from one kernel's start to the next one's, beside its work
_NORM = 5.3  # the exponent: two parts that are alike take 2 ** (1 / 5.3) of each
_KEPT = 0.6  # of the second cache that an array may take to stay there
_PARTIAL = 0.84  # of a sector's time for one that is read because it is written in part
_PER_STORE = 2.9  # cycles of a multiprocessor for a sector that is stored
_PER_REQUEST, _PER_TAG = 4.0, 1.0  # cycles of a request, and of a line of 128 bytes, if more
_FIRST_CACHE = 128 << 10  # bytes of a multiprocessor's own
_PER_PASS = 1.23
_PER_CONSTANT = 1.87
_HOT = 2000  # sectors; atomics on fewer wait for each other
_HOT_ATOMICS, _ATOMICS = 3.9e9, 60e9  # threads in a second
_BLOCK = 1200  # cycles of a block without loads
_CHAIN, _DEPTH = 240, 0.39  # cycles that loads take: so many times their number to this power
_STEP = 5.3  # cycles for each access and basic block of a warp
_SHARED_STEP = 52  # for each access of shared memory


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
        ``"shared memory"``, ``"constants"``, ``"atomics"``, ``"issue"``, ``"blocks"``.
    busy : dict of str to float
        Microseconds that each part would take alone.
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
    seconds = dict(_parts(launch, located, residency, machine))
    time = _LAUNCH + sum(one**_NORM for one in seconds.values()) ** (1 / _NORM)
    scale = recorded.blocks / max(1, recorded.sampled)
    useful = sum(_useful_bytes(one, scale) for one in recorded.traffic)
    return Prediction(
        machine.name,
        time * 1e6,
        useful / machine.copy / time,
        max(seconds, key=lambda name: seconds[name]),
        {name: value * 1e6 for name, value in seconds.items()},
    )


def _parts(
    launch: ReviewedLaunch, located: Located, residency: Residency, machine: Machine
) -> Iterator[tuple[str, float]]:
    """Yield each part with the seconds that it would take alone."""
    recorded = launch.recording
    scale = recorded.blocks / max(1, recorded.sampled)
    cycles = machine.multiprocessors * machine.clock / scale
    traffic = recorded.traffic
    loads = [one for one in recorded.accesses if one.space == GLOBAL and one.kind != "store"]
    shared = [one for one in recorded.accesses if one.space == SHARED]
    constants = [one for one in recorded.accesses if one.space == MODULE]
    yield "memory", sum(_memory_bytes(one, scale, machine) for one in traffic) / machine.copy
    stores = sum(one.l2_stores for one in traffic)
    sectors = scale * (stores + sum(one.l2_atomics for one in traffic))
    sectors += sum(_loaded_sectors(one, scale, machine) for one in traffic)
    moved = sectors * SECTOR / machine.l2_bandwidth
    yield "second cache", max(moved, _PER_STORE * stores / cycles)
    first = sum(max(_PER_REQUEST * one.requests, _PER_TAG * one.tags) for one in loads)
    yield "first cache", first / cycles
    yield "shared memory", _PER_PASS * sum(one.wavefronts for one in shared) / cycles
    words = sum(max(one.requests, one.bytes / 4) for one in constants)
    yield "constants", _PER_CONSTANT * words / cycles
    yield "atomics", scale * sum(map(_atomic_seconds, traffic))
    yield "issue", located.instructions / scale / (4 * cycles)
    yield "blocks", _block_seconds(launch, residency, machine)


def _loaded_sectors(traffic: Traffic, scale: float, machine: Machine) -> float:
    """Return the sectors that multiprocessors load from the second cache."""
    if 0 < traffic.nbytes <= _FIRST_CACHE:  # each of them once, however many blocks want it
        most = traffic.nbytes / SECTOR * machine.multiprocessors
        return min(traffic.l2_loads * scale, most)
    return traffic.l2_loads * scale


def _atomic_seconds(traffic: Traffic) -> float:
    if not traffic.l2_atomics:
        return 0.0
    return traffic.atomic_lanes / (_HOT_ATOMICS if traffic.dram_stores < _HOT else _ATOMICS)


def _memory_bytes(traffic: Traffic, scale: float, machine: Machine) -> float:
    """Return the bytes of a region that go to and from memory."""
    loads, stores, partial = (
        count * SECTOR * scale
        for count in (traffic.dram_loads, traffic.dram_stores, traffic.dram_partial)
    )
    if 0 < traffic.nbytes <= _KEPT * machine.l2_bytes:  # once, however many blocks want it
        return min(loads, traffic.nbytes) + min(stores, traffic.nbytes)
    return loads + stores + _PARTIAL * partial


def _useful_bytes(traffic: Traffic, scale: float) -> float:
    loads, stores = (count * SECTOR * scale for count in (traffic.dram_loads, traffic.dram_stores))
    limit = traffic.nbytes or math.inf
    return min(loads, limit) + min(stores, limit)


def _block_seconds(launch: ReviewedLaunch, residency: Residency, machine: Machine) -> float:
    """Return the seconds that blocks take from their starts to their ends, wave after wave."""
    recorded = launch.recording
    if not recorded.warps:
        return 0.0
    accesses = recorded.accesses
    loads = sum(one.requests for one in accesses if one.space == GLOBAL and one.kind != "store")
    shared = sum(one.requests for one in accesses if one.space == SHARED)
    steps = sum(one.visits for one in recorded.basic_blocks) + sum(one.requests for one in accesses)
    cycles = _BLOCK + _CHAIN * (loads / recorded.warps) ** _DEPTH
    cycles += (_STEP * steps + _SHARED_STEP * shared) / recorded.warps
    waves = max(1.0, residency.waves) if residency.blocks else 1.0
    return float(waves * cycles / machine.clock)
