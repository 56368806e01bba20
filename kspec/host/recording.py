"""Recordings of reviewed launches (``rt/review.h``), as frozen data.

::

    recorded = kernel.launch((64, 1, 1), (256, 1, 1), params)   # of a module for "review"
    recorded.accesses[0].sectors

Positions are offsets in the image; `kspec.reviews` looks them up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from kspec.host import runtime
from kspec.model.stages import Figures

KINDS = ("load", "store", "atomic")  # AccessClass of rt/review_state.h
GLOBAL, SHARED, MODULE = range(3)  # its Space


@dataclass(frozen=True)
class MemoryAccess:
    """One instruction that accesses memory, over all sampled warps.

    Attributes
    ----------
    pc : int
        Return address of its hook, from the start of the image.
    kind : str
        ``"load"``, ``"store"`` or ``"atomic"``.
    space : int
        `GLOBAL`, `SHARED`, or `MODULE`: a variable of the source.
    size : int
        Bytes that a thread accesses.
    requests, lanes : int
        Warps that executed it, and their threads that took part.
    sectors, tags, bytes : int
        Sectors of 32 bytes that were touched, lines of 128 bytes, and bytes asked for: in each
        request once.
    wavefronts, ideal : int
        Passes of shared memory, and the fewest there could be.
    contention : int
        Threads with one address, the most of each request added up.
    misaligned : int
        Requests that begin within a sector.
    address : int
        One that was accessed.
    """

    pc: int
    kind: str
    space: int
    size: int
    requests: int
    lanes: int
    sectors: int
    tags: int
    bytes: int
    wavefronts: int
    ideal: int
    contention: int
    misaligned: int
    address: int


@dataclass(frozen=True)
class BasicBlock:
    """A basic block of the kernel: visits of warps, their threads, and how often they parted."""

    pc: int
    successors: int
    visits: int
    lanes: int
    diverged: int


@dataclass(frozen=True)
class Traffic:
    """Sectors that went past the first cache, and past the second, for one region of memory.

    Attributes
    ----------
    name : str
        An array in it; empty if there is none.
    nbytes : int
        Its size; 0 for all memory that is in no region.
    l2_loads, l2_stores, l2_atomics : int
        Sectors between multiprocessors and the second cache.
    atomic_lanes : int
        Threads of its atomics; a warp with one address counts as one.
    dram_loads, dram_stores : int
        Sectors between that and memory, if it kept what neighbouring blocks share.
    dram_partial : int
        Sectors stored of which some bytes are neither stored nor loaded: memory is read for them.
    """

    name: str
    nbytes: int
    l2_loads: int
    l2_stores: int
    l2_atomics: int
    atomic_lanes: int
    dram_loads: int
    dram_stores: int
    dram_partial: int


@dataclass(frozen=True)
class Recording:
    """A launch: `sampled` of its `blocks` were looked at, with `warps` and `threads`.

    `lost` threads did more than was kept.
    """

    blocks: int
    sampled: int
    warps: int
    threads: int
    lost: int
    accesses: tuple[MemoryAccess, ...]
    basic_blocks: tuple[BasicBlock, ...]
    traffic: tuple[Traffic, ...]


@dataclass(frozen=True)
class Variable:
    """A variable of a kernel's source, outside of functions: where it is, and its bytes."""

    name: str
    address: int
    nbytes: int
    constant: bool


@dataclass(frozen=True)
class ReviewedLaunch:
    """A recorded launch, and all that its review needs.

    Attributes
    ----------
    kernel : str
        Its name.
    grid, block : tuple of int
        Blocks, and threads of each.
    shared_mem : int
        Bytes of dynamic shared memory.
    recording : Recording
        What the launch did.
    code : bytes
        The image that positions are in.
    variables : tuple of Variable
        Of the source.
    line_of : callable or None
        Returns a line of a file of the source.
    figures_of : callable or None
        Returns what a GPU's compiler says of the kernel, by architecture; None: there is none.
    """

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_mem: int
    recording: Recording
    code: bytes = field(repr=False)
    variables: tuple[Variable, ...] = ()
    line_of: Callable[[str, int], str] | None = field(default=None, repr=False)
    figures_of: Callable[[str], Figures | None] | None = field(default=None, repr=False)


def read_recording(record: runtime.ReviewRecord) -> Recording:
    """Return a copy of a record, which the runtime keeps until the next launch."""
    return Recording(
        record.blocks,
        record.sampled,
        record.warps,
        record.threads,
        record.lost,
        tuple(
            MemoryAccess(
                one.pc,
                KINDS[one.access],
                one.space,
                one.size,
                one.requests,
                one.lanes,
                one.sectors,
                one.tags,
                one.bytes,
                one.wavefronts,
                one.ideal,
                one.contention,
                one.misaligned,
                one.address,
            )
            for one in record.sites[: record.site_count]
        ),
        tuple(
            BasicBlock(one.pc, one.successors, one.visits, one.lanes, one.diverged)
            for one in record.basic_blocks[: record.basic_block_count]
        ),
        tuple(
            Traffic(
                (one.name or b"").decode(),
                one.size,
                one.l2_loads,
                one.l2_stores,
                one.l2_atomics,
                one.atomic_lanes,
                one.dram_loads,
                one.dram_stores,
                one.dram_partial,
            )
            for one in record.regions[: record.region_count]
        ),
    )
