"""Occupancy of a multiprocessor: registers and shared memory in, a share out; no GPU.

>>> occupancy("sm_90", threads=256, registers=40, shared=0)
Occupancy(blocks=6, share=0.75, limit='registers')

The rules are those of NVIDIA's occupancy calculator: registers are given out to warps, 256 at a
time, shared memory to blocks, and 1 KiB of that is the system's.  Dynamic
shared memory, which a launch asks for, is not known beforehand.
"""

from __future__ import annotations

import re

from kspec.dataclass import dataclass

_WARP = 32
_REGISTERS = 65536  # of a multiprocessor, of every architecture below
_REGISTER_UNIT = 256
_SCHEDULERS = 4  # each has a quarter of the registers, and of the warps
_SHARED_UNIT = 128
_SYSTEM_SHARED = 1024
_ARCH = re.compile(r"sm_(\d+)[af]?")


@dataclass(frozen=True)
class Multiprocessor:
    """Resources of a multiprocessor: warps, blocks, and bytes of shared memory."""

    warps: int
    blocks: int
    shared: int


# Ten times the compute capability; the CUDA programming guide, "Compute Capabilities".
_MULTIPROCESSORS = {
    80: Multiprocessor(64, 32, 164 * 1024),
    86: Multiprocessor(48, 16, 100 * 1024),
    87: Multiprocessor(48, 16, 164 * 1024),
    89: Multiprocessor(48, 24, 100 * 1024),
    90: Multiprocessor(64, 32, 228 * 1024),
    100: Multiprocessor(64, 32, 228 * 1024),
    103: Multiprocessor(64, 32, 228 * 1024),
    110: Multiprocessor(48, 24, 228 * 1024),
    120: Multiprocessor(48, 24, 100 * 1024),
    121: Multiprocessor(48, 24, 100 * 1024),
}


@dataclass(frozen=True)
class Occupancy:
    """Occupancy of a multiprocessor.

    Attributes
    ----------
    blocks : int
        Blocks that are there at the same time.
    share : float
        Warps that are there at the same time, of those that fit; 0: not even one block fits.
    limit : str
        The limiting resource: ``"registers"``, ``"shared memory"``, ``"blocks"`` or
        ``"warps"``, which is as full as it gets with blocks of this size.
    """

    blocks: int
    share: float
    limit: str


def occupancy(arch: str, threads: int, registers: int, shared: int) -> Occupancy | None:
    """Return the occupancy of a kernel, or None for an architecture that is not known.

    Parameters
    ----------
    arch : str
        ``"sm_90"``; the suffixes ``a`` and ``f`` make no difference.
    threads : int
        Of a block.
    registers : int
        Of a thread.
    shared : int
        Bytes of a block.
    """
    match = _ARCH.fullmatch(arch)
    room = _MULTIPROCESSORS.get(int(match[1])) if match else None
    if room is None:
        return None
    warps = -(-threads // _WARP)
    for_warp = _rounded(max(1, registers) * _WARP, _REGISTER_UNIT)
    fitting = _REGISTERS // for_warp // _SCHEDULERS * _SCHEDULERS
    for_block = _rounded(max(0, shared) + _SYSTEM_SHARED, _SHARED_UNIT)
    most = {
        "warps": room.warps // warps,
        "blocks": room.blocks,
        "registers": fitting // warps,
        "shared memory": room.shared // for_block,
    }
    limit = min(most, key=lambda name: most[name])
    return Occupancy(most[limit], most[limit] * warps / room.warps, limit)


def _rounded(number: int, unit: int) -> int:
    return -(-number // unit) * unit
