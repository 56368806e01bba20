"""A recorded launch and a GPU's machine code in, the threads of its instructions out.

A review records the threads of each warp that come to a basic block on the host.  Only the compiler
of the GPU knows how many instructions that is; and it predicates short ways, unrolls loops, and
moves code.  So each basic block of the machine code is given the visits of the basic block of the
host that most of its instructions have their lines from.  Some cases need more:

* *Calls*: lines of functions that are called in several places are told apart by the lines of the
  calls, inlined ones included.
* *Loops*: code that is in a loop on the host and in none of the GPU is an unrolled loop; it is
  executed whenever the loop is entered.  Where one loop became two, the larger one is unrolled, and
  the other does the rest.
* *Predication*: a way without a basic block of its own is executed with all threads of the basic
  block that contains it.
* *Ways that meet again*: each group of threads executes the instruction that waits for the others.
* *Rare values*: the extra instructions of divisions and roots for them are left out.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, cached_property

from kspec.dataclass import dataclass
from kspec.host.recording import Recording, ReviewedLaunch
from kspec.reviews.code.host_code import Places, read_places
from kspec.reviews.code.line_table import Frame, Frames
from kspec.reviews.code.loops import NaturalLoop, find_loops, nests
from kspec.reviews.code.machine_code import Block, Instruction, read_blocks

_UNVISITED = -1  # in the place of a basic block of the host: one that no thread came to


@dataclass(frozen=True)
class Executed:
    """Instructions of warps, and their threads."""

    instructions: float
    lanes: float

    @property
    def active(self) -> float:
        """Threads of an instruction."""
        return self.lanes / self.instructions if self.instructions else 0.0


def executed_on(launch: ReviewedLaunch, arch: str) -> Executed | None:
    """Return the instructions of the warps that were looked at; None if they cannot be known.

    The numbers are those of the kept events.
    """
    code = launch.code_of(arch) if launch.code_of else None
    blocks = read_blocks(code) if code else ()
    places = read_places(launch) if blocks else None
    if places is None:
        return None
    host = _Host(launch.recording, places)
    parts = [*_parts(blocks, _Matching(blocks, host), host)]
    found = Executed(sum(one.instructions for one in parts), sum(one.lanes for one in parts))
    return found if found.instructions else None


class _Host:
    """The basic blocks of the host: their visits, and their lines."""

    def __init__(self, recorded: Recording, places: Places) -> None:
        self.blocks = recorded.basic_blocks
        self._edges = recorded.edges
        self.every = Executed(
            recorded.warps / recorded.stretch, recorded.threads / recorded.stretch
        )
        count = len(self.blocks)
        self.flow: list[list[int]] = [[] for _ in range(count)]
        for one in recorded.edges:
            if one.after < count:
                self.flow[one.before].append(one.after)
        visits = {(one.before, one.after): one.visits for one in recorded.edges}
        self.loops = find_loops(self.flow, visits)
        self.nests = nests(count, self.loops)
        self.unvisited = places.unvisited
        self.rows: dict[Frame, list[tuple[int, Frames, int]]] = defaultdict(list)
        for number, lines in enumerate(places.visited):
            for frames, size in lines.items():
                self.rows[frames[0]].append((number, frames, size))

    @cached_property
    def files(self) -> set[str]:
        """Names of all files that lines are from."""
        return {file for file, _ in self.rows} | {one[0][0] for one in self.unvisited}

    def visits(self, block: int) -> Executed:
        """Return the visits of a basic block."""
        return Executed(self.blocks[block].visits, self.blocks[block].lanes)

    def entries(self, loop: NaturalLoop) -> Executed:
        """Return the entries of a loop."""
        ways = [
            one
            for one in self._edges
            if one.after == loop.header and one.before not in loop.latches
        ]
        if not ways:
            return self.every
        return Executed(sum(one.visits for one in ways), sum(one.lanes for one in ways))


def _agreement(one: Frames, other: Frames) -> int:
    """Return the number of frames that two begin with in common."""
    count = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        count += 1
    return count


class _Matching:
    """For each basic block of the machine code, the one of the host that it is from."""

    def __init__(self, blocks: Sequence[Block], host: _Host) -> None:
        self._blocks, self._host = blocks, host
        self.loops = find_loops([one.successors for one in blocks])
        self.nests = nests(len(blocks), self.loops)
        self._file_of = cache(self._find_file)
        self._own_frames = cache(self._find_frames)
        self._candidates = cache(self._find_candidates)
        self._is_unvisited = cache(self._find_unvisited)

    @cached_property
    def matches(self) -> list[int | None]:
        """Numbers of basic blocks of the host; None: it is not executed, or unknown."""
        wanted = [self._vote(number) for number in range(len(self._blocks))]
        return _reached(self._blocks, wanted)

    def _find_file(self, file: str) -> str | None:
        """Return the host's name of a file; None of those that are not the user's or ours."""
        return next(
            (
                own
                for own in sorted(self._host.files)
                if own == file or file.endswith(f"/{own}") or own.endswith(f"/{file}")
            ),
            None,
        )

    def _find_frames(self, frames: Frames) -> Frames:
        known = ((self._file_of(file), line) for file, line in frames)
        return tuple((file, line) for file, line in known if file is not None)

    def _find_candidates(self, frames: Frames) -> list[tuple[int, int]]:
        """Return basic blocks with the innermost line, those whose calls are most alike."""
        calls = Counter(frames[1:])
        rows = [
            ((calls & Counter(own[1:])).total(), number, size)
            for number, own, size in self._host.rows.get(frames[0], ())
        ]
        best = max((alike for alike, _, _ in rows), default=0)
        return [(number, size) for alike, number, size in rows if alike == best]

    def _find_unvisited(self, frames: Frames) -> bool:
        """Whether the host has these lines in basic blocks that no thread came to."""
        rows = self._host.rows.get(frames[0], ())
        there = [one for one in self._host.unvisited if one[0] == frames[0]]
        if there and not rows:
            return True
        whole = max((len(one) for one in there if frames[: len(one)] == one), default=0)
        return whole > max((_agreement(frames, own) for _, own, _ in rows), default=0)

    def _vote(self, number: int) -> int | None:
        """Return the basic block that most instructions are from; -1: one that was not visited."""
        block = self._blocks[number]
        # Threads of such accesses are only some of the block's.
        partly = {
            one
            for each in block.instructions
            if each.predicated and each.accesses_memory and self._own_frames(each.frames)
            for one, _ in self._candidates(self._own_frames(each.frames))
        }
        depth = len(self.nests[number])
        sure = [one for one in block.instructions if one.is_branch or not one.predicated]
        votes = self._votes(sure, depth, partly) or self._votes(block.instructions, depth, partly)
        return max(votes, key=lambda one: (votes[one], -one)) if votes else None

    def _votes(
        self, code: Iterable[Instruction], depth: int, partly: set[int]
    ) -> Counter[int] | dict[int, float]:
        votes: dict[int, float] = defaultdict(float)
        for one in code:
            frames = self._own_frames(one.frames)
            if one.is_mark or not frames:
                continue
            if self._is_unvisited(frames):
                votes[_UNVISITED] += 1
                continue
            found = self._candidates(frames)
            found = [row for row in found if row[0] not in partly] or found
            if not found:
                continue
            nest = self._host.nests
            least = min(depth, max(len(nest[block]) for block, _ in found))
            found = [row for row in found if len(nest[row[0]]) >= least]
            size = sum(size for _, size in found)
            for block, own in found:
                votes[block] += own / size
        return votes


def _reached(blocks: Sequence[Block], wanted: Sequence[int | None]) -> list[int | None]:
    """Return the matches of all blocks, those that are not reached unvisited.

    A block whose lines were not visited is executed nevertheless where nothing else can follow; it
    is taken to be like the one before.
    """
    unvisited = _unvisited(blocks, wanted)
    found: list[int | None] = [_UNVISITED] * len(blocks)
    found[0] = None if wanted[0] == _UNVISITED else wanted[0]
    seen, left = {0}, [0]
    while left:
        number = left.pop()
        after = [one for one in blocks[number].successors if not blocks[one].is_slow_path]
        for one in [one for one in after if one not in unvisited] or after:
            if one not in seen:
                seen.add(one)
                left.append(one)
                found[one] = found[number] if wanted[one] == _UNVISITED else wanted[one]
    return found


def _unvisited(blocks: Sequence[Block], wanted: Sequence[int | None]) -> set[int]:
    """Return the blocks that were not visited, and those that lead to such only."""
    found = {number for number, one in enumerate(wanted) if one == _UNVISITED}
    count = -1
    while count != len(found):
        count = len(found)
        for number, one in enumerate(blocks):
            if one.successors and found.issuperset(one.successors):
                found.add(number)
    return found


def _parts(blocks: Sequence[Block], matching: _Matching, host: _Host) -> Iterator[Executed]:
    """Yield the instructions of each basic block, and the waits where ways meet again."""
    loops = _Executions(blocks, matching, host)
    for number, block in enumerate(blocks):
        if matching.matches[number] != _UNVISITED:
            visits, size = loops.visits(number), len(block.instructions)
            yield Executed(size * visits.instructions, size * visits.lanes)
    for number in range(len(host.blocks)):
        yield Executed(_waits(number, matching, loops, host), 0.0)


class _Executions:
    """Executions of the basic blocks of the machine code."""

    def __init__(self, blocks: Sequence[Block], matching: _Matching, host: _Host) -> None:
        self._blocks, self._matching, self._host = blocks, matching, host
        self._before: list[list[int]] = [[] for _ in blocks]
        for number, one in enumerate(blocks):
            for after in one.successors:
                self._before[after].append(number)
        # For loops of the host those of the machine code, and the blocks of each.
        self.of_host: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
        for number, match in enumerate(matching.matches):
            nest = matching.nests[number]
            if match is not None and match >= 0 and nest and host.nests[match]:
                self.of_host[host.nests[match][-1]][nest[-1]].append(number)

    def visits(self, number: int) -> Executed:
        """Return the executions of a basic block, and their threads."""
        match, nest = self._matching.matches[number], self._matching.nests[number]
        if match is None:
            return self._host.every
        visits, own = self._host.visits(match), self._host.nests[match]
        if len(own) > len(nest):  # unrolled
            entries = self._host.entries(self._host.loops[own[len(nest)]])
            if entries.instructions < visits.instructions:
                lanes = min(visits.active, entries.active) * entries.instructions
                return Executed(entries.instructions, lanes)
            return visits
        ahead = self._entries_ahead(number)
        if ahead is not None:
            return ahead
        share = math.prod(self._shares.get(one, 1.0) for one in nest)
        return Executed(share * visits.instructions, share * visits.lanes)

    def _entries_ahead(self, number: int) -> Executed | None:
        """Return the entries of a loop that a block stands before, after a branch around both."""
        following, nest = self._blocks[number].successors, self._matching.nests[number]
        before = self._before[number]
        if len(following) != 1 or len(before) != 1 or len(self._blocks[before[0]].successors) < 2:
            return None
        loop = next((one for one in self._matching.loops if one.header == following[0]), None)
        if loop is None or number in loop.body:
            return None
        inside: Counter[int] = Counter()
        for one in loop.body:
            match = self._matching.matches[one]
            if match is not None and match >= 0:
                inside.update(self._host.nests[match][len(nest) : len(nest) + 1])
        return self._host.entries(self._host.loops[inside.most_common(1)[0][0]]) if inside else None

    @cached_property
    def _shares(self) -> dict[int, float]:
        """For loops of the machine code, the iterations that they do of one of the host.

        Compilers make of one loop an unrolled one and one for what is left, or two for different
        cases; then the larger is taken to do all.
        """
        shares: dict[int, float] = {}
        for own, found in self.of_host.items():
            bodies = {one: self._matching.loops[one].body for one in found}
            outer = [one for one in found if not any(bodies[one] < bodies[it] for it in found)]
            large = max(outer, key=lambda one: self._size(own, one, False))
            alike = [one for one in outer if self._are_alike(bodies[one], bodies[large])]
            if len(alike) < 2:
                continue
            small = min(alike, key=lambda one: self._size(own, one, False))
            shares |= dict.fromkeys(alike, 0.0) | self._split(own, small, large)
        return shares

    def _are_alike(self, one: Iterable[int], other: Iterable[int]) -> bool:
        """Whether two loops have half of the smaller one's matches in common."""
        left, right = ({self._matching.matches[block] for block in body} for body in (one, other))
        return 2 * len(left & right) >= min(len(left), len(right))

    def _split(self, own: int, small: int, large: int) -> dict[int, float]:
        """Return the shares of the loop for the rest, and of the unrolled one."""
        loop = self._host.loops[own]
        entries = max(1.0, self._host.entries(loop).instructions)
        trips = max(1.0, self._host.visits(loop.header).instructions / entries)
        accesses = self._size(own, small, True)
        sizes = [self._size(own, one, bool(accesses)) for one in (large, small)]
        times = max(1, round(sizes[0] / sizes[1]))
        rest = trips % times
        return {small: rest / trips, large: (trips - rest) / times / trips}

    def _size(self, own: int, loop: int, accesses: bool) -> int:
        return sum(
            one.accesses_memory or not accesses
            for number in self.of_host[own][loop]
            for one in self._blocks[number].instructions
        )


def _waits(number: int, matching: _Matching, loops: _Executions, host: _Host) -> float:
    """Return the waits of threads that parted after a block of the host, where they meet."""
    block, nest = host.blocks[number], host.nests[number]
    matched = {*matching.matches}
    if not block.groups or block.join not in matched:
        return 0.0
    is_real = any(one != block.join and one in matched for one in host.flow[number])
    if nest:  # a loop that is unrolled has no branches
        inner = host.loops[nest[-1]].body
        is_left = any(one not in inner for one in host.flow[number])
        is_real = nest[-1] in loops.of_host and (is_left or is_real)
    if not is_real:
        return 0.0
    # Each block has the instruction once, for all threads that meet.
    met: float = block.diverged
    outer = next((one for one in nest if block.join not in host.loops[one].body), None)
    if outer is not None:
        met = min(met, host.entries(host.loops[outer]).instructions)
    return max(0.0, block.groups - met)
