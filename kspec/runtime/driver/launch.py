"""Options of a launch: as callers give them (`LaunchOptions`), and checked (`Launch`).

>>> make_launch((4,), (128,), LaunchOptions(shared_mem=1024)).grid
(4, 1, 1)

Three sources meet in a `Launch`: the call says grid, block and `LaunchOptions`; the kernel whether
it is cooperative, and its limits of shared memory; `HostOptions` are the host device's alone.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kspec.dataclass import dataclass
from kspec.errors import ArgumentTypeError, LaunchError
from kspec.host.limits import MAX_BLOCK, MAX_BLOCK_THREADS, MAX_GRID
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


def make_launch(
    grid: Sequence[int],
    block: Sequence[int],
    options: LaunchOptions = NO_OPTIONS,
    stream: int = 0,
    host: HostOptions = NO_HOST_OPTIONS,
    cooperative: bool = False,
) -> Launch:
    """Return a checked launch; one- and two-dimensional sizes are padded with 1.

    Parameters
    ----------
    grid, block : tuple of int
        Blocks, and threads of each.
    options : LaunchOptions
        As the call has them, but for the stream.
    stream : int
        Handle.
    host : HostOptions
        Checks on the host device.
    cooperative : bool
        Whether all blocks are to be resident.

    Raises
    ------
    ArgumentTypeError
        If grid, block or cluster is not a tuple of 1 to 3 integers, or shared_mem not an integer.
    LaunchError
        If no CUDA device can launch it.
    """
    full_grid, full_block = three("grid", grid), three("block", block)
    _check_sizes("grid", full_grid, MAX_GRID)
    _check_sizes("block", full_block, MAX_BLOCK)
    threads = math.prod(full_block)
    if threads > MAX_BLOCK_THREADS:
        raise LaunchError(f"block {full_block} has {threads} threads; at most {MAX_BLOCK_THREADS}")
    try:
        nbytes = operator.index(options.shared_mem)
    except TypeError:
        raise ArgumentTypeError(
            f"shared_mem must be an integer, not {options.shared_mem!r}"
        ) from None
    if nbytes < 0:
        raise LaunchError(f"shared_mem is {nbytes}; it cannot be negative")
    full_cluster = None if options.cluster is None else three("cluster", options.cluster)
    if full_cluster is not None:
        _check_sizes("cluster", full_cluster, full_grid)
        if any(blocks % each for blocks, each in zip(full_grid, full_cluster, strict=True)):
            raise LaunchError(
                f"grid {full_grid} is not a multiple of cluster {full_cluster}: both count blocks"
            )
    return Launch(
        full_grid, full_block, nbytes, stream, host, cooperative, full_cluster, bool(options.pdl)
    )


def three(name: str, sizes: Sequence[int]) -> Three:
    """Return one to three integers as three.

    Raises
    ------
    ArgumentTypeError
        If they are none.
    """
    if isinstance(sizes, tuple) and 1 <= len(sizes) <= 3:
        try:
            x, y, z = (*map(operator.index, sizes), 1, 1)[:3]
        except TypeError:
            pass
        else:
            return x, y, z
    advice = f"; write ({sizes},)" if isinstance(sizes, int) else ""
    raise ArgumentTypeError(f"{name} must be a tuple of 1 to 3 integers, not {sizes!r}{advice}")


@contextmanager
def about(kernel: str) -> Iterator[None]:
    """Put a kernel's name before the messages of `make_launch` and `three`."""
    try:
        yield
    except (ArgumentTypeError, LaunchError) as error:
        raise type(error)(f"{kernel}: {error}") from error.__cause__


def _check_sizes(name: str, sizes: Three, limits: Three) -> None:
    for size, limit, axis in zip(sizes, limits, "xyz", strict=True):
        if not 1 <= size <= limit:
            raise LaunchError(f"{name}.{axis} is {size}; it must be in 1..{limit}")
