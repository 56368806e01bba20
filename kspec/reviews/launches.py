"""A launch and the figures of compilers in, occupancy and waves on each architecture out."""

from __future__ import annotations

import math

from kspec.dataclass import dataclass
from kspec.host.recording import ReviewedLaunch
from kspec.model.stages import Figures
from kspec.reviews.machine import ARCHS, Machine, machine_of
from kspec.runtime.schedules.occupancy import occupancy


@dataclass(frozen=True)
class Residency:
    """Residency of a launch on a GPU.

    Attributes
    ----------
    machine : str
        The GPU.
    arch : str
        Its architecture.
    registers, spill_bytes, local_bytes, shared_bytes : int
        Of a thread, but the last of a block; -1: not known. Spilled registers are local, too.
    blocks : int
        Of them a multiprocessor holds so many at a time; 0: not known.
    occupancy : float
        Warps that are there at a time, of those that fit.
    limit : str
        The resource that allows no more.
    waves : float
        How often the GPU is filled.
    tail : float
        Share of the last wave that stays empty.
    """

    machine: str
    arch: str
    registers: int
    spill_bytes: int
    local_bytes: int
    shared_bytes: int
    blocks: int
    occupancy: float
    limit: str
    waves: float
    tail: float


def residency_on(launch: ReviewedLaunch, machine: Machine) -> Residency:
    """Return the residency of a launch on a GPU."""
    figures = (launch.figures_of(machine.arch) if launch.figures_of else None) or Figures()
    threads = math.prod(launch.block)
    shared = max(0, figures.shared_bytes) + launch.shared_mem
    registers = figures.registers if figures.registers > 0 else 32
    found = occupancy(machine.arch, threads, registers, shared)
    resident = found.blocks if found else 0
    waves = math.prod(launch.grid) / (resident * machine.multiprocessors) if resident else 0.0
    return Residency(
        machine.name,
        machine.arch,
        figures.registers,
        figures.spill_bytes,
        figures.local_bytes,
        shared,
        resident,
        found.share if found else 0.0,
        found.limit if found else "",
        waves,
        math.ceil(waves) - waves,
    )


def residencies(
    launch: ReviewedLaunch, machine: Machine, everywhere: bool
) -> tuple[Residency, ...]:
    """Return the residency on a machine and, if wanted, on one of each other architecture."""
    others = (machine_of(arch) for arch in ARCHS if everywhere and arch != machine.arch)
    return tuple(residency_on(launch, one) for one in (machine, *others))
