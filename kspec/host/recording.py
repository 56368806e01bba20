"""Recordings of reviewed launches (``rt/review.h``), as frozen data.

::

    recorded = kernel.launch((64, 1, 1), (256, 1, 1), params)   # of a module for "review"
    recorded.accesses[0].sectors

Positions are offsets in the image; `kspec.reviews` looks them up.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from dataclasses import field
from typing import Any

from kspec.dataclass import dataclass
from kspec.host import runtime
from kspec.model.stages import Figures, MachineCode

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
    """A basic block of the kernel, for one way of calls that leads to it.

    Attributes
    ----------
    pc : int
        Return address of its hook, from the start of the image.
    successors : int
        Basic blocks that were seen to follow it.
    visits, lanes : int
        Visits of warps, and their threads.
    diverged : int
        Visits after which threads went different ways.
    groups : int
        Groups of such threads that came to where their ways meet, one after the other.
    join : int
        The basic block where they meet, by its number; at the end, the number of all.
    call : int
        Return address of the call of its function; 0 if none was seen.
    outer : int
        The basic block that made the call.
    """

    pc: int
    successors: int
    visits: int
    lanes: int
    diverged: int
    groups: int
    join: int
    call: int
    outer: int


@dataclass(frozen=True)
class Edge:
    """Warps that went from one basic block to another, and their threads.

    The basic blocks are given by their numbers; that of the end is larger than all.
    """

    before: int
    after: int
    visits: int
    lanes: int


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
    again : tuple of int
        Sectors that a warp loads again after it has loaded from 1, 2, 4, 8, ... lines.
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
    again: tuple[int, ...]


@dataclass(frozen=True)
class Waits:
    """Waits of all warps for what they load.

    Attributes
    ----------
    steps : int
        Loads, or loads that are on their way together, one after the other.
    turns : int
        Further basic blocks with loads, of which a compiler may make some at a time.
    """

    steps: int
    turns: int


@dataclass(frozen=True)
class Recording:
    """A launch: `sampled` of its `blocks`, with `warps` and `threads`, were to be looked at.

    They did `kept` events that were looked at, and `dropped` ones that were only counted: all of
    `skipped` blocks, and the later ones of `lost` threads. Warps came to a block's barrier
    `barriers` times. `block_lanes` and `request_lanes` are the threads of basic blocks and
    accesses, with those that a compiler lets come along because a way is short.
    """

    blocks: int
    sampled: int
    skipped: int
    warps: int
    threads: int
    lost: int
    kept: int
    dropped: int
    barriers: int
    block_lanes: int
    request_lanes: int
    global_waits: Waits
    shared_waits: Waits
    accesses: tuple[MemoryAccess, ...]
    basic_blocks: tuple[BasicBlock, ...]
    edges: tuple[Edge, ...]
    traffic: tuple[Traffic, ...]

    @property
    def stretch(self) -> float:
        """Events for each that was kept, in the blocks that were looked at."""
        return 1 + self.dropped / self.kept if self.kept else 1.0

    @property
    def waits(self) -> float:
        """Steps of loads that a warp makes one after the other, on average."""
        return self.stretch * self.global_waits.steps / self.warps if self.warps else 0.0

    @property
    def scale(self) -> float:
        """Events of the launch for each that was kept."""
        return self.stretch * self.blocks / max(1, self.sampled)


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
    code_of : callable or None
        Returns the kernel's machine code with line tables, by architecture; None: there is none.
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
    code_of: Callable[[str], MachineCode | None] | None = field(default=None, repr=False)


def read_recording(record: runtime.ReviewRecord) -> Recording:
    """Return a copy of a record, which the runtime keeps until the next launch."""
    return Recording(
        record.blocks,
        record.sampled,
        record.skipped,
        record.warps,
        record.threads,
        record.lost,
        record.kept,
        record.dropped,
        record.barriers,
        record.block_lanes,
        record.request_lanes,
        Waits(*_values(record.global_)),
        Waits(*_values(record.shared)),
        tuple(_access(*_values(one)) for one in record.sites[: record.site_count]),
        tuple(BasicBlock(*_values(one)) for one in record.basic_blocks[: record.basic_block_count]),
        tuple(Edge(*_values(one)) for one in record.edges[: record.edge_count]),
        tuple(_traffic(*_values(one)) for one in record.regions[: record.region_count]),
    )


def _values(record: ctypes.Structure) -> Iterator[Any]:
    """Yield the fields of a record, which the dataclasses have in its order."""
    return (getattr(record, name) for name, *_ in record._fields_)


def _access(pc: int, access: int, *figures: int) -> MemoryAccess:
    return MemoryAccess(pc, KINDS[access], *figures)


def _traffic(name: bytes | None, begin: int, *figures: Any) -> Traffic:
    values: tuple[Any, ...] = (*figures[:-1], tuple(figures[-1]))
    return Traffic((name or b"").decode(), *values)
