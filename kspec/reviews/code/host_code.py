"""A recorded launch in, the source of each of its basic blocks on the host out.

::

    places = read_places(launch)
    places.visited[0]       # {(("kernel.cu", 3),): 12, (("kernel.cu", 4),): 5}
"""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Iterator, Sequence

from kspec.dataclass import dataclass
from kspec.host.locate import source_frames
from kspec.host.recording import BasicBlock, ReviewedLaunch
from kspec.reviews.code.elf import FUNCTION, ElfSection, read_sections, read_symbols
from kspec.reviews.code.line_table import Frames

_CALL = b"\xe8"  # x86-64: a call, and the distance to its target
_CALL_SIZE = 5
_STEP = 2  # bytes of code from one that is looked up to the next
_MOST_CALLS = 64
_MOST_PLACES = 1 << 18  # that are looked up


@dataclass(frozen=True)
class Places:
    """Source of basic blocks.

    Attributes
    ----------
    visited : tuple of Counter
        For each basic block of a recording its lines, with those of the calls that lead to it, the
        innermost first, and about how much of its code is from there.
    unvisited : frozenset of tuple
        Lines of basic blocks that no thread came to, with those of the calls that were inlined.
    """

    visited: tuple[Counter[Frames], ...]
    unvisited: frozenset[Frames]


def read_places(launch: ReviewedLaunch) -> Places | None:
    """Return the places of a launch; None on machines whose code is not read."""
    blocks = launch.recording.basic_blocks
    pcs = sorted({one.pc for one in blocks})
    stretches = _stretches(launch.code, pcs)
    if not stretches or not all(pc in stretches for pc in pcs):
        return None
    wanted = {one.call - 1 for one in blocks if one.call}
    for begin, end in stretches.items():
        wanted.update(range(begin, end, _STEP))
    if len(wanted) > _MOST_PLACES:
        return None
    frames = {
        offset: tuple(_frame(one) for one in texts)
        for offset, texts in source_frames(launch.code, wanted).items()
    }
    lines = {
        begin: Counter(frames[at] for at in range(begin, end, _STEP) if at in frames)
        for begin, end in stretches.items()
    }
    return Places(
        tuple(
            Counter(
                {
                    (*inner, *_calls(blocks, number, frames)): count
                    for inner, count in lines[one.pc].items()
                }
            )
            for number, one in enumerate(blocks)
        ),
        frozenset(inner for begin in stretches.keys() - {*pcs} for inner in lines[begin]),
    )


def _frame(text: str) -> tuple[str, int]:
    file, _, line = text.rpartition(":")
    return file, int(line)


def _calls(blocks: Sequence[BasicBlock], number: int, frames: dict[int, Frames]) -> Frames:
    """Return the lines of the calls that led to a basic block."""
    found: Frames = ()
    for _ in range(_MOST_CALLS):
        one = blocks[number]
        found += frames.get(one.call - 1, ())
        if not one.call or one.outer >= len(blocks):
            break
        number = one.outer
    return found


def _stretches(code: bytes, pcs: Sequence[int]) -> dict[int, int]:
    """Return begin and end of all basic blocks of the functions that some are of."""
    sections = read_sections(code)
    hooks = sorted({*_hooks(sections, pcs), *pcs})
    functions = [
        (one.value, one.value + one.size)
        for one in read_symbols(sections)
        if one.kind == FUNCTION and one.size
    ]
    found = {}
    for begin, end in sorted(functions):
        inside = hooks[bisect.bisect_left(hooks, begin) : bisect.bisect_left(hooks, end)]
        if not inside or not any(pc in inside for pc in pcs):
            continue
        for hook, after in zip(inside, [*inside[1:], end + _CALL_SIZE], strict=True):
            found[hook] = max(hook, after - _CALL_SIZE)
    return found


def _hooks(sections: Sequence[ElfSection], pcs: Sequence[int]) -> Iterator[int]:
    """Yield the return addresses of all calls of the function that is called at these."""
    texts = [one for one in sections if one.name.startswith(".text") and one.data]
    hook = next((_target(one, pcs[0]) for one in texts if pcs and _holds(one, pcs[0])), None)
    for text in texts if hook is not None else ():
        at = text.data.find(_CALL)
        while at >= 0:
            after = text.address + at + _CALL_SIZE
            if _target(text, after) == hook:
                yield after
            at = text.data.find(_CALL, at + 1)


def _holds(text: ElfSection, address: int) -> bool:
    return _CALL_SIZE <= address - text.address <= len(text.data)


def _target(text: ElfSection, after: int) -> int | None:
    """Return the target of the call before an address; None if there is none."""
    at = after - text.address - _CALL_SIZE
    if text.data[at : at + 1] != _CALL or at + _CALL_SIZE > len(text.data):
        return None
    return after + int.from_bytes(text.data[at + 1 : at + _CALL_SIZE], "little", signed=True)
