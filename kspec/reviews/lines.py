"""Positions in an image in, lines of the source out: its accesses of memory, and its branches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kspec.dataclass import dataclass
from kspec.host.locate import source_positions
from kspec.host.recording import (
    GLOBAL,
    SHARED,
    BasicBlock,
    MemoryAccess,
    Recording,
    ReviewedLaunch,
)
from kspec.reviews.code.weights import executed_on

SECTOR = 32  # bytes
_HOOK = 5  # bytes of a call instruction
# Instructions of a GPU for each access, basic block and warp, as fitted.
_PER_ACCESS, _PER_BLOCK, _PER_WARP = 2.5, 0.9, 4.0
_UNKNOWN = ("", 0)


@dataclass(frozen=True)
class AccessedLine:
    """Accesses of one kind that a line of the source makes, over the whole launch.

    Attributes
    ----------
    file, line : str, int
        Place; ``""`` and 0 if the image does not say.
    space : str
        ``"global"``, ``"shared"``, ``"constant"``.
    kind : str
        ``"load"``, ``"store"``, ``"atomic"``.
    requests : int
        Warps that made one. A GPU's compiler may join, repeat or drop some.
    lanes : int
        Their threads that took part.
    sectors_per_request : float
        Sectors of 32 bytes that a request touches; of shared memory 0.
    bytes_used, bytes_moved : int
        Bytes that threads asked for, each once in a request, and those of all sectors.
    passes : int
        Passes of shared memory; of others 0.
    conflict_ways : float
        Passes for each that is needed: 1 without conflicts; of other memory 0.
    misaligned : float
        Share of the requests that begin within a sector.
    contention : float
        Threads of a request that change the same address, if it is an atomic; else 0.
    """

    file: str
    line: int
    space: str
    kind: str
    requests: int
    lanes: int
    sectors_per_request: float
    bytes_used: int
    bytes_moved: int
    passes: int
    conflict_ways: float
    misaligned: float
    contention: float

    @property
    def efficiency(self) -> float:
        """Bytes used of bytes moved; 1 where nothing moves."""
        return self.bytes_used / self.bytes_moved if self.bytes_moved else 1.0

    @property
    def sectors_needed(self) -> float:
        """The fewest sectors that could hold the bytes of a request."""
        return max(1.0, self.bytes_used / SECTOR / self.requests) if self.requests else 1.0

    @property
    def is_coalesced(self) -> bool:
        """Whether a request touches less than twice the sectors that it needs."""
        return self.sectors_per_request < 2 * self.sectors_needed

    @property
    def active(self) -> float:
        """Threads that take part, of 32."""
        return self.lanes / self.requests if self.requests else 0.0


@dataclass(frozen=True)
class Branch:
    """A place where threads of a warp can go apart.

    Attributes
    ----------
    file, line : str, int
        Place.
    visits : int
        Warps that came there.
    diverged : float
        Share of them whose threads went different ways.
    active : float
        Threads that came, of 32.
    """

    file: str
    line: int
    visits: int
    diverged: float
    active: float


@dataclass(frozen=True)
class Located:
    """Lines and branches of a launch, and the instructions that it takes.

    Attributes
    ----------
    lines : tuple of AccessedLine
        By place.
    branches : tuple of Branch
        Those where some warp went apart, by place.
    instructions : float
        Estimated instructions of all warps.
    warp_efficiency : float
        Threads that take part in an instruction, of 32, on average.
    """

    lines: tuple[AccessedLine, ...]
    branches: tuple[Branch, ...]
    instructions: float
    warp_efficiency: float


def locate(launch: ReviewedLaunch, arch: str) -> Located:
    """Return the lines of a recorded launch, as a GPU of an architecture would execute them."""
    recorded = launch.recording
    blocks = recorded.basic_blocks
    ends = _ends(sorted({one.pc for one in blocks}))
    wanted = {one.pc - 1 for one in recorded.accesses} | {*ends.values()}
    places = {
        offset: _place(text) for offset, text in source_positions(launch.code, wanted).items()
    }
    scale = recorded.scale
    issued, active = _instructions(recorded)
    if any(one.diverged for one in blocks):
        executed = executed_on(launch, arch)
        active = executed.active if executed else active
    return Located(
        tuple(_lines(launch, recorded.accesses, places, scale)),
        tuple(_branches(blocks, ends, places, scale)),
        issued * scale,
        active,
    )


def _place(text: str) -> tuple[str, int]:
    path, _, line = text.rpartition(":")
    return path, int(line)


def _space(launch: ReviewedLaunch, access: MemoryAccess) -> str:
    if access.space == SHARED:
        return "shared"
    if access.space == GLOBAL:
        return "global"
    for one in launch.variables:
        if 0 <= access.address - one.address < one.nbytes:
            return "constant" if one.constant else "global"
    return "constant"  # tables and literals


def _lines(
    launch: ReviewedLaunch,
    accesses: Iterable[MemoryAccess],
    places: Mapping[int, tuple[str, int]],
    scale: float,
) -> list[AccessedLine]:
    found: dict[tuple[str, int, str, str], list[MemoryAccess]] = {}
    for one in accesses:
        place = places.get(one.pc - 1, _UNKNOWN)
        found.setdefault((*place, _space(launch, one), one.kind), []).append(one)
    return [
        _line(*key, ones, scale) for key, ones in sorted(found.items(), key=lambda item: item[0])
    ]


def _line(
    file: str, line: int, space: str, kind: str, ones: list[MemoryAccess], scale: float
) -> AccessedLine:
    requests = sum(one.requests for one in ones)
    sectors = sum(one.sectors for one in ones)
    ideal = sum(one.ideal for one in ones)
    return AccessedLine(
        file,
        line,
        space,
        kind,
        round(requests * scale),
        round(sum(one.lanes for one in ones) * scale),
        sectors / requests if space == "global" else 0.0,
        round(sum(one.bytes for one in ones) * scale),
        round(sectors * SECTOR * scale),
        round(sum(one.wavefronts for one in ones) * scale),
        sum(one.wavefronts for one in ones) / ideal if ideal else 0.0,
        sum(one.misaligned for one in ones) / requests,
        sum(one.contention for one in ones) / requests,
    )


def _ends(pcs: Sequence[int]) -> dict[int, int]:
    """Return for each basic block an address in its last instruction: before the next block."""
    following = zip(pcs, [*pcs[1:], None], strict=True)
    return {
        pc: pc - 1 if after is None else max(pc - 1, after - _HOOK - 1) for pc, after in following
    }


def _branches(
    blocks: Iterable[BasicBlock],
    ends: Mapping[int, int],
    places: Mapping[int, tuple[str, int]],
    scale: float,
) -> list[Branch]:
    found: dict[tuple[str, int], list[BasicBlock]] = {}
    for one in blocks:
        if one.diverged:
            found.setdefault(places.get(ends[one.pc], _UNKNOWN), []).append(one)
    return [
        Branch(
            *place,
            round(sum(one.visits for one in ones) * scale),
            sum(one.diverged for one in ones) / sum(one.visits for one in ones),
            sum(one.lanes for one in ones) / sum(one.visits for one in ones),
        )
        for place, ones in sorted(found.items())
    ]


def _instructions(recorded: Recording) -> tuple[float, float]:
    """Return estimated instructions of warps, and the threads that take part in one."""
    visits = sum(one.visits for one in recorded.basic_blocks)
    requests = sum(one.requests for one in recorded.accesses)
    warps = recorded.warps / recorded.stretch  # of those whose events were kept
    issued = _PER_BLOCK * visits + _PER_ACCESS * requests + _PER_WARP * warps
    threads = recorded.block_lanes + recorded.request_lanes
    return issued, threads / (visits + requests) if visits else 0.0
