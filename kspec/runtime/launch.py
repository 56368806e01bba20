"""The configuration of a launch: grid, block, shared memory, stream; checked before it starts."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass

from kspec.checks import NO_CHECKS, Checks
from kspec.errors import ArgumentTypeError, LaunchError
from kspec.host.device import MAX_BLOCK, MAX_BLOCK_THREADS, MAX_GRID, Region


@dataclass(frozen=True)
class Launch:
    """Grid and block in three dimensions, dynamic shared memory in bytes, stream handle.

    In a cooperative launch all blocks are resident, so that they can wait for each other.
    On the host device also what is checked, and the memory of the array arguments for it.
    """

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_mem: int = 0
    stream: int = 0
    checks: Checks = NO_CHECKS
    regions: tuple[Region, ...] = ()
    cooperative: bool = False


def make_launch(
    grid: Sequence[int],
    block: Sequence[int],
    shared_mem: int = 0,
    stream: int = 0,
    checks: Checks = NO_CHECKS,
    regions: tuple[Region, ...] = (),
    cooperative: bool = False,
) -> Launch:
    """Return a checked launch; one- and two-dimensional sizes are padded with 1.

    Raises
    ------
    ArgumentTypeError
        If grid or block is no tuple of one to three integers.
    LaunchError
        If no CUDA device can launch it.
    """
    full_grid, full_block = _three("grid", grid), _three("block", block)
    _check_sizes("grid", full_grid, MAX_GRID)
    _check_sizes("block", full_block, MAX_BLOCK)
    threads = full_block[0] * full_block[1] * full_block[2]
    if threads > MAX_BLOCK_THREADS:
        raise LaunchError(f"block {full_block} has {threads} threads; at most {MAX_BLOCK_THREADS}")
    if shared_mem < 0:
        raise LaunchError(f"shared_mem is {shared_mem}; it can not be negative")
    return Launch(full_grid, full_block, shared_mem, stream, checks, regions, cooperative)


def _three(name: str, sizes: Sequence[int]) -> tuple[int, int, int]:
    if isinstance(sizes, tuple) and 1 <= len(sizes) <= 3:
        try:
            x, y, z = (*map(operator.index, sizes), 1, 1)[:3]
        except TypeError:
            pass
        else:
            return x, y, z
    raise ArgumentTypeError(f"{name} must be a tuple of 1 to 3 integers, not {sizes!r}")


def _check_sizes(name: str, sizes: tuple[int, int, int], limits: tuple[int, int, int]) -> None:
    for size, limit, axis in zip(sizes, limits, "xyz", strict=True):
        if not 1 <= size <= limit:
            raise LaunchError(f"{name}.{axis} is {size}; it must be in 1..{limit}")
