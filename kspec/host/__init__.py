"""The host device: the CPU executes kernels with CUDA's semantics, within the limits of GPUs.

`kspec.compiler.host.compile` makes a shared object from CUDA text; `kspec.host.modules` loads it,
`kspec.host.kernels` launches grids; ``rt/`` is the C++ runtime behind it and ``include/`` the CUDA
dialect.  Here are the limits of launches:

>>> check_configuration("k", (1, 1, 1), (64, 1, 1), 0)
"""

from __future__ import annotations

import math

from kspec.errors import LaunchError

# Those of every GPU since sm_30 (CUDA C++ Programming Guide, compute capabilities); launches on a
# GPU are checked against them too.
MAX_BLOCK_THREADS = 1024
MAX_BLOCK = (1024, 1024, 64)
MAX_GRID = (2**31 - 1, 65535, 65535)
MAX_SHARED_BYTES = 227 * 1024
MAX_PARAMETER_BYTES = 32764  # since CUDA 12.1 on compute capability 7.0 and newer
# All threads of a cooperative launch have a stack: 130 MB, and half the mappings Linux allows.
MAX_COOPERATIVE_BLOCKS = 1024  # that of rt/grid.h
MAX_COOPERATIVE_THREADS = 16384


def check_parameter_bytes(name: str, sizes: tuple[int, ...]) -> None:
    """Raise `LaunchError` for more bytes of parameters than CUDA allows."""
    if sum(sizes) > MAX_PARAMETER_BYTES:
        raise LaunchError(
            f"{name}: its parameters have {sum(sizes)} bytes, and CUDA allows "
            f"{MAX_PARAMETER_BYTES}: pass an array, or a pointer to the struct"
        )


def check_configuration(
    name: str, grid: tuple[int, int, int], block: tuple[int, int, int], shared_mem: int
) -> None:
    """Raise `LaunchError` for what a GPU would refuse too."""
    for what, extents, limits in (("grid", grid, MAX_GRID), ("block", block, MAX_BLOCK)):
        for extent, limit in zip(extents, limits, strict=True):
            if not 1 <= extent <= limit:
                raise LaunchError(f"{name}: {what} {extents} is not within (1, 1, 1) and {limits}")
    threads = block[0] * block[1] * block[2]
    if threads > MAX_BLOCK_THREADS:
        raise LaunchError(
            f"{name}: block {block} has {threads} threads; the limit is {MAX_BLOCK_THREADS}"
        )
    if not 0 <= shared_mem <= MAX_SHARED_BYTES:
        raise LaunchError(
            f"{name}: {shared_mem} bytes of shared memory; the limit is {MAX_SHARED_BYTES}"
        )


def check_cooperative(name: str, grid: tuple[int, int, int], block: tuple[int, int, int]) -> None:
    """Raise `LaunchError` for a cooperative grid whose threads cannot all have stacks."""
    blocks, threads = math.prod(grid), math.prod(block)
    if blocks > MAX_COOPERATIVE_BLOCKS or blocks * threads > MAX_COOPERATIVE_THREADS:
        raise LaunchError(
            f"{name}: a cooperative grid of {blocks} blocks with {threads} threads each cannot "
            f"be resident; the limit of the host device is {MAX_COOPERATIVE_BLOCKS} blocks and "
            f"{MAX_COOPERATIVE_THREADS} threads in all: launch fewer, and let each do more"
        )
