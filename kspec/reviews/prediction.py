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
* *blocks*: a block starts, waits for its loads, in as many steps as they need each other, and ends;
  a multiprocessor has room for some.

Caches are modelled simply. The first keeps arrays that fit into it, and what a block has loaded
until its warps have loaded as much as there is room for; it keeps nothing that is stored. The
second keeps what blocks next to each other share, and whole arrays that fit into it. Each thread's
local memory goes there once. Caches of instructions are left out.

The numbers below were fitted to the 142 kernels of ``benchmarks/review`` on an H200; other GPUs
are reckoned with the same cycles.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from kspec.dataclass import dataclass
from kspec.host.recording import GLOBAL, MODULE, SHARED, ReviewedLaunch, Traffic, Waits
from kspec.reviews.launches import Residency
from kspec.reviews.lines import SECTOR, Located
from kspec.reviews.machine import Machine

LAUNCH = 3.5e-6  # seconds from one kernel's start to the next one's, beside its work
_NORM = 4.9  # the exponent: two parts that are alike take 2 ** (1 / 4.9) of each
_KEPT = 0.6  # of the second cache that an array may take to stay there
_PARTIAL = 0.87  # of a sector's time for one that is read because it is written in part
_PER_STORE = 2.7  # cycles of a multiprocessor for a sector that is stored
_PER_LOCAL = 1.75  # the same, of local memory, whose lines are whole
_PER_REQUEST, _PER_TAG = 4.0, 1.0  # cycles of a request, and of a line of 128 bytes, if more
_LINE = 128  # bytes of the first cache that are kept or lost together
_WHOLE = 0.5  # of the first cache that an array may take to stay there
_PER_PASS = 1.24
_PER_CONSTANT = 1.87
# Threads that change one sector in a second; those of so many sectors are as many times this to the
# power of `_SPREAD`, and at most the last.
_HOT_ATOMICS, _SPREAD, _ATOMICS = 1.3e9, 0.4, 60e9
_BLOCK = 430  # cycles of a block that does nothing
_LOAD, _SHARED_LOAD, _BARRIER = 1000, 77, 25  # cycles that a warp waits
_TURN = 0.033  # of them for loads in a further basic block
_INSTRUCTION = 1.7  # cycles of a warp


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
    time = LAUNCH + sum(one**_NORM for one in seconds.values()) ** (1 / _NORM)
    scale = recorded.scale
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
    scale = recorded.scale
    cycles = machine.multiprocessors * machine.clock / scale
    traffic = recorded.traffic
    loads = [one for one in recorded.accesses if one.space == GLOBAL and one.kind != "store"]
    shared = [one for one in recorded.accesses if one.space == SHARED]
    constants = [one for one in recorded.accesses if one.space == MODULE]
    yield "memory", sum(_memory_bytes(one, scale, machine) for one in traffic) / machine.copy
    yield "second cache", _second_cache_seconds(launch, residency, machine)
    first = sum(max(_PER_REQUEST * one.requests, _PER_TAG * one.tags) for one in loads)
    yield "first cache", first / cycles
    yield "shared memory", _PER_PASS * sum(one.wavefronts for one in shared) / cycles
    words = sum(max(one.requests, one.bytes / 4) for one in constants)
    yield "constants", _PER_CONSTANT * words / cycles
    yield "atomics", scale * sum(map(_atomic_seconds, traffic))
    yield "issue", located.instructions / scale / (4 * cycles)
    yield "blocks", _block_seconds(launch, located, residency, machine)


def _second_cache_seconds(launch: ReviewedLaunch, residency: Residency, machine: Machine) -> float:
    """Return the seconds that sectors take between multiprocessors and the second cache."""
    traffic, scale = launch.recording.traffic, launch.recording.scale
    room = _room_of_a_warp(launch, residency, machine)
    loads = sum(loaded_sectors(one, scale, room, machine) for one in traffic)
    stores = scale * sum(one.l2_stores for one in traffic)
    atomics = scale * sum(one.l2_atomics for one in traffic)
    local = _local_sectors(launch, residency)
    moved = (loads + stores + atomics + local) * SECTOR / machine.l2_bandwidth
    stored = (_PER_STORE * stores + _PER_LOCAL * local) / machine.multiprocessors / machine.clock
    return max(moved, stored)


def _room_of_a_warp(launch: ReviewedLaunch, residency: Residency, machine: Machine) -> float:
    """Return the lines that the first cache keeps for each warp of a multiprocessor."""
    blocks = max(1, min(residency.blocks, math.ceil(residency.waves * residency.blocks)))
    room = machine.l1_bytes - blocks * residency.shared_bytes
    return max(0.0, room / _LINE / blocks / -(-math.prod(launch.block) // 32))


def loaded_sectors(traffic: Traffic, scale: float, room: float, machine: Machine) -> float:
    """Return the sectors that multiprocessors load from the second cache."""
    if 0 < traffic.nbytes <= _WHOLE * machine.l1_bytes:  # once, however many blocks want it
        most = traffic.nbytes / SECTOR * machine.multiprocessors
        return min(traffic.l2_loads * scale, most)
    # Numbers from 2^k to 2^(k + 1) are taken to be equally frequent.
    lost = sum(
        count * min(1.0, max(0.0, 2 - room / 2.0**k)) for k, count in enumerate(traffic.again)
    )
    return (traffic.l2_loads + lost) * scale


def _local_sectors(launch: ReviewedLaunch, residency: Residency) -> float:
    threads = math.prod(launch.grid) * math.prod(launch.block)
    return threads * max(0, residency.local_bytes) / SECTOR


def _atomic_seconds(traffic: Traffic) -> float:
    if not traffic.l2_atomics:
        return 0.0
    sectors = max(1, traffic.dram_stores)
    if traffic.nbytes:
        sectors = min(sectors, -(-traffic.nbytes // SECTOR))
    return float(traffic.atomic_lanes / min(_ATOMICS, _HOT_ATOMICS * sectors**_SPREAD))


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


def _block_seconds(
    launch: ReviewedLaunch, located: Located, residency: Residency, machine: Machine
) -> float:
    """Return the seconds that blocks take from their starts to their ends, wave after wave."""
    recorded = launch.recording
    if not recorded.warps:
        return 0.0
    waited = _LOAD * _steps(recorded.global_waits)
    waited += _SHARED_LOAD * _steps(recorded.shared_waits) + _BARRIER * recorded.barriers
    waited *= recorded.scale
    warps = recorded.warps * recorded.blocks / max(1, recorded.sampled)
    cycles = _BLOCK + (waited + _INSTRUCTION * located.instructions) / warps
    waves = max(1.0, residency.waves) if residency.blocks else 1.0
    return float(waves * cycles / machine.clock)


def _steps(waits: Waits) -> float:
    return waits.steps + _TURN * waits.turns
