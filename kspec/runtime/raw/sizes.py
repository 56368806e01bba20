"""Sizes of a launch as callers of raw kernels give them: grid, block, cluster and shared memory.

>>> make_launch((4,), (128,), LaunchOptions(shared_mem=1024)).grid
(4, 1, 1)
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from kspec.errors import ArgumentTypeError, LaunchError
from kspec.host import MAX_BLOCK, MAX_BLOCK_THREADS, MAX_GRID
from kspec.runtime.driver.launch import (
    NO_HOST_OPTIONS,
    NO_OPTIONS,
    HostOptions,
    Launch,
    LaunchOptions,
    Three,
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
