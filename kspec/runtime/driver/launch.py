"""Options of a launch: as callers give them (`LaunchOptions`), and checked (`Launch`).

Three sources meet in a `Launch`: the call says grid, block and `LaunchOptions`; the kernel whether
it is cooperative, and its limits of shared memory; `HostOptions` are the host device's alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kspec.dataclass import dataclass
from kspec.model.checks import NO_CHECKS, UNCHECKED, Checks

if TYPE_CHECKING:
    from kspec.host.kernels import Region

Three = tuple[int, int, int]


@dataclass(frozen=True)
class LaunchOptions:
    """Keywords of a call that say how its kernel is launched.

    Attributes
    ----------
    stream : stream or None
        Where to queue the kernel; None: the current stream of the first array's library.
    shared_mem : int
        Dynamic shared memory in bytes. This and the next two are of raw kernels.
    cluster : tuple of int or None
        Blocks of a thread-block cluster.
    pdl : bool
        Programmatic dependent launch.
    sanitize, order, timeout : optional
        Checks on the host device (`kspec.Checks`); None: as the kernel or its surroundings say.
    template : tuple of int
        Integers of the C++ template of a raw kernel, which choose its instance.
    """

    stream: Any = None
    shared_mem: int = 0
    cluster: Sequence[int] | None = None
    pdl: bool = False
    sanitize: str | None = None
    order: str | None = None
    timeout: float | None = None
    template: tuple[int, ...] = ()


NO_OPTIONS = LaunchOptions()


@dataclass(frozen=True)
class HostOptions:
    """Options of a launch that exist on the host device only.

    Attributes
    ----------
    checks : Checks
        Checks of the launch.
    modes : tuple of str
        Instrumentation of the kernel.
    regions : tuple of Region
        The memory of the array arguments, for that.
    """

    checks: Checks = NO_CHECKS
    modes: tuple[str, ...] = ()
    regions: tuple[Region, ...] = ()

    @property
    def is_repeatable(self) -> bool:
        """Whether repeated launches keep to it: these check bounds, and nothing else."""
        checks = self.checks
        plain = checks.order == "forward" and checks.timeout is None
        return plain and self.modes in ((), ("bounds",)) and checks.sanitize in ((), UNCHECKED)


NO_HOST_OPTIONS = HostOptions()


@dataclass(frozen=True)
class Launch:
    """A checked launch of a kernel.

    Attributes
    ----------
    grid, block : tuple of int
        Blocks, and threads of each, in three dimensions.
    shared_mem : int
        Dynamic shared memory in bytes.
    stream : int
        Handle.
    host : HostOptions
        Options of the host device.
    cooperative : bool
        Whether all blocks are to be resident, so that they can wait for each other.
    cluster : tuple of int or None
        Blocks of a cluster in three dimensions.
    pdl : bool
        Programmatic dependent launch: whether it may begin before the kernel in front of it on the
        stream has ended.
    shared_limit : int or None
        Limit of `shared_mem`; None: as the kernel has it.
    carveout : int or None
        Percentage of a multiprocessor's memory that is preferred as shared memory; -1: the driver's
        default, None: as the kernel has it.
    """

    grid: Three
    block: Three
    shared_mem: int = 0
    stream: int = 0
    host: HostOptions = NO_HOST_OPTIONS
    cooperative: bool = False
    cluster: Three | None = None
    pdl: bool = False
    shared_limit: int | None = None
    carveout: int | None = None

    @property
    def has_attributes(self) -> bool:
        """Whether there is more to it than sizes and a stream."""
        return (
            self.cooperative or self.pdl or self.cluster is not None or (self.carveout is not None)
        )
